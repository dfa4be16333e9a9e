"""Data that leaves PyTorch while a program is captured: what NumPy computes with it is not seen there."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch

from rooflab.work.capture.torch.places import line, site

_WAYS_OUT = ("numpy", "__array__")
_WAYS_BACK = ("from_numpy", "as_tensor", "tensor")


@contextlib.contextmanager
def watched(left: list[str], unknown: list[str]) -> Iterator[None]:
    """Notice tensors that become arrays of NumPy, and arrays that become tensors afterwards.

    Args:
        left: gets each line that turns a tensor into an array, once.
        unknown: gets a sentence where an array comes back after that: what it was computed with is not counted.
    """
    own = {name: vars(torch.Tensor).get(name) for name in _WAYS_OUT}
    back = {name: getattr(torch, name) for name in _WAYS_BACK}
    for name in _WAYS_OUT:
        setattr(torch.Tensor, name, _out(getattr(torch.Tensor, name), left))
    for name, function in back.items():
        setattr(torch, name, _in(function, left, unknown))
    try:
        yield
    finally:
        for name, function in back.items():
            setattr(torch, name, function)
        for name, method in own.items():
            if method is None:
                delattr(torch.Tensor, name)
            else:
                setattr(torch.Tensor, name, method)


def told(left: Sequence[str]) -> tuple[str, ...]:
    """What to know of a program whose data left PyTorch; nothing where none did."""
    if not left:
        return ()
    more = f" and {len(left) - 1} more" if len(left) > 1 else ""
    return (f"NumPy: a tensor becomes an array at {left[0]}{more}; what is computed with it there is not counted",)


def _out(method: Callable[..., Any], left: list[str]) -> Callable[..., Any]:
    @functools.wraps(method)
    def leave(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        array = method(self, *args, **kwargs)
        if not _of_torch():
            where = line(site()) or "the program"
            if where not in left:
                left.append(where)
        return array

    return leave


def _in(function: Callable[..., Any], left: list[str], unknown: list[str]) -> Callable[..., Any]:
    @functools.wraps(function)
    def come_back(data: Any, *args: Any, **kwargs: Any) -> Any:
        if left and isinstance(data, np.ndarray) and data.ndim and not _of_torch():
            where = line(site()) or "the program"
            word = f"what NumPy computed between {left[0]} and {where} is not followed; write it with tensors"
            if word not in unknown:
                unknown.append(word)
        return function(data, *args, **kwargs)

    return come_back


def _of_torch() -> bool:
    """Whether PyTorch itself asks, as for printing."""
    return sys._getframe(2).f_globals.get("__name__", "").partition(".")[0] == "torch"
