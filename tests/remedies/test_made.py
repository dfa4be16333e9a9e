"""Advice that was followed is not given again; a program that is as advised has little left to gain."""

from __future__ import annotations

import pytest
import torch

import rooflab
from rooflab.remedies import rules
from rooflab.remedies.case import Case, Unasked
from rooflab.types.report import Report
from support.model.torch_models import build

F = torch.nn.functional
pytestmark = pytest.mark.slow
MODELS = (
    "mlp-b32",
    "pointwise-b4096",
    "naiveattn-b2-t1024",
    "gpt2-b2-t512",
    "vit-b16",
    "resnet50-b8",
    "llama8b-b1-t1-c1024",
)


def empty(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype, device="meta")


def loss(hidden, head, target):
    return F.cross_entropy((hidden @ head).float(), target)


_FP32 = {"dtype": torch.float32}
FUNCTIONS = {
    "loss": (loss, (empty(2048, 512), empty(512, 50257), empty(2048, dtype=torch.int64))),
    "exponentials": (lambda x: x.exp().sum(-1).log(), (empty(4096, 8192, **_FP32),)),
    "layout": (lambda x, y: x.transpose(1, 2).contiguous() + y, (empty(8, 2048, 4096), empty(8, 4096, 2048))),
    "fp32 product": (lambda x, w: torch.relu(x @ w), (empty(2048, 4096, **_FP32), empty(4096, 4096, **_FP32))),
}


def predicted(name: str, **how) -> Report:
    """That program on an H200, without advice."""
    fn, inputs = FUNCTIONS[name] if name in FUNCTIONS else build(name)
    with torch.no_grad():
        return rooflab.analyze(fn, *inputs, machine="h200-sxm", name=name, advice=False, **how)


@pytest.fixture(scope="module", params=[*MODELS, *FUNCTIONS])
def eager(request) -> Report:
    return rooflab.advise(predicted(request.param))


def test_advice_that_was_followed_is_not_given_again(eager):
    given = {one.rule for one in (*eager.advice.each, *eager.advice.trades)} - {"machine"}
    assert given
    case = Case(eager, eager.captured or eager.graph, eager.machine, eager.setting)
    for rule in (*rules.FREE, *rules.TRADES):
        if rule.name not in given:
            continue
        change = rule.ask(case)
        if change is None or isinstance(change, Unasked):
            continue  # a trade that is asked only once the others are made
        after = rules._predicted((change,), case).report
        again = rooflab.advise(after).advice
        assert rule.name not in {one.rule for one in (*again.each, *again.trades)}, rule.name


def test_a_compiled_program_has_little_left_to_gain(eager):
    compiled = rooflab.advise(predicted(eager.name, mode="compiled"))
    assert all(one.gain_share < 0.05 for one in compiled.advice.each)


def test_a_program_at_the_ridge_is_told_no_larger_batch():
    def at_batch(size: int) -> Report:
        fn, inputs = build(f"mlp-b{size}")
        with torch.no_grad():
            return rooflab.analyze(fn, *inputs, name="mlp")

    small = rooflab.advise(at_batch(8).on("h200-sxm", mode="graph"), at_batch=at_batch, batch=8)
    size = next(one.changes["batch"] for one in small.advice.trades if one.rule == "batch")
    large = rooflab.advise(at_batch(size).on("h200-sxm", mode="graph"), at_batch=at_batch, batch=size)
    assert "batch" not in {one.rule for one in large.advice.trades}
