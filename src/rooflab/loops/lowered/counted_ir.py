"""A function's optimised IR with what counts its blocks, branches, loads of stores and crossed lines."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from rooflab.loops.lowered import arguments, control_flow, machine_code
from rooflab.loops.lowered.ir_text import Function, Instruction
from rooflab.loops.lowered.operations import vector_access_bytes
from rooflab.machines.bench.experiments.core_programs import vector_bytes

CONDITIONAL = re.compile(r"^\s*br i1 (?P<test>%\S+|true|false), label (?P<yes>%\S+), label (?P<no>%\S+?)(?:,|$)")
_POINTER = re.compile(r"(?:load|store) .*?ptr (?P<pointer>%(?:[\w.$-]+|\"[^\"]*\")|@\S+?),")
_HANDED = re.compile(r"(?:= load|^\s*store) (?:double\b|float\b|i64\b|i32\b|<)")
SPLIT_WORDS = 2  # of an access: its registers that lay across two lines, its halves that did
_HALF_BYTES = 32  # in pieces of which a store hands on what a load finds, of wider registers too
LINE_BYTES = 64  # of a cache; a register so wide always lies across two but where it begins with one


class Counters(NamedTuple):
    """What is counted of one function."""

    function: Function
    loops: tuple[control_flow.NaturalLoop, ...]
    inside: Mapping[str, int]
    first_block: int
    accesses: list[Instruction]
    first_access: int
    machine: tuple[machine_code.Block, ...]
    selects: Mapping[str, tuple[str, ...]]
    first_select: int
    vectors: list[tuple[str, Instruction, int, int]]  # block, access, its bytes, those of a register
    first_vector: int


def counters(chosen: list[Function], assembly: str) -> list[Counters]:
    """What is counted of each of the functions `chosen`, of which `assembly` has the machine code."""
    made: list[Counters] = []
    blocks = accesses = selects = vectors = 0
    machine = machine_code.of_assembly(assembly)
    for function in chosen:
        graph = {label: block.following for label, block in function.blocks.items()}
        found = control_flow.loops(graph, next(iter(graph)))
        inside = control_flow.innermost_of(found)
        held = [
            each
            for label, block in function.blocks.items()
            if label in inside
            for each in block.instructions
            if _HANDED.search(each.text)
        ]
        code = machine.get(function.name, ())
        jumping = machine_code.branching(function, code)
        registers, usual = _registers(code), min(32, vector_bytes())
        wide = [
            (label, each, size, min(size, registers.get((label.replace('"', ""), each.opcode), usual)))
            for label, block in function.blocks.items()
            for each in block.instructions
            if (size := vector_access_bytes(each))
        ]
        made.append(
            Counters(function, found, inside, blocks, held, accesses, code, jumping, selects, wide, vectors)
        )
        blocks += len(function.blocks)
        accesses += len(held)
        selects += len(jumping)
        vectors += len(wide)
    return made


def _registers(code: tuple[machine_code.Block, ...]) -> dict[tuple[str, str], int]:
    """Bytes of the registers that blocks load and store whole lines with, by label and opcode."""
    return {
        (each.name, opcode): LINE_BYTES
        for each in code
        for opcode in ("load", "store")
        if each.operations.get(f"{opcode} wide")
    }


def _crossing(begin: str, pointer: str, size: int, piece: int, where: int) -> list[str]:
    """Lines that count at `where` how many pieces of an access lie across two lines of a cache."""
    made = []
    for part in range(size // piece):
        name = f"{begin}.{part}"
        made += [
            f"  {name}a = ptrtoint ptr {pointer} to i64",
            f"  {name}b = add i64 {name}a, {part * piece}",
            f"  {name}c = and i64 {name}b, 63",
            f"  {name}d = icmp ugt i64 {name}c, {64 - piece}",
            f"  {name}e = zext i1 {name}d to i64",
            f"  {name}f = load i64, ptr inttoptr (i64 {where} to ptr), align 8",
            f"  {name}g = add i64 {name}f, {name}e",
            f"  store i64 {name}g, ptr inttoptr (i64 {where} to ptr), align 8",
        ]
    return made


def written(each: Counters, counts: np.ndarray, split: np.ndarray, rings: Mapping[str, arguments.Ring]) -> str:
    """The function with all that counts it."""
    function, labels, passes = each.function, list(each.function.blocks), counts.ctypes.data
    chosen = {results[-1]: (n, condition) for n, (condition, results) in enumerate(each.selects.items())}
    vectors = {id(one): (each.first_vector + n, *sizes) for n, (_, one, *sizes) in enumerate(each.vectors)}
    numbers = {id(access): each.first_access + n for n, access in enumerate(each.accesses)}
    lines = [function.header]
    for place, (label, block) in enumerate(function.blocks.items()):
        number = each.first_block + place
        if place or label != "%0":
            lines.append(f"{label[1:]}:")
        phis = sum(one.opcode == "phi" for one in block.instructions)
        for position, one in enumerate(block.instructions):
            if position == phis:
                where = f"ptr inttoptr (i64 {passes + 8 * number} to ptr), align 8"
                lines += [
                    f"  %rl.p{number} = load i64, {where}",
                    f"  %rl.n{number} = add i64 %rl.p{number}, 1",
                    f"  store i64 %rl.n{number}, {where}",
                ]
            if one.opcode == "br" and (match := CONDITIONAL.match(one.text)) and match["test"][0] == "%":
                lines += [
                    f"  %rl.t{number} = zext i1 {match['test']} to i64",
                    f"  call void @rl_branch(i64 {number}, i64 %rl.t{number})",
                ]
            if (access := numbers.get(id(one))) is not None and (match := _POINTER.search(one.text)):
                head = labels.index(each.loops[each.inside[label]].head)
                clock = passes + 8 * (each.first_block + head)
                what = "loaded" if one.opcode == "load" else "stored"
                lines += [
                    f"  %rl.a{access} = ptrtoint ptr {match['pointer']} to i64",
                    f"  call void @rl_{what}(i64 {access}, i64 %rl.a{access}, i64 {clock})",
                ]
            if id(one) in vectors and (match := _POINTER.search(one.text)):
                place_of, size, piece = vectors[id(one)]
                where = split.ctypes.data + 8 * SPLIT_WORDS * place_of
                lines += _crossing(f"%rl.v{place_of}", match["pointer"], size, piece, where)
                half = min(size, _HALF_BYTES)
                lines += _crossing(f"%rl.h{place_of}", match["pointer"], size, half, where + 8)
            lines += [*arguments.noted(one, rings, len(lines)), one.text]
            if one.opcode in ("select", "call") and one.result in chosen:
                place_of, condition = chosen[one.result]
                row = len(counts) + each.first_select + place_of
                if condition.startswith("icmp"):
                    # of a minimum or maximum, which names none
                    lines.append(f"  %rl.c{row} = {condition}")
                    condition = f"%rl.c{row}"
                lines += [
                    f"  %rl.s{row} = zext i1 {condition} to i64",
                    f"  call void @rl_branch(i64 {row}, i64 %rl.s{row})",
                ]
    return "\n".join([*lines, "}"])
