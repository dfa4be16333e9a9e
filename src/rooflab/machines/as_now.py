"""A measured machine with its last cache and its memory as they stream at this moment.

Between two readings, a working set of the sweep changes by the ratio of now and then, interpolated over the
logarithm of its size; outside of them it changes as the nearest does. The rates of the last cache change as what
it holds does. The memory reads as what lies far beyond does now, and its other rates keep their ratio to that:
they were measured in turn with its own reads, the sweep at another moment.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from rooflab.types.machine import Curve, Level, Machine, Rate, Scope, is_cache, is_main_memory
from rooflab.units import iec, si

STREAMS, ROWS = SWEEPS = "read bandwidth", "bandwidth of rows side by side"
_WORTH_SAYING = 0.1  # of what was measured
_SWINGS = 1.5  # best ÷ worst of the looks from which on something else takes a part of it
_NEAR = 1.5  # of a working set: what is read of rows stands for it


class Reading(NamedTuple):
    """Bytes/s through a working set of each core, now and when the machine was measured.

    Attributes:
        nbytes: of it.
        now, then: the best of the looks at it, and what the sweep had.
        sweep: which.
        least: the worst of the looks; None where that is not known.
    """

    nbytes: float
    now: float
    then: float
    sweep: str = STREAMS
    least: float | None = None

    @property
    def ratio(self) -> float:
        """Now ÷ then."""
        return self.now / self.then


Readings = Mapping[Scope, Sequence[Reading]]


def last_cache(machine: Machine) -> Level | None:
    """The cache before the memory; None where none of known size is there."""
    return next((each for each in reversed(machine.levels) if is_cache(each) and each.capacity_bytes), None)


def nearer_bytes(machine: Machine) -> float:
    """The size of the cache before the last one; 0 where there is one cache alone."""
    sizes = [each.capacity_bytes for each in machine.levels if is_cache(each) and each.capacity_bytes]
    return sizes[-2] if len(sizes) > 1 else 0.0


def as_now(machine: Machine, readings: Readings) -> Machine:
    """`machine` with the rates and sweeps of its last cache and its memory as read now.

    Args:
        machine: measured.
        readings: by scope, those of streams ascending by their bytes and with at least one beyond the last cache;
            a scope without any stays as it was measured. Of rows, what is not read changes as streams do.
    """
    last = last_cache(machine)
    if last is None:
        return machine

    def level(each: Level) -> Level:
        if each.name != last.name and not is_main_memory(each):
            return each
        rates = []
        for rate in each.rates:
            found = _of(readings, rate.scope, STREAMS) if rate.basis == "attained" else []
            if found:
                rate = replace(rate, value=rate.value * _ratio(each, rate, found))
            rates.append(rate)
        return replace(each, rates=tuple(rates))

    def curve(each: Curve) -> Curve:
        found = _of(readings, each.scope, STREAMS) if each.name in SWEEPS else []
        if each.name == ROWS and (rows := _of(readings, each.scope, ROWS)):
            others = [one for one in found if all(not 1 / _NEAR < one.nbytes / row.nbytes < _NEAR for row in rows)]
            found = sorted([*others, *rows], key=lambda one: one.nbytes)
        return _changed(each, found, nearer_bytes(machine)) if found else each

    return replace(
        machine,
        levels=tuple(level(each) for each in machine.levels),
        curves=tuple(curve(each) for each in machine.curves),
    )


def _ratio(level: Level, rate: Rate, found: Sequence[Reading]) -> float:
    """What a rate of `level` changes by."""
    if not is_main_memory(level):
        return found[0].ratio
    own = level.rate("read", scope=rate.scope, basis="attained")
    return found[-1].ratio if own is None else found[-1].now / own.value


def _of(readings: Readings, scope: Scope, sweep: str) -> list[Reading]:
    return [each for each in readings.get(scope, ()) if each.sweep == sweep]


def _changed(curve: Curve, readings: Sequence[Reading], nearer: float) -> Curve:
    """`curve` with what was read in it; no smaller working set is slower now than what a larger one reads."""
    at, by = [math.log(each.nbytes) for each in readings], [each.ratio for each in readings]
    own = [each for each in readings if each.sweep == curve.name]
    sizes = sorted({*curve.x, *(each.nbytes for each in own)})
    logs = [math.log(each) for each in curve.x]

    def now(then: Sequence[float], x: float) -> float:
        was = float(np.interp(math.log(x), logs, then))
        if x <= nearer:
            return was
        changed = was * float(np.interp(math.log(x), at, by))
        return max([changed, *(each.now for each in own if each.nbytes >= x)])

    best = tuple(now(curve.best, x) for x in sizes)
    median = (now(curve.median, x) for x in sizes)
    return replace(curve, x=tuple(sizes), best=best, median=tuple(map(min, best, median)))


def said(machine: Machine, readings: Readings) -> str:
    """What changed since `machine` was measured, in a sentence; "" where nothing did by a tenth."""
    parts = []
    for scope in readings:
        found = _of(readings, scope, STREAMS)
        where = "one core" if scope == "core" else "all cores"
        changed = [each for each in found if abs(each.ratio - 1) > _WORTH_SAYING]
        if changed:
            far = max(changed, key=lambda each: abs(each.ratio - 1))
            parts.append(
                f"{where} read {iec(far.nbytes)} at {si(far.now, 'B/s')}, {si(far.then, 'B/s')} when"
                f" {machine.name} was measured"
            )
    now = f"between the timed runs {'; '.join(parts)}: predicted times are with what there is now" if parts else ""
    return "; ".join(each for each in (now, _swinging(readings)) if each)


def _swinging(readings: Readings) -> str:
    """That what a loop met changed from look to look, by something else than the loop; "" where it did not."""
    swings = [
        (each.now / each.least, scope, each)
        for scope in readings
        for each in _of(readings, scope, STREAMS)
        if each.least and each.now > _SWINGS * each.least
    ]
    if not swings:
        return ""
    _, scope, most = max(swings)
    where = "one core" if scope == "core" else "all cores"
    return (
        f"{where} read {iec(most.nbytes)} at {si(most.least or 0.0, 'B/s')} in one moment and at"
        f" {si(most.now, 'B/s')} in another: something else on this host takes a part, and runs that took longer"
        " than the best may be its doing, not the code's"
    )
