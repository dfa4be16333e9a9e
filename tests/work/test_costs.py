"""Costs of a graph: each distinct operation once, and a reason for each that has none."""

from __future__ import annotations

import math

from rooflab.dtypes import dtype as number_format
from rooflab.types.work import Graph, Op, TensorSpec
from rooflab.work import costs as module
from rooflab.work.costs import costs, uncosted


def spec(*shape, dtype="fp32", storage=-1):
    return TensorSpec(tuple(shape), dtype, math.prod(shape) * number_format(dtype).nbytes, storage=storage)


def graph(tensors, *ops):
    return Graph(framework="hand", tensors=tuple(tensors), ops=tuple(ops))


def add(*inputs, out, **more):
    return Op(name="add", kind="pointwise", inputs=inputs, outputs=(out,), attrs={"function": "add"}, **more)


def test_costs_are_in_the_order_of_the_operations():
    small, large = spec(2, storage=0), spec(20, storage=1)
    found = costs(graph([small, large], add(0, out=0), add(1, out=1), add(0, out=0)))
    assert [one.total_flop for one in found] == [2, 20, 2]


def test_equal_operations_share_one_cost(monkeypatch):
    calls = []
    formula = module.cost
    monkeypatch.setattr(module, "cost", lambda *given: calls.append(given) or formula(*given))
    tensors = [spec(8, storage=i) for i in range(101)]
    found = costs(graph(tensors, *(add(i, out=i + 1) for i in range(100))))
    assert len(calls) == 1
    assert len({id(one) for one in found}) == 1


def test_operations_that_differ_in_anything_are_told_apart():
    tensors = [
        spec(8, 2, storage=0),
        spec(2, 8, storage=1),
        spec(8, 2, dtype="bf16", storage=2),
        TensorSpec((8, 2), "fp32", 8.0, storage=3),  # expanded
        spec(8, 2),
    ]
    exp = Op(name="exp", kind="pointwise", inputs=(0,), outputs=(0,), attrs={"function": "exp"})
    ops = (
        add(0, 4, out=0),
        add(0, 0, out=0),  # the same tensor twice
        add(2, 4, out=0),
        add(3, 4, out=0),
        exp,
    )
    found = costs(graph(tensors, *ops))
    assert [one.compulsory.read_bytes for one in found] == [128, 64, 96, 72, 64]
    assert found[4].flop[0].engine == "special"


def test_parts_of_one_storage_are_two_tensors_even_where_one_description_serves_both():
    shared = spec(8, storage=0)
    found = costs(graph([shared, shared, spec(8, storage=1)], add(0, 1, out=2), add(0, 0, out=2)))
    assert [one.compulsory.read_bytes for one in found] == [64, 32]


def test_a_cost_is_of_one_execution():
    assert costs(graph([spec(8)], add(0, out=0, count=5)))[0].total_flop == 8


def test_attributes_that_cannot_be_a_key_are_still_costed():
    op = Op(name="fft", kind="fft", inputs=(0,), outputs=(0,), attrs={"n": (8,), "norm": ["backward"]})
    assert costs(graph([spec(8, dtype="complex64")], op))[0].total_flop == 5 * 8 * 3


def test_what_has_no_cost_says_why_and_is_never_zero():
    x = spec(8)
    ops = (
        Op(name="aten.strange"),
        Op(name="triton.kernel", kind="opaque", inputs=(0,), outputs=(0,)),
        Op(name="aten.mm", kind="matmul", inputs=(0, 0), outputs=(0,)),
        Op(name="aten.sqroot", kind="pointwise", inputs=(0,), outputs=(0,), attrs={"function": "sqroot"}),
        Op(name="my.op", kind="matmull", inputs=(0,), outputs=(0,)),
        Op(name="aten.bad", kind="softmax"),
        Op(name="aten.window", kind="attention", inputs=(1, 1, 1), outputs=(1,), attrs={"window": 0}),
        add(0, out=0),
    )
    program = graph([x, spec(1, 2, 8, 8)], *ops)
    found = costs(program)
    assert found[:7] == (None,) * 7
    assert found[7].total_flop == 8
    reasons = uncosted(program)
    assert reasons["aten.strange"] == "not in the vocabulary"
    assert reasons["triton.kernel"].startswith("opaque")
    assert reasons["aten.mm"] == "matmul: attribute 'k' is missing"
    assert reasons["aten.sqroot"].startswith(
        "unknown element-wise function of real numbers 'sqroot'; did you mean"
    )
    assert reasons["my.op"].startswith("unknown kind of operation 'matmull'; did you mean matmul")
    assert reasons["aten.bad"] == "softmax: 0 inputs and 0 outputs are too few"
    assert "window is 0" in reasons["aten.window"]
    assert "add" not in reasons


def test_an_unknown_number_format_is_a_reason():
    odd = TensorSpec((8,), "posit16", 16.0)
    assert uncosted(graph([odd], add(0, out=0)))["add"].startswith("unknown dtype 'posit16'")


def test_an_empty_graph_costs_nothing():
    assert costs(graph([])) == ()
    assert uncosted(graph([])) == {}
