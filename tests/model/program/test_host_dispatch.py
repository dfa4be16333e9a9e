"""Host time of an eager program: by sort of operation, views included, scaled to the host at hand."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

import rooflab
from rooflab.model.device.device import device_of
from rooflab.model.program import host_dispatch
from rooflab.types.machine import Machine, Runtime, Source
from rooflab.types.setting import Setting
from rooflab.types.work import Op

EAGER = Setting(mode="eager")


def op(kind: str, name: str = "aten.x", operands: int = 2, **more: Any) -> Op:
    return Op(kind=kind, name=name, inputs=tuple(range(operands)), outputs=(operands,), **more)


def times(ops: list[Op], machine: Machine, setting: Setting = EAGER, **knobs: float) -> list[float]:
    device = device_of(machine, knobs=knobs)
    return host_dispatch.dispatch_s(ops, device, setting)[:, 0].tolist()


def test_every_sort_has_its_time() -> None:
    """Profiled times × the share that stays without the profiler (0.72), on the host of the table itself."""
    h200 = rooflab.machine("h200")
    found = times([op("view"), op("pointwise"), op("matmul"), op("norm"), op("attention"), op("sort")], h200)
    assert found == pytest.approx([0.72 * each * 1e-6 for each in (5, 20, 42, 45, 97, 30)])


def test_gradients_are_dispatched_in_cpp() -> None:
    """0.7 of the forward call, and a gradient's kind counts as its forward's."""
    h200 = rooflab.machine("h200")
    forward, backward = times([op("norm"), op("norm_backward", phase="backward")], h200)
    assert backward == pytest.approx(0.7 * forward)


def test_calls_on_lists_of_tensors_handle_each() -> None:
    """A fused optimizer over 100 tensors: 93 operands beyond eight, 2 µs profiled each."""
    h200 = rooflab.machine("h200")
    one, many = times([op("optimizer", operands=4), op("optimizer", operands=100)], h200)
    assert many - one == pytest.approx(0.72 * 93 * 2e-6)


def test_another_host_is_slower_or_faster_at_all_of_them() -> None:
    """By its own bare call: the H100's host took 11.9 µs where the H200's took 14.9; a given one decides."""
    h200, h100 = rooflab.machine("h200"), rooflab.machine("h100-sxm")
    (there,), (here,) = times([op("matmul")], h200), times([op("matmul")], h100)
    assert here / there == pytest.approx(11.9 / 14.9)
    (given,) = times([op("matmul")], h200, Setting(mode="eager", dispatch_s=29.8e-6))
    assert given == pytest.approx(2 * there)
    (knob,) = times([op("matmul")], h200, dispatch=0.5)
    assert knob == pytest.approx(there / 2)


def test_a_cpu_launches_nothing() -> None:
    """A share of the GPU's table, unless the CPU's own PyTorch was measured; NumPy's calls are no measure."""
    cpu = rooflab.machine("epyc-9654")
    bare = times([op("pointwise")], msgspec.structs.replace(cpu, runtimes=()))
    source = Source(kind="measured", ref="here")
    numpy = Runtime(framework="numpy", dispatch_s=2e-7, source=source)
    assert times([op("pointwise")], msgspec.structs.replace(cpu, runtimes=(numpy,))) == bare
    own = Runtime(framework="PyTorch", dispatch_s=1.49e-6, source=source)
    assert times([op("pointwise")], msgspec.structs.replace(cpu, runtimes=(own,))) == pytest.approx([0.72 * 2e-6])
