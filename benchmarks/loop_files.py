"""Every kernel of files, predicted against measured: `python benchmarks/loop_files.py FILE.py … [--machine FILE]`.

A kernel is a function NAME beside NAME_args(n). Each is counted, profiled, predicted and timed; sizes are chosen
so that a run takes about `--run-ms`. The last line is the share within 25 % and the median error. Without a
machine this one is measured first. What else ran is said by the load: on a busy machine these are no figures to
keep.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import rooflab
from rooflab.errors import RooflabError
from rooflab.loops.lowered import examine as lowered_examine
from rooflab.types.loop import LoopReport
from rooflab.types.machine import Machine

Figures = list[tuple[str, str, str]]  # what, its goal, here
WITHIN, WITHIN_SEVERAL = 0.25, 0.3
_SMALLEST, _LARGEST = 32, 1 << 21
_TIMES = 3  # that a size is tried: one disturbed call does not decide
_STOLEN = 8  # the column of /proc/stat with what a hypervisor gave to others (proc(5))


class Kernel(NamedTuple):
    """A function and what makes its arguments."""

    name: str
    fn: Callable[..., Any]
    args: Callable[[int], tuple[Any, ...]]


class Row(NamedTuple):
    """A kernel that ran: seconds predicted and measured, of one core and of several (None without prange).

    Attributes:
        name: of it.
        one, several: (predicted, measured), measured the best of the runs.
        inside: whether the measured time lies within the bars; None where there are none.
        bar: half of the bars' width, of the predicted time; None likewise.
        first_s: what the first answer took.
    """

    name: str
    one: tuple[float, float]
    several: tuple[float, float] | None
    inside: bool | None
    bar: float | None
    first_s: float


def main() -> None:
    """Print a line a kernel, then the shares."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("files", nargs="+", type=Path)
    options.add_argument("--machine", type=Path, help="measured here; without it one is measured now")
    options.add_argument("--run-ms", type=float, default=2.0, help="about how long a run takes")
    options.add_argument("--only", help="kernels whose name holds this")
    given = options.parse_args()
    machine = rooflab.measure(quick=True) if given.machine is None else rooflab.machine(given.machine)
    print(f"load {os.getloadavg()[0]:.1f}")
    before = stolen()
    rows, refused = table(given.files, machine, given.run_ms, given.only)
    for text, goal, value in figures(rows, refused):
        print(f"{text}: {value} (goal {goal})")
    print(f"load {os.getloadavg()[0]:.1f}{said_of_steal(before, stolen())}")


def table(
    files: list[Path], machine: Machine, run_ms: float = 2.0, only: str | None = None
) -> tuple[list[Row], list[str]]:
    """The rows of the kernels that ran, printed too, and the names of those that were refused."""
    rows, refused = [], []
    for kernel in kernels(files):
        if only and only not in kernel.name:
            continue
        try:
            n = size(kernel, run_ms * 1e-3)
            args = kernel.args(n)
            begun = time.perf_counter()
            report = rooflab.loop(kernel.fn, *args, machine=machine, advise=False)
        except (RooflabError, MemoryError) as error:
            refused.append(kernel.name)
            print(f"{kernel.name:<16} refused: {error!s:.90}")
            continue
        if (row := row_of(kernel.name, n, report, time.perf_counter() - begun)) is not None:
            rows.append(row)
    return rows, refused


def row_of(name: str, n: int, report: LoopReport, took: float) -> Row | None:
    """The row of a kernel that was counted and timed, printed too; None where nothing is predicted.

    Args:
        name: of it.
        n: its size.
        report: on a machine.
        took: seconds of the first answer.
    """
    run, prediction = report.run(), report.prediction
    if run is None or prediction is None:
        print(f"{name:<16} no prediction")
        return None
    several = next((each for each in report.predictions if each.threads > 1), None)
    spread = report.run(threads=2)
    pair = None if several is None or spread is None else (several.time_s, spread.best_s)
    low, high = prediction.low_s, prediction.high_s
    bars = None if low is None or high is None else (low, high)
    more = "" if pair is None else f"  {spread.threads if spread else 0} threads {pair[1] / pair[0]:5.2f}"
    more += " disturbed" if any(each is not None and each.disturbed for each in (run, spread)) else ""
    print(
        f"{name:<16} n {n:>9,} predicted {prediction.time_s * 1e3:9.3f} ms,"
        f" measured {run.best_s * 1e3:9.3f} ratio {run.best_s / prediction.time_s:5.2f}{more:28}"
        f"  {took:4.1f} s  {prediction.bound}: {prediction.binds}",
        flush=True,
    )
    return Row(
        name,
        (prediction.time_s, run.best_s),
        pair,
        None if bars is None else bars[0] <= run.best_s <= bars[1],
        None if bars is None else (bars[1] - bars[0]) / 2 / prediction.time_s,
        took,
    )


