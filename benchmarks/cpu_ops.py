"""Predicted and measured times of NumPy and PyTorch operations on this machine.

    python benchmarks/cpu_ops.py [--machine FILE] [--passes 3] [--times FILE] [--fit] [--only TEXT] [--all]

Measures the machine (or reads FILE, which `rooflab measure -o FILE` wrote), then times every case in several
passes, each in another order. A case's time is its best round of all passes: what the operation takes when
nothing else runs, as the machine's roofs are the best of their runs. Rounds are short, so that on a busy machine
some find the cores free; the spread is how far the median pass lies above the best, and says how busy it was.
`--times FILE` keeps the times, and adds to them when it is there already.

Printed by framework: the median and the 90th percentile of |predicted / measured - 1|, the share of times
within the bars, and the same for a plain roofline of the measured roofs. The constants of cpu.toml were chosen
while looking at the first group of cases; those set aside had no part in it, but for the width of the bars.
`--fit` also refits the constants to a random half of the first group and judges them on the other half
and on those set aside.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from cpu_cases import Case, call_of, cases, cases_aside, report_of

import rooflab
from rooflab.model.calibrate import fit
from rooflab.model.calibrate.timings import Timed
from rooflab.story import predict
from rooflab.timing import time_call
from rooflab.types.constants import Constants
from rooflab.types.machine import Machine
from rooflab.types.prediction import Prediction
from rooflab.types.report import Report

ROUNDS, RUN_S = 15, 0.002


class Result(NamedTuple):
    """A case with its measured seconds, how far the median pass lies above them, and what was predicted."""

    case: Case
    time_s: float
    spread: float
    predicted: Prediction
    roofline_s: float

    @property
    def error(self) -> float:
        """Predicted / measured − 1."""
        return self.predicted.time_s / self.time_s - 1


def main() -> None:
    """Measure, time, compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--machine", help="file of a measured machine; measured now where not given")
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument("--times", type=Path, help="JSON file that keeps the times")
    parser.add_argument("--fit", action="store_true", help="refit on half, judge on the rest")
    parser.add_argument("--only", default="", help="cases with this text in their title")
    parser.add_argument("--all", action="store_true", help="print every case")
    given = parser.parse_args()
    machine = rooflab.machine(given.machine) if given.machine else rooflab.measure()
    groups = {"chosen by": cases(), "set aside": cases_aside()}
    wanted = [case for group in groups.values() for case in group if given.only in case.title]
    times = time_all(wanted, given.passes, given.times)
    reports = {case.title: report_of(case) for case in wanted}
    for name, group in groups.items():
        results = compare([case for case in group if case in wanted], times, reports, machine)
        if given.all:
            show_cases(results)
        show_summary(name, results)
    if given.fit:
        refit(groups, times, reports, machine)


def time_all(wanted: Sequence[Case], passes: int, path: Path | None) -> dict[str, list[float]]:
    """Best seconds of each pass by title; those in `path` first."""
    import torch

    times: dict[str, list[float]] = json.loads(path.read_text()) if path is not None and path.is_file() else {}
    order = list(wanted)
    with torch.no_grad():
        for number in range(passes):
            random.Random(number).shuffle(order)
            for case in order:
                taken = time_call(call_of(case), rounds=ROUNDS, run_s=RUN_S)
                times.setdefault(case.title, []).append(taken.best_s)
    if path is not None:
        path.write_text(json.dumps(times, indent=1))
    return times


def compare(
    group: Sequence[Case],
    times: dict[str, list[float]],
    reports: dict[str, Report],
    machine: Machine,
    constants: Constants | None = None,
) -> list[Result]:
    """Each case of `group` predicted and measured."""
    made = []
    for case in group:
        passes, report = times[case.title], reports[case.title]
        best = min(passes)
        found = predict(report, machine, constants=constants, cache="warm").prediction
        assert found is not None
        spread = statistics.median(passes) / best - 1
        made.append(Result(case, best, spread, found, roofline_s(report, machine)))
    return made


def roofline_s(report: Report, machine: Machine) -> float:
    """The plain roofline from attained roofs: FLOP at the highest peak, or bytes through memory."""
    memory = machine.level("memory").rate(basis="attained")
    peaks = [rate.value for rate in machine.peaks if rate.basis == "attained" and rate.per_s == "flop"]
    assert memory is not None  # `rooflab measure` attains it
    return max(report.nbytes / memory.value, report.flop / max(peaks))


def show_cases(results: Sequence[Result]) -> None:
    """One line a case."""
    print(f"{'case':56s} {'measured':>10s} {'spread':>7s} {'predicted':>10s} {'error':>7s}  binds")
    for each in results:
        print(
            f"{each.case.title:56s} {each.time_s * 1e6:7.2f} µs {each.spread:7.0%} "
            f"{each.predicted.time_s * 1e6:7.2f} µs {each.error:+7.0%}  {each.predicted.binds}"
        )


def show_summary(name: str, results: Sequence[Result]) -> None:
    """Errors by framework."""
    for framework in ("numpy", "torch"):
        found = [each for each in results if each.case.framework == framework]
        if not found:
            continue
        errors = np.abs([each.error for each in found])
        plain = np.abs([each.roofline_s / each.time_s - 1 for each in found])
        inside = np.mean([each.predicted.low_s <= each.time_s <= each.predicted.high_s for each in found])
        width = np.median([each.predicted.high_s / each.predicted.low_s for each in found])
        print(
            f"{framework:6s} {name:10s} {len(found):4d} cases: median {np.median(errors):6.1%}, "
            f"90 % within {np.quantile(errors, 0.9):6.1%}; {inside:4.0%} inside the bars (high/low {width:.2f}); "
            f"plain roofline {np.median(plain):6.1%}; passes spread {np.median([e.spread for e in found]):5.1%}"
        )


def refit(
    groups: dict[str, list[Case]], times: dict[str, list[float]], reports: dict[str, Report], machine: Machine
) -> None:
    """Constants refitted to half of the first group, judged on its other half and on the second group."""
    first = [case for case in groups["chosen by"] if case.title in times]
    random.Random(1).shuffle(first)
    half, other = first[: len(first) // 2], first[len(first) // 2 :]
    timed = [
        Timed(case.title, report, tuple(range(len(report.rows))), min(times[case.title]))
        for case in half
        for report in [reports[case.title]]
    ]
    found = fit.fit(timed, machine)
    aside = [case for case in groups["set aside"] if case.title in times]
    print(f"refitted on {len(half)} cases, {len(found.changes)} constants changed:")
    for each in found.changes:
        print(f"  {each.name:26s} {each.before:10.4g} -> {each.after:10.4g}  ({each.rows} times)")
    for name, group in {"fitted": half, "other half": other, "set aside": aside}.items():
        show_summary(name, compare(group, times, reports, machine, found.constants))


if __name__ == "__main__":
    main()
