"""What a kernel's own time may leave out of its prediction: pauses, and the fetching of programs."""

from __future__ import annotations

import pytest

import rooflab
from rooflab.model.device.device import device_of
from rooflab.model.program import pauses


def test_a_kernel_after_another_program_fetches_its_own():
    machine = rooflab.machine("h200-sxm")
    report = rooflab.op("relu", "1024x1024", dtype="bf16", machine=machine, mode="graph", advice=False)
    pause_s = pauses.between_kernels_s(machine, report.setting)
    # Alone and again and again it follows itself: its program is at hand.
    assert pauses.fetching_s(report, machine, report.setting, pause_s) == [0.0]
    cpu = rooflab.machine("epyc-9654")
    on_cpu = report.on(cpu)
    assert pauses.fetching_s(on_cpu, cpu, on_cpu.setting, 0.0) == [0.0]


@pytest.mark.slow
def test_two_kernels_in_turn_fetch_theirs_each_time():
    torch = pytest.importorskip("torch")
    machine = rooflab.machine("h200-sxm")
    x = torch.empty(1024, 1024, dtype=torch.bfloat16, device="meta")
    report = rooflab.analyze(lambda x: torch.relu(x).exp(), x, machine=machine, mode="graph", advice=False)
    pause_s = pauses.between_kernels_s(machine, report.setting)
    switch_s = device_of(machine).constants("residency.switch_s")
    # Both are in the caches still (2 MiB each of 50): no load from memory.
    assert pauses.fetching_s(report, machine, report.setting, pause_s) == pytest.approx([switch_s, switch_s])
