"""Predictions against measured times: `python benchmarks/accuracy.py [--truth DIR] [--data DIR] [--only TABLE]`.

For each table of measured times (operators warm and cold, GEMM, attention, NCCL, models as graph, compiled and
eager, public models as a sum of kernels, graph and eager): median and 90th percentile of |predicted / measured -
1|, the share of times inside the error bars (goal 75-90 %), the median width of the bars (high / low, goal 1.5),
their interval score, and how often a prediction or a measured time is below its machine's theoretical floor (goal:
never). Beside it the plain roofline from datasheet peaks, and PyTorch's own RuntimeEstimator where it can run. A
third of each table is set aside, which no constant may be fitted on: `--part` judges by that part alone, or by the
rest; without it both stand below the tables. Last: how many constants are fitted, and how fast it predicts. Files,
rows and cases that cannot be read or predicted are left out, each reason a line on stderr.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from importlib import resources
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import kernel_tables
import measured
import numpy as np
from measured import Case, LeftOut

import rooflab
from rooflab.errors import RooflabError
from rooflab.model.device.constants import family_names
from rooflab.model.device.device import device_of
from rooflab.model.program import op_times

ALPHA = 0.2  # the bars are meant to hold 80 %


class Judged(NamedTuple):
    """One case with what was predicted."""

    case: Case
    predicted_s: float
    low_s: float
    high_s: float
    floor_s: float
    roofline_s: float

    @property
    def error(self) -> float:
        """Predicted over measured, minus 1."""
        return self.predicted_s / self.case.measured_s - 1

    @property
    def inside(self) -> bool:
        """Whether the measured time lies within the bars."""
        return self.low_s <= self.case.measured_s <= self.high_s

    @property
    def interval_score(self) -> float:
        """Gneiting and Raftery, JASA 102, 2007, of ln(time): width, plus 2 / alpha times what lies outside."""
        low, high, y = np.log([self.low_s, self.high_s, self.case.measured_s])
        return float(high - low + 2 / ALPHA * (max(low - y, 0) + max(y - high, 0)))


def judge(case: Case) -> Judged | LeftOut:
    """`case` predicted, or why not: rooflab refuses to, or leaves a row out."""
    where = f"{case.table}: {case.name}"
    try:
        report = case.report.on(case.machine, **case.settings)
    except RooflabError as error:
        return LeftOut(where, str(error))
    found = report.prediction
    lacking = [warning for warning in report.warnings if "without a prediction" in warning]
    if found is None or lacking:
        return LeftOut(case.table, lacking[0] if lacking else "nothing in it could be predicted")
    return Judged(case, found.time_s, found.low_s, found.high_s, found.floor_s, _roofline(report))


def _roofline(report: rooflab.Report) -> float:
    """Datasheet peaks alone: every row the longer of arithmetic and memory, nothing else."""
    assert report.machine is not None
    cold = device_of(report.machine, cache="cold")
    work = op_times.prepare(report.graph, report.rows)
    counts = np.array([row.op.count for row in work.rows], float)
    return float(counts @ op_times.predict_times(work, cold).floor_s[:, 0])


def cases(truth: Path, data: Path, only: str | None) -> Iterator[Case | LeftOut]:
    """All measured times whose table's name has `only` in it, and what is left out of them."""
    sources = {
        "operators": lambda: measured.operators(truth),
        "gemm": lambda: kernel_tables.gemm(data),
        "quant": lambda: kernel_tables.scaling(data),
        "attention": lambda: kernel_tables.attention(data),
        "moe": lambda: kernel_tables.experts(data),
        "allreduce": lambda: kernel_tables.all_reduce(data),
        "nccl": lambda: kernel_tables.nccl(data),
        "models": lambda: measured.models(truth),
        "public models": lambda: measured.models(truth, measured.PUBLIC),
    }
    # Engines' tables of attention are called by what their layers do.
    called = {"attention": ("attention", "ctx", "gen", "enc", "mla")}
    wanted = [make for name, make in sources.items() if only and only.startswith(called.get(name, name))]
    found = chain.from_iterable(make() for make in wanted or sources.values())
    if only is None:
        found = chain(measured.unread(truth), kernel_tables.unread(data), found)
    return (each for each in found if only is None or isinstance(each, LeftOut) or only in each.table)


