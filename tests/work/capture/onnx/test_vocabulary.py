"""Every standard operator has a row; arithmetic and bytes of the operators that are not products."""

from __future__ import annotations

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from rooflab.work import formulas, vocabulary  # noqa: E402
from rooflab.work.capture.onnx.recipes import RECIPES  # noqa: E402
from rooflab.work.costs import costs  # noqa: E402

node = onnx.helper.make_node
MS = "com.microsoft"
RULES = {"constant", "if", "loop", "scan_loop", "opaque"}
INT64 = onnx.TensorProto.INT64


def zeros(*shape, dtype=np.float32):
    return np.zeros(shape, dtype)


def whole(*values):
    return np.array(values, np.int64)


def test_every_operator_up_to_opset_23_has_a_row():
    known = vocabulary.load("onnx")
    schemas = onnx.defs.get_all_schemas_with_history()
    standard = {one.name for one in schemas if one.domain == "" and one.since_version <= 23}
    assert standard - known.keys() == set()


def test_every_row_leads_somewhere():
    for entry in vocabulary.load("onnx").values():
        assert entry.kind in {*formulas.kinds(), *RULES}, entry.name
        assert entry.recipe is None or entry.recipe in RECIPES, entry.name


X = {"x": [2, 6, 4]}
IMAGE = {"x": [1, 4, 8, 8]}


@pytest.mark.parametrize(
    ("nodes", "inputs", "weights", "vector", "special", "nbytes"),
    [
        # 48 elements of 4 bytes: 2 reads, 1 write
        ([node("Add", ["x", "z"], ["y"])], {**X, "z": [2, 6, 4]}, {}, 48, 0, 3 * 192),
        ([node("Add", ["x", "z"], ["y"])], {**X, "z": [4]}, {}, 48, 0, 2 * 192 + 16),  # broadcast: 4 elements
        ([node("Relu", ["x"], ["y"])], X, {}, 48, 0, 2 * 192),
        ([node("Clip", ["x", "", "m"], ["y"])], X, {"m": zeros(1)[0]}, 2 * 48, 0, 2 * 192),
        ([node("Sum", ["x", "x", "x"], ["y"])], X, {}, 2 * 48, 0, 2 * 192),
        ([node("Pow", ["x", "two"], ["y"])], X, {"two": np.array(2, np.float32)}, 48, 0, 2 * 192),
        ([node("Pow", ["x", "half"], ["y"])], X, {"half": np.array(0.5, np.float32)}, 0, 48, 2 * 192),
        ([node("ReduceSum", ["x", "a"], ["y"])], X, {"a": whole(2)}, 48, 0, 192 + 48),
        ([node("ArgMax", ["x"], ["y"], axis=2, keepdims=0)], X, {}, 48, 0, 192 + 12 * 8),
        # views: nothing; a copy of what is kept; a transposed copy; one that moves sizes of 1 only
        ([node("Reshape", ["x", "a"], ["y"])], X, {"a": whole(-1)}, 0, 0, 0),
        ([node("Unsqueeze", ["x", "a"], ["y"])], X, {"a": whole(0)}, 0, 0, 0),
        ([node("Slice", ["x", "a", "b", "b"], ["y"])], X, {"a": whole(0), "b": whole(1)}, 0, 0, 2 * 2 * 4 * 4),
        ([node("Transpose", ["x"], ["y"], perm=[0, 2, 1])], X, {}, 0, 0, 2 * 192),
        ([node("Transpose", ["x"], ["y"], perm=[1, 0, 2])], {"x": [1, 6, 4]}, {}, 0, 0, 0),
        ([node("Concat", ["x", "x"], ["y"], axis=0)], X, {}, 0, 0, 3 * 192),  # one tensor, read once
        ([node("Cast", ["x"], ["y"], to=onnx.TensorProto.FLOAT16)], X, {}, 0, 0, 192 + 96),
        ([node("Expand", ["x", "a"], ["y"])], {"x": [1, 4]}, {"a": whole(6, 4)}, 0, 0, 16 + 96),
        ([node("Dropout", ["x"], ["y"])], X, {}, 0, 0, 0),
        # embedding: 3 rows of 16 floats, 3 indices of 8 bytes; the table of 100 rows is not read
        ([node("Gather", ["t", "i"], ["y"])], {"i": (INT64, [3])}, {"t": zeros(100, 16)}, 0, 0, 3 * 64 + 24 + 192),
        # 4 channels of 4 × 4 outputs, 2 × 2 window
        (
            [node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2], strides=[2, 2])],
            IMAGE,
            {},
            64 * 4,
            0,
            4 * (256 + 64),
        ),
        ([node("GlobalAveragePool", ["x"], ["y"])], IMAGE, {}, 256 + 4, 0, 4 * (256 + 4)),
        # int8 in 1 byte: multiply, round, two comparisons; multiply and subtract
        ([node("QuantizeLinear", ["x", "s"], ["y"])], X, {"s": np.float32(1)}, 4 * 48, 0, 192 + 4 + 48),
        # 3 operations for each element, sines and cosines read: 4 positions × 3 pairs
        (
            [node("RotaryEmbedding", ["x", "c", "d"], ["y"])],
            {"x": [1, 2, 4, 6]},
            {"c": zeros(1, 4, 3), "d": zeros(1, 4, 3)},
            3 * 48,
            0,
            2 * 192 + 2 * 48,
        ),
        # LpNormalization: square and add each, a root for each of 12 rows, a division each
        ([node("LpNormalization", ["x"], ["y"], axis=2)], X, {}, 2 * 48, 12 + 48, 2 * 192),
        # two operands from int8 (2 each), the sum, back to int8 (4)
        (
            [node("QLinearAdd", ["q", "s", "z", "q", "s", "z", "s", "z"], ["y"], domain=MS)],
            {"q": (onnx.TensorProto.UINT8, [48])},
            {"s": zeros(1)[0], "z": np.uint8(0)},
            9 * 48,
            0,
            2 * 48,
        ),
        ([node("BiasGelu", ["x", "b"], ["y"], domain=MS)], X, {"b": zeros(4)}, 5 * 48, 48, 2 * 192 + 16),
    ],
)
def test_arithmetic_and_bytes(counted, arithmetic, moved, nodes, inputs, weights, vector, special, nbytes):
    opset = 23 if nodes[0].op_type == "RotaryEmbedding" else 17
    graph = counted(nodes, inputs, weights=weights, domains=[MS], opset=opset)
    assert arithmetic(graph) == (vector, special)
    assert moved(graph) == nbytes


