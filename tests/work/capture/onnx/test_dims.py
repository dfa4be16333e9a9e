"""Symbolic dimensions, shapes that exporters compute with nodes, and what cannot be worked out."""

from __future__ import annotations

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from rooflab.errors import FileError, RooflabError, UnknownNameError  # noqa: E402
from rooflab.work.capture.onnx import capture  # noqa: E402

node = onnx.helper.make_node
MATMUL = [node("MatMul", ["x", "w"], ["y"])]


def zeros(*shape, dtype=np.float32):
    return np.zeros(shape, dtype)


def whole(*values):
    return np.array(values, np.int64)


@pytest.mark.parametrize(("dims", "rows"), [(None, 1), ({"batch": 8}, 8)])
def test_a_batch_is_one_where_not_given(counted, multiply_adds, dims, rows):
    graph = counted(MATMUL, {"x": ["batch", 4]}, weights={"w": zeros(4, 5)}, dims=dims)
    assert multiply_adds(graph) == rows * 4 * 5
    stated = [line for line in graph.conventions if "--dim batch=8" in line]
    assert len(stated) == (1 if dims is None else 0)


@pytest.mark.parametrize(
    ("shape", "dims", "rows"),
    [
        (["batch", "past + 1", 4], {"past": 7}, 8),
        (["batch", "2*s0", 4], {"s0": 3}, 6),
        (["batch", None, 4], {"x:1": 5}, 5),
        (["batch", "Max(a, b)", 4], {"a": 2, "b": 9}, 9),
        (["batch", "past", 4], {"past": 0}, 0),
    ],
)
def test_sizes_by_name_and_expression(counted, multiply_adds, shape, dims, rows):
    graph = counted(MATMUL, {"x": shape}, weights={"w": zeros(4, 5)}, dims=dims)
    assert multiply_adds(graph) == rows * 4 * 5


@pytest.mark.parametrize(
    ("shape", "dims", "error", "words"),
    [
        (["batch", "seq", "width"], None, RooflabError, "'seq', 'width'; give it: --dim seq=8 --dim width=8"),
        (["batch", "past + 1", 4], None, RooflabError, "'past'; give it: --dim past=8"),
        (["batch", None, 4], None, RooflabError, "'x:1'; give it: --dim x:1=8"),
        (["batch", 4], {"bach": 2}, UnknownNameError, "unknown symbolic dimension 'bach'; did you mean batch?"),
        (
            ["batch", 4],
            {"batch": 2.5},
            RooflabError,
            "--dim batch: got 2.5, expected a whole number of at least 0",
        ),
        (["batch", 4], {"batch": -1}, RooflabError, "--dim batch: got -1"),
        (["batch", 3], None, FileError, "MatMul 'y': inputs [1, 3], [4, 5] do not fit"),
    ],
)
def test_bad_sizes_in_one_line(model, shape, dims, error, words):
    path = model(MATMUL, {"x": shape}, weights={"w": zeros(4, 5)})
    with pytest.raises(error) as caught:
        capture(path, dims)
    assert words in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def flattened(opset):
    """View(x, (x.shape[0], -1)) as PyTorch exports it: Shape, Gather, Unsqueeze, Concat, Reshape."""
    if opset >= 13:
        unsqueeze = node("Unsqueeze", ["g", "axis0"], ["u"])
    else:
        unsqueeze = node("Unsqueeze", ["g"], ["u"], axes=[0])
    return [
        node("Constant", [], ["i"], value=onnx.numpy_helper.from_array(np.array(0, np.int64))),
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "i"], ["g"], axis=0),
        unsqueeze,
        node("Concat", ["u", "minus"], ["t"], axis=0),
        node("Reshape", ["x", "t"], ["f"]),
        node("MatMul", ["f", "w"], ["y"]),
    ]


