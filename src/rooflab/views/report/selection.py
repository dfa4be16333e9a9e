"""Which operations of a report are listed: those of a kind, module, phase or bound; totals are of the whole."""

from __future__ import annotations

import re
from typing import NamedTuple

from rooflab.errors import UnknownNameError
from rooflab.types.report import Report, Row
from rooflab.units import duration, percent


class Selection(NamedTuple):
    """What is asked of an operation; None asks nothing.

    Attributes:
        kind: "matmul", "pointwise", …; `phase` "forward", …; `bound` "memory-bound", …: these and no others.
        module: it lies in that module, or in one below it.
        op: a part of its name, whatever its case.
    """

    kind: str | None = None
    module: str | None = None
    op: str | None = None
    phase: str | None = None
    bound: str | None = None

    def rows(self, report: Report) -> tuple[Row, ...]:
        """The rows that are asked for.

        Raises:
            UnknownNameError: no operation of that kind, module, name, phase or bound in it, with near matches.
        """
        for name, value in self.asked():
            known = _values(report, name)
            if not any(_holds(name, value, each) for each in known):
                raise UnknownNameError(f"{name} of {report.name}", value, sorted(known))
        return tuple(row for row in report.rows if all(_holds(n, v, _value(row, n)) for n, v in self.asked()))

    def asked(self) -> list[tuple[str, str]]:
        """(what, value) of all that is asked."""
        return [(name, value) for name, value in self._asdict().items() if value is not None]

    def sentence(self, report: Report, rows: tuple[Row, ...]) -> str:
        """How many operations these are of how many, and which part of the time they take."""
        what = ", ".join(f"{name} {value}" for name, value in self.asked())
        said = f"{len(rows):,} of {len(report.rows):,} operations ({what})"
        times = [row.prediction.time_s for row in rows if row.prediction is not None]
        if not times or not report.time_s:
            return f"{said}; totals and subtotals are of the whole."
        share = f"{percent(sum(times) / report.time_s, 1)} of the time, {duration(sum(times))}"
        return f"{said}: {share}; totals and subtotals are of the whole."


def _value(row: Row, name: str) -> str:
    of = {"kind": row.op.kind, "module": row.op.module, "op": row.op.name, "phase": row.op.phase}
    return str((of | {"bound": row.bound})[name] or "")


def _values(report: Report, name: str) -> set[str]:
    return {value for row in report.rows if (value := _value(row, name))}


def _holds(name: str, wanted: str, value: str) -> bool:
    if name == "op":
        return wanted.lower() in value.lower()
    if name == "module":
        return value == wanted or re.match(re.escape(wanted) + r"\.", value) is not None
    return value == wanted