def judged_and_left_out(found: Iterable[Case | LeftOut]) -> tuple[list[Judged], list[LeftOut]]:
    """The cases that could be predicted, and the others."""
    every = [each if isinstance(each, LeftOut) else judge(each) for each in found]
    judged = [each for each in every if isinstance(each, Judged)]
    return judged, [each for each in every if isinstance(each, LeftOut)]


def say_left_out(left_out: list[LeftOut]) -> None:
    """A line on stderr for each place and reason, with how often."""
    for each, times in Counter(left_out).items():
        count = f" ({times} cases)" if times > 1 else ""
        print(f"left out: {each.where}{count}: {each.why}", file=sys.stderr)


def table(judged: Iterable[Judged], by: str) -> list[dict[str, Any]]:
    """One line per table, or per sort of case ("kind") or part ("part") within the tables."""
    groups: dict[str, list[Judged]] = {}
    for each in judged:
        name = each.case.table if by == "table" else f"{each.case.table}: {getattr(each.case, by)}"
        groups.setdefault(name, []).append(each)
    return [_line(name, found) for name, found in groups.items()]


def _line(name: str, found: list[Judged]) -> dict[str, Any]:
    errors = np.abs([each.error for each in found])
    plain = np.abs([each.roofline_s / each.case.measured_s - 1 for each in found])
    return {
        "table": name,
        "cases": len(found),
        "median": float(np.median(errors)),
        "p90": float(np.percentile(errors, 90)),
        "worst": float(errors.max()),
        "bias": float(np.exp(np.mean([np.log1p(each.error) for each in found])) - 1),
        "inside": float(np.mean([each.inside for each in found])),
        "high_over_low": float(np.median([each.high_s / each.low_s for each in found])),
        "interval_score": float(np.mean([each.interval_score for each in found])),
        "below_floor": sum(
            min(each.predicted_s, each.case.measured_s) < each.floor_s * (1 - 1e-9) for each in found
        ),
        "roofline_median": float(np.median(plain)),
        "roofline_p90": float(np.percentile(plain, 90)),
    }


_HEAD = (
    f"{'table':46}{'cases':>6}{'median':>8}{'p90':>8}{'worst':>8}{'bias':>8}{'inside':>8}{'hi/lo':>7}"
    f"{'score':>7}{'<floor':>7}{'roofline':>10}{'p90':>6}"
)


def show(lines: list[dict[str, Any]]) -> None:
    """Print `lines`."""
    print(_HEAD)
    for each in lines:
        print(
            f"{each['table'][:45]:46}{each['cases']:6}{each['median']:8.1%}{each['p90']:8.1%}{each['worst']:8.0%}"
            f"{each['bias']:+8.1%}{each['inside']:8.0%}{each['high_over_low']:7.2f}{each['interval_score']:7.2f}"
            f"{each['below_floor']:7}{each['roofline_median']:10.0%}{each['roofline_p90']:6.0%}"
        )


def same_calls(judged: list[Judged]) -> list[tuple[int, list[float]]]:
    """Programs that make the same calls and wait for the host, by how many calls: their measured seconds, sorted.

    What they differ by is the host's own spread from run to run: no prediction can be closer.
    """
    found: dict[tuple[str, ...], list[float]] = {}
    for each in judged:
        report = each.case.report
        if "eager" in each.case.table and report.on(each.case.machine, **each.case.settings).binds == "host":
            names = tuple(row.op.name for row in report.rows)
            found.setdefault(names, []).append(each.case.measured_s)
    return [(len(names), sorted(times)) for names, times in found.items() if len(times) > 1]


def peers(judged: list[Judged]) -> list[tuple[str, int, float, float]]:
    """PyTorch's RuntimeEstimator on the warm operators and the models as graphs: name, cases, median, p90."""
    import peer_estimates

    made = []
    for name, wanted in (("operators, warm", "operators, warm"), ("models, graph", "models, graph")):
        ours = [each for each in judged if each.case.table.startswith(wanted)]
        pairs = [(each, peer_estimates.runtime_estimator(each.case)) for each in ours]
        errors = [abs(guess / each.case.measured_s - 1) for each, guess in pairs if guess is not None]
        if errors:
            made.append((name, len(errors), float(np.median(errors)), float(np.percentile(errors, 90))))
    return made


