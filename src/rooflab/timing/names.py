"""What a callable is called where it is used: "torch.relu", "numpy.linalg.solve", "Linear", "ndarray.sum"."""

from __future__ import annotations

import functools
import sys
from typing import Any

# Where functions are used from, by the package that they are of; in the first one that has it.
_HOMES = (
    "numpy",
    "numpy.linalg",
    "numpy.fft",
    "torch",
    "torch.nn.functional",
    "torch.linalg",
    "torch.fft",
    "torch.special",
    "jax.numpy",
    "jax.numpy.linalg",
    "jax.nn",
    "jax.lax",
    "scipy.linalg",
    "scipy.special",
    "math",
)


def name_of(target: Any) -> str:
    """The name of `target` for people: as its public module has it, a module's class, a partial's function."""
    if isinstance(target, functools.partial):
        return f"{name_of(target.func)} with arguments"
    named = getattr(target, "__name__", None)
    if not isinstance(named, str):
        return type(target).__name__  # a module of PyTorch, an object that can be called
    if named == "<lambda>":
        return "lambda"
    for home in _HOMES:
        module = sys.modules.get(home)
        if module is not None and getattr(module, named, None) is target:
            return f"{home}.{named}"
    owner = getattr(target, "__self__", None)
    if owner is not None and not isinstance(owner, type(sys)):
        kind = owner if isinstance(owner, type) else type(owner)
        return f"{kind.__name__}.{named}"
    return named
