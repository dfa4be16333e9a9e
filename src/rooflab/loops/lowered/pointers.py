"""Where a pointer of a lowered function comes from: an argument, an allocation, a constant, the stack."""

from __future__ import annotations

import re
from typing import NamedTuple

from rooflab.loops.lowered.ir_text import VALUE, Function, Instruction, Places, definitions

ALLOCATIONS = (
    "NRT_MemInfo_alloc_aligned",
    "NRT_MemInfo_alloc_safe_aligned",
    "NRT_MemInfo_alloc_safe",
    "NRT_MemInfo_alloc",
)
_POINTER = re.compile(
    r"\bptr (?:\w+\([^)]*\) )?(?P<value>%(?:[\w.$-]+|\"[^\"]*\")|@(?:[\w.$-]+|\"[^\"]*\")|null|undef|poison)"
)
INCOMING = re.compile(r"\[ ([^,\]]+), %")
_CALLED = re.compile(r"@([\w.$]+|\"[^\"]+\")\(")
_ARGUMENT = re.compile(r"^%\"?arg\.(?P<name>.+?)(?:\.\d+)*\"?$")
# What arithmetic on addresses is made of: the address is in any of the operands.
_THROUGH = (
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
    "trunc",
    "zext",
    "sext",
)


class Root(NamedTuple):
    """What a pointer points into.

    Attributes:
        kind: "argument", "meminfo" (of an allocation), "allocation" (its data), "global", "stack", "unknown".
        name: of the argument or constant, or the line of the allocation.
    """

    kind: str
    name: str = ""


def argument_name(value: str) -> str:
    """The name in the source of a parameter of the lowered function, "" of one that numba added."""
    match = _ARGUMENT.match(value)
    return match["name"].strip('"') if match else ""


def called(text: str) -> str:
    """The function that a call names; "" of a call through a pointer."""
    match = _CALLED.search(text)
    return match[1].strip('"') if match else ""


class Pointers:
    """The roots of the pointers of one function."""

    def __init__(self, function: Function, named: bool, places: Places) -> None:
        """`named`: its parameters are arrays of the user's, not what another lowered function hands over."""
        self._named = named
        self._definitions = definitions(function)
        self._parameters = function.parameters
        self._known: dict[str, frozenset[Root]] = {}
        self.allocations: dict[str, int] = {
            each.result: places.line(each.debug)
            for each in function.instructions()
            if each.opcode == "call" and each.result and called(each.text) in ALLOCATIONS
        }

    def roots(self, value: str) -> frozenset[Root]:
        """Everything that `value` may point into; of a whole number those of the pointers that it is made of."""
        if value not in self._known:
            self._known[value] = frozenset()
            # Twice: what goes round a loop knows itself only after the first time.
            for _ in range(2):
                visiting: set[str] = set()
                self._known[value] = frozenset(self._find(value, visiting))
        return self._known[value]

    def text(self, value: str) -> str:
        """The instruction that computes `value`; "" of an argument or a constant."""
        instruction = self._definitions.get(value)
        return "" if instruction is None else instruction.text

    def place_of(self, value: str) -> int:
        """The number of the place in the source of what computes `value`, −1 where there is none."""
        instruction = self._definitions.get(value)
        return -1 if instruction is None else instruction.debug

    def _find(self, value: str, visiting: set[str]) -> set[Root]:
        if value in visiting:
            return set()
        visiting.add(value)
        if value.startswith("@"):
            return {Root("global", value)}
        if value in self._parameters:
            name = argument_name(value)
            if self._parameters[value] != "ptr":
                return set()
            if not name:
                # where a result and an exception go
                return {Root("stack")}
            return {Root("argument", name)} if self._named else {Root("unknown")}
        instruction = self._definitions.get(value)
        if instruction is None:
            # null, undef, a constant
            return set()
        return self._of(instruction, visiting)

    def _of(self, instruction: Instruction, visiting: set[str]) -> set[Root]:
        text, opcode = instruction.text, instruction.opcode
        if opcode == "alloca":
            return {Root("stack")}
        if opcode == "call":
            if instruction.result in self.allocations:
                return {Root("meminfo", str(self.allocations[instruction.result]))}
            return {Root("unknown")} if re.search(r"call [^@%]*ptr @", text) else set()
        if opcode == "load":
            return self._loaded(text, visiting)
        if opcode == "getelementptr":
            match = _POINTER.search(text)
            return self._find(match["value"], visiting) if match else {Root("unknown")}
        if opcode == "phi":
            values = INCOMING.findall(text)
        elif opcode == "select":
            values = VALUE.findall(text.partition(" = ")[2])[1:] + _globals(text)
        elif opcode in ("extractvalue", "insertvalue") or opcode in _THROUGH:
            values = VALUE.findall(text.partition(" = ")[2]) + _globals(text)
        else:
            return set()
        found: set[Root] = set()
        for each in values:
            found |= self._find(each.strip(), visiting)
        return found

    def _loaded(self, text: str, visiting: set[str]) -> set[Root]:
        """What a pointer that was loaded points into: the data of an allocation, where it lies in its meminfo."""
        match = _POINTER.search(text)
        if not re.search(r"= load (?:volatile |atomic )?ptr", text):
            # a number that is computed with, an index
            return set()
        found = self._find(match["value"], visiting) if match else set()
        data = {Root("allocation", each.name) for each in found if each.kind == "meminfo"}
        return data or {Root("unknown")}


def _globals(text: str) -> list[str]:
    return re.findall(r"@(?:[\w.$-]+|\"[^\"]*\")", text)
