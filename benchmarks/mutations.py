"""Many thousand damaged files at each door of rooflab: read, or refused in one line; never a traceback or a hang.

Run: python benchmarks/mutations.py [--files 10000] [--only onnx machine json profile trace] [--first 0] [--keep D]

Whole files (made here; tests/support/mutations.py) are damaged with a seed of their number, and given to rooflab
as the command line gives them, in a process of its own with 2 GB more memory than it began with. A file that
takes over 10 seconds counts as a hang. The exit code is 1 where there is any finding; --keep saves their files.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import select
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import rooflab
from rooflab.comparing.fleet import judged
from rooflab.types.fleet import FleetNode

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from support import mutations  # pyright: ignore[reportMissingImports] (found by the line above)
from support.mutations import Outcome  # pyright: ignore[reportMissingImports]

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
MOST_S, MORE_BYTES = 10.0, 2_000_000_000
FINDINGS = ("traceback", "warning", "words", "memory", "hang", "crash")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--only", nargs="+", choices=tuple(mutations.DOORS), default=tuple(mutations.DOORS))
    parser.add_argument("--keep", type=Path)
    asked = parser.parse_args()
    found = 0
    for door in asked.only:
        whole = mutations.WHOLE[door]() | (slow_results() if door == "json" else {})
        begun, counts, shown = time.perf_counter(), Counter[str](), Counter[str]()
        for number, name, outcome in tried(door, whole, asked.first, asked.files):
            counts[outcome.what] += 1
            if outcome.what in FINDINGS:
                found += 1
                kind = outcome.words.partition(":")[2].partition(":")[0] + outcome.what  # line and type of error
                shown[kind] += 1
                if shown[kind] == 1:
                    print(f"  {door} {number} of {name}: {outcome.what}: {outcome.words[:200]}", flush=True)
                    if asked.keep:
                        asked.keep.mkdir(parents=True, exist_ok=True)
                        (asked.keep / f"{door}-{number}-{name}").write_bytes(damaged(whole, number)[1])
        told = ", ".join(f"{count} {what}" for what, count in sorted(counts.items()))
        print(f"{door}: {asked.files} files: {told} ({time.perf_counter() - begun:.0f} s)", flush=True)
    return 1 if found else 0


def triad(a, b, c):
    for i in range(len(a)):
        a[i] = b[i] + 3.0 * c[i]


def blocked(a, t):
    for ii in range(0, a.shape[0], t):
        for i in range(ii, min(ii + t, a.shape[0])):
            a[i] = 2.0


def slow_results() -> dict[str, bytes]:
    """Saved results of the types that take compiling or a file to make."""
    levels = [rooflab.Cache(4096, 4, name="L1"), rooflab.Cache(65536, 8, name="L2")]
    stream = rooflab.streams.sequential(4096)
    measured = rooflab.machine(EXAMPLES / "zen4-guest.toml")
    nodes = [FleetNode(name=f"n{at}", kind=measured.name, machine=measured) for at in range(6)]
    with tempfile.TemporaryDirectory() as folder:
        times = Path(folder) / "times.csv"
        rows = [f"exp,{size},fp32,{size / 1e9}" for size in range(10_000, 90_000, 10_000)]
        times.write_text("\n".join(["kind,shapes,dtype,time_s", *rows]) + "\n", encoding="utf-8")
        made = {
            "LoopReport": rooflab.loop(triad, *(np.ones(64) for _ in range(3)), levels=levels, timed=False),
            "TileSweep": rooflab.sweep_tiles(blocked, {"t": (4, 8)}, np.ones(64), levels=levels),
            "Simulation": rooflab.simulate(stream, levels=levels),
            "MissCurve": rooflab.miss_curve(stream),
            "CoreSimulation": rooflab.simulate_cores(rooflab.core_streams.counters(2, 10), levels=levels),
            "Calibration": rooflab.calibrate(times, "epyc-7763"),
            "Profile": rooflab.load(EXAMPLES / "gpt2-h200-trace.json.gz"),
            "Profiles": rooflab.load(EXAMPLES / "gpt2-h200-trace.json.gz", EXAMPLES / "zen4-guest.toml"),
            "Serving": rooflab.serve("llama-3.1-8b", "h100-sxm", rate=4.0, requests=50, osl=64),
            "ServingPlan": rooflab.serve_plan("llama-3.1-8b", "h100-sxm", tpot="20ms", gpus=1, precision=["bf16"]),
            "Fleet": judged(nodes, "a benchmark", "2026-01-01T00:00:00+00:00"),
            "TimedCall": rooflab.time(sum, [1.0] * 100),
            "Run": rooflab.run(["true"]),
        }
        report = rooflab.op("relu", 4096, machine="h200")
        made["Comparison"] = rooflab.compare(report, report.on("l4"), fail_if=["time>+5%"])
    return {f"{name}.json": json.dumps(result.to_dict()).encode() for name, result in made.items()}


def damaged(whole: dict[str, bytes], number: int) -> tuple[str, bytes]:
    """The name and the content of the damaged file of that number."""
    name = name_of(whole, number)
    return name, mutations.mutated(whole[name], random.Random(number), name)


def name_of(whole: dict[str, bytes], number: int) -> str:
    """The name of the whole file that the damaged one of that number is made of."""
    return sorted(whole)[number % len(whole)]


def tried(door: str, whole: dict[str, bytes], first: int, count: int) -> Iterator[tuple[int, str, Outcome]]:
    """What becomes of each of `count` damaged files; one that hangs or kills its process is stepped over."""
    with tempfile.TemporaryDirectory() as folder:
        following, end = first, first + count
        while following < end:
            for number, name, outcome in _until_stuck(door, whole, following, end, Path(folder)):
                yield number, name, outcome
                following = number + 1


def _until_stuck(
    door: str, whole: dict[str, bytes], number: int, end: int, folder: Path
) -> Iterator[tuple[int, str, Outcome]]:
    """Outcomes of files in order, in a process of its own, until the last or until one hangs it or ends it."""
    reading, writing = os.pipe()
    sys.stdout.flush()
    child = os.fork()
    if not child:
        os.close(reading)
        _work(door, whole, number, end, folder, writing)
    os.close(writing)
    with os.fdopen(reading, "rb", buffering=0) as pipe:
        held = b""
        patience = 120.0  # the first file compiles what the others use
        while number < end:
            ready, _, _ = select.select([pipe], [], [], patience)
            name = name_of(whole, number)
            got = pipe.read(1 << 16) if ready else b""
            if not got:
                os.kill(child, signal.SIGKILL)
                yield number, name, Outcome("crash" if ready else "hang", f"at {name}")
                break
            patience = MOST_S
            *lines, held = (held + got).split(b"\n")
            for line in lines:
                what, _, words = line.decode("utf-8", "replace").partition("\t")
                yield number, name_of(whole, number), Outcome(what, words)
                number += 1
    os.waitpid(child, 0)


def _work(door: str, whole: dict[str, bytes], number: int, end: int, folder: Path, writing: int) -> None:
    """In the child: give the files to the door one after another, and tell the outcomes."""
    told = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):  # libraries print by themselves
        os.dup2(told, stream)
    for name, content in whole.items():  # after these everything is imported, compiled and has its memory
        path = folder / name
        path.write_bytes(content)
        mutations.outcome(door, path)
    with open("/proc/self/statm", encoding="ascii") as file:
        held = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (held + MORE_BYTES, held + MORE_BYTES))
    for at in range(number, end):
        name, content = damaged(whole, at)
        path = folder / name
        path.write_bytes(content)
        found = mutations.outcome(door, path)
        words = found.words.encode("utf-8", "replace").replace(b"\n", b" | ").replace(b"\t", b" ")
        os.write(writing, b"%s\t%s\n" % (found.what.encode(), words[:1000]))
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
