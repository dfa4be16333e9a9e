"""What is to be said where a lowered function raises: of an index, what it was, and in which array and loops."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from rooflab.loops.lowered.ir_text import Block, Function, Instruction, definitions
from rooflab.loops.lowered.pointers import argument_name

_TEST = re.compile(r"= icmp s(?:lt|ge) i64 (?P<index>[^\s,]+), (?P<length>[^\s,]+)")
_BRANCH = re.compile(r"^\s*br i1 (?P<test>%[^\s,]+)")
_SAME = re.compile(r"= bitcast (?P<kind>\w+) (?P<value>\S+) to (?P=kind)\b")
_CHOSEN = re.compile(r"= select i1 %\S+, i64 [^\s,]+, i64 (?P<plain>[^\s,]+)")
_SHAPE = re.compile(r"^%\"?arg\.(?P<name>.+?)\.5\.(?P<axis>\d+)\"?$")


class Raised(NamedTuple):
    """A place that sets an exception.

    Attributes:
        line: of the source.
        asked, length: values that say what was asked for, of how many; "" where it is no index.
        array, axis: what is known of them: the argument's name, and which of its indices; "" and None otherwise.
        loops: numbers of the loops around it, with the value of each one's variable, where it has one.
        access: the reference that the check stands before; None where none follows.
        tests: the loop, a while, whose test this is, if it is one.
        passed_on: whether what is called there has set it.
    """

    line: int
    asked: str
    length: str
    array: str
    axis: int | None
    loops: tuple[tuple[int, str], ...]
    access: int | None
    tests: int | None
    passed_on: bool = False


def index_of(function: Function, label: str) -> tuple[str, str, str, int | None]:
    """Index, length, array and axis of the check that leads to block `label`."""
    before = [each for each in function.blocks.values() if label in each.following]
    defined = definitions(function)
    if len(before) != 1:
        return "", "", "", None
    index, length = _checked(before[0], defined)
    while length == "0":
        # not below zero: how long the array is, the check before that one says
        earlier = [each for each in function.blocks.values() if before[0].label in each.following]
        if len(earlier) != 1:
            return "", "", "", None
        before = earlier
        again, length = _checked(before[0], defined)
        if again != index:
            return "", "", "", None
    if not index:
        return "", "", "", None
    match = _SHAPE.match(_plain(length, defined))
    plain = _CHOSEN.search(defined[index].text) if index in defined else None
    array = argument_name(match[0]) if match else ""
    return plain["plain"] if plain else index, length, array, int(match["axis"]) if match else None


def _checked(block: Block, defined: Mapping[str, Instruction]) -> tuple[str, str]:
    branch = _BRANCH.match(block.instructions[-1].text)
    test = defined.get(_plain(branch["test"], defined)) if branch else None
    match = _TEST.search(test.text) if test is not None else None
    return (_plain(match["index"], defined), match["length"]) if match else ("", "")


def _plain(value: str, defined: Mapping[str, Instruction]) -> str:
    while value in defined and (match := _SAME.search(defined[value].text)):
        value = match["value"]
    return value


def before(function: Function, label: str, value: str) -> str:
    """`value`, or that which it is a copy of, where it is there before block `label` begins; else ""."""
    defined = definitions(function)
    plain = _plain(value, defined)
    here = (each for each in function.blocks[label].instructions if each.opcode != "phi")
    return "" if not plain.startswith("%") or any(each.result == plain for each in here) else plain
