"""The same program in another number format."""

from __future__ import annotations

import pytest

from rooflab.errors import RooflabError
from rooflab.model.program.precision import change_dtype
from rooflab.types.work import Graph, Op, TensorSpec
from rooflab.work.costs import costs
from rooflab.work.peak_memory import peak_memory


def layer():
    """x·w, then a relu, then the result times w2 whose weights are also read by a sum."""
    tensors = (
        TensorSpec((8, 64), "bf16", 8 * 64 * 2, 0, role="input"),
        TensorSpec((64, 32), "bf16", 64 * 32 * 2, 1, role="parameter"),
        TensorSpec((8, 32), "bf16", 8 * 32 * 2, 2),
        TensorSpec((8, 32), "bf16", 8 * 32 * 2, 3),
        TensorSpec((32, 4), "bf16", 32 * 4 * 2, 4, role="parameter"),
        TensorSpec((8, 4), "bf16", 8 * 4 * 2, 5),
        TensorSpec((), "bf16", 2, 6),
        TensorSpec((8,), "int64", 64, 7, role="input"),
    )
    ops = (
        Op(name="mm", kind="matmul", inputs=(0, 1), outputs=(2,), attrs={"k": 64}),
        Op(name="relu", kind="pointwise", inputs=(2,), outputs=(3,), attrs={"function": "relu"}),
        Op(name="mm", kind="matmul", inputs=(3, 4), outputs=(5,), attrs={"k": 32}),
        Op(name="sum", kind="reduction", inputs=(4,), outputs=(6,), attrs={"function": "sum"}),
    )
    return Graph(framework="hand", tensors=tensors, ops=ops)


def test_every_floating_tensor_becomes_wider():
    made = change_dtype(layer(), "fp32")
    assert [spec.dtype for spec in made.tensors] == ["fp32"] * 7 + ["int64"]
    assert made.tensors[1].nbytes == 64 * 32 * 4
    assert sum(one.total_flop for one in costs(made)) == sum(one.total_flop for one in costs(layer()))
    assert made.conventions[-1] == "number format: fp32 instead of bf16"


def test_a_narrow_format_is_for_the_operands_of_products():
    made = change_dtype(layer(), "fp8")
    first, relu, second, total = made.ops
    formats = [made.tensors[index].dtype for index in (*first.inputs, *first.outputs)]
    assert formats == ["fp8", "fp8", "bf16"]
    # The weights that products alone read are stored so; those that a sum reads too stay as they are.
    assert first.inputs[1] == 1
    assert made.tensors[4].dtype == "bf16"
    assert made.tensors[second.inputs[1]].dtype == "fp8"
    assert (relu.inputs, total.inputs) == ((2,), (4,))
    # 8·64 and 64·32 bytes read, 8·32 results of 2 bytes
    cost = costs(made)[0]
    assert (cost.compulsory.read_bytes, cost.compulsory.write_bytes) == (8 * 64 + 64 * 32, 8 * 32 * 2)


def seen_transposed(also_read: bool):
    """x·wᵀ as PyTorch writes it: the product reads a transposed view of the parameter; a gather may too."""
    tensors = (
        TensorSpec((8, 64), "bf16", 8 * 64 * 2, 0, role="input"),
        TensorSpec((32, 64), "bf16", 32 * 64 * 2, 1, role="parameter", name="w"),
        TensorSpec((64, 32), "bf16", 32 * 64 * 2, 1, strides=(1, 64), role="parameter"),
        TensorSpec((8, 32), "bf16", 8 * 32 * 2, 2),
        TensorSpec((8, 64), "bf16", 8 * 64 * 2, 3),
        TensorSpec((8,), "int64", 64, 4, role="input"),
    )
    ops = (
        Op(name="t", kind="view", inputs=(1,), outputs=(2,)),
        Op(name="mm", kind="matmul", inputs=(0, 2), outputs=(3,), attrs={"k": 64}),
        *([Op(name="embedding", kind="gather", inputs=(1, 5), outputs=(4,))] if also_read else []),
    )
    return Graph(framework="torch", tensors=tensors, ops=ops)


@pytest.mark.parametrize(("also_read", "held"), [(False, 32 * 64 / 2), (True, 32 * 64 * 2)])
def test_a_parameter_is_stored_narrow_whatever_view_of_it_is_multiplied(also_read, held):
    graph = seen_transposed(also_read)
    made = change_dtype(graph, "int4")
    assert [spec.nbytes for spec in made.held("parameter")] == [held]
    operand = made.tensors[made.ops[1].inputs[1]]
    assert (operand.dtype, operand.nbytes) == ("int4", 32 * 64 / 2)
    assert peak_memory(made).parameters_bytes == held


def test_four_bits_are_half_a_byte():
    made = change_dtype(layer(), "int4")
    assert made.tensors[1].nbytes == 64 * 32 / 2


def test_what_cannot_be_changed_is_said():
    with pytest.raises(RooflabError, match="a program can be changed to fp64, fp32"):
        change_dtype(layer(), "bool")
    ints = Graph(framework="hand", tensors=(TensorSpec((8,), "int64", 64, 0),), ops=())
    with pytest.raises(RooflabError, match="no floating-point tensor"):
        change_dtype(ints, "fp16")
