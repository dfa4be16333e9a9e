"""The arguments of a call that is made again and again: whether they have data, what calls change in them."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rooflab.errors import RooflabError
from rooflab.timing.finish import leaves, no_data

_SAMPLES = 4096  # elements of an array that are compared


def check(name: str, args: Sequence[Any], kwargs: Mapping[str, Any], target: Any = None) -> None:
    """Return where calls with these arguments compute something, the second as the first.

    Raises:
        RooflabError: a tensor or module without data, an iterator, which the first call would use up.
    """
    for where, value in _named(args, kwargs, target):
        for leaf in leaves(value):
            why = no_data(leaf)
            if why is not None:
                raise RooflabError(
                    f"{name}: {where} is {why}: nothing would be computed; give it one with data to time it "
                    "(analyze and predict do without)"
                )
        if isinstance(value, Iterator) and not hasattr(value, "seek"):
            raise RooflabError(
                f"{name}: {where} is a {type(value).__name__}, which the first call would use up; give it a list"
            )


def contents(args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, object]:
    """By argument, what is cheap to compare of it: some elements of arrays, lengths of containers."""
    return {where: _content(value) for where, value in _named(args, kwargs)}


def changed(before: Mapping[str, object], after: Mapping[str, object]) -> tuple[str, ...]:
    """The arguments whose contents differ."""
    return tuple(where for where, content in after.items() if content != before.get(where))


def _named(args: Sequence[Any], kwargs: Mapping[str, Any], target: Any = None) -> list[tuple[str, Any]]:
    named = [(f"argument {number + 1}", value) for number, value in enumerate(args)]
    named += [(f"argument {key!r}", value) for key, value in kwargs.items()]
    return [*named, *([] if target is None else [("what is called", target)])]


def _content(value: Any) -> object:
    import numpy as np

    if isinstance(value, np.ndarray) and value.dtype != object:
        return (value.shape, value.ravel(order="K")[:: _step(value.size)].tobytes()) if _is_flat(value) else None
    torch: Any = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return _of_tensor(torch, value)
    if isinstance(value, (list, tuple, bytearray)):
        some = list(value[:: _step(len(value))])
        return len(value), tuple(_plain(one) for one in some)
    if isinstance(value, (dict, set)):
        return len(value)
    return None


def _of_tensor(torch: Any, value: Any) -> object:
    if value.layout is not torch.strided or value.device.type != "cpu" or not value.is_contiguous():
        return None
    flat = value.detach().reshape(-1)[:: _step(value.numel())].contiguous()
    return tuple(value.shape), flat.view(torch.uint8).numpy().tobytes()


def _is_flat(value: Any) -> bool:
    """Whether its elements lie in a row, so that looking at some copies none."""
    return value.flags.c_contiguous or value.flags.f_contiguous


def _step(size: int) -> int:
    return max(1, size // _SAMPLES)


def _plain(one: Any) -> object:
    return one if isinstance(one, (int, float, str, bytes, bool, type(None))) else id(one)
