"""Recipes by name, and what they ask of a tensor, be it PyTorch's own or what stands for one of a recorded run."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

Call = Callable[[str], Any]
Attrs = dict[str, Any]
RECIPES: dict[str, Callable[[Call, Any, Attrs, str], Attrs]] = {}


def recipe(function: Callable[[Call, Any, Attrs, str], Attrs]) -> Callable[[Call, Any, Attrs, str], Attrs]:
    """Register a recipe under its own name."""
    RECIPES[function.__name__] = function
    return function


def is_tensor(one: Any) -> bool:
    """Whether it is a tensor rather than a number or a list."""
    return hasattr(one, "shape") and hasattr(one, "dtype")


def has_data(one: Any) -> bool:
    """Whether its values can be read."""
    device = getattr(one, "device", None)
    return device is not None and device.type != "meta"


def is_dense(one: Any) -> bool:
    """Whether its elements are all stored, by strides."""
    return _is_strided(getattr(one, "layout", None))


@functools.cache
def _is_strided(layout: Any) -> bool:
    return layout is None or str(layout) == "torch.strided"
