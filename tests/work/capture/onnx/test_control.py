"""If, Loop, Scan and functions of the model's own."""

from __future__ import annotations

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from rooflab.errors import FileError  # noqa: E402
from rooflab.work.capture.onnx import capture  # noqa: E402

helper = onnx.helper
node, tensor = helper.make_node, helper.make_tensor_value_info
FLOAT, INT64, BOOL = 1, 7, 9


def zeros(*shape, dtype=np.float32):
    return np.zeros(shape, dtype)


def body(nodes, inputs=("h",), outputs=("h_out",), going="going_in"):
    """A loop's body: iteration, condition, what it carries."""
    head = [tensor("number", INT64, []), tensor("going_in", BOOL, [])]
    carried = [tensor(name, FLOAT, None) for name in inputs]
    results = [tensor("going", BOOL, []), *(tensor(name, FLOAT, None) for name in outputs)]
    made = [node("Identity", [going], ["going"]), *nodes] if going else nodes
    return helper.make_graph(made, "body", [*head, *carried], results)


STEP = [node("MatMul", ["h", "w"], ["h_out"])]  # 2 × 4 × 4 multiply-adds


def test_a_loop_counts_its_trips(counted, multiply_adds):
    made = node("Loop", ["trips", "", "x"], ["y"], body=body(STEP), name="steps")
    graph = counted([made], {"x": [2, 4]}, weights={"w": zeros(4, 4), "trips": np.array(24)})
    assert multiply_adds(graph) == 24 * 2 * 4 * 4
    assert [(op.name, op.count) for op in graph.ops if op.kind == "matmul"] == [("MatMul", 24)]
    assert graph.unknown == ()


@pytest.mark.parametrize(("dims", "trips", "stated"), [(None, 1, 1), ({"steps:trips": 7}, 7, 0)])
def test_a_loop_whose_end_depends_on_data(counted, multiply_adds, dims, trips, stated):
    ends = [*STEP, node("ReduceSum", ["h_out"], ["s"], keepdims=0), node("Less", ["s", "one"], ["going"])]
    made = node("Loop", ["", "", "x"], ["y"], body=body(ends, going=None), name="steps")
    graph = counted([made], {"x": [2, 4]}, weights={"w": zeros(4, 4), "one": zeros(1)[0]}, dims=dims)
    assert multiply_adds(graph) == trips * 2 * 4 * 4
    assert sum("--dim steps:trips=10" in line for line in graph.unknown) == stated


def test_a_condition_that_goes_round_in_a_circle_is_refused(counted):
    made = node("Loop", ["trips", "", "x"], ["y"], body=body(STEP, going="going"), name="steps")
    with pytest.raises(FileError, match="no node and no input makes its input 'going'"):
        counted([made], {"x": [2, 4]}, weights={"w": zeros(4, 4), "trips": np.array(24)})


def test_a_loop_whose_shapes_grow_is_unrolled(counted, multiply_adds):
    grow = [node("Concat", ["h", "row"], ["h_out"], axis=0), node("MatMul", ["h_out", "w"], ["product"])]
    made = node("Loop", ["trips", "", "x"], ["y", "z"], body=body(grow, outputs=("h_out",)), name="steps")
    weights = {"w": zeros(4, 4), "row": zeros(1, 4), "trips": np.array(3)}
    made.output.pop()
    graph = counted([made], {"x": [2, 4]}, weights=weights)
    assert multiply_adds(graph) == (3 + 4 + 5) * 4 * 4
    assert {op.count for op in graph.ops} == {1}


def test_what_a_loop_collects_is_stacked(counted):
    made = node("Loop", ["trips", "", "x"], ["last", "y"], body=body(STEP, outputs=("h_out", "h_out")))
    nodes = [made, node("Relu", ["y"], ["z"])]
    graph = counted(nodes, {"x": [2, 4]}, ("z",), weights={"w": zeros(4, 4), "trips": np.array(5)})
    assert graph.tensors[graph.ops[-1].outputs[0]].shape == (5, 2, 4)


