"""What to know of the times of a call before trusting them, and how they were taken, in sentences."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rooflab.units import duration, percent, si

if TYPE_CHECKING:
    from rooflab.observe.called import Taken
    from rooflab.types.report import Report
    from rooflab.types.timed_call import Surroundings

_DISTURBS = 0.03  # of the CPUs' time in other hands
_CLOCK_MOVES = 0.05
_SHORT = 4.0  # times the call of nothing: what is shorter is mostly the calling
_WIDE = 0.2  # of the median: a wider interval proves little
_FIRST, _FIRST_S = 3.0, 1e-3  # times the median, and seconds more: the first call paid for something else


_MAKERS = frozenset(["nvidia", "amd", "geforce", "tesla", "instinct", "graphics"])


def warnings(taken: Taken) -> Iterator[str]:
    """What makes the times doubtful, worst first."""
    warm, surroundings = taken.warm, taken.surroundings
    if taken.late:
        yield (
            f"It was given arrays of {taken.late} and returned none: work that it began may go on after it "
            "returned, and is not in the time. Return the result."
        )
    if taken.each:
        yield (
            f"Each call changes {_listed(taken.each)}, so that none does the same as the one before: let the "
            "function work on a copy."
        )
    if taken.warm_up.stable is False:
        low, high = min(taken.warm_up.last_s), max(taken.warm_up.last_s)
        yield (
            f"It did not settle in {taken.warm_up.seconds:.1f} s of warm-up: a call took from {duration(low)} to "
            f"{duration(high)} in its last blocks."
        )
    if (drift := warm.drift) is not None:
        yield (
            f"Calls got {'slower' if drift > 0 else 'quicker'} all along, by {percent(abs(drift))}: what they "
            "work on "
            "grows or shrinks, or the clock moves. The median is of no steady state."
        )
    yield from _disturbed(surroundings)
    if taken.empty_s is not None and warm.median_s < _SHORT * taken.empty_s:
        yield (
            f"Too short to tell from its calling: a function that does nothing takes {duration(taken.empty_s)}. "
            "Let it do more in one call."
        )
    interval = warm.interval_s
    if interval is None:
        calls = "call" if warm.calls == 1 else "calls"
        yield f"Only {warm.calls} {calls} fitted into the limit: no interval can be given."
    elif warm.median_s and (width := (interval[1] - interval[0]) / warm.median_s) > _WIDE:
        yield f"Its blocks lie {percent(width)} of the median apart: smaller differences prove nothing."


def other_card(taken: Taken, report: Report | None) -> Iterator[str]:
    """That the GPU which did the work is not the machine that it is held against, where their names say so."""
    if taken.device == "CPU" or report is None or report.machine is None:
        return
    card = _words(taken.device.partition("(")[2])
    if not any(
        card <= _words(name) or _words(name) <= card for name in (report.machine.name, *report.machine.aliases)
    ):
        yield (
            f"Timed on {taken.device}, but the roofs are those of {report.machine.name}: the two do not belong "
            "together."
        )


def _words(name: str) -> frozenset[str]:
    """What tells cards apart in a name."""
    return frozenset(re.findall(r"[a-z0-9]+", name.casefold())) - _MAKERS


def _disturbed(surroundings: Surroundings) -> Iterator[str]:
    others, stolen = surroundings.others_share, surroundings.stolen_share
    if others is not None and others > _DISTURBS:
        yield f"Other processes had {percent(others)} of the CPUs' time meanwhile: time it again without them."
    if stolen is not None and stolen > _DISTURBS:
        yield f"The hypervisor gave {percent(stolen)} of the CPUs' time to other guests meanwhile."
    before, after = surroundings.clock_before_hz, surroundings.clock_after_hz
    if before and after and abs(after / before - 1) > _CLOCK_MOVES:
        yield f"The core's clock went from {si(before, 'Hz')} to {si(after, 'Hz')} meanwhile."


def notes(taken: Taken, report: Report | None) -> Iterator[str]:
    """How the times were taken, and what would say more."""
    moved = f", the last {taken.moved} with results elsewhere in memory" if taken.moved else ""
    yield (
        f"median of {len(taken.warm.blocks)} blocks of calls in a row{moved}; the interval is from the least to "
        "the largest of the blocks' medians, 1 % beyond: it holds another run's median, but not what other guests "
        "of a host change later"
    )
    if taken.finish is not None:
        yield taken.finish.says
    if taken.cold is not None and taken.device == "CPU":
        yield "cold: before each call every core read several times what the caches hold"
    elif taken.cold is not None:
        yield "cold: before each call the L2 was written over"
    if taken.no_cold:
        yield taken.no_cold
    if taken.first and not taken.each:
        yield (
            f"the first call changes {_listed(taken.first)}, and later ones find it so: a place for results, or "
            "work that is done only once"
        )
    more_s = taken.first_s - taken.warm.median_s
    times = taken.first_s / taken.warm.median_s if taken.warm.median_s else 0.0
    if times > _FIRST and more_s > _FIRST_S:
        yield (
            f"the first call took {duration(taken.first_s)}, {times:,.0f} times the later ones: it compiles, or "
            "fetches pages, threads and libraries"
        )
    if taken.empty_s is not None:
        yield f"calling a function that does nothing takes {duration(taken.empty_s)}, which is in every time"
    if report is not None and report.machine is None:
        yield "`rooflab measure -o here.toml`, then --machine here.toml, says how good that is"


def _listed(names: tuple[str, ...]) -> str:
    return " and ".join(names)
