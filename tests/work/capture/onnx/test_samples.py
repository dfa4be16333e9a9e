"""Two published models, counted exactly."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("onnx")

from rooflab.work.capture.onnx import capture
from rooflab.work.costs import costs, uncosted

SAMPLES = Path(__file__).resolve().parents[5] / "shared" / "samples"


@pytest.mark.parametrize(
    ("name", "multiply_adds", "parameters"),
    [
        # Convolutions 4,087,136,256, and 2048 × 1000 of the classifier. Parameters: 25,557,032, and the running
        # means and variances of 53 batch norms, 2 × 26,560.
        ("light_resnet50.onnx", 4_089_184_256, 25_610_152),
        ("light_shufflenet.onnx", 124_664_528, 1_420_152),  # grouped 1 × 1 and depthwise 3 × 3 convolutions
    ],
)
def test_multiply_adds_and_parameters_of_published_models(name, multiply_adds, parameters):
    path = SAMPLES / name
    if not path.exists():
        pytest.skip(f"the sample models are not beside this checkout ({path})")
    graph = capture(path)
    found = costs(graph)
    matrix = sum(
        flop.count * op.count
        for op, cost in zip(graph.ops, found, strict=True)
        if cost is not None
        for flop in cost.flop
        if flop.engine == "matrix"
    )
    assert matrix / 2 == multiply_adds
    held = {spec.storage: spec.elements for spec in graph.tensors if spec.role == "parameter"}
    assert sum(held.values()) == parameters
    assert uncosted(graph) == {}
    assert graph.unknown == ()
