"""Results that are allocated, and those that lie in memory which is there: only the first wait for new pages."""

from __future__ import annotations

import numpy as np
import pytest

import rooflab
from rooflab.model.device.device import device_of
from rooflab.model.kernels.cpu import core_times
from rooflab.model.kernels.cpu.core_times import cores_of_cpu
from rooflab.types.work import TensorSpec

X = np.ones(10_000_000)
OUT = np.empty_like(X)


def test_memory_that_the_program_began_with_is_not_new():
    a, b = (TensorSpec((10,), "fp64", 80.0, number) for number in range(2))
    given = TensorSpec((10,), "fp64", 80.0, 2, role="input")
    cache = TensorSpec((10,), "fp64", 80.0, 3, role="buffer")
    assert core_times.fresh_bytes((a,), (b,)) == 80
    assert core_times.fresh_bytes((a, b), (b,)) == 0  # in place
    assert core_times.fresh_bytes((a,), (given,)) == 0  # out=
    assert core_times.fresh_bytes((a,), (cache,)) == 0


def test_out_saves_the_time_of_new_pages():
    machine = rooflab.machine("examples/zen4-guest.toml")
    new = rooflab.analyze(lambda x, out: x * 2.0, X, OUT, machine=machine, threads=1)
    old = rooflab.analyze(lambda x, out: np.multiply(x, 2.0, out=out), X, OUT, machine=machine, threads=1)
    assert new.nbytes == old.nbytes == 160e6  # read, written
    # 80 MB cleared at the share that it has of what one core writes
    device = device_of(machine)
    cleared_s = 80e6 / (cores_of_cpu(device).tiers[-1].core_write * device.constants("numpy.clear_share"))
    assert new.time_s is not None
    assert old.time_s is not None
    assert new.time_s - old.time_s == pytest.approx(cleared_s, rel=0.01)
