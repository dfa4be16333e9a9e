"""Every op of whole models has a kind and a cost, forward and backward."""

import importlib.util
import warnings
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from rooflab.work.capture.torch import capture  # noqa: E402
from rooflab.work.costs import costs, uncosted  # noqa: E402

TRUTH = Path(__file__).resolve().parents[5] / "shared" / "truth"
MODELS = (
    *("mlp-b8", "pointwise-b8", "naiveattn-b1-t128", "gpt2-b1-t128", "llama1b-b1-t16", "llama1b-b1-t1-c64"),
    *("llama8b-b1-t16", "resnet50-b2", "vit-b2", "moe-t64"),
)


def load(name):
    path = TRUTH / f"{name}.py"
    if not path.exists():
        pytest.skip(f"{path.name}: the measured models are not beside this checkout")
    spec = importlib.util.spec_from_file_location(f"truth_{name}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_every_operation_of_measured_models_is_counted(name, backward):
    module, inputs = load("models").build(name, "meta")
    if not list(module.parameters()):
        inputs = tuple(one.requires_grad_(backward) for one in inputs)
    with torch.set_grad_enabled(backward):
        graph = capture(module, inputs, backward=backward)
    assert uncosted(graph) == {}
    assert {op.phase for op in graph.ops} == ({"forward", "backward"} if backward else {"forward"})
    assert sum(cost.total_flop for cost in costs(graph)) > 0


@pytest.mark.slow
def test_every_measured_operator_is_counted():
    ops = load("ops")
    missing, seen = {}, 0
    for case in ops.cases():
        device = "meta"
        if case["op"].startswith(("adam", "spmv")):  # need real tensors: smaller ones here
            device = "cpu"
            case["tensors"] = [{**one, "shape": [1000]} for one in case["tensors"]]
            case["kwargs"] = {**case["kwargs"], **({"rows": 1000} if "rows" in case["kwargs"] else {})}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyTorch calls its CSR support a beta
            graph = capture(ops.runner(case, device))
        seen += 1
        if uncosted(graph):
            missing[case["id"]] = uncosted(graph)
    assert missing == {}
    assert seen > 200


def test_parameters_of_a_known_model():
    module, inputs = load("models").build("gpt2-b1-t128", "meta")
    graph = capture(module, inputs)
    # GPT-2 small, 124,439,808, and a head of its own: 50,257·768 more; its layers have no tied weights
    assert sum(one.elements for one in graph.held("parameter")) == sum(one.numel() for one in module.parameters())
    assert sum(one.elements for one in graph.held("parameter")) == 124_439_808 + 50_257 * 768
