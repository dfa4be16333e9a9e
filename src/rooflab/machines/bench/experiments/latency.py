"""Latency: a chain of dependent loads over a random cycle of cache lines, and a counter handed between cores."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from rooflab.errors import MeasureError
from rooflab.machines.bench.run.arena import LINE_BYTES, Arena
from rooflab.machines.bench.run.pinned_threads import Job
from rooflab.machines.bench.run.trials import Bench
from rooflab.timing import Series

# Short runs: one that the scheduler cut into is seen as an outlier, and others are whole.
_PING_PONGS = 2_000
# Runs of one walk before the cycle is written anew: other lines, other pages of the level.
_RUNS_OF_A_WALK = 3
_MOST_PAIRS = 16
# Loads before the timed ones, and what a load at a level that takes long to write costs at least.
_WARMING, _QUICK_LOAD_S = 20_000, 50e-9
_LOADED_LOAD_S = 150e-9


@dataclass(frozen=True)
class Chase:
    """A cycle of addresses written into memory, and the number of lines in it."""

    start: int
    lines: int


def write_cycle(arena: Arena, nbytes: int, rng: np.random.Generator, stride: int = LINE_BYTES) -> Chase:
    """A random cycle through every line of the first `nbytes` of `arena`: each line holds the next's address.

    One cycle and no shorter ones: a random order of all lines, each pointing to its successor.
    """
    lines = nbytes // stride
    words = arena.view(np.int64, 0, lines * stride).reshape(lines, stride // 8)
    order = rng.permutation(lines)
    words[order, 0] = arena.address + np.roll(order, -1) * stride
    return Chase(arena.address + int(order[0]) * stride, lines)


def write_walk(arena: Arena, nbytes: int, loads: int, rng: np.random.Generator) -> Chase:
    """A random walk of at least `loads` lines spread evenly over the first `nbytes` of `arena`, closed to a cycle.

    In each of as many equal stretches one line is drawn, so the walk meets every page as often as one through all
    lines, which is what there is where these are few. What of it the caches hold is up to the caller.
    """
    lines = nbytes // LINE_BYTES
    every = lines // max(loads, 1)
    if every < 2:
        return write_cycle(arena, nbytes, rng)
    count = lines // every
    drawn = np.arange(count) * every + rng.integers(0, every, count)
    words = arena.view(np.int64, 0, lines * LINE_BYTES).reshape(lines, LINE_BYTES // 8)
    order = rng.permutation(drawn)
    words[order, 0] = arena.address + np.roll(order, -1) * LINE_BYTES
    return Chase(arena.address + int(order[0]) * LINE_BYTES, count)


def chase_check(bench: Bench, arena: Arena, cpu: int) -> None:
    """Walk a small cycle with the kernel and with NumPy; both must end on the same line.

    Raises:
        MeasureError: they do not.
    """
    chase = write_cycle(arena, 64 * LINE_BYTES, bench.rng)
    kernel = bench.kernels["chase"]
    bench.pinned.run([Job(cpu, kernel, 5, a=chase.start)])
    words, where = arena.view(np.int64, 0, 64 * LINE_BYTES), chase.start
    for _ in range(5 * kernel.emitted.operations):
        where = int(words[(where - arena.address) // 8])
    got = int(bench.pinned.results(cpu, np.int64, 1)[0])
    if got != where:
        raise MeasureError(
            f"kernel chase: ended at {got:#x}, expected {where:#x}; the latencies cannot be trusted"
        )


def latency(
    bench: Bench, arena: Arena, cpu: int, working_sets: Sequence[int], rounds: int, run_s: float
) -> dict[int, Series]:
    """Loads per second of a dependent chain, by working set; the sizes are shuffled in each round.

    The walk is written anew for each sample. A small set is walked once before it is timed; of a large one as many
    lines as there is time for.
    """
    taken: dict[int, list[float]] = {size: [] for size in working_sets}
    for _ in range(rounds):
        for place in bench.rng.permutation(len(working_sets)):
            size = working_sets[place]
            taken[size] += _walk(bench, arena, cpu, size, 1, run_s)
    return {size: Series(tuple(values)) for size, values in taken.items()}


def level_latency(
    bench: Bench, arena: Arena, cpu: int, working_sets: Mapping[str, int], runs: int, run_s: float
) -> dict[str, Series]:
    """Loads per second at one working set for each level, by the level's name, in `runs` each; they take turns."""
    taken: dict[str, list[float]] = {name: [] for name in working_sets}
    for _ in range(-(-runs // _RUNS_OF_A_WALK)):
        for name, size in working_sets.items():
            taken[name] += _walk(bench, arena, cpu, size, min(_RUNS_OF_A_WALK, runs), run_s)
    return {name: Series(tuple(values)) for name, values in taken.items()}


def _walk(bench: Bench, arena: Arena, cpu: int, size: int, runs: int, run_s: float) -> list[float]:
    """Loads per second of `runs` stretches of one walk through a cycle that is written anew, and warmed.

    No line of a walk that leaves lines out is met twice: it would be in a nearer cache than the rest of its set.
    """
    kernel = bench.kernels["chase"]
    length = kernel.emitted.operations
    loads = _WARMING + round(runs * run_s / _QUICK_LOAD_S)
    chase = bench.pinned.call(cpu, partial(_written, arena, size, loads, bench.rng))
    warm = Job(cpu, kernel, max(8, min(chase.lines, _WARMING) // length), a=chase.start)
    per_load = bench.pinned.run([warm]).seconds / (warm.iterations * length)
    iterations = max(8, round(run_s / per_load / length))
    if chase.lines < size // LINE_BYTES:
        iterations = min(iterations, (chase.lines - _WARMING) // length // runs)
    taken, job = [], replace(warm, iterations=iterations)
    for _ in range(runs):
        job = replace(job, a=int(bench.pinned.results(cpu, np.int64, 1)[0]))
        taken.append(iterations * length / bench.pinned.run([job]).seconds)
        bench.tick()
    return taken


def _written(arena: Arena, size: int, loads: int, rng: np.random.Generator) -> Chase:
    """A walk through `size` bytes; all of them were read since, as every line of the set is as likely held."""
    chase = write_walk(arena, size, loads, rng)
    if chase.lines < size // LINE_BYTES:
        arena.view(np.int64, 0, size // LINE_BYTES * LINE_BYTES).sum()
    return chase


def loaded_latency(
    bench: Bench, arena: Arena, cpu: int, size: int, streams: Sequence[Job], rounds: int, run_s: float
) -> Series:
    """Loads per second of a dependent chain on `cpu` while `streams` (one job each, one pass) keep reading.

    The streams are given twice the time of the chase and start with it; a round in which a stream ended
    first is not counted. Each round goes on where the last one ended.
    """
    kernel = bench.kernels["chase"]
    length = kernel.emitted.operations
    loads = max(8, round(run_s / _LOADED_LOAD_S / length))
    chase = bench.pinned.call(cpu, partial(_written, arena, size, (4 * rounds + 1) * loads * length, bench.rng))
    start = chase.start
    passes = [1] * len(streams)
    taken: list[float] = []
    for _ in range(4 * rounds):
        background = [
            replace(job, iterations=job.iterations * count) for job, count in zip(streams, passes, strict=True)
        ]
        run = bench.pinned.run([Job(cpu, kernel, loads, a=start), *background])
        start = int(bench.pinned.results(cpu, np.int64, 1)[0])
        chased, *streamed = run.each_s
        bench.tick()
        if streamed and min(streamed) < chased:
            passes = [
                max(count + 1, round(count * 2 * chased / seconds))
                for count, seconds in zip(passes, streamed, strict=True)
            ]
            continue
        taken.append(loads * length / chased)
        if len(taken) == rounds:
            break
    return Series(tuple(taken))


def core_to_core(bench: Bench, arena: Arena, cpus: Sequence[int], rounds: int) -> dict[tuple[int, int], Series]:
    """Hand-overs per second of one cache line between pairs of cores: one way, not there and back.

    At most 16 pairs: the first core with each other, then the rest in order.
    """
    kernel = bench.kernels["ping_pong"]
    pairs = list(itertools.combinations(cpus, 2))[:_MOST_PAIRS]
    words = arena.view(np.int64, 0, 2 * LINE_BYTES)
    taken: dict[tuple[int, int], list[float]] = {pair: [] for pair in pairs}
    for _ in range(rounds):
        for pair in pairs:
            words[:] = 0
            jobs = [Job(cpu, kernel, _PING_PONGS, a=arena.address, width=turn) for turn, cpu in enumerate(pair)]
            taken[pair].append(2 * _PING_PONGS / bench.pinned.run(jobs).seconds)
            bench.tick()
    return {pair: Series(tuple(values)) for pair, values in taken.items()}
