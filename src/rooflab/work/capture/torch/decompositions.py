"""Eigenvalues, singular values and least squares while capturing: what PyTorch decides by what its tensors are.

PyTorch asks for vectors beside eigenvalues and singular values where a gradient may want them, and takes any
recorder for a reason. Here it is whether a gradient is wanted. `lstsq` has no meta form.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

_aten: Any = torch.ops.aten


def _wanted(a: torch.Tensor) -> bool:
    return torch.is_grad_enabled() and a.requires_grad


def svdvals(a: torch.Tensor, *, driver: str | None = None) -> torch.Tensor:
    """Singular values; vectors too where a gradient needs them."""
    return _aten._linalg_svd(a, False, _wanted(a), driver=driver)[1]


def eigvalsh(a: torch.Tensor, uplo: str = "L") -> torch.Tensor:
    """Eigenvalues of a symmetric matrix; vectors too where a gradient needs them."""
    return _aten._linalg_eigh(a, uplo, _wanted(a))[0]


def eigvals(a: torch.Tensor) -> torch.Tensor:
    """Eigenvalues of a general matrix; vectors too where a gradient needs them."""
    return _aten.linalg_eig(a)[0] if _wanted(a) else _aten._linalg_eigvals(a)


COMPOSITES = {"linalg_svdvals": svdvals, "linalg_eigvalsh": eigvalsh, "linalg_eigvals": eigvals}


def _lstsq(recorder: Any, func: Any, args: tuple, kwargs: Mapping[str, Any]) -> Any:
    a, b = args[:2]
    if not a.is_meta:
        return NotImplemented
    shape = (*b.shape[:-2], a.shape[-1], b.shape[-1])
    empty = [a.new_empty((0,)), a.new_empty((0,), dtype=torch.int64), a.new_empty((0,))]
    result = (a.new_empty(shape), *empty)
    recorder.note(recorder.plan(func), args, kwargs, result)
    return result


STAND_INS = {_aten.linalg_lstsq.default: _lstsq}
