"""rooflab.time beside a plain careful timing, in turns, and how often its interval holds the next run's median.

    python benchmarks/timing.py [--only numpy.add,torch.relu] [--turns 5] [--most 0.1] [--json FILE]

Twelve functions of NumPy and PyTorch, from half a microsecond to tens of milliseconds. A turn is one run of
`rooflab.time` and one of the plain timing: warm-up, then loops of at least 1 ms for 2 s without garbage
collection, and their median. Printed by function: the median over the turns of rooflab's median / the plain one,
and in how many of the pairs of neighbouring runs the first one's interval holds the second one's median. Run it
with nothing beside it: what others had of the CPUs' time is printed too.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import rooflab

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
        "torch.nn.functional.conv2d": (
            torch.nn.functional.conv2d,
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
    gc.collect()
    gc.disable()
    begun, each = time.perf_counter(), []
    while time.perf_counter() - begun < SECONDS:
        each.append(loop(fn, args, calls) / calls)
    gc.enable()
    return statistics.median(each)


def loop(fn: Callable[..., Any], args: tuple[Any, ...], calls: int) -> float:
    """Seconds of so many calls."""
    start = time.perf_counter()
    for _ in range(calls):
        fn(*args)
    return time.perf_counter() - start


def main() -> None:
    """Time, compare, count."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="names, with commas between")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--json", help="add a line for each function to this file")
    parser.add_argument(
        "--most", type=float, default=1.0, help="share of the CPUs' time in other hands: give up above"
    )
    given = parser.parse_args()
    known = cases()
    names = given.only.split(",") if given.only else list(known)
    held = tries = 0
    ratios = []
    for name in names:
        fn, args = known[name]
        runs, others = [], []
        for turn in range(given.turns):
            if turn % 2:
                others.append(plain(fn, args))
            runs.append(rooflab.time(fn, *args, cold=False))
            if not turn % 2:
                others.append(plain(fn, args))
            if (runs[-1].surroundings.others_share or 0.0) > given.most:
                raise SystemExit(
                    f"{name}: other processes had {runs[-1].surroundings.others_share:.0%}: try again"
                )
        assert all(run.name == name for run in runs), runs[0].name
        ratio = statistics.median(run.time_s / other for run, other in zip(runs, others, strict=True))
        pairs = [(a.warm.low_s, b.time_s, a.warm.high_s) for a, b in itertools.pairwise(runs)]
        inside = sum(low <= median <= high for low, median, high in pairs if low is not None and high is not None)
        beside = max(run.surroundings.others_share or 0.0 for run in runs)
        stolen = max(run.surroundings.stolen_share or 0.0 for run in runs)
        wide = statistics.median(run.warm.spread or 0.0 for run in runs)
        held, tries = held + inside, tries + len(pairs)
        ratios.append(ratio)
        print(
            f"{name:28} {runs[0].time_s * 1e6:10.2f} µs  rooflab / plain {ratio:.3f}  holds {inside}/{len(pairs)} "
            f" interval {wide:.1%} wide  others {beside:.0%}, stolen {stolen:.0%}",
            flush=True,
        )
        if given.json:
            line = {"name": name, "ratio": ratio, "inside": inside, "pairs": len(pairs), "others": beside}
            line |= {"medians": [run.time_s for run in runs], "plain": others}
            with Path(given.json).open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
    worst = max(abs(ratio - 1) for ratio in ratios)
    print(f"furthest from the plain timing {worst:.1%}; the interval held {held} of {tries} medians")


if __name__ == "__main__":
    main()
