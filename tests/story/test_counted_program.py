"""Counted kernels beside the program that ran them: what was asked for, predicted and counted in one row."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import rooflab
from rooflab.types.profile import Profile

KERNELS = Path(__file__).parents[2] / "examples" / "h200-kernels.csv.gz"


def ran(a, b, g, s, x, y):
    """Some of the operations of the file, in its order (tests/samples/h200/measured.json has their sizes)."""
    return a + b, torch.nn.functional.gelu(g), torch.softmax(s, -1), x @ y


@pytest.fixture(scope="module")
def profile() -> Profile:
    a, b = torch.empty(10_000_000, device="meta"), torch.empty(10_000_000, device="meta")
    g = torch.empty(8192, 8192, device="meta", dtype=torch.bfloat16)
    s = torch.empty(16384, 4096, device="meta", dtype=torch.bfloat16)
    x, y = (torch.empty(4096, 4096, device="meta", dtype=torch.bfloat16) for _ in range(2))
    found = rooflab.load(KERNELS, model=(ran, (a, b, g, s, x, y)))
    assert isinstance(found, Profile)
    return found


def test_each_operation_has_its_kernel(profile):
    rows = {row.name: row for row in profile.rows if row.unmatched is None}
    assert set(rows) == {"aten.add", "aten.gelu", "aten._softmax", "aten.mm"}
    assert "CUDAFunctor_add" in rows["aten.add"].counted.name
    assert rows["aten.mm"].counted.total_flop == rows["aten.mm"].flop == 2 * 4096**3
    assert profile.matching.ops_found == 4
    assert all(row.prediction is not None and row.placement is not None for row in rows.values())


def test_amplification_is_counted_over_asked_for(profile):
    """add: 3 x 40 MB are asked for; counters saw what DRAM moved, a part of the result being still in L2."""
    row = next(row for row in profile.rows if row.name == "aten.add" and row.unmatched is None)
    assert row.cost.compulsory.nbytes == 120e6
    assert row.amplification == pytest.approx(row.counted.main_memory.nbytes / 120e6)
    assert 0.8 < row.amplification < 1.0


def test_the_other_kernels_are_listed_with_the_reason(profile):
    others = [row for row in profile.rows if row.unmatched is not None]
    assert sum(row.executions for row in others) == 13
    assert all(row.counted is not None and row.time_s > 0 for row in others)
    assert all("fp64" not in row.dtype for row in profile.rows)
