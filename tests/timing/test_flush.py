"""Caches emptied: what is read, by whom, and calls between."""

from __future__ import annotations

import itertools

from rooflab.timing.flush import TIMES, Flusher, cold_blocks


def test_every_cpu_reads_its_share_of_four_times_the_cache():
    with Flusher(64 * 2**20, (0,)) as flush:
        flush()
        assert flush.nbytes == TIMES * 64 * 2**20
        assert [buffer.nbytes for buffer in flush._buffers] == [flush.nbytes]
    # each core's own caches too, however small its share of the last one is
    assert Flusher(2**20, tuple(range(8))).nbytes == 8 * 8 * 2**20
    assert flush._buffers == []


def test_before_every_call_the_caches_are_emptied():
    order = []
    clock = itertools.count(0.0, 0.001).__next__
    found = cold_blocks(lambda: order.append("call"), lambda: order.append("flush"), span_s=0.5, clock=clock)
    assert order == ["flush", "call"] * (len(order) // 2)
    assert found.calls == len(order) // 2 // 10 * 10
    assert found.median_s == 0.001 or abs(found.median_s - 0.001) < 1e-9


def test_at_least_five_calls_and_fewer_only_at_the_limit():
    ticks = itertools.count(0.0, 1.0).__next__
    assert cold_blocks(lambda: None, lambda: None, span_s=0.1, clock=ticks).calls == 5
    ticks = itertools.count(0.0, 1.0).__next__
    assert cold_blocks(lambda: None, lambda: None, span_s=0.1, limit_s=0.5, clock=ticks).calls == 1
