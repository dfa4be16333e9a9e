"""An ONNX file as its protobuf message, checked to be one that can be counted; weights are not loaded."""

from __future__ import annotations

from pathlib import Path

import onnx
from google.protobuf.message import DecodeError

from rooflab.errors import FileError

OLDEST_OPSET = 7  # below, broadcasting is an attribute of each node
TESTED_OPSET = 23  # newer ones are read as far as the installed onnx knows them, and the graph says so
_DEFAULT_DOMAINS = ("", "ai.onnx")


def load(path: Path) -> onnx.ModelProto:
    """The model in the file at `path`, external weights left where they are.

    Raises:
        FileError: no such file, a file cut in half or of another kind, an empty graph, an opset out of range.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise FileError(f"{path}: no such file; give the path of an ONNX model") from None
    except OSError as error:
        raise FileError(f"{path}: cannot be read ({error.strerror}); give the path of an ONNX model") from None
    model = onnx.ModelProto()
    try:
        model.ParseFromString(content)
    except DecodeError:
        raise FileError(f"{path}: file is truncated or not ONNX; copy or export it again") from None
    if not model.HasField("graph") or not (model.graph.node or model.graph.output):
        raise FileError(f"{path}: file is truncated or not ONNX (it holds no graph); copy or export it again")
    _check_opset(path, model)
    return model


def opsets(imports: onnx.ModelProto | onnx.FunctionProto) -> dict[str, int]:
    """Version by domain; the standard domain is ""."""
    return {"" if one.domain in _DEFAULT_DOMAINS else one.domain: one.version for one in imports.opset_import}


def _check_opset(path: Path, model: onnx.ModelProto) -> None:
    version, newest = opsets(model).get(""), onnx.defs.onnx_opset_version()
    if version is None or OLDEST_OPSET <= version <= newest:
        return
    step = "convert it with onnx.version_converter.convert_version(model, 17)"
    if version > newest:
        step = "install a newer onnx, or export the model with an older opset"
    raise FileError(f"{path}: opset_import: got opset {version}, expected {OLDEST_OPSET} to {newest}; {step}")
