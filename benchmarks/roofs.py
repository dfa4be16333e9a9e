"""rooflab's roofs beside likwid-bench's and carm-roofline's, measured in pairs in one run.

    python benchmarks/roofs.py [--rounds 9] [--only DRAM] [--carm /path/to/carm]

Needs likwid-bench (Debian: apt-get install likwid). carm-roofline (pip install carm-roofline, in an
environment of its own) compiles C and takes about a minute a figure, so it joins in L1, L2 and FMA only,
where `--carm` names its command. In each round the peer runs right before rooflab; each side gives its
best over AVX2 and AVX-512, one run of 0.1 to 0.15 s each. On a machine that others use, `--run-ms 1
--best-of 10` finds moments that nobody cut into, on both sides alike. Printed: medians, the median of the paired
ratios and its 95 % interval (percentile bootstrap over the rounds); for L1 and FMA also rooflab's best of
many short runs, as it reports it, beside theory at the highest clock measured around them (a reading of
the clock can only be too low).
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from rooflab.machines.bench.experiments.bandwidth import (
    STREAM_ROWS,
    StreamCase,
    StreamForm,
    fastest_forms,
    forms_of,
    stream_trial,
    sweep,
)
from rooflab.machines.bench.experiments.peaks import peak_forms
from rooflab.machines.bench.kernels.emit import clock_kernel, stream_kernel
from rooflab.machines.bench.kernels.jit import compile_kernels, host_features, host_target
from rooflab.machines.bench.kernels.rows import READ, StreamRow
from rooflab.machines.bench.kernels.simd import host_simds
from rooflab.machines.bench.levels.levels import measured_levels
from rooflab.machines.bench.plan import DEFAULT, cpus_to_use, reported_caches, sizes_to_sweep
from rooflab.machines.bench.run.pinned_threads import Job, PinnedThreads
from rooflab.machines.bench.run.thread_arenas import ThreadArenas
from rooflab.machines.bench.run.trials import Bench, Trial
from rooflab.machines.detect import detect
from rooflab.machines.microarchitecture import find as find_microarchitecture
from rooflab.machines.microarchitecture import flop_per_cycle
from rooflab.units import iec

KB, MB = 1000, 1_000_000
RUN_S = 0.1
SHORT_RUN_S, SHORT_RUNS = 0.01, 25
ROWS = {row.name: row for row in STREAM_ROWS}
ISAS = {"AVX2": "avx", "AVX-512": "avx512"}


@dataclass(frozen=True)
class Case:
    """One figure that both sides measure.

    Attributes:
        row: rooflab's row; None for the fp64 FMA peak.
        likwid: its test per instruction set.
        nbytes: working set of all threads together.
        bound: what the ratio must reach: "median ≥ 1.00", "median ≥ 0.98" or "lower end ≥ 0.97".
    """

    name: str
    row: StreamRow | None
    likwid: dict[str, str]
    nbytes: int
    threads: int
    bound: str


def likwid_tests(stem: str, suffix: str = "") -> dict[str, str]:
    """Test names of likwid-bench: "load" → load_avx and load_avx512."""
    return {simd: f"{stem}_{isa}{suffix}" for simd, isa in ISAS.items()}


def cases(l3_bytes: int | None, threads: int, dram_bytes: int = 400 * MB) -> list[Case]:
    """L1, L2 and FMA on one core; the L3 found by the sweep; DRAM where all cores saturate it."""
    median, lower = "median ≥ 1.00", "lower end ≥ 0.97"
    fma = likwid_tests("peakflops", "_fma")
    triad = {"AVX2": "stream_mem_avx_fma", "AVX-512": "stream_mem_avx512"}
    listed = [
        Case("L1 read, 16 kB, core", READ, likwid_tests("load"), 16 * KB, 1, median),
        Case("L2 read, 256 kB, core", READ, likwid_tests("load"), 256 * KB, 1, median),
        Case("fp64 FMA, core", None, fma, 16 * KB, 1, median),
    ]
    for name, size in (("L1", 16 * KB), ("L2", 256 * KB), *((("L3", l3_bytes),) if l3_bytes else ())):
        for kind, row, tests in (
            ("copy", ROWS["copy"], likwid_tests("copy")),
            ("store", ROWS["write"], likwid_tests("store")),
        ):
            listed.append(Case(f"{name} {kind}, {size // KB} kB, core", row, tests, size, 1, "median ≥ 0.98"))
    if l3_bytes:
        kilobytes = l3_bytes // KB
        listed.append(Case(f"L3 read, {kilobytes} kB, core", READ, likwid_tests("load"), kilobytes * KB, 1, lower))
        listed.append(
            Case(
                f"L3 read, {kilobytes} kB, {threads} cores",
                READ,
                likwid_tests("load"),
                kilobytes * KB,
                threads,
                lower,
            )
        )
    for name, row, tests in (
        ("read", READ, likwid_tests("load")),
        ("copy, NT", ROWS["copy nontemporal"], likwid_tests("copy_mem")),
        ("triad, NT", ROWS["triad nontemporal"], triad),
    ):
        listed.append(Case(f"DRAM {name}, 400 MB, {threads} cores", row, tests, dram_bytes, threads, lower))
    return listed


def likwid_rate(test: str, case: Case, seconds: float) -> float:
    """One likwid-bench run: bytes/s, or FLOP/s for the FMA peak."""
    iterations = max(10, int(seconds * 100e9 / case.nbytes))
    command = ["likwid-bench", "-t", test, "-w", f"S0:{case.nbytes // KB}kB:{case.threads}", "-i", str(iterations)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    label = "MFlops/s" if case.row is None else "MByte/s"
    found = re.search(rf"^{label}:\s+([\d.e+]+)", text, re.M)
    if found is None:
        raise SystemExit(f"{' '.join(command)}: no {label} in its output")
    return float(found[1]) * 1e6


def carm_rate(carm: str, case: Case, isas: Sequence[str]) -> float | None:
    """One carm-roofline run of L1, L2 or FMA: bytes/s or FLOP/s; None for a case it does not join."""
    if case.threads > 1 or not case.name.startswith(("L1", "L2", "fp64")):
        return None
    with tempfile.TemporaryDirectory() as folder:
        command = [
            carm,
            "benchmark",
            "-d",
            "f64",
            "--threads",
            "1",
            "--output-fmt",
            "jsonl",
            "--output-dir",
            folder,
        ]
        command += ["--progress-format", "jsonl", "--test-time", "0.1", "-i", *isas]
        if case.row is None:
            command += ["-t", "arithmetic", "--instruction", "fma"]
        else:
            command += ["-t", "memory", "-m", case.name[:2], "--ld-st-ratio", "1:0"]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        lines = [line for path in Path(folder).rglob("*.jsonl") for line in path.read_text().splitlines()]
    if ran.returncode or not lines:
        print(f"  carm: no figure for {case.name}: {ran.stdout.strip().splitlines()[-1:]}", file=sys.stderr)
        return None
    key = "performance_gops" if case.row is None else "bandwidth_gbps"
    return max(json.loads(line)[key] for line in lines) * 1e9


@dataclass(frozen=True)
class Ours:
    """rooflab's side, ready to run."""

    bench: Bench
    arenas: ThreadArenas
    cpus: tuple[int, ...]
    forms: dict[StreamRow, list[StreamForm]]
    peaks: list[Trial]
    chosen: dict[str, list[StreamForm]] = field(default_factory=dict)

    def finalists(self, case: Case) -> list[StreamForm]:
        """The two ways to write the loop that a pilot before the first round found fastest."""
        assert case.row is not None
        if case.name not in self.chosen:
            size = case.nbytes // case.threads
            tried = fastest_forms(self.bench, self.arenas, self.forms[case.row], self.cpus[0], size, best=2)
            self.chosen[case.name] = tried[case.row]
        return self.chosen[case.name]

    def rate(self, case: Case, run_s: float = RUN_S) -> tuple[float, float]:
        """Best over register widths: per second, and the clock measured around it."""
        arena = self.arenas.by_cpu[self.cpus[0]]
        if case.row is None:
            trials = [replace(trial, run_s=run_s) for trial in self.peaks]
        else:
            cpus = self.cpus[: case.threads]
            trials = [
                stream_trial(
                    self.bench,
                    self.arenas,
                    form,
                    StreamCase(form.row, "all", case.nbytes // case.threads),
                    cpus,
                    run_s,
                    key=form,
                )
                for form in self.finalists(case)
            ]
        found = self.bench.interleave(trials, 1, arena)
        best = max(found.values(), key=lambda samples: samples.series.best)
        return best.series.best, best.clock_hz or float("nan")


def interval(ratios: Sequence[float], rng: np.random.Generator) -> tuple[float, float]:
    """The 95 % percentile-bootstrap interval of the median ratio."""
    draws = rng.choice(np.asarray(ratios), (4000, len(ratios)))
    low, high = np.percentile(np.median(draws, axis=1), [2.5, 97.5])
    return float(low), float(high)


def compare(
    ours: Ours,
    case: Case,
    peers: dict[str, Callable[[Case], float | None]],
    rounds: int,
    best_of: int,
    run_s: float,
) -> None:
    """Run one case in pairs and print its lines."""
    for name, peer in peers.items():
        mine, theirs, clocks = [], [], []
        for _ in range(rounds if name == "likwid-bench" else 1):
            values, rates = [], []
            for _ in range(best_of):
                value = peer(case)
                if value is not None:
                    values.append(value)
                    rates.append(ours.rate(case, run_s))
            if not values:
                break
            value, (rate, clock) = max(values), max(rates)
            mine.append(rate)
            theirs.append(value)
            clocks.append(clock)
        if not mine:
            continue
        ratios = [a / b for a, b in zip(mine, theirs, strict=True)]
        low, high = interval(ratios, np.random.default_rng(0))
        median = float(np.median(ratios))
        met = (median if case.bound.startswith("median") else low) >= float(case.bound.rpartition(" ")[2])
        unit = "GFLOP/s" if case.row is None else "GB/s"
        figures = f"rooflab {np.median(mine) / 1e9:8.2f}  {name} {np.median(theirs) / 1e9:8.2f} {unit}"
        print(
            f"{case.name:32s} {figures}  ratio"
            f" {median:.3f} [{low:.3f}, {high:.3f}]  {case.bound}: {'yes' if met else 'NO'}  ({len(mine)} pairs)",
            flush=True,
        )
        for form in ours.chosen.get(case.name, [])[:1]:
            print(f"{'':32s} {form.name}", flush=True)
        if case.name.startswith(("L1 read", "fp64")) and name == "likwid-bench":
            share(ours, case)


def share(ours: Ours, case: Case) -> None:
    """The best of many short runs, as a share of theory at the highest clock measured around them."""
    row = find_microarchitecture(detect(gpus=False))
    per_cycle = None if row is None else (row.load_bytes if case.row else flop_per_cycle(row, "fp64", "fma"))
    if per_cycle is None:
        return
    taken = [ours.rate(case, SHORT_RUN_S) for _ in range(SHORT_RUNS)]
    best, clock = max(rate for rate, _ in taken), max(clock for _, clock in taken)
    print(
        f"{'':32s} best of {SHORT_RUNS} rounds of {SHORT_RUN_S * 1e3:.0f} ms: {best / 1e9:.2f}, "
        f"{best / (per_cycle * clock):.1%} of {per_cycle:.0f} per cycle × {clock / 1e9:.3f} GHz",
        flush=True,
    )


def prepared(pinned: PinnedThreads, cpus: tuple[int, ...], dram_bytes: int) -> Ours:
    """Kernels compiled, memory touched."""
    features = host_features()
    simds = host_simds(features)[:2]
    forms = {row: forms_of(row, simds) for row in STREAM_ROWS}
    peaks = [one for one in peak_forms(simds, features, host_target()) if one.row.name == "fma fp64"]
    emitted = [
        stream_kernel(form.symbol, form.row, form.simd, form.variant) for each in forms.values() for form in each
    ]
    kernels = compile_kernels([*emitted, *(one.emitted for one in peaks), clock_kernel()])
    arenas = ThreadArenas.touched(pinned, dict.fromkeys(cpus, dram_bytes))
    bench = Bench(pinned, kernels, np.random.default_rng())
    at = arenas.by_cpu[cpus[0]].address
    trials = [
        Trial(
            one.simd.name,
            (Job(cpus[0], kernels[one.emitted.symbol], 2000, a=at, b=at),),
            one.emitted.operations * 2000,
            RUN_S,
            jitter=False,
        )
        for one in peaks
    ]
    return Ours(bench, arenas, cpus, forms, trials)


def found_l3(ours: Ours) -> int | None:
    """A working set on the L3's plateau when all cores stream, all of them together; None without one."""
    caches = reported_caches(detect(gpus=False), ours.cpus)
    sizes = sizes_to_sweep(DEFAULT, caches, ours.cpus, None)
    form = ours.forms[READ][0]
    sweeps = [
        sweep(ours.bench, ours.arenas, form, sizes.core, cpus, "core", 3, 0.006, 10.0)
        for cpus in (ours.cpus[:1], ours.cpus)
    ]
    listed = measured_levels(sweeps[0], sweeps[1], caches, sizes.every[-1])
    for place in listed:
        kept = place.plateau.capacity_bytes
        if kept:
            reported = place.reported.capacity_bytes if place.reported else None
            print(f"{place.name}: {iec(kept, 3)} found, {iec(reported)} reported")
    return next((place.all_bytes * len(ours.cpus) for place in listed if place.name == "L3"), None)


def main() -> None:
    """Compare, case by case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9, help="pairs per case, at least 5")
    parser.add_argument(
        "--best-of", type=int, default=1, help="runs of each side in a round, the best of which counts"
    )
    parser.add_argument("--run-ms", type=float, default=RUN_S * 1e3, help="length of a run")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--carm", help="the carm command of carm-roofline")
    given = parser.parse_args()
    if shutil.which("likwid-bench") is None:
        raise SystemExit("likwid-bench not found: apt-get install likwid")
    cpus = cpus_to_use(detect(gpus=False), None)
    simds = {simd.name for simd in host_simds(host_features())}
    peers: dict[str, Callable[[Case], float | None]] = {
        "likwid-bench": lambda case: max(
            likwid_rate(test, case, 1.5e-3 * given.run_ms) for simd, test in case.likwid.items() if simd in simds
        )
    }
    if given.carm:
        isas = [f"x86_{name}" for simd, name in (("AVX2", "avx2"), ("AVX-512", "avx512")) if simd in simds]
        peers["carm-roofline"] = lambda case: carm_rate(given.carm, case, isas)
    with PinnedThreads(cpus) as pinned:
        ours = prepared(pinned, cpus, 420 * MB)
        for case in cases(found_l3(ours), len(cpus)):
            if given.only.casefold() in case.name.casefold():
                compare(ours, case, peers, max(5, given.rounds), given.best_of, given.run_ms * 1e-3)


if __name__ == "__main__":
    main()