def figures(rows: list[Row], refused: list[str]) -> Figures:
    """(what, goal, here) of those rows."""
    if not rows:
        return []
    errors = [abs(1 - each.one[0] / each.one[1]) for each in rows]
    pairs = [each.several for each in rows if each.several is not None]
    inside = [each.inside for each in rows if each.inside is not None]
    bars = [each.bar for each in rows if each.bar is not None]
    found: Figures = [
        ("kernels that run", "95 %", f"{len(rows)} of {len(rows) + len(refused)}"),
        ("within 25 % on one core", "75 %", f"{sum(each <= WITHIN for each in errors)} of {len(rows)}"),
        ("median error on one core", "12 %", f"{statistics.median(errors):.0%}"),
        ("first answer, median", "3 s", f"{statistics.median(each.first_s for each in rows):.1f} s"),
    ]
    if inside:
        found.append(("within the bars", "75 to 92 %", f"{sum(inside)} of {len(inside)}"))
        found.append(("half of the bars, median", "25 %", f"{statistics.median(bars):.0%}"))
    if pairs:
        held = sum(abs(measured / predicted - 1) <= WITHIN_SEVERAL for predicted, measured in pairs)
        found.append(("within 30 % on several threads", "70 %", f"{held} of {len(pairs)}"))
    return found


def kernels(files: list[Path]) -> Iterator[Kernel]:
    """The kernels of the files, in their order."""
    for path in files:
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        for name, maker in vars(module).items():
            if name.endswith("_args") and hasattr(module, name.removesuffix("_args")):
                yield Kernel(name.removesuffix("_args"), getattr(module, name.removesuffix("_args")), maker)


def size(kernel: Kernel, run_s: float) -> int:
    """A size at which a run takes about that long: doubled until it does."""
    function = lowered_examine.compiled(kernel.fn)
    n = _SMALLEST
    try:
        function(*kernel.args(n))
        while n < _LARGEST:
            if min(_once_s(function, kernel.args(n)) for _ in range(_TIMES)) > run_s / 2:
                break
            n *= 2
    except MemoryError:
        n //= 2  # the largest whose arguments can be made
    except Exception as error:  # noqa: BLE001
        # numba's own refusal: the report says it better
        print(f"{kernel.name:<16} {type(error).__name__} at n = {n}")
    return n


def _once_s(function: Callable[..., Any], args: tuple[Any, ...]) -> float:
    """Seconds of a call: the arguments are its own, as it may change them."""
    begun = time.perf_counter()
    function(*args)
    return time.perf_counter() - begun


def stolen() -> tuple[int, int]:
    """(ticks that a hypervisor gave to others, all ticks) of the CPUs since the start; 0 where not known."""
    try:
        ticks = [int(each) for each in Path("/proc/stat").read_text("ascii").splitlines()[0].split()[1:]]
    except OSError:
        return 0, 0
    return (ticks[_STOLEN - 1], sum(ticks[:_STOLEN])) if len(ticks) >= _STOLEN else (0, 0)


def said_of_steal(before: tuple[int, int], after: tuple[int, int]) -> str:
    """Of what lies between, the share that went to others, in words; "" where it is not known."""
    ticks = after[1] - before[1]
    return f", {(after[0] - before[0]) / ticks:.1%} of the CPUs' time stolen" if ticks > 0 else ""


if __name__ == "__main__":
    main()
