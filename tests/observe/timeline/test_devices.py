"""Busy and idle time: unions against a plain count of nanoseconds, causes of gaps on small traces."""

from __future__ import annotations

import tempfile
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from rooflab.observe.importers.traces import kineto
from rooflab.observe.timeline import PARTS, timeline
from rooflab.observe.timeline.intervals import union_s
from support.observe.kineto_files import call, file, kernel, launch


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)), max_size=12))
def test_a_union_is_the_ticks_in_which_something_is_open(pairs):
    pairs.sort()
    start = np.array([begin for begin, _ in pairs], float)
    end = np.array([begin + long for begin, long in pairs], float)
    open_ticks = {tick for begin, long in pairs for tick in range(begin, begin + long)}
    assert union_s(start, end) == len(open_ticks)


def device(folder, *events):
    (one,) = timeline(kineto.load(file(folder, *events))).devices
    return one


def test_overlapping_kernels_count_once(tmp_path):
    one = device(tmp_path, kernel(0, 10), kernel(5, 10, stream=9), kernel(30, 5))
    assert one.span_s == pytest.approx(35e-6)
    assert one.busy_s == pytest.approx(20e-6)
    assert one.kernels_s == pytest.approx(25e-6)
    assert one.busy_share == pytest.approx(20 / 35)


@pytest.mark.parametrize(
    ("events", "cause"),
    [
        # launched after the device fell idle
        ([launch(-3), kernel(0, 10), launch(28, correlation=2)], "launches"),
        # launched long before: the device's own pause
        ([launch(-3), launch(-1, correlation=2), kernel(0, 10)], "between kernels"),
        # the host waited until the device was done, and began again
        (
            [
                launch(-3),
                kernel(0, 10),
                launch(0, name="cudaDeviceSynchronize", long_us=12),
                launch(28, correlation=2),
            ],
            "synchronisation",
        ),
        # and then waited for data
        (
            [
                launch(-3),
                kernel(0, 10),
                call(
                    11, 17, "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", cat="user_annotation"
                ),
                launch(28, correlation=2),
            ],
            "data loader",
        ),
        # the host waited in a copy that the device had just made
        (
            [
                launch(-3),
                {**kernel(0, 10), "cat": "gpu_memcpy", "name": "Memcpy DtoH"},
                launch(-1, name="cudaMemcpyAsync", long_us=13),
                launch(28, correlation=2),
            ],
            "copy",
        ),
        ([kernel(0, 10, correlation=5)], "unknown"),
    ],
)
def test_a_gap_has_its_cause(tmp_path, events, cause):
    one = device(tmp_path, *events, kernel(30, 5, correlation=2 if cause != "unknown" else 99))
    (idle,) = one.idle
    assert (idle.cause, idle.gaps, idle.seconds) == (cause, 1, pytest.approx(20e-6))
    assert idle.before == "k"


def test_a_copy_whose_call_began_long_before_it_was_still_prepared(tmp_path):
    copy = {**kernel(30, 5, correlation=2), "cat": "gpu_memcpy", "name": "Memcpy HtoD (Pageable -> Device)"}
    call_of_it = launch(11, correlation=2, name="cudaMemcpyAsync", long_us=22)
    one = device(tmp_path, launch(-3), kernel(0, 10), call_of_it, copy)
    # 10 to 30 idle, 11 to 30 of it in the call.
    assert [(idle.cause, idle.seconds) for idle in one.idle] == [("copy", pytest.approx(20e-6))]


def test_gaps_of_several_devices_and_streams_are_their_own(tmp_path):
    events = [
        kernel(0, 10),
        kernel(2, 20, stream=9),
        kernel(30, 5),
        kernel(5, 5, device=1),
        kernel(20, 5, device=1),
    ]
    first, second = timeline(kineto.load(file(tmp_path, *events))).devices
    assert (first.busy_s, first.idle_s) == (pytest.approx(27e-6), pytest.approx(8e-6))
    assert (second.busy_s, second.idle_s) == (pytest.approx(10e-6), pytest.approx(10e-6))
    for one in (first, second):
        assert sum(idle.seconds for idle in one.idle) == pytest.approx(one.idle_s)


