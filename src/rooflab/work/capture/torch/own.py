"""Operators outside of the vocabulary that somebody gave a formula for: rooflab's own registry, then PyTorch's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils.flop_counter import flop_registry

from rooflab.types.work import TensorSpec
from rooflab.work import own_formulas
from rooflab.work.capture.torch.tensors import dtype_name

Own = Callable[[tuple, Mapping[str, Any], Any], dict[str, Any]]


def own(func: Any, name: str, known: bool) -> Own | None:
    """From one call of `func` to attributes of the kind "custom"; None where nobody gave a formula.

    PyTorch's (`torch.utils.flop_counter.register_flop_formula`) decide only where the vocabulary does not.
    """
    ours = own_formulas.find(name)
    if ours is not None:
        return lambda args, kwargs, out: own_formulas.evaluate(
            ours,
            f"the formula of {name}",
            pytree.tree_map_only(torch.Tensor, _described, args),
            pytree.tree_map_only(torch.Tensor, _described, dict(kwargs)),
            {"out": pytree.tree_map_only(torch.Tensor, _described, _tuple(out))},
        )
    packet = getattr(func, "overloadpacket", func)
    theirs = None if known else flop_registry.get(packet)
    if theirs is None:
        return None
    by = f"PyTorch's flop formula of {name}"
    return lambda args, kwargs, out: own_formulas.evaluate(theirs, by, args, kwargs, {"out_val": out})


def _tuple(out: Any) -> Any:
    return tuple(out) if isinstance(out, list) else out


def _described(tensor: torch.Tensor) -> TensorSpec:
    return TensorSpec(tuple(tensor.shape), dtype_name(tensor.dtype), float(tensor.numel() * tensor.dtype.itemsize))
