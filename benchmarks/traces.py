"""How fast traces are simulated: records or lines a second by format, with misses told apart, and as a curve.

Run: python benchmarks/traces.py

Traces of a few million accesses are made in a temporary folder: three quarters sequential, a quarter random over
64 MiB. Reading from the (warm) disk and parsing count in the time; compiling does not. Medians of five runs, one
thread.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import rooflab
from rooflab import Cache

LEVELS = [Cache(32 * 1024, 8), Cache(512 * 1024, 8), Cache(16 * 1024 * 1024, 16)]
COUNT, ROUNDS = 1_000_000, 5
TARGETS_PER_S = {"champsim": 20e6, "din": 5e6, "xdin": 5e6, "lackey": 5e6, "drmemtrace": 5e6}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        made = traces(Path(folder))
        print(f"{'M records/s':20}{'simulate':>12}{'classify':>12}{'curve':>12}{'goal':>8}")
        for name, path in made.items():
            told = (
                rate(lambda path=path: rooflab.simulate(path, levels=LEVELS)),
                rate(lambda path=path: rooflab.simulate(path, levels=LEVELS, classify=True)),
                rate(lambda path=path: rooflab.miss_curve(path)),
            )
            print(f"{name:20}" + "".join(f"{each / 1e6:12.1f}" for each in (*told, TARGETS_PER_S[name])))


def traces(folder: Path) -> dict[str, Path]:
    """A file of `COUNT` records in each format, by its name."""
    rng = np.random.default_rng(1)
    places = (1 << 32) + np.arange(COUNT) * 8
    scattered = rng.random(COUNT) < 0.25
    places[scattered] = (1 << 33) + rng.integers(0, 1 << 23, scattered.sum()) * 8
    stores = rng.random(COUNT) < 0.3
    pairs = list(zip(places.tolist(), stores.tolist(), strict=True))
    lines = {
        "din": (f"{int(store)} {at:x}\n" for at, store in pairs),
        "xdin": (f"{'w' if store else 'r'} {at:x} 8\n" for at, store in pairs),
        "lackey": (f" {'S' if store else 'L'} {at:x},8\n" for at, store in pairs),
        "drmemtrace": (
            f"{n:12} {n:10}: 1234 {'write' if store else 'read '}  8 byte(s) @ 0x{at:016x} by PC 0x{4 * n:016x}\n"
            for n, (at, store) in enumerate(pairs)
        ),
    }
    records = np.zeros((COUNT, 8), np.uint64)
    records[:, 0] = 4 * np.arange(COUNT) + (1 << 22)
    # As programs have them: two instructions of three touch no memory.
    memory = np.arange(COUNT) % 3 == 0
    records[memory & ~stores, 4] = places[memory & ~stores]
    records[memory & stores, 2] = places[memory & stores]
    paths = {name: folder / f"trace.{name}" for name in ("champsim", *lines)}
    paths["champsim"].write_bytes(records.tobytes())
    for name, text in lines.items():
        paths[name].write_text("".join(text), encoding="ascii")
    return paths


def rate(run: Callable[[], object]) -> float:
    """Records a second, the median of a few runs after one that compiles."""
    run()
    took = []
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        run()
        took.append(time.perf_counter() - begun)
    return COUNT / statistics.median(took)


if __name__ == "__main__":
    main()
