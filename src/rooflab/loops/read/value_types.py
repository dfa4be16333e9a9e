"""What kind of value each expression of a loop has, as numba would type it, and what each operation costs."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from rooflab.errors import RooflabError
from rooflab.loops.read.source import BeyondSource, Source
from rooflab.work.formulas.functions import COMPLEX, REAL

# Ordered by what the others are promoted to; int with fp32 is fp64 in numba.
_ORDER = ("bool", "int", "fp32", "fp64", "complex64", "complex128")
FLOATS = _ORDER[2:]
_OPERATORS = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Div: "div",
    ast.FloorDiv: "floor_divide",
    ast.Mod: "remainder",
    ast.Pow: "pow",
}
_FUNCTIONS = {  # Python's and NumPy's names of what the formulas call otherwise
    "absolute": "abs", "fabs": "abs", "arctan2": "atan2", "arcsin": "asin", "arccos": "acos", "arctan": "atan",
    "power": "pow", "divide": "div", "multiply": "mul", "subtract": "sub", "negative": "neg", "fmod": "fmod",
    "arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh", "gamma": "lgamma",
}  # fmt: skip
_INTEGER_RESULT = {"math.floor", "math.ceil", "math.trunc", "round", "int", "len", "math.gcd"}
_PARTS = {"complex64": "fp32", "complex128": "fp64"}
_CASTS = {"float": "fp64", "int": "int", "bool": "bool", "complex": "complex128"}


class Array(NamedTuple):
    """An array argument.

    Attributes:
        element: kind of its elements.
        ndim, itemsize: as NumPy has them.
    """

    element: str
    ndim: int
    itemsize: int


class Flop(NamedTuple):
    """Floating-point operations of one `engine` ("vector" or "special") in one `dtype`: `times` of every `per`."""

    engine: str
    dtype: str
    times: int
    per: int = 1


Kind = str | Array


def of_value(value: Any) -> Kind:
    """The kind of an argument or constant.

    Raises:
        RooflabError: a value that loops over arrays cannot take.
    """
    if isinstance(value, np.ndarray):
        return Array(of_dtype(value.dtype), value.ndim, value.itemsize)
    if isinstance(value, (bool, np.bool_)):
        return "bool"
    if isinstance(value, (int, np.integer)):
        if not -(2**63) <= value < 2**64:
            raise RooflabError("a whole number beyond 64 bits, expected one within, or a float")
        return "int"
    if isinstance(value, (float, complex, np.generic)):
        return of_dtype(np.asarray(value).dtype, "a")
    raise BeyondSource(f"a {type(value).__name__}, expected a NumPy array or a number")


def of_dtype(dtype: np.dtype, what: str = "an array of") -> str:
    """The kind of an array's elements; errors call the value `what`, then its format.

    Raises:
        RooflabError: objects, strings, records and formats that numba cannot compute in.
    """
    if dtype.kind == "O":
        raise RooflabError("an array of Python objects, expected one of numbers: a.astype(float), if they are")
    if dtype.kind == "b":
        return "bool"
    if dtype.kind in "iu":
        return "int"
    names = {("f", 4): "fp32", ("f", 8): "fp64", ("c", 8): "complex64", ("c", 16): "complex128"}
    kind = names.get((dtype.kind, dtype.itemsize))
    if kind is None:
        raise BeyondSource(f"{what} {dtype}, expected bool, int8 to int64, float32, float64 or complex")
    return kind


def join(a: str | None, b: str | None) -> str:
    """The kind that values of both become."""
    if a is None or b is None:
        return a or b or "int"
    low, high = sorted((a, b), key=_ORDER.index)
    if low == "int" and high == "fp32":
        return "fp64"
    if low == "fp64" and high == "complex64":
        return "complex128"
    return high


class ValueTypes:
    """ValueTypes of all local names of a function, found by repeating the assignments until nothing changes."""

    def __init__(self, source: Source, arguments: Mapping[str, Kind]) -> None:
        self.source = source
        self.names: dict[str, Kind] = dict(arguments)
        self.names |= {name: _constant(source, name, value) for name, value in source.constants.items()}
        for _ in range(2 * len(_ORDER) + 2):
            before = dict(self.names)
            for node in ast.walk(source.tree):
                self._assign(node)
            if self.names == before:
                return

    def _assign(self, node: ast.AST) -> None:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                self._bind(target, node.value)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            self._bind(node.target, node.value)
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            sum_node = ast.BinOp(ast.Name(node.target.id, ast.Load()), node.op, node.value)
            self._set(node.target.id, self.of(ast.copy_location(sum_node, node)))
        elif isinstance(node, ast.For) and isinstance(node.target, ast.Name):
            self._set(node.target.id, "int")

    def _bind(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Name):
            self._set(target.id, self.of(value))
        elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            for each, bound in zip(target.elts, value.elts, strict=False):
                self._bind(each, bound)
        elif isinstance(target, ast.Tuple):
            for each in target.elts:
                if isinstance(each, ast.Name):
                    self._set(each.id, "int")

    def _set(self, name: str, kind: Kind | None) -> None:
        before = self.names.get(name)
        if isinstance(kind, Array) or isinstance(before, Array):
            self.names.setdefault(name, kind or "int")
        elif kind is not None:
            self.names[name] = join(before if isinstance(before, str) else None, kind)

    def array(self, node: ast.expr) -> Array | None:
        """The array that `node` names; None for anything else."""
        kind = self.names.get(node.id) if isinstance(node, ast.Name) else None
        return kind if isinstance(kind, Array) else None

    def of(self, node: ast.expr) -> Kind | None:
        """The kind of an expression; None where a name in it has none yet."""
        match node:
            case ast.Constant():
                return of_value(node.value) if isinstance(node.value, (bool, int, float, complex)) else None
            case ast.Name():
                return self.names.get(node.id)
            case ast.Attribute(attr="real" | "imag"):
                kind = self.of(node.value)
                return _PARTS.get(kind, kind) if isinstance(kind, str) else "int"
            case ast.Attribute():
                return "fp64" if node.attr in ("pi", "e", "inf", "nan", "tau") else "int"
            case ast.Subscript():
                array = self.array(root(node))
                return "int" if array is None else array.element
            case ast.Compare():
                return "bool"
            case ast.BoolOp():
                return self._joined(node.values)
            case ast.IfExp():
                return self._joined([node.body, node.orelse])
            case ast.UnaryOp():
                return "bool" if isinstance(node.op, ast.Not) else self.of(node.operand)
            case ast.BinOp():
                return self._operation(node)
            case ast.Call():
                return self._call(node)
        return None

    def _joined(self, nodes: list[ast.expr]) -> str | None:
        kinds = [kind for node in nodes if isinstance(kind := self.of(node), str)]
        if not kinds:
            return None
        joined = kinds[0]
        for each in kinds[1:]:
            joined = join(joined, each)
        return joined

    def _operation(self, node: ast.BinOp) -> str | None:
        kind = self._joined([node.left, node.right])
        if kind in ("bool", "int"):
            return "fp64" if isinstance(node.op, ast.Div) else "int"
        return kind

    def _call(self, node: ast.Call) -> str | None:
        name = self.called(node)
        if name in _INTEGER_RESULT:
            return "int"
        if name in _CASTS:
            return _CASTS[name]
        if name.startswith("np.") and isinstance(getattr(np, name[3:], None), type):
            return of_dtype(np.dtype(getattr(np, name[3:])))
        kind = self._joined(list(node.args))
        if name in ("abs", "np.abs", "np.absolute") and kind in ("complex64", "complex128"):
            return "fp32" if kind == "complex64" else "fp64"
        whole = name in ("abs", "min", "max") or name in ("np.minimum", "np.maximum", "np.abs", "np.absolute")
        return "fp64" if kind in ("bool", "int") and not whole else kind

    def called(self, node: ast.Call) -> str:
        """What a call names: "math.sqrt", "np.exp", "abs", "range"; the text itself for anything else."""
        return dotted(node.func, self.source.modules)

    def flop(self, node: ast.AST) -> tuple[Flop, ...]:
        """FLOP of the operation at `node` alone, its operands not counted; none for whole numbers."""
        if isinstance(node, ast.BinOp):
            return self._count(_OPERATORS.get(type(node.op)), self.of(node), node)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return (
                () if isinstance(node.operand, ast.Constant) else self._count("neg", self.of(node.operand), node)
            )
        if isinstance(node, ast.Compare):
            return self._count("lt", self._joined([node.left, *node.comparators]), node)
        if isinstance(node, ast.Call):
            name = self.called(node)
            short = name.rpartition(".")[2]
            if name in _CASTS or name in ("range", "prange", "len"):
                return ()
            times = max(1, len(node.args) - 1) if short in ("min", "max") else 1
            kind = self._joined(list(node.args))
            kind = "fp64" if kind in ("bool", "int") and name.startswith("math.") else kind
            return self._count(_FUNCTIONS.get(short, short), kind, node, times)
        return ()

    def _count(self, what: str | None, kind: Any, node: ast.AST, times: int = 1) -> tuple[Flop, ...]:
        if what is None or kind not in FLOATS:
            return ()
        power = _small_power(node) if what == "pow" else None
        if power is not None:
            # Compiled to repeated squaring: 2 for the squarings of x**4, 2 for x*x*x.
            what, times = "mul", power.bit_length() - 1 + power.bit_count() - 1
        table = COMPLEX if kind.startswith("complex") else REAL
        vector, special = table.get(what, (0, 0))
        flop = [Flop("vector", kind, vector * times), Flop("special", kind, special * times)]
        return tuple(each for each in flop if each.times)


def _constant(source: Source, name: str, value: Any) -> Kind:
    try:
        return of_value(value)
    except RooflabError as error:
        raise type(error)(f"{source.path}: {source.name}: {name} is {error}") from None


def _small_power(node: ast.AST) -> int | None:
    """The exponent of `node` where that is a whole number from 1 to 16 written in the source."""
    right = node.right if isinstance(node, ast.BinOp) else None
    value = right.value if isinstance(right, ast.Constant) else None
    return value if isinstance(value, int) and 1 <= value <= 16 else None


def known_function(name: str) -> bool:
    """Whether loops may call `name` ("math.sqrt"): one scalar in, one scalar out, its FLOP known."""
    module, _, short = name.rpartition(".")
    if name in _CASTS or name in ("abs", "min", "max", "round", "len"):
        return True
    if module == "np" and isinstance(getattr(np, short, None), type):
        return issubclass(getattr(np, short), (np.number, np.bool_))
    return module in ("math", "np") and (_FUNCTIONS.get(short, short) in REAL or name in _INTEGER_RESULT)


def dotted(node: ast.expr, modules: Mapping[str, str]) -> str:
    """The full name ("math.sqrt") of what the source may call otherwise; its text where that is nothing known."""
    if isinstance(node, ast.Name):
        return modules.get(node.id, node.id)
    if isinstance(node, ast.Attribute):
        inner = dotted(node.value, modules)
        return node.attr if inner == "numba" else f"{inner}.{node.attr}"
    return ast.unparse(node)


def root(node: ast.expr) -> ast.expr:
    """What is indexed in the end: `a` of `a[i][j]`."""
    while isinstance(node, ast.Subscript):
        node = node.value
    return node


def indices(node: ast.Subscript) -> list[ast.expr]:
    """The indices of `a[i, j]` or `a[i][j]`, outermost first."""
    mine = list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
    return indices(node.value) + mine if isinstance(node.value, ast.Subscript) else mine
