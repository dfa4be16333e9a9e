"""Memory over time: peaks and what was live then, against a walk through the events; a recording of PyTorch's."""

from __future__ import annotations

from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

import rooflab
from rooflab.observe.importers.traces import kineto
from rooflab.observe.matching.memory import memory_of
from support.observe.kineto_files import BASE_US, call, file

SAMPLE = Path(__file__).parents[2] / "samples" / "torch_cpu" / "trace_memory.json.gz"


def event(at_us, nbytes, address, *, allocated=None, reserved=None, device=0, kind=1, **more):
    """An event of the caching allocator, as `profile_memory=True` writes it."""
    args = {"Bytes": nbytes, "Addr": address, "Device Type": kind, "Device Id": device, **more}
    args |= {} if allocated is None else {"Total Allocated": allocated}
    args |= {} if reserved is None else {"Total Reserved": reserved}
    times = {"ts": BASE_US + at_us, "s": "t"}
    return {
        "ph": "i",
        "cat": "cpu_instant_event",
        "name": "[memory]",
        "pid": 411,
        "tid": 411,
        **times,
        "args": args,
    }


def memory(folder, *events):
    return memory_of(kineto.load(file(folder, *events)))


def test_the_peak_and_who_took_what_was_live_then(tmp_path):
    # 1000 bytes were there before; mm takes 400 in an empty call, relu 200; mm's is given back, add takes 100.
    (one,) = memory(
        tmp_path,
        call(0, 10, "aten::mm"),
        call(2, 3, "aten::empty"),
        event(3, 400, 1, allocated=1400, reserved=2000),
        call(20, 10, "aten::relu"),
        event(21, 200, 2, allocated=1600, reserved=2000),
        event(31, -400, 1, allocated=1200, reserved=2000),
        call(40, 10, "aten::add"),
        event(41, 100, 3, allocated=1300, reserved=2000),
    )
    assert (one.device, one.peak_bytes, one.at_s) == (0, 1600, pytest.approx(21e-6))
    assert [(live.operator, live.blocks, live.nbytes) for live in one.live] == [
        ("aten.mm", 1, 400),
        ("aten.relu", 1, 200),
    ]
    assert one.earlier_bytes == 1000
    assert (one.reserved_bytes, one.unused_bytes, one.most_unused_bytes) == (2000, 400, 800)
    assert (one.curve_bytes[0], max(one.curve_bytes), one.curve_bytes[-1]) == (1400, 1600, 1300)


def test_the_hosts_allocator_reserves_nothing(tmp_path):
    host, device = memory(
        tmp_path,
        event(1, 64, 7, allocated=64, reserved=0, kind=0, device=-1),
        event(2, 32, 8, allocated=32, reserved=128),
    )
    assert (host.device, host.peak_bytes, host.reserved_bytes, host.unused_bytes) == (None, 64, None, None)
    assert (device.device, device.reserved_bytes) == (0, 128)


def test_blocks_taken_in_a_backward_pass_say_so(tmp_path):
    (one,) = memory(
        tmp_path,
        call(0, 10, "autograd::engine::evaluate_function: MmBackward0"),
        call(1, 8, "aten::mm"),
        event(3, 400, 1, allocated=400),
    )
    assert [(live.operator, live.phase) for live in one.live] == [("aten.mm", "backward")]


@settings(max_examples=150)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(1, 9)), min_size=1, max_size=30))
def test_what_is_live_is_what_a_walk_finds(tmp_path_factory, steps):
    # Each step gives a taken address back, or takes it.
    live, events, best = {}, [], (0, {})
    for number, (address, nbytes) in enumerate(steps):
        change = -live.pop(address) if address in live else nbytes
        if change > 0:
            live[address] = nbytes
        events.append(event(number, change, address, allocated=sum(live.values())))
        if sum(live.values()) > best[0]:
            best = (sum(live.values()), dict(live))
    (one,) = memory(tmp_path_factory.mktemp("memory"), *events)
    assert one.peak_bytes == best[0]
    assert one.earlier_bytes == 0
    assert sum(each.blocks for each in one.live) == len(best[1])
    assert max(one.curve_bytes, default=one.peak_bytes) == one.peak_bytes


def test_without_totals_the_least_that_fits_is_summed(tmp_path):
    # 300 are given back that were never seen taken: they were there before.
    (one,) = memory(tmp_path, event(1, 200, 1), event(2, -300, 9), event(3, 50, 2))
    assert (one.peak_bytes, one.earlier_bytes) == (300, 100)


@pytest.mark.parametrize("bad", [{"Bytes": "many"}, {"Bytes": None}, {"Addr": "x"}, {"Device Id": []}])
def test_events_that_cannot_be_read_are_dropped_or_unknown(tmp_path, bad):
    broken = event(5, 100, 2, allocated=164)
    broken["args"] |= bad
    profile = rooflab.load(file(tmp_path, call(0, 3, "aten::mm"), event(1, 64, 7, allocated=64), broken))
    assert profile.memory[-1].peak_bytes >= 64
    profile.show()


def test_a_recording_of_pytorch(capsys):
    """Written by PyTorch 2.13 on a CPU: two steps of training of two layers, with profile_memory=True."""
    profile = rooflab.load(SAMPLE)
    (one,) = profile.memory
    assert one.device is None
    # The gradients of the first layer's weight and of its input: 256x64 and 32x256 numbers of 4 bytes, and more.
    by_name = {live.operator: live for live in one.live}
    assert by_name["aten.mm"].phase == "backward"
    assert by_name["aten.threshold_backward"].nbytes == 32 * 256 * 4
    assert sum(live.nbytes for live in one.live) + one.earlier_bytes == pytest.approx(one.peak_bytes)
    profile.show()
    assert "Memory of the host" in capsys.readouterr().out
