"""What is rewritten before fusion: work done twice, attention written out, padding, and what is left alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import rooflab
from rooflab.model.compiler import rewrites
from rooflab.types.work import Graph, Op

torch = pytest.importorskip("torch")
F = torch.nn.functional
QKV = ((2, 4, 32, 16),) * 3


def graph(function: Callable[..., Any], *shapes: tuple[int, ...], dtype: str = "bfloat16") -> Graph:
    inputs = [torch.empty(shape, device="meta", dtype=getattr(torch, dtype)) for shape in shapes]
    with torch.no_grad():
        return rooflab.analyze(function, *inputs).graph


def kinds(found: Graph | rewrites.Program) -> list[str | None]:
    return [op.kind for op in found.ops if op.kind != "view"]


def scaled(q: Any, k: Any, v: Any) -> Any:
    return torch.softmax((q @ k.transpose(-2, -1)) / 4, dim=-1) @ v


def in_fp32(q: Any, k: Any, v: Any) -> Any:
    return torch.softmax((q @ k.transpose(-2, -1)).float() * 0.25, dim=-1).to(v.dtype) @ v


def filled(q: Any, k: Any, v: Any, hidden: Any) -> Any:
    return torch.softmax((q @ k.transpose(-2, -1)).masked_fill(hidden > 0, -1e4), dim=-1) @ v


def scores_too(q: Any, k: Any, v: Any) -> Any:
    p = torch.softmax(q @ k.transpose(-2, -1), dim=-1)
    return p @ v, p.sum()


def squared(q: Any, k: Any, v: Any) -> Any:
    return torch.softmax((q @ k.transpose(-2, -1)) ** 2, dim=-1) @ v


ATTENTION = [
    (scaled, QKV, True),
    (in_fp32, QKV, True),
    (filled, (*QKV, (32, 32)), True),
    # somebody else wants the probabilities: they must be written
    (scores_too, QKV, False),
    # a function of the scores that no fused kernel computes
    (squared, QKV, False),
    # two matrices, no heads
    (lambda x, w, v: torch.softmax(x @ w, -1) @ v, ((8, 16), (16, 4), (4, 4)), False),
]


@pytest.mark.parametrize(("function", "shapes", "is_attention"), ATTENTION)
def test_attention_written_out_is_recognised_and_nothing_else(
    function: Callable[..., Any], shapes: tuple, is_attention: bool
) -> None:
    """softmax(q·kᵀ·scale + mask)·v, and programs that only look like it."""
    found = graph(function, *shapes)
    made = rewrites.fuse_attention(rewrites.Program(list(found.tensors), list(found.ops), []))
    assert ("attention" in kinds(made)) == is_attention
    assert bool(made.notes) == is_attention


def test_weights_are_no_keys() -> None:
    """A layer, a softmax, a layer: both products have a parameter for an operand."""
    model = torch.nn.Sequential(
        torch.nn.Linear(16, 8, bias=False), torch.nn.Softmax(-1), torch.nn.Linear(8, 4, bias=False)
    ).to("meta")
    with torch.no_grad():
        found = rooflab.analyze(model, torch.empty((5, 16), device="meta")).graph
    assert kinds(rewrites.rewrite(found)) == ["matmul", "softmax", "matmul"]


def test_keys_and_values_keep_their_bytes() -> None:
    """Heads of 16 over 32 tokens: q, k, v and o are 4 × 4096 elements of 2 bytes, in four dimensions."""
    made = rewrites.rewrite(graph(scaled, *QKV))
    (op,) = [op for op in made.ops if op.kind == "attention"]
    specs = [made.tensors[index] for index in (*op.inputs, *op.outputs)]
    assert [spec.shape for spec in specs] == [(1, 8, 32, 16)] * 4
    assert {spec.nbytes for spec in specs} == {2.0 * 4096}


def test_the_same_is_computed_once() -> None:
    """exp(x) twice is one; two slices of one tensor are two, though their shapes agree."""
    twice = graph(lambda x: x.exp() @ x.exp().T, (8, 8))
    assert kinds(rewrites.rewrite(twice)) == ["pointwise", "matmul"]
    halves = graph(lambda x: x[:4].exp() @ x[4:].exp().T, (8, 8))
    assert kinds(rewrites.rewrite(halves)) == ["pointwise", "pointwise", "matmul"]


def test_what_changes_between_is_computed_again() -> None:
    """exp(x), then x is overwritten, then exp(x): two different results."""

    def changing(x: Any) -> Any:
        first = x.exp()
        x.mul_(2)
        return first + x.exp()

    assert len(kinds(rewrites.rewrite(graph(changing, (8, 8))))) == 4


def test_random_numbers_are_drawn_each_time() -> None:
    """Two dropouts of one tensor are two."""
    found = graph(lambda x: F.dropout(x, 0.5) + F.dropout(x, 0.5), (8, 8))
    assert kinds(rewrites.rewrite(found)) == kinds(found)


@pytest.mark.parametrize(
    ("columns", "dtype", "padded"), [(1001, "bfloat16", 1008), (1002, "float32", 1004), (1000, "bfloat16", 1000)]
)
def test_rows_are_padded_to_sixteen_bytes(columns: int, dtype: str, padded: int) -> None:
    """8 elements of bf16, 4 of fp32; the bytes that cross stay those of the program."""
    made = rewrites.rewrite(graph(lambda x, w: x @ w, (1024, 1024), (1024, columns), dtype=dtype))
    (op,) = [op for op in made.ops if op.kind == "matmul"]
    out = made.tensors[op.outputs[0]]
    assert out.shape == (1024, padded)
    assert out.nbytes == 1024 * columns * (2 if dtype == "bfloat16" else 4)
    assert isinstance(op, Op)
