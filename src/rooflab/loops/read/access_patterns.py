"""How the place of an access moves: as the loops say, as data say, or as the last access said."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Literal

from rooflab.loops.read.source import Source
from rooflab.loops.read.value_types import ValueTypes, indices, root

# "stream": along a row in the innermost loop; prefetchers follow. "stride": over lines, as down a column.
# "gather": x[idx[k]]; many are in flight at once. "chase": the place comes from the access before, as in
# i = following[i]; each waits for the last. What else is picked at i, x[i], is a gather.
AccessPattern = Literal["stream", "stride", "gather", "chase"]


class Patterns:
    """The access pattern of each access of a function."""

    def __init__(self, source: Source, types: ValueTypes) -> None:
        self._kinds = types
        self._from: dict[str, set[str]] = {}
        self._loaded: dict[str, set[str]] = {}  # from which arrays
        for node in ast.walk(source.tree):
            if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)) and node.value is not None:
                for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                    self._assigned(target, node.value)

    def _assigned(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            for each, assigned in zip(target.elts, value.elts, strict=False):
                self._assigned(each, assigned)
        elif isinstance(target, ast.Name) and isinstance(self._kinds.of(target), str):
            # a number of any format: a place in a table is often computed from one
            self._from.setdefault(target.id, set()).update(_names(value))
            arrays = {ast.unparse(root(each)) for each in self._elements(value)}
            if arrays:
                self._loaded.setdefault(target.id, set()).update(arrays)

    def of(self, node: ast.Subscript, variable: str, unit: bool) -> AccessPattern:
        """The pattern of the access `node` in the loop over `variable`, the innermost; `unit`: contiguous rows."""
        names = {name for index in indices(node) for name in _names(index)}
        sources = self._closure(names)
        loaded = sources & self._loaded.keys()
        chased = {name for name in loaded if name in self._closure(self._from.get(name, set()))}
        if any(ast.unparse(root(node)) in self._loaded[name] for name in chased):
            return "chase"
        nested = any(True for index in indices(node) for _ in self._elements(index))
        if nested or loaded:
            return "gather"
        return "stream" if moves_by_one(node, variable, unit) else "stride"

    def _closure(self, names: set[str]) -> set[str]:
        reached, todo = set(names), list(names)
        while todo:
            fresh = self._from.get(todo.pop(), set()) - reached
            reached |= fresh
            todo += fresh
        return reached

    def _elements(self, node: ast.AST) -> Iterator[ast.Subscript]:
        for each in ast.walk(node):
            if isinstance(each, ast.Subscript) and self._kinds.array(root(each)) is not None:
                yield each


def moves_by_one(node: ast.Subscript, variable: str, unit: bool = True) -> bool:
    """Whether an element stays, or moves by one element, with `variable`; `unit`: rows are contiguous."""
    *outer, last = indices(node)
    if any(variable in _names(each) for each in outer):
        return False
    if variable not in _names(last):
        return True
    return unit and not any(
        isinstance(each, ast.BinOp) and isinstance(each.op, ast.Mult) and variable in _names(each)
        for each in ast.walk(last)
    )


def _names(node: ast.AST) -> set[str]:
    if isinstance(node, ast.Attribute):
        return set()
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
