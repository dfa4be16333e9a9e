"""Values of meta tensors that are known without data, because they were made from constants.

Masks and positions are often built from `arange` and `full` and then asked for a number (`mask.all()`). When a
program asks, the few recorded calls that lead to the tensor run again on a CPU, for real.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

_MOST_ELEMENTS = 1 << 24
_MOST_CALLS = 4096
_FEW = 16
# What they hold is known only to chance or to the caller.
_NO_VALUE = (
    "aten::empty",
    "aten::new_empty",
    "aten::rand",
    "aten::normal",
    "aten::bernoulli",
    "aten::multinomial",
)

Recorded = tuple[Any, tuple, Mapping[str, Any], Any]


def value(
    tensor: torch.Tensor,
    calls: Sequence[Recorded],
    as_ones: list[torch.Tensor] | None = None,
    named: Callable[[torch.Tensor], str | None] = lambda _: None,
) -> torch.Tensor | None:
    """A real tensor equal to the meta tensor `tensor`; None where it depends on data that is not there.

    Args:
        tensor: to find.
        calls: that were recorded.
        as_ones: where given, whole numbers and truths from outside (masks, tokens) are taken as ones, and added.
        named: the name of a tensor from outside; without one only a list of a few is taken (indices).
    """
    needed, slice_ = {_storage(tensor)}, []
    for recorded in reversed(calls):
        func, args, kwargs, out = recorded
        results = [one for one in _tensors(out) if _storage(one) in needed]
        if not results:
            continue
        if func._schema.name.startswith(_NO_VALUE) or any(one.numel() > _MOST_ELEMENTS for one in _tensors(out)):
            return None
        slice_.append(recorded)
        if len(slice_) > _MOST_CALLS:
            return None
        needed |= {_storage(one) for one in _tensors((args, kwargs))}
    made = {id(one) for _, _, _, out in slice_ for one in _tensors(out)}
    real: dict[int, torch.Tensor] = {}
    if as_ones is not None:
        for outside in _tensors([tensor, *((args, kwargs) for _, args, kwargs, _ in slice_)]):
            most = _FEW if named(outside) is None else _MOST_ELEMENTS
            whole = not (outside.is_floating_point() or outside.is_complex())
            if (
                outside.is_meta
                and whole
                and outside.numel() <= most
                and id(outside) not in made
                and id(outside) not in real
            ):
                real[id(outside)] = torch.ones(outside.shape, dtype=outside.dtype)
                as_ones.append(outside)
    for func, args, kwargs, out in reversed(slice_):
        try:
            result = func(*_replaced(args, real), **_replaced(dict(kwargs), real))
        except KeyError:  # a tensor from outside: its data is not there
            return None
        for one, other in zip(_tensors(out), _tensors(result), strict=True):
            real[id(one)] = other
    return real.get(id(tensor))


def _storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value] if value.layout is torch.strided else []
    if isinstance(value, Mapping):
        value = list(value.values())
    return [tensor for one in value for tensor in _tensors(one)] if isinstance(value, (list, tuple)) else []


def _replaced(value: Any, real: Mapping[int, torch.Tensor]) -> Any:
    """`value` with real tensors for meta ones, and a CPU for the meta device."""
    if isinstance(value, torch.Tensor):
        return real[id(value)] if value.is_meta else value
    if isinstance(value, torch.device):
        return torch.device("cpu")
    if isinstance(value, Mapping):
        return {key: _replaced(one, real) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_replaced(one, real) for one in value)
    return value
