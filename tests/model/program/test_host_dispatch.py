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


def test_a_known_host_is_slower_or_faster_at_all_of_them() -> None:
    """By its own bare call, measured with the machine or given, against the table's 14.9 µs; given decides."""
    table = rooflab.machine("h200")
    (there,) = times([op("matmul")], table)
    source = Source(kind="measured", ref="here")
    own = Runtime(framework="PyTorch", dispatch_s=7.45e-6, source=source)
    measured = msgspec.structs.replace(table, runtimes=(own,))
    (here,) = times([op("matmul")], measured)
    assert here == pytest.approx(there / 2)
    (given,) = times([op("matmul")], measured, Setting(mode="eager", dispatch_s=29.8e-6))
    assert given == pytest.approx(2 * there)
    (knob,) = times([op("matmul")], table, dispatch=0.5)
    assert knob == pytest.approx(there / 2)


def test_a_card_does_not_decide_its_host() -> None:
    """What the catalogue has of a card was measured in one server: another host with that card is not known."""
    for name in ("h200", "h100-sxm"):
        machine = rooflab.machine(name)
        assert [each.host is not None for each in machine.runtimes] == [True]
        assert not host_dispatch.is_known([op("matmul")], machine, EAGER)
        assert host_dispatch.is_known([op("matmul")], machine, Setting(mode="eager", dispatch_s=9e-6))
    h200, h100 = rooflab.machine("h200"), rooflab.machine("h100-sxm")
    assert times([op("matmul")], h200) == times([op("matmul")], h100)


def test_a_host_that_is_not_known_is_surer_by_nothing() -> None:
    """Spreads add as independent ones do: 0.18 from run to run, with 0.37 between hosts or 0.16 of a bare call."""
    device = device_of(rooflab.machine("a100-sxm-80gb"))
    unknown = host_dispatch.spread([op("matmul")], device, EAGER)
    given = host_dispatch.spread([op("matmul")], device, Setting(mode="eager", dispatch_s=40e-6))
    assert unknown == pytest.approx((0.18**2 + 0.37**2) ** 0.5)
    assert given == pytest.approx((0.18**2 + 0.16**2) ** 0.5)


def test_a_cpu_launches_nothing() -> None:
    """A share of the GPU's table, unless the CPU's own PyTorch was measured; NumPy's calls are no measure."""
    cpu = rooflab.machine("epyc-9654")
    bare = times([op("pointwise")], msgspec.structs.replace(cpu, runtimes=()))
    source = Source(kind="measured", ref="here")
    numpy = Runtime(framework="numpy", dispatch_s=2e-7, source=source)
    assert times([op("pointwise")], msgspec.structs.replace(cpu, runtimes=(numpy,))) == bare
    own = Runtime(framework="PyTorch", dispatch_s=1.49e-6, source=source)
    assert times([op("pointwise")], msgspec.structs.replace(cpu, runtimes=(own,))) == pytest.approx([0.72 * 2e-6])
