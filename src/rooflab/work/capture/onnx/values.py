"""What is known of a value of an ONNX graph: its type, its tensor, and its content where that is small."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from rooflab.errors import RooflabError
from rooflab.types.work import Role, TensorSpec

SMALL = 1024  # elements up to which the content of a constant is kept: shapes, axes, scales
_DTYPES: dict[int, tuple[str, int]] = {
    TensorProto.FLOAT: ("fp32", 32),
    TensorProto.DOUBLE: ("fp64", 64),
    TensorProto.FLOAT16: ("fp16", 16),
    TensorProto.BFLOAT16: ("bf16", 16),
    TensorProto.FLOAT8E4M3FN: ("fp8", 8),
    TensorProto.FLOAT8E4M3FNUZ: ("fp8", 8),
    TensorProto.FLOAT8E5M2: ("fp8", 8),
    TensorProto.FLOAT8E5M2FNUZ: ("fp8", 8),
    TensorProto.FLOAT8E8M0: ("fp8", 8),
    TensorProto.FLOAT4E2M1: ("fp4", 4),
    TensorProto.INT64: ("int64", 64),
    TensorProto.UINT64: ("int64", 64),
    TensorProto.INT32: ("int32", 32),
    TensorProto.UINT32: ("int32", 32),
    TensorProto.INT16: ("int16", 16),
    TensorProto.UINT16: ("int16", 16),
    TensorProto.INT8: ("int8", 8),
    TensorProto.UINT8: ("int8", 8),
    TensorProto.INT4: ("int4", 4),
    TensorProto.UINT4: ("int4", 4),
    TensorProto.BOOL: ("bool", 8),
    TensorProto.COMPLEX64: ("complex64", 64),
    TensorProto.COMPLEX128: ("complex128", 128),
    TensorProto.STRING: ("int64", 64),  # a pointer each; the characters are not counted
}
_TWO_BITS = ("INT2", "UINT2")  # in newer releases of onnx only


class Value(NamedTuple):
    """A value of the graph.

    Attributes:
        type: as ONNX states it, sizes filled in.
        spec: the tensor; None for sequences, optionals and the like.
        number: of the tensor in the graph that is being built; -1 before it has one.
        content: elements of a small constant; None where not constant, or large.
        static: known when the model is loaded: a weight, or computed from weights alone.
    """

    type: onnx.TypeProto
    spec: TensorSpec | None
    number: int = -1
    content: np.ndarray | None = None
    static: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes; empty for what is not a tensor."""
        return self.spec.shape if self.spec else ()


def of_type(name: str, kind: onnx.TypeProto, role: Role = "activation") -> Value:
    """A value of a type whose sizes are all known."""
    if not kind.HasField("tensor_type"):
        return Value(kind, None)
    return Value(kind, tensor_spec(name, kind.tensor_type.elem_type, sizes_of(kind), role))


def of_constant(name: str, tensor: TensorProto) -> Value:
    """A value for an initialiser or a Constant: its content where small and in the file, never a big weight."""
    count = math.prod(tensor.dims)
    small = (
        count <= SMALL and tensor.data_location != TensorProto.EXTERNAL and tensor.data_type != TensorProto.STRING
    )
    content = content_of(tensor, name) if small else None
    kind = onnx.helper.make_tensor_type_proto(tensor.data_type, tuple(tensor.dims))
    role: Role = "constant" if small and _is_control(tensor.data_type, count) else "parameter"
    return Value(kind, tensor_spec(name, tensor.data_type, tuple(tensor.dims), role), -1, content, True)


def content_of(tensor: TensorProto, name: str) -> np.ndarray:
    """The numbers in `tensor`.

    Raises:
        RooflabError: they are not as many as its shape says, or of a type that is not known.
    """
    try:
        return numpy_helper.to_array(tensor)
    except (ValueError, TypeError, KeyError) as error:
        raise RooflabError(
            f"tensor {name!r}: its content does not fit its type and its shape {list(tensor.dims)} ({error});"
            " export the model again"
        ) from None


def of_content(name: str, content: np.ndarray) -> Value:
    """A value for a constant that was worked out here."""
    code = onnx.helper.np_dtype_to_tensor_dtype(content.dtype)
    kind = onnx.helper.make_tensor_type_proto(code, content.shape)
    role: Role = "constant" if _is_control(code, content.size) else "parameter"
    return Value(kind, tensor_spec(name, code, content.shape, role), -1, content, True)


def tensor_spec(name: str, code: int, shape: tuple[int, ...], role: Role = "activation") -> TensorSpec:
    """A contiguous tensor of the ONNX element type `code`."""
    dtype, bits = _format(code)
    return TensorSpec(shape=shape, dtype=dtype, nbytes=math.prod(shape) * bits / 8, role=role, name=name)


def sizes_of(kind: onnx.TypeProto) -> tuple[int, ...]:
    """Sizes of a tensor type that are all known."""
    return tuple(dim.dim_value for dim in kind.tensor_type.shape.dim)


def is_known(kind: onnx.TypeProto) -> bool:
    """Whether every size is known; true for what is not a tensor."""
    if not kind.HasField("tensor_type"):
        return kind.WhichOneof("value") is not None
    tensor = kind.tensor_type
    return (
        tensor.elem_type != 0
        and tensor.HasField("shape")
        and all(dim.HasField("dim_value") for dim in tensor.shape.dim)
    )


def attributes(node: onnx.NodeProto) -> dict[str, Any]:
    """Attributes by name; text decoded, tensors and graphs left as messages."""
    return {
        one.name: _plain(onnx.helper.get_attribute_value(one)) for one in node.attribute if not one.ref_attr_name
    }


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, list):
        return tuple(_plain(one) for one in value)
    return value


def _is_control(code: int, count: int) -> bool:
    """Whether a small constant is a shape, axis or flag rather than a weight."""
    whole = (TensorProto.INT64, TensorProto.INT32, TensorProto.BOOL, TensorProto.UINT64, TensorProto.UINT32)
    return code in whole or count <= 1


def _format(code: int) -> tuple[str, int]:
    if code in _DTYPES:
        return _DTYPES[code]
    if code in TensorProto.DataType.values() and TensorProto.DataType.Name(code) in _TWO_BITS:
        return "int4", 2  # the narrowest whole-number format that has a name; bytes are exact
    raise RooflabError(f"a tensor has the unknown element type {code}; export the model again")
