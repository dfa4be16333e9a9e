"""Folding of constants and einsum equations against slow plain ones: onnx's reference, a counting loop."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

onnx = pytest.importorskip("onnx")
from onnx.reference import ReferenceEvaluator  # noqa: E402

from rooflab.work.capture.onnx.fold import FOLDS, folded  # noqa: E402
from rooflab.work.capture.onnx.values import attributes, of_content  # noqa: E402
from rooflab.work.einsum import contraction, of_diagonals  # noqa: E402

node = onnx.helper.make_node


def whole(*values):
    return np.array(values, np.int64)


GRID = np.arange(24, dtype=np.int64).reshape(2, 3, 4)
FIXED = {
    "Gather": (node("Gather", ["a", "b"], ["y"], axis=1), [GRID, whole(2, 0)]),
    "Concat": (node("Concat", ["a", "b"], ["y"], axis=0), [whole(1, 2), whole(3)]),
    "Slice": (node("Slice", ["a", "b", "c", "d", "e"], ["y"]), [GRID, whole(-1), whole(-9), whole(2), whole(-2)]),
    "Unsqueeze": (node("Unsqueeze", ["a", "b"], ["y"]), [GRID, whole(0, -1)]),
    "Squeeze": (node("Squeeze", ["a"], ["y"]), [GRID[None]]),
    "Reshape": (node("Reshape", ["a", "b"], ["y"]), [GRID, whole(0, -1)]),
    "Cast": (node("Cast", ["a"], ["y"], to=onnx.TensorProto.INT32), [np.array([1.9, -1.9])]),
    "Identity": (node("Identity", ["a"], ["y"]), [GRID]),
    "ConstantOfShape": (node("ConstantOfShape", ["a"], ["y"]), [whole(2, 3)]),
    "Expand": (node("Expand", ["a", "b"], ["y"]), [whole(1, 2, 3), whole(2, 1)]),
    "Range": (node("Range", ["a", "b", "c"], ["y"]), [np.array(7), np.array(-4), np.array(-3)]),
    "Split": (node("Split", ["a", "b"], ["y", "z"]), [whole(1, 2, 3), whole(1, 2)]),
    "Transpose": (node("Transpose", ["a"], ["y"], perm=[2, 0, 1]), [GRID]),
    "Mod": (node("Mod", ["a", "b"], ["y"]), [whole(-7, 7), whole(3, -3)]),
    "Where": (node("Where", ["a", "b", "c"], ["y"]), [np.array([True, False]), whole(1, 2), whole(3, 4)]),
    "Not": (node("Not", ["a"], ["y"]), [np.array([True, False])]),
    "And": (node("And", ["a", "b"], ["y"]), [np.array([True, False]), np.array([True, True])]),
    "Or": (node("Or", ["a", "b"], ["y"]), [np.array([True, False]), np.array([False, False])]),
}
ONE = ("Neg", "Abs", "Sqrt", "Floor", "Ceil")
REDUCTIONS = ("ReduceProd", "ReduceSum", "ReduceMax", "ReduceMin")


def case(op):
    if op in FIXED:
        return FIXED[op]
    if op in ONE:
        return node(op, ["a"], ["y"]), [np.array([4.0, 2.25, 9.0])]
    if op in REDUCTIONS:
        axes = {} if op == "ReduceSum" else {"axes": [0, 2]}
        return node(op, ["a", "b"] if op == "ReduceSum" else ["a"], ["y"], **axes), [GRID, whole(0, 2)][
            : 1 + (not axes)
        ]
    return node(op, ["a", "b"], ["y"]), [whole(-7, 8, 9), whole(2)]


@pytest.mark.parametrize("op", sorted(FOLDS))
def test_each_fold_agrees_with_the_reference(op):
    made, arrays = case(op)
    expected = ReferenceEvaluator(_model(made)).run(None, dict(zip(made.input, arrays, strict=True)))
    values = [of_content(name, array) for name, array in zip(made.input, arrays, strict=True)]
    found = folded(op, values, attributes(made), len(made.output))
    assert found is not None
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other, strict=True)


def _model(made):
    inputs = [
        onnx.helper.make_tensor_value_info(name, kind, None)
        for name, kind in zip(made.input, _codes(made), strict=True)
    ]
    outputs = [onnx.helper.make_empty_tensor_value_info(name) for name in made.output]
    graph = onnx.helper.make_graph([made], "one", inputs, outputs)
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=10)


def _codes(made):
    return [onnx.helper.np_dtype_to_tensor_dtype(array.dtype) for array in case(made.op_type)[1]]


def test_what_would_be_large_is_not_folded():
    big = of_content("a", whole(1 << 20))
    assert folded("ConstantOfShape", [big], {}, 1) is None
    assert folded("Expand", [of_content("x", whole(1)), big], {}, 1) is None


labels = "ijkl"


@given(
    st.lists(st.lists(st.sampled_from(labels), min_size=1, max_size=3, unique=True), min_size=2, max_size=2),
    st.dictionaries(st.sampled_from(labels), st.integers(1, 3)),
    st.data(),
)
def test_two_operands_multiply_once_for_each_index(terms, sizes, data):
    used = sorted({label for term in terms for label in term})
    output = data.draw(st.lists(st.sampled_from(used), unique=True, max_size=len(used)))
    size = {label: sizes.get(label, 2) for label in used}
    found = contraction(
        f"{''.join(terms[0])},{''.join(terms[1])}->{''.join(output)}",
        [tuple(size[label] for label in term) for term in terms],
    )
    loop = sum(1 for _ in itertools.product(*(range(size[label]) for label in used)))
    summed = [label for label in used if label not in output]
    assert found.kind == ("matmul" if summed else "pointwise")
    assert found.multiply_adds == (loop if summed else 0)


@pytest.mark.parametrize(
    ("equation", "shapes", "kind"),
    [
        ("ij->ji", [(2, 3)], "layout"),
        ("ij->ij", [(2, 3)], "view"),
        ("ii->i", [(3, 3)], "layout"),
        ("ij->", [(2, 3)], "reduction"),
        ("...i,...i", [(5, 2), (5, 2)], "matmul"),
    ],
)
def test_kinds_of_equations(equation, shapes, kind):
    assert contraction(equation, shapes).kind == kind


@pytest.mark.parametrize(
    ("equation", "shapes", "shorter", "read"),
    [
        ("ii->", [(5, 5)], "i->", [(5,)]),
        ("ii", [(5, 5)], "i->", [(5,)]),
        ("bii,ij->bj", [(2, 5, 5), (5, 3)], "bi,ij->bj", [(2, 5), (5, 3)]),
        ("...ii->...", [(7, 5, 5)], "...i->...", [(7, 5)]),
        ("i...i", [(5, 7, 5)], "i...->...", [(5, 7)]),
        ("ij,jk", [(2, 3), (3, 4)], "ij,jk", [(2, 3), (3, 4)]),
    ],
)
def test_a_label_twice_reads_the_diagonal(equation, shapes, shorter, read):
    assert of_diagonals(equation, shapes) == (shorter, read)
    # the same numbers, by NumPy
    arrays = [np.random.default_rng(0).random(shape) for shape in shapes]
    terms, less = (text.partition("->")[0].split(",") for text in (equation, shorter))
    short = [np.einsum(f"{old}->{new}", one) for one, old, new in zip(arrays, terms, less, strict=True)]
    assert [one.shape for one in short] == read
    np.testing.assert_allclose(np.einsum(shorter, *short), np.einsum(equation, *arrays))
