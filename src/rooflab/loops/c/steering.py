"""Whether what a function stores also decides which way it takes: each timed run then needs fresh inputs."""

from __future__ import annotations

import re

from rooflab.loops.c.pointers import CPointers
from rooflab.loops.lowered.ir_text import VALUE, Function, definitions

_POINTER = re.compile(r"(?:load|store) .*?ptr (%(?:[\w.$-]+|\"[^\"]*\")|@(?:[\w.$-]+|\"[^\"]*\"))")


def steered(function: Function, pointers: CPointers) -> bool:
    """Whether values that branches or places of accesses follow from are loaded from what is stored to."""
    defined = definitions(function)
    stored, todo = set(), []
    for each in function.instructions():
        match = _POINTER.search(each.text)
        if each.opcode == "store" and match:
            stored |= pointers.roots(match[1])
        if each.opcode in ("br", "switch") or (each.opcode == "getelementptr"):
            todo += [
                value for value in VALUE.findall(each.text.partition(" = ")[2] or each.text) if value in defined
            ]
    seen: set[str] = set()
    read = set()
    while todo:
        value = todo.pop()
        if value in seen or value not in defined:
            continue
        seen.add(value)
        each = defined[value]
        match = _POINTER.search(each.text)
        if each.opcode == "load" and match:
            read |= pointers.roots(match[1])
        todo += VALUE.findall(each.text.partition(" = ")[2])
    # what it makes itself it makes anew each time
    return any(each.kind not in ("heap", "local", "stack") for each in stored & read)
