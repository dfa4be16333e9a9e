"""The loops of a lowered function, and which statement of the source each of them is.

One while may be two natural loops, as Python writes its test before it and at its end. An array expression is a
loop without a statement. NumPy's functions of one number are loops of one trip in numba, and none here.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rooflab.loops.lowered import control_flow
from rooflab.loops.lowered.ir_text import Function, Places

_ONCE = re.compile(r"= icmp slt i64 (?P<index>%\S+), 1\b")
_BRANCH = re.compile(r"^\s*br i1 (?P<test>%[^\s,]+)")


class Statement(NamedTuple):
    """A for or while: first and last line, those of its test, where its body begins, the variable of a for."""

    first: int
    last: int
    tested: range
    body: int
    variable: str | None


class SourceLoop(NamedTuple):
    """A loop.

    Attributes:
        blocks: of it.
        parent: place of the loop around it, among all.
        line: where it begins.
        variable: of a for, as text; "" of any other.
        trips: the block that runs once a trip.
        statement: that it is; None of an array expression.
    """

    blocks: frozenset[str]
    parent: int | None
    line: int
    variable: str
    trips: str
    statement: Statement | None


def statements(tree: ast.AST) -> tuple[Statement, ...]:
    """Every loop of a syntax tree, outer ones first."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, (ast.For, ast.While)):
            asked = node.iter if isinstance(node, ast.For) else node.test
            tested = range(node.lineno, (asked.end_lineno or node.lineno) + 1)
            variable = ast.unparse(node.target) if isinstance(node, ast.For) else None
            last = max(each.end_lineno or 0 for each in ast.walk(node) if isinstance(each, ast.stmt))
            found.append(Statement(node.lineno, last, tested, node.body[0].lineno, variable))
    return tuple(found)


class _Held(NamedTuple):
    """A natural loop on its way: with all heads that are it."""

    loop: control_flow.NaturalLoop
    heads: list[str]
    statement: Statement | None
    around: int | None


def find(
    function: Function,
    warm: Mapping[str, Sequence[str]],
    places: Places,
    known: Sequence[Statement],
) -> tuple[SourceLoop, ...]:
    """The loops of `function` in the order of the source, outer ones before those in them.

    Args:
        function: lowered.
        warm: its blocks but for those that only an exception leads to, with what follows each.
        places: the lines of its instructions.
        known: the loops of its source; none of a function that is not the user's own.
    """
    entry = next(iter(warm))
    lines = {
        label: [n for n in (places.line(each.debug) for each in function.blocks[label].instructions) if n]
        for label in warm
    }
    kept: dict[int, _Held] = {}
    into: dict[int, int | None] = {}
    for loop in control_flow.loops(warm, entry):
        around = None if loop.parent is None else into[loop.parent]
        into[loop.number] = around
        if _runs_once(function, loop):
            continue
        own = {line for label in loop.blocks for line in lines[label]}
        statement = _statement(known, own)
        outer = None if around is None else kept[around]
        if statement is not None and outer is not None and outer.statement is statement:
            if statement.variable is None and own & set(statement.tested):
                outer.heads.append(loop.head)
                continue
            statement = None
        if statement is not None and statement.variable is not None and statement.first not in own:
            statement = None
        kept[loop.number] = _Held(loop, [loop.head], statement, around)
        into[loop.number] = loop.number
    order = _in_order(kept, lines)
    place = {number: at for at, number in enumerate(order)}
    return tuple(_made(kept[number], function, warm, lines, place) for number in order)


def _statement(known: Sequence[Statement], lines: set[int]) -> Statement | None:
    """The innermost statement that holds all of `lines`."""
    holding = [each for each in known if lines and each.first <= min(lines) and max(lines) <= each.last]
    return min(holding, key=lambda each: each.last - each.first) if holding else None


def _runs_once(function: Function, loop: control_flow.NaturalLoop) -> bool:
    """Whether its index begins at 0 and stays below 1."""
    head = function.blocks[loop.head].instructions
    match = _BRANCH.match(head[-1].text)
    for each in head:
        found = _ONCE.search(each.text)
        if found and match and each.result == match["test"]:
            return any(one.result == found["index"] and re.search(r"phi i64 .*\[ 0, ", one.text) for one in head)
    return False


def _in_order(kept: Mapping[int, _Held], lines: Mapping[str, list[int]]) -> list[int]:
    order: list[int] = []

    def walk(around: int | None) -> None:
        inside = [number for number, each in kept.items() if each.around == around]
        for number in sorted(inside, key=lambda number: _line(kept[number], lines)):
            order.append(number)
            walk(number)

    walk(None)
    return order


def _line(each: _Held, lines: Mapping[str, list[int]]) -> int:
    if each.statement is not None:
        return each.statement.first
    return next(iter(lines[each.loop.head]), 0)


def _made(
    each: _Held,
    function: Function,
    warm: Mapping[str, Sequence[str]],
    lines: Mapping[str, list[int]],
    place: Mapping[int, int],
) -> SourceLoop:
    variable = "" if each.statement is None else each.statement.variable or ""
    return SourceLoop(
        each.loop.blocks,
        None if each.around is None else place[each.around],
        _line(each, lines),
        variable,
        _trips(each, function, warm, lines),
        each.statement,
    )


def _trips(
    each: _Held, function: Function, warm: Mapping[str, Sequence[str]], lines: Mapping[str, list[int]]
) -> str:
    """The block that runs once a trip: where the body begins, as the test runs once more."""
    statement, head = each.statement, each.heads[-1]
    if statement is not None and statement.variable is None and statement.body > statement.tested[-1]:
        todo, seen = [head], {head}
        while todo:
            label = todo.pop(0)
            own = lines[label]
            if own and statement.body <= own[0] <= statement.last:
                return label
            fresh = [one for one in warm[label] if one in each.loop.blocks and one not in seen]
            seen.update(fresh)
            todo += fresh
    body = [one for one in function.blocks[head].following if one in each.loop.blocks]
    return body[0] if len(body) == 1 and len(function.blocks[head].following) > 1 else head
