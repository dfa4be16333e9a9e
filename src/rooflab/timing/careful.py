"""A callable timed with care: warmed up until it is stable, then in blocks whose medians say what to trust."""

from __future__ import annotations

import gc
import itertools
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

BLOCK_S = 0.1  # of one block
BLOCKS = 20  # two seconds: what another run's median will be shows over seconds, not within one tenth
MOVED = 8  # of them, with what a run has by chance changed before each; the others are more: theirs is the median
FEWEST = 5  # calls of something long, where the limit allows them
UNSEEN = 0.01  # of a time: what runs differ by that show no difference within (`benchmarks/timing.py`)
SAMPLE_S = 2e-4  # of one look at the clock and the next: a thousand times what the two looks take
WARM_S = 2.0  # of warm-up at most
_WARM_BLOCK_S = 0.03
_AGREE = 0.03  # blocks of the warm-up whose medians agree so well are alike
_ALIKE = 3  # of them in a row
_GROUP = 10  # single calls of a block
_DRIFTS = 0.9  # share of pairs of blocks, in order, of which the later is the slower one
_WORTH = 0.1  # of the time: a smaller drift needs no word

Sample = Callable[[int], float]
Tell = Callable[[float], None]


@dataclass(frozen=True)
class Block:
    """Seconds of one call, in one stretch of time: the median of its samples, the best, and how many calls."""

    median_s: float
    best_s: float
    calls: int


@dataclass(frozen=True)
class Blocks:
    """Blocks of one state of the caches, in the order they were taken; at least one."""

    blocks: tuple[Block, ...]

    @property
    def medians_s(self) -> tuple[float, ...]:
        """Of each block."""
        return tuple(block.median_s for block in self.blocks)

    @property
    def median_s(self) -> float:
        """The middle one of the blocks' medians."""
        return statistics.median(self.medians_s)

    @property
    def best_s(self) -> float:
        """The least of all samples."""
        return min(block.best_s for block in self.blocks)

    @property
    def calls(self) -> int:
        """In all blocks."""
        return sum(block.calls for block in self.blocks)

    @property
    def interval_s(self) -> tuple[float, float] | None:
        """Where another run's median will lie: see `interval`."""
        return interval(self.medians_s)

    @property
    def drift(self) -> float | None:
        """By how much of itself a call got slower (below zero: quicker) over the blocks; None where it did not."""
        return drift(self.medians_s)


@dataclass(frozen=True)
class WarmUp:
    """What came before the blocks.

    Attributes:
        calls, seconds: of it.
        stable: whether its last blocks agreed; None where calls are so long that there were not enough.
        last_s: the medians of its last blocks.
        per_sample: calls between two looks at the clock.
    """

    calls: int
    seconds: float
    stable: bool | None
    last_s: tuple[float, ...]
    per_sample: int


