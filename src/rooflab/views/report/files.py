"""The files that a report is written to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rooflab.types.report import Report, Row
from rooflab.views.common import advice as helping
from rooflab.views.common import files
from rooflab.views.common import markdown as texts
from rooflab.views.common.lines import Lines
from rooflab.views.common.table import Table
from rooflab.views.common.theme import LIGHT, Theme
from rooflab.views.report import own_times, tables, verdict


def _predicted(name: str) -> Callable[[Row], object]:
    return lambda row: None if row.prediction is None else getattr(row.prediction, name)


def _observed(name: str) -> Callable[[Row], object]:
    return lambda row: None if row.observation is None else getattr(row.observation, name)


_COLUMNS: tuple[tuple[str, Callable[[Row], object]], ...] = (
    ("name", lambda row: row.op.name),
    ("kind", lambda row: row.op.kind),
    ("module", lambda row: row.op.module),
    ("where", lambda row: row.op.where),
    ("phase", lambda row: row.op.phase),
    ("branch", lambda row: row.op.branch),
    ("count", lambda row: row.op.count),
    ("flop", lambda row: row.flop),
    ("macs", lambda row: row.macs),
    ("read_bytes", lambda row: row.read_bytes),
    ("write_bytes", lambda row: row.write_bytes),
    ("accessed_bytes", lambda row: row.accessed_bytes),
    ("wire_bytes", lambda row: None if row.cost is None else row.cost.wire_bytes * row.op.count),
    ("intensity", lambda row: row.intensity),
    ("ridge", lambda row: row.ridge),
    ("time_s", _predicted("time_s")),
    ("low_s", _predicted("low_s")),
    ("high_s", _predicted("high_s")),
    ("floor_s", _predicted("floor_s")),
    ("measured_s", _observed("time_s")),
    ("measured_low_s", _observed("low_s")),
    ("measured_high_s", _observed("high_s")),
    ("bound", lambda row: row.bound),
    ("binds", lambda row: row.binds),
    ("note", lambda row: row.unbound if row.cost is None else row.cost.note),
)


def lines(report: Report) -> Lines:
    """A line for each operation, numbers of all its executions in base units; unknown is empty."""
    rows = [tuple(read(row) for _, read in _COLUMNS) for row in report.rows]
    return Lines(tuple(name for name, _ in _COLUMNS), rows)


def html(report: Report) -> str:
    """The page of `report`; what it needs is imported for it alone, as the terminal needs none of it."""
    from rooflab.views.report.page import html as page

    return page(report)


def cell(report: Report) -> str:
    """What a notebook's cell holds of `report`."""
    from rooflab.views.report.notebook import cell as shown

    return shown(report)


def roofline(report: Report, theme: Theme = LIGHT, width: int = 810, height: int = 460) -> Any:
    """The roofline of `report`, imported when it is drawn."""
    from rooflab.views.report.roofline import roofline as draw

    return draw(report, theme=theme, width=width, height=height)


def markdown(report: Report) -> str:
    """`report` for a pull request: what limits it, totals, what would help, where the time goes."""
    by = "bytes" if report.time_at_least_s is None else "time"
    facts = Table("", ("", ""), tables.facts(report), words=2)
    said = [
        f"{verdict.headline(report)}.",
        verdict.distance(report),
        own_times.sentence(report),
        *tables.coverage(report),
    ]
    helps = helping.lines(report.advice)
    return texts.document(
        report.name,
        [one for one in said if one],
        (facts, own_times.suspects(report), own_times.table(report), tables.operations(report, by, texts.ROWS)),
        warnings=report.warnings,
        listed={"What would help": helps} if helps else {},
        folded=(Table("Conventions", ("",), tuple((each,) for each in report.conventions)),),
    )


# JSON holds everything, CSV has a line for each operation; the pictures are the roofline of its machine with the
# operations on it.
WRITERS = files.writers(html, lines, roofline, markdown)
