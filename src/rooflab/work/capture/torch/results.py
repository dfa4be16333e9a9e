"""Results of operators on meta tensors, made again from their shapes where an equal call was seen before.

PyTorch works out many shapes in Python, anew for each call, and a model repeats its layers. A call is equal where
operator, arguments, and the shapes, strides and number formats of its tensors are; then so are those of results.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

_Made = tuple[torch.Size, tuple[int, ...], torch.dtype]
_PLAIN = (torch.Tensor, torch.nn.Parameter)
_AS_THEY_ARE = frozenset(
    {type(None), int, float, bool, str, torch.dtype, torch.device, torch.layout, torch.memory_format}
)
_modes_below: Callable[[], int] = torch._C._len_torch_dispatch_stack


def repeatable(func: Any) -> bool:
    """Whether an operator's results are new tensors, fixed by its arguments: no views, nothing written to."""
    schema = func._schema
    return (
        schema.name.startswith("aten::")
        and bool(schema.returns)
        and all(str(one.type) in ("Tensor", "List[Tensor]") for one in schema.returns)
        and all(one.alias_info is None for one in (*schema.arguments, *schema.returns))
    )


class Results:
    """The results met so far, by operator and arguments."""

    def __init__(self) -> None:
        self._known: dict[tuple, tuple[type | None, tuple[_Made | None, ...]] | None] = {}

    def call(self, func: Any, args: tuple, kwargs: Mapping[str, Any]) -> Any:
        """What `func(*args, **kwargs)` returns, of an operator that is `repeatable`."""
        # The default number format decides those of results; a mode below wants to see every call.
        key: list[Any] = [func, torch.get_default_dtype()]
        if _modes_below() or not _sign(args, key) or (kwargs and not _sign_named(kwargs, key)):
            return func(*args, **kwargs)
        signature = tuple(key)
        known = self._known.get(signature)
        if known is None:
            out = func(*args, **kwargs)
            if signature not in self._known:
                self._known[signature] = _made(out, args, kwargs)
            return out
        kind, made = known
        empty = torch.empty_strided
        if kind is None:
            shape, strides, dtype = made[0]  # type: ignore[misc]
            return empty(shape, strides, dtype=dtype, device="meta")
        return kind([one if one is None else empty(one[0], one[1], dtype=one[2], device="meta") for one in made])


def _sign(values: tuple | list, key: list[Any]) -> bool:
    """Add to `key` all that the results of a call may depend on; False where that cannot be said."""
    for one in values:
        kind = type(one)
        if kind in _PLAIN:
            if not one.is_meta or one.layout is not torch.strided or one.is_nested:
                return False
            key += (one.shape, one.stride(), one.dtype)
        elif kind in _AS_THEY_ARE:
            key += (kind, one)  # 1, 1.0 and True are equal, and give results of different number formats
        elif kind is list or kind is tuple:
            key += (kind, len(one))
            if not _sign(one, key):
                return False
        else:
            return False
    return True


def _sign_named(kwargs: Mapping[str, Any], key: list[Any]) -> bool:
    key.extend(kwargs)
    return _sign(list(kwargs.values()), key)


def _made(out: Any, args: tuple, kwargs: Mapping[str, Any]) -> tuple[type | None, tuple[_Made | None, ...]] | None:
    """How to make `out` again; None unless it is of new, plain meta tensors."""
    kind = type(out) if type(out) in (list, tuple) else None
    results: list[Any] = [out] if kind is None else list(out)
    tensors = [one for one in results if one is not None]
    if not tensors or not all(map(_plain, tensors)):
        return None
    storages = [one.untyped_storage()._cdata for one in tensors]
    given = {one.untyped_storage()._cdata for one in _tensors((args, tuple(kwargs.values())))}
    if len(set(storages)) < len(storages) or given.intersection(storages):
        return None
    return kind, tuple(None if one is None else (one.shape, one.stride(), one.dtype) for one in results)


def _plain(one: Any) -> bool:
    return (
        type(one) is torch.Tensor
        and one.is_meta
        and one.layout is torch.strided
        and not (one.is_nested or one.is_quantized or one.is_conj() or one.is_neg())
        and one.storage_offset() == 0
    )


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    return [tensor for one in value for tensor in _tensors(one)] if isinstance(value, (list, tuple)) else []
