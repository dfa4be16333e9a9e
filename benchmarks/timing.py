"""rooflab.time beside a plain careful timing, in turns, and how often its interval holds the next run's median.

    python benchmarks/timing.py [--only numpy.add,torch.relu] [--turns 5] [--by-block]

Twelve functions of NumPy and PyTorch, from half a microsecond to tens of milliseconds. A turn is one run of
`rooflab.time` and one of the plain timing: warm-up, then loops of at least 1 ms for 2 s without garbage
collection, and their median. With --by-block the two take turns block by block of 0.1 s, so that what other
processes do shifts both alike. Printed by function: the median over the turns of rooflab's median / the plain
one, the least and the largest of these, in how many of the pairs of neighbouring runs the first one's interval
holds the second one's median, how wide the interval is, and what others had of the CPUs' time. Run it with nothing
beside it.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch

import rooflab
from rooflab.machines.bench.run.background_load import background_load, cpu_time
from rooflab.timing import careful
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
    """Seconds of a call as one would take them by hand, with care."""
    begun = time.perf_counter()
    while time.perf_counter() - begun < 0.2:
        fn(*args)
    calls = 1
    while loop(fn, args, calls) < LOOP_S:
        calls *= 2
    with careful.collected():
        return statistics.median(loops(fn, args, calls, SECONDS))


def loops(fn: Callable[..., Any], args: tuple[Any, ...], calls: int, seconds: float) -> list[float]:
    """Seconds of a call, by loop, for so long."""
    begun, each = time.perf_counter(), []
    while not each or time.perf_counter() - begun < seconds:
        each.append(loop(fn, args, calls) / calls)
    return each


def loop(fn: Callable[..., Any], args: tuple[Any, ...], calls: int) -> float:
    """Seconds of so many calls."""
    start = time.perf_counter()
    for _ in range(calls):
        fn(*args)
    return time.perf_counter() - start


class Seen(NamedTuple):
    """What the turns of one function gave: medians of both ways, rooflab's intervals, the load of others."""

    medians: list[float]
    intervals: list[tuple[float, float]]
    plain: list[float]
    others: float


def by_runs(fn: Callable[..., Any], args: tuple[Any, ...], turns: int) -> Seen:
    """Whole runs of `rooflab.time` and of the plain timing, in turns."""
    seen = Seen([], [], [], 0.0)
    for turn in range(turns):
        if turn % 2:
            seen.plain.append(plain(fn, args))
        run = rooflab.time(fn, *args)
        if not turn % 2:
            seen.plain.append(plain(fn, args))
        assert run.warm.low_s is not None
        assert run.warm.high_s is not None
        seen.medians.append(run.time_s)
        seen.intervals.append((run.warm.low_s, run.warm.high_s))
        seen = seen._replace(others=max(seen.others, run.surroundings.others_share or 0.0))
    return seen


def by_blocks(fn: Callable[..., Any], args: tuple[Any, ...], turns: int) -> Seen:
    """The blocks of which `rooflab.time` makes a run and those of the plain timing, in turns block by block."""
    sample = careful.sampler(fn, args)
    calls, seen = 1, Seen([], [], [], 0.0)
    while loop(fn, args, calls) < LOOP_S:
        calls *= 2
    cpus = sorted(os.sched_getaffinity(0))
    before = cpu_time(cpus)
    with careful.frozen():
        for _ in range(turns):
            one_run(fn, args, sample, calls, seen)
    load = background_load(before, cpu_time(cpus), len(cpus))
    return seen._replace(others=0.0 if load is None else load.others)


def one_run(fn: Callable[..., Any], args: tuple[Any, ...], sample: careful.Sample, calls: int, seen: Seen) -> None:
    """Twenty blocks of both ways, in turns, noted in `seen`."""
    warm = careful.warm_up(sample)
    blocks, others = [], []
    for turn in range(2 * careful.BLOCKS):
        with careful.collected():
            if turn % 2:
                blocks.append(careful.block(sample, warm.per_sample, careful.BLOCK_S))
            else:
                others.append(statistics.median(loops(fn, args, calls, careful.BLOCK_S)))
    run = careful.Blocks(tuple(blocks))
    assert run.interval_s is not None
    seen.medians.append(run.median_s)
    seen.intervals.append(run.interval_s)
    seen.plain.append(statistics.median(others))


def main() -> None:
    """Time, compare, count."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="names, with commas between")
    parser.add_argument("--turns", type=int, default=5, help="runs of each")
    parser.add_argument("--by-block", action="store_true", help="in turns block by block, not run by run")
    given = parser.parse_args()
    known = cases()
    names = given.only.split(",") if given.only else list(known)
    held, ratios = [], []
    for name in names:
        assert name_of(known[name][0]) == name
        seen = (by_blocks if given.by_block else by_runs)(*known[name], given.turns)
        each = [ours / other for ours, other in zip(seen.medians, seen.plain, strict=True)]
        pairs = zip(seen.intervals, seen.medians[1:], strict=False)
        inside = [low <= median <= high for (low, high), median in pairs]
        wide = statistics.median((high - low) / low for low, high in seen.intervals)
        held, ratios = held + inside, [*ratios, statistics.median(each)]
        print(
            f"{name:28} {seen.medians[0] * 1e6:10.2f} µs  rooflab / plain {ratios[-1]:.3f} ({min(each):.3f} to "
            f"{max(each):.3f})  holds {sum(inside)}/{len(inside)}  {wide:.1%} wide  others {seen.others:.0%}",
            flush=True,
        )
    worst = max(abs(ratio - 1) for ratio in ratios)
    print(f"furthest from the plain timing {worst:.1%}; the interval held {sum(held)} of {len(held)} medians")


if __name__ == "__main__":
    main()
