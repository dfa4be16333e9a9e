"""LLVM IR as text: its functions, their blocks and instructions, and which line of the source each came from."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

_NAME = r"(?:[\w.$-]+|\"[^\"]*\")"
_LABEL = re.compile(rf"^(?P<name>{_NAME}):")
_RESULT = re.compile(rf"^\s*(?P<name>%{_NAME}) = (?:tail |musttail |notail )?(?P<opcode>\w+)")
_PLAIN = re.compile(r"^\s*(?:tail |musttail |notail )?(?P<opcode>\w+)")
_TARGETS = re.compile(rf"label (%{_NAME})")
_DEBUG = re.compile(r"!dbg !(\d+)")
_NODE = re.compile(r"^!(\d+) = (?:distinct )?!(\w+)\((.*)\)$", re.MULTILINE)
_FIELD = re.compile(r"(\w+): (?:\"([^\"]*)\"|(![0-9]+)|([^,()]+))")
_NAMED = re.compile(r"name: \"([^\"]+)\"")
VALUE = re.compile(rf"%{_NAME}")
POINTER = rf"ptr (?P<pointer>[%@]{_NAME})"  # an operand that is an address
_VARIABLE = re.compile(rf"^\s*#dbg_value\(i64 (?P<value>%{_NAME}), !(?P<node>\d+), !DIExpression\(\),")
_AROUND = "__numba_parfor_gufunc"  # functions of a text of their own, with lines of the source inside
CALLED = re.compile(rf"@({_NAME})\(")


def arguments(text: str, start: int = 0) -> list[str]:
    """What a call is given, one by one, from behind its bracket at `start` to where that closes, or `text` ends.

    What stands in brackets itself, as a vector or an attribute with a number, is not taken apart.
    """
    found, depth = [""], 0
    for letter in text[start:]:
        depth += (letter in "([{<") - (letter in ")]}>")
        if depth < 0:
            break
        if letter == "," and not depth:
            found.append("")
        else:
            found[-1] += letter
    return [each.strip() for each in found]


class Instruction(NamedTuple):
    """One instruction: `result` is "" where it has none, `debug` the number of its place in the source, or −1."""

    text: str
    result: str
    opcode: str
    debug: int


class Block(NamedTuple):
    """A straight run of instructions.

    Attributes:
        label: of it.
        instructions: in order.
        following: the labels that its last one may go to.
        variables: which value each whole variable of the source first has in it, by the number of its description.
    """

    label: str
    instructions: list[Instruction]
    following: tuple[str, ...]
    variables: Mapping[int, str]


class Function(NamedTuple):
    """A function that the module defines: its parameters with their types, its blocks, the first one its entry."""

    name: str
    header: str
    parameters: Mapping[str, str]
    blocks: Mapping[str, Block]

    def instructions(self) -> Iterator[Instruction]:
        """All of them, in order."""
        for block in self.blocks.values():
            yield from block.instructions


def definitions(function: Function) -> dict[str, Instruction]:
    """What each name of `function` stands for."""
    return {each.result: each for each in function.instructions() if each.result}


def functions(ir: str) -> tuple[Function, ...]:
    """All functions that the text of a module defines."""
    found: list[Function] = []
    lines = iter(ir.splitlines())
    for line in lines:
        if line.startswith("define "):
            found.append(_function(line, lines))
    return tuple(found)


def _function(header: str, lines: Iterable[str]) -> Function:
    match = CALLED.search(header)
    name = match[1].strip('"') if match else ""
    inside = header[match.end() if match else 0 : header.rindex(")")]
    declared = [each.split() for each in _without_nesting(inside).split(",") if "%" in each]
    parameters = {each[-1]: each[0] for each in declared}
    blocks: dict[str, Block] = {}
    label, held = "%0", []
    variables: dict[int, str] = {}
    unfinished = ""
    for line in lines:
        if line.startswith("}"):
            break
        labelled = None if unfinished else _LABEL.match(line)
        if labelled:
            _close(blocks, label, held, variables)
            label, held, variables = f"%{labelled['name']}", [], {}
        elif unfinished or line.rstrip().endswith("["):
            # a switch goes over several lines
            unfinished += line + "\n"
            if line.strip().startswith("]"):
                held.append(_instruction(unfinished.rstrip("\n")))
                unfinished = ""
        elif match := _VARIABLE.match(line):
            variables.setdefault(int(match["node"]), match["value"])
        elif line.strip() and not line.lstrip().startswith((";", "#dbg")):
            held.append(_instruction(line))
    _close(blocks, label, held, variables)
    return Function(name, header, parameters, blocks)


def _without_nesting(text: str) -> str:
    """`text` without what stands in brackets, which attributes of parameters have."""
    while "(" in text:
        shorter = re.sub(r"\([^()]*\)", "", text)
        if shorter == text:
            return text
        text = shorter
    return text


def _close(blocks: dict[str, Block], label: str, held: list[Instruction], variables: Mapping[int, str]) -> None:
    if held:
        ends = held[-1].text if held[-1].opcode in ("br", "switch", "invoke") else ""
        blocks[label] = Block(label, held, tuple(dict.fromkeys(_TARGETS.findall(ends))), variables)


def _instruction(line: str) -> Instruction:
    match = _RESULT.match(line)
    debug = _DEBUG.search(line)
    number = int(debug[1]) if debug else -1
    if match:
        return Instruction(line, match["name"], match["opcode"], number)
    plain = _PLAIN.match(line)
    return Instruction(line, "", plain["opcode"] if plain else "", number)


class Places:
    """The source lines of a module's debug information.

    What was inlined has the line from which it was called, in the outermost function. `variables`: the numbers of
    the descriptions of each variable, by name.
    """

    def __init__(self, ir: str, lines: range | None = None) -> None:
        """The places of a module's text; of what numba writes around loops over prange, those in `lines` alone."""
        self._nodes: dict[int, dict[str, str]] = {}
        self._lines, self._around = lines, set[int]()
        self.variables: dict[str, list[int]] = {}
        for number, kind, fields in _NODE.findall(ir):
            if kind == "DILocation":
                self._nodes[int(number)] = {
                    name: text or node or plain for name, text, node, plain in _FIELD.findall(fields)
                }
            elif kind == "DISubprogram" and (match := _NAMED.match(fields)) and match[1].startswith(_AROUND):
                self._around.add(int(number))
            elif kind == "DILocalVariable" and (match := _NAMED.match(fields)):
                self.variables.setdefault(match[1], []).append(int(number))

    def line(self, debug: int) -> int:
        """The line of the outermost function that `debug` was inlined into; 0 where it is not known."""
        while debug in self._nodes:
            node = self._nodes[debug]
            outer = node.get("inlinedAt")
            if outer is None:
                line = int(node.get("line", "0"))
                foreign = self._lines is not None and line not in self._lines
                return 0 if foreign and int(node.get("scope", "!0")[1:]) in self._around else line
            debug = int(outer[1:])
        return 0
