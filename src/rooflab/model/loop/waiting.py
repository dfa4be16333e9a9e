"""What misses wait for beyond the time of their bytes: latencies that nothing hides, and walks of page tables."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from rooflab.model.device.constants import load_family
from rooflab.model.loop import crossings, meeting
from rooflab.types.constants import Constants
from rooflab.types.core_timing import CoreTiming
from rooflab.types.loop import LoopReport
from rooflab.types.machine import Level, Machine
from rooflab.units import KIB, MIB, iec

_NUMPY_ASKS_BYTES = 4 * MIB  # of an array from which on NumPy asks for huge pages
_PAGE_BYTES = 4 * KIB
_IN_HUGE_PAGES = f"translation wait, {iec(_PAGE_BYTES)} steps in {iec(2 * MIB)} pages"


def seconds(
    report: LoopReport, machine: Machine, level: Level, number: int, rate: float, timing: CoreTiming | None
) -> float:
    """What irregular misses that `level`, behind crossing `number`, serves take beyond the time of their bytes.

    Args:
        report: of a loop.
        machine: a CPU.
        level: of it.
        number: of the crossing, from 1.
        rate: bytes/s of the level.
        timing: how long the core's operations take, where that was measured.
    """
    if level.latency_s is None:
        return 0.0
    levels = (report.warm or report.simulation).levels
    nearer = levels[number - 1]
    further = levels[number].name if number < len(levels) else None
    line_s = nearer.cache.unit_bytes / rate
    constant = load_family("cpu")
    met = meeting.line_of(report, level.latency_s, timing)
    # what is written back of such a line is among the bytes already
    stepping = max(level.latency_s / constant("loop.strided_in_flight"), met.seconds - met.written * line_s)
    in_flight = _gathered_in_flight(report, report.gathered.get(nearer.name, 0), constant)
    waiting = 0.0
    for misses, each_s in (
        (report.gathered, level.latency_s / in_flight),
        (report.strided, stepping),
        (report.chased, level.latency_s * chased_slower(report, machine)),
    ):
        # Those that miss this level too wait for the one behind it instead.
        served = misses.get(nearer.name, 0) - (misses.get(further, 0) if further else 0)
        waiting += max(served, 0) * max(each_s - line_s, 0.0)
    return waiting


def jumps_s(report: LoopReport, machine: Machine, window_s: float) -> float:
    """Seconds of one core for the first lines of rows that do not follow the row before.

    A prefetcher runs ahead only when it has seen some lines miss, each of which takes the latency of what serves
    it; meanwhile the core goes on with what it has begun.

    Args:
        report: of a loop.
        machine: a CPU.
        window_s: how long it goes on so.
    """
    levels, taken = (report.warm or report.simulation).levels, 0.0
    lines = load_family("cpu")("loop.lines_to_foresee")
    for number, near in enumerate(levels):
        behind = levels[number + 1].name if number + 1 < len(levels) else "memory"
        served = report.jumps.get(near.name, 0) - report.jumps.get(behind, 0)
        level = crossings.level(machine, behind)
        if served > 0 and level is not None and level.latency_s is not None:
            taken += served * max(0.0, lines * level.latency_s - window_s)
    return taken


def walks_s(report: LoopReport, machine: Machine) -> float:
    """Seconds of the walks of page tables of one core: of accesses that go round more pages than are kept.

    Accesses that do not wait for one another walk several at once; those of a chain one after the other.
    """
    first = (report.warm or report.simulation).levels[0].name
    at_once = walks_at_once(0.0)
    each = walk_of_picked_s(report, machine)
    taken = report.gathered.get(first, 0) * each.gathered / at_once + report.chased.get(first, 0) * each.chased
    code, static = report.code, report.static
    if code is not None and code.entries and static is not None and static.stride_bytes:
        spanned = code.trips / code.entries * static.stride_bytes
        pages = spanned / max(static.stride_bytes, _PAGE_BYTES)
        each_s = _walk_s(machine, pages, spanned) * min(1.0, static.stride_bytes / _PAGE_BYTES)
        taken += report.strided.get(first, 0) * each_s / at_once
    return taken


def walks_at_once(wide: float) -> float:
    """Walks of page tables under way at once, where the share `wide` of them is of loads of whole lines."""
    constant = load_family("cpu")
    return 1 / ((1 - wide) / constant("loop.walks_at_once") + wide / constant("loop.walks_at_once_wide"))


class Walks(NamedTuple):
    """Seconds that an access at a place that data decide waits for the translation of its page, in the mean.

    Attributes:
        gathered: where it waits for no other one; those of several go on side by side.
        chased: where it takes its place from the one before.
    """

    gathered: float
    chased: float


def walk_of_picked_s(report: LoopReport, machine: Machine) -> Walks:
    """What accesses of `report` wait for translations beyond the first buffer."""
    scattered = float(report.scattered_bytes)
    touched = min(scattered, float(report.footprint_bytes or scattered))
    each_s = _walk_s(machine, scattered / _PAGE_BYTES, scattered)
    # of a chain, what the curve of latencies over dense memory has already
    return Walks(each_s, max(0.0, each_s - _walk_s(machine, touched / _PAGE_BYTES, touched)))


def _walk_s(machine: Machine, pages: float, nbytes: float) -> float:
    """What a load waits for translations beyond the first buffer, going round so many pages of `nbytes`."""
    small = min(machine.tlbs, key=lambda each: each.page_bytes, default=None)
    # a miss of the first buffer alone is hidden as a hit of the second cache is
    hidden = small.miss_s[0] if small is not None and small.miss_s else 0.0
    return max(0.0, _translation_s(machine, pages, nbytes) - hidden)


def translation_s(machine: Machine, nbytes: float) -> float:
    """What a load that nothing hides waits for the translation of its page, going round the pages of `nbytes`."""
    return _translation_s(machine, nbytes / _PAGE_BYTES, nbytes)


def _translation_s(machine: Machine, pages: float, nbytes: float) -> float:
    huge = nbytes >= _NUMPY_ASKS_BYTES and machine.environment.get("huge_pages") in ("madvise", "always")
    name = _IN_HUGE_PAGES if huge else f"translation wait, {iec(_PAGE_BYTES)} pages"
    curve = machine.curve(name)
    if curve is None or pages <= 1:
        return 0.0
    logs = np.log(curve.x)
    within = float(np.interp(math.log(pages), logs, curve.best))
    if pages <= curve.x[-1]:
        return within
    small = min(machine.tlbs, key=lambda each: each.page_bytes, default=None)
    held = small.entries[-1] if small is not None and small.entries else 0
    if 0 < held < curve.x[-1]:
        # of places without order, those miss whose page is not among as many as are held
        return within * (1 - held / pages) / (1 - held / curve.x[-1])
    # as from half as many pages on, a load of memory at most
    half = float(np.interp(logs[-1] - math.log(2), logs, curve.best))
    more = max(0.0, curve.best[-1] - half) * math.log2(pages / curve.x[-1])
    memory = crossings.level(machine, "memory")
    return within + min(more, math.inf if memory is None or memory.latency_s is None else memory.latency_s)


def with_huge_pages(machine: Machine) -> Machine | None:
    """`machine` as if NumPy's large arrays lay in huge pages; None where what they save was not measured on it."""
    if not any(each.name == _IN_HUGE_PAGES for each in machine.curves):
        return None
    return replace(machine, environment={**machine.environment, "huge_pages": "madvise"})


