"""Floors of programs: an ideal cache against every choice there is, and against what must move."""

from __future__ import annotations

import itertools

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings

import rooflab
from rooflab.model.device.device import device_of
from rooflab.model.program.floor import Touch, least_memory_bytes, most_kept

# Number formats that each has a matrix peak in, or computes in vectors.
MACHINES = {
    "h100-sxm": torch.bfloat16,
    "h200": torch.float32,
    "l4": torch.float16,
    "epyc-7763": torch.float32,
    "m1-pro": torch.float32,
    "tpu-v5e": torch.bfloat16,
}


def most_kept_by_trying(intervals, capacity):
    """The most intervals of one byte that fit, over all subsets."""
    moments = range(
        min((begin for begin, _, _ in intervals), default=0), max((end for _, end, _ in intervals), default=0)
    )
    best = 0
    for chosen in itertools.product((0, 1), repeat=len(intervals)):
        kept = [one for one, keep in zip(intervals, chosen, strict=True) if keep]
        if all(sum(begin <= moment < end for begin, end, _ in kept) <= capacity for moment in moments):
            best = max(best, len(kept))
    return best


@settings(deadline=None, max_examples=150)
@given(
    st.lists(st.tuples(st.integers(-4, 8), st.integers(1, 6)), max_size=9),
    st.integers(0, 4),
)
def test_no_choice_of_what_to_keep_is_better(pairs, capacity):
    intervals = [(begin, begin + length, 1.0) for begin, length in pairs]
    assert most_kept(intervals, capacity) == most_kept_by_trying(intervals, capacity)


def test_a_tensor_can_be_kept_in_part():
    # 3 of 10 bytes fit while the first waits; the second, which ends sooner, is kept first.
    assert most_kept([(0, 9, 10.0)], 3) == 3
    assert most_kept([(0, 9, 10.0), (1, 3, 2.0)], 3) == 3  # 2 of the second, 1 of the first


def read(place, nbytes):
    return Touch(place, nbytes, False)


def write(place, nbytes):
    return Touch(place, nbytes, True)


def test_weights_read_in_turn_come_from_memory_but_for_a_cache_full():
    program = [read(place, 100.0) for place in range(10)]
    assert least_memory_bytes(program, 250, repeated=True) == 1000 - 250
    assert least_memory_bytes(program, 250, repeated=False) == 1000
    assert least_memory_bytes(program, 1000, repeated=True) == 0


def test_what_one_operation_hands_to_the_next_need_not_move():
    # in 50 → x 60 → y 60 → out 50: x and y stay; a repeated run finds `in`, and `out` is overwritten in the cache
    program = [read(0, 50), write(1, 60), read(1, 60), write(2, 60), read(2, 60), write(3, 50)]
    assert least_memory_bytes(program, 1000, repeated=True) == 0
    assert (
        least_memory_bytes(program, 1000, repeated=False) == 50
    )  # `in`; what is dirty at the end is of no run's time
    # With 60 bytes of cache x and y can be handed over, `in` and `out` not kept beside them; the first of the two
    # rounds that are looked at finds `in` all the same.
    assert least_memory_bytes(program, 60, repeated=True) == pytest.approx(50 / 2 + 50)


def test_handing_over_more_than_the_cache_holds_costs_both_ways():
    program = [write(0, 100), read(0, 100)]
    assert least_memory_bytes(program, 30, repeated=False) == (100 - 30) + (100 - 30)


class Chain(torch.nn.Module):
    def __init__(self, count, width):
        super().__init__()
        layers = [
            torch.nn.Linear(width, width, bias=False, dtype=torch.float16, device="meta") for _ in range(count)
        ]
        self.layers = torch.nn.ModuleList(layers)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


