"""How the place of an access moves in its loop, from the IR: whether other loads decide it, or the way taken."""

from __future__ import annotations

import re
from collections.abc import Callable

from rooflab.loops.lowered import control_flow
from rooflab.loops.lowered.ir_text import VALUE, Function, Instruction, definitions
from rooflab.loops.read.access_patterns import AccessPattern

_BASE = re.compile(r"[,t] ptr (%(?:[\w.$-]+|\"[^\"]*\"))")
_CONDITION = re.compile(r"^\s*br i1 (%(?:[\w.$-]+|\"[^\"]*\"))")
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


def decided(function: Function, inside: frozenset[str], pointer: str, is_data: Callable[[str], bool]) -> bool:
    """Whether what the loop of blocks `inside` finds decides where an access through `pointer` lies.

    So it is where its place comes round the loop from a load, or from a way that was taken because of one, as the
    next probe of a binary search does: until that is known nobody can begin it. What an index says that is read in
    order is begun ahead, whatever branches lie between.
    """
    defined = definitions(function)
    blocks = {label: function.blocks[label].instructions for label in inside}
    within = {each.result for held in blocks.values() for each in held if each.result}
    places = {each.result: label for label, held in blocks.items() for each in held if each.result}
    # values that the place comes from, and whether round the loop: from the pass before
    todo, seen = [(pointer, False)], set[tuple[str, bool]]()
    while todo:
        at, before = todo.pop()
        if (at, before) in seen or at not in within:
            continue
        seen.add((at, before))
        made = defined[at]
        behind = VALUE.findall(made.text.partition(" = ")[2])
        if made.opcode == "load":
            if at in _loads_behind(_address(made), defined, within, is_data):
                return True
        elif made.opcode == "phi":
            ways = _INCOMING.findall(made.text)
            behind = [value for value, _ in ways]
            merged = all(label in inside for _, label in ways)
            if merged and before and len(set(behind)) > 1:
                tests = _tests(function, inside, places[at], {label for _, label in ways})
                if any(_loads_behind(test, defined, within, is_data) for test in tests):
                    return True
            before = before or not merged
        todo += [(each, before) for each in behind]
    return False


def _tests(function: Function, inside: frozenset[str], label: str, before: set[str]) -> list[str]:
    """What the branches test that choose between the blocks `before`, which lead to block `label`."""
    graph = {each: block.following for each, block in function.blocks.items()}
    nearest = control_flow.immediate_dominators(graph, next(iter(graph)))
    came = control_flow.predecessors(graph)
    above, todo, seen = nearest.get(label), list(before), set[str]()
    found = []
    while todo:
        at = todo.pop()
        if at in seen or at not in inside:
            continue
        seen.add(at)
        if (match := _CONDITION.match(function.blocks[at].instructions[-1].text)) is not None:
            found.append(match[1])
        if at != above:
            todo += came[at]
    return found


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
