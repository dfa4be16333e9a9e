"""Innermost loops whose data lie in L1: our cycles and OSACA's against measured ones.

    python benchmarks/in_core.py [--files FILE.py …] [--rounds 60] [--only NAME] [--show]

OSACA (PyPI, AGPL: a peer, never a dependency; nothing of its data is used) gets the very assembly that runs: the
innermost loop that has as many floating-point instructions as the loop of ours that takes most. Its answer is the
greater of its throughput and its loop-carried dependence. Ours comes from the code that was compiled, the loads
that found a store, and this core's own operations (`loops.lowered.core_loops`, `model.loop.in_core`). Measured is
the best of many calls, in cycles of this core's integer addition, timed beside it. Loops are those
below, and with --files each function NAME beside NAME_args(n) that fits in L1 and whose one loop makes nine of ten
operations, and that runs for 20 µs or more.
Where OSACA has no model of this processor (Zen 5), or no entry for an instruction, its columns are
empty: it then gives no total itself.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import loop_files
import numba
import numpy as np

from rooflab.errors import RooflabError
from rooflab.loops.lowered import core_loops
from rooflab.loops.read.arguments import copied_in_place
from rooflab.machines.bench.experiments import core_operations
from rooflab.machines.detect import detect
from rooflab.model.loop import in_core
from rooflab.types.loop import CoreLoop

# What OSACA 0.7.1 calls the cores that it has a model of (`osaca --help`); those not here it has none of.
MODELS = {
    "Haswell": "HSW", "Broadwell": "BDW", "Skylake-SP": "SKX", "Cascade Lake": "CSX", "Ice Lake": "ICL",
    "Ice Lake-SP": "ICX", "Sapphire Rapids": "SPR", "Zen": "ZEN1", "Zen 2": "ZEN2", "Zen 3": "ZEN3",
    "Zen 4": "ZEN4", "Neoverse N1": "N1", "Neoverse V2": "V2", "Cortex-A72": "A72", "Firestorm (M1 P)": "M1",
}  # fmt: skip
_ARITHMETIC = re.compile(r"v?(?:f?n?m?(?:add|sub)|mul|div|sqrt|max|min|fn?m(?:add|sub)\d+)[sp][sd]$")
_JUMP = re.compile(r"\s+j(?P<kind>\w+)\s+(?P<label>\.L\w+)")
_LABEL = re.compile(r"(?P<label>\.L\w+):")
_RUN_S, _SHARE, _L1_BYTES, _SHORT_S = 2e-4, 0.9, 32 << 10, 2e-5
N = 960  # elements: three arrays of fp64 lie in 32 KiB; a multiple of any unrolling, and no power of two


def triad(reps, a, b, c):
    for _ in range(reps):
        for i in range(a.shape[0]):
            a[i] = b[i] + 3.0 * c[i]


def copy(reps, a, b, c):
    for _ in range(reps):
        for i in range(a.shape[0]):
            a[i] = b[i]


def daxpy(reps, a, b, c):
    for _ in range(reps):
        for i in range(a.shape[0]):
            a[i] = a[i] + 1e-9 * b[i]


def total(reps, a, b, c):
    s = 0.0
    for _ in range(reps):
        for i in range(a.shape[0]):
            s += a[i]
    c[0] = s


def dot(reps, a, b, c):
    s = 0.0
    for _ in range(reps):
        for i in range(a.shape[0]):
            s += a[i] * b[i]
    c[0] = s


def largest(reps, a, b, c):
    s = 0.0
    for _ in range(reps):
        for i in range(a.shape[0]):
            s = max(s, a[i])
    c[0] = s


def prefix(reps, a, b, c):
    for _ in range(reps):
        s = 0.0
        for i in range(a.shape[0]):
            s += a[i]
            b[i] = s


def recurrence(reps, a, b, c):
    for _ in range(reps):
        for i in range(1, a.shape[0]):
            a[i] = 0.5 * a[i - 1] + b[i]


def into_one_place(reps, a, b, c):
    for _ in range(reps):
        for i in range(a.shape[0]):
            c[0] += a[i] * b[i]


def divided(reps, a, b, c):
    for _ in range(reps):
        for i in range(a.shape[0]):
            c[i] = a[i] / b[i]


def roots(reps, a, b, c):
    for _ in range(reps):
        for i in range(a.shape[0]):
            c[i] = np.sqrt(a[i])


def divided_chain(reps, a, b, c):
    for _ in range(reps):
        x = 1.0
        for i in range(a.shape[0]):
            x = b[i] / (x + 1.5)
            c[i] = x


def tridiagonal(reps, a, b, c):
    for _ in range(reps):
        for i in range(1, a.shape[0]):
            m = 0.4 / (2.0 - 0.4 * c[i - 1])
            c[i] = m
            b[i] = (a[i] - 0.4 * b[i - 1]) * m


def horner7(reps, a, b, c):
    for _ in range(reps):
        for i in range(a.shape[0]):
            x = a[i]
            y = 0.1
            for k in (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8):
                y = y * x + k
            b[i] = y


def horner(reps, a, b, c):
    for _ in range(reps):
        y = 0.0
        for i in range(a.shape[0]):
            y = y * 0.9 + a[i]
        b[0] = y


def stencil3(reps, a, b, c):
    for _ in range(reps):
        for i in range(1, a.shape[0] - 1):
            b[i] = 0.25 * a[i - 1] + 0.5 * a[i] + 0.25 * a[i + 1]


def seidel(reps, a, b, c):
    for _ in range(reps):
        for i in range(1, a.shape[0] - 1):
            a[i] = 0.3 * (a[i - 1] + a[i] + a[i + 1])


def select(reps, a, b, c):
    for _ in range(reps):
        for i in range(a.shape[0]):
            c[i] = a[i] if a[i] > b[i] else 2.0 * b[i]


def backwards(reps, a, b, c):
    for _ in range(reps):
        for i in range(a.shape[0]):
            c[i] = a[a.shape[0] - 1 - i] + b[i]


def norm(reps, a, b, c):
    for _ in range(reps):
        for i in range(a.shape[0]):
            c[i] = a[i] / np.sqrt(a[i] * a[i] + b[i] * b[i])


def gather(reps, a, index, c):
    for _ in range(reps):
        for i in range(index.shape[0]):
            c[i] = a[index[i]]


def gathered_sum(reps, a, index, c):
    s = 0.0
    for _ in range(reps):
        for i in range(index.shape[0]):
            s += a[index[i]]
    c[0] = s


def logistic(reps, a, b, c):
    for _ in range(reps):
        x = 0.3
        for i in range(a.shape[0]):
            x = 3.6 * x * (1.0 - x)
            c[i] = x


PLAIN = (
    triad, copy, daxpy, total, dot, largest, prefix, recurrence, into_one_place, divided, roots, divided_chain,
    tridiagonal, horner7, horner, stencil3, seidel, select, backwards, norm, logistic,
)  # fmt: skip
IN_FP32 = (triad, total, divided, horner7, stencil3)


class Case(NamedTuple):
    """A loop and its arguments; `reps` says whether the first of them is how often it is repeated."""

    name: str
    fn: Callable[..., Any]
    args: tuple[Any, ...]
    reps: bool


class Answer(NamedTuple):
    """Cycles of a pass of the innermost loop. `peer` is None where OSACA has no answer."""

    name: str
    measured: float
    ours: float
    peer: float | None
    why: str


def main() -> None:
    """Print a line a loop, then both median errors."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--files", nargs="*", type=Path, default=[])
    options.add_argument("--rounds", type=int, default=60)
    options.add_argument("--only", help="loops whose name holds this")
    options.add_argument("--show", action="store_true", help="print the assembly too")
    options.add_argument("--model", help="OSACA's name of the core; of this processor by default")
    given = options.parse_args()
    model = given.model or model_here()
    print(f"OSACA's model: {model or 'none'}; load {os.getloadavg()[0]:.1f}")
    found = table(given.files, model, given.rounds, given.only, show=given.show)
    for text, goal, value in figures(found):
        print(f"{text}: {value} (goal {goal})")
    print(f"load {os.getloadavg()[0]:.1f}")


