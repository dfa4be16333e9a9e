"""Batches found in a module's inputs: advised without being asked for, none where the inputs do not show it."""

from __future__ import annotations

import pytest
import torch

import rooflab
from rooflab.work import batches


def test_the_first_size_that_all_inputs_have():
    module = torch.nn.Linear(4, 4)
    one, other = torch.empty(8, 4, device="meta"), torch.empty(8, 2, 3, device="meta")
    assert batches.batch_of(module, (one, [other]), {"mask": other}) == 8
    assert batches.batch_of(module, (one, torch.empty(3, device="meta")), {}) is None
    assert batches.batch_of(module, (one, torch.empty((), device="meta")), {}) is None
    assert batches.batch_of(module, (), {}) is None
    assert batches.batch_of(torch.relu, (one,), {}) is None  # a function's inputs may be weights
    nested = torch.nested.nested_tensor([torch.ones(3, 4), torch.ones(5, 4)], layout=torch.jagged)
    assert batches.batch_of(module, (nested,), {}) is None  # samples of several lengths


def test_inputs_of_another_batch_keep_all_else():
    args, kwargs = batches.with_batch(
        (torch.empty(8, 4), [torch.empty(8, 2, dtype=torch.int64)], 3), {"a": "b"}, 32
    )
    assert (args[0].shape, args[0].device.type) == ((32, 4), "meta")
    assert (args[1][0].shape, args[1][0].dtype) == ((32, 2), torch.int64)
    assert (args[2], kwargs) == (3, {"a": "b"})


@pytest.fixture(scope="module")
def layers():
    with torch.device("meta"):
        return torch.nn.Sequential(
            *(torch.nn.Linear(4096, 4096, bias=False, dtype=torch.bfloat16) for _ in range(4))
        )


def test_a_module_is_advised_a_larger_batch_as_if_it_were_analyzed_with_it(layers):
    x = torch.empty(8, 4096, dtype=torch.bfloat16, device="meta")
    with torch.no_grad():
        report = rooflab.analyze(layers, x, machine="h200-sxm", mode="graph")
        one = next(each for each in report.advice.trades if each.rule == "batch")
        size = one.changes["batch"]
        large = rooflab.analyze(layers, x.new_empty(size, 4096), machine="h200-sxm", mode="graph", advice=False)
    assert one.after_s * size / 8 == pytest.approx(large.time_s)
    # The ridge of bf16 on an H200 is 989 TFLOP/s / 4.8 TB/s = 206 FLOP/byte: about as many rows.
    assert 100 < size < 400


def test_a_module_of_one_batch_says_why_it_was_not_asked():
    class Fixed(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(4096, 4096, dtype=torch.bfloat16, device="meta")

        def forward(self, x):
            return self.layer(x).view(2, 4096)

    with torch.no_grad():
        x = torch.empty(2, 4096, dtype=torch.bfloat16, device="meta")
        report = rooflab.analyze(Fixed(), x, machine="h200-sxm", mode="graph")
    assert any("batch: the program cannot be captured with more" in line for line in report.advice.unasked)
