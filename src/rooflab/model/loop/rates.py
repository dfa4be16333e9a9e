"""What a level attains on a loop's mix of reads and writes, and how long what crosses takes it."""

from __future__ import annotations

from rooflab.model.loop import crossings, waiting
from rooflab.types.core_timing import CoreTiming
from rooflab.types.loop import LoopReport
from rooflab.types.machine import Level, Machine, Scope, is_main_memory

# Share of writes in all bytes that cross, and bytes that cross per byte named. Beyond L1 an ordinary store
# reads its line first: triad names 24 bytes and moves 32, copy 16 and 24, write 8 and 16.
_BEYOND = (("read", 0.0, 1.0), ("triad", 1 / 4, 4 / 3), ("copy", 1 / 3, 3 / 2), ("write", 1 / 2, 2.0))


_AT_L1 = (("read", 0.0, 1.0), ("triad", 1 / 3, 1.0), ("copy", 1 / 2, 1.0), ("write", 1.0, 1.0))


# Non-temporal stores read nothing: beyond L1 too each kernel moves the bytes that it names.
_PAST_CACHES = _AT_L1


def bytes_per_s(
    level: Level, scope: Scope, write_share: float, *, nearest: bool, past_caches: bool = False
) -> float | None:
    """What `level` attains where `write_share` of the bytes that cross are written; None where not known.

    Between the measured mixes the seconds per byte are interpolated; theory stands in where nothing was
    measured, for any mix. `past_caches`: with non-temporal stores.
    """
    mixes = []
    for what, share, factor in _PAST_CACHES if past_caches else _AT_L1 if nearest else _BEYOND:
        stores = None if what == "read" else "nontemporal" if past_caches else "ordinary"
        rate = level.rate(what, scope=scope, basis="attained", stores=stores)
        if rate is not None:
            mixes.append((share, 1 / (rate.value * factor)))
    if not mixes:
        theory = level.rate(scope=scope) or level.rate("any", scope=scope)
        return None if theory is None else theory.value
    below = max((each for each in mixes if each[0] <= write_share), default=mixes[0])
    above = min((each for each in mixes if each[0] >= write_share), default=mixes[-1])
    if above[0] == below[0]:
        return 1 / below[1]
    part = (write_share - below[0]) / (above[0] - below[0])
    return 1 / (below[1] + part * (above[1] - below[1]))


def attained(report: LoopReport, machine: Machine, scope: Scope) -> bool:
    """Whether what serves the loop behind L1 states what it attains, not what it could by theory alone."""
    served = [crossings.level(machine, name) for name, read, written in crossings.of(report)[1:] if read + written]
    return all(
        any(level.rate(what, scope=scope, basis="attained") is not None for what, _, _ in _BEYOND)
        for level in served
        if level is not None
    )


def level_s(
    report: LoopReport,
    machine: Machine,
    number: int,
    scope: Scope,
    threads: int,
    past_caches: bool = False,
    timing: CoreTiming | None = None,
) -> float | None:
    """Seconds of the level that serves crossing `number`; None where its rate is not known."""
    name, read, write = crossings.of(report)[number]
    level = crossings.level(machine, name)
    nbytes = read + write
    if nbytes == 0:
        return 0.0
    if level is None:
        return None
    past = past_caches and is_main_memory(level)
    rate = bytes_per_s(level, scope, write / nbytes, nearest=number == 0, past_caches=past)
    if rate is None:
        return None
    if number == 0:
        return nbytes / rate
    return nbytes / rate + waiting.seconds(report, machine, level, number, rate, timing) / threads
