"""ONNX files as a `Graph`: shapes worked out, constants folded, loops multiplied, weights never loaded."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path

from rooflab.errors import MissingExtraError
from rooflab.types.work import Graph


def capture(path: str | Path, dims: Mapping[str, int] | None = None) -> Graph:
    """The operations that one run of the model at `path` asks for.

    Args:
        path: an ONNX file, opset 7 to 23 (newer ones as far as the installed onnx knows them). Weights
            beside it (external data) are not read.
        dims: sizes of the symbolic dimensions by name ("batch"), of nameless ones as "input:axis", of sizes
            that depend on data as "tensor:axis", and trips of loops as "node:trips".
            A batch dimension that is not given is 1; the conventions of the graph say so.

    Raises:
        MissingExtraError: onnx is not installed.
        FileError: no such file, cut in half, an opset out of range, a shape that cannot be worked out.
        RooflabError: a symbolic dimension without a size, or a size for a name that the model does not have.
    """
    if importlib.util.find_spec("onnx") is None:
        raise MissingExtraError("onnx", "onnx", "reading an ONNX file")
    from rooflab.work.capture.onnx.model import graph_of

    return graph_of(Path(path), dims or {})
