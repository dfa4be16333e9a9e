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

    The cycle is written anew for each sample. A small set is walked once before it is timed; a set too
    large to walk in `run_s` is far beyond every cache that writing it could have warmed.
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
    """Loads per second at one working set for each level, by the level's name, in `runs` each.

    The levels take turns; main memory's cycle, which takes longest to write, is written once.
    """
    taken: dict[str, list[float]] = {name: [] for name in working_sets}
    slow = max(working_sets, key=lambda name: working_sets[name], default=None)
    for walk in range(-(-runs // _RUNS_OF_A_WALK)):
        for name, size in working_sets.items():
            if name != slow:
                taken[name] += _walk(bench, arena, cpu, size, min(_RUNS_OF_A_WALK, runs), run_s)
            elif walk == 0:
                taken[name] += _walk(bench, arena, cpu, size, runs, run_s)
    return {name: Series(tuple(values)) for name, values in taken.items()}


def _walk(bench: Bench, arena: Arena, cpu: int, size: int, runs: int, run_s: float) -> list[float]:
    """Loads per second of `runs` stretches of one walk through a cycle that is written anew, and warmed."""
    kernel = bench.kernels["chase"]
    length = kernel.emitted.operations
    chase = bench.pinned.call(cpu, partial(write_cycle, arena, size, bench.rng))
    job = Job(cpu, kernel, 1, a=chase.start)
    warm = replace(job, iterations=max(8, min(chase.lines, 20_000) // length))
    per_load = bench.pinned.run([warm]).seconds / (warm.iterations * length)
    timed = replace(job, iterations=max(8, round(run_s / per_load / length)))
    taken = []
    for _ in range(runs):
        taken.append(timed.iterations * length / bench.pinned.run([timed]).seconds)
        timed = replace(timed, a=int(bench.pinned.results(cpu, np.int64, 1)[0]))
        bench.tick()
    return taken


def loaded_latency(
    bench: Bench, arena: Arena, cpu: int, size: int, streams: Sequence[Job], rounds: int, run_s: float
) -> Series:
    """Loads per second of a dependent chain on `cpu` while `streams` (one job each, one pass) keep reading.

    The streams are given twice the time of the chase and start with it; a round in which a stream ended
    first is not counted.
    """
    kernel = bench.kernels["chase"]
    length = kernel.emitted.operations
    chase = write_cycle(arena, size, bench.rng)
    loads = max(8, round(run_s / 150e-9 / length))
    passes = [1] * len(streams)
    taken: list[float] = []
    for _ in range(4 * rounds):
        background = [
            replace(job, iterations=job.iterations * count) for job, count in zip(streams, passes, strict=True)
        ]
        run = bench.pinned.run([Job(cpu, kernel, loads, a=chase.start), *background])
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