def test_the_queue_is_what_was_launched_and_had_not_begun(tmp_path):
    # Three launched at -8, -6 and -4, which begin at 0, 10 and 20; the device's time is 0 to 30.
    events = [launch(-8 + 2 * n, correlation=n) for n in (0, 1, 2)]
    one = device(tmp_path, *events, *(kernel(10 * n, 10, correlation=n) for n in (0, 1, 2)))
    assert (one.queue.median, one.queue.most) == (1, 2)
    assert len(one.queue.depths) == 40
    # Two wait from 0 to 10, one from 10 to 20, none after: 30 of 30 µs.
    assert sum(one.queue.depths) / 40 == pytest.approx(1.0, abs=1e-3)
    assert (one.queue.depths[0], one.queue.depths[20], one.queue.depths[-1]) == (2, 1, 0)


def test_copies_and_collectives_are_exposed_where_nothing_computes(tmp_path):
    copy = {**kernel(10, 10), "cat": "gpu_memcpy", "name": "Memcpy HtoD"}
    one = device(
        tmp_path,
        kernel(0, 15),
        copy,
        kernel(40, 20, name="ncclDevKernel_AllReduce_Sum_bf16_RING_LL"),
        kernel(50, 5),
    )
    assert one.copy_s == pytest.approx(10e-6)
    assert one.exposed_copy_s == pytest.approx(5e-6)
    assert one.collective_s == pytest.approx(20e-6)
    assert one.exposed_collective_s == pytest.approx(15e-6)
    assert one.compute_s == pytest.approx(20e-6)


def test_steps_are_those_that_the_program_marked(tmp_path):
    steps = [
        call(0, 50, "ProfilerStep#3", cat="user_annotation"),
        call(50, 50, "ProfilerStep#4", cat="user_annotation"),
    ]
    found = timeline(kineto.load(file(tmp_path, *steps, kernel(40, 20)))).steps
    assert [(one.name, round(one.busy_s * 1e6)) for one in found] == [
        ("ProfilerStep#3", 10),
        ("ProfilerStep#4", 10),
    ]


def test_no_kernel_no_device(tmp_path):
    assert timeline(kineto.load(file(tmp_path, call(0, 5, "aten::add")))).devices == ()


def test_the_parts_of_the_time_say_what_ran_when(tmp_path):
    # 120 µs: each part is one. 30 µs of compute, 60 idle, 30 of which the first 10 are a copy beside it.
    copies = kernel(90, 10, name="Memcpy HtoD (Pinned -> Device)", correlation=3)
    copies["cat"] = "gpu_memcpy"
    one = device(tmp_path, kernel(0, 30), kernel(90, 30, correlation=2), copies)
    assert one.span_s == pytest.approx(120e-6)
    compute, idle = one.parts["compute"], one.parts["idle: unknown"]
    assert compute == pytest.approx((1.0,) * 30 + (0.0,) * 60 + (1.0,) * 30, abs=1e-4)
    assert idle == pytest.approx((0.0,) * 30 + (1.0,) * 60 + (0.0,) * 30, abs=1e-4)
    assert "copy" not in one.parts  # nothing of it was not hidden


@given(st.lists(st.tuples(st.integers(0, 300), st.integers(1, 40)), min_size=1, max_size=10))
def test_the_parts_add_up_to_the_whole(pairs):
    with tempfile.TemporaryDirectory() as folder:
        one = device(Path(folder), *(kernel(begin, long) for begin, long in sorted(pairs)))
    assert np.sum(list(one.parts.values()), axis=0) == pytest.approx(np.ones(PARTS), abs=1e-3)
    width = one.span_s / PARTS
    assert sum(one.parts["compute"]) * width == pytest.approx(one.busy_s, rel=1e-3)
    idle = sum(sum(share) for name, share in one.parts.items() if name.startswith("idle"))
    assert idle * width == pytest.approx(one.idle_s, rel=1e-3, abs=1e-9)
