"""The pointer chase: one cycle through every line, and what happens to a broken one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rooflab.errors import MeasureError
from rooflab.machines.bench.experiments.latency import (
    chase_check,
    core_to_core,
    latency,
    loaded_latency,
    write_cycle,
    write_walk,
)
from rooflab.machines.bench.kernels.emit import chase_kernel
from rooflab.machines.bench.kernels.jit import compile_kernels
from rooflab.machines.bench.run.arena import LINE_BYTES, Arena
from rooflab.machines.bench.run.thread_arenas import ThreadArenas
from rooflab.units import KIB
from support.machines.workshop import Workshop

ARENA = Arena.reserve(1 << 20)


@pytest.mark.slow
@given(lines=st.integers(1, 2000), stride=st.sampled_from([64, 128, 256]), seed=st.integers(0, 10**6))
def test_one_cycle_through_every_line(lines: int, stride: int, seed: int) -> None:
    chase = write_cycle(ARENA, lines * stride, np.random.default_rng(seed), stride)
    assert chase.lines == lines
    words = ARENA.view(np.int64, 0, lines * stride)
    at, seen = chase.start, set()
    for _ in range(lines):
        assert (at - ARENA.address) % stride == 0
        assert 0 <= at - ARENA.address < lines * stride
        seen.add(at)
        at = int(words[(at - ARENA.address) // 8])
    # Back at the start after exactly all lines, none twice: no shorter cycle hides.
    assert at == chase.start
    assert len(seen) == lines


@pytest.mark.slow
@given(lines=st.integers(1, 16_000), loads=st.integers(1, 3000), seed=st.integers(0, 10**6))
def test_a_walk_draws_a_line_of_each_stretch(lines: int, loads: int, seed: int) -> None:
    chase = write_walk(ARENA, lines * LINE_BYTES, loads, np.random.default_rng(seed))
    words = ARENA.view(np.int64, 0, lines * LINE_BYTES)
    at, met = chase.start, []
    for _ in range(chase.lines):
        met.append((at - ARENA.address) // LINE_BYTES)
        at = int(words[(at - ARENA.address) // 8])
    assert at == chase.start
    # As many lines as loads at least, if there are so many; evenly spread, none twice.
    assert chase.lines >= min(loads, lines)
    every = max(1, lines // loads)
    assert sorted(number // every for number in met) == list(range(chase.lines))
    assert max(met) < lines


def test_the_order_is_random() -> None:
    write_cycle(ARENA, 256 * LINE_BYTES, np.random.default_rng(0))
    first = ARENA.view(np.int64, 0, 256 * LINE_BYTES)[::8].copy()
    steps = first - ARENA.address - np.arange(256) * LINE_BYTES
    assert len(set(steps.tolist())) > 128
    write_cycle(ARENA, 256 * LINE_BYTES, np.random.default_rng(1))
    assert not np.array_equal(first, ARENA.view(np.int64, 0, 256 * LINE_BYTES)[::8])


def test_the_kernel_follows_the_chain(workshop: Workshop) -> None:
    chase_check(workshop.bench, workshop.arena, workshop.cpu)


@pytest.mark.parametrize("length", [15, 17, 1])
def test_a_kernel_that_makes_other_steps_is_caught(workshop: Workshop, length: int) -> None:
    kernel = replace(chase_kernel(length=length), operations=16)
    bench = replace(workshop.bench, kernels={**workshop.bench.kernels, **compile_kernels([kernel])})
    with pytest.raises(MeasureError, match=r"kernel chase: ended at 0x.*, expected 0x.*cannot be trusted"):
        chase_check(bench, workshop.arena, workshop.cpu)


def test_every_size_gets_every_round(workshop: Workshop) -> None:
    found = latency(workshop.bench, workshop.arena, workshop.cpu, [4 * KIB, 16 * KIB, 64 * KIB], 3, 0.0005)
    assert list(found) == [4 * KIB, 16 * KIB, 64 * KIB]
    for series in found.values():
        assert series.runs == 3
        # Between 0.1 ns and 1 ms per load: a rate is loads per second, not seconds.
        assert all(1e3 < value < 1e10 for value in series.values)


def test_core_to_core_pairs(workshop: Workshop) -> None:
    found = core_to_core(workshop.bench, workshop.arena, workshop.cpus, 2)
    assert list(found) == ([workshop.cpus] if len(workshop.cpus) == 2 else [])
    assert all(series.runs == 2 and min(series.values) > 0 for series in found.values())


def test_latency_under_load_counts_only_rounds_with_load(workshop: Workshop) -> None:
    if len(workshop.cpus) < 2:
        pytest.skip("one CPU is granted: nobody can stream beside the chase")
    form = workshop.streams[0]
    arenas = ThreadArenas({workshop.cpus[1]: Arena.reserve(2 << 20)})
    job = arenas.stream_job(workshop.cpus[1], workshop.bench.kernels[form.symbol], 1, 256 * KIB)
    found = loaded_latency(workshop.bench, workshop.arena, workshop.cpu, 64 * KIB, [job], 2, 0.0005)
    assert found.runs <= 2
    assert all(value > 0 for value in found.values)
