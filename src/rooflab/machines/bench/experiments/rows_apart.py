"""Rows of a grid that are read side by side: how much of them the last cache serves, by their size.

A single stream is fetched so far ahead that what the last cache does not hold of it hardly shows until most is
missing. Of several places that are read at once, a row apart, it shows at once: the sweep of one stream says
nothing of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from rooflab.machines.bench.experiments.bandwidth import SETTLING, StreamForm, about_as_large
from rooflab.machines.bench.experiments.known_kernels import STENCIL_WIDTH, inside
from rooflab.machines.bench.levels.levels import CoreCache
from rooflab.machines.bench.run.thread_arenas import ThreadArenas
from rooflab.machines.bench.run.trials import Bench, Samples, Trial

ROWS = 3  # that the five-point stencil reads at once
_ITEM_BYTES = 8
_LEAST_BYTES = 16 * STENCIL_WIDTH * _ITEM_BYTES  # of a working set: fewer rows are mostly their own edges
_FROM, _MOST_PER_OCTAVE = 1 / 8, 1.4  # of the last cache, which a neighbour may have most of; ratio of sizes


def sizes(swept: Sequence[int], reported: Sequence[CoreCache], cpus: int = 1) -> list[int]:
    """Those of the sizes `swept` that lie about the last cache and beyond; empty where none is reported.

    With several CPUs that share it, about the part of each.
    """
    parts = [(each.capacity_bytes or 0) // min(cpus, each.granted_sharers or 1) for each in reported]
    last = max(parts, default=0)
    found: list[int] = []
    for size in sorted(swept):
        if (
            last
            and size >= max(_LEAST_BYTES, _FROM * last)
            and (not found or size >= _MOST_PER_OCTAVE * found[-1])
        ):
            found.append(size)
    return found


def sweep(
    bench: Bench,
    arenas: ThreadArenas,
    form: StreamForm,
    working_sets: Sequence[int],
    cpus: Sequence[int],
    rounds: int,
    run_s: float,
    budget_s: float,
) -> dict[int, Samples]:
    """Bytes/s of a five-point stencil over working-set size: each element of two arrays once.

    Args:
        bench: what times.
        arenas: memory of each CPU.
        form: of the stencil.
        working_sets: bytes of both arrays, of each CPU.
        cpus: which CPUs, all at once, each through arrays of its own.
        rounds: over all sizes in turn.
        run_s: least time of a sample.
        budget_s: time for all.
    """
    trials = [trial(bench, arenas, form, size, cpus, run_s) for size in working_sets]
    samples = bench.interleave(trials, rounds, budget_s=budget_s)
    return {size: samples[size] for size in working_sets}


def trial(
    bench: Bench, arenas: ThreadArenas, form: StreamForm, size: int, cpus: Sequence[int], run_s: float
) -> Trial:
    """The trial of one working set, as `sweep` has it."""
    kernel, row_bytes = bench.kernels[form.symbol], STENCIL_WIDTH * _ITEM_BYTES
    settling = about_as_large(arenas, size, len(cpus))
    window = size if settling else arenas.window_bytes(size, len(cpus))
    whole = [arenas.stream_job(cpu, kernel, 2, window - 4 * row_bytes) for cpu in cpus]
    jobs = tuple(inside(each, row_bytes) for each in whole)
    return Trial(
        size,
        jobs,
        sum(2 * job.nbytes for job in jobs),
        run_s,
        windows=size // window,
        window_bytes=window,
        lead=arenas.lead(size, len(cpus)),
        settling=SETTLING if settling else 1,
    )