def model_here() -> str | None:
    """OSACA's name of this processor; None where it has no model of it."""
    return MODELS.get(detect(gpus=False).microarchitecture or "")


def table(
    files: list[Path], model: str | None, rounds: int = 60, only: str | None = None, *, show: bool = False
) -> list[Answer]:
    """The answers, each printed too."""
    found = []
    print(f"{'loop':18}{'measured':>10}{'ours':>8}{'error':>7}{'OSACA':>8}{'error':>7}  what binds")
    for case in cases(files):
        if only and only not in case.name:
            continue
        one = answer(case, model, rounds, show=show)
        if isinstance(one, str):
            print(f"{case.name:18}{one:>40}")
            continue
        found.append(one)
        theirs = ("-", "-") if one.peer is None else (f"{one.peer:.1f}", f"{one.peer / one.measured - 1:+.0%}")
        ours = f"{one.ours:8.1f}{one.ours / one.measured - 1:+7.0%}"
        print(f"{one.name:18}{one.measured:10.1f}{ours}{theirs[0]:>8}{theirs[1]:>7}  {one.why}", flush=True)
    return found


def figures(found: list[Answer]) -> list[tuple[str, str, str]]:
    """(what, goal, here) of those answers."""
    both = [each for each in found if each.peer is not None]
    told = (
        [("innermost loops, median error", "-", f"{median_error(found, _ours):.1%} of {len(found)}")]
        if found
        else []
    )
    if both:
        ours, theirs = median_error(both, _ours), median_error(both, lambda one: one.peer)
        told.append((f"of the {len(both)} that OSACA answers", f"{theirs:.1%} (OSACA's)", f"{ours:.1%}"))
    return told


