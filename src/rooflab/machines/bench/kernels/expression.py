"""A kernel's one-line expression, and all that follows from it: streams, bytes, FLOP, the NumPy check.

`a[i] = b[i] + s * c[i]` names three arrays, two scalars' worth of loads and a multiply-add. `x ^= a[i]`
folds a stream into a register; `x = s * t + x` touches no memory at all. Offsets are in elements
(`b[i-1]`) or in rows of `w` elements (`b[i+w]`).
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from rooflab.errors import RooflabError
from rooflab.units import FLOP_PER_FMA

FOLDS: dict[type[ast.operator], Callable[[Any], Any]] = {
    ast.BitXor: np.bitwise_xor.reduce,
    ast.Add: np.add.reduce,
}
ARITHMETIC = (ast.Add, ast.Sub, ast.Mult)


@dataclass(frozen=True)
class Offset:
    """Where a subscript points: `elements` + `rows` × w elements from i."""

    elements: int = 0
    rows: int = 0


@dataclass(frozen=True)
class Expression:
    """One assignment in terms of streams (`a[i]`), registers (`x`) and the scalars `s` and `t`.

    Attributes:
        text: the assignment as written.
    """

    text: str

    @cached_property
    def statement(self) -> ast.Assign | ast.AugAssign:
        """The parsed assignment.

        Raises:
            RooflabError: not one assignment to `a[i]` or a register, or an operation that would be counted
                or emitted wrongly.
        """
        try:
            parsed = ast.parse(self.text).body
        except SyntaxError as error:
            raise RooflabError(f"kernel row {self.text!r}: {error.msg}, expected one assignment") from None
        if len(parsed) != 1 or not isinstance(parsed[0], ast.Assign | ast.AugAssign):
            raise RooflabError(f"kernel row {self.text!r}: expected one assignment")
        _check(parsed[0], self.text)
        return parsed[0]

    @property
    def target(self) -> ast.expr:
        """The left-hand side."""
        statement = self.statement
        return statement.target if isinstance(statement, ast.AugAssign) else statement.targets[0]

    @property
    def fold(self) -> type[ast.operator] | None:
        """The operator of `x ^= …`; None for a plain assignment."""
        return type(self.statement.op) if isinstance(self.statement, ast.AugAssign) else None

    @cached_property
    def reads(self) -> tuple[str, ...]:
        """The arrays read, each once, in order of appearance."""
        return tuple(dict.fromkeys(stream_of(node) for node in _subscripts(self.statement.value)))

    @cached_property
    def writes(self) -> tuple[str, ...]:
        """The array written, if any."""
        return tuple(stream_of(node) for node in _subscripts(self.target))

    @property
    def streams(self) -> tuple[str, ...]:
        """All arrays, those read first."""
        return tuple(dict.fromkeys((*self.reads, *self.writes)))

    @property
    def streamed_elements(self) -> int:
        """Elements that cross per i: each array read once and each array written once."""
        return len(self.reads) + len(self.writes)

    @cached_property
    def flop(self) -> int:
        """Floating-point operations per element: one per +, −, ×, two per multiply-add of a `dot`."""
        value = self.statement.value
        folded = self.fold is ast.Add
        dots = sum(isinstance(node, ast.Call) for node in ast.walk(value))
        plain = sum(
            isinstance(node, ast.BinOp) and isinstance(node.op, ARITHMETIC)
            for node in ast.walk(value)
            if not _in_subscript(node, value)
        )
        return plain + folded + FLOP_PER_FMA * dots

    def evaluate(self, names: Mapping[str, Any]) -> Any:
        """The right-hand side in NumPy: streams are `Window`s, registers and scalars plain values."""
        code = compile(ast.Expression(self.statement.value), "<kernel row>", "eval")
        return eval(code, {"__builtins__": {}}, dict(names))


@dataclass(frozen=True)
class Window:
    """A stream for `Expression.evaluate`: `window[k]` is the range [start + k, start + k + count)."""

    data: np.ndarray
    start: int
    count: int

    def __getitem__(self, offset: int) -> np.ndarray:
        first = self.start + offset
        return self.data[first : first + self.count]


def stream_of(node: ast.Subscript) -> str:
    """The name of the array that `node` points into."""
    if not isinstance(node.value, ast.Name):
        raise RooflabError(f"kernel row: {ast.unparse(node)!r} is not array[i ± offset]")
    return node.value.id


def offset_of(node: ast.Subscript) -> Offset:
    """How far `node` points from i: `i`, `i ± elements` or `i ± w`."""
    index = node.slice
    if isinstance(index, ast.Name) and index.id == "i":
        return Offset()
    if isinstance(index, ast.BinOp) and isinstance(index.left, ast.Name) and index.left.id == "i":
        sign = {ast.Add: 1, ast.Sub: -1}.get(type(index.op))
        if sign and isinstance(index.right, ast.Constant) and isinstance(index.right.value, int):
            return Offset(elements=sign * index.right.value)
        if sign and isinstance(index.right, ast.Name) and index.right.id == "w":
            return Offset(rows=sign)
    raise RooflabError(f"kernel row: index {ast.unparse(index)!r} is not i, i ± number or i ± w")


def _check(statement: ast.Assign | ast.AugAssign, text: str) -> None:
    """Raise where a part of `statement` has no kernel: better no row than one that does something else."""
    if isinstance(statement, ast.AugAssign):
        if type(statement.op) not in FOLDS or not isinstance(statement.target, ast.Name):
            raise RooflabError(f"kernel row {text!r}: a fold is `x ^= …` or `x += …` into a register")
        target: ast.expr = statement.target
    else:
        (target, *more) = statement.targets
        if more:
            raise RooflabError(f"kernel row {text!r}: got {1 + len(more)} targets, expected one")
    if isinstance(target, ast.Subscript) and offset_of(target) != Offset():
        raise RooflabError(f"kernel row {text!r}: writes {ast.unparse(target)!r}, expected an offset of 0")
    if not isinstance(target, ast.Subscript | ast.Name):
        raise RooflabError(f"kernel row {text!r}: writes {ast.unparse(target)!r}, expected a[i] or a register")
    for node in ast.walk(statement.value):
        if isinstance(node, ast.Subscript):
            stream_of(node)
            offset_of(node)
        elif isinstance(node, ast.expr) and not _in_subscript(node, statement.value) and not _known(node):
            raise RooflabError(
                f"kernel row {text!r}: {ast.unparse(node)!r} is not +, − or × of streams and registers, or dot(…)"
            )


def _known(node: ast.expr) -> bool:
    """Whether FLOP of `node` are counted and its code can be written."""
    match node:
        case ast.Name():
            return True
        case ast.BinOp(op=op):
            return isinstance(op, ARITHMETIC)
        case ast.Call(func=ast.Name(id="dot"), args=arguments, keywords=[]):
            return len(arguments) == 3
    return False


def _subscripts(node: ast.expr) -> list[ast.Subscript]:
    subscripts = (child for child in ast.walk(node) if isinstance(child, ast.Subscript))
    return sorted(subscripts, key=lambda child: (child.lineno, child.col_offset))


def _in_subscript(node: ast.AST, root: ast.expr) -> bool:
    return any(node is inner for sub in _subscripts(root) for inner in ast.walk(sub.slice))
