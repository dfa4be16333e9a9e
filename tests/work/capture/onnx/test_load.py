"""Files that are no model, or one that cannot be read: one line each."""

from __future__ import annotations

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from rooflab.errors import FileError, MissingExtraError, RooflabError  # noqa: E402
from rooflab.work.capture.onnx import capture  # noqa: E402

node = onnx.helper.make_node
RELU = [node("Relu", ["x"], ["y"])]


def test_no_such_file(tmp_path):
    with pytest.raises(FileError, match=r"none\.onnx: no such file"):
        capture(tmp_path / "none.onnx")


def test_without_onnx_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"reading an ONNX file needs onnx: .*rooflab\[onnx\]"):
        capture(tmp_path / "model.onnx")


def test_a_folder_is_refused(tmp_path):
    with pytest.raises(FileError, match="cannot be read"):
        capture(tmp_path)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.5, 0.9, 0.999])
def test_a_file_cut_short(model, share):
    made = [node("MatMul", ["x", "w"], ["y"])]
    path = model(made, {"x": [4, 64]}, weights={"w": np.ones((64, 64), np.float32)})
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(FileError, match="truncated or not ONNX"):
        capture(path)


def test_text_is_not_onnx(tmp_path):
    path = tmp_path / "model.onnx"
    path.write_text("version https://git-lfs.github.com/spec/v1\n")
    with pytest.raises(FileError, match="truncated or not ONNX"):
        capture(path)


@pytest.mark.parametrize(
    ("opset", "step"),
    [(6, "convert it with"), (999, "install a newer onnx, or export the model with an older opset")],
)
def test_an_opset_out_of_range(model, opset, step):
    with pytest.raises(FileError, match=rf"got opset {opset}, expected 7 to \d+; {step}"):
        capture(model(RELU, {"x": [2]}, opset=opset))


def test_an_opset_newer_than_the_tested_ones_is_stated(model):
    if onnx.defs.onnx_opset_version() < 24:
        pytest.skip("the installed onnx knows no opset newer than 23")
    graph = capture(model(RELU, {"x": [2]}, opset=24))
    assert any("opset 24 is newer than 23" in line for line in graph.conventions)


def test_an_input_that_nothing_makes(model):
    with pytest.raises(FileError, match="Relu 'y': no node and no input makes its input 'absent'"):
        capture(model([node("Relu", ["absent"], ["y"])], {"x": [2]}))


def test_an_input_without_a_rank(model, tmp_path):
    path = model(RELU, {"x": [2]})
    made = onnx.load(path)
    made.graph.input[0].type.tensor_type.ClearField("shape")
    path.write_bytes(made.SerializeToString())
    with pytest.raises(RooflabError, match="input 'x' has no shape, not even a number of dimensions"):
        capture(path)


def test_weights_beside_the_file_are_not_read(model):
    path = model([node("MatMul", ["x", "w"], ["y"])], {"x": [4, 64]}, weights={"w": np.ones((64, 64), np.float32)})
    made = onnx.load(path)
    onnx.external_data_helper.convert_model_to_external_data(made, location="absent.bin", size_threshold=0)
    made.graph.initializer[0].ClearField("raw_data")
    path.write_bytes(made.SerializeToString())
    graph = capture(path)
    (weight,) = [spec for spec in graph.tensors if spec.role == "parameter"]
    assert (weight.shape, weight.nbytes) == ((64, 64), 4 * 64 * 64)


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (node("Conv", ["x"], ["y"]), "Conv 'y': inputs"),
        (node("Concat", ["x", "x"], ["y"]), "Concat 'y': inputs [2, 3, 4, 4], [2, 3, 4, 4] do not fit (Required"),
        (node("Constant", [], ["y"]), "Constant 'y': cannot be read (StopIteration"),
        (node("MatMulNBits", ["x", "x", "x"], ["y"], domain="com.microsoft"), "tensor 'y' of MatMulNBits 'y'"),
        (node("Cast", ["x"], ["y"], to="float"), "Cast 'y'"),
    ],
)
def test_a_node_that_lacks_something(model, made, words):
    with pytest.raises(FileError) as caught:
        capture(model([made], {"x": [2, 3, 4, 4]}, domains=["com.microsoft"]))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
