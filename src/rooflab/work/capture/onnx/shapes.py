"""Types of a node's outputs: by ONNX's own inference, one node at a time with sizes and constants filled in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper, shape_inference

from rooflab.errors import RooflabError
from rooflab.work.capture.onnx import contrib
from rooflab.work.capture.onnx.dims import dim_label, evaluate
from rooflab.work.capture.onnx.values import Value, is_known

_IR_VERSION = 10  # of the messages handed to the inference; the file's own may be older than its opset

# ONNX defines them by other operators, through which its inference does not see.
_COMPARISONS = ("GreaterOrEqual", "LessOrEqual")
_LIKE_INPUT = ("GroupNormalization", "MeanVarianceNormalization")


class ShapeError(RooflabError):
    """A tensor whose shape cannot be worked out."""


def output_types(
    node: onnx.NodeProto,
    inputs: Sequence[Value | None],
    attrs: Mapping[str, Any],
    opsets: Mapping[str, int],
    declared: Mapping[str, onnx.TypeProto],
    sizes: Mapping[str, int],
) -> dict[str, onnx.TypeProto]:
    """Type by name of output, sizes all known.

    Args:
        opsets: version by domain, where the node stands.
        declared: types that the file states (value_info, graph outputs), used where inference gives none.
        sizes: sizes of symbolic dimensions, and of "tensor:axis".

    Raises:
        ShapeError: an output without a known shape, or inputs that the node does not take.
    """
    domain = "" if node.domain == "ai.onnx" else node.domain
    inferred: dict[str, onnx.TypeProto] = {}
    own = contrib.types(node, inputs, attrs)
    if own is not None:
        inferred = own
    elif node.op_type in _LIKE_INPUT and domain == "" and inputs and inputs[0] is not None:
        inferred = {node.output[0]: inputs[0].type}
    elif node.op_type in _COMPARISONS and domain == "" and None not in inputs:
        shape = np.broadcast_shapes(*(value.shape for value in inputs if value is not None))
        inferred = {node.output[0]: onnx.helper.make_tensor_type_proto(onnx.TensorProto.BOOL, shape)}
    elif onnx.defs.has(node.op_type, opsets.get(domain, 1), domain):
        inferred = _by_onnx(node, inputs, domain, opsets)
    types = {}
    for name in node.output:
        if name:
            candidates = [kind for kind in (inferred.get(name), declared.get(name)) if kind is not None]
            types[name] = _complete(node, name, candidates, sizes)
    return types


def _by_onnx(
    node: onnx.NodeProto, inputs: Sequence[Value | None], domain: str, opsets: Mapping[str, int]
) -> dict[str, onnx.TypeProto]:
    version = opsets.get(domain, 1)
    schema = onnx.defs.get_schema(node.op_type, version, domain)
    present = {name: value for name, value in zip(node.input, inputs, strict=True) if value is not None}
    types = {name: value.type for name, value in present.items()}
    data = {
        name: numpy_helper.from_array(np.ascontiguousarray(value.content).reshape(value.content.shape), name)
        for name, value in present.items()
        if value.content is not None
    }
    imports = [onnx.helper.make_opsetid(domain, version)]
    try:
        return shape_inference.infer_node_outputs(schema, node, types, data, None, imports, _IR_VERSION)
    except (shape_inference.InferenceError, onnx.checker.ValidationError) as error:
        shapes = ", ".join(str(list(value.shape)) for value in inputs if value is not None)
        reason = " ".join(str(error).split())
        raise ShapeError(f"{title(node)}: inputs {shapes} do not fit ({reason})") from None


def _complete(
    node: onnx.NodeProto, name: str, candidates: Sequence[onnx.TypeProto], sizes: Mapping[str, int]
) -> onnx.TypeProto:
    """The first of `candidates` that becomes known, sizes taken from `sizes` where it has their name."""
    wanting = ""
    for candidate in candidates:
        if candidate.HasField("tensor_type") and candidate.tensor_type.HasField("shape"):
            filled = onnx.TypeProto()
            filled.CopyFrom(candidate)
            for axis, dim in enumerate(filled.tensor_type.shape.dim):
                if dim.HasField("dim_value"):
                    continue
                label = dim_label(name, axis)
                size = sizes.get(label)
                if size is None and dim.dim_param:
                    size = evaluate(dim.dim_param, sizes)
                if size is None:
                    wanting = wanting or label
                else:
                    dim.dim_value = size
            candidate = filled
        if is_known(candidate):
            return candidate
    if wanting:
        raise ShapeError(
            f"tensor {name!r} of {title(node)}: its size along axis {wanting.rpartition(':')[2]} depends on data; "
            f"give it: --dim {wanting}=8"
        )
    raise ShapeError(
        f"tensor {name!r} of {title(node)}: shape inference gives no shape; "
        f"state it in the model's value_info (onnx.helper.make_tensor_value_info)"
    )


def title(node: onnx.NodeProto) -> str:
    """How errors call a node: "Conv 'name'"."""
    name = node.name or next((one for one in node.output if one), "")
    return f"{node.op_type} {name!r}"