def test_a_scan_runs_along_its_axis(counted, multiply_adds):
    inside = helper.make_graph(
        [
            node("MatMul", ["row", "w"], ["m"]),
            node("Add", ["state", "m"], ["next"]),
            node("Identity", ["next"], ["out"]),
        ],
        "body",
        [tensor("state", FLOAT, None), tensor("row", FLOAT, None)],
        [tensor("next", FLOAT, None), tensor("out", FLOAT, None)],
    )
    made = node("Scan", ["s", "x"], ["last", "y"], body=inside, num_scan_inputs=1)
    graph = counted(
        [made, node("Relu", ["y"], ["z"])], {"s": [2, 4], "x": [9, 2, 4]}, ("z",), weights={"w": zeros(4, 4)}
    )
    assert multiply_adds(graph) == 9 * 2 * 4 * 4
    assert graph.tensors[graph.ops[-1].outputs[0]].shape == (9, 2, 4)


def choice(condition):
    branches = {
        f"{name}_branch": helper.make_graph(
            [node("MatMul", ["x", weight], [f"{name}_y"])], name, [], [tensor(f"{name}_y", FLOAT, None)]
        )
        for name, weight in (("then", "w"), ("else", "v"))
    }
    return node("If", [condition], ["y"], name="choose", **branches)


def test_of_the_branches_of_an_if_the_costlier_counts(counted, multiply_adds):
    weights = {"w": zeros(4, 4), "v": zeros(4, 6)}
    graph = counted([choice("c")], {"x": [2, 4], "c": (BOOL, [1])}, weights=weights)
    assert [op.branch for op in graph.ops] == ["If 'choose' 1 of 2", "If 'choose' 2 of 2"]
    assert multiply_adds(graph) == 2 * 4 * 6  # of the second; the first is 2 × 4 × 4
    assert [op.count for op in graph.ops] == [0, 1]
    assert any("the costlier branch counts, the other has a count of 0" in line for line in graph.unknown)
    assert any("different shapes; the larger is assumed" in line for line in graph.unknown)


@pytest.mark.parametrize(("condition", "columns"), [(True, 4), (False, 6)])
def test_an_if_that_is_known_takes_one_branch(counted, multiply_adds, condition, columns):
    weights = {"w": zeros(4, 4), "v": zeros(4, 6), "c": np.array(condition)}
    graph = counted([choice("c")], {"x": [2, 4]}, weights=weights)
    assert multiply_adds(graph) == 2 * 4 * columns
    assert graph.ops[0].branch is None


def test_functions_of_the_model_are_opened(counted, multiply_adds):
    layer = helper.make_function(
        "own",
        "Layer",
        ["a", "b", "c"],
        ["z"],
        [
            node("Gemm", ["a", "b", "c"], ["p"]),
            helper.make_node("LeakyRelu", ["p"], ["z"]),
        ],
        [helper.make_opsetid("", 17)],
        ["alpha"],
    )
    reference = onnx.AttributeProto(name="alpha", ref_attr_name="alpha", type=onnx.AttributeProto.FLOAT)
    layer.node[1].attribute.append(reference)
    nodes = [
        node("Layer", ["x", "w", "bias"], ["h"], domain="own", name="/first/Layer", alpha=0.1),
        node("Layer", ["h", "w"], ["y"], domain="own", alpha=0.2),  # without a bias
    ]
    weights = {"w": zeros(4, 4), "bias": zeros(4)}
    graph = counted(nodes, {"x": [2, 4]}, weights=weights, domains=["own"], functions=[layer])
    assert multiply_adds(graph) == 2 * 2 * 4 * 4
    assert [(op.name, op.module) for op in graph.ops] == [
        ("Gemm", "first"),
        ("LeakyRelu", "first"),
        ("Gemm", "Layer"),
        ("LeakyRelu", "Layer"),
    ]
    assert [op.attrs["bias"] for op in graph.ops if op.kind == "matmul"] == [True, False]


def test_a_function_that_calls_itself(model):
    endless = helper.make_function(
        "own", "Layer", ["a"], ["z"], [node("Layer", ["a"], ["z"], domain="own")], [helper.make_opsetid("own", 1)]
    )
    path = model([node("Layer", ["x"], ["y"], domain="own")], {"x": [2]}, domains=["own"], functions=[endless])
    with pytest.raises(FileError, match="without end"):
        capture(path)
