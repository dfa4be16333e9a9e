"""Writes an ONNX file to analyze, its batch left open: `python examples/write_onnx.py layers.onnx`."""

import sys

import numpy as np
from onnx import TensorProto, checker, helper, numpy_helper, save


def write(path: str) -> None:
    """Two linear layers and a ReLU, as an exporter writes them."""
    rng = np.random.default_rng(0)
    weights = [
        numpy_helper.from_array(rng.standard_normal(shape, np.float32), name)
        for name, shape in (("up", (1024, 4096)), ("down", (4096, 1024)))
    ]
    nodes = [
        helper.make_node("MatMul", ["x", "up"], ["wide"]),
        helper.make_node("Relu", ["wide"], ["active"]),
        helper.make_node("MatMul", ["active", "down"], ["y"]),
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 1024]) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "layers", ends[:1], ends[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    checker.check_model(model)
    save(model, path)


if __name__ == "__main__":
    write(sys.argv[1] if len(sys.argv) > 1 else "layers.onnx")
