"""A loop on arrays that lie otherwise: rows padded, columns side by side, numbers of half the size."""

from __future__ import annotations

import ast
import copy
from collections.abc import Mapping
from typing import Any

import numpy as np

from rooflab.loops.read.arguments import Arguments, laid_out, placed_as
from rooflab.loops.read.understood import Understood
from rooflab.loops.read.value_types import ValueTypes


def with_arrays(loop: Understood, arrays: Mapping[str, np.ndarray]) -> Understood:
    """`loop` on other arrays of the same shapes, by name."""
    arguments = loop.arguments
    values = tuple(arrays.get(name, value) for name, value in zip(arguments.types, arguments.values, strict=True))
    changed: Arguments = laid_out(dict(zip(arguments.types, values, strict=True)))
    return Understood(loop.source, ValueTypes(loop.source, changed.types), changed)


def padded(array: np.ndarray, nbytes: int) -> np.ndarray:
    """A copy whose rows lie `nbytes` further apart."""
    room = np.zeros((*array.shape[:-1], array.shape[-1] + max(1, nbytes // array.itemsize)), array.dtype)
    room = placed_as(room, array)
    room[..., : array.shape[-1]] = array
    return room[..., : array.shape[-1]]


def by_columns(array: np.ndarray) -> np.ndarray:
    """A copy whose first index moves by one element."""
    return placed_as(np.asfortranarray(array), array)


def halved(loop: Understood) -> Understood | None:
    """`loop` in fp32 instead of fp64: its arrays and all numbers; None where no array is in fp64."""
    arguments = loop.arguments
    values = {}
    for name, value in zip(arguments.types, arguments.values, strict=True):
        if isinstance(value, np.ndarray) and value.dtype == np.float64:
            with np.errstate(over="ignore"):
                order = "F" if value.flags.f_contiguous and not value.flags.c_contiguous else "C"
                values[name] = placed_as(value.astype(np.float32, order=order), value)
        else:
            values[name] = np.float32(value) if isinstance(value, (float, np.float64)) else value
    if not any(value.dtype == np.float64 for value in arguments.arrays().values()):
        return None
    constants: dict[str, Any] = {
        name: np.float32(value) if isinstance(value, float) else value
        for name, value in loop.source.constants.items()
    }
    tree = _Named(constants).visit(copy.deepcopy(loop.source.tree))
    source = loop.source._replace(tree=ast.fix_missing_locations(tree), constants=constants)
    changed = laid_out(values)
    return Understood(source, ValueTypes(source, changed.types), changed)


class _Named(ast.NodeTransformer):
    """Puts a name of fp32 in the place of each number with a point."""

    def __init__(self, constants: dict[str, Any]) -> None:
        self.constants = constants

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        if not isinstance(node.value, float):
            return node
        name = f"rl_fp32_{len(self.constants)}"
        self.constants[name] = np.float32(node.value)
        return ast.copy_location(ast.Name(name, ast.Load()), node)
