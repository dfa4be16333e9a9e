"""Translations: pages written as one cycle, steps of a curve told from its noise."""

from __future__ import annotations

import numpy as np
import pytest

from rooflab.machines.bench.experiments import translations
from rooflab.machines.bench.run.arena import Arena

# Measured on a Zen 3 guest, 4 KiB pages, in ns: 64 entries, then 2048 of which a guest has fewer.
ZEN3 = {
    16: -0.04, 23: 0.0, 32: -0.02, 45: -0.01, 64: 0.15, 91: 2.22, 128: 2.25, 181: 2.16, 256: 2.17, 362: 2.19,
    512: 2.11, 724: 2.71, 1024: 2.9, 1448: 4.87, 2048: 23.21, 2896: 32.32, 4096: 36.54, 5793: 38.0, 8192: 37.91,
}  # fmt: skip


def seconds(curve):
    return {pages: wait * 1e-9 for pages, wait in curve.items()}


def test_both_levels_of_a_measured_curve():
    (first, waits), (second, walks) = translations.steps(seconds(ZEN3))
    assert (first, second) == (64, 1448)
    assert waits == pytest.approx(2.25e-9, rel=0.05)
    assert walks == pytest.approx(36e-9, rel=0.15)


def test_a_flat_curve_has_no_step_and_one_noisy_point_is_none():
    flat = dict.fromkeys((16, 32, 64, 128, 256), 0.1)
    assert translations.steps(seconds(flat)) == []
    assert translations.steps(seconds({**flat, 64: 9.0})) == []
    assert translations.steps({}) == []


def test_waits_that_fall_are_seen():
    assert translations.monotone(list(seconds(ZEN3).values()))
    assert not translations.monotone([0.0, 5e-9, 40e-9, 3e-9])


@pytest.mark.parametrize(
    ("most", "first", "last", "count"), [(8192, 16, 8192, 19), (64, 16, 64, 5), (15, 0, 0, 0)]
)
def test_numbers_of_pages(most, first, last, count):
    counts = translations.page_counts(most)
    assert len(counts) == count
    assert counts[:1] + counts[-1:] == ([first, last] if count else [])


def test_the_cycle_touches_each_page_once_at_lines_of_its_own():
    arena = Arena.reserve(100 * 4096)
    chase = translations.write_pages(arena, 100, 4096, np.random.default_rng(1))
    words, where, seen = arena.view(np.int64, 0, arena.nbytes), chase.start, []
    for _ in range(100):
        seen.append(where - arena.address)
        where = int(words[(where - arena.address) // 8])
    assert where == chase.start
    assert sorted(each // 4096 for each in seen) == list(range(100))
    assert {each // 64 % 64 for each in seen} == set(range(64))  # every set of a cache of 64
