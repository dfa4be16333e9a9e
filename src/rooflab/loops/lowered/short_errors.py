"""Numba's error of shapes that differ without its text: what writes the text takes seconds to compile."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from numba.core.compiler_lock import global_compiler_lock
from numba.extending import overload
from numba.np import arrayobj


def _differ(source: Any, target: Any) -> None:
    """Raise, in compiled code, where shapes `source` and `target` differ."""


@overload(_differ)
def _differ_compiled(source: Any, target: Any) -> Any:
    def raises(source: Any, target: Any) -> None:
        raise ValueError("shapes differ")

    return raises


@contextmanager
def used() -> Iterator[None]:
    """While it lasts, slices whose shapes differ raise that error in what numba compiles."""
    module: Any = arrayobj
    with global_compiler_lock:
        kept = module.raise_with_shape_context
        module.raise_with_shape_context = _differ
        try:
            yield
        finally:
            module.raise_with_shape_context = kept
