"""Recorded calls kept so that they can be run again: tensors as references to where they lay."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch.multiprocessing.reductions import StorageWeakRef


class Ref(NamedTuple):
    """A tensor of the recorded run: its storage (a number), and how it lies in it."""

    storage: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: torch.dtype
    offset: int


class Opaque(NamedTuple):
    """A value that cannot be made again, with the reason."""

    reason: str


class KeptCall(NamedTuple):
    """One recorded call.

    Attributes:
        func: the operator's overload; None where what was recorded is none.
        args, kwargs, out: with a `Ref` for each tensor.
    """

    func: Any
    args: Any
    kwargs: Mapping[str, Any]
    out: Any


class Keeper:
    """The calls of a run, in the order of the graph's operations."""

    def __init__(self) -> None:
        self.calls: list[KeptCall] = []
        self._alive: dict[int, StorageWeakRef] = {}  # so that no address is given twice

    def keep(self, func: Any, args: Any, kwargs: Mapping[str, Any], out: Any) -> None:
        """Keep one call."""
        self.calls.append(KeptCall(func, self._of(args), self._of(dict(kwargs)), self._of(out)))

    def _of(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return self._ref(value)
        if isinstance(value, (list, tuple)):
            # Named tuples of results are plain ones here: only their order counts.
            return tuple(map(self._of, value)) if isinstance(value, tuple) else [self._of(one) for one in value]
        if isinstance(value, Mapping):
            return {key: self._of(one) for key, one in value.items()}
        if isinstance(value, torch.Generator):
            return None  # the default one draws as well
        if isinstance(value, torch.device):
            return torch.device("cpu") if value.type == "meta" else value
        return value

    def _ref(self, tensor: torch.Tensor) -> Ref | Opaque:
        if tensor.layout is not torch.strided or tensor.is_nested:
            return Opaque("a tensor that is not strided")
        try:
            storage = tensor.untyped_storage()
        except (NotImplementedError, RuntimeError):
            return Opaque("a tensor made of others")
        self._alive.setdefault(storage._cdata, StorageWeakRef(storage))
        return Ref(
            storage._cdata, tuple(tensor.shape), tuple(tensor.stride()), tensor.dtype, int(tensor.storage_offset())
        )
