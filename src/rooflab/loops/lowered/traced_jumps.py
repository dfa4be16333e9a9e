"""The conditional jumps of machine code on real data: its assembly with each of them noted, run once more.

What a core foretells are the jumps that LLVM's code generator made: of branches, but of a condition joined of two
each for itself, of a `switch` one for each value that is compared, of a choice where that is a jump. Each of them
writes into a trace, before it jumps, its number and whether it will; registers, flags and the memory below the stack
are left as they are. x86 alone, as in `machine_code`.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
from llvmlite import binding

from rooflab.loops.compiled.target import target_machine
from rooflab.loops.lowered import predictor
from rooflab.loops.lowered.ir_text import Function
from rooflab.loops.lowered.machine_code import BLOCK, Block, owners

_JUMP = re.compile(r"^\tj(?!mp|e?cxz|rcxz)(?P<when>[a-z]+)\t")
_INDIRECT = re.compile(r"^\tjmpq?\t\*")
_FUNCTION = re.compile(r"^\s*\.type\s+(?P<name>\S+),@function")
_PLACE = re.compile(r"^\t\.loc\t\d+ (?P<line>\d+) \d+(?P<rest>.*)$")
_OUTERMOST = re.compile(r":(\d+):\d+(?: \]|$)")
_SECTION = re.compile(r"^\t(?:\.section\t(?P<name>\S+?)(?:,|$)|\.(?:text|data|bss)\b)")
_LEFT_OUT = re.compile(r"^\t\.(?:loc|file|cfi_\w+|ident|addrsig\w*)\b|^\s*#(?!APP|NO_APP)")
# Written before a jump, whose flags and registers it keeps; the red zone below the stack is stepped over.
_NOTED = """\
	leaq	-128(%rsp), %rsp
	pushfq
	pushq	%rax
	pushq	%rcx
	pushq	%rdx
	set{when}	%al
	movzbl	%al, %eax
	orl	${word}, %eax
	movabsq	${counter}, %rcx
	incq	(%rcx)
	movabsq	${held}, %rcx
	movq	(%rcx), %rdx
	cmpq	8(%rcx), %rdx
	jae	.Lrl_full{number}
	movl	%eax, (%rdx)
	addq	$4, %rdx
	movq	%rdx, (%rcx)