def fitted() -> dict[str, int]:
    """How many numbers each family's own file states as fitted to measured times."""
    found = {}
    for name in family_names():
        # What a family takes from one that it is like is counted there.
        tables = tomllib.loads((resources.files("rooflab.model") / "data" / f"{name}.toml").read_text()).values()
        stated = [each for topic in tables if isinstance(topic, dict) for each in topic.values()]
        ours = [each["value"] for each in stated if isinstance(each, dict) and each.get("fitted")]
        found[name] = sum(len(value) if isinstance(value, list) else 1 for value in ours)
    return found


def speed(reports: list[rooflab.Report], machine: rooflab.Machine) -> tuple[float, float]:
    """Seconds to predict 1,000 rows once, and (row × setting) evaluations/s over 10,000 bandwidths."""
    rows = [(report.graph, report.rows) for report in reports]
    graph, many = max(rows, key=lambda each: len(each[1]))
    repeated = (many * (1000 // len(many) + 1))[:1000]
    best = min(
        _timed(lambda: op_times.predict_times(op_times.prepare(graph, repeated), device_of(machine)))
        for _ in range(7)
    )
    some = op_times.prepare(graph, many[:100])
    swept = device_of(machine, knobs={"bandwidth": np.linspace(0.5, 2, 10_000)})
    seconds = min(_timed(lambda: op_times.predict_times(some, swept)) for _ in range(3))
    return best, len(some.rows) * 10_000 / seconds


def _timed(work: Any) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main() -> None:
    """Judge, print, and write JSON where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--truth", type=Path, default=measured.SHARED / "truth")
    parser.add_argument("--data", type=Path, default=measured.SHARED / "data")
    parser.add_argument("--only", help="tables whose name has this in it: operators, gemm_h200, models, eager, …")
    parser.add_argument(
        "--part", choices=("fit", "aside", "all"), default="all", help="cases that constants were fitted on or not"
    )
    parser.add_argument("--kinds", action="store_true", help="a line for each sort of case")
    parser.add_argument("--worst", type=int, default=0, metavar="N", help="list the N worst cases of each table")
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("-o", "--output", type=Path, help="write every case to this JSON file")
    args = parser.parse_args()
    for folder in (args.truth, args.data):
        if not folder.is_dir():
            print(f"no folder {folder}: nothing of it is judged", file=sys.stderr)
    found = cases(args.truth, args.data, args.only)
    if args.part != "all":
        found = (each for each in found if isinstance(each, LeftOut) or each.part == args.part)
    judged, left_out = judged_and_left_out(found)
    say_left_out(left_out)
    show(table(judged, "table"))
    if args.part == "all":
        print()
        show(sorted(table(judged, "part"), key=lambda line: line["table"]))
    if args.kinds:
        print()
        show(table(judged, "kind"))
    for each in worst(judged, args.worst):
        print(
            f"{each.error:+8.1%} {each.case.measured_s * 1e6:12.2f} µs measured {each.predicted_s * 1e6:12.2f} "
            f"predicted  {each.case.table}: {each.case.name}"
        )
    for calls, times in same_calls(judged):
        took = " ".join(f"{seconds * 1e3:.1f}" for seconds in times)
        print(f"the host's own spread: programs of the same {calls} calls took {took} ms")
    if not args.no_peers and args.only is None:
        for name, count, median, p90 in peers(judged):
            print(f"PyTorch RuntimeEstimator, {name}: {count} cases, median {median:.0%}, p90 {p90:.0%}")
    counts = fitted()
    print(f"fitted constants: {sum(counts.values())}", *(f"{name} {n}" for name, n in counts.items() if n))
    models = [each.case.report for each in judged if each.case.table.startswith("models")]
    if models:
        once, rate = speed(models, rooflab.machine("h200"))
        print(f"1,000 rows once: {once * 1e3:.1f} ms; over 10,000 settings: {rate / 1e6:.2f} M evaluations/s")
    if args.output:
        args.output.write_text(json.dumps([_plain(each) for each in judged], indent=1))


def worst(judged: list[Judged], count: int) -> list[Judged]:
    """The `count` cases of each table that are furthest off."""
    names = dict.fromkeys(each.case.table for each in judged)
    chosen = []
    for name in names:
        ours = [each for each in judged if each.case.table == name]
        chosen += sorted(ours, key=lambda each: -abs(np.log1p(each.error)))[:count]
    return chosen


def _plain(each: Judged) -> dict[str, Any]:
    case = each.case
    plain = {"table": case.table, "kind": case.kind, "name": case.name, "measured_s": case.measured_s}
    return plain | {name: getattr(each, name) for name in Judged._fields[1:]}


if __name__ == "__main__":
    main()
