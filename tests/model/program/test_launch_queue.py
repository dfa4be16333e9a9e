"""Two queues: when the device finishes, and how long it waited for the host."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rooflab.model.program.launch_queue import queue_times

# host and device time of each operation → when the device is done with the last, how long it waited in all
CASES = [
    # the device always waits: three calls of 10, the last kernel of 1 after them
    ([10, 10, 10], [1, 1, 1], 31, 28),
    # the host runs ahead: the first call, then the device alone
    ([1, 1, 1], [10, 10, 10], 31, 1),
    # a long kernel first hides the calls behind it: 5 + 100, then two of 1
    ([5, 20, 20], [100, 1, 1], 107, 5),
    # views cost the host and launch nothing: the device waits for 10 + 10 + 10 before the last
    ([10, 10, 10], [1, 0, 1], 31, 29),
    # nothing to launch at all
    ([10, 10], [0, 0], 0, 0),
]


@pytest.mark.parametrize(("host", "device", "finish", "wait"), CASES)
def test_the_longer_queue_ends_the_program(
    host: list[float], device: list[float], finish: float, wait: float
) -> None:
    """finish_i = max(finish_{i−1}, issued_i) + device_i, done by hand above."""
    found = queue_times(np.array(host, float), np.array(device, float)[:, None])
    assert found.finish_s[-1, 0] == finish
    assert found.wait_s.sum() == wait


def _slow(host: list[float], device: list[float]) -> float:
    issued = finish = 0.0
    for each, kernel in zip(host, device, strict=True):
        issued += each
        if kernel:
            finish = max(finish, issued) + kernel
    return finish


TIMES = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=1, max_size=30)


@given(TIMES)
def test_the_closed_form_is_the_loop(times: list[tuple[int, int]]) -> None:
    """Arrays over operations against one operation after the other; waits and kernels make the total."""
    host, device = [list(each) for each in zip(*times, strict=True)]
    found = queue_times(np.array(host, float), np.array(device, float)[:, None])
    assert found.finish_s[-1, 0] == _slow(host, device)
    assert found.wait_s.min() >= 0
    assert found.wait_s.sum() + sum(device) == _slow(host, device)
    assert found.finish_s[-1, 0] >= sum(device)


def test_each_setting_is_a_column_of_its_own() -> None:
    """One host, two devices at once."""
    found = queue_times(np.array([10.0, 10.0]), np.array([[1.0, 100.0], [1.0, 100.0]]))
    assert found.finish_s[-1].tolist() == [21, 210]
