"""Loops of C, predicted against measured: `python benchmarks/c_kernels.py [--machine FILE] [--only NAME]`.

Those of c_kernels.c, c_kernels.cpp and examples/c_loops.c, each counted, profiled, predicted and timed as
`rooflab loop` does it with the flags `--cflags` (by default those of a report). The last line is the share within
25 % and the median error. Without a machine this one is measured first. What else ran is said by the load: on a
busy machine these are no figures to keep.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import time
from pathlib import Path
from typing import Any

import loop_files
import numpy as np

import rooflab
from rooflab.errors import RooflabError
from rooflab.types.machine import Machine

FILE = Path(__file__).with_suffix(".c")
FILE_CXX = FILE.with_suffix(".cpp")
EXAMPLES = Path(__file__).parent.parent / "examples" / "c_loops.c"
# What `--n` would be.
SIZES = {
    "saxpy": 1 << 20, "dot": 1 << 20, "jacobi": 512, "histogram": 1 << 20, "prefix": 1 << 20, "fft": 1 << 15,
    "nbody": 1024, "find": 1 << 20, "gemv": 1024, "transpose": 1024, "thomas": 1 << 17, "chase": 1 << 16,
    "softmax": 512, "sort": 2048, "sieve": 1 << 20, "adler": 1 << 19, "floyd": 192, "mandelbrot": 96,
    "lj": 4096, "blur": 1024, "symv": 512, "cmac": 1 << 16, "hamming": 8192, "advect": 1 << 15,
}  # fmt: skip
CXX_SIZES = {
    "fir": 1 << 18, "variance": 1 << 16, "residual": 1 << 16, "ludec": 160, "radix": 1 << 19, "pi_mc": 1 << 18,
}  # fmt: skip
EXAMPLE_SIZES = {
    "copy": 1 << 21, "triad": 1 << 21, "stencil": 128, "spmv": 1 << 15, "matmul": 192, "search": 1 << 15,
    "horner": 1 << 17,
}  # fmt: skip


def main() -> None:
    """Print a line a kernel, then the shares."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--machine", type=Path, help="measured here; without it one is measured now")
    options.add_argument("--only", nargs="*", help="these kernels")
    options.add_argument("--cflags", help="of the compiler")
    given = options.parse_args()
    machine = rooflab.measure(quick=True) if given.machine is None else rooflab.machine(given.machine)
    print(f"load {os.getloadavg()[0]:.1f}")
    for text, goal, value in figures(*table(machine, given.only, given.cflags)):
        print(f"{text}: {value} (goal {goal})")
    print(f"load {os.getloadavg()[0]:.1f}")


def table(
    machine: Machine, only: list[str] | None = None, cflags: str | None = None
) -> tuple[list[loop_files.Row], list[str]]:
    """The rows of the kernels that ran, printed too, and the names of those that were refused."""
    rows: list[loop_files.Row] = []
    refused: list[str] = []
    kernels = [(EXAMPLES, name, n, of_examples) for name, n in EXAMPLE_SIZES.items()]
    kernels += [(FILE, name, n, args) for name, n in SIZES.items()]
    kernels += [(FILE_CXX, name, n, args) for name, n in CXX_SIZES.items()]
    for path, name, n, maker in kernels:
        if only and name not in only:
            continue
        values = maker(n, name)
        begun = time.perf_counter()
        try:
            report = rooflab.loop(f"{path}:{name}", *values, machine=machine, cflags=cflags, advise=False)
        except RooflabError as error:
            refused.append(name)
            print(f"{name:<16} refused: {error!s:.90}")
            continue
        row = loop_files.row_of(name, n, report, time.perf_counter() - begun)
        rows += [] if row is None else [row]
    return rows, refused


def figures(rows: list[loop_files.Row], refused: list[str]) -> loop_files.Figures:
    """(what, goal, here) of those rows."""
    return [(f"C: {what}", goal, here) for what, goal, here in loop_files.figures(rows, refused)]


