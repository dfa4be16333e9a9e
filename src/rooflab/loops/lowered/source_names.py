"""How the source of a lowered function calls its arrays and accesses, by line."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from rooflab.loops.lowered.pointers import Root
from rooflab.loops.read.source import Source
from rooflab.loops.read.twin_text import Ref
from rooflab.loops.read.value_types import root


class SourceNames:
    """Names from the syntax tree of a function; what has none there is named by its line."""

    def __init__(
        self,
        source: Source,
        scope: Mapping[str, Any],
        constants: Mapping[str, bytes],
        whole: Mapping[str, int],
    ) -> None:
        """Names of a function.

        Args:
            source: of it.
            scope: what it can reach by name.
            constants: the module's constant arrays by IR name.
            whole: bytes of an element of its arguments whose elements all lie on multiples of that.
        """
        self._source, self._whole = source, whole
        self._assigned: dict[int, str] = {}
        self._subscripts: dict[tuple[int, bool], list[ast.Subscript]] = {}
        for each, write in _accesses(source.tree):
            self._subscripts.setdefault((each.lineno, write), []).append(each)
        for node in ast.walk(source.tree):
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                self._assigned.setdefault(node.lineno, node.targets[0].id)
        of_module = {name: value for name, value in scope.items() if isinstance(value, np.ndarray)}
        self._constants = {
            each: next((name for name, value in of_module.items() if value.tobytes() == held), "a constant")
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

    def texts(self, refs: Sequence[Ref]) -> dict[int, str]:
        """The accesses as the source has them, by number; without those that cannot be told apart.

        Those to one array in one line stand in the order in which Python makes them.
        """
        groups: dict[tuple[int, str, bool], list[int]] = {}
        for ref in refs:
            groups.setdefault((ref.line, ref.array, ref.write), []).append(ref.number)
        found: dict[int, str] = {}
        for (line, array, write), numbers in groups.items():
            names = set(array.split(" or "))
            fitting = [
                ast.unparse(each)
                for each in self._subscripts.get((line, write), ())
                if isinstance(base := root(each), ast.Name) and base.id in names
            ]
            # the test of a while stands twice
            if fitting and (len(set(fitting)) == 1 or len(numbers) % len(fitting) == 0):
                found |= {number: fitting[place % len(fitting)] for place, number in enumerate(numbers)}
        return found

    def whole(self, roots: frozenset[Root], nbytes: int) -> bool:
        """Whether all elements of arguments with those roots are of `nbytes` and lie on multiples of that."""
        return all(each.kind == "argument" and self._whole.get(each.name) == nbytes for each in roots)


def _accesses(node: ast.AST) -> Iterator[tuple[ast.Subscript, bool]]:
    """The subscripts in `node` and whether they are stores, in the order in which Python comes to them."""
    match node:
        case ast.Subscript():
            base: ast.expr = node
            outer = []
            while isinstance(base, ast.Subscript):
                outer.append(base.slice)
                base = base.value
            yield from _accesses(base)
            for each in reversed(outer):
                yield from _accesses(each)
            yield node, isinstance(node.ctx, ast.Store)
        case ast.Assign() | ast.AnnAssign() if node.value is not None:
            yield from _accesses(node.value)
            for each in node.targets if isinstance(node, ast.Assign) else [node.target]:
                yield from _accesses(each)
        case ast.AugAssign() if isinstance(node.target, ast.Subscript):
            for each, _ in _accesses(node.target):
                yield each, False
            yield from _accesses(node.value)
            yield node.target, True
        case ast.IfExp():
            for each in (node.test, node.body, node.orelse):
                yield from _accesses(each)
        case _:
            for each in ast.iter_child_nodes(node):
                yield from _accesses(each)
