"""Number formats by name: bits, and how many real FLOP one multiply-add of them is."""

from __future__ import annotations

from typing import NamedTuple

from rooflab.errors import UnknownNameError, squash


class DType(NamedTuple):
    """A number format.

    Attributes:
        name: short name, as printed ("bf16").
        bits: storage bits of one element.
        flop_per_fma: real FLOP of one multiply-add: 2, and 8 for a complex one
            ((a+bi)(c+di) is 4 multiplications and 2 additions, the sum 2 more additions).
    """

    name: str
    bits: int
    flop_per_fma: int = 2

    @property
    def nbytes(self) -> float:
        """Bytes of one element; fractional for formats under a byte."""
        return self.bits / 8


DTYPES: tuple[DType, ...] = (
    DType("fp64", 64),
    DType("fp32", 32),
    DType("tf32", 32),  # 19 significant bits, stored in 32
    DType("fp16", 16),
    DType("bf16", 16),
    DType("fp8", 8),
    DType("fp6", 6),
    DType("fp4", 4),
    DType("int64", 64),
    DType("int32", 32),
    DType("int16", 16),
    DType("int8", 8),
    DType("int4", 4),
    DType("bool", 8),
    DType("complex64", 64, 8),
    DType("complex128", 128, 8),
)

_ALIASES = {
    "float64": "fp64",
    "double": "fp64",
    "float32": "fp32",
    "float": "fp32",
    "single": "fp32",
    "half": "fp16",
    "float16": "fp16",
    "bfloat16": "bf16",
    "fp8e4m3": "fp8",
    "fp8e5m2": "fp8",
    "float8e4m3fn": "fp8",
    "float8e5m2": "fp8",
    "mxfp4": "fp4",
    "nvfp4": "fp4",
    "uint8": "int8",
    "cfloat": "complex64",
    "cdouble": "complex128",
}

_BY_NAME = {dtype.name: dtype for dtype in DTYPES}


def dtype(name: str) -> DType:
    """The number format called `name` (short, NumPy's or PyTorch's spelling).

    Raises:
        UnknownNameError: no such format, with near matches.
    """
    key = squash(name.removeprefix("torch."))
    known_format = _BY_NAME.get(_ALIASES.get(key, key))
    if known_format is None:
        raise UnknownNameError("dtype", name, [*_BY_NAME, *_ALIASES])
    return known_format