def _gathered_in_flight(report: LoopReport, misses: int, constant: Constants) -> float:
    """How many of `misses` a core waits for at once: as many as it has buffers for, and as its window spans.

    It begins no instruction that is further than the window behind the oldest one that waits.
    """
    most, code = constant("loop.gathered_in_flight"), report.code
    if code is None or not (code.passes and code.instructions):
        return most
    spanned = constant("loop.window_instructions") * misses / (code.instructions * code.passes)
    return min(most, max(1.0, spanned))


def chased_slower(report: LoopReport, machine: Machine) -> float:
    """How much slower a chain of loads within so many bytes was measured than the simulated hits come to.

    Neighbours displace from a shared cache what is used so seldom; those who load many at once keep it.
    """
    curve = machine.curve("latency", "core")
    levels = (report.warm or report.simulation).levels
    counts = [report.chased.get(each.name, 0) for each in levels] + [0]
    if curve is None or not report.scattered_bytes or not counts[0]:
        return 1.0
    behind = [crossings.level(machine, each.name) for each in levels[1:]] + [crossings.level(machine, "memory")]
    expected = 0.0
    for misses, further, served in zip(counts[:-1], counts[1:], behind, strict=True):
        if served is not None and served.latency_s is not None:
            expected += (misses - further) * served.latency_s
    within = min(report.scattered_bytes, report.footprint_bytes or report.scattered_bytes)
    # neighbours only slow what is measured, and more bytes are never faster
    least = np.minimum.accumulate(curve.best[::-1])[::-1]
    measured = float(np.interp(within, curve.x, least))
    return max(1.0, measured * counts[0] / expected) if expected else 1.0
