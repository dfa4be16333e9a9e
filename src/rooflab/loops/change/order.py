"""The iterations of a loop in another order: its loops exchanged, in tiles, or joined with the next one's."""

from __future__ import annotations

import ast
import copy
import itertools
from collections.abc import Iterator
from typing import NamedTuple

from rooflab.loops.change import nests
from rooflab.loops.read.understood import Understood
from rooflab.loops.read.value_types import ValueTypes, indices, root
from rooflab.loops.static import dependence
from rooflab.loops.static.dependence import first_use

_MOST_ORDERS = 2  # of one nest that are worth simulating


class Reordered(NamedTuple):
    """A loop whose iterations run in another order, and how to say so."""

    loop: Understood
    text: str


def exchanged(loop: Understood) -> list[Reordered]:
    """Other orders of the loops of each nest, those with more accesses along rows in the innermost loop first."""
    found: list[Reordered] = []
    if dependence.shared(loop.arguments):
        return found
    for split in (False, True):
        tree = nests.apart(loop.source.tree, loop.value_types) if split else loop.source.tree
        if split and ast.dump(tree) == ast.dump(loop.source.tree):
            continue
        types = nests.changed(loop, copy.deepcopy(tree)).value_types
        for number, nest in enumerate(nests.exchangeable(tree, types)):
            for order in _better(nest, types):
                found.append(Reordered(_in_order(loop, tree, number, order), _says(nest, order)))
    return found


def _says(nest: nests.Nest, order: tuple[int, ...]) -> str:
    names = nest.variables
    return f"loops over {', '.join(names[n] for n in order)} instead of {', '.join(names)}, outermost first"


def _better(nest: nests.Nest, types: ValueTypes) -> list[tuple[int, ...]]:
    """Orders of the loops whose innermost one has fewer accesses that step over lines, best first."""
    now = _stepping(nest, types, nest.variables[-1])
    costs = {n: _stepping(nest, types, name) for n, name in enumerate(nest.variables)}
    last = [n for n in sorted(costs, key=lambda n: costs[n]) if costs[n] < now][:_MOST_ORDERS]
    return [(*(n for n in range(len(nest.loops)) if n != inner), inner) for inner in last]


def _stepping(nest: nests.Nest, types: ValueTypes, inner: str) -> int:
    """Accesses that a trip of a loop over `inner` moves by more than an element."""
    count = 0
    for node in (n for statement in nest.body for n in ast.walk(statement)):
        if isinstance(node, ast.Subscript) and types.array(root(node)) is not None:
            *outer, last = indices(node)
            count += any(_names(each, inner) for each in outer)
            count += any(isinstance(n, ast.Mult) for n in ast.walk(last)) and _names(last, inner)
    return count


def _names(node: ast.AST, name: str) -> bool:
    return any(isinstance(n, ast.Name) and n.id == name for n in ast.walk(node))


def _in_order(loop: Understood, tree: ast.FunctionDef, number: int, order: tuple[int, ...]) -> Understood:
    tree = copy.deepcopy(tree)
    nest = nests.exchangeable(tree, loop.value_types)[number]
    heads = [(each.target, each.iter) for each in nest.loops]
    for place, which in zip(nest.loops, order, strict=True):
        place.target, place.iter = heads[which]
    return nests.changed(loop, tree)


def tiled(loop: Understood, size: int) -> Reordered | None:
    """`loop` with its deepest nest in tiles of `size` trips of each loop; None where there is none for it."""
    tree = copy.deepcopy(loop.source.tree)
    found = nests.exchangeable(tree, loop.value_types)
    if dependence.shared(loop.arguments):
        return None
    nest = max(found, key=lambda each: len(each.loops), default=None)
    if nest is None or any(not _plain(each) for each in nest.loops):
        return None
    heads = []
    for each in nest.loops:
        assert isinstance(each.iter, ast.Call)
        name = nests.variable(each)
        *first, high = map(ast.unparse, each.iter.args)
        low = first[0] if first else "0"
        heads.append((f"{name}{name}", name, low, high))
    lines = [f"for {outer} in range({low}, {high}, {size}):" for outer, _, low, high in heads]
    lines += [f"for {name} in range({outer}, min({outer} + {size}, {high})):" for outer, name, _, high in heads]
    taken = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)} | set(loop.source.parameters)
    if taken & {outer for outer, *_ in heads}:
        return None
    text = "\n".join("    " * depth + line for depth, line in enumerate(lines))
    new = ast.parse(f"{text}\n{'    ' * len(lines)}pass").body[0]
    # Lines are those of the loops that they stand for: counts by line and the innermost loop are found by them.
    inner: ast.AST = new
    for depth in range(len(lines)):
        assert isinstance(inner, ast.For)
        for node in ast.walk(inner):
            if isinstance(node, (ast.expr, ast.stmt)):
                node.lineno = node.end_lineno = nest.loops[depth % len(heads)].lineno
        if depth + 1 < len(lines):
            inner = inner.body[0]
    assert isinstance(inner, ast.For)
    inner.body = nest.body
    inner.end_lineno = nest.loops[-1].end_lineno
    _replace(tree, nest.loops[0], new)
    names = ", ".join(nest.variables)
    return Reordered(nests.changed(loop, tree), f"{names} in tiles of {size}")


