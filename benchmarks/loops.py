"""All that is claimed of loops, in one table: `python benchmarks/loops.py [--machine FILE] [--files FILE.py …]`.

Runs, one after the other: the kernels of `--files` (a function NAME beside NAME_args(n); benchmarks/loop_files.py)
on one core and over prange, loops of C (c_kernels.py), innermost loops beside OSACA (in_core.py), loops changed as
advised (loop_advice.py), the twin beside the simulator alone (twin.py), and the simulator beside pycachesim
(cachesim.py). Each prints its own table; the last one has a line a figure with its goal. Without a machine this
one is measured first. Times are medians or the best of several; what else ran is said by the load at the beginning
and the end: with more than 0.5 besides this, they are no figures to keep.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import c_kernels
import in_core
import loop_advice
import loop_files

import rooflab
from rooflab.types.machine import Machine

Figures = list[tuple[str, str, str]]
_RATIO = re.compile(r"ratio (?P<ratio>[\d.]+)")
_NUMBERS = re.compile(r"[\d.]+")
_TWIN_GOAL, _MATMUL_GOAL = 0.9, 1000.0  # of the simulator's own rate; million accesses/s with short cuts


def main() -> None:
    """Run all parts, then print the table of figures."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--machine", type=Path, help="measured here; without it one is measured now")
    options.add_argument("--files", nargs="*", type=Path, default=[], help="kernels: NAME beside NAME_args(n)")
    options.add_argument("--part", choices=PARTS, action="append", help="these alone")
    given = options.parse_args()
    load = os.getloadavg()[0]
    machine = rooflab.measure() if given.machine is None else rooflab.machine(given.machine)
    figures: Figures = []
    for name in given.part or PARTS:
        begun = time.perf_counter()
        print(f"\n== {name}", flush=True)
        found = PARTS[name](machine, given.files)
        for what, goal, here in found:
            print(f"{what}: {here} (goal {goal})")  # here too: the table comes last, and a part takes minutes
        print(f"({time.perf_counter() - begun:.0f} s)", flush=True)
        figures += found
    print(f"\n{machine.name}; load {load:.1f} before, {os.getloadavg()[0]:.1f} after")
    print(f"{'figure':44}{'goal':>20}{'here':>20}")
    for what, goal, here in figures:
        print(f"{what:44}{goal:>20}{here:>20}")


def kernels(machine: Machine, files: list[Path]) -> Figures:
    """Predicted times of the kernels of files."""
    return loop_files.figures(*loop_files.table(files, machine)) if files else []


def of_c(machine: Machine, files: list[Path]) -> Figures:
    """Predicted times of loops of C."""
    return c_kernels.figures(*c_kernels.table(machine))


def innermost(machine: Machine, files: list[Path]) -> Figures:
    """In-core cycles beside OSACA's; `machine` is the one that this runs on."""
    return in_core.figures(in_core.table(files, in_core.model_here()))


def advice(machine: Machine, files: list[Path]) -> Figures:
    """Signs of advice, as run."""
    _, signs = loop_advice.table(machine)
    told = [each for each in signs if each in ("right", "WRONG")]
    return [("advice: runs with the sign predicted", "all", f"{told.count('right')} of {len(told)}")]


def twin(machine: Machine, files: list[Path]) -> Figures:
    """The twin's rate as a share of the simulator's own."""
    ratios = [float(each) for each in _RATIO.findall(printed("twin.py"))]
    return [("twin ÷ simulator alone, the least", f"{_TWIN_GOAL}", f"{min(ratios):.2f}")] if ratios else []


def simulator(machine: Machine, files: list[Path]) -> Figures:
    """The simulator's rate beside pycachesim's."""
    found: Figures = []
    for line in printed("cachesim.py").splitlines()[1:]:
        name, numbers = line[:14].strip(), _NUMBERS.findall(line[14:])
        if "not installed" in line[:90] or len(numbers) < 7:
            continue
        _, cut, _, ratio, _, _, goal = numbers[:7]
        found.append((f"simulator ÷ pycachesim, {name}", goal, ratio))
        if name.startswith("matmul"):
            found.append(("effective M accesses/s of a product", f"{_MATMUL_GOAL:.0f}", cut))
    return found


def printed(script: str) -> str:
    """What another benchmark prints, in a process of its own: its packages bear the names of files here."""
    path = Path(__file__).with_name(script)
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=True)
    print(done.stdout, end="")
    return done.stdout


PARTS: dict[str, Callable[[Machine, list[Path]], Figures]] = {
    "kernels": kernels,
    "c": of_c,
    "innermost": innermost,
    "advice": advice,
    "twin": twin,
    "simulator": simulator,
}

if __name__ == "__main__":
    main()
