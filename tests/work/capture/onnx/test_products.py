"""Products, convolutions and recurrent layers: multiply-adds against their definition."""

from __future__ import annotations

import numpy as np
import pytest

import rooflab

onnx = pytest.importorskip("onnx")
node = onnx.helper.make_node
MS = "com.microsoft"


def zeros(*shape, dtype=np.float32):
    return np.zeros(shape, dtype)


UINT8, FP16 = onnx.TensorProto.UINT8, onnx.TensorProto.FLOAT16


@pytest.mark.parametrize("opset", [7, 13, 17, 23])
def test_matmul_in_every_opset(counted, multiply_adds, moved, opset):
    graph = counted([node("MatMul", ["x", "w"], ["y"])], {"x": [4, 8]}, weights={"w": zeros(8, 16)}, opset=opset)
    assert multiply_adds(graph) == 4 * 8 * 16
    assert moved(graph) == 4 * (4 * 8 + 8 * 16 + 4 * 16)


@pytest.mark.parametrize(
    ("nodes", "inputs", "weights", "expected"),
    [
        # Gemm: A (8 × 4, transposed) times B (16 × 8, transposed) → 4 × 16, k = 8
        (
            [node("Gemm", ["x", "w", "b"], ["y"], transA=1, transB=1)],
            {"x": [8, 4]},
            {"w": zeros(16, 8), "b": zeros(16)},
            512,
        ),
        # a batch of 3 × 2, broadcast
        ([node("MatMul", ["x", "w"], ["y"])], {"x": [3, 1, 5, 7], "w": [2, 7, 4]}, {}, 3 * 2 * 5 * 7 * 4),
        ([node("MatMul", ["x", "w"], ["y"])], {"x": [7], "w": [7]}, {}, 7),
        ([node("Einsum", ["x", "w"], ["y"], equation="bij,bjk->bik")], {"x": [2, 3, 4], "w": [2, 4, 5]}, {}, 120),
        ([node("Einsum", ["x", "w"], ["y"], equation="...ij,jk")], {"x": [2, 3, 4], "w": [4, 5]}, {}, 120),
        # left to right: (3·4·5) for x·w, then (3·5·6)
        (
            [node("Einsum", ["x", "w", "v"], ["y"], equation="ij,jk,kl->il")],
            {"x": [3, 4], "w": [4, 5], "v": [5, 6]},
            {},
            150,
        ),
        ([node("Einsum", ["x", "w"], ["y"], equation="i,j->ij")], {"x": [3], "w": [4]}, {}, 0),
        # Conv, 2 groups: 6 outputs × 5 × 5 × (4 / 2 inputs) × 3 × 3
        (
            [node("Conv", ["x", "w"], ["y"], group=2)],
            {"x": [1, 4, 7, 7]},
            {"w": zeros(6, 2, 3, 3)},
            6 * 25 * 2 * 9,
        ),
        # SAME_UPPER keeps 7 × 7; dilation adds no work
        (
            [node("Conv", ["x", "w"], ["y"], auto_pad="SAME_UPPER", dilations=[2, 2])],
            {"x": [1, 4, 7, 7]},
            {"w": zeros(6, 4, 3, 3)},
            6 * 49 * 4 * 9,
        ),
        ([node("Conv", ["x", "w"], ["y"], strides=[2])], {"x": [1, 4, 9]}, {"w": zeros(6, 4, 3)}, 6 * 4 * 4 * 3),
        # transposed: per input pixel Cin × Cout / groups × k²: fvcore's issue 78, 288
        ([node("ConvTranspose", ["x", "w"], ["y"])], {"x": [1, 32, 1, 1]}, {"w": zeros(32, 1, 3, 3)}, 288),
        (
            [node("DeformConv", ["x", "w", "o"], ["y"])],
            {"x": [1, 4, 5, 5], "o": [1, 18, 3, 3]},
            {"w": zeros(6, 4, 3, 3)},
            6 * 9 * 36,
        ),
    ],
)
def test_multiply_adds_of_each_product(counted, multiply_adds, nodes, inputs, weights, expected):
    opset = 19 if nodes[0].op_type == "DeformConv" else 17
    assert multiply_adds(counted(nodes, inputs, weights=weights, opset=opset)) == expected


