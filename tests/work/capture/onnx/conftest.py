"""Small ONNX models made for a test, and what is counted in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rooflab.types.work import Graph
from rooflab.work.capture.onnx import capture
from rooflab.work.costs import costs, uncosted

FLOAT, INT64 = 1, 7  # onnx.TensorProto's codes


@pytest.fixture
def model(tmp_path) -> Callable[..., Any]:
    """A function that writes a model and returns its path.

    inputs: name → shape (names or sizes), or (element type, shape). weights: name → array. Shapes of the
    outputs are left open, so that they must be worked out.
    """

    def write(nodes, inputs, outputs=("y",), weights=None, opset=17, domains=(), functions=(), value_info=()):
        onnx = pytest.importorskip("onnx")
        helper = onnx.helper
        typed = [
            helper.make_tensor_value_info(
                name, *(one if isinstance(one[0], int) and isinstance(one[1], (list, tuple)) else (FLOAT, one))
            )
            if len(one) > 1
            else helper.make_tensor_value_info(name, FLOAT, one)
            for name, one in inputs.items()
        ]
        graph = helper.make_graph(
            list(nodes),
            "test",
            typed,
            [helper.make_tensor_value_info(name, FLOAT, None) for name in outputs],
            [onnx.numpy_helper.from_array(array, name) for name, array in (weights or {}).items()],
            value_info=list(value_info),
        )
        imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(name, 1) for name in domains)]
        made = helper.make_model(graph, opset_imports=imports, functions=list(functions), ir_version=10)
        path = tmp_path / "model.onnx"
        path.write_bytes(made.SerializeToString())
        return path

    return write


@pytest.fixture
def counted(model) -> Callable[..., Graph]:
    """A function that writes a model, captures it, and asserts that every operation has a cost."""

    def run(*args, dims=None, **kwargs) -> Graph:
        graph = capture(model(*args, **kwargs), dims)
        assert uncosted(graph) == {}
        return graph

    return run


@pytest.fixture
def multiply_adds() -> Callable[[Graph], float]:
    """A function that returns the multiply-adds of matrix work in a graph."""
    return lambda graph: _flop(graph, "matrix") / 2


@pytest.fixture
def arithmetic() -> Callable[[Graph], tuple[float, float]]:
    """A function that returns the vector and special operations of a graph."""
    return lambda graph: (_flop(graph, "vector"), _flop(graph, "special"))


@pytest.fixture
def moved() -> Callable[[Graph], float]:
    """A function that returns the compulsory bytes of a graph."""
    return lambda graph: sum(
        cost.compulsory.nbytes * op.count for op, cost in zip(graph.ops, costs(graph), strict=True) if cost
    )


def _flop(graph: Graph, engine: str) -> float:
    return sum(
        flop.count * op.count
        for op, cost in zip(graph.ops, costs(graph), strict=True)
        if cost is not None
        for flop in cost.flop
        if flop.engine == engine
    )
