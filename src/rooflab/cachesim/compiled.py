"""Compiling the simulator's functions once and for all: numba's cache on disk, keyed by this package's source.

numba keys a cached function by its own file and by what it closes over, pickled. That fails twice here: an
edit of an inlined function in another file goes unnoticed, and functions that close over other compiled
functions pickle differently in every process, so that they are never found again. Both are mended by a key
of our own: the function's name and a digest of all of this folder's source.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from numba import njit
from numba.core.caching import FunctionCache
from numba.core.ccallback import CFunc
from numba.core.sigutils import normalize_signature

OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "boundscheck": False}
INLINED: dict[str, Any] = {**OPTIONS, "forceinline": True}


@functools.cache
def source_digest() -> str:
    """A digest of this package's source: what was compiled from other source is not taken for it."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


class _NamedCache(FunctionCache):
    """numba's cache on disk with the key described at the top of this file."""

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        super().__init__(function)
        self._key = (name, source_digest())

    def _index_key(self, sig: Any, codegen: Any) -> Any:
        return (sig, codegen.magic_tuple(), self._key)


def kernel(function: Callable[..., Any], name: str | None = None) -> Any:
    """`function` compiled by numba on its first call, found on disk ever after."""
    dispatcher: Any = njit(**OPTIONS)(function)
    dispatcher._cache = _cache(function, name) or dispatcher._cache
    return dispatcher


def callback(signature: Any, function: Callable[..., Any], name: str) -> Any:
    """`function` compiled for `signature` with an address that other compiled functions can call."""
    made: Any = CFunc(function, normalize_signature(signature), locals={}, options=dict(OPTIONS))
    made._cache = _cache(function, name) or made._cache
    made.compile()
    return made


def _cache(function: Callable[..., Any], name: str | None) -> FunctionCache | None:
    try:
        return _NamedCache(function, name or function.__qualname__)
    except RuntimeError:
        # numba found no folder that it may write to: everything works, and is compiled in every process.
        return None
