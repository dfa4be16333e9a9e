"""Where a pointer of a function of C comes from: an argument, a variable, the heap, a pointer in memory."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from rooflab.loops.lowered.ir_text import VALUE, Function, Instruction, Places
from rooflab.loops.lowered.pointers import INCOMING, Pointers, Root, argument_name, called

# Functions that hand out memory, with where their arguments say how many bytes: a product of two of calloc's.
ALLOCATIONS: Mapping[str, tuple[int, ...]] = {
    "malloc": (0,),
    "calloc": (0, 1),
    "realloc": (1,),
    "aligned_alloc": (1,),
    "_Znwm": (0,),
    "_Znam": (0,),
    "_ZnwmRKSt9nothrow_t": (0,),
    "_ZnamRKSt9nothrow_t": (0,),
    "_ZnwmSt11align_val_t": (0,),
    "_ZnamSt11align_val_t": (0,),
}
_GLOBAL = re.compile(r"@(?:[\w.$-]+|\"[^\"]*\")")
_POINTER = re.compile(
    r"\bptr (?:[a-z]\w*(?:\([^)]*\))? )*(?P<value>%(?:[\w.$-]+|\"[^\"]*\")|@(?:[\w.$-]+|\"[^\"]*\"))"
)
_ARITHMETIC = (
    "add",
    "sub",
    "mul",
    "shl",
    "or",
    "and",
    "inttoptr",
    "ptrtoint",
    "bitcast",
    "freeze",
    "addrspacecast",
)


class Known(NamedTuple):
    """Names in the source: of arrays on the stack by their alloca, of variables of the module by their IR name."""

    arrays: Mapping[str, str]
    variables: Mapping[str, str]


class CPointers(Pointers):
    """The roots of the pointers of one function.

    Kinds: "argument", "variable" (of the module), "local" (an array on the stack), "register" (a scalar there),
    "heap" (name: the line where it was made), "pointed" (behind a pointer in what is named), "foreign" (handed out
    by a function that is not seen), "unknown".
    """

    def __init__(self, function: Function, main: bool, places: Places, known: Known) -> None:
        """`main`: its parameters are the user's arguments."""
        super().__init__(function, main, places)
        self._main, self._places, self._known_names = main, places, known

    def _find(self, value: str, visiting: set[str]) -> set[Root]:
        if value in visiting:
            return set()
        visiting.add(value)
        if value.startswith("@"):
            named = self._known_names.variables.get(value)
            return {Root("foreign", value)} if named is None else {Root("variable", value)}
        if value in self._parameters:
            if self._parameters[value] != "ptr":
                return set()
            return {Root("argument", argument_name(value))} if self._main else {Root("unknown")}
        found = self._definitions.get(value)
        return set() if found is None else self._of(found, visiting)

    def _of(self, instruction: Instruction, visiting: set[str]) -> set[Root]:
        text, opcode = instruction.text, instruction.opcode
        if opcode == "alloca":
            scalar = not self._main or instruction.result not in self._known_names.arrays
            return {Root("stack" if scalar else "local", instruction.result)}
        if opcode in ("call", "invoke"):
            return self._handed_out(instruction)
        if opcode == "load":
            match = _POINTER.search(text)
            if not re.search(r"= load (?:volatile |atomic )*ptr", text):
                return set()
            behind = self._find(match["value"], visiting) if match else set()
            return {_behind(root) for root in behind} or {Root("unknown")}
        if opcode == "getelementptr":
            match = _POINTER.search(text)
            return self._find(match["value"], visiting) if match else {Root("unknown")}
        if opcode == "phi":
            values = INCOMING.findall(text)
            values = [inside[0] if (inside := _GLOBAL.findall(value)) else value for value in values]
        elif opcode == "select":
            values = VALUE.findall(text.partition(" = ")[2])[1:] + _GLOBAL.findall(text)
        elif opcode in ("extractvalue", "insertvalue") or opcode in _ARITHMETIC:
            values = VALUE.findall(text.partition(" = ")[2]) + _GLOBAL.findall(text)
        else:
            return set()
        roots: set[Root] = set()
        for value in values:
            roots |= self._find(value.strip(), visiting)
        return roots

    def _handed_out(self, each: Instruction) -> set[Root]:
        name = called(each.text)
        if name in ALLOCATIONS:
            return {Root("heap", str(self._places.line(each.debug)))}
        return {Root("foreign", name)} if re.search(r"call [^@%]*ptr @|call [^@]*ptr %", each.text) else set()


def _behind(root: Root) -> Root:
    """What a pointer in memory of that root points to."""
    if root.kind in ("foreign", "unknown"):
        return root
    return Root("pointed", f"{root.kind} {root.name}")
