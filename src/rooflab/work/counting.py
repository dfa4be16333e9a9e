"""From a captured program to a report: the cost of each operation, coverage, memory, conventions."""

from __future__ import annotations

from collections.abc import Mapping

from rooflab.types.report import Report, Row
from rooflab.types.work import Graph
from rooflab.work.costs import costs, uncosted
from rooflab.work.coverage import coverage
from rooflab.work.peak_memory import peak_memory

CONVENTIONS = (
    "one multiply-add is 2 FLOP and 1 MAC (a complex one 8 and 4); MACs are those of matrix products",
    "bytes are compulsory: each operation reads each tensor once and writes each result once",
    "accessed bytes are those of every load and store of a plain kernel without reuse in registers",
)


def report(graph: Graph, name: str, environment: Mapping[str, str] | None = None) -> Report:
    """The report of `graph`: a row per operation; one without a formula has no cost and lowers coverage.

    Args:
        graph: as captured, or written by hand.
        name: of what was analyzed.
        environment: versions of what captured it.
    """
    op_costs = costs(graph)
    rows = tuple(Row(op=op, cost=cost) for op, cost in zip(graph.ops, op_costs, strict=True))
    return Report(
        name=name,
        graph=graph,
        rows=rows,
        coverage=coverage(graph, rows, uncosted(graph) if None in op_costs else {}),
        memory=peak_memory(graph),
        conventions=(*CONVENTIONS, *graph.conventions),
        environment=dict(environment or {}),
    )