@pytest.mark.parametrize("mode", ["eager", "graph", "compiled"])
@pytest.mark.parametrize("cache", ["warm", "cold"])
def test_distinct_weights_take_the_time_of_the_memory(mode, cache):
    """64 layers of 2048² fp16: 64 × 8.39 MB = 537 MB, of which L4's 48 MB of L2 can keep a part, over 300 GB/s."""
    report = rooflab.analyze(Chain(64, 2048), torch.empty(4, 2048, dtype=torch.float16, device="meta"))
    on = report.on("l4", mode=mode, cache=cache)
    weights = 64 * 2048 * 2048 * 2
    kept = device_of(on.machine).kept_bytes if cache == "warm" else 0
    assert on.prediction.floor_s >= (weights - kept) / 300e9
    assert on.prediction.floor_s <= 1.01 * weights / 300e9
    assert on.prediction.floor_s <= on.prediction.time_s


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.sampled_from([64, 512, 2048, 4096]), min_size=2, max_size=6),
    st.sampled_from([1, 16, 3000]),
    st.sampled_from(list(MACHINES)),
    st.sampled_from(["warm", "cold"]),
    st.booleans(),
)
def test_a_floor_holds_what_the_cache_cannot(widths, batch, machine, cache, repeat):
    """Parameters and inputs are there before the run, results after it: all of them but a cache full must move."""
    pairs, dtype = list(itertools.pairwise(widths)), MACHINES[machine]
    layers = [torch.nn.Linear(a, b, bias=False, device="meta", dtype=dtype) for a, b in pairs]

    def program(x):
        for layer in layers:
            x = torch.relu(layer(x))
            x = torch.relu(x) if repeat else x
        return x

    x = torch.empty(batch, widths[0], device="meta", dtype=dtype)
    report = rooflab.analyze(program, x).on(machine, cache=cache, mode="graph")
    assert all(row.prediction or row.op.kind == "view" for row in report.rows)
    device = device_of(report.machine)
    distinct = dtype.itemsize * (batch * widths[0] + sum(a * b for a, b in pairs) + batch * widths[-1])
    prediction = report.prediction
    least = (distinct - device.kept_bytes) / device.memory_bytes_per_s
    assert prediction.floor_s >= least * (1 - 1e-9)
    assert prediction.floor_s <= prediction.low_s <= prediction.time_s


@pytest.mark.parametrize(("machine", "ranks"), [("h100-sxm", 8), ("a100-sxm-80gb", 4)])
def test_a_collective_takes_the_time_of_its_link(machine, ranks):
    report = rooflab.op("all_reduce", 100_000_000, dtype="fp32", ranks=ranks, machine=machine)
    link = next(one for one in report.machine.links if "NVLink" in one.name)
    # In the switch (NVLink SHARP) a rank sends its data once, round the ring 2·(n − 1)/n times.
    assert report.prediction.floor_s >= 400e6 / link.each_way_bytes_per_s
    assert report.prediction.floor_s <= 2 * 400e6 / link.each_way_bytes_per_s


def test_caches_that_do_not_hold_each_other_s_lines_keep_what_both_hold():
    """A Xeon 8480's 56 L2 of 2 MiB hold more than its L3 of 105 MiB: together 217 MiB, and 56 × 48 KiB of L1."""
    device = device_of(rooflab.machine("xeon-8480"))
    assert device.kept_bytes == 56 * (2 * 2**20 + 48 * 2**10) + 105 * 2**20
    # Two operands and a result of 50 MiB each: more than the L3, less than both.
    report = rooflab.op("mul", 25 * 2**20, 25 * 2**20, dtype="bf16", machine="xeon-8480", cache="warm")
    assert report.prediction.floor_s < 0.1 * 150 * 2**20 / device.memory_bytes_per_s
    assert device_of(rooflab.machine("h200")).kept_bytes == 60 * 2**20  # each kernel finds its L1 empty


def test_what_nothing_reads_may_be_written_over_in_the_cache():
    """Sixty products of the same 12 MB, each thrown away: an RTX 4090's 72 MB of L2 may hold all there is."""

    def thrown(x):
        for _ in range(60):
            y = x * 2.0
        return y

    report = rooflab.analyze(thrown, torch.empty(3_000_000, device="meta")).on("rtx-4090", mode="graph")
    assert report.prediction.floor_s < 2 * 12e6 / 1008e9
    wide = rooflab.analyze(thrown, torch.empty(100_000_000, device="meta")).on("rtx-4090", mode="graph")
    # 400 MB each: all but a cache full of each is written, and read.
    assert wide.prediction.floor_s > 60 * (800e6 - 2 * 72 * 2**20) / 1008e9
