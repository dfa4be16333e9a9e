"""Timed runs of a compiled loop as a report holds them: on one core, and on several."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from rooflab.loops.compiled import blas_threads, kept_code, numba_symbols, stretches
from rooflab.loops.compiled.kept_code import Code, Text
from rooflab.loops.compiled.time import LONG_S, Copies, cold, warm
from rooflab.machines.bench.experiments import thread_teams
from rooflab.machines.cache_levels import Chosen
from rooflab.timing import Timing
from rooflab.types.loop import Timed

_TEAMS = "rooflab.machines.bench.kernels.teams"


class Warm(Protocol):
    """What times warm calls of a function: as `time.warm`."""

    def __call__(  # noqa: D102
        self, function: Any, arguments: Any, fresh: bool, /, part: float = 1.0
    ) -> Timing: ...


def on_one_core(
    function: Callable[..., Any], arguments: Copies, caches: Chosen, fresh: bool, warm: Warm = warm
) -> list[Timed]:
    """Runs on one core, of BLAS's threads one, warm and cold; `fresh`: each needs its inputs anew."""
    largest = max(each.capacity_bytes for each in caches.caches)
    with blas_threads.at_most(1):
        first = warm(function, arguments, fresh)
        without = cold(function, arguments, largest, fresh)
        steady = _steadied(first, warm, function, arguments, fresh)
    return [timed(steady, 1, "warm"), timed(without, 1, "cold")]


def _steadied(
    first: Timing, warm: Warm, function: Callable[..., Any], arguments: Copies, fresh: bool, threads: int = 1
) -> Timing:
    """`first` and as many further stretches as it takes."""
    return stretches.steadied(first, lambda: warm(function, arguments, fresh, part=stretches.PART), threads)


def on_threads(function: Callable[..., Any], arguments: Copies, fresh: bool) -> list[Timed]:
    """Warm runs on as many threads as numba may use, first, and on 2, 4, …: each thread on a core of its own."""
    most = thread_teams.most()
    counts = {most, *(2**n for n in range(1, most.bit_length()))} - {1}
    return _of_teams(function, arguments, fresh, sorted(counts, reverse=True))


def once_more(
    found: Sequence[Timed],
    alone: Callable[..., Any],
    team: Callable[..., Any] | None,
    arguments: Copies,
    fresh: bool,
) -> list[Timed]:
    """`found`, of whose warm runs each is timed at this later moment too, and the quicker kept.

    A guest of the same host that takes its part of a core does so for up to seconds. What takes long by itself
    is not run again.

    Args:
        found: runs.
        alone, team: the functions of those on one core and on several; those of None are left as they are.
        arguments: of the loop.
        fresh: give each run the inputs anew.
    """
    made = []
    for each in found:
        if each.cache == "warm" and each.best_s < LONG_S:
            if each.threads == 1:
                with blas_threads.at_most(1):
                    each = quicker(each, timed(warm(alone, arguments, fresh, stretches.PART), 1, "warm"))
                    stretches.look(1)
            elif team is not None:
                each = quicker(each, *_of_teams(team, arguments, fresh, [each.threads]))
        made.append(each)
    return made


def quicker(*each: Timed) -> Timed:
    """The one of several timings, of different moments, whose best is the least."""
    return min(each, key=lambda one: one.best_s)


def _of_teams(function: Callable[..., Any], arguments: Copies, fresh: bool, counts: Sequence[int]) -> list[Timed]:
    """Warm runs on so many threads, by their numbers."""
    found, most = [], thread_teams.most()
    set_threads = setter(function)
    pin: Callable[..., Any] | None = _pin() if isinstance(function, Code) else None
    try:
        for threads in counts:
            set_threads(threads)
            with thread_teams.pinned(threads, pin):
                found.append(on_a_team(function, arguments, threads, fresh))
    finally:
        set_threads(most)
    return found


def on_a_team(
    function: Callable[..., Any], arguments: Copies, threads: int, fresh: bool, warm: Warm = warm
) -> Timed:
    """Warm runs on so many threads, which the caller has set."""
    first = warm(function, arguments, fresh)
    return timed(_steadied(first, warm, function, arguments, fresh, threads), threads, "warm")


def setter(function: Callable[..., Any]) -> Callable[[int], None]:
    """What sets how many threads a function that is spread over threads runs on."""
    if isinstance(function, Code):
        return functools.partial(numba_symbols.set_threads, function.layer)
    import numba

    return numba.set_num_threads


class _Module(Text):
    """A module of rooflab's own instead of a generated one; `stem` is its name."""

    __slots__ = ()

    def compiled(self) -> Any:
        """The function, as numba's `njit` makes it."""
        return getattr(importlib.import_module(self.stem), self.function)


def _pin() -> Callable[..., Any]:
    """What keeps threads on CPUs, without numba where its code is kept."""
    spec = importlib.util.find_spec(_TEAMS)
    text = "" if spec is None or spec.origin is None else Path(spec.origin).read_text("utf-8")
    return kept_code.ready(_Module(_TEAMS, text, "pin"), (np.zeros((2, 1), np.uint64),))


def timed(timing: Timing, threads: int, cache: Any) -> Timed:
    """A timing as a report holds it."""
    return Timed(
        threads=threads,
        cache=cache,
        best_s=timing.best_s,
        median_s=timing.median_s,
        spread=timing.spread,
        runs=timing.runs,
    )