.Lrl_full{number}:
	popq	%rdx
	popq	%rcx
	popq	%rax
	popfq
	leaq	128(%rsp), %rsp"""


class Jump(NamedTuple):
    """A conditional jump: its function, the number of its block as `machine_code.blocks` has them, its line or 0."""

    function: str
    block: int
    line: int


class Foretold(NamedTuple):
    """A conditional jump: its line or 0, how often it ran, and how often a later run foretells it wrongly."""

    line: int
    ran: int
    missed: int


class Traced(NamedTuple):
    """A run's conditional jumps.

    Attributes:
        jumps: each of them.
        ran: how often each ran.
        trace: number << 1 | whether it jumped, in order, of the first `predictor.MOST_ASKED`.
        unseen: functions and blocks of jumps to a place out of a table, whose targets nobody foretells here.
    """

    jumps: tuple[Jump, ...]
    ran: np.ndarray
    trace: np.ndarray
    unseen: tuple[tuple[str, int], ...]


def instrumented(assembly: str, held: int, counters: int) -> tuple[str, tuple[Jump, ...], tuple[tuple[str, int], ...]]:
    """The assembly with its conditional jumps noted, them in order, and the blocks that jump out of a table.

    Args:
        assembly: of a module, as LLVM writes it.
        held: address of two words: those of the trace's next entry, and of its end.
        counters: address of a word for each jump: how often it ran.
    """
    made: list[str] = []
    jumps: list[Jump] = []
    unseen: list[tuple[str, int]] = []
    function, block, line, kept = "", -1, 0, True
    for each in assembly.splitlines():
        if section := _SECTION.match(each):
            kept = not (section["name"] or "").startswith(".debug")
        if not kept:
            continue
        if begins := _FUNCTION.match(each):
            function, block, line = begins["name"].strip('"'), -1, 0
        elif BLOCK.match(each):
            block += 1
        elif place := _PLACE.match(each):
            outer = _OUTERMOST.findall(place["rest"])
            line = int(outer[-1] if outer else place["line"]) or line
        if block >= 0 and (jump := _JUMP.match(each)):
            number = len(jumps)
            made.append(
                _NOTED.format(
                    when=jump["when"], word=number << 1, counter=counters + 8 * number, held=held, number=number
                )
            )
            jumps.append(Jump(function, block, line))
        elif block >= 0 and _INDIRECT.match(each):
            unseen.append((function, block))
        if not _LEFT_OUT.match(each):
            made.append(each)
    return "\n".join(made) + "\n", tuple(jumps), tuple(unseen)


def take(assembly: str, call: Callable[[Any], None]) -> Traced:
    """The conditional jumps of one run of the module whose assembly this is; `call` makes it, with an engine."""
    trace = np.empty(predictor.MOST_ASKED, np.int32)
    begun = trace.ctypes.data
    held = np.array([begun, begun + trace.nbytes], np.int64)
    ran = np.zeros(1 + assembly.count("\n\tj"), np.int64)
    text, jumps, unseen = instrumented(assembly, held.ctypes.data, ran.ctypes.data)
    escaped = (each.replace("\\", "\\5C").replace('"', "\\22") for each in text.splitlines())
    module = binding.parse_assembly("\n".join(f'module asm "{each}"' for each in escaped))
    engine = binding.create_mcjit_compiler(binding.parse_assembly(""), target_machine())
    engine.add_object_file(binding.ObjectFileRef.from_data(target_machine().emit_object(module)))
    engine.finalize_object()
    call(engine)
    noted = (int(held[0]) - begun) // trace.itemsize
    return Traced(jumps, ran[: len(jumps)], trace[:noted].copy(), unseen)


def missed(traced: Traced, engine: Any, held: Any) -> tuple[int, ...]:
    """How often each jump is foretold wrongly in a later run on the same data.

    Args:
        traced: a run.
        engine: one that holds what `profile` notes branches with.
        held: its words, of which the first two become addresses of a predictor's state and of its rows.
    """
    rows = np.zeros((max(1, len(traced.jumps)), predictor.BRANCH_WORDS), np.int64)
    state = np.zeros(predictor.STATE_WORDS, np.int64)
    piece = np.empty(predictor.MOST_AGAIN, np.int64)
    state[predictor.NOTED] = piece.ctypes.data
    held[0], held[1] = state.ctypes.data, rows.ctypes.data
    see = ctypes.CFUNCTYPE(None, ctypes.c_int64)(engine.get_function_address("rl_again"))
    rounds = 1 + (predictor.AGAIN if len(traced.trace) <= predictor.MOST_AGAIN else 0)
    for _ in range(rounds):
        rows[:] = state[predictor.ASKED] = 0
        for first in range(0, len(traced.trace), len(piece)):
            some = traced.trace[first : first + len(piece)]
            piece[: len(some)] = some
            see(len(some))
        if not rows[:, predictor.MISSED].any():
            break
    return tuple(
        round(row[predictor.MISSED] * int(ran) / max(1, row[predictor.SIMULATED]))
        for row, ran in zip(rows.tolist(), traced.ran, strict=False)
    )


def by_block(
    traced: Traced, missed: tuple[int, ...], function: Function, code: tuple[Block, ...]
) -> dict[str, tuple[Foretold, ...]] | None:
    """The jumps of a function that ran, by the IR's block that they are of; None where its `code` is not known."""
    found: dict[str, tuple[Foretold, ...]] = {}
    for jump, ran, wrong in zip(traced.jumps, traced.ran, missed, strict=True):
        if jump.function == function.name and ran and (label := _label(function, code, jump.block)):
            found[label] = (*found.get(label, ()), Foretold(jump.line, int(ran), wrong))
    return found if code else None


def out_of_tables(traced: Traced, function: Function, code: tuple[Block, ...]) -> frozenset[str]:
    """The blocks of a function whose `switch` its machine code reads out of a table where to jump to."""
    blocks = (_label(function, code, block) for name, block in traced.unseen if name == function.name)
    return frozenset(
        label for label in blocks if label and function.blocks[label].instructions[-1].opcode == "switch"
    )


def _label(function: Function, code: tuple[Block, ...], number: int) -> str:
    """The IR's block that block `number` of the code is of; "" where none is known."""
    owner = owners(code)[number] if number < len(code) else ""
    return next((label for label in function.blocks if label.replace('"', "") == owner), "")


def repeatable(values: Iterable[Any]) -> bool:
    """Whether copies of `values` are known to make the same run again: numbers, arrays and tuples of them."""
    plain = (bool, int, float, complex, str, bytes, np.generic, type(None))
    return all(
        repeatable(each)
        if isinstance(each, tuple)
        else not each.dtype.hasobject
        if isinstance(each, np.ndarray)
        else isinstance(each, plain) and not isinstance(each, np.void)
        for each in values
    )
