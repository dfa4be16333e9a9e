"""Real tensors for the references of a recorded run: as they lay there, with plain numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from rooflab.work.capture.torch.kept import KeptCall, Opaque, Ref

_SPREAD = 0.02  # of random numbers: deep chains of products stay finite
# Whole numbers that an operator takes for places in another operand: (its position, that operand's, along which
# dimension, or the position of the argument that says so).
_PLACES: dict[str, tuple[int, int, int | str]] = {
    "aten::embedding": (1, 0, 0),
    "aten::index_select": (2, 0, "1"),
    "aten::gather": (2, 0, "1"),
    "aten::nll_loss_forward": (1, 0, 1),
    "aten::nll_loss2d_forward": (1, 0, 1),
    "aten::embedding_dense_backward": (1, 0, 0),
}
# Operators that take a slow way round for numbers below zero.
_POSITIVE = ("sqrt", "rsqrt", "log", "log2", "log10", "log1p", "lgamma")
# Operators that end early on a matrix that is not positive definite.
_DEFINITE = ("linalg_cholesky_ex", "cholesky", "linalg_ldl_factor_ex")


class CannotReplay(Exception):
    """Why a call cannot be run again."""


class Tensors:
    """The tensors of a replay that no call of it made: parameters, inputs, constants. They stay between passes."""

    def __init__(self, calls: list[KeptCall], seed: int = 0) -> None:
        self._held: dict[Ref, torch.Tensor] = {}
        self._generator = torch.Generator().manual_seed(seed)
        self._below = _limits(calls)
        self._definite = {ref for call in calls if _plain_name(call) in _DEFINITE for ref in refs_in(call.args)}
        self._positive = {ref for call in calls if _plain_name(call) in _POSITIVE for ref in refs_in(call.args)}

    def get(self, ref: Ref) -> torch.Tensor:
        """The tensor for `ref`, made where it is not there yet."""
        found = self._held.get(ref)
        if found is None:
            found = self._held[ref] = self._made(ref)
        return found

    def _made(self, ref: Ref) -> torch.Tensor:
        made = torch.empty_strided(ref.shape, ref.strides, dtype=ref.dtype)
        plain = made.as_strided((_extent(ref),), (1,))
        if ref.dtype.is_floating_point:
            try:
                plain.normal_(0.0, _SPREAD, generator=self._generator)
            except (NotImplementedError, RuntimeError):  # fp8 has no random numbers
                plain.view(torch.uint8).fill_(0x30)
                return made
            if ref in self._positive:
                plain.abs_()
            if ref in self._definite:
                made.diagonal(dim1=-2, dim2=-1).add_(made.shape[-1])  # larger than all others of its row together
        elif ref.dtype.is_complex:
            plain.fill_(_SPREAD)
        elif ref.dtype is torch.bool:
            plain.fill_(True)
        elif ref in self._below:
            plain.random_(0, max(1, self._below[ref]), generator=self._generator)
        else:
            plain.zero_()
        return made


def _plain_name(call: KeptCall) -> str:
    """The operator without namespace, list form and in-place form: "sqrt" of "aten::_foreach_sqrt_"."""
    name = call.func._schema.name if hasattr(call.func, "_schema") else ""
    return name.partition("::")[2].removeprefix("_foreach_").rstrip("_")


def _extent(ref: Ref) -> int:
    if 0 in ref.shape:
        return 0
    return 1 + sum((size - 1) * stride for size, stride in zip(ref.shape, ref.strides, strict=True))


def _limits(calls: list[KeptCall]) -> dict[Ref, int]:
    """By tensor of whole numbers that are places in another: how many places there are."""
    found: dict[Ref, int] = {}
    for call in calls:
        name = "" if call.func is None or not hasattr(call.func, "_schema") else call.func._schema.name
        if name not in _PLACES:
            continue
        position, of, along = _PLACES[name]
        index, other = call.args[position], call.args[of]
        if isinstance(index, Ref) and isinstance(other, Ref):
            dim = call.args[int(along)] if isinstance(along, str) else along
            found[index] = other.shape[dim] if other.shape else 1
    return found


def filled(value: Any, get: Callable[[Ref], torch.Tensor]) -> Any:
    """`value` with the tensors that its references mean.

    Raises:
        CannotReplay: something in it cannot be made.
    """
    if isinstance(value, Ref):
        return get(value)
    if isinstance(value, Opaque):
        raise CannotReplay(f"it takes {value.reason}")
    if isinstance(value, tuple):
        return tuple(filled(one, get) for one in value)
    if isinstance(value, list):
        return [filled(one, get) for one in value]
    if isinstance(value, Mapping):
        return {key: filled(one, get) for key, one in value.items()}
    return value


def refs_in(value: Any) -> list[Ref]:
    """The references in `value`."""
    if isinstance(value, Ref):
        return [value]
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, (list, tuple)) and not isinstance(value, (Ref, Opaque)):
        return [ref for one in value for ref in refs_in(one)]
    return []
