"""Recorded arguments of PyTorch's operators by name: tensors without data, and values read from their text."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from rooflab import dtypes
from rooflab.types.trace import Signature

# PyTorch's C++ names of number formats, as its profiler writes them.
_DTYPES = {
    "float": "fp32",
    "double": "fp64",
    "c10::Half": "fp16",
    "c10::BFloat16": "bf16",
    "c10::Float8_e4m3fn": "fp8",
    "c10::Float8_e5m2": "fp8",
    "c10::complex<float>": "complex64",
    "c10::complex<double>": "complex128",
    "long int": "int64",
    "long": "int64",
    "long long": "int64",
    "int": "int32",
    "short": "int16",
    "short int": "int16",
    "signed char": "int8",
    "unsigned char": "int8",
    "bool": "bool",
}
# The numbers of c10::ScalarType: what an argument of a number format is recorded as.
SCALAR_TYPES = {
    0: "int8",
    1: "int8",
    2: "int16",
    3: "int32",
    4: "int64",
    5: "fp16",
    6: "fp32",
    7: "fp64",
    9: "complex64",
    10: "complex128",
    11: "bool",
    15: "bf16",
    23: "fp8",
    24: "fp8",
    25: "fp8",
    26: "fp8",
}
_POINT = re.compile(r"(?<=\d)\.(?!\d)")
_LIST = "TensorList"
_SCALAR = "Scalar"


class Seen:
    """A tensor as a profiler saw it; what recipes of the vocabulary ask of a tensor.

    Attributes:
        shape, strides: in elements; strides None where not recorded.
        dtype: rooflab's name; None where not recorded.
        dense: False where the profiler recorded strides of other tensors but none of this: a sparse one, whose
            shape says nothing of its bytes.
    """

    layout = None

    def __init__(
        self,
        shape: tuple[int, ...],
        dtype: str | None,
        strides: tuple[int, ...] | None = None,
        dense: bool = True,
    ) -> None:
        self.shape, self.dtype, self.dense = shape, dtype, dense
        self.strides = strides if strides is not None and len(strides) == len(shape) else None

    def dim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    def numel(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    def stride(self) -> tuple[int, ...]:
        """Strides; those of a contiguous tensor where none were recorded."""
        return self.strides if self.strides is not None else contiguous(self.shape)

    def is_contiguous(self) -> bool:
        """Whether its elements lie in order, without gaps."""
        return all(
            size == 1 or own == plain
            for size, own, plain in zip(self.shape, self.stride(), contiguous(self.shape), strict=True)
        )

    @property
    def nbytes(self) -> float | None:
        """Bytes that a reader of all of it touches: a dimension of stride 0 counts once."""
        if self.dtype is None:
            return None
        count = math.prod(size for size, step in zip(self.shape, self.stride(), strict=True) if step or size == 0)
        return count * dtypes.dtype(self.dtype).nbytes


def contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of a tensor of `shape` whose elements lie in order."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


@cache
def schemas() -> Mapping[str, tuple[tuple[tuple[str, Any], ...], ...]]:
    """Operator → its overloads, each as its arguments' names and defaults, in order."""
    text = (files("rooflab.work") / "vocab" / "torch_schemas.txt").read_text(encoding="utf-8")
    found: dict[str, list[tuple[tuple[str, Any], ...]]] = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            name, *arguments = line.split(" ")
            found.setdefault(name, []).append(tuple(map(_argument, arguments)))
    return {name: tuple(several) for name, several in found.items()}


def _argument(text: str) -> tuple[str, Any]:
    name, given, default = text.partition("=")
    return name, value(default) if given else None


def value(text: Any) -> Any:
    """The number, truth value or list that `text` is; None for nothing, else the text itself."""
    if not isinstance(text, str) or text in ("", "None"):
        return None
    if text in ("True", "False"):
        return text == "True"
    if text in ("inf", "-inf", "nan"):
        return float(text)
    if text.startswith("["):
        # As C++ writes them: truth values with capitals, whole numbers in floating point as "2.".
        text = _POINT.sub(".0", text.replace("True", "true").replace("False", "false"))
    try:
        found = json.loads(text + "0" if text.endswith(".") else text)
    except (json.JSONDecodeError, RecursionError):
        return text
    return tuple(found) if isinstance(found, list) else found


def arguments(name: str, signature: Signature) -> dict[str, Any] | None:
    """The arguments of a call of `name` ("aten.addmm") by name; None where its schema is not known.

    Tensors are `Seen`, lists of them lists of `Seen`, of a number format that may be None.
    """
    overloads = schemas().get(name)
    if overloads is None:
        return None
    given = [one_argument(signature, place) for place in range(len(signature.shapes))]
    best = max(overloads, key=lambda overload: _fit(overload, given))
    named = dict(best)
    named.update({argument: one for (argument, _), one in zip(best, given, strict=False) if one is not None})
    return named


def _fit(overload: tuple[tuple[str, Any], ...], given: list[Any]) -> tuple[bool, int]:
    """How well `given` may be arguments of `overload`: as many, and of the kind of their defaults."""
    same = sum(
        type(default) is type(one)
        for (_, default), one in zip(overload, given, strict=False)
        if default is not None
    )
    return len(overload) == len(given), same


def one_argument(signature: Signature, place: int) -> Any:
    """The argument at `place`: a `Seen`, a list of them, or a value; None where nothing is recorded."""
    shape, kind = signature.shapes[place], signature.dtypes[place] if place < len(signature.dtypes) else ""
    strides = signature.strides[place] if place < len(signature.strides) else None
    if kind == _LIST:
        # Number formats of a list's tensors are not recorded.
        return [
            Seen(one, None, strides[number] if isinstance(strides, tuple) and number < len(strides) else None)
            for number, one in enumerate(shape)
            if isinstance(one, tuple)
        ]
    if kind in ("", _SCALAR, "ScalarList"):
        return value(signature.values[place]) if place < len(signature.values) else None
    if not _is_shape(shape):
        return None
    known = strides if isinstance(strides, tuple) and _is_shape(strides) else None
    return Seen(shape, _DTYPES.get(kind), known, not (signature.strides and shape and known == ()))


def _is_shape(shape: Any) -> bool:
    return isinstance(shape, tuple) and all(type(size) is int and size >= 0 for size in shape)
