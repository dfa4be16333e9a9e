"""Which operations share a kernel: extents, joins, cycles, order."""

from __future__ import annotations

from typing import Any

import pytest

from rooflab.model.compiler import dataflow, groups
from rooflab.model.compiler.groups import Extent
from rooflab.types.work import Op, TensorSpec

ROWS, COLUMNS = 4, 8
SHAPES = {"m": (ROWS, COLUMNS), "r": (ROWS, 1), "b": (2, ROWS, COLUMNS), "c": (COLUMNS,)}


def grouped(*program: tuple[str, str, str], **more: Any) -> list[tuple[int, ...]]:
    """Members by kernel of operations (kind, operands, result), tensors called by shape and number: m0, r1."""
    names: dict[str, int] = {}
    tensors: list[TensorSpec] = []

    def number(name: str) -> int:
        if name not in names:
            shape = SHAPES[name[0]]
            elements = 1
            for size in shape:
                elements *= size
            names[name] = len(tensors)
            tensors.append(TensorSpec(shape, "fp32", 4.0 * elements, storage=len(tensors)))
        return names[name]

    ops = [
        Op(
            name=kind,
            kind=kind,
            inputs=tuple(map(number, operands.split())),
            outputs=(number(result),),
            attrs=more,
        )
        for kind, operands, result in program
    ]
    extents = [groups.extent(op, tensors) for op in ops]
    return groups.grouped(ops, extents, dataflow.flow(tensors, ops), frozenset())


CASES = [
    # one after the other over the same elements
    ([("pointwise", "m0", "m1"), ("pointwise", "m1", "m2")], [(0, 1)]),
    # a product between two: a library's call
    ([("pointwise", "m0", "m1"), ("matmul", "m1", "m2"), ("pointwise", "m2", "m3")], [(0,), (1,), (2,)]),
    # around the product there is a way from the first to the third: one kernel would wait for itself
    ([("pointwise", "m0", "m1"), ("matmul", "m1", "m2"), ("pointwise", "m2 m1", "m3")], [(0,), (1,), (2,)]),
    # two branches that meet
    ([("pointwise", "m0", "m1"), ("pointwise", "m0", "m2"), ("pointwise", "m1 m2", "m3")], [(0, 1, 2)]),
    # a sum of rows with its producer, and work on the sums, and work on the rows with them
    ([("pointwise", "m0", "m1"), ("reduction", "m1", "r2"), ("pointwise", "r2", "r3")], [(0, 1, 2)]),
    ([("reduction", "m0", "r1"), ("pointwise", "m0 r1", "m2"), ("softmax", "m2", "m3")], [(0, 1, 2)]),
    # sums along columns loop otherwise
    ([("reduction", "m0", "r1"), ("pointwise", "m0 r1", "m2"), ("reduction", "m2", "c3")], [(0, 1), (2,)]),
    # small work broadcast into larger, used nowhere else; used twice it is a kernel of its own
    ([("pointwise", "c0", "c1"), ("pointwise", "m0 c1", "m2")], [(0, 1)]),
    ([("pointwise", "c0", "c1"), ("matmul", "m9 c1", "m8"), ("pointwise", "m0 c1", "m2")], [(0,), (1,), (2,)]),
    # nothing is computed anew inside a window
    ([("pointwise", "m0", "m1"), ("pool", "m1", "m2"), ("pointwise", "m2", "m3")], [(0,), (1, 2)]),
]


@pytest.mark.parametrize(("program", "expected"), CASES)
def test_members_of_each_kernel(program: list[tuple[str, str, str]], expected: list[tuple[int, ...]]) -> None:
    """By hand, as the comments say."""
    assert grouped(*program) == expected


def test_a_kernel_holds_so_many_operations() -> None:
    """Inductor's limit: 64."""
    chain = [("pointwise", f"m{n}", f"m{n + 1}") for n in range(70)]
    assert [len(members) for members in grouped(*chain)] == [64, 6]


def test_a_kernel_comes_after_all_it_needs() -> None:
    """0 and 3 share a kernel; the product of 1 and 2 is not in its way, but comes before what reads it."""
    found = grouped(
        ("pointwise", "m0", "m1"), ("pointwise", "c0", "c1"), ("matmul", "c1", "m5"), ("pointwise", "m1 m5", "m6")
    )
    assert found == [(1,), (2,), (0, 3)]


def test_an_operation_loops_over_its_elements_or_rows() -> None:
    """Elements and rows of a loop; None for calls of a library."""
    x, w = (TensorSpec(shape, "fp32", 4.0 * elements) for shape, elements in (((6, 4, 8), 192), ((8,), 8)))
    c = TensorSpec((4,), "fp32", 16.0)

    def loop(kind: str, inputs: list[TensorSpec], **attrs: Any) -> Extent | None:
        op = Op(name=kind, kind=kind, inputs=tuple(range(len(inputs))), outputs=(len(inputs),), attrs=attrs)
        return groups.extent(op, [*inputs, x])

    assert loop("pointwise", [x, w]) == Extent(192)
    assert loop("norm", [x, w], function="layer") == Extent(192, rows=24)
    assert loop("norm", [x, c], function="batch", training=True) == Extent(192, rows=4)
    assert loop("norm", [x, c], function="batch", training=False) == Extent(192)
    assert loop("norm", [x, c], function="group", groups=2) == Extent(192, rows=12)
    assert loop("pool", [x]) == Extent(192, takes_producers=False)
    assert loop("matmul", [x, w]) is None
    assert loop("sort", [x]) is None
