"""Comparisons of numbers: those that are one instruction with the choice that they decide, and the others."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from rooflab.loops.lowered.ir_text import VALUE, Instruction
from rooflab.loops.lowered.operations import kind_of

_TYPE = r"(?:double|float|<\d+ x (?:double|float)>)"
_CHOICE = re.compile(
    rf"select (?:[a-z ]+ )?(?:i1|<\d+ x i1>) (?P<test>%\S+), {_TYPE} (?P<one>[^,\s]+), {_TYPE} (?P<other>[^,\s]+)"
)
_COMPARED = re.compile(rf"= fcmp (?:[a-z ]+ )?{_TYPE} (?P<one>[^,\s]+), (?P<other>[^,\s]+)")


def kinds(instructions: Sequence[Instruction]) -> Callable[[Instruction], tuple[str, float] | None]:
    """`kind_of`, which tells comparisons whose result goes to another register before anything is chosen by it."""
    apart = _apart(instructions)

    def kind_in(instruction: Instruction) -> tuple[str, float] | None:
        found = kind_of(instruction)
        return ("fp compare apart", found[1]) if found and instruction.result in apart else found

    return kind_in


def _apart(instructions: Sequence[Instruction]) -> set[str]:
    """Results of comparisons by which something else is decided than which of the numbers compared it is.

    The lesser of two and the greater are one instruction each, which waits for nothing else. Of others the result
    goes to a mask, or to the flags that a jump or a choice among whole numbers tests.
    """
    found = ((each.result, _COMPARED.search(each.text)) for each in instructions)
    compared = {result: set(match.groups()) for result, match in found if match}
    alike, others = set[str](), set[str]()
    for each in instructions:
        match = _CHOICE.search(each.text) if each.opcode == "select" else None
        for value in VALUE.findall(each.text.partition(" = ")[2] or each.text):
            if value in compared:
                same = match is not None and {match["one"], match["other"]} == compared[value]
                (alike if same else others).add(value)
    return others - alike
