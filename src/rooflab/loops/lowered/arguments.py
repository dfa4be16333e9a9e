"""What mathematical functions were called with in a run, in order, and how much longer that takes than usual.

A function of the C library chooses among several ways by its argument, and a core foretells which as it does any
branch. So its time is that of the arguments it is given, in their order.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from rooflab.loops.lowered import ir_text
from rooflab.loops.lowered.ir_text import Instruction
from rooflab.loops.lowered.operations import kind_of
from rooflab.machines.bench.experiments import core_operations

_NUMBER = r"(?:<(?P<lanes>\d+) x )?(?P<kind>double|float)>?"
_CALL = re.compile(rf"= (?:tail )?call (?:[a-z]+ )*{_NUMBER} @(?:[\w.]+)\((?P<given>.*)\)(?: #\d+)?(?:, !.*)?$")
_ATTRIBUTES = re.compile(r"^((?:<\d+ x )?(?:double|float)>?) (?:noundef |nofpclass\([^)]*\) )*")
_FEW = 64  # calls whose time is nothing, whatever they are given
_MOST_LANES = 64
KEPT = 1 << 16  # arguments: of as many at random hardly a branch is learnt by heart
FORMATS = {"double": np.float64, "float": np.float32}


class Ring(NamedTuple):
    """The last arguments of a function, of all its calls, in order; and how many there were."""

    values: np.ndarray
    counted: np.ndarray


def rings(instructions: Iterable[Instruction]) -> dict[str, Ring]:
    """Empty ones, by kind, of the functions that are called there."""
    found: dict[str, Ring] = {}
    for each in instructions:
        parts = _parts(each)
        if parts is not None and parts[0] not in found:
            kind, _, format, given = parts
            values = np.zeros((len(given), KEPT + _MOST_LANES), FORMATS[format])
            found[kind] = Ring(values, np.zeros(1, np.int64))
    return found


def noted(instruction: Instruction, rings: Mapping[str, Ring], number: int) -> list[str]:
    """Lines of IR before a call that put its arguments into their ring; `number` tells them from others."""
    parts = _parts(instruction) if rings and instruction.opcode == "call" else None
    if parts is None or parts[0] not in rings:
        return []
    kind, lanes, format, given = parts
    ring, name = rings[kind], f"%rl.g{number}"
    where = f"ptr inttoptr (i64 {ring.counted.ctypes.data} to ptr), align 8"
    lines = [f"  {name} = load i64, {where}", f"  {name}.w = and i64 {name}, {KEPT - 1}"]
    for n, value in enumerate(given):
        row = f"ptr inttoptr (i64 {ring.values[n].ctypes.data} to ptr)"
        size = ring.values.itemsize
        lines += [
            f"  {name}.p{n} = getelementptr {format}, {row}, i64 {name}.w",
            f"  store {value}, ptr {name}.p{n}, align {size}",
        ]
    return [*lines, f"  {name}.n = add i64 {name}, {lanes}", f"  store i64 {name}.n, {where}"]


def dearer(rings: Mapping[str, Ring], threads: int = 1) -> dict[str, float]:
    """How many times as long functions take here for those arguments as for usual ones, by kind.

    Of several threads each has its part of the arguments, and foretells what those of its own do.

    Beside a function's time and latency also those without wrongly foretold branches (`core_operations.dearer`).
    """
    given = {}
    for kind, ring in rings.items():
        count = min(int(ring.counted[0]) // threads, KEPT)
        if count >= _FEW:
            whole = 1 << (count - 1).bit_length()
            given[kind] = tuple(np.resize(row[:count], whole) for row in ring.values)
    return core_operations.dearer(given) if given else {}


def _parts(instruction: Instruction) -> tuple[str, int, str, Sequence[str]] | None:
    """(kind, numbers a call, their type, its arguments with theirs); None of what is no such call."""
    match = _CALL.search(instruction.text) if instruction.opcode == "call" else None
    kind = kind_of(instruction) if match else None
    # "call sin fp64"; a function of the program's own is a call without a format
    words = [] if match is None or kind is None else kind[0].split()
    if match is None or kind is None or len(words) != 3 or words[0] != "call" or words[1] == "powi":
        return None
    own = f"<{match['lanes']} x {match['kind']}>" if match["lanes"] else match["kind"]
    lanes = int(match["lanes"] or 1)
    given = [_ATTRIBUTES.sub(r"\1 ", each) for each in ir_text.arguments(match["given"])]
    if lanes > _MOST_LANES or not all(each.startswith(f"{own} ") for each in given):
        return None
    return kind[0], lanes, match["kind"], given