def test_a_skipped_sum_stays_on_chip(counted, moved):
    made = node("SkipLayerNormalization", ["x", "z", "g", "b"], ["y"], domain=MS)
    graph = counted([made], {**X, "z": [2, 6, 4]}, weights={"g": zeros(4), "b": zeros(4)}, domains=[MS])
    assert [op.name for op in graph.ops] == ["SkipLayerNormalization.add", "SkipLayerNormalization"]
    assert moved(graph) == 3 * 192 + 2 * 16  # x and the skipped one, y; gamma and beta


# Operators of every family that must get through, with a cost: what they ask for is tested with the formulas.
ALL = [
    (node("BatchNormalization", ["x", "c", "c", "c", "c"], ["y"]), IMAGE, {"c": zeros(4)}, 17),
    (node("LayerNormalization", ["x", "c"], ["y"]), X, {"c": zeros(4)}, 17),
    (node("RMSNormalization", ["x", "c"], ["y"]), X, {"c": zeros(4)}, 23),
    (node("GroupNormalization", ["x", "c", "c"], ["y"], num_groups=2), IMAGE, {"c": zeros(4)}, 21),
    (node("InstanceNormalization", ["x", "c", "c"], ["y"]), IMAGE, {"c": zeros(4)}, 17),
    (node("MeanVarianceNormalization", ["x"], ["y"]), IMAGE, {}, 17),
    (node("LRN", ["x"], ["y"], size=3), IMAGE, {}, 17),
    (node("Softmax", ["x"], ["y"]), X, {}, 17),
    (node("LogSoftmax", ["x"], ["y"]), X, {}, 17),
    (node("Hardmax", ["x"], ["y"]), X, {}, 17),
    (node("AveragePool", ["x"], ["y"], kernel_shape=[3, 3], auto_pad="SAME_LOWER"), IMAGE, {}, 17),
    (node("LpPool", ["x"], ["y"], kernel_shape=[2, 2]), IMAGE, {}, 17),
    (node("GlobalMaxPool", ["x"], ["y"]), IMAGE, {}, 17),
    (
        node("RoiAlign", ["x", "r", "i"], ["y"], output_height=2, output_width=2),
        {**IMAGE, "r": [3, 4], "i": (INT64, [3])},
        {},
        17,
    ),
    (node("MaxRoiPool", ["x", "r"], ["y"], pooled_shape=[2, 2]), {**IMAGE, "r": [3, 5]}, {}, 17),
    (node("Resize", ["x", "", "s"], ["y"], mode="linear"), IMAGE, {"s": np.array([1, 1, 2, 2], np.float32)}, 17),
    (node("Resize", ["x", "", "", "n"], ["y"], mode="cubic"), IMAGE, {"n": whole(1, 4, 5, 5)}, 17),
    (node("Upsample", ["x", "s"], ["y"]), IMAGE, {"s": np.array([1, 1, 2, 2], np.float32)}, 9),
    (node("GridSample", ["x", "g"], ["y"]), {**IMAGE, "g": [1, 5, 5, 2]}, {}, 17),
    (node("AffineGrid", ["x", "n"], ["y"]), {"x": [1, 2, 3]}, {"n": whole(1, 4, 5, 5)}, 20),
    (node("ScatterElements", ["x", "i", "u"], ["y"]), {"x": [4, 4], "i": (INT64, [2, 4]), "u": [2, 4]}, {}, 17),
    (node("ScatterND", ["x", "i", "u"], ["y"]), {"x": [4, 4], "i": (INT64, [2, 1]), "u": [2, 4]}, {}, 17),
    (node("GatherND", ["x", "i"], ["y"]), {"x": [4, 4], "i": (INT64, [2, 1])}, {}, 17),
    (node("GatherElements", ["x", "i"], ["y"]), {"x": [4, 4], "i": (INT64, [2, 4])}, {}, 17),
    (node("TopK", ["x", "k"], ["y", "i"]), X, {"k": whole(2)}, 17),
    (node("CumSum", ["x", "a"], ["y"]), X, {"a": np.array(1)}, 17),
    (node("Pad", ["x", "a"], ["y"]), {"x": [4, 4]}, {"a": whole(1, 1, 1, 1)}, 17),
    (node("Split", ["x"], ["y", "z"], axis=1, num_outputs=2), X, {}, 18),
    (node("DepthToSpace", ["x"], ["y"], blocksize=2), IMAGE, {}, 17),
    (node("OneHot", ["i", "d", "v"], ["y"]), {"i": (INT64, [3])}, {"d": np.array(5), "v": zeros(2)}, 17),
    (node("GreaterOrEqual", ["x", "z"], ["y"]), {**X, "z": [4]}, {}, 13),
    (node("Where", ["c", "x", "x"], ["y"]), {**X, "c": (onnx.TensorProto.BOOL, [2, 6, 4])}, {}, 17),
    (node("RandomNormalLike", ["x"], ["y"]), X, {}, 17),
    (node("DynamicQuantizeLinear", ["x"], ["y", "s", "z"]), X, {}, 17),
    (node("SoftmaxCrossEntropyLoss", ["x", "t"], ["y"]), {"x": [4, 10], "t": (INT64, [4])}, {}, 17),
    (node("NegativeLogLikelihoodLoss", ["x", "t"], ["y"]), {"x": [4, 10], "t": (INT64, [4])}, {}, 17),
    (node("DFT", ["x", "", "a"], ["y"]), {"x": [1, 16, 1]}, {"a": np.array(1)}, 20),
    (node("STFT", ["x", "h", "w"], ["y"]), {"x": [1, 64, 1]}, {"h": np.array(8), "w": zeros(16)}, 17),
    (node("Trilu", ["x"], ["y"]), X, {}, 17),
    (node("Col2Im", ["x", "n", "b"], ["y"]), {"x": [1, 8, 4]}, {"n": whole(3, 3), "b": whole(2, 2)}, 18),
    (node("Mean", ["x", "x"], ["y"]), X, {}, 17),
    (node("Mod", ["x", "x"], ["y"], fmod=1), X, {}, 17),
    (node("Gelu", ["x"], ["y"], approximate="tanh"), X, {}, 20),
    (
        node("EmbedLayerNormalization", ["i", "i", "t", "t", "t", "g", "g"], ["y"], domain=MS),
        {"i": (onnx.TensorProto.INT32, [2, 3])},
        {"t": zeros(9, 8), "g": zeros(8)},
        17,
    ),
    (
        node("QLinearAdd", ["q", "s", "z", "q", "s", "z", "s", "z"], ["y"], domain=MS),
        {"q": (onnx.TensorProto.UINT8, [4])},
        {"s": zeros(1)[0], "z": np.uint8(0)},
        17,
    ),
]