def sampler(
    fn: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    wait: Callable[[Any], object] | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> Sample:
    """A function that gives the seconds of so many calls of `fn` in a row, by a clock of this process.

    Args:
        fn, args, kwargs: what is called.
        wait: takes each result and returns when its work is done; None where the call does it all.
        clock: returns seconds.
    """
    named = dict(kwargs or {})

    def sample(calls: int) -> float:
        turns = itertools.repeat(None, calls)
        start = clock()
        for _ in turns:
            fn(*args)
        return clock() - start

    def sample_named(calls: int) -> float:
        turns = itertools.repeat(None, calls)
        start = clock()
        for _ in turns:
            fn(*args, **named)
        return clock() - start

    def sample_waiting(calls: int) -> float:
        assert wait is not None
        turns = itertools.repeat(None, calls)
        start = clock()
        for _ in turns:
            wait(fn(*args, **named))
        return clock() - start

    return sample_waiting if wait is not None else sample_named if named else sample


def warm_up(sample: Sample, *, most_s: float = WARM_S, clock: Callable[[], float] = time.perf_counter) -> WarmUp:
    """Calls until the medians of three blocks in a row agree within 3 %, for `most_s` at most.

    Args:
        sample: seconds of so many calls.
        most_s: after which no further block begins.
        clock: returns seconds.
    """
    begun = clock()
    calls, per_sample, elapsed = 0, 1, 0.0
    while elapsed < SAMPLE_S:
        elapsed = sample(per_sample)
        calls += per_sample
        if elapsed < SAMPLE_S:
            per_sample *= 2 if elapsed <= 0 else max(2, min(16, round(1.1 * SAMPLE_S / elapsed)))
    medians = [elapsed / per_sample]
    while not _settled(medians) and clock() - begun < most_s:
        one = block(sample, per_sample, _WARM_BLOCK_S, clock)
        calls += one.calls
        medians.append(one.median_s)
    stable = _settled(medians) if len(medians) >= _ALIKE else None
    return WarmUp(calls, clock() - begun, stable, tuple(medians[-_ALIKE:]), per_sample)


def _settled(medians: Sequence[float]) -> bool:
    last = medians[-_ALIKE:]
    return len(last) == _ALIKE and max(last) <= min(last) * (1 + _AGREE)


def block(
    sample: Sample, per_sample: int, block_s: float, clock: Callable[[], float] = time.perf_counter
) -> Block:
    """Samples of `per_sample` calls for `block_s`, at least one."""
    begun, each = clock(), []
    while not each or clock() - begun < block_s:
        each.append(sample(per_sample) / per_sample)
    return Block(statistics.median(each), min(each), per_sample * len(each))


def blocks(
    sample: Sample,
    per_sample: int,
    *,
    count: int = BLOCKS,
    block_s: float = BLOCK_S,
    limit_s: float = 60.0,
    move: Callable[[], object] | None = None,
    tell: Tell = lambda done: None,
    clock: Callable[[], float] = time.perf_counter,
) -> Blocks:
    """Up to `count` blocks of `block_s`, fewer where calls are long: as many as fit into so much time, at least 5.

    Args:
        sample: seconds of so many calls.
        per_sample: calls between two looks at the clock.
        count: of blocks.
        block_s: of one block; a call that is longer is a block by itself.
        limit_s: after which no block begins, the first excepted.
        move: changes what runs have by chance, before each block; what it returns is kept for that block.
        tell: called with the share that is done.
        clock: returns seconds.
    """
    begun, taken = clock(), []
    with frozen():
        while len(taken) < count:
            spent = clock() - begun
            enough = len(taken) >= FEWEST and spent >= 1.5 * count * block_s
            mean = spent / len(taken) if taken else 0.0
            if taken and (enough or spent + mean > limit_s):
                break
            tell(len(taken) / count)
            kept = None if move is None else move()
            with collected():
                taken.append(block(sample, per_sample, block_s, clock))
            del kept
    return Blocks(tuple(taken))


def grouped(each: Sequence[float]) -> Blocks:
    """Single calls as blocks of ten; where they make no five, each is a block by itself."""
    size = _GROUP if len(each) >= FEWEST * _GROUP else 1
    groups = [each[at : at + size] for at in range(0, len(each) - size + 1, size)]
    return Blocks(tuple(Block(statistics.median(group), min(group), len(group)) for group in groups))


@contextmanager
def collected() -> Iterator[None]:
    """No garbage collection while the clock runs: what calls left is collected before."""
    on = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if on:
            gc.enable()


@contextmanager
def frozen() -> Iterator[None]:
    """What is there now is left out of collections meanwhile: they are quick, and clear what calls leave alone."""
    ours = gc.get_freeze_count() == 0  # else somebody else froze some for good
    if ours:
        gc.collect()
        gc.freeze()
    try:
        yield
    finally:
        if ours:
            gc.unfreeze()


def interval(medians: Sequence[float]) -> tuple[float, float] | None:
    """From the least to the largest of the blocks' medians and 1 % beyond; None for fewer than three.

    Noise within a block averages out, so percentiles of single calls say little of another run's median; what
    shifts one for tenths of a second (clocks, other guests, where memory lies and threads run) is seen here. The
    steadiest calls differ by up to 1 % from run to run with none of it seen in either. What another guest of the
    host changes after the last block is in no interval.
    """
    return (min(medians) * (1 - UNSEEN), max(medians) * (1 + UNSEEN)) if len(medians) >= 3 else None


def drift(medians: Sequence[float]) -> float | None:
    """By how much of the first third the last third is slower, where blocks went one way; None where not.

    They did where the later of two blocks is the slower (or the quicker) one in nine of ten pairs, as Kendall's
    tau of 0.8 has it.
    """
    if len(medians) < FEWEST:
        return None
    pairs = list(itertools.combinations(medians, 2))
    slower = sum(later > earlier for earlier, later in pairs) / len(pairs)
    third = max(1, len(medians) // 3)
    first, last = statistics.median(medians[:third]), statistics.median(medians[-third:])
    change = last / first - 1 if first > 0 else 0.0
    return change if (slower >= _DRIFTS or slower <= 1 - _DRIFTS) and abs(change) > _WORTH else None
