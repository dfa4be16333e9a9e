"""One NumPy expression as an operation written by hand: `a @ b`, `a + b`, `np.exp(a)` of whole, plain arrays."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

_OPERATORS: dict[type, str] = {
    ast.MatMult: "matmul",
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Div: "div",
}
_DTYPES = {"float64": "fp64", "float32": "fp32", "float16": "fp16"}
# Functions of NumPy that are one operation of that name.
_FUNCTIONS = frozenset(
    [
        *("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "cbrt", "square", "abs", "sin", "cos"),
        *("tan", "tanh", "sinh", "cosh", "floor", "ceil", "matmul", "add", "maximum", "minimum"),
        *("sum", "mean"),
    ]
)


class Operation(NamedTuple):
    """What `by_hand.graph` takes."""

    kind: str
    shapes: tuple[tuple[int, ...], ...]
    dtype: str


def operation(node: ast.expr, namespace: Mapping[str, Any]) -> Operation | None:
    """The one operation that `node` is, of arrays of one shape, or a product of two matrices; None for any other.

    Arrays that are views with gaps, of two number formats, or that are broadcast, are left: they run otherwise.
    """
    found = _parts(node, namespace)
    if found is None:
        return None
    kind, operands = found
    return _whole(kind, [_array(one, namespace) for one in operands])


def _whole(kind: str, arrays: Sequence[np.ndarray | None]) -> Operation | None:
    """The operation on these arrays, where all are known, alike, and of a format that is counted."""
    known = [one for one in arrays if one is not None]
    formats = {one.dtype.name for one in known}
    if len(known) < len(arrays) or len(formats) != 1 or not formats <= _DTYPES.keys():
        return None
    alike = len({one.shape for one in known}) == 1
    product = kind == "matmul" and all(one.ndim == 2 for one in known)
    if not (product or (kind != "matmul" and alike)):
        return None
    return Operation(kind, tuple(one.shape for one in known), _DTYPES[known[0].dtype.name])


def operation_of(fn: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Operation | None:
    """The one operation that calling `fn`, a function of NumPy, with these arguments is; None for any other call.

    An array for the result, as `out` or after the operands, changes nothing of what is asked for.
    """
    name = str(getattr(fn, "__name__", ""))
    if name not in _BY_CALL or getattr(np, name, None) is not fn or set(kwargs) - {"out"}:
        return None
    operands = args[:-1] if len(args) == _BY_CALL[name] + 1 and isinstance(fn, np.ufunc) else args
    if len(operands) != _BY_CALL[name]:
        return None
    return _whole(_SAME.get(name, name), [one if _is_plain(one) else None for one in operands])


def operation_in(fn: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Operation | None:
    """The one operation that all of `fn` is, a function or lambda of a single expression; None for any other."""
    expression = _expression(fn) if inspect.isfunction(fn) else None
    if expression is None:
        return None
    try:
        bound = inspect.signature(fn).bind(*args, **kwargs)
        outside = inspect.getclosurevars(fn).nonlocals
    except (TypeError, ValueError):
        return None
    bound.apply_defaults()
    return operation(expression, {**fn.__globals__, **outside, **bound.arguments})


def _expression(fn: Any) -> ast.expr | None:
    """What a function of one `return`, or a lambda alone in its lines, returns; None where that is not known."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(fn)))
    except (OSError, TypeError, SyntaxError):  # no source, or lines that are no whole statement
        return None
    if fn.__name__ == "<lambda>":
        found = [node for node in ast.walk(tree) if isinstance(node, ast.Lambda)]
        return found[0].body if len(found) == 1 else None
    one = tree.body[0] if len(tree.body) == 1 else None
    if not isinstance(one, ast.FunctionDef) or one.decorator_list:
        return None
    body = one.body[1:] if ast.get_docstring(one) is not None else one.body
    return body[0].value if len(body) == 1 and isinstance(body[0], ast.Return) else None


# Functions by the number of their operands; those that are called otherwise than the operation.
_BY_CALL = dict.fromkeys((*_FUNCTIONS, "absolute"), 1) | dict.fromkeys(
    ("matmul", "dot", "add", "subtract", "multiply", "divide", "true_divide", "maximum", "minimum"), 2
)
_SAME = {
    "dot": "matmul",
    "subtract": "sub",
    "multiply": "mul",
    "divide": "div",
    "true_divide": "div",
    "absolute": "abs",
}


def _parts(node: ast.expr, namespace: Mapping[str, Any]) -> tuple[str, list[ast.expr]] | None:
    if isinstance(node, ast.BinOp):
        kind = _OPERATORS.get(type(node.op))
        return None if kind is None else (kind, [node.left, node.right])
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.keywords:
        return None
    if not isinstance(node.func.value, ast.Name):
        return None
    if namespace.get(node.func.value.id) is not np or node.func.attr not in _FUNCTIONS:
        return None
    return node.func.attr, list(node.args)


def _array(node: ast.expr, namespace: Mapping[str, Any]) -> np.ndarray | None:
    value = namespace.get(node.id) if isinstance(node, ast.Name) else None
    return value if _is_plain(value) else None


def _is_plain(value: Any) -> bool:
    """Whether it is a whole array, row by row."""
    return type(value) is np.ndarray and value.flags.c_contiguous and value.size > 0
