"""The graph of a program in the terminal, on a page and in files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TextIO

from rooflab import units
from rooflab.types.report import Report
from rooflab.views.common import drawing, page
from rooflab.views.common.console import console
from rooflab.views.common.files import Writer, json_text
from rooflab.views.common.table import Table
from rooflab.views.graph import dot, picture
from rooflab.views.graph.nodes import MOST_NODES, Node, graph, leaves, sums


def html(report: Report) -> str:
    """A page of the graph of `report`'s program."""
    return page.render(
        report.name, "graph", facts=_facts(report), pictures=picture.pictures(report), tables=(_table(report),)
    )


def show(report: Report, file: TextIO | None = None) -> None:
    """Print the graph as a tree of modules: each node with its time and what it reads."""
    from rich.text import Text

    out = console(file)
    out.print(Text(report.name, style="bold"))
    for line in (*_facts(report), "", *_tree(report)):
        out.print(Text(line, no_wrap=True, overflow="ellipsis"))


def as_dict(report: Report, most: int | None = None) -> dict[str, Any]:
    """The graph as plain data; every operation unless `most` says how many nodes. Unknown is None."""
    found = graph(report, most)

    def node(each: Node) -> dict[str, Any]:
        what = sums(report, each.rows)
        return {
            "key": each.key,
            "title": each.title,
            "sort": each.sort,
            "module": each.path,
            "rows": list(each.rows),
            "members": list(each.members),
            "alike": each.alike,
            "time_s": what.time_s,
            "time_whole": what.whole,
            "bound": what.bound,
            "bytes": what.nbytes,
            "flop": what.flop,
            "inside": [node(inner) for inner in each.inside],
        }

    return {
        "type": "Graph",
        "schema": 1,
        "name": report.name,
        "operations": found.operations,
        "drawn": found.drawn,
        "nodes": [node(each) for each in found.nodes],
        "edges": [
            {"from": edge.source, "to": edge.target, "bytes": edge.nbytes, "tensors": edge.tensors}
            for edge in found.edges
        ],
    }


WRITERS: dict[str, Writer] = {
    ".json": lambda report: json_text(as_dict(report)).encode(),
    ".html": lambda report: html(report).encode(),
    ".dot": lambda report: dot.text(report).encode(),
    **drawing.writers(picture.drawing),
}


def _facts(report: Report) -> list[str]:
    found = graph(report)
    time = (
        ""
        if report.time_at_least_s is None
        else f", {'' if report.time_s else '> '}{units.duration(report.time_at_least_s)}"
    )
    on = "" if report.machine is None else f" on {report.machine.name}"
    boxes = len(leaves(found.nodes))
    return [f"{found.drawn:,} operations that take time{on}{time}; {boxes} boxes, {len(found.edges)} edges."]


def _tree(report: Report) -> list[str]:
    found = graph(report, MOST_NODES)
    titles = {leaf.key: leaf.title for leaf in leaves(found.nodes)}
    reads: dict[str, list[str]] = {}
    for edge in found.edges:
        reads.setdefault(edge.target, []).append(f"{titles[edge.source]} ({units.si(edge.nbytes, 'B')})")
    lines: list[str] = []

    def put(nodes: Sequence[Node], depth: int) -> None:
        for each in nodes:
            what = sums(report, each.rows)
            time = "" if each.sort == "input" else picture.time_text(what)
            source = f"  ← {', '.join(reads[each.key])}" if each.key in reads else ""
            name = f"{'  ' * depth}{each.title}"
            lines.append(f"{name:<44} {time:>10}  {what.bound or '':<14}{source}".rstrip())
            put(each.inside, depth + 1)

    put(found.nodes, 0)
    return lines


def _whole_title(leaf: Node) -> str:
    """A box's title with its module's path, which its own may repeat."""
    if not leaf.path or leaf.sort == "module":
        return leaf.path or leaf.title
    return f"{leaf.path}: {leaf.title.rpartition(': ')[2]}"


def _table(report: Report) -> Table:
    """Each edge of the picture with what goes along it."""
    found = graph(report)
    titles = {leaf.key: _whole_title(leaf) for leaf in leaves(found.nodes)}
    rows = sorted(found.edges, key=lambda edge: -edge.nbytes)[:40]
    cells = [(titles[edge.source], titles[edge.target], edge.what, units.si(edge.nbytes, "B")) for edge in rows]
    note = f"The largest 40 of {len(found.edges)} edges." if len(found.edges) > 40 else ""
    return Table("Tensors between them", ("from", "to", "tensor", "bytes"), tuple(cells), words=4, note=note)
