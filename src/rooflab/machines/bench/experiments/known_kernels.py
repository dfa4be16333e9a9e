"""Three kernels whose FLOP and bytes are exact, run here: the first points on the roofline."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rooflab.machines.bench.experiments.bandwidth import StreamForm
from rooflab.machines.bench.run.pinned_threads import Job
from rooflab.machines.bench.run.thread_arenas import ThreadArenas
from rooflab.machines.bench.run.trials import Bench, Trial
from rooflab.timing import Series
from rooflab.units import FLOP_PER_FMA

STENCIL_WIDTH = 2048
MATMUL_N = 1024
_ITEM_BYTES = 8
# How OpenBLAS calls its own question for the processor whose kernels it took; builds differ in affixes.
_CORE_NAMES = (
    "scipy_openblas_get_corename64_",
    "scipy_openblas_get_corename",
    "openblas_get_corename64_",
    "openblas_get_corename",
)


@dataclass(frozen=True)
class KnownKernel:
    """A kernel with counted work and its runs.

    Attributes:
        per_s: runs per second of the whole kernel.
    """

    name: str
    flop: float
    bytes: float
    per_s: Series
    level: str
    threads: int
    note: str


def triad(
    bench: Bench, arenas: ThreadArenas, form: StreamForm, cpus: Sequence[int], working_set: int, rounds: int
) -> KnownKernel:
    """A = b + s·c in fp64 from main memory: 2 FLOP and 24 bytes per element (2 reads + 1 write)."""
    kernel = bench.kernels[form.symbol]
    window = arenas.window_bytes(working_set, len(cpus))
    jobs = tuple(arenas.stream_job(cpu, kernel, 3, window) for cpu in cpus)
    elements = sum(job.nbytes for job in jobs) // _ITEM_BYTES
    windows, lead = working_set // window, arenas.lead(working_set, len(cpus))
    trial = Trial("triad", jobs, 1, run_s=0.03, windows=windows, window_bytes=window, lead=lead)
    samples = bench.interleave([trial], rounds)["triad"]
    note = "a = b + s·c, ordinary stores; 2 FLOP and 24 bytes (2 reads + 1 write) an element"
    return KnownKernel("triad", 2 * elements, 24 * elements, samples.series, "DRAM", len(cpus), note)


def stencil(
    bench: Bench, arenas: ThreadArenas, form: StreamForm, cpus: Sequence[int], working_set: int, rounds: int
) -> KnownKernel:
    """Five points of a 2-d grid, fp64, each thread on a grid of its own, 2048 wide.

    5 FLOP (4 additions, 1 multiplication); compulsory bytes are each element of b read once, its two
    outer rows included, and each element of a written once.
    """
    kernel = bench.kernels[form.symbol]
    row_bytes = STENCIL_WIDTH * _ITEM_BYTES
    window = arenas.window_bytes(working_set, len(cpus))
    jobs = []
    for cpu in cpus:
        whole = arenas.stream_job(cpu, kernel, 2, window - 4 * row_bytes)
        jobs.append(inside(whole, row_bytes))
    elements = sum(job.nbytes for job in jobs) // _ITEM_BYTES
    halo = 2 * STENCIL_WIDTH * len(jobs)
    windows, lead = working_set // window, arenas.lead(working_set, len(cpus))
    trial = Trial("stencil", tuple(jobs), 1, run_s=0.03, windows=windows, window_bytes=window, lead=lead)
    samples = bench.interleave([trial], rounds)["stencil"]
    note = "5-point, 2048 wide; 5 FLOP an element, each element of b read once and of a written once"
    nbytes = _ITEM_BYTES * (2 * elements + halo)
    return KnownKernel("stencil", 5 * elements, nbytes, samples.series, "DRAM", len(cpus), note)


def inside(job: Job, row_bytes: int) -> Job:
    """`job` with a row of b before the first element that a is written for, and one after the last."""
    return replace(job, b=job.b + row_bytes, width=row_bytes // _ITEM_BYTES)


def matmul(threads: int, rounds: int, n: int = MATMUL_N) -> KnownKernel:
    """NumPy's fp64 matrix product: 2n³ FLOP; compulsory bytes are 3n² elements."""
    import numpy as np

    rng = np.random.default_rng(0)
    left, right, out = rng.random((n, n)), rng.random((n, n)), np.empty((n, n))
    np.matmul(left, right, out=out)
    values = []
    for _ in range(rounds):
        start = time.perf_counter()
        np.matmul(left, right, out=out)
        values.append(1 / (time.perf_counter() - start))
    note = f"np.matmul, {n}³ fp64, NumPy's own BLAS and threads; compulsory bytes (each matrix once)"
    flop = FLOP_PER_FMA * n**3
    return KnownKernel("matmul", flop, 3 * n * n * _ITEM_BYTES, Series(tuple(values)), "DRAM", threads, note)


def blas_kernels(maps: Path = Path("/proc/self/maps")) -> str | None:
    """Such as "OpenBLAS, kernels for Haswell": asked of the library that NumPy has loaded; None if it is silent.

    A library takes the kernels of a processor that it knows, not always of the one that it runs on.
    """
    try:
        text = maps.read_text()
    except OSError:
        return None
    loaded = {line.split(None, 5)[-1] for line in text.splitlines() if "openblas" in line.lower()}
    for path in sorted(loaded):
        try:
            library = ctypes.CDLL(path)
        except OSError:
            continue  # a file that is mapped, but no library
        for name in _CORE_NAMES:
            question = getattr(library, name, None)
            if question is not None:
                question.restype = ctypes.c_char_p
                return f"OpenBLAS, kernels for {question().decode()}"
    return None
