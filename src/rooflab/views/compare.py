"""Predictions side by side: one program on several machines, or under several what-ifs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TextIO

from rooflab.types.report import Report
from rooflab.units import duration, si
from rooflab.views import report_tables as tables
from rooflab.views.tables import UNKNOWN, Table
from rooflab.views.terminal import console, drawn_table

# One of the predictions: what it is called ("h200-sxm, bandwidth=2x"), and its report.
Variant = tuple[str, Report]


def show(variants: Sequence[Variant], file: TextIO | None = None) -> None:
    """Print the table of `variants`, the first being what the others are held against."""
    from rich.text import Text

    out = console(file)
    first = variants[0][1]
    whole = first.coverage.complete
    out.print(Text(first.name, style="bold"))
    for line in tables.coverage(first):
        out.print(Text(line, style="" if whole else "bold red"))
    out.print(Text(""))
    for part in drawn_table(table(variants), out.width):
        out.print(part)
    for name, report in variants:
        for warning in report.warnings:
            out.print(Text(f"{name}: {warning}", style="bold red"))


def table(variants: Sequence[Variant]) -> Table:
    """A line for each variant: time, error bar, speed against the first, what binds, how far from the floor."""
    base = variants[0][1].prediction
    rows = []
    for name, report in variants:
        found = report.prediction
        if found is None:
            rows.append((name, *[UNKNOWN] * 6))
            continue
        # A time without some of its operations is a lower bound, and its speed no speed-up.
        left_out = partial(report)
        rows.append(
            (
                name,
                ("> " if left_out else "") + duration(found.time_s),
                f"{duration(found.low_s)} to {duration(found.high_s)}",
                UNKNOWN if base is None or left_out else f"{base.time_s / found.time_s:.3g} ×",
                tables.words(found.bound, found.binds),
                f"{found.floor_s / found.time_s * 100:.0f} %",
                si(report.peak_memory_bytes, "B"),
            )
        )
    columns = ("on", "time", "error bar", "speed", "bound", "floor", "memory")
    note = "Speed: against the first line. Floor: the theoretical minimum, as a share of the time."
    return Table("Predicted", columns, tuple(rows), note=note)


def partial(report: Report) -> bool:
    """Whether the predicted time leaves out operations that are known to take some."""
    return any(
        row.prediction is None and row.op.kind != "view" and (row.cost is None or bool(row.nbytes))
        for row in report.rows
    )


def to_dict(variants: Sequence[Variant]) -> dict[str, Any]:
    """The variants as plain dictionaries: their summary lines, then each whole report."""
    lines = []
    for name, report in variants:
        found = report.prediction
        lines.append(
            {
                "on": name,
                "machine": report.machine.name if report.machine else None,
                "time_s": report.time_s,
                "low_s": report.low_s,
                "high_s": report.high_s,
                "floor_s": None if found is None else found.floor_s,
                "bound": report.bound,
                "binds": report.binds,
            }
        )
    return {"schema": 1, "variants": lines, "reports": [report.to_dict() for _, report in variants]}
