"""Nests of loops in which nothing but the order of the iterations would change if their loops were exchanged.

By rule, and narrow: bounds are a rectangle, every array that is written is accessed at one place in each
iteration, scalars live within one or are sums. What is changed is run beside the original all the same.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rooflab.loops.read.understood import Understood
from rooflab.loops.read.value_types import ValueTypes, indices, root
from rooflab.loops.static.dependence import first_use


class Nest(NamedTuple):
    """Loops directly inside one another, outermost first; `body` is that of the innermost."""

    loops: tuple[ast.For, ...]
    body: list[ast.stmt]

    @property
    def variables(self) -> tuple[str, ...]:
        """What the loops count in."""
        return tuple(variable(each) for each in self.loops)


def variable(node: ast.For) -> str:
    """What a loop counts in."""
    assert isinstance(node.target, ast.Name)
    return node.target.id


def changed(loop: Understood, tree: ast.FunctionDef) -> Understood:
    """`loop` with `tree` in the place of its function."""
    source = loop.source._replace(tree=ast.fix_missing_locations(tree))
    return Understood(source, ValueTypes(source, loop.arguments.types), loop.arguments)


def exchangeable(tree: ast.FunctionDef, types: ValueTypes) -> list[Nest]:
    """The nests of two loops or more of `tree` whose iterations may run in any order of the loops."""
    return [nest for nest in perfect(tree) if len(nest.loops) > 1 and _any_order(nest, types)]


def perfect(tree: ast.AST) -> Iterator[Nest]:
    """The loops of `tree` that hold nothing but one another, as deep as they go; single loops too."""
    inside: set[int] = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.For) or id(node) in inside:
            continue
        loops = [node]
        while len(loops[-1].body) == 1 and isinstance(loops[-1].body[0], ast.For):
            loops.append(loops[-1].body[0])
            inside.add(id(loops[-1]))
        yield Nest(tuple(loops), loops[-1].body)


def apart(tree: ast.FunctionDef, types: ValueTypes) -> ast.FunctionDef:
    """`tree` with each sum in a scalar, stored when it is done, added up in its place of the array instead.

    s = 0; for k: s += x; c[j] = s within a loop over j becomes two loops over j: c[j] = 0, then the nest over j
    and k with c[j] += x, whose loops can be exchanged.
    """
    tree = copy.deepcopy(tree)
    for node in ast.walk(tree):
        for name in ("body", "orelse"):
            held = getattr(node, name, None)
            if isinstance(held, list):
                setattr(node, name, [new for each in held for new in _split(each, types)])
    return ast.fix_missing_locations(tree)


def _split(node: ast.stmt, types: ValueTypes) -> list[ast.stmt]:
    if not isinstance(node, ast.For) or len(node.body) != 3:
        return [node]
    start, inner, end = node.body
    if not (
        isinstance(start, ast.Assign)
        and len(start.targets) == 1
        and isinstance(start.targets[0], ast.Name)
        and isinstance(start.value, ast.Constant)
        and isinstance(inner, ast.For)
        and len(inner.body) == 1
        and isinstance(inner.body[0], ast.AugAssign)
        and isinstance(inner.body[0].op, ast.Add)
    ):
        return [node]
    total, add = start.targets[0].id, inner.body[0]
    if not (isinstance(add.target, ast.Name) and add.target.id == total):
        return [node]
    if isinstance(end, ast.Assign) and len(end.targets) == 1:
        place, first = end.targets[0], True
    elif isinstance(end, ast.AugAssign) and isinstance(end.op, ast.Add):
        place, first = end.target, False
    else:
        return [node]
    used = [n for n in ast.walk(add.value) if isinstance(n, ast.Name)]
    stored = root(place)
    if (
        not (isinstance(end.value, ast.Name) and end.value.id == total)
        or not isinstance(place, ast.Subscript)
        or types.array(stored) is None
        or any(n.id in (total, getattr(stored, "id", "")) for n in used)
        or variable(node) not in {n.id for n in ast.walk(place) if isinstance(n, ast.Name)}
    ):
        return [node]
    target = copy.deepcopy(place)
    inner = copy.deepcopy(inner)
    inner.body = [ast.copy_location(ast.AugAssign(target, ast.Add(), add.value), add)]
    adding = ast.copy_location(ast.For(copy.deepcopy(node.target), copy.deepcopy(node.iter), [inner], []), node)
    if not first:
        return [adding]
    begin = ast.copy_location(ast.Assign([place], start.value), start)
    return [ast.copy_location(ast.For(node.target, node.iter, [begin], []), node), adding]


def _any_order(nest: Nest, types: ValueTypes) -> bool:
    variables = set(nest.variables)
    for each in nest.loops:
        if not isinstance(each.iter, ast.Call) or types.called(each.iter) not in ("range", "prange"):
            return False
        used = {n.id for n in ast.walk(each.iter) if isinstance(n, ast.Name)}
        if used & variables:
            return False
    for node in (n for statement in nest.body for n in ast.walk(statement)):
        if isinstance(node, (ast.Return, ast.Break, ast.Continue, ast.While, ast.For)):
            return False
        if isinstance(node, ast.Tuple) and isinstance(node.ctx, ast.Store):
            return False
    return _arrays_at_one_place(nest.body, types) and _in_turn_or_sums(nest, types) and _scalars_stay(nest.body)


def _arrays_at_one_place(body: Sequence[ast.stmt], types: ValueTypes) -> bool:
    """Whether each array that is written is accessed at the same indices everywhere in `body`."""
    written: set[str] = set()
    places: dict[str, set[str]] = {}
    for statement in body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Subscript) and types.array(root(node)) is not None:
                name = ast.unparse(root(node))
                places.setdefault(name, set()).add(", ".join(map(ast.unparse, indices(node))))
                if isinstance(node.ctx, ast.Store):
                    written.add(name)
    return all(len(places[name]) == 1 for name in written)


def _in_turn_or_sums(nest: Nest, types: ValueTypes) -> bool:
    """Whether what comes to one element comes from one loop, whose order stays, or is added up."""
    for node in (n for statement in nest.body for n in ast.walk(statement)):
        if not (isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store)):
            continue
        if types.array(root(node)) is None:
            continue
        named = {n.id for place in indices(node) for n in ast.walk(place) if isinstance(n, ast.Name)}
        adds = any(
            isinstance(s, ast.AugAssign) and isinstance(s.op, (ast.Add, ast.Sub)) and s.target is node
            for s in nest.body
        )
        if len(set(nest.variables) - named) > 1 and not adds:
            return False
    return True


def _scalars_stay(body: Sequence[ast.stmt]) -> bool:
    """Whether each scalar is written before it is read in an iteration, or only added to."""
    nodes = [n for statement in body for n in ast.walk(statement)]
    names = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    for name in names:
        if first_use(body, name) == "write":
            continue
        uses = sum(isinstance(n, ast.Name) and n.id == name for n in nodes)
        sums = sum(
            isinstance(n, ast.AugAssign)
            and isinstance(n.op, ast.Add)
            and isinstance(n.target, ast.Name)
            and n.target.id == name
            for n in nodes
        )
        if uses != sums:
            return False
    return True
