"""Notes of how far a reference's new lines lie apart: a run of like steps is noted as its steps one by one."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit

from rooflab.loops.lowered import counted_access as noted

RNG = np.random.default_rng(0)
WALKS = {
    "columns": [64 * 700 * i for i in range(300)],
    "stream": [64 * i for i in range(300)],
    "rows of a page": [4096 * i + 64 * j for i in range(20) for j in range(5)],
    "there and back": [0, 8192, 0, 8192, 0, 8192, 8192, 8192, 512],
    "random": (64 * RNG.integers(0, 4096, 500)).tolist(),
    "two steps": [sum((1024, 2048)[k % 3 == 0] for k in range(n)) for n in range(200)],
    "the same": [4096] * 5,
}


@njit
def follow(notes, addresses):
    for each in addresses:
        noted._note_step(notes, each)


def one_by_one(addresses):
    """Far steps, the majority vote and its votes, far steps by power: as defined, without runs."""
    previous = far = step = votes = 0
    multiples = [0] * noted.POWERS
    for each in addresses:
        now, previous = each - previous, each
        if abs(now) <= noted.NEAR_BYTES:
            continue
        far += 1
        if now == step:
            votes += 1
        elif votes > 0:
            votes -= 1
        else:
            step = now
        power = (now & -now).bit_length() - 1 - noted._LEAST_BITS
        multiples[min(max(power, 0), noted.POWERS - 1)] += 1
    return far, step, votes, multiples


@pytest.mark.parametrize("walk", WALKS.values(), ids=WALKS)
@pytest.mark.parametrize("pieces", [1, 3])
def test_runs_of_steps_are_noted_as_one_by_one(walk, pieces):
    notes = np.zeros((1, noted.NOTE_WORDS), np.int64)
    for part in np.array_split(np.array(walk), pieces):
        follow(notes.ctypes.data, part)
        noted.settle(notes)
    row = notes[0].tolist()
    found = row[noted.FAR], row[noted.STEP], row[noted.SAME], row[noted.MULTIPLES : noted.RECENT]
    assert found == one_by_one(walk)
    assert row[noted.RUN] == 0


@pytest.mark.parametrize(
    ("lines", "alone"),
    [
        ([40 * n for n in RNG.permutation(300)], 300),  # all elsewhere
        ([n + 5000 * m for n in range(500) for m in range(2)], 2),  # two rows in turn: each goes on
        (
            [25 * n + m for n in range(40) for m in RNG.permutation(25)],
            1000 / 3 * 0.9,
        ),  # the first of three to come
        ([4096 * n + m for n in RNG.permutation(100) for m in (0, 8, 1, 9)], 200),  # begun twice, and gone on with
    ],
)
def test_a_far_line_beside_one_just_seen_is_not_alone(lines, alone):
    notes = np.zeros((1, noted.NOTE_WORDS), np.int64)
    follow(notes.ctypes.data, 64 * np.array(lines) + (1 << 30))
    assert notes[0, noted.ALONE] == pytest.approx(alone, abs=0.05 * len(lines))
