"""Predicted times of loops against measured ones: `python benchmarks/loop_times.py [--machine FILE]`.

Without a file the machine is measured first (about 20 s). Each loop is counted, predicted, compiled and timed; all
of them are then timed again, round by round, so that a busy moment spoils no loop alone. The ratio is the median
of the warm runs over the prediction; "of best" is that of the best run, which neighbours disturb least. The goal:
within 25 % for the required, memory-bound ones. Kernels are in benchmarks/loop_kernels.py; those held back were no
part of making the model. Tile sizes come last: the rank correlation (Spearman) of predicted with measured times.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import loop_kernels
import numpy as np
from loop_kernels import Case

import rooflab
from rooflab.errors import RooflabError
from rooflab.loops import examine, tiles, understanding
from rooflab.loops.compiled.time import build, steered_by_data
from rooflab.loops.compiled.time import warm as warm_run
from rooflab.loops.read.arguments import Arguments
from rooflab.machines import cache_levels
from rooflab.model.loop import placement
from rooflab.types.loop import LoopReport, Predicted
from rooflab.types.machine import Machine

WITHIN = 0.25
SIZES = (4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 320)
GROUPS = {
    "required": loop_kernels.REQUIRED,
    "others": loop_kernels.OTHERS,
    "held back": loop_kernels.HELD_BACK,
}


class Runner(NamedTuple):
    """A compiled loop that is timed again and again; `seconds` gets a time of each round."""

    function: Any
    arguments: Arguments
    fresh: bool
    prediction: Predicted
    seconds: list[float]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--machine", type=Path, help="measured here; without it one is measured now")
    options.add_argument("--rounds", type=int, default=7)
    options.add_argument("--group", choices=GROUPS, action="append")
    options.add_argument("--only", help="loops whose name holds this")
    options.add_argument("--no-tiles", action="store_true")
    options.add_argument("--no-loops", action="store_true", help="tile sizes alone")
    chosen = options.parse_args()
    machine = rooflab.measure() if chosen.machine is None else rooflab.machine(chosen.machine)
    print(
        f"{machine.name}, {', '.join(f'{each.name} {each.capacity_bytes or 0:,.0f} B' for each in machine.levels)}"
    )
    for group in () if chosen.no_loops else chosen.group or GROUPS:
        cases = [each for each in GROUPS[group] if chosen.only is None or chosen.only in each.name]
        table(group, cases, machine, chosen.rounds)
    if not chosen.no_tiles:
        for name in TILED:
            rank(name, machine, chosen.rounds)


def table(group: str, cases: Sequence[Case], machine: Machine, rounds: int) -> None:
    """Print a line a loop and way of running: predicted and measured, and how many lie within the goal."""
    runners = [(case.name, each) for case in cases for each in prepare(case, machine)]
    for _ in range(rounds):
        for _, each in runners:
            each.seconds.append(warm(each))
    columns = "".join(f"{each:>12}" for each in ("predicted", "median", "best", "of best", "ratio", ""))
    print(f"\n{group:<34}{'cores':>5}{columns}  bound")
    ratios = []
    for name, each in runners:
        median, best, predicted = statistics.median(each.seconds), min(each.seconds), each.prediction
        ratios.append(median / predicted.time_s)
        said = "PASS" if 1 - WITHIN <= ratios[-1] <= 1 + WITHIN else "miss"
        times = "".join(f"{seconds * 1e3:9.3f} ms" for seconds in (predicted.time_s, median, best))
        bound = f"{predicted.bound}: {predicted.binds}"
        shares = f"{best / predicted.time_s:12.2f}{ratios[-1]:12.2f}"
        print(f"{name:<34}{predicted.threads:>5}{times}{shares}{said:>12}  {bound}")
    held = sum(1 - WITHIN <= ratio <= 1 + WITHIN for ratio in ratios)
    if ratios:
        print(f"{held} of {len(ratios)} within {WITHIN:.0%}; median ratio {statistics.median(ratios):.2f}")


def prepare(case: Case, machine: Machine) -> list[Runner]:
    """The loop counted, predicted and compiled: on one core, and on all where it is for all."""
    known = understanding.understand(case.fn, case.make())
    report = placement.place_on(examine.report(known, cache_levels.of_machine(machine)), machine)
    compiled = build(known)
    fresh = steered_by_data(known.source, known.value_types)
    made = []
    for predicted in report.predictions:
        function = compiled.serial if predicted.threads == 1 else compiled.parallel
        made.append(Runner(function, known.arguments, fresh, predicted, []))
    return made


def warm(runner: Runner) -> float:
    """Seconds of one run after a run, the median of some."""
    return warm_run(runner.function, runner.arguments, runner.fresh).median_s


TILED = {
    "matmul 320": (loop_kernels.loops.matmul, lambda: loop_kernels.loops.args(320, "matmul"), "t"),
    **{
        f"transpose_blocked {n}": (
            loop_kernels.transpose_blocked,
            lambda n=n: (*loop_kernels.loops.args(n, "transpose"), 8),
            "t",
        )
        for n in (2000, 2048)
    },
}


def rank(name: str, machine: Machine, rounds: int) -> None:
    """Print predicted and measured times over tile sizes, and the correlation of their ranks."""
    fn, make, parameter = TILED[name]
    given = make()
    sizes = [{parameter: each} for each in SIZES]
    start = time.perf_counter()
    reports = tiles.simulate(fn, given, sizes, cache_levels.of_machine(machine), examine.TIME_LIMIT_S)
    predicted = [prediction_of(each, machine) for each in reports]
    took = time.perf_counter() - start
    measured: list[list[float]] = [[] for _ in sizes]
    for _ in range(rounds):
        for number, each in enumerate(sizes):
            measured[number].append(tiles.timed(fn, given, each).best_s)
    best = [min(each) for each in measured]
    print(f"\n{name} over {parameter} (simulated in {took:.1f} s)")
    for size, each, seconds in zip(SIZES, predicted, best, strict=True):
        print(
            f"{size:>6}  predicted {each.time_s * 1e3:9.3f} ms  measured {seconds * 1e3:9.3f} ms"
            f"  ratio {seconds / each.time_s:5.2f}  {each.binds}"
        )
    print(f"Spearman {spearman([each.time_s for each in predicted], best):.2f}")


def prediction_of(report: LoopReport | RooflabError, machine: Machine) -> Predicted:
    """The prediction for one core; an error where the loop could not be counted or the machine states no rates."""
    if isinstance(report, RooflabError):
        raise report
    found = placement.place_on(report, machine).prediction
    if found is None:
        raise RooflabError(f"{machine.name} states too few rates to predict {report.name}")
    return found


def spearman(a: Sequence[float], b: Sequence[float]) -> float:
    """Pearson's correlation of the ranks; no ties are expected among times."""
    first, second = (np.argsort(np.argsort(each)) for each in (a, b))
    return float(np.corrcoef(first, second)[0, 1])


if __name__ == "__main__":
    main()
