"""Busy and idle time: unions against a plain count of nanoseconds, causes of gaps on small traces."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from rooflab.observe.importers.traces import kineto
from rooflab.observe.timeline import timeline, union_s
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
        ([kernel(0, 10, correlation=5)], "unknown"),
    ],
)
def test_a_gap_has_its_cause(tmp_path, events, cause):
    one = device(tmp_path, *events, kernel(30, 5, correlation=2 if cause != "unknown" else 99))
    (idle,) = one.idle
    assert (idle.cause, idle.gaps, idle.seconds) == (cause, 1, pytest.approx(20e-6))
    assert idle.before == "k"


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
