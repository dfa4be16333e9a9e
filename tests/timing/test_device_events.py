"""Timing on a GPU against a stand-in for `torch.cuda`: what is queued in which order, what comes of events."""

from __future__ import annotations

import contextlib
import types

import pytest

from rooflab.timing import device_events

torch = pytest.importorskip("torch")


class Queue:
    """A device whose work takes the milliseconds that were queued."""

    def __init__(self) -> None:
        self.now_ms, self.log = 0.0, []
        queue = self

        class Event:
            def __init__(self, enable_timing):
                assert enable_timing

            def record(self):
                self.at_ms = queue.now_ms
                queue.log.append("event")

            def synchronize(self):
                queue.log.append("wait")

            def elapsed_time(self, end):
                return end.at_ms - self.at_ms

        self.Event = Event
        self.synchronize = lambda device=None: queue.log.append("synchronize")
        self.device = lambda device: contextlib.nullcontext()
        self.get_device_properties = lambda device: types.SimpleNamespace(L2_cache_size=100 * 2**20)

    def work(self):
        self.now_ms += 2.0
        self.log.append("work")


@pytest.fixture
def queue(monkeypatch):
    made = Queue()
    monkeypatch.setattr(torch, "cuda", made)
    return made


def test_calls_in_a_row_lie_between_two_events(queue):
    sample = device_events.event_sampler(queue.work, "cuda:0")
    assert sample(3) == pytest.approx(6e-3)  # three of 2 ms
    assert queue.log == ["synchronize", "event", "work", "work", "work", "event", "wait"]


def test_before_each_cold_call_the_l2_is_written_over_outside_of_the_events(queue, monkeypatch):
    sizes = []

    def empty(count, **_):
        sizes.append(4 * count)
        return types.SimpleNamespace(zero_=lambda: queue.log.append("zero"))

    monkeypatch.setattr(torch, "empty", empty)
    ticks = iter(range(10_000))
    found = device_events.cold_blocks(queue.work, "cuda:0", span_s=1.0, clock=lambda: next(ticks))
    assert sizes == [4 * 100 * 2**20]
    assert queue.log[:5] == ["zero", "event", "work", "event", "wait"]
    assert found.median_s == pytest.approx(2e-3)
    assert found.calls == 5


def test_no_value_on_a_gpu_is_no_device():
    assert device_events.on_cuda([1, torch.ones(2), torch.nn.Linear(2, 2), None]) is None
