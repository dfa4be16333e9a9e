"""How the place of an access moves in its loop, from the IR: whether other loads decide it."""

from __future__ import annotations

import re
from collections.abc import Callable

from rooflab.loops.lowered.ir_text import VALUE, Function, Instruction, definitions
from rooflab.loops.read.access_patterns import AccessPattern

_BASE = re.compile(r"[,t] ptr (%(?:[\w.$-]+|\"[^\"]*\"))")
_INCOMING = re.compile(r"\[ ([^,\]]+), (%[^\s\]]+) \]")


def pattern_of(
    function: Function, inside: frozenset[str], pointer: str, is_data: Callable[[str], bool]
) -> AccessPattern:
    """The pattern of an access through `pointer` in the loop of blocks `inside`.

    "gather" where what a load in the loop found decides the place, "chase" where that load is in turn where such a
    load before it decided; else "stream": whether it steps over lines is noted when it runs. What a chase through
    one array picks from another is a gather: nothing waits for it. `is_data`: whether a pointer leads to data, not
    to a local variable.
    """
    defined = definitions(function)
    within = {each.result for label in inside for each in function.blocks[label].instructions if each.result}
    loads = _loads_behind(pointer, defined, within, is_data)
    if not loads:
        return "stream"
    chased = [load for load in loads if load in _loads_behind(_address(defined[load]), defined, within, is_data)]
    if not chased:
        return "gather"
    own = _base(pointer, defined)
    bases = {_base(_address(defined[load]), defined) for load in chased}
    elsewhere = own not in within and own not in bases and not bases & within
    return "gather" if elsewhere else "chase"


def _base(pointer: str, defined: dict[str, Instruction]) -> str:
    """The pointer that steps are added to."""
    while (made := defined.get(pointer)) is not None and made.opcode in ("getelementptr", "bitcast"):
        before = _BASE.search(made.text)
        if before is None:
            break
        pointer = before[1]
    return pointer


def _address(load: Instruction) -> str:
    values = VALUE.findall(load.text.partition(" = ")[2])
    return values[0] if values else ""


def _loads_behind(
    value: str, defined: dict[str, Instruction], within: set[str], is_data: Callable[[str], bool]
) -> set[str]:
    """The loads in the loop whose results `value` is computed from, also round the loop."""
    found: set[str] = set()
    seen: set[str] = set()
    todo = [value]
    while todo:
        at = todo.pop()
        if at in seen or at not in within:
            continue
        seen.add(at)
        instruction = defined[at]
        if instruction.opcode == "load":
            if re.search(r"= load (?:i\d+|double|float)", instruction.text) and is_data(_address(instruction)):
                found.add(at)
            # what lies behind its address is asked for anew
        elif instruction.opcode == "phi":
            todo += [each for each, _ in _INCOMING.findall(instruction.text)]
        else:
            todo += VALUE.findall(instruction.text.partition(" = ")[2])
    return found
