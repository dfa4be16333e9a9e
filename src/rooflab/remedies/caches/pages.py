"""What larger pages would help: translations of addresses counted for either size of page, at measured waits."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from rooflab.cachesim.run.streams import simulate_stream
from rooflab.cachesim.streams.stream import Stream
from rooflab.remedies import PAGE, WORTH
from rooflab.types.advice import Advice
from rooflab.types.machine import Machine
from rooflab.types.measured import Tlb
from rooflab.types.simulation import Cache, Simulation, tlb
from rooflab.units import duration, iec

_CODE = """\
madvise(p, bytes, MADV_HUGEPAGE);       // C, on memory aligned to 2 MiB
# shell: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled
# NumPy asks for them by itself for arrays of 4 MiB or more"""


def advise(
    simulation: Simulation, stream: Stream, machine: Machine | None, caches: tuple[Cache, ...]
) -> Advice | str | None:
    """Larger pages, where loads wait for translations of addresses: what they save, or why that is not known.

    A load waits `Tlb.miss_s` longer where no buffer holds its page. Loads that wait for one another wait for the
    translation too; those that do not wait for translations as they do for lines, several at once: either way
    translations take the share waits / (latencies + waits) of the time. Independent ones may be hidden entirely.
    """
    if machine is None or machine.kind != "cpu" or not caches:
        return None
    if machine.environment.get("huge_pages") == "always":
        return None  # what is large lies in them already
    small = min(machine.tlbs, key=lambda each: each.page_bytes, default=None)
    huge = max(machine.tlbs, key=lambda each: each.page_bytes, default=None)
    if small is None or huge is None or small is huge:
        if stream.program is not None or stream.footprint_bytes <= _FEW_BYTES:
            return None
        return f"huge-pages: {machine.name} states no waits for translations of both sizes of page"
    pages = stream.footprint_bytes / small.page_bytes
    if not small.entries or pages <= small.entries[0]:
        return None
    before, after_s = _waits(stream, caches, small), _waits_s(stream, caches, huge)
    if after_s is None:
        reach = iec((huge.held_pages or 0) * huge.page_bytes)
        return f"huge-pages: what loads wait with them was measured up to {reach} alone"
    latency_s = _latency_s(simulation)
    if before is None or latency_s is None:
        return f"huge-pages: {machine.name} states no latency of a level that its loads wait for"
    beyond = small.held_pages is not None and pages > small.held_pages
    # Tables of more pages than were measured: one load more, from the level that keeps them, or from memory.
    more_s = (_tables_s(simulation, pages), simulation.times[-1].latency_s or 0.0) if beyond else (0.0, 0.0)
    before_s, most_s = (before.seconds + before.walks * each for each in more_s)
    dependent = stream.irregular is not None and stream.irregular[0] == "chase"
    # As long as its bytes take, and by the same share longer, where loads do not wait for one another.
    moved_s = max((each.time_s or 0.0 for each in simulation.times), default=0.0)
    scale = 1.0 if dependent else moved_s / latency_s
    whole, taken = ((latency_s + waits) * scale for waits in (before_s, after_s))
    if whole - taken < WORTH * whole:
        return None
    # The share that goes, where walks cost what was measured, and where they cost the most.
    shares = [1 - (latency_s + after_s) / (latency_s + waits) for waits in (before.seconds, most_s)]
    return Advice(
        rule="huge-pages",
        change=f"Lay its arrays in pages of {iec(huge.page_bytes)}",
        evidence=(
            f"it touches {pages:,.0f} pages of {iec(small.page_bytes)}; the buffers hold {small.entries[-1]:,}, "
            f"and a load beyond them waits {duration(small.miss_s[-1])} longer (measured)",
            f"simulated: translations take {duration(before_s)} of waits beside {duration(latency_s)} for lines, "
            f"with huge pages {duration(after_s)}",
            *(
                (f"measured up to {small.held_pages:,} pages; tables of more are read from further away",)
                if beyond
                else ()
            ),
        ),
        before_s=whole,
        after_s=taken,
        gain_low_s=min(shares[0] * whole, whole - taken) if dependent else 0.0,
        gain_high_s=max(shares[1] * whole, whole - taken),
        bounds=True,
        effort="line",
        code=_CODE,
        page=PAGE + "huge-pages",
    )


_FEW_BYTES = 1 << 22  # of arrays: fewer are in reach of the buffers of any core


class Rule(NamedTuple):
    """As of other rules: its name (`Advice.rule`), the regime that it is a remedy for, what asks."""

    name: str
    regime: str
    ask: Callable[..., Advice | str | None]
    price: bool = False


class _Waits(NamedTuple):
    """Translations: seconds that loads wait for them one by one, and how many no buffer holds."""

    seconds: float
    walks: int


def _waits_s(stream: Stream, caches: tuple[Cache, ...], held: Tlb) -> float | None:
    """Seconds that its loads wait for translations, one by one; None where that was not measured so far."""
    pages = -(-stream.footprint_bytes // held.page_bytes)
    if held.held_pages is not None and pages > held.held_pages:
        return None
    found = _waits(stream, caches, held)
    return 0.0 if found is None else found.seconds


def _waits(stream: Stream, caches: tuple[Cache, ...], held: Tlb) -> _Waits | None:
    """Translations of its loads, simulated; None where no buffer was found, as all pages measured were held."""
    if not held.entries:
        return None
    buffers = [tlb(entries, page_bytes=held.page_bytes) for entries in held.entries]
    counted = simulate_stream(stream, caches, tlbs=buffers).tlbs
    misses = [level.misses for level in counted]
    # Who misses a level and is held by the next waits as long as was measured between the two.
    beyond = [*misses[1:], 0]
    waited = sum((own - next_one) * wait for own, next_one, wait in zip(misses, beyond, held.miss_s, strict=True))
    return _Waits(waited, misses[-1])


def _tables_s(simulation: Simulation, pages: float) -> float:
    """The latency of the level that keeps the tables of so many pages, each of whose lines maps eight.

    Between two uses of a line at random an eighth of the pages is used, each with a line of data and of tables.
    """
    nbytes = pages / 8 * 2 * simulation.levels[0].cache.line_bytes
    for level, each in zip(simulation.levels, simulation.times, strict=False):
        if level.cache.capacity_bytes >= nbytes:
            return each.latency_s or 0.0
    return simulation.times[-1].latency_s or 0.0


def _latency_s(simulation: Simulation) -> float | None:
    """Seconds that its requests wait one by one, each for the level that serves it."""
    levels = simulation.levels
    if len(simulation.times) != len(levels) + 1 or any(each.latency_s is None for each in simulation.times):
        return None
    served = [*(level.hits for level in levels), levels[-1].misses]
    return sum(count * (each.latency_s or 0.0) for count, each in zip(served, simulation.times, strict=True))


RULE = Rule("huge-pages", "latency", advise)
