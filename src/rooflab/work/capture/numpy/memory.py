"""The memory that arrays of NumPy lie in: who owns it, what they touch of it, whether it changed."""

from __future__ import annotations

from typing import Any

import numpy as np

_SAMPLES = 61  # of an array: a prime, so that rows of usual lengths are met in different places


def root_of(array: np.ndarray) -> np.ndarray:
    """The array that owns the memory of `array`, or the last one before something else does."""
    while True:
        base: Any = array.base
        if base is not None and not isinstance(base, (np.ndarray, memoryview)):
            base = getattr(base, "base", None)  # what `as_strided` puts between the two
        if not isinstance(base, np.ndarray):
            return array
        array = base


def some_bytes(root: np.ndarray) -> bytes:
    """A few elements of `root` from all over it: enough to tell that something was written into it."""
    flat = root.view(np.ndarray).T if root.flags.f_contiguous else root.view(np.ndarray)
    if root.dtype.hasobject or not flat.flags.c_contiguous:
        return b""
    flat = flat.reshape(-1)
    return flat[:: max(1, flat.size // _SAMPLES)].tobytes()


def start_bytes(array: np.ndarray) -> int | None:
    """Where in its memory its first element lies; None where its steps are no whole elements: a record's field."""
    if any(step % array.itemsize for step in array.strides if array.itemsize):
        return None
    first, base = (one.__array_interface__["data"][0] for one in (array.view(np.ndarray), root_of(array)))
    return first - base


def touched_bytes(array: np.ndarray) -> int:
    """Bytes of its elements, those of an expanded dimension once, those of windows that overlap once."""
    elements, span = 1, array.itemsize
    for size, step in zip(array.shape, array.strides, strict=True):
        elements *= size if step or size == 0 else 1
        span += max(size - 1, 0) * abs(step)
    return min(elements * array.itemsize, span)
