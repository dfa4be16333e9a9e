"""One program on several machines, or under several what-ifs: its reports side by side."""

from __future__ import annotations

from typing import Any

import msgspec

from rooflab.errors import RooflabError, UnknownNameError
from rooflab.types.report import Report
from rooflab.types.result import Result, convert
from rooflab.units import duration

_LINE = ("time_s", "time_at_least_s", "low_s", "high_s", "bound", "binds")


class Variants(Result, msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Reports of one program, the first being what the others are held against.

    Attributes:
        name: of the program.
        names: of each report: where it was predicted, and what was changed ("h200-sxm, bandwidth=2x").
        reports: one for each name.
    """

    WHAT = "variants of a report"
    DERIVED = ("variants",)

    name: str
    names: tuple[str, ...]
    reports: tuple[Report, ...]
    schema: int = 1

    def __post_init__(self) -> None:
        if len(self.names) != len(self.reports):
            raise RooflabError(
                f"variants: {len(self.names)} names and {len(self.reports)} reports, expected as many"
            )

    def __getitem__(self, name: str) -> Report:
        """The report of that name.

        Raises:
            UnknownNameError: no such variant, with near matches.
        """
        if name not in self.names:
            raise UnknownNameError(f"variant of {self.name}", name, self.names)
        return self.reports[self.names.index(name)]

    def _summary(self) -> str:
        times = (f"{name} {_time(report)}" for name, report in zip(self.names, self.reports, strict=True))
        return f"{self.name}: {'; '.join(times)}"

    def to_dict(self) -> dict[str, Any]:
        """Plain dictionaries, lists and numbers: a summary line for each, then each whole report."""
        lines = []
        for name, report in zip(self.names, self.reports, strict=True):
            prediction = report.prediction
            line: dict[str, Any] = {"on": name, "machine": report.machine.name if report.machine else None}
            line |= {key: getattr(report, key) for key in _LINE}
            lines.append({**line, "floor_s": None if prediction is None else prediction.floor_s})
        return {
            "type": type(self).__name__,
            "schema": self.schema,
            "name": self.name,
            "variants": lines,
            "reports": [report.to_dict() for report in self.reports],
        }

    @classmethod
    def from_dict(cls, raw: dict[str, Any]) -> Variants:
        """The variants that `to_dict` was called on (see `Result.from_dict`)."""
        plain = {**raw, "names": [], "reports": []} if isinstance(raw, dict) else raw
        empty = convert(cls, plain)
        lines, held = raw.get("variants"), raw.get("reports")
        if not isinstance(lines, list) or not isinstance(held, list) or not held:
            raise RooflabError(f"not {cls.WHAT}: expected lists of variants and of reports, the first at least")
        names = tuple(line.get("on") if isinstance(line, dict) else None for line in lines)
        if not all(isinstance(one, str) for one in names):
            raise RooflabError(f"not {cls.WHAT}: expected a name, 'on', in each of its variants")
        reports = tuple(Report.from_dict(report) for report in held)
        return msgspec.structs.replace(empty, names=names, reports=reports)


def _time(report: Report) -> str:
    if report.time_s is not None:
        return duration(report.time_s)
    return "–" if report.time_at_least_s is None else f"> {duration(report.time_at_least_s)}"
