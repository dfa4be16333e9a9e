"""How thoroughly to measure: sizes, rounds and run lengths of a default and a quick run."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from rooflab.errors import MeasureError
from rooflab.machines.bench.levels.levels import CoreCache
from rooflab.machines.bench.run.arena import HUGE_PAGE_BYTES
from rooflab.machines.bench.run.trials import sizes
from rooflab.machines.detect import Host, granted_cores, granted_threads, reported_cache
from rooflab.units import GIB, KIB, MIB

SMALLEST_BYTES = 4 * KIB
# A working set this many times the last cache is main memory's, whatever the replacement policy.
BEYOND_CACHE = 4
# A point takes as long as its bytes: few of them beyond this, where only the largest last caches end.
_FINE_BYTES, _PER_LARGE_OCTAVE = 64 * MIB, 2
_LEAST_TOP_BYTES, _LEAST_EACH_BYTES = 128 * MIB, 64 * MIB
_MOST_MEMORY_BYTES = 2 * GIB
# What Python, NumPy, numba and the compiled kernels take beside the arenas.
_OWN_BYTES = 400 * MIB
_LEAST_ARENAS_BYTES = 48 * MIB


@dataclass(frozen=True)
class Plan:
    """Rounds, run lengths in seconds, and points per octave of working-set size.

    Attributes:
        whole_s: how long all stages may take together; where the first take longer, the rest is given less.
        beyond_cache: main memory's working set as a multiple of the last cache. Memory takes time to touch.
        cached_run_s, rate_run_s: for caches and for main memory. Many short runs find the undisturbed moments
            of a shared core; a run must only be long against the clock's resolution and the barrier.
        all_sweep: whether the sweep is repeated with all cores.
        level_latency_runs: of the latency of each level, once the levels are known.
        hand_over_runs: of the hand-over of a line between two cores, for each pair.
        finalists: how many ways to write a loop are measured whole at each cache, of those that a pilot tried.
        piloted_caches: at how many of the nearest caches; farther ones take what the last of these found.
        memory_variants: whether all ways to write a loop are tried at main memory too.
        core_operations: whether single operations of a core, and the start of teams of threads, are timed; else
            they are when a loop first needs them.
        numba_overhead, translations: whether these are measured: a function must be compiled for the one, pages of
            the other touched one by one.
        products_s, torch_products_s: time for products of matrices in NumPy and in PyTorch; 0 leaves them out.
        disk_s: time for the disk; 0 leaves it out.
        sustained_s: time for the sustained peak; 0 leaves it out.
    """

    whole_s: float = 17.0
    beyond_cache: float = BEYOND_CACHE
    per_octave: int = 4
    sweep_rounds: int = 5
    sweep_run_s: float = 0.0025
    sweep_budget_s: float = 2.6
    all_sweep: bool = True
    rows_rounds: int = 3
    rows_budget_s: float = 0.8
    latency_rounds: int = 2
    latency_run_s: float = 0.005
    level_latency_runs: int = 9
    core_operations: bool = True
    pilot_rounds: int = 2
    finalists: int = 2
    piloted_caches: int = 4
    memory_variants: bool = True
    rate_rounds: int = 5
    cached_run_s: float = 0.003
    rate_run_s: float = 0.015
    rate_budget_s: float = 3.5
    together_rounds: int = 3
    hand_over_runs: int = 15
    peak_rounds: int = 5
    peak_run_s: float = 0.003
    peak_budget_s: float = 1.6
    known_rounds: int = 4
    overhead_rounds: int = 5
    numba_overhead: bool = True
    translations: bool = True
    products_s: float = 2.0
    torch_products_s: float = 0.0
    disk_s: float = 1.3
    sustained_s: float = 0.0


DEFAULT = Plan()
QUICK = Plan(
    whole_s=3.8,
    beyond_cache=2.0,
    per_octave=2,
    sweep_rounds=3,
    sweep_run_s=0.002,
    all_sweep=False,
    rows_rounds=1,
    rows_budget_s=0.2,
    latency_rounds=1,
    latency_run_s=0.003,
    level_latency_runs=6,
    core_operations=False,
    rate_rounds=3,
    cached_run_s=0.002,
    rate_run_s=0.005,
    pilot_rounds=1,
    finalists=1,
    piloted_caches=2,
    memory_variants=False,
    rate_budget_s=0.8,
    sweep_budget_s=1.0,
    together_rounds=2,
    hand_over_runs=9,
    peak_rounds=3,
    peak_run_s=0.002,
    peak_budget_s=0.8,
    known_rounds=2,
    overhead_rounds=3,
    numba_overhead=False,
    translations=False,
    products_s=0.6,
    disk_s=0.0,
)


@dataclass(frozen=True)
class Sizes:
    """The working sets to sweep, in bytes per core.

    Attributes:
        core, every: of the one-core sweep and of that with all cores.
        latency: of the pointer chase: those of `core`.
        beyond: main memory's working set as a multiple of the last caches, the smaller of one core's and
            all cores'; None where the caches are not reported.
    """

    core: tuple[int, ...]
    every: tuple[int, ...]
    latency: tuple[int, ...]
    beyond: float | None


def cpus_to_use(host: Host, threads: int | None) -> tuple[int, ...]:
    """The CPUs to measure on: one per granted core, or `threads` of the granted hardware threads.

    Raises:
        MeasureError: fewer are granted, or `threads` is not positive.
    """
    cores = granted_cores(host)
    if threads is None:
        return cores
    all_threads = granted_threads(host)
    if threads < 1 or threads > len(all_threads):
        raise MeasureError(
            f"--threads: got {threads}, expected 1 to {len(all_threads)}, the hardware threads that are granted"
        )
    return all_threads[:threads]


def reported_caches(host: Host, cpus: tuple[int, ...]) -> tuple[CoreCache, ...]:
    """The data caches of the first CPU as the system reports them, near to far; empty where it does not."""
    caches = []
    for level in (1, 2, 3, 4):
        cache = reported_cache(host, level, cpus[0])
        if cache is None:
            continue
        sharers = sum(cpu in cache.shared_cpus for cpu in cpus)
        caches.append(
            CoreCache(
                f"L{level}",
                cache.capacity_bytes,
                cache.shared_by_cores,
                max(1, sharers),
                cache.line_bytes,
                cache.ways,
            )
        )
    return tuple(caches)


def sizes_to_sweep(
    plan: Plan,
    caches: tuple[CoreCache, ...],
    cpus: tuple[int, ...],
    granted_bytes: int | None,
    mappable_bytes: int | None = None,
) -> Sizes:
    """Working sets from 4 KiB to well beyond the last cache, fine up to twice its size and coarse beyond.

    All memory together stays under 2 GiB, and under a quarter of what is granted, Python's own included; the
    arenas stay within `mappable_bytes` of address space.
    """
    budget = min(_MOST_MEMORY_BYTES, (granted_bytes or 8 * GIB) // 4) - _OWN_BYTES
    if mappable_bytes is not None:
        budget = min(budget, mappable_bytes)
    budget = max(budget, _LEAST_ARENAS_BYTES)
    last = max((cache.capacity_bytes or 0 for cache in caches), default=0)
    shared = max((cache.granted_sharers for cache in caches), default=1)
    total_cache = last * -(-len(cpus) // shared)
    top = _whole_pages(min(max(plan.beyond_cache * last, _LEAST_TOP_BYTES), budget // (2 if len(cpus) > 1 else 1)))
    # Together they go as far beyond all caches as one core does; less is touched sooner.
    enough = max(plan.beyond_cache * total_cache // len(cpus), _LEAST_EACH_BYTES) if total_cache else top
    every_top = _whole_pages(min(top, enough, (budget - top) // max(1, len(cpus) - 1))) if len(cpus) > 1 else top
    fine_to = int(max(2 * last, _FINE_BYTES))
    return Sizes(
        _fine_then_coarse(fine_to, top, plan.per_octave),
        _fine_then_coarse(fine_to, every_top, plan.per_octave),
        _fine_then_coarse(fine_to, top, plan.per_octave),
        min(top / last, every_top * len(cpus) / total_cache) if total_cache else None,
    )


def _fine_then_coarse(fine_to: int, top: int, per_octave: int) -> tuple[int, ...]:
    """Ascending: `per_octave` an octave up to 64 MiB, two up to `fine_to`, one beyond, and `top`."""
    fine = list(sizes(SMALLEST_BYTES, min(fine_to, _FINE_BYTES, top), per_octave))
    if fine_to > _FINE_BYTES:
        fine += sizes(fine[-1] + 1, min(fine_to, top), min(per_octave, _PER_LARGE_OCTAVE))
    coarse = []
    size = fine[-1] * 2
    while size < top:
        coarse.append(size)
        size *= 2
    return (*fine, *coarse, top) if top > fine[-1] else tuple(fine)


def _whole_pages(nbytes: float) -> int:
    """The whole huge pages in `nbytes`, at least one."""
    return max(1, int(nbytes) // HUGE_PAGE_BYTES) * HUGE_PAGE_BYTES


def with_library(plan: Plan, library: bool) -> Plan:
    """`plan`, with time enough for products in NumPy and in PyTorch if asked for."""
    return dataclasses.replace(plan, products_s=6.0, torch_products_s=8.0) if library else plan


def with_sustained(plan: Plan, sustained: bool) -> Plan:
    """`plan`, with ten seconds of sustained peak if asked for."""
    return dataclasses.replace(plan, sustained_s=10.0) if sustained else plan