@pytest.mark.parametrize(
    ("made", "inputs", "weights", "opset"), ALL, ids=lambda one: getattr(one, "op_type", None)
)
def test_a_cost_for_every_family(counted, moved, made, inputs, weights, opset):
    graph = counted([made], inputs, tuple(made.output), weights=weights, opset=opset, domains=[MS])
    assert graph.ops
    assert moved(graph) > 0


def test_sequences_pass_through(counted):
    nodes = [
        node("SequenceConstruct", ["x", "x"], ["s"]),
        node("SequenceAt", ["s", "i"], ["a"]),
        node("Relu", ["a"], ["y"]),
    ]
    graph = counted(nodes, X, weights={"i": np.array(0)})
    assert [op.kind for op in graph.ops] == ["view", "view", "pointwise"]


def test_weights_of_a_quantised_model_stay_packed(counted, moved):
    nodes = [node("DequantizeLinear", ["w", "s"], ["d"]), node("MatMul", ["x", "d"], ["y"])]
    weights = {"w": zeros(8, 16, dtype=np.int8), "s": np.float32(1)}
    graph = counted(nodes, {"x": [4, 8]}, weights=weights)
    # 128 weights in int8, their scale, unpacked (written, read); x and y
    assert moved(graph) == 128 + 4 + 2 * 512 + 4 * (4 * 8 + 4 * 16)
    assert any("DequantizeLinear runs as written" in line for line in graph.conventions)


