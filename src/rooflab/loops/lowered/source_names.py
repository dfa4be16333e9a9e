"""How the source of a lowered function calls its arrays, accesses and loops, by line."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

import numpy as np

from rooflab.loops.lowered.pointers import Root
from rooflab.loops.read.source import Source
from rooflab.loops.read.value_types import root


class SourceNames:
    """Names from the syntax tree of a function; what has none there is named by its line."""

    def __init__(
        self,
        source: Source,
        scope: Mapping[str, Any],
        constants: Mapping[str, bytes],
        arrays: Mapping[str, tuple[int, np.ndarray]],
    ) -> None:
        """Names of a function.

        Args:
            source: of it.
            scope: what it can reach by name.
            constants: the module's constant arrays by IR name.
            arrays: of its arguments by name, each with its address.
        """
        self._source, self._arguments = source, arrays
        self._loops: dict[int, str] = {}
        self._assigned: dict[int, str] = {}
        self._subscripts: dict[int, list[ast.Subscript]] = {}
        for node in ast.walk(source.tree):
            if isinstance(node, ast.For):
                self._loops.setdefault(node.lineno, ast.unparse(node.target))
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                self._assigned.setdefault(node.lineno, node.targets[0].id)
            elif isinstance(node, ast.Subscript):
                self._subscripts.setdefault(node.lineno, []).append(node)
        arrays = {name: value for name, value in scope.items() if isinstance(value, np.ndarray)}
        self._constants = {
            each: next((name for name, value in arrays.items() if value.tobytes() == held), "a constant")
            for each, held in constants.items()
        }

    def array(self, line: int, roots: frozenset[Root]) -> str:
        """What a pointer with those roots, used in `line`, points into."""
        names = {self._root(each) for each in roots} - {""}
        return " or ".join(sorted(names)) if names else f"an array of line {line}"

    def _root(self, of: Root) -> str:
        if of.kind == "argument":
            return of.name
        if of.kind == "global":
            return self._constants.get(of.name, "")
        if of.kind == "allocation":
            line = int(of.name)
            made = self._assigned.get(line)
            return made or f"temporary of line {line}"
        return ""

    def text(self, line: int, array: str, write: bool) -> str:
        """The access to `array` in `line`, as the source has it where only one comes into question."""
        fitting = {
            ast.unparse(each)
            for each in self._subscripts.get(line, ())
            if isinstance(base := root(each), ast.Name)
            and base.id == array
            and (isinstance(each.ctx, ast.Store) == write)
        }
        return fitting.pop() if len(fitting) == 1 else array

    def variable(self, line: int) -> str:
        """The variable of the loop that begins in `line`; "" where none is written there."""
        return self._loops.get(line, "")

    def whole(self, roots: frozenset[Root], nbytes: int) -> bool:
        """Whether all elements of arguments with those roots are of `nbytes` and lie on multiples of that."""
        return all(each.kind == "argument" and self._is_whole(each.name, nbytes) for each in roots)

    def _is_whole(self, name: str, nbytes: int) -> bool:
        if name not in self._arguments:
            return False
        address, array = self._arguments[name]
        return array.itemsize == nbytes and all(each % nbytes == 0 for each in (address, *array.strides))
