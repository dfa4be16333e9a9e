"""What is asked of a value that a capture of NumPy meets: its format, the arrays in it, whose line."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

_LIBRARIES = (
    os.path.dirname(np.__file__) + os.sep,
    str(Path(__file__).resolve().parents[3]) + os.sep,
    *{sysconfig.get_paths()[key] + os.sep for key in ("stdlib", "platstdlib")},
)
_FORMATS = {
    "float16": "fp16", "float32": "fp32", "float64": "fp64", "longdouble": "fp64", "float128": "fp64",
    "uint8": "int8", "uint16": "int16", "uint32": "int32", "uint64": "int64",
    "complex256": "complex128", "clongdouble": "complex128",
}  # fmt: skip
_KNOWN_KINDS = "biufc"  # of formats that are counted: booleans and numbers


def name_of(func: Any) -> str:
    """A function of NumPy as its users call it."""
    return f"{func.__module__}.{func.__name__}"


def format_of(dtype: np.dtype) -> str:
    """The name in `rooflab.dtypes` of a number format; others keep NumPy's, and are not counted."""
    return _FORMATS.get(dtype.name, dtype.name)


def is_counted(value: Any) -> bool:
    """Whether `value` is no array, or one of a number format that is counted."""
    return not isinstance(value, (np.ndarray, np.generic)) or value.dtype.kind in _KNOWN_KINDS


def several(value: Any) -> tuple[Any, ...]:
    """The results of a call, of which there may be one."""
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def arrays_in(values: Any) -> Iterator[np.ndarray]:
    """The arrays among `values`, in lists and tuples too."""
    for value in values:
        if isinstance(value, np.ndarray):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from arrays_in(value)


def user_line() -> str | None:
    """File and line of the innermost code that is neither NumPy's, Python's nor rooflab's."""
    frame = sys._getframe(2)
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith(("<", *_LIBRARIES)):
            return f"{name}:{frame.f_lineno}"
        frame = frame.f_back
    return None
