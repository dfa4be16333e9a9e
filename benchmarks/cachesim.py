"""The cache simulator against pycachesim and cachegrind, in pairs: `python benchmarks/cachesim.py [--rounds 5]`.

Three levels, 32K/8, 512K/8 and 16M/16, LRU, one thread. Both see the same addresses; rooflab makes every access
(`exact`), and on affine nests also takes its short cuts, which count the same: reported apart. pycachesim
(AGPL: a peer, never a dependency) is handed a range for the sequential stream, else lists that are made before its
clock runs; each of its streams is shorter. Times are of CPU: neighbours count less. cachegrind has two levels and
an instruction cache: its own accesses/s are those of a C program that makes the stream, its time without
the stream taken off. Goals: 18 × sequential, 8 × matmul 256, 13 × stencil 2040, 7 × random; 1 × cachegrind.
"""

from __future__ import annotations

import argparse
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from rooflab.cachesim.run import streams as runs
from rooflab.cachesim.streams import dense
from rooflab.cachesim.streams.stream import Stream
from rooflab.types.simulation import Cache

LEVELS = (Cache(32 << 10, 8), Cache(512 << 10, 8), Cache(16 << 20, 16))
TWO_LEVELS = (Cache(32 << 10, 8), Cache(16 << 20, 16))
STREAMS = {
    "sequential": dense.sequential(64 << 20),
    "matmul 256": dense.matmul(256),
    "stencil 2040": dense.stencil2d(2040),
    "random": dense.random(64 << 20, 1 << 22),
}
GOALS = {"sequential": 18, "matmul 256": 8, "stencil 2040": 13, "random": 7}
C_STREAMS = {
    "sequential": "for (long i = 0; i < 8388608; i++) s += a[i];",
    "matmul 256": """for (int i = 0; i < 256; i++) for (int j = 0; j < 256; j++) { double t = 0;
        for (int k = 0; k < 256; k++) t += a[i * 256 + k] * a[65536 + k * 256 + j];
        a[131072 + i * 256 + j] = t; }""",
    "stencil 2040": """double *b = (double *)a + 2040 * 2040; for (int i = 1; i < 2039; i++)
        for (int j = 1; j < 2039; j++) { long p = i * 2040L + j;
        b[p] = a[p - 2040] + a[p + 2040] + a[p - 1] + a[p] + a[p + 1]; }""",
    "random": """unsigned long x = 88172645463325252ul; for (long i = 0; i < 4194304; i++) {
        x ^= x << 13; x ^= x >> 7; x ^= x << 17; s += a[x & 8388607]; }""",
}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--stream", choices=STREAMS, action="append")
    chosen = options.parse_args()
    columns = ("M accesses/s", "short cuts", "pycachesim", "ratio", "goal", "cachegrind")
    print(f"{'stream':14}" + "".join(f"{each:>20}" for each in columns))
    for name in chosen.stream or STREAMS:
        row(name, STREAMS[name], chosen.rounds)


def row(name: str, stream: Stream, rounds: int) -> None:
    runs.simulate_stream(stream, LEVELS, exact=True)  # compiles
    runs.simulate_stream(stream, LEVELS)
    peer = pycachesim(name)
    ours, cut, theirs = [], [], []
    for _ in range(rounds):
        theirs.append(peer() if peer else float("nan"))
        ours.append(rate(stream, exact=True))
        cut.append(rate(stream))
    ratios = sorted(a / b for a, b in zip(ours, theirs, strict=True))
    told = f"{statistics.median(ratios):.1f} ({ratios[0]:.1f} to {ratios[-1]:.1f})" if peer else "not installed"
    rates = [statistics.median(each) / 1e6 for each in (ours, cut, theirs)]
    cells = [*(f"{rate:.1f}" for rate in rates), told, str(GOALS[name]), cachegrind(name, stream)]
    print(f"{name:14}" + "".join(f"{each:>20}" for each in cells))


def rate(stream: Stream, exact: bool = False) -> float:
    return stream.accesses / timed(lambda: runs.simulate_stream(stream, LEVELS, exact=exact))


