"""Arithmetic peaks: independent chains in registers, for every number format that the host can compute."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from rooflab.machines.bench.kernels.dot_products import dots_for
from rooflab.machines.bench.kernels.emit import peak_kernel
from rooflab.machines.bench.kernels.ir import Emitted, Target
from rooflab.machines.bench.kernels.jit import parses
from rooflab.machines.bench.kernels.rows import PEAKS, PeakRow
from rooflab.machines.bench.kernels.simd import Simd, scalar
from rooflab.machines.bench.run.pinned_threads import Job
from rooflab.machines.bench.run.thread_arenas import ThreadArenas
from rooflab.machines.bench.run.trials import Bench, Samples, Trial, spread_bound
from rooflab.types.machine import Scope

_PASS_ITERATIONS = 2000
_SUSTAINED_SAMPLE_S = 0.1
_NATIVE_FP16 = ("avx512fp16", "fullfp16")


@dataclass(frozen=True)
class PeakForm:
    """A row in one register width, with its kernel."""

    row: PeakRow
    simd: Simd
    emitted: Emitted


def peak_forms(simds: Sequence[Simd], features: Collection[str], target: Target) -> tuple[PeakForm, ...]:
    """Every peak row in every width that the host can run it in; a row it cannot run is left out."""
    forms = []
    for row in PEAKS:
        for simd in (scalar(simds),) if row.form == "scalar" else simds:
            symbol = f"{row.name}_{simd.bits}".replace(" ", "_").replace("+", "_")
            for emitted in _candidates(symbol, row, simd, features):
                if row.what == "dot" and not parses(emitted, target):
                    continue  # another spelling of the same instruction may
                forms.append(PeakForm(row, simd, emitted))
                break
    return tuple(forms)


def _candidates(symbol: str, row: PeakRow, simd: Simd, features: Collection[str]) -> list[Emitted]:
    if row.what == "dot":
        return [peak_kernel(symbol, row, simd, dot) for dot in dots_for(row.dtype, simd, features)]
    fused = "fma" in row.what
    x86 = simd.name in ("AVX-512", "AVX2", "AVX", "SSE") or simd.name == "scalar"
    if fused and x86 and not {"fma", "neon", "avx512f"} & set(features):
        return []  # without the instruction LLVM would call a library function
    if row.dtype == "fp16" and not set(_NATIVE_FP16) & set(features):
        return []  # else LLVM would compute in fp32 and convert
    return [peak_kernel(symbol, row, simd)]


def measure_peaks(
    bench: Bench,
    forms: Sequence[PeakForm],
    arenas: ThreadArenas,
    cpus: Sequence[int],
    rounds: int,
    run_s: float,
    budget_s: float,
) -> dict[tuple[PeakForm, Scope], Samples]:
    """All forms on the first core and on all cores, rounds interleaved, the clock taken around each."""
    scopes: dict[Scope, Sequence[int]] = {"core": cpus[:1]}
    if len(cpus) > 1:
        scopes["all"] = cpus
    trials = []
    for form in forms:
        kernel = bench.kernels[form.emitted.symbol]
        for scope, members in scopes.items():
            jobs = tuple(
                Job(cpu, kernel, _PASS_ITERATIONS, a=arenas.by_cpu[cpu].address, b=arenas.by_cpu[cpu].address)
                for cpu in members
            )
            per_pass = form.emitted.operations * _PASS_ITERATIONS * len(members)
            trials.append(
                Trial((form.row.name, form.simd.bits, scope), jobs, per_pass, run_s, False, spread_bound("fma"))
            )
    samples = bench.interleave(trials, rounds, arenas.by_cpu[cpus[0]], budget_s)
    return {(form, scope): samples[(form.row.name, form.simd.bits, scope)] for form in forms for scope in scopes}


def measure_sustained(
    bench: Bench, form: PeakForm, arenas: ThreadArenas, cpus: Sequence[int], seconds: float
) -> list[tuple[float, float]]:
    """The peak of `form` on all cores over `seconds` without a pause: (time since start, FLOP/s) pairs.

    Power and temperature limits lower the clock within seconds; a burst does not show it.
    """
    kernel = bench.kernels[form.emitted.symbol]
    iterations, taken, start = _PASS_ITERATIONS, [], time.monotonic()
    while (at := time.monotonic() - start) < seconds:
        jobs = [
            Job(cpu, kernel, iterations, a=arenas.by_cpu[cpu].address, b=arenas.by_cpu[cpu].address)
            for cpu in cpus
        ]
        took = bench.pinned.run(jobs).seconds
        if took >= _SUSTAINED_SAMPLE_S / 2:
            taken.append((at, form.emitted.operations * iterations * len(cpus) / took))
        else:
            iterations = max(2 * iterations, round(iterations * _SUSTAINED_SAMPLE_S / took))
        bench.tick()
    return taken