@pytest.mark.parametrize("opset", [7, 13, 17, 23])
def test_computed_shapes_are_folded(counted, multiply_adds, opset):
    weights = {"w": zeros(12, 5), "minus": whole(-1), "axis0": whole(0)}
    graph = counted(flattened(opset), {"x": ["batch", 3, 4]}, weights=weights, opset=opset, dims={"batch": 2})
    assert multiply_adds(graph) == 2 * 12 * 5
    assert [op.name for op in graph.ops] == ["Reshape", "MatMul"]
    assert any("4 nodes of constants" in line for line in graph.conventions)


def test_slices_and_arithmetic_of_shapes(counted):
    nodes = [
        node("Shape", ["x"], ["s"]),  # 2, 6
        node("Slice", ["s", "one", "two"], ["width"]),  # 6
        node("Div", ["width", "two"], ["half"]),  # 3
        node("Concat", ["two", "half"], ["shape"], axis=0),  # 2, 3
        node("Expand", ["z", "shape"], ["y"]),
    ]
    graph = counted(nodes, {"x": [2, 6], "z": [2, 1]}, weights={"one": whole(1), "two": whole(2)})
    assert [op.name for op in graph.ops] == ["Expand"]
    assert graph.tensors[graph.ops[0].outputs[0]].shape == (2, 3)


def test_sizes_that_depend_on_data_are_asked_for(model, counted):
    nodes = [node("NonZero", ["x"], ["y"])]
    with pytest.raises(FileError, match="depends on data; give it: --dim y:1=8") as caught:
        capture(model(nodes, {"x": [4, 5]}))
    assert "tensor 'y' of NonZero 'y'" in str(caught.value)
    graph = counted(nodes, {"x": [4, 5]}, dims={"y:1": 6})
    assert graph.tensors[graph.ops[0].outputs[0]].shape == (2, 6)


def test_an_operator_without_shapes_says_which(model):
    nodes = [node("Mystery", ["x"], ["a"], domain="my.ops"), node("Relu", ["a"], ["y"])]
    with pytest.raises(FileError, match="tensor 'a' of Mystery 'a': shape inference gives no shape"):
        capture(model(nodes, {"x": [2]}, domains=["my.ops"]))


def test_an_unknown_operator_with_stated_shapes_is_a_row_without_a_kind(model):
    nodes = [node("Mystery", ["x"], ["a"], domain="my.ops"), node("Relu", ["a"], ["y"])]
    stated = [onnx.helper.make_tensor_value_info("a", 1, ["batch", 3])]
    graph = capture(model(nodes, {"x": ["batch", 2]}, domains=["my.ops"], value_info=stated), {"batch": 4})
    assert [(op.name, op.kind) for op in graph.ops] == [("my.ops.Mystery", None), ("Relu", "pointwise")]
    assert graph.tensors[graph.ops[1].outputs[0]].shape == (4, 3)


def test_the_same_weight_twice_is_one_storage(counted):
    nodes = [node("MatMul", ["x", "w"], ["a"]), node("MatMul", ["a", "w"], ["y"])]
    graph = counted(nodes, {"x": [2, 4]}, weights={"w": zeros(4, 4)})
    weights = [spec for spec in graph.tensors if spec.role == "parameter"]
    assert [spec.name for spec in weights] == ["w"]


def test_views_share_their_storage_and_a_module_is_the_scope_of_the_name(counted):
    nodes = [
        node("Reshape", ["x", "s"], ["a"], name="/layer1/conv/Reshape"),
        node("Relu", ["a"], ["y"], name="Relu_3"),
    ]
    graph = counted(nodes, {"x": [2, 4]}, weights={"s": whole(8)})
    view, relu = graph.ops
    assert graph.tensors[view.inputs[0]].storage == graph.tensors[view.outputs[0]].storage
    assert graph.tensors[relu.outputs[0]].storage != graph.tensors[relu.inputs[0]].storage
    assert (view.module, view.where) == ("layer1.conv", "/layer1/conv/Reshape")
    assert (relu.module, relu.where) == ("", "Relu_3")