def timed(run: Callable[[], object]) -> float:
    begun = time.process_time()
    run()
    return time.process_time() - begun


def pycachesim(name: str) -> Callable[[], float] | None:
    """A function that runs pycachesim on a part of the stream and returns its accesses/s; None without it."""
    # This file bears the name of pycachesim's package.
    sys.path = [each for each in sys.path if Path(each or ".").resolve() != Path(__file__).resolve().parent]
    try:
        from cachesim import Cache as Level
        from cachesim import CacheSimulator, MainMemory
    except ImportError:
        return None
    items, count = peer_items(name)

    def run() -> float:
        memory = MainMemory()
        l3 = Level("L3", 16384, 16, 64, "LRU")
        memory.load_to(l3)
        memory.store_from(l3)
        l2 = Level("L2", 1024, 8, 64, "LRU", store_to=l3, load_from=l3)
        first = CacheSimulator(
            Level("L1", 64, 8, 64, "LRU", store_to=l2, load_from=l2), memory
        ).first_level.backend
        if name in ("sequential", "random"):
            return count / timed(lambda: first.iterload(items, length=8))
        return count / timed(lambda: first.loadstore(items, length=8))

    return run


def peer_items(name: str) -> tuple[Sequence, int]:
    """What pycachesim takes, addresses or (loads, stores) of each step, and how many accesses they are."""
    if name == "sequential":
        return range(0, 32 << 20, 8), 1 << 22
    if name == "random":
        import numpy as np

        return (np.random.default_rng(1).integers(0, 8 << 20, 1 << 19) * 8).tolist(), 1 << 19
    if name == "matmul 256":
        n, items = 256, []
        for i in range(16):
            for j in range(n):
                items += [((8 * (i * n + k), 8 * (n * n + k * n + j)), None) for k in range(n)]
                items.append((None, (8 * (2 * n * n + i * n + j),)))
        return items, 16 * n * (2 * n + 1)
    n, items = 2040, []
    for i in range(1, 129):
        for j in range(1, n - 1):
            at = 8 * (i * n + j)
            items.append(((at - 8 * n, at + 8 * n, at - 8, at, at + 8), (at + 8 * n * n,)))
    return items, 6 * len(items)


def cachegrind(name: str, stream: Stream) -> str:
    """How many times as fast as cachegrind, both on two levels, every data access of the C program counted."""
    compiler = shutil.which("cc")
    if shutil.which("valgrind") is None or compiler is None:
        return "not installed"
    with tempfile.TemporaryDirectory() as folder:
        times, refs = [], []
        for body in (C_STREAMS[name], ""):
            source, program = Path(folder, "stream.c"), Path(folder, "stream")
            source.write_text(
                "#include <stdlib.h>\nint main(void) { volatile double *a = calloc(1 << 23, 16); double s = 0;\n"
                f"{body}\nreturn s > 1e30; }}\n"
            )
            subprocess.run([compiler, "-O2", "-o", program, source], check=True)
            command = [
                "valgrind",
                "--tool=cachegrind",
                "--cache-sim=yes",
                "--D1=32768,8,64",
                "--LL=16777216,16,64",
            ]
            begun = time.perf_counter()
            done = subprocess.run(
                [*command, f"--cachegrind-out-file={folder}/out", str(program)],
                capture_output=True,
                text=True,
                check=True,
            )
            times.append(time.perf_counter() - begun)
            found = re.search(r"D\s+refs:\s+([\d,]+)", done.stderr)
            refs.append(int(found.group(1).replace(",", "")) if found else 0)
    theirs = (refs[0] - refs[1]) / (times[0] - times[1])
    runs.simulate_stream(stream, TWO_LEVELS, exact=True)
    begun = time.perf_counter()
    runs.simulate_stream(stream, TWO_LEVELS, exact=True)
    ours = stream.accesses / (time.perf_counter() - begun)
    return f"{ours / theirs:.1f} x ({theirs / 1e6:.0f} M/s)"


if __name__ == "__main__":
    main()
