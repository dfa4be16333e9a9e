"""Which framework captures a program: decided by what it is given, whatever else is imported."""

from __future__ import annotations

import numpy as np
import pytest

import rooflab
from rooflab.errors import RooflabError, UnknownNameError
from rooflab.work import front_end


def test_torch_is_known_by_a_module_or_a_tensor_anywhere_in_the_inputs():
    torch = pytest.importorskip("torch")
    x = torch.empty(2, 3)
    assert front_end.choose(torch.nn.Linear(3, 4), (), {}) == "torch"
    assert front_end.choose(max, (), {"x": [{"deep": (x,)}]}) == "torch"
    # A closure has no tensor among its inputs.
    assert front_end.choose(lambda: x + 1, (), {}) == "torch"


def test_an_optimizer_may_be_named():
    torch = pytest.importorskip("torch")
    layer = torch.nn.Linear(8, 4, bias=False)
    found = rooflab.analyze(layer, torch.empty(2, 8), backward=True, optimizer="SGD")
    assert "optimizer" in {row.op.phase for row in found.rows}
    assert found.memory.gradients_bytes == found.memory.parameters_bytes == 4 * 8 * 4
    adam = rooflab.analyze(layer, torch.empty(2, 8), backward=True, optimizer="adam")
    # two moments of the parameters' size, beside the counter of steps
    assert adam.memory.optimizer_state_bytes >= 2 * 4 * 8 * 4
    with pytest.raises(UnknownNameError, match="unknown optimizer 'adamm'; did you mean adam"):
        rooflab.analyze(layer, torch.empty(2, 8), backward=True, optimizer="adamm")


def test_jax_is_known_by_arrays_shapes_and_what_jit_gives():
    jax = pytest.importorskip("jax")
    shape = jax.ShapeDtypeStruct((64, 64), "float32")
    assert front_end.choose(max, (shape,), {}) == "jax"
    assert front_end.choose(jax.jit(lambda x: x), (np.zeros(3),), {}) == "jax"
    found = rooflab.analyze(lambda a: a @ a, shape, machine="h200")
    # 2·64³; the same operand is read once
    assert (found.flop, found.nbytes) == (524_288, 2 * 4 * 64 * 64)
    assert found.graph.framework == "jax"
    assert set(found.environment) == {"python", "jax"}


def test_tensors_of_two_frameworks_are_refused():
    torch, jax = pytest.importorskip("torch"), pytest.importorskip("jax")
    with pytest.raises(RooflabError, match="tensors of PyTorch and JAX in one program, expected those of one"):
        front_end.choose(max, (torch.empty(2), jax.ShapeDtypeStruct((2,), "float32")), {})


def test_an_onnx_file_is_known_by_its_name(tmp_path):
    assert front_end.choose("some/model.ONNX", (), {}) == "onnx"
    assert front_end.choose(tmp_path / "model.onnx", (), {}) == "onnx"
    with pytest.raises(RooflabError, match="an ONNX file takes no inputs"):
        rooflab.analyze("model.onnx", np.zeros(3))


def test_names_of_reports():
    assert front_end.name_of("folder/model.onnx") == "model.onnx"
    assert front_end.name_of(np.zeros) == "zeros"
    assert front_end.name_of(np.zeros(3)) == "ndarray"


@pytest.mark.parametrize("device", ["xyz", "cuda:0", "CPU", ""])
def test_a_device_that_is_none_is_refused_before_the_program_runs(device):
    ran = []
    with pytest.raises(RooflabError, match=rf"^unknown device '{device}'; known: cuda .*, cpu$"):
        front_end.capture(ran.append, (1,), None, front_end.CaptureOptions(device=device))
    assert ran == []


def test_a_language_model_is_known_by_its_name_or_its_configuration(tmp_path):
    assert front_end.choose("meta-llama/Llama-3.1-8B", (), {}) == "config"
    assert front_end.choose(tmp_path / "config.json", (), {}) == "config"
    found = rooflab.analyze("llama-3.2-1b", dims={"batch": 4, "context": 100})
    # Every weight once for each of 4 tokens, the table of tokens as the head too; 4 x 16 layers of attention
    products = sum(row.flop for row in found.rows if row.op.kind == "matmul")
    assert products == 2 * 4 * (1_235_814_400 - 33 * 2048)
    with pytest.raises(UnknownNameError, match="unknown size of a language model 'token'; did you mean tokens"):
        rooflab.analyze("llama-3.2-1b", dims={"token": 4})
    with pytest.raises(RooflabError, match="a model's configuration takes no inputs"):
        rooflab.analyze("llama-3.2-1b", np.zeros(3))
