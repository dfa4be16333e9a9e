"""The graph of a program in DOT, Graphviz's language: every operation, modules as clusters."""

from __future__ import annotations

from collections.abc import Sequence

from rooflab import units
from rooflab.types.report import Report
from rooflab.views.common.drawing import colour, plain
from rooflab.views.common.theme import LIGHT
from rooflab.views.graph.nodes import Node, graph, sums
from rooflab.views.graph.picture import ROLES, time_text, tip


def text(report: Report) -> str:
    """`report`'s program in DOT: as high as they take time, coloured by bound, edges with bytes."""
    found = graph(report, most=None)
    total = sums(report, [n for n, row in enumerate(report.rows) if row.prediction is not None]).time_s
    lines = [
        f"digraph {_quoted(report.name)} {{",
        '  rankdir=TB; fontname="Helvetica"; labelloc=t; label=' + _quoted(report.name) + ";",
        '  node [shape=box, style="filled,rounded", fontname="Helvetica", fontsize=11];',
        '  edge [fontname="Helvetica", fontsize=9, color="#5b6570"];',
    ]
    lines += _nodes(found.nodes, report, total, 1)
    for edge in found.edges:
        label = f"label={_quoted(units.si(edge.nbytes, 'B'))}, tooltip={_quoted(edge.what)}"
        lines.append(f"  {_quoted(edge.source)} -> {_quoted(edge.target)} [{label}];")
    return "\n".join([*lines, "}"]) + "\n"


def _nodes(nodes: Sequence[Node], report: Report, total: float | None, depth: int) -> list[str]:
    lines, pad = [], "  " * depth
    for node in nodes:
        if node.inside:
            lines.append(f"{pad}subgraph {_quoted('cluster_' + node.path)} {{ label={_quoted(node.title)};")
            lines += _nodes(node.inside, report, total, depth + 1)
            lines.append(f"{pad}}}")
            continue
        what = sums(report, node.rows)
        if node.sort == "input":
            lines.append(f"{pad}{_quoted(node.key)} [label={_quoted(node.title)}, style=dashed];")
            continue
        fill = colour(ROLES.get(what.bound or "", "ink"), LIGHT)
        members = "\n".join(node.members)
        label = "\n".join(filter(None, (node.title, members, "" if what.time_s is None else time_text(what))))
        share = (what.time_s or 0.0) / total if total else 0.0
        lines.append(
            f"{pad}{_quoted(node.key)} [label={_quoted(label)}, tooltip={_quoted(tip(node, what))}, "
            f'color="{fill}", fillcolor="{fill}29", height={0.4 + 2 * share:.2f}];'
        )
    return lines


def _quoted(value: str) -> str:
    """A string of DOT: quotes and backslashes escaped, a line's end as \\n."""
    return (
        '"' + plain(value).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", " ") + '"'
    )