def _plain(node: ast.For) -> bool:
    """Whether a loop steps by one over range."""
    return isinstance(node.iter, ast.Call) and len(node.iter.args) < 3 and ast.unparse(node.iter.func) == "range"


def _replace(tree: ast.AST, old: ast.stmt, new: ast.stmt) -> None:
    for node in ast.walk(tree):
        held = getattr(node, "body", None)
        if isinstance(held, list) and old in held:
            held[held.index(old)] = new
            return


def fused(loop: Understood) -> Reordered | None:
    """`loop` with neighbouring nests over the same range joined; None where there are none that may be."""
    tree = copy.deepcopy(loop.source.tree)
    joined = list(_fuse(tree, loop.value_types))
    if not joined or dependence.shared(loop.arguments):
        return None
    lines = " and ".join(str(line) for line in joined[0])
    return Reordered(nests.changed(loop, tree), f"the loops of lines {lines} as one")


def _fuse(tree: ast.AST, types: ValueTypes) -> Iterator[tuple[int, int]]:
    """Join what may be joined, and say which lines were."""
    for node in list(ast.walk(tree)):
        held = getattr(node, "body", None)
        if not isinstance(held, list):
            continue
        number = 0
        while number + 1 < len(held):
            first, second = held[number : number + 2]
            if isinstance(first, ast.For) and isinstance(second, ast.For) and _may_join(first, second, types):
                yield first.lineno, second.lineno
                _join(first, second)
                del held[number + 1]
            else:
                number += 1


def _join(first: ast.For, second: ast.For) -> None:
    """Put the body of `second` behind that of `first`, at the bottom of both nests."""
    while _only_loop(first) is not None and _only_loop(second) is not None:
        first, second = _only_loop(first) or first, _only_loop(second) or second
    first.body += second.body
    first.end_lineno = second.end_lineno


def _only_loop(node: ast.For) -> ast.For | None:
    return node.body[0] if len(node.body) == 1 and isinstance(node.body[0], ast.For) else None


def _may_join(first: ast.For, second: ast.For, types: ValueTypes) -> bool:
    """Whether the same headers count both nests, and they meet in arrays only at the same place."""
    a, b = next(nests.perfect(first)), next(nests.perfect(second))
    same = [
        (ast.unparse(x.target), ast.unparse(x.iter)) == (ast.unparse(y.target), ast.unparse(y.iter))
        for x, y in itertools.zip_longest(a.loops, b.loops)
        if x is not None and y is not None
    ]
    if len(a.loops) != len(b.loops) or not all(same):
        return False
    both = [*a.body, *b.body]
    nodes = [n for statement in both for n in ast.walk(statement)]
    if any(isinstance(n, (ast.Return, ast.Break, ast.Continue, ast.While, ast.For)) for n in nodes):
        return False
    places: dict[str, set[str]] = {}
    written = set()
    for n in nodes:
        if isinstance(n, ast.Subscript) and types.array(root(n)) is not None:
            name = ast.unparse(root(n))
            places.setdefault(name, set()).add(", ".join(map(ast.unparse, indices(n))))
            if isinstance(n.ctx, ast.Store):
                written.add(name)
    # Each iteration of the second must see what the first left at its own place, and nothing of others.
    variables = set(a.variables)
    own = all(
        len(places[name]) == 1 and variables <= {v for place in places[name] for v in _words(place)}
        for name in written
    )
    scalars = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return own and all(
        first_use(a.body, s) in (None, "write") and first_use(b.body, s) in (None, "write") for s in scalars
    )


def _words(text: str) -> set[str]:
    return {n.id for n in ast.walk(ast.parse(f"({text},)")) if isinstance(n, ast.Name)}