def args(n: int, loop: str, seed: int = 0) -> tuple[Any, ...]:
    """What the function named `loop` is called with."""
    rng = np.random.default_rng(seed)
    real = rng.random
    if loop == "saxpy":
        return real(n, np.float32), real(n, np.float32), 2.0, n
    if loop == "dot":
        return real(n), real(n), n
    if loop == "jacobi":
        return real(n * n), real(n * n), n, 4
    if loop == "histogram":
        return rng.integers(0, 256, n, dtype=np.uint8), np.zeros(256, np.uint32), n
    if loop == "prefix":
        return real(n), np.zeros(n), n
    if loop == "fft":
        angle = -2 * np.pi * np.arange(n // 2) / n
        return real(n), real(n), np.cos(angle), np.sin(angle), n
    if loop == "nbody":
        return *(real(n, np.float32) for _ in range(7)), n
    if loop == "find":
        text = rng.integers(97, 101, n, dtype=np.uint8)
        return text, np.frombuffer(b"abcabd", np.uint8).copy(), n, 6
    if loop == "gemv":
        return real(n * n), real(n), np.zeros(n), n
    if loop == "transpose":
        return real(n * n), np.zeros(n * n), n
    if loop == "thomas":
        return real(n), 4 + real(n), real(n), real(n), n
    if loop == "chase":
        order = rng.permutation(n).astype(np.int32)
        following = np.empty(n, np.int32)
        following[order] = np.roll(order, -1)
        return following, real(n), n
    if loop == "softmax":
        return real(n * n), np.zeros(n * n), n, n
    if loop == "sort":
        return real(n), n
    if loop == "sieve":
        return np.zeros(n, np.uint8), n
    if loop == "adler":
        return rng.integers(0, 256, n, dtype=np.uint8), n
    if loop == "floyd":
        return real(n * n, np.float32), n
    if loop == "mandelbrot":
        return np.zeros(n * n, np.int32), n, 200
    return _more(n, loop, rng)


def _more(n: int, loop: str, rng: np.random.Generator) -> tuple[Any, ...]:
    """What the later ones are called with."""
    real = rng.random
    if loop == "lj":
        near = (np.arange(n)[:, None] + rng.integers(1, 200, (n, 32))) % n
        places = [4 * real(n) for _ in range(3)]
        return *places, *(np.zeros(n) for _ in range(3)), near.astype(np.int32).ravel(), n, 32, 2.5
    if loop == "blur":
        return rng.integers(0, 256, n * n, dtype=np.uint8), np.zeros(n * n, np.uint8), n, n
    if loop == "symv":
        return n, real((n, n)), real(n), np.zeros(n)
    if loop == "cmac":
        return *(real(n) + 1j * real(n) for _ in range(3)), n
    if loop == "hamming":
        codes, query = (rng.integers(0, 1 << 63, each, dtype=np.uint64) for each in (16 * n, 16))
        return codes, query, np.zeros(n, np.int32), n, 16
    if loop == "advect":
        return real(n), np.zeros(n), 0.4, n
    if loop == "fir":
        return real(n, np.float32), real(17, np.float32), np.zeros(n, np.float32), n
    if loop == "variance":
        return real(n), n
    if loop == "residual":
        return real(n), real(n), n
    if loop == "ludec":
        return (real((n, n)) + n * np.eye(n)).ravel(), n
    if loop == "radix":
        return rng.integers(0, 1 << 32, n, dtype=np.uint32), np.zeros(n, np.uint32), n, 8
    if loop == "pi_mc":
        return n, 88172645463325252
    raise ValueError(f"no loop named {loop}")


def of_examples(n: int, loop: str) -> tuple[Any, ...]:
    """What a loop of examples/c_loops.c is called with."""
    spec = importlib.util.spec_from_file_location("c_loops", EXAMPLES.with_suffix(".py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.args(n, loop)


if __name__ == "__main__":
    main()