def _ours(one: Answer) -> float:
    return one.ours


def median_error(answers: list[Answer], get: Callable[[Answer], Any]) -> float:
    """The median of |predicted / measured - 1|."""
    return statistics.median(abs(get(each) / each.measured - 1) for each in answers)


def cases(files: list[Path]) -> Iterator[Case]:
    """The loops above, then those of files."""
    rng = np.random.default_rng(0)

    def arrays(dtype: Any) -> tuple[Any, ...]:
        return tuple((rng.random(N) + 0.5).astype(dtype) for _ in range(3))

    for fn in PLAIN:
        yield Case(fn.__name__, fn, (1, *arrays(np.float64)), True)
    for fn in IN_FP32:
        yield Case(f"{fn.__name__} fp32", fn, (1, *arrays(np.float32)), True)
    index = rng.permutation(N)
    for fn in (gather, gathered_sum):
        yield Case(fn.__name__, fn, (1, rng.random(N), index, np.zeros(N)), True)
    for kernel in loop_files.kernels(files):
        sizes = [n for n in (16, 24, 32, 40, 48, 64, 96, 128, 256, 512, 1024, 2048) if fits(kernel.args, n)]
        if sizes:
            yield Case(kernel.name, kernel.fn, kernel.args(sizes[-1]), False)


def fits(args: Callable[[int], tuple[Any, ...]], n: int) -> bool:
    """Whether the arrays of these arguments lie in L1."""
    try:
        return 0 < sum(each.nbytes for each in args(n) if isinstance(each, np.ndarray)) <= _L1_BYTES
    except Exception:  # noqa: BLE001
        # whatever the file's own function cannot do with so small a size
        return False


