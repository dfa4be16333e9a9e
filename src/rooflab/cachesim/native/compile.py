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

from numba import njit, typeof
from numba.core.caching import FunctionCache
from numba.core.ccallback import CFunc
from numba.core.sigutils import normalize_signature

_CALLED_BY_PYTHON: dict[str, Any] = {"nogil": True, "error_model": "numpy", "boundscheck": False}
# Of functions that compiled code alone calls: wrappers, for Python and for C, take a third of the compile time.
OPTIONS: dict[str, Any] = {**_CALLED_BY_PYTHON, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
INLINED: dict[str, Any] = {**OPTIONS, "forceinline": True}


@functools.cache
def source_digest() -> str:
    """A digest of this package's source: what was compiled from other source is not taken for it."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parents[1].rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


class _NamedCache(FunctionCache):
    """numba's cache on disk with the key described at the top of this file."""

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        super().__init__(function)
        self._key = (name, source_digest())

    def _index_key(self, sig: Any, codegen: Any) -> Any:
        return (sig, codegen.magic_tuple(), self._key)


class Named:
    """Decorators for functions that are made anew for each of several settings.

    numba names machine code by a function's name and a number that counts up in each process. Two settings of one
    function, found on disk but compiled in different processes, may thus bear the same name, and the
    linker takes them for one. `tag` keeps them apart.
    """

    def __init__(self, tag: str) -> None:
        self.tag = "".join(char if char.isalnum() else "_" for char in tag)

    def part(self, function: Callable[..., Any]) -> Any:
        """`function` compiled as a part of others."""
        return njit(**OPTIONS)(self.name(function))

    def inlined(self, function: Callable[..., Any]) -> Any:
        """`function` compiled into each place that calls it."""
        return njit(**INLINED)(self.name(function))

    def name(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """`function` under a name of its own."""
        function.__name__ = f"{function.__name__}_{self.tag}"
        function.__qualname__ = f"{function.__qualname__}_{self.tag}"
        return function


def kernel(function: Callable[..., Any], name: str | None = None) -> Any:
    """`function` compiled by numba on its first call, found on disk ever after."""
    dispatcher: Any = njit(**_CALLED_BY_PYTHON)(function)
    dispatcher._cache = _cache(function, name) or dispatcher._cache
    return dispatcher


def callback(signature: Any, function: Callable[..., Any], name: str) -> Any:
    """`function` compiled for `signature` with an address that other compiled functions can call."""
    _own_names(function, name)
    # To be inlined into its wrapper, which nothing calls: without that, the function itself is a fifth slower.
    options = {**_CALLED_BY_PYTHON, "forceinline": True}
    compiled: Any = CFunc(function, normalize_signature(signature), locals={}, options=options)
    compiled._cache = _cache(function, name) or compiled._cache
    compiled.compile()
    return compiled


def native_address(compiled: Any) -> int:
    """The address of what `callback` compiled, in numba's own calling convention (see `words.call`).

    The wrapper that C could call costs a second call.
    """
    return compiled._library.get_pointer_to_function(compiled.native_name.removeprefix("cfunc."))


def _own_names(function: Any, name: str) -> None:
    """Give `function` and the closures that it calls names of their own.

    Compiled closures are linked by name. Those of two levels differ only by a number that each process counts
    anew: found on disk, one level would call the other's functions, without a word.
    """
    if name in function.__qualname__:
        return
    function.__qualname__ += f" of {name}"
    for cell in function.__closure__ or ():
        inner = getattr(cell.cell_contents, "py_func", None)
        if inner is not None and inner.__closure__:
            _own_names(inner, name)


def ready(dispatcher: Any, *arguments: Any) -> None:
    """Compile `dispatcher` for such arguments, so that timing it times no compiler."""
    dispatcher.compile(tuple(typeof(each) for each in arguments))


def _cache(function: Callable[..., Any], name: str | None) -> FunctionCache | None:
    try:
        return _NamedCache(function, name or function.__qualname__)
    except RuntimeError:
        # numba found no folder that it may write to: everything works, and is compiled in every process.
        return None
