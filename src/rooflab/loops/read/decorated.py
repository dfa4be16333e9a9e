"""What numba's decorators made of a function, asked without importing numba: until then nothing is decorated."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

# Options of numba that leave what is counted and timed as it is.
_HARMLESS = frozenset({"nopython", "nogil", "cache", "_nrt", "no_cpython_wrapper", "no_cfunc_wrapper", "looplift"})
_UFUNCS = (("numba.np.ufunc.dufunc", "DUFunc"), ("numba.np.ufunc.gufunc", "GUFunc"))


def is_compiled(fn: Any) -> bool:
    """Whether numba's `njit` or `jit` made `fn`."""
    return _is("numba.core.dispatcher", "Dispatcher", fn)


def is_ufunc(fn: Any) -> bool:
    """Whether `fn` is of `vectorize` or `guvectorize`, or a function of NumPy's kind."""
    return isinstance(fn, np.ufunc) or any(_is(*each, fn) for each in _UFUNCS)


def options(fn: Callable[..., Any]) -> dict[str, Any]:
    """The options that `fn` was decorated with, where numba compiles it; none of a plain function."""
    given: Any = fn
    return dict(given.targetoptions) if is_compiled(fn) else {}


def has_options(fn: Callable[..., Any]) -> bool:
    """Whether `fn` is compiled with options that change what it does: its source alone does not say all then."""
    return any(value for name, value in options(fn).items() if name not in _HARMLESS)


def python_function(fn: Callable[..., Any]) -> Any:
    """The Python function behind `fn`."""
    return getattr(fn, "py_func", fn)


def _is(module: str, name: str, value: Any) -> bool:
    held = sys.modules.get(module)
    return held is not None and isinstance(value, getattr(held, name))
