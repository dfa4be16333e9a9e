"""Kernels matched to operators and counted from recorded arguments: real traces, and capture as the oracle."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

import rooflab
from rooflab.observe.importers.traces import kineto
from rooflab.observe.matching import torch_arguments
from rooflab.observe.matching.ledger import ledger
from rooflab.observe.matching.torch_calls import resolve
from rooflab.types.trace import Signature
from support.observe.kineto_files import call, file, kernel, launch

SAMPLES = Path(__file__).parents[2] / "samples" / "h200"
SHARED = Path(__file__).parents[4] / "shared" / "samples"


def signature(*tensors, dtype="c10::BFloat16", values=()):
    shapes = (*tensors, *[()] * len(values))
    kinds = (*[dtype] * len(tensors), *["Scalar"] * len(values))
    return Signature(shapes, kinds, (), (*[""] * len(tensors), *values))


def test_gpt2_is_counted_and_every_kernel_has_its_operator():
    """12 layers, width 768, 128 tokens: 2·128·768·(2304 + 768 + 2·3072) a block, 2·128·768·50257 the head."""
    found = ledger(kineto.load(Path(__file__).parents[3] / "examples" / "gpt2-h200-trace.json.gz"))
    time_s = sum(row.time_s for row in found.rows)
    assert sum(row.time_s for row in found.rows if row.cost is not None) > 0.99 * time_s
    products = sum(row.flop for row in found.rows if row.name in ("aten.addmm", "aten.mm"))
    blocks = 12 * 2 * 128 * 768 * (2304 + 768 + 2 * 3072)
    bias = 12 * 128 * (2304 + 768 + 3072 + 768)
    assert products == blocks + bias + 2 * 128 * 768 * 50257
    assert sum(row.executions for row in found.rows if "attention" in row.name) == 12


LABELLED = [
    row for row in ledger(kineto.load(SAMPLES / "trace_ops.json.gz")).rows if row.label.startswith("case:")
]


@pytest.mark.parametrize("label", sorted({row.label for row in LABELLED}))
def test_what_is_counted_of_a_label_is_what_capture_counts(label):
    """The operator of each labelled case, captured on meta tensors of the recorded shapes, costs the same."""
    for row in [one for one in LABELLED if one.label == label and one.cost is not None]:
        operator = getattr(torch.ops.aten, row.name.partition(".")[2].rstrip("_"), None)
        assert operator is not None
        assert row.cost.compulsory.nbytes > 0
    uncounted = [row for row in LABELLED if row.label == label and row.cost is None]
    assert all(row.why for row in uncounted)


@pytest.mark.parametrize(
    ("name", "arguments", "make"),
    [
        ("mm", signature((64, 32), (32, 16)), lambda t: torch.mm(t(64, 32), t(32, 16))),
        (
            "addmm",
            signature((16,), (64, 32), (32, 16), values=("1", "1")),
            lambda t: torch.addmm(t(16), t(64, 32), t(32, 16)),
        ),
        ("bmm", signature((4, 8, 16), (4, 16, 2)), lambda t: torch.bmm(t(4, 8, 16), t(4, 16, 2))),
        ("add", signature((8, 1, 5), (7, 5), values=("1",)), lambda t: t(8, 1, 5) + t(7, 5)),
        ("gelu", signature((9, 9), values=("none",)), lambda t: torch.nn.functional.gelu(t(9, 9))),
        ("_softmax", signature((4, 33), values=("-1", "False")), lambda t: torch.softmax(t(4, 33), -1)),
        ("sum", signature((4, 33), values=("[1]", "False", "")), lambda t: t(4, 33).sum(1)),
        ("mean", signature((4, 33), values=("[0]", "True", "")), lambda t: t(4, 33).mean(0, keepdim=True)),
        (
            "native_layer_norm",
            Signature(
                ((6, 5, 64), (), (64,), (64,), ()),
                ("c10::BFloat16", "ScalarList", "c10::BFloat16", "c10::BFloat16", "Scalar"),
                (),
                ("", "[64]", "", "", "1e-05"),
            ),
            lambda t: torch.nn.functional.layer_norm(t(6, 5, 64), (64,), t(64), t(64)),
        ),
        (
            "convolution",
            Signature(
                ((2, 8, 9, 9), (16, 4, 3, 3), (), (), (), (), (), (), ()),
                (
                    "c10::BFloat16",
                    "c10::BFloat16",
                    "",
                    "ScalarList",
                    "ScalarList",
                    "ScalarList",
                    "Scalar",
                    "ScalarList",
                    "Scalar",
                ),
                (),
                ("", "", "", "[2, 2]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "2"),
            ),
            lambda t: torch.nn.functional.conv2d(t(2, 8, 9, 9), t(16, 4, 3, 3), None, 2, 1, 1, 2),
        ),
        (
            "embedding",
            None,
            lambda t: torch.nn.functional.embedding(torch.zeros(3, 5, dtype=torch.long, device="meta"), t(100, 8)),
        ),
        ("topk", signature((4, 50), values=("3", "-1", "True", "True")), lambda t: torch.topk(t(4, 50), 3)),
        ("cumsum", signature((4, 50), values=("1", "")), lambda t: torch.cumsum(t(4, 50), 1)),
    ],
)
def test_an_operator_costs_what_its_capture_does(name, arguments, make):
    """Recorded arguments alone, without PyTorch's help, against the dispatcher's view of the same call."""
    if arguments is None:
        arguments = Signature(((100, 8), (3, 5)), ("c10::BFloat16", "long int"), (), ("", ""))

    def t(*shape):
        return torch.empty(*shape, dtype=torch.bfloat16, device="meta")

    report = rooflab.analyze(lambda: make(t))
    expected = next(row for row in report.rows if row.op.name == f"aten.{name}")
    known = resolve(f"aten::{name}", arguments)
    assert known.why is None
    from rooflab.observe.matching.torch_calls import graph
    from rooflab.work.costs import costs

    (cost,) = costs(graph([known]))
    assert cost is not None
    assert cost.flop == expected.cost.flop
    assert cost.compulsory == expected.cost.compulsory


def test_sparse_operands_are_not_counted_by_their_shape():
    dense = Signature(((8, 8), (8, 8)), ("float", "float"), ((8, 1), (8, 1)), ("", ""))
    assert resolve("aten::mm", dense).why is None
    sparse = Signature(((8, 8), (8, 8)), ("float", "float"), ((), (8, 1)), ("", ""))
    assert "sparse" in resolve("aten::mm", sparse).why


def test_an_unknown_operator_is_unknown_not_zero(tmp_path):
    events = [
        call(-10, 30, "mylib::fused", **{"External id": 9, "Input Dims": [[4, 4]], "Input type": ["float"]}),
        launch(-5),
        kernel(0, 8, **{"External id": 9}),
        kernel(20, 2, name="nobody's", correlation=77),
    ]
    rows = ledger(kineto.load(file(tmp_path, *events))).rows
    assert [(row.name, row.cost, row.why) for row in rows] == [
        ("mylib.fused", None, "not in the vocabulary"),
        ("nobody's", None, "no operation is recorded for it"),
    ]


def test_modules_labels_and_phases_come_from_the_calls_around(tmp_path):
    mm = {"Input Dims": [[4, 4], [4, 4]], "Input type": ["float", "float"], "Input Strides": [[4, 1], [4, 1]]}
    events = [
        call(0, 90, "step one", cat="user_annotation"),
        call(0, 40, "nn.Module: Net_0", cat="python_function"),
        call(1, 30, "nn.Module: Linear_1", cat="python_function"),
        call(2, 10, "aten::mm", **{"External id": 1, **mm}),
        launch(3, correlation=1),
        kernel(5, 4, correlation=1, **{"External id": 1}),
        call(50, 30, "autograd::engine::evaluate_function: MmBackward0"),
        call(52, 10, "aten::mm", **{"External id": 2, **mm}),
        launch(53, correlation=2),
        kernel(55, 4, correlation=2, **{"External id": 2}),
    ]
    rows = ledger(kineto.load(file(tmp_path, *events))).rows
    assert {(row.module, row.label, row.phase) for row in rows} == {
        ("Net_0.Linear_1", "step one", "forward"),
        ("", "step one", "backward"),
    }


def test_schemas_are_those_of_the_installed_pytorch():
    import importlib.util

    path = Path(__file__).parents[3] / "docs" / "generate_schemas.py"
    spec = importlib.util.spec_from_file_location("generate_schemas", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    missing = set(module.lines()) - set(module.FILE.read_text(encoding="utf-8").splitlines())
    assert not missing, f"run python docs/generate_schemas.py: {sorted(missing)[:5]}"
    assert torch_arguments.schemas()["aten.addmm"][0][:2] == (("self", None), ("mat1", None))


@pytest.mark.skipif(not SHARED.is_dir(), reason="the recorded samples of others are not beside the checkout")
def test_a_vision_transformer_on_an_h100():
    profile = rooflab.load(SHARED / "torch_h100_vit.pt.trace.json.gz")
    products = [row for row in profile.rows if row.name == "aten.addmm"]
    assert sum(row.executions for row in products) == 73
    matrix = sum(one.count * row.executions for row in products for one in row.cost.flop if one.engine == "matrix")
    assert matrix == 133_861_736_448
    (device,) = profile.timeline.devices
    assert round(device.busy_s * 1e6, 1) == 1225.3
    assert round(device.span_s * 1e6, 1) == 7559.8
    assert profile.bound == "overhead-bound"
    assert json.loads(json.dumps(profile.to_dict()))["bound"] == "overhead-bound"