def answer(case: Case, model: str | None, rounds: int, *, show: bool) -> Answer | str:
    """What a pass of the loop takes, measured and predicted twice; or why the loop is left out."""
    function = numba.njit(nogil=True, error_model="numpy")(case.fn)
    try:
        function(*copied(case.args))
    except Exception as error:  # noqa: BLE001
        # numba's own refusals, of many types
        return f"left out: {type(error).__name__}"
    args = case.args
    if case.reps:
        args = (max(1, round(_RUN_S / seconds(function, (64, *args[1:]), 5) * 64)), *args[1:])
    timing = core_operations.measure()
    try:
        loops = core_loops.found_in(function, copied(args))
    except RooflabError as error:
        return f"left out: {error!s:.30}"
    cycles = in_core.of_loops(loops, timing)
    main_loop = max(cycles, key=lambda each: each.total)
    made = sum(sum(each.operations.values()) for each in loops)
    if sum(main_loop.loop.operations.values()) < _SHARE * made or not main_loop.loop.passes:
        return "left out: not one loop alone"
    # the clock moves: both are timed in turns
    measured = cycle = float("inf")
    for _ in range(4):
        measured = min(measured, seconds(function, args, rounds // 4))
        cycle = min(cycle, cycle_s())
    if not case.reps and measured < _SHORT_S:
        return "left out: its call takes most of it"
    text = assembly(function, main_loop.loop)
    if text is None:
        return "left out: its assembly is not found"
    if show:
        print(text)
    passes = main_loop.loop.passes
    peer = None if model is None else osaca_cycles(text, model)
    return Answer(case.name, measured / cycle / passes, main_loop.total / passes, peer, main_loop.why)


@numba.njit(nogil=True)
def waiting(n: int, a: int, b: int) -> int:
    """Additions and exclusive ors in turn, each waiting for the one before: two cycles a pass."""
    x = a
    for _ in range(n):
        x = (x + a) ^ b
    return x


def cycle_s() -> float:
    """Seconds of this core's integer addition, now."""
    best = float("inf")
    for _ in range(20):
        begun = time.perf_counter()
        waiting(50_000, 3, 5)
        best = min(best, time.perf_counter() - begun)
    return best / 100_000


def copied(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The same with arrays of their own."""
    return tuple(copied_in_place(each) if isinstance(each, np.ndarray) else each for each in args)


def seconds(function: Callable[..., Any], args: tuple[Any, ...], rounds: int) -> float:
    """The best of so many calls."""
    best = float("inf")
    for _ in range(rounds):
        values = copied(args)
        begun = time.perf_counter()
        function(*values)
        best = min(best, time.perf_counter() - begun)
    return best


def assembly(function: Any, loop: CoreLoop) -> str | None:
    """The innermost loop of the machine code with as many floating-point operations as a pass of `loop`."""
    kinds = ("fp ", "divide", "sqrt")
    wanted = sum(count for kind, count in loop.operations.items() if kind.startswith(kinds)) / loop.passes
    accesses = sum(
        count for kind, count in loop.operations.items() if kind.startswith(("load", "store", "gather"))
    )
    text = next(iter(function.inspect_asm().values()))
    main_part = text.partition("_ZN7cpython")[0]  # what Python calls comes behind
    found = list(innermost(main_part.splitlines()))
    if not found:
        return None

    def off(lines: list[str]) -> tuple[float, float]:
        words = [line.split() for line in lines]
        arithmetic = sum(bool(_ARITHMETIC.match(each[0])) for each in words if each)
        memory = sum("(" in line for line in lines)
        return abs(arithmetic - wanted), abs(memory - accesses / loop.passes)

    return "\n".join(min(found, key=off)) + "\n"


def innermost(lines: list[str]) -> Iterator[list[str]]:
    """The loops of some assembly that hold no other: from a label to a jump back to it."""
    labels: dict[str, int] = {}
    last = -1
    for number, line in enumerate(lines):
        if match := _LABEL.match(line):
            labels[match["label"]] = number
        elif (
            (match := _JUMP.match(line))
            and match["kind"] != "mp"
            and (begin := labels.get(match["label"])) is not None
        ):
            if begin > last:
                yield lines[begin : number + 1]
            last = number


def osaca_cycles(text: str, model: str) -> float | None:
    """What OSACA predicts for a pass: the greater of its throughput and its loop-carried dependence."""
    from osaca.osaca import get_asm_parser
    from osaca.semantics import INSTR_FLAGS, ArchSemantics, KernelDG, MachineModel

    parser = get_asm_parser(model)
    try:
        kernel = parser.parse_file(text)
        machine = MachineModel(arch=model)
        semantics = ArchSemantics(parser, machine)
        semantics.normalize_instruction_forms(kernel)
        semantics.add_semantics(kernel)
        unknown = (INSTR_FLAGS.TP_UNKWN, INSTR_FLAGS.LT_UNKWN)
        if any(flag in each.flags for each in kernel for flag in unknown):
            # it gives no total either, unless it is told to count them as nothing
            return None
        semantics.assign_optimal_throughput(kernel)
        graph = KernelDG(kernel, parser, machine, semantics, 10, False)
        carried = max((each["latency"] for each in graph.get_loopcarried_dependencies().values()), default=0.0)
        return float(max(max(semantics.get_throughput_sum(kernel) or [0.0]), carried))
    except (KeyError, ValueError, TypeError, AttributeError, IndexError, NotImplementedError):
        # instructions that it has no entry for
        return None


if __name__ == "__main__":
    main()
