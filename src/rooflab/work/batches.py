"""A PyTorch module's inputs with another number of samples: found where all of them begin with the same number."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any


def batch_of(module: Any, args: tuple, kwargs: Mapping[str, Any]) -> int | None:
    """How many samples the inputs of `module` hold: the first size of all of them; None where they differ.

    A module keeps its weights itself, so that its inputs are data; a function's may be weights.
    """
    torch: Any = sys.modules.get("torch")
    if torch is None or not isinstance(module, torch.nn.Module):
        return None
    tensors = tuple(_tensors((args, dict(kwargs)), torch))
    if any(each.is_nested for each in tensors):
        return None  # samples of several lengths: no one shape
    sizes = {each.shape[0] if each.ndim else None for each in tensors}
    only = sizes.pop() if len(sizes) == 1 else None
    return None if only is None else int(only)


def with_batch(args: tuple, kwargs: Mapping[str, Any], size: int) -> tuple[tuple, dict[str, Any]]:
    """`args` and `kwargs` with tensors of `size` samples, on the device "meta": without memory."""
    torch: Any = sys.modules["torch"]

    def resized(each: Any) -> Any:
        return torch.empty((size, *each.shape[1:]), dtype=each.dtype, device="meta")

    return _mapped(args, torch, resized), _mapped(dict(kwargs), torch, resized)


def _tensors(value: Any, torch: Any) -> Iterator[Any]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from _tensors(each, torch)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _tensors(each, torch)


def _mapped(value: Any, torch: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, dict):
        return {key: _mapped(each, torch, change) for key, each in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_mapped(each, torch, change) for each in value)
    return value
