"""How fast traces are read and simulated: records or lines a second by format, parsed alone and in every use.

Run: python benchmarks/traces.py

Traces of a million accesses are made in a temporary folder, sequential ones and mixed ones: three quarters
sequential, a quarter random over 64 MiB. Reading from the (warm) disk counts in the time; compiling does not.
Medians of five runs, one thread. Parsing is reading and noting the accesses, without a cache.
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
from rooflab.cachesim.traces import files, simulate

LEVELS = [Cache(32 * 1024, 8), Cache(512 * 1024, 8), Cache(16 * 1024 * 1024, 16)]
COUNT, ROUNDS = 1_000_000, 5
FORMS = ("9.1f", "12.1f", "9.1f", "6.0f", "11.1f", "9.1f")
TARGETS_PER_S = {"champsim": 20e6, "din": 5e6, "xdin": 5e6, "lackey": 5e6, "drmemtrace": 5e6}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        mixed, plain = (traces(Path(folder) / each, share) for each, share in (("mixed", 0.25), ("plain", 0.0)))
        print(
            f"{'M records/s':12}{'parse':>9}{'sequential':>12}{'mixed':>9}{'goal':>6}{'classify':>11}{'curve':>9}"
        )
        for name, path in mixed.items():
            told = (
                rate(lambda path=path, name=name: parse(path, name)),
                rate(lambda path=plain[name]: rooflab.simulate(path, levels=LEVELS)),
                rate(lambda path=path: rooflab.simulate(path, levels=LEVELS)),
                TARGETS_PER_S[name],
                rate(lambda path=path: rooflab.simulate(path, levels=LEVELS, classify=True)),
                rate(lambda path=path: rooflab.miss_curve(path)),
            )
            print(f"{name:12}" + "".join(f"{each / 1e6:{form}}" for each, form in zip(told, FORMS, strict=True)))


def parse(path: Path, name: str) -> None:
    """Read the trace at `path` and note its accesses, as a simulation does before it makes them."""
    parsed = simulate.ParsedBatches(name, simulate.Settings(name, "skip", 8))
    with files.opened(path) as file:
        for _ in parsed.batches(file):
            pass


def traces(folder: Path, random: float) -> dict[str, Path]:
    """A file of `COUNT` records in each format, by its name, with a share of `random` accesses."""
    folder.mkdir()
    rng = np.random.default_rng(1)
    places = (1 << 32) + np.arange(COUNT) * 8
    scattered = rng.random(COUNT) < random
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
