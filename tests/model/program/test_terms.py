"""The terms of a prediction: together they are never less than its time."""

from __future__ import annotations

import pytest

import rooflab

TINY = [
    ("matmul", "64x64", "64x64"),
    ("matmul", "3x5", "5x7"),
    ("layer_norm", "32x128"),
    ("softmax", "4x16"),
    ("attention", "1x1x128x64"),
    ("sum", "1000"),
    ("conv2d", "1x3x8x8", "4x3x3x3"),
    ("cumsum", "100"),
    ("embedding", "50x16", "4"),
]


@pytest.mark.parametrize("machine", ["h100-sxm", "mi300x", "rtx-4090", "t4", "m2-max-38-core"])
@pytest.mark.parametrize(("kind", "shapes"), [(kind, shapes) for kind, *shapes in TINY])
def test_no_time_is_in_no_term(kind, shapes, machine):
    found = rooflab.op(kind, *shapes, machine=machine).rows[0].prediction
    terms = found.compute_s + sum(found.memory_s.values()) + found.overhead_s
    assert terms >= found.time_s * (1 - 1e-12)
