"""Sizes of symbolic dimensions: given by name, worked out from other names, or asked for."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import onnx

from rooflab.errors import RooflabError, UnknownNameError

_BATCH = re.compile(r"(n|b|bs|.*batch.*)", re.IGNORECASE)
_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Div: operator.floordiv,
}
_FUNCTIONS: dict[str, Callable[..., int]] = {"max": max, "min": min}
_ASKED = re.compile(r"(.+):(\d+|trips)")


def input_sizes(
    path: Path,
    inputs: list[onnx.ValueInfoProto],
    stated_sizes: Mapping[str, int],
    others: set[str],
    asked: set[str],
) -> tuple[dict[str, int], dict[str, tuple[int, ...]]]:
    """Sizes by name of dimension, and shape by name of input, for all `inputs`.

    Args:
        stated_sizes: sizes as the user gave them.
        others: names of dimensions that occur in the model but in none of its inputs.
        asked: tensors and loops for which a size ("tensor:axis") or trips ("loop:trips") may be given.

    Raises:
        RooflabError: a dimension without a size, all such in one message; an input without a rank; a size that
            is not a whole number of at least 0.
        UnknownNameError: a size for a name that the model does not have.
    """
    first, names = _names(path, inputs)
    _check(path, stated_sizes, names | others, asked)
    sizes = dict(stated_sizes)
    sizes.update({name: 1 for name in first if name not in sizes and _BATCH.fullmatch(name)})
    missing = sorted({name for name in names if evaluate(name, sizes) is None} - sizes.keys())
    if missing:
        wanting = sorted({part for name in missing for part in (_free(name) or {name})} - sizes.keys())
        listed = ", ".join(repr(name) for name in wanting)
        example = " ".join(f"--dim {name}=8" for name in wanting)
        raise RooflabError(f"{path}: no size for the symbolic dimension {listed}; give it: {example}")
    shapes = {}
    for one in inputs:
        if one.type.HasField("tensor_type"):
            shapes[one.name] = tuple(
                _size(one.name, axis, dim, sizes) for axis, dim in enumerate(one.type.tensor_type.shape.dim)
            )
    return sizes, shapes


def evaluate(name: str, sizes: Mapping[str, int]) -> int | None:
    """The size of the dimension called `name`: as given, or an expression of given ones ("past + 1")."""
    if name in sizes:
        return sizes[name]
    try:
        return _value(ast.parse(name.strip(), mode="eval").body, sizes)
    except (SyntaxError, KeyError, ZeroDivisionError):
        return None


def dim_label(tensor: str, axis: int) -> str:
    """The name under which the size of a nameless dimension is asked for."""
    return f"{tensor}:{axis}"


def asked_names(model: onnx.ModelProto) -> set[str]:
    """Names of the model's tensors and loops, those of its functions and subgraphs too."""
    names: set[str] = set()
    left = [*model.graph.node, *(node for one in model.functions for node in one.node)]
    while left:
        node = left.pop()
        names.update(name for name in node.output if name)
        if node.op_type == "Loop" and node.name:
            names.add(node.name)
        left += [inner for one in node.attribute for inner in one.g.node]
    return names


def symbols(value: onnx.ValueInfoProto) -> set[str]:
    """Names of symbolic dimensions in the shape of `value`."""
    return {dim.dim_param for dim in value.type.tensor_type.shape.dim if dim.dim_param}


def _names(path: Path, inputs: list[onnx.ValueInfoProto]) -> tuple[set[str], set[str]]:
    """Names of the first dimensions, and of all dimensions, that have no fixed size."""
    first, names = set(), set()
    for one in inputs:
        if not one.type.HasField("tensor_type"):
            continue
        if not one.type.tensor_type.HasField("shape"):
            raise RooflabError(
                f"{path}: input {one.name!r} has no shape, not even a number of dimensions; "
                f"export the model with input shapes"
            )
        for axis, dim in enumerate(one.type.tensor_type.shape.dim):
            if not dim.HasField("dim_value"):
                name = dim.dim_param or dim_label(one.name, axis)
                names.add(name)
                if axis == 0:
                    first.add(name)
    return first, names


def _check(path: Path, stated_sizes: Mapping[str, int], names: set[str], asked: set[str]) -> None:
    known_names = names | {part for name in names for part in _free(name)}
    for name, size in stated_sizes.items():
        if isinstance(size, bool) or not isinstance(size, int) or size < 0:
            raise RooflabError(f"{path}: --dim {name}: got {size!r}, expected a whole number of at least 0")
        kind = _ASKED.fullmatch(name)
        if kind and name not in known_names and kind[1] not in asked:
            raise UnknownNameError("tensor or loop", kind[1], asked, f"(in {path}, --dim {name})")
        if name not in known_names and not kind:
            listed = ", ".join(sorted(known_names)) or "none"
            raise UnknownNameError("symbolic dimension", name, known_names, f"(in {path}: {listed})")


def _free(name: str) -> set[str]:
    """Names in the expression `name`; empty where it is not an expression of names."""
    try:
        tree = ast.parse(name.strip(), mode="eval")
    except SyntaxError:
        return set()
    called = {
        node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} - called


def _value(node: ast.expr, sizes: Mapping[str, int]) -> int:
    match node:
        case ast.Constant(value=int() as value):
            return value
        case ast.Name(id=name):
            return sizes[name]
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_value(left, sizes), _value(right, sizes))
        case ast.Call(func=ast.Name(id=name), args=args) if name.lower() in _FUNCTIONS:
            return _FUNCTIONS[name.lower()](*(_value(one, sizes) for one in args))
        case _:
            raise KeyError(ast.unparse(node))


def _size(name: str, axis: int, dim: Any, sizes: Mapping[str, int]) -> int:
    if dim.HasField("dim_value"):
        return dim.dim_value
    size = evaluate(dim.dim_param or dim_label(name, axis), sizes)
    assert size is not None, "input_sizes refused it before"
    return size
