"""Translations of addresses: how many pages the buffers of a core hold, and what a load waits beyond them."""

from __future__ import annotations

import contextlib
import mmap
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from rooflab.machines.bench.experiments.latency import Chase, write_cycle
from rooflab.machines.bench.run.arena import HUGE_PAGE_BYTES, LINE_BYTES, Arena
from rooflab.machines.bench.run.pinned_threads import Job
from rooflab.machines.bench.run.trials import Bench

SMALL_PAGE_BYTES = mmap.PAGESIZE
_MOST_PAGES, _LEAST_PAGES = 8192, 16
_PER_OCTAVE = 2
_RUN_S, _ROUNDS = 0.0015, 3
# A load that waits so much longer than one to a page that is held has missed: more than its noise, and twice what
# the level before costs, which a few pages that fall into one set reach by chance.
_STEP_S, _STEP_SHARE = 0.8e-9, 1.0
_SETTLED = 1.25
_MOST_LEVELS = 2
_FAR_BEYOND = 8  # of small steps in huge pages: numbers from the most ÷ this on


@dataclass(frozen=True)
class Translations:
    """What loads wait for translations, by the number of pages that are touched.

    Attributes:
        page_bytes: of one page.
        extra_s: by number of pages, how much longer a load takes than one in as many lines without gaps.
        granted: share of the memory that lay in pages of that size; None where the system does not say.
        step_bytes: from one place touched to the next, where that is less than a page; None for one in each page.
    """

    page_bytes: int
    extra_s: dict[int, float]
    granted: float | None = None
    step_bytes: int | None = None


def small_pages(bench: Bench, dense: Arena, cpu: int, memory_bytes: int) -> Translations:
    """With the system's ordinary pages, in memory of its own that huge ones are refused for.

    Args:
        dense: memory in which lines are walked without gaps.
        memory_bytes: the most to touch.
    """
    most = min(_MOST_PAGES, memory_bytes // SMALL_PAGE_BYTES)
    arena = Arena.reserve(most * SMALL_PAGE_BYTES)
    if hasattr(mmap, "MADV_NOHUGEPAGE"):
        with contextlib.suppress(OSError):  # a kernel without huge pages has none to refuse
            arena.mapping.madvise(mmap.MADV_NOHUGEPAGE)
    bench.pinned.call(cpu, arena.touch)
    share = arena.huge_share()
    waited = _waited(bench, arena, dense, cpu, SMALL_PAGE_BYTES, most)
    return Translations(SMALL_PAGE_BYTES, waited, None if share is None else 1 - share)


def huge_pages(bench: Bench, arena: Arena, cpu: int) -> Translations:
    """With huge pages, as many as `arena` has."""
    most = arena.nbytes // HUGE_PAGE_BYTES
    waited = _waited(bench, arena, arena, cpu, HUGE_PAGE_BYTES, most)
    return Translations(HUGE_PAGE_BYTES, waited, arena.huge_share())


def small_steps(bench: Bench, arena: Arena, cpu: int) -> Translations:
    """In huge pages, places that ordinary pages would hold one each of, more than their buffers hold.

    A huge page of a guest whose host keeps the memory in small ones is held as those: loads wait as without it.
    """
    most = min(_MOST_PAGES, arena.nbytes // SMALL_PAGE_BYTES)
    counts = [count for count in page_counts(most) if count >= most // _FAR_BEYOND]
    waited = _waited(bench, arena, arena, cpu, SMALL_PAGE_BYTES, most, counts)
    return Translations(HUGE_PAGE_BYTES, waited, arena.huge_share(), SMALL_PAGE_BYTES)


def _waited(
    bench: Bench,
    arena: Arena,
    dense: Arena,
    cpu: int,
    page_bytes: int,
    most: int,
    counts: Sequence[int] | None = None,
) -> dict[int, float]:
    counts = page_counts(most) if counts is None else counts
    best: dict[tuple[int, bool], float] = {}
    for _ in range(_ROUNDS):
        for place in bench.rng.permutation(len(counts)):
            pages = counts[place]
            apart = bench.pinned.call(cpu, partial(write_pages, arena, pages, page_bytes, bench.rng))
            taken = _load_s(bench, cpu, apart)
            best[pages, True] = min(taken, best.get((pages, True), taken))
            near = bench.pinned.call(cpu, partial(write_cycle, dense, pages * LINE_BYTES, bench.rng))
            taken = _load_s(bench, cpu, near)
            best[pages, False] = min(taken, best.get((pages, False), taken))
            bench.tick()
    return {pages: best[pages, True] - best[pages, False] for pages in counts}


def page_counts(most: int) -> list[int]:
    """How many pages to touch: two an octave, ascending; empty where there are too few."""
    if most < _LEAST_PAGES:
        return []
    steps = int(_PER_OCTAVE * np.log2(most / _LEAST_PAGES))
    return [round(_LEAST_PAGES * 2 ** (step / _PER_OCTAVE)) for step in range(steps + 1)]


def write_pages(arena: Arena, pages: int, page_bytes: int, rng: np.random.Generator) -> Chase:
    """A random cycle with one line in each of so many pages, the lines spread over the sets of the caches."""
    lines = page_bytes // LINE_BYTES
    numbers = np.arange(pages)
    offsets = numbers * page_bytes + numbers % lines * LINE_BYTES
    words = arena.view(np.int64, 0, pages * page_bytes)
    order = rng.permutation(pages)
    words[offsets[order] // 8] = arena.address + np.roll(offsets[order], -1)
    return Chase(arena.address + int(offsets[order[0]]), pages)


def _load_s(bench: Bench, cpu: int, chase: Chase) -> float:
    """Seconds of one load of the cycle, once it was walked."""
    kernel = bench.kernels["chase"]
    length = kernel.emitted.operations
    warm = Job(cpu, kernel, max(8, -(-2 * chase.lines // length)), a=chase.start)
    per_load = bench.pinned.run([warm]).seconds / (warm.iterations * length)
    loads = max(8, round(_RUN_S / per_load / length))
    timed = Job(cpu, kernel, loads, a=chase.start)
    return bench.pinned.run([timed]).seconds / (loads * length)


def steps(extra_s: dict[int, float]) -> list[tuple[int, float]]:
    """(pages held, seconds that a load waits beyond them) of each level of buffers, near to far.

    A step counts where the next number of pages shows it too. The wait is what the curve settles at behind it.
    """
    pages, waits = list(extra_s), list(extra_s.values())
    found: list[tuple[int, float]] = []
    current, place = min(waits[:2], default=0.0), 1
    while place + 1 < len(pages) and len(found) < _MOST_LEVELS:
        bound = max(current, 0.0) * (1 + _STEP_SHARE) + _STEP_S
        if min(waits[place : place + 2]) <= bound:
            place += 1
            continue
        held, place = pages[place - 1], place + 1
        while place + 1 < len(pages) and waits[place + 1] > waits[place] * _SETTLED:
            place += 1
        current = waits[place]
        found.append((held, current))
        place += 1
    return found


def monotone(extra_s: Sequence[float]) -> bool:
    """Whether waits do not fall by more than their noise as more pages are touched."""
    highest = np.maximum.accumulate(np.array(extra_s))
    return bool(np.all(np.array(extra_s) >= highest * 0.5 - _STEP_S))