def test_a_smaller_image_against_aliasing_is_read_whole(counted):
    made = node("Resize", ["x", "", "", "n"], ["y"], mode="linear", antialias=1)
    graph = counted([made], {"x": [1, 2, 24, 24]}, weights={"n": whole(1, 2, 6, 4)}, opset=18)
    (cost,) = costs(graph)
    # by 4 and by 6: 8 × 12 taps a result and 8 sums of rows, a multiply-add each
    assert cost.total_flop == 2 * (8 * 12 + 8) * 2 * 6 * 4
    assert (cost.compulsory.read_bytes, cost.compulsory.write_bytes) == (4 * 2 * 24 * 24, 4 * 2 * 6 * 4)


def test_columns_folded_into_an_image_are_all_read_and_added(counted):
    made = node("Col2Im", ["x", "n", "b"], ["y"])
    graph = counted([made], {"x": [1, 8, 4]}, weights={"n": whole(3, 3), "b": whole(2, 2)}, opset=18)
    (cost,) = costs(graph)
    assert (cost.total_flop, cost.compulsory.read_bytes, cost.compulsory.write_bytes) == (32, 128, 4 * 2 * 9)


def test_a_causal_convolution_writes_its_state_too(counted):
    made = node("CausalConvWithState", ["x", "w"], ["y", "state"])
    graph = counted([made], {"x": [2, 4, 8]}, weights={"w": zeros(4, 1, 4)}, outputs=("y", "state"), opset=27)
    (cost,) = costs(graph)
    assert cost.compulsory.write_bytes == 4 * (2 * 4 * 8 + 2 * 4 * 3)
