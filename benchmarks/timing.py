"""rooflab.time beside the standard library's timeit, in turns, and how often its interval holds the next median.

    python benchmarks/timing.py [--only numpy.add,torch.relu] [--turns 5] [--by-block]

Twelve functions of NumPy and PyTorch, from half a microsecond to tens of milliseconds. A turn is a run of
`timeit`, one of `rooflab.time` and another of `timeit`: warm-up, then loops of at least 1 ms for 2 s, and their
median. What the two of `timeit` differ by is the noise of the machine, which no timing can be below. With --by-
block both ways take turns block by block of 0.1 s, so that what other processes do shifts them alike. Printed
by function: the median over the turns of rooflab's median / the mean of both of timeit, the least and the
largest of these; timeit's second / its first, likewise; in how many of the pairs of neighbouring runs the first
one's interval holds the second one's median, how wide the interval is, and what others had of the CPUs' time.
Run it with nothing beside.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
import timeit
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch

import rooflab
from rooflab.machines.bench.run.background_load import background_load, cpu_time
from rooflab.timing import careful
from rooflab.timing.elsewhere import Elsewhere
from rooflab.timing.names import name_of

SECONDS, LOOP_S = 2.0, 0.001


def cases() -> dict[str, tuple[Callable[..., Any], tuple[Any, ...]]]:
    """The functions with their arguments, by name."""
    rng = np.random.default_rng(1)
    small, vector, large = rng.random(1000), rng.random(100_000), rng.random(4_000_000)
    square = rng.random((512, 512))
    flat, deep = torch.rand(1000), torch.rand(1000, 1000)
    return {
        "numpy.add": (np.add, (small, small)),
        "numpy.exp": (np.exp, (vector,)),
        "numpy.sort": (np.sort, (vector,)),
        "numpy.sum": (np.sum, (large,)),
        "numpy.matmul": (np.matmul, (square, square)),
        "numpy.linalg.svd": (np.linalg.svd, (square[:100, :100],)),
        "numpy.copyto": (np.copyto, (large, large.copy())),
        "torch.relu": (torch.relu, (flat,)),
        "torch.add": (torch.add, (deep, deep)),
        "torch.softmax": (torch.softmax, (deep, 1)),
        "torch.mm": (torch.mm, (deep, deep)),
        "torch.conv2d": (
            torch.conv2d,
            (torch.rand(1, 16, 64, 64), torch.rand(32, 16, 3, 3)),
        ),
    }


def plain(fn: Callable[..., Any], args: tuple[Any, ...]) -> float:
    """Seconds of a call by `timeit`, warmed up, as one would take them with care."""
    timer = timeit.Timer("fn(*args)", globals={"fn": fn, "args": args})
    begun = time.perf_counter()
    while time.perf_counter() - begun < 0.2:
        fn(*args)
    return statistics.median(loops(timer, calls_of(timer), SECONDS))


def calls_of(timer: timeit.Timer) -> int:
    """How many calls make a loop of 1 ms."""
    calls = 1
    while timer.timeit(calls) < LOOP_S:
        calls *= 2
    return calls


def loops(timer: timeit.Timer, calls: int, seconds: float) -> list[float]:
    """Seconds of a call, by loop, for so long."""
    begun, each = time.perf_counter(), []
    while not each or time.perf_counter() - begun < seconds:
        each.append(timer.timeit(calls) / calls)
    return each


class Seen(NamedTuple):
    """Of one function by turns: medians of rooflab, of timeit before and after it, intervals, the load."""

    medians: list[float]
    intervals: list[tuple[float, float]]
    before: list[float]
    after: list[float]
    others: float


def by_runs(fn: Callable[..., Any], args: tuple[Any, ...], turns: int) -> Seen:
    """Whole runs of `rooflab.time` between two of `timeit`, in turns."""
    seen = Seen([], [], [], [], 0.0)
    for _ in range(turns):
        seen.before.append(plain(fn, args))
        run = rooflab.time(fn, *args)
        seen.after.append(plain(fn, args))
        assert run.warm.low_s is not None
        assert run.warm.high_s is not None
        seen.medians.append(run.time_s)
        seen.intervals.append((run.warm.low_s, run.warm.high_s))
        seen = seen._replace(others=max(seen.others, run.surroundings.others_share or 0.0))
    return seen


def by_blocks(fn: Callable[..., Any], args: tuple[Any, ...], turns: int) -> Seen:
    """The blocks of which `rooflab.time` makes a run between those of `timeit`, in turns block by block."""
    sample = careful.sampler(fn, args)
    seen = Seen([], [], [], [], 0.0)
    cpus = sorted(os.sched_getaffinity(0))
    before = cpu_time(cpus)
    with careful.frozen():
        for _ in range(turns):
            one_run(fn, args, sample, seen)
    load = background_load(before, cpu_time(cpus), len(cpus))
    return seen._replace(others=0.0 if load is None else load.others)


def one_run(fn: Callable[..., Any], args: tuple[Any, ...], sample: careful.Sample, seen: Seen) -> None:
    """Twenty blocks of both ways, in turns, noted in `seen`."""
    warm = careful.warm_up(sample)
    timer = timeit.Timer("fn(*args)", globals={"fn": fn, "args": args})
    calls, move = calls_of(timer), Elsewhere(lambda: fn(*args), warm.last_s[-1])
    blocks, before, after = [], [], []
    for turn in range(careful.BLOCKS):
        before.append(statistics.median(loops(timer, calls, careful.BLOCK_S)))
        kept = move() if turn >= careful.BLOCKS - careful.MOVED else None
        with careful.collected():
            blocks.append(careful.block(sample, warm.per_sample, careful.BLOCK_S))
        del kept
        after.append(statistics.median(loops(timer, calls, careful.BLOCK_S)))
    run = careful.Blocks(tuple(blocks))
    assert run.interval_s is not None
    seen.medians.append(run.median_s)
    seen.intervals.append(run.interval_s)
    seen.before.append(statistics.median(before))
    seen.after.append(statistics.median(after))


def main() -> None:
    """Time, compare, count."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="names, with commas between")
    parser.add_argument("--turns", type=int, default=5, help="runs of each")
    parser.add_argument("--by-block", action="store_true", help="in turns block by block, not run by run")
    given = parser.parse_args()
    known = cases()
    names = given.only.split(",") if given.only else list(known)
    held, ratios, floors = [], [], []
    for name in names:
        assert name_of(known[name][0]) == name
        seen = (by_blocks if given.by_block else by_runs)(*known[name], given.turns)
        others = zip(seen.before, seen.after, strict=True)
        each = [ours / ((one + two) / 2) for ours, (one, two) in zip(seen.medians, others, strict=True)]
        noise = [two / one for one, two in zip(seen.before, seen.after, strict=True)]
        pairs = zip(seen.intervals, seen.medians[1:], strict=False)
        inside = [low <= median <= high for (low, high), median in pairs]
        wide = statistics.median((high - low) / low for low, high in seen.intervals)
        held, ratios, floors = held + inside, [*ratios, each], [*floors, noise]
        print(
            f"{name:16} {seen.medians[0] * 1e6:10.2f} µs  rooflab / timeit {spread(each)}  timeit / timeit "
            f"{spread(noise)}  holds {sum(inside)}/{len(inside)}  {wide:.1%} wide  others {seen.others:.0%}",
            flush=True,
        )
    for what, found in (("rooflab from timeit", ratios), ("timeit from itself", floors)):
        medians = [abs(statistics.median(each) - 1) for each in found]
        single = [abs(one - 1) for each in found for one in each]
        print(
            f"{what}: medians within 3 % {sum(one <= 0.03 for one in medians)} of {len(medians)}, furthest "
            f"{max(medians):.1%}; single runs within 3 % {sum(one <= 0.03 for one in single)} of {len(single)}, "
            f"median {statistics.median(single):.1%}, furthest {max(single):.1%}"
        )
    print(f"the interval held {sum(held)} of {len(held)} medians")


def spread(ratios: list[float]) -> str:
    """Median, least and largest."""
    return f"{statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})"


if __name__ == "__main__":
    main()
