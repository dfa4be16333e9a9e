"""How near work comes to the roofs of its machine: `explore.js` says the same, and follows the sliders."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from rooflab.model.roofline.per_operation import Peaks, compute_terms, memory_bandwidth
from rooflab.types.machine import Rate
from rooflab.types.report import Report, Row
from rooflab.types.work import Flop


class Roofs(NamedTuple):
    """What `at_roofs` holds rows against: memory's name and bandwidth, peaks, and by what each was changed."""

    memory: str
    bandwidth: Rate
    peaks: Peaks
    wider: float
    faster: float

    @staticmethod
    def of(report: Report) -> Roofs | None:
        """Those of a report's machine; None without one, or where it states no bandwidth of its memory."""
        known = None if report.machine is None else memory_bandwidth(report.machine)
        if report.machine is None or known is None:
            return None
        changed = factors(report)
        return Roofs(*known, Peaks(report.machine), changed("bandwidth"), changed("compute", "clock", "units"))


def at_roofs(roofs: Roofs | None, rows: Sequence[Row], times: int) -> list[tuple[str, float, str]]:
    """Each roof with the seconds that `rows`, `times` over, take there at least, and the knob that turns it.

    Compulsory bytes over the theoretical bandwidth of the memory; FLOP over the peak of the unit that they run on.
    None where the machine states no bandwidth, or a row is not counted.
    """
    if roofs is None or any(row.cost is None for row in rows):
        return []
    nbytes = sum(row.nbytes or 0.0 for row in rows)
    found = [(roofs.memory, nbytes / roofs.bandwidth.value / roofs.wider, "bandwidth")]
    work = [(one, row.op.count) for row in rows if row.cost for one in row.cost.flop]
    flop = tuple(Flop(one.engine, one.dtype, one.count * count) for one, count in work)
    terms, _ = compute_terms(flop, roofs.peaks)
    found += [(term.name, term.seconds / roofs.faster, "compute") for term in terms]
    return [(name, times * float(f"{seconds:.9g}"), knob) for name, seconds, knob in found if seconds]


def factors(report: Report) -> Callable[..., float]:
    """The product of the what-ifs of those names that the report was predicted under."""
    changed = {} if report.setting is None else report.setting.what_if
    return lambda *names: math.prod(changed.get(name, 1.0) for name in names)


def nearest(report: Report) -> tuple[str, float] | None:
    """The roof that the whole program comes nearest to in its predicted time, and the share of it that it reaches.

    More than 1 where a cache serves what the roof counts as memory's. None where a total or a rate is unknown.
    """
    prediction = report.prediction
    if prediction is None or not prediction.time_s or not report.coverage.complete:
        return None
    found = at_roofs(Roofs.of(report), report.rows, 1)
    most = max(found, key=lambda each: each[1], default=None)
    return None if most is None else (most[0], most[1] / prediction.time_s)