@pytest.mark.parametrize(
    ("made", "inputs", "weights", "expected", "dtype"),
    [
        (
            node("MatMulInteger", ["x", "w"], ["y"]),
            {"x": (UINT8, [4, 8])},
            {"w": zeros(8, 16, dtype=np.uint8)},
            512,
            "int8",
        ),
        (
            node("QLinearMatMul", ["x", "s", "z", "w", "s", "z", "s", "z"], ["y"]),
            {"x": (UINT8, [4, 8])},
            {"w": zeros(8, 16, dtype=np.uint8), "s": zeros(1)[0], "z": np.uint8(0)},
            512,
            "int8",
        ),
        (
            node("ConvInteger", ["x", "w"], ["y"]),
            {"x": (UINT8, [1, 4, 5, 5])},
            {"w": zeros(6, 4, 3, 3, dtype=np.uint8)},
            6 * 9 * 36,
            "int8",
        ),
        (
            node("QLinearConv", ["x", "s", "z", "w", "s", "z", "s", "z", "b"], ["y"]),
            {"x": (UINT8, [1, 4, 5, 5])},
            {
                "w": zeros(6, 4, 3, 3, dtype=np.uint8),
                "s": zeros(1)[0],
                "z": np.uint8(0),
                "b": zeros(6, dtype=np.int32),
            },
            6 * 9 * 36,
            "int8",
        ),
        (
            node("DynamicQuantizeMatMul", ["x", "w", "s"], ["y"], domain=MS),
            {"x": [4, 8]},
            {"w": zeros(8, 16, dtype=np.uint8), "s": zeros(1)},
            512,
            "int8",
        ),
        (
            node("FusedMatMul", ["x", "w"], ["y"], domain=MS, transB=1),
            {"x": [4, 8]},
            {"w": zeros(16, 8)},
            512,
            "fp32",
        ),
        # 128 × 64 times 64 × 64 in 4 bits
        (
            node("MatMulNBits", ["x", "w", "s"], ["y"], domain=MS, K=64, N=64, bits=4, block_size=32),
            {"x": [128, 64]},
            {"w": zeros(64, 2, 16, dtype=np.uint8), "s": zeros(128)},
            524_288,
            "fp32",
        ),
    ],
)
def test_quantised_products_count_as_their_number_format(
    counted, multiply_adds, made, inputs, weights, expected, dtype
):
    graph = counted([made], inputs, weights=weights, domains=[MS])
    assert multiply_adds(graph) == expected
    (op,) = graph.ops
    assert op.attrs.get("compute", graph.tensors[op.inputs[0]].dtype) == dtype


def test_the_accuracy_level_says_what_four_bit_weights_are_multiplied_in(counted):
    names = ["x", "w", "s"]
    made = node("MatMulNBits", names, ["y"], domain=MS, K=64, N=64, bits=4, block_size=32, accuracy_level=4)
    weights = {"w": zeros(64, 2, 16, dtype=np.uint8), "s": zeros(128)}
    (op,) = counted([made], {"x": [128, 64]}, weights=weights, domains=[MS]).ops
    assert (op.attrs["compute"], op.attrs["weight_bits"]) == ("int8", 4)


def test_weights_of_four_bits_cross_packed(counted, moved):
    made = node("MatMulNBits", ["x", "w", "s"], ["y"], domain=MS, K=64, N=64, bits=4, block_size=32)
    graph = counted(
        [made], {"x": [128, 64]}, weights={"w": zeros(64, 2, 16, dtype=np.uint8), "s": zeros(128)}, domains=[MS]
    )
    # x and y 128 × 64 fp32, weights 64 × 64 / 2 bytes, a scale for each block of 32
    assert moved(graph) == 2 * 4 * 128 * 64 + 64 * 64 / 2 + 4 * 128


@pytest.mark.parametrize(("cell", "gates"), [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
@pytest.mark.parametrize(("direction", "directions"), [("forward", 1), ("bidirectional", 2)])
def test_recurrent_layers_count_gates_times_steps(counted, multiply_adds, cell, gates, direction, directions):
    steps, batch, size, hidden = 10, 4, 32, 64
    made = node(cell, ["x", "w", "r"], ["y"], hidden_size=hidden, direction=direction)
    weights = {"w": zeros(directions, gates * hidden, size), "r": zeros(directions, gates * hidden, hidden)}
    graph = counted([made], {"x": [steps, batch, size]}, weights=weights)
    # each step: the input's and the state's product with all gates; LSTM forward: 983,040, as PyTorch's nn.LSTM
    assert multiply_adds(graph) == directions * steps * batch * gates * hidden * (size + hidden)


def test_experts_count_those_that_are_chosen(counted, multiply_adds, moved):
    made = node("MoE", ["x", "r", "w1", "", "w2"], ["y"], domain=MS, k=2)
    weights = {"w1": zeros(8, 32, 16), "w2": zeros(8, 16, 32)}
    graph = counted([made], {"x": [3, 16], "r": [3, 8]}, weights=weights, domains=[MS])
    assert multiply_adds(graph) == 3 * 2 * (16 * 32 + 32 * 16)
    # 3 tokens × 2 experts: at most 6 of the 8 experts' weights are read
    assert moved(graph) == 4 * (3 * 16 + 3 * 8 + 6 * 2 * 16 * 32 + 3 * 16)


@pytest.mark.parametrize(
    ("equation", "flop", "read", "written"),
    [("ii->", 1000, 4000, 4), ("ii", 1000, 4000, 4), ("ii->i", 0, 4000, 4000), ("ii,i->", 2000, 8000, 4)],
)
def test_an_einsum_of_a_diagonal_reads_the_diagonal(model, equation, flop, read, written):
    inputs = {"x": [1000, 1000]} | ({"w": [1000]} if "," in equation else {})
    report = rooflab.analyze(str(model([node("Einsum", list(inputs), ["y"], equation=equation)], inputs)))
    assert (report.flop, report.read_bytes, report.write_bytes) == (flop, read, written)
