"""How much of a program was counted, and what was not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rooflab.types.report import Coverage, Row
from rooflab.types.work import Graph, Op


def coverage(graph: Graph, rows: Sequence[Row], reasons: Mapping[str, str] | None = None) -> Coverage:
    """The share of operations with a cost, their share of all tensor bytes, and the names of the rest.

    Args:
        graph: the program.
        rows: one for each of its operations.
        reasons: by name, why an operation has no cost.
    """
    uncounted: dict[str, int] = {}
    all_bytes = counted_bytes = 0.0
    for row in rows:
        touched = row.op.count * _tensor_bytes(graph, row.op)
        all_bytes += touched
        if row.cost is None:
            uncounted[row.op.name] = uncounted.get(row.op.name, 0) + 1
        else:
            counted_bytes += touched
    return Coverage(
        ops=len(rows),
        counted=len(rows) - sum(uncounted.values()),
        bytes_share=counted_bytes / all_bytes if all_bytes else None,
        uncounted=dict(sorted(uncounted.items(), key=lambda item: (-item[1], item[0]))),
        reasons=dict(reasons or {}),
        unknown=graph.unknown,
    )


def _tensor_bytes(graph: Graph, op: Op) -> float:
    return sum(graph.tensors[number].nbytes for number in (*op.inputs, *op.outputs))
