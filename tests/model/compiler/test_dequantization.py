"""Narrow weights widened inside the product: when, and what then crosses memory."""

from __future__ import annotations

import math

import pytest

from rooflab.model.compiler import fusion
from rooflab.types.work import Graph, Op, Role, TensorSpec
from rooflab.work.costs import costs

SIZES = {"bf16": 2, "int8": 1, "fp32": 4}
M, K, N = 3, 256, 320


def spec(storage: int, dtype: str, *shape: int, role: Role = "activation") -> TensorSpec:
    return TensorSpec(shape, dtype, float(math.prod(shape) * SIZES[dtype]), storage=storage, role=role)


def program(weight: Role, *, twice: bool = False, stored: str = "int8") -> Graph:
    """Widen 1 to 2, multiply 0 by 2 to 3, scale that by 4 to 5; with `twice`, 2 is read by another product."""
    tensors = (
        spec(0, "bf16", M, K, role="input"),
        spec(1, stored, K, N, role=weight),
        spec(2, "bf16", K, N),
        spec(3, "bf16", M, N),
        spec(4, "fp32", N, role="parameter"),
        spec(5, "bf16", M, N),
        spec(6, "bf16", M, N),
    )
    ops = [
        Op(name="widen", kind="cast", inputs=(1,), outputs=(2,)),
        Op(name="mm", kind="matmul", inputs=(0, 2), outputs=(3,), attrs={"k": K}),
        Op(name="mul", kind="pointwise", inputs=(3, 4), outputs=(5,), attrs={"function": "mul"}),
    ]
    if twice:
        ops.append(Op(name="mm", kind="matmul", inputs=(5, 2), outputs=(6,), attrs={"k": K}))
    return Graph(framework="torch", tensors=tensors, ops=tuple(ops))


def test_the_product_reads_what_is_stored_and_scales_its_result() -> None:
    fused = fusion.fused(program("parameter"))
    (product,), (cost,) = fused.ops, costs(fused)
    assert product.kind == "matmul"
    assert cost is not None
    assert cost.compulsory.read_bytes == 2 * M * K + K * N + 4 * N
    assert cost.compulsory.write_bytes == 2 * M * N
    assert [(one.dtype, one.count) for one in cost.flop if one.engine == "matrix"] == [("bf16", 2 * M * K * N)]


@pytest.mark.parametrize(
    "graph",
    [
        program("activation"),  # not a weight: it is made anew for every run
        program("parameter", twice=True),  # widened once for two
        program("parameter", stored="fp32"),  # wider than what is multiplied: nothing to gain
    ],
)
def test_anything_else_stays_a_kernel_of_its_own(graph: Graph) -> None:
    kinds = [op.kind for op in fusion.fused(graph).ops]
    assert kinds[:2] == ["cast", "matmul"]
