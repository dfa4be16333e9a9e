"""Traces of the CPU: operators are what ran, each counted once, held against a CPU."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import rooflab
from rooflab.observe.importers.traces import kineto
from rooflab.observe.matching.host import on_host
from rooflab.types.profile import Profile
from rooflab.types.trace import ON_HOST
from support.observe.kineto_files import call, file


@pytest.fixture(scope="module")
def recorded(tmp_path_factory) -> Path:
    """Two steps of linear, gelu and their backward pass, recorded here."""
    path = tmp_path_factory.mktemp("cpu") / "trace.json"
    model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.GELU())
    x = torch.randn(32, 64)
    model(x).sum().backward()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True) as profiler:
        for _ in range(2):
            model(x).sum().backward()
            profiler.step()
    profiler.export_chrome_trace(str(path))
    return path


def test_each_operator_is_counted_once(recorded):
    profile = rooflab.load(recorded, machine="epyc-7763")
    assert isinstance(profile, Profile)
    rows = {(row.name, row.phase): row for row in profile.rows}
    forward = rows["aten.addmm", "forward"]
    # 2 steps of 2 x 32 x 64 x 256, and the bias.
    assert (forward.executions, forward.flop) == (2, 2 * (2 * 32 * 64 * 256 + 32 * 256))
    # Of the weight alone: the input needs no gradient.
    assert rows["aten.mm", "backward"].flop == 2 * (2 * 32 * 64 * 256)
    # Linear is made of transposing and addmm: neither its name nor the view's is an execution.
    assert not {"aten.linear", "aten.t", "aten.as_strided"} & {row.name for row in profile.rows}
    assert all(row.prediction is not None for row in profile.rows if row.kind in ("matmul", "pointwise"))
    assert [one.device for one in profile.timeline.devices] == [ON_HOST]
    assert {idle.cause for idle in profile.timeline.devices[0].idle} <= {"between operations"}


def test_durations_are_those_of_the_outermost_counted(recorded):
    trace = kineto.load(recorded)
    ran = on_host(trace)
    assert not len(trace.kernels)
    end_s = ran.kernels.start_s + ran.kernels.duration_s
    # One thread each: nothing that ran lies within another.
    for stream in set(ran.kernels.stream.tolist()):
        mine = ran.kernels.stream == stream
        assert (ran.kernels.start_s[mine][1:] >= end_s[mine][:-1] - 1e-9).all()


def test_a_trace_without_operators_stays_empty(tmp_path):
    trace = kineto.load(file(tmp_path, call(0, 10, name="step", cat="user_annotation")))
    assert on_host(trace) is trace
