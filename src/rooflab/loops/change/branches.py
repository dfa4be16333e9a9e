"""A loop whose branches are selects: what both ways need is computed, and one of them chosen."""

from __future__ import annotations

import ast
import copy

from rooflab.loops.change import nests
from rooflab.loops.read.understood import Understood

_NEUTRAL = {ast.Add: 0, ast.Sub: 0, ast.Mult: 1}
_ALLOWED = (
    ast.Name, ast.Constant, ast.BinOp, ast.UnaryOp, ast.Compare, ast.operator, ast.unaryop, ast.cmpop,
    ast.expr_context, ast.BoolOp, ast.boolop, ast.IfExp, ast.Subscript, ast.Tuple,
)  # fmt: skip


def selected(loop: Understood, lines: frozenset[int]) -> tuple[Understood, tuple[int, ...]] | None:
    """`loop` with the branches at `lines` as selects, and which of them; None where none can be one.

    `if c: s += x` becomes `t = x` and `s += t if c else 0.0`; `if c: a = x` with `else: a = y` becomes `t = x`,
    `u = y` and `a = t if c else u`. What lies outside of an array then is found when the changed loop is counted.
    """
    tree = copy.deepcopy(loop.source.tree)
    changed: list[int] = []
    for node in ast.walk(tree):
        for name in ("body", "orelse"):
            held = getattr(node, name, None)
            if isinstance(held, list):
                setattr(node, name, [new for each in held for new in _select(each, lines, changed)])
    return (nests.changed(loop, tree), tuple(sorted(changed))) if changed else None


def _select(node: ast.stmt, lines: frozenset[int], changed: list[int]) -> list[ast.stmt]:
    if not isinstance(node, ast.If) or not lines & set(range(node.lineno, (node.end_lineno or 0) + 1)):
        return [node]
    new = _without_branch(node)
    if new is None:
        return [node]
    changed.append(node.lineno)
    for each in (one for statement in new for one in ast.walk(statement)):
        if isinstance(each, (ast.expr, ast.stmt)):
            each.lineno = each.end_lineno = node.lineno
    return new


def _without_branch(node: ast.If) -> list[ast.stmt] | None:
    """The statements without a branch, where `node` has a form for which there are some."""
    if len(node.body) != 1 or len(node.orelse) > 1:
        return None
    first, other = node.body[0], node.orelse[0] if node.orelse else None
    test, taken = ast.unparse(node.test), f"taken_{node.lineno}"
    if isinstance(first, ast.AugAssign) and other is None and isinstance(first.target, ast.Name):
        neutral = _NEUTRAL.get(type(first.op))
        if neutral is None or not _plain(first.value):
            return None
        whole = isinstance(first.value, ast.Constant) and isinstance(first.value.value, int)
        nothing = neutral if whole else float(neutral)
        text = f"{taken} = {ast.unparse(first.value)}\nx += {taken} if {test} else {nothing}"
        before, added = ast.parse(text).body
        assert isinstance(added, ast.AugAssign)
        added.target, added.op = first.target, first.op
        return [before, added]
    pair = (first, other)
    if not all(isinstance(each, ast.Assign) and len(each.targets) == 1 for each in pair):
        return None
    assert isinstance(first, ast.Assign)
    assert isinstance(other, ast.Assign)
    target = ast.unparse(first.targets[0])
    if ast.unparse(other.targets[0]) != target or not (_plain(first.value) and _plain(other.value)):
        return None
    text = f"{taken} = {ast.unparse(first.value)}\nor_{taken} = {ast.unparse(other.value)}\n"
    return ast.parse(f"{text}{target} = {taken} if {test} else or_{taken}").body


def _plain(node: ast.expr) -> bool:
    """Whether `node` is arithmetic and accesses alone: what may be computed though nobody wants it."""
    return all(isinstance(each, _ALLOWED) for each in ast.walk(node))
