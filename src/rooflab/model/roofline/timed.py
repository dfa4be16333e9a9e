"""A time of one's own held against the roofs: what the work attained of memory and of each unit's arithmetic."""

from __future__ import annotations

from typing import NamedTuple

from rooflab.model.roofline.per_operation import compute_terms, report_roofs
from rooflab.types.report import Report
from rooflab.types.work import Flop


class Attained(NamedTuple):
    """What a measured time makes of one roof.

    Attributes:
        roof: the memory level, or the unit ("fp32 vector").
        per_s: "byte" or "flop".
        value: of the work, each second.
        peak: the roof, theoretical where it is stated.
        share: of the roof: over 1 the time is too short for work that went through it, so it did not (a cache
            held the data), or the clock did not wait for the end.
    """

    roof: str
    per_s: str
    value: float
    peak: float
    share: float


def attained(report: Report) -> tuple[Attained, ...]:
    """The roofs of `report`'s machine under its measured time, memory first; none without both.

    A roof's share is the seconds that the work needs there at least, over the measured ones. None either where
    an operation is not counted: its bytes and FLOP are missing.
    """
    if report.measured_s is None or report.machine is None or not report.coverage.complete:
        return ()
    roofs = report_roofs(report, report.machine)
    if roofs is None:
        return ()
    found = []
    if report.nbytes:
        found.append(_of(roofs.memory, "byte", report.nbytes, roofs.bandwidth.value, report.measured_s))
    for name, rate in roofs.peaks:
        work = sum(one.count for one in report.flop_by if _unit(one, report) == name)
        if work:
            found.append(_of(name, "flop", work, rate.value, report.measured_s))
    return tuple(found)


def _of(roof: str, per_s: str, work: float, peak: float, seconds: float) -> Attained:
    value = work / seconds
    return Attained(roof, per_s, value, peak, value / peak)


def _unit(one: Flop, report: Report) -> str | None:
    assert report.machine is not None
    terms, _ = compute_terms((one,), report.machine)
    return terms[0].name if terms else None
