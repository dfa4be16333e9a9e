"""The jumps of machine code on real data: its assembly with each noted that may go several ways, run once more.

What a core foretells are the jumps that LLVM's code generator made: of branches, but of a condition joined of two
each for itself, of a `switch` one for each value that is compared or one out of a table, of a choice where that is
a jump. Each writes into a trace, before it jumps, its number and whether it will; registers, flags and the memory
below the stack are left as they are. x86 alone, as in `machine_code`.
"""

from __future__ import annotations

import ctypes
import itertools
import re
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
from llvmlite import binding

from rooflab.loops.compiled.target import target_machine
from rooflab.loops.lowered import predictor
from rooflab.loops.lowered.ir_text import Function
from rooflab.loops.lowered.machine_code import BLOCK, Block, owners

_JUMP = re.compile(r"^\t(?:j(?!mp|e?cxz|rcxz)(?P<when>[a-z]+)\t|jmpq?\t\*(?P<place>[^#]*[^#\s]))")
_FUNCTION = re.compile(r"^\s*\.type\s+(?P<name>.+?),@function")
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
{what}
	movabsq	${counter}, %rcx
	incq	(%rcx)
	movabsq	${held}, %rcx
	movq	(%rcx), %rdx
	cmpq	8(%rcx), %rdx
	jae	.Lrl_full{number}
	movl	${word}, (%rdx)
	{into}
	addq	${size}, %rdx
	movq	%rdx, (%rcx)
.Lrl_full{number}:
	popq	%rdx
	popq	%rcx
	popq	%rax
	popfq
	leaq	128(%rsp), %rsp"""
# The number of a conditional jump and whether it jumps are a word; of one to a place out of a table two, of which
# the second, the place, is less than zero.
_CONDITION = "\tset{when}\t%al\n\tmovzbl\t%al, %eax", "orl\t%eax, (%rdx)", 4
_PLACE_TO = "\tmovq\t{place}, %rax\n\torl\t$2147483648, %eax", "movl\t%eax, 4(%rdx)", 8
_ROUNDS = 40  # blocks without a jump that goes two ways, in a row
_SPARE = 2  # words behind the end of a trace


class Jump(NamedTuple):
    """A jump that may go several ways.

    Attributes:
        function: its own.
        block: the number of its block in `machine_code`.
        line: of the source; 0 where that is not known.
        to: the block that it goes to; −1: out of a table.
    """

    function: str
    block: int
    line: int
    to: int = -1


class Foretold(NamedTuple):
    """A conditional jump.

    Attributes:
        line: of it, or 0.
        ran: how often it did.
        missed: how often a later run on the same data foretells it wrongly.
        learnt: how much oftener the first run does.
    """

    line: int
    ran: int
    missed: int
    learnt: int = 0


class Traced(NamedTuple):
    """The jumps of a run that may go to several places.

    Attributes:
        jumps: each of them.
        ran: how often each ran.
        trace: number << 1 | whether it jumped, in order, of the first `predictor.MOST_ASKED`; behind the number
            of a jump to a place out of a table a word less than zero that tells this place from others.
    """

    jumps: tuple[Jump, ...]
    ran: np.ndarray
    trace: np.ndarray


def instrumented(assembly: str, held: int, counters: int) -> tuple[str, tuple[Jump, ...]]:
    """The assembly with its jumps noted that may go to several places, and them in order.

    Args:
        assembly: of a module, as LLVM writes it.
        held: address of two words: those of the trace's next entry, and of its end.
        counters: address of a word for each jump: how often it ran.
    """
    made: list[str] = []
    jumps: list[Jump] = []
    targets: list[tuple[str, str]] = []
    labels: dict[tuple[str, str], int] = {}
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
            labels[function, each.partition(":")[0]] = block
        elif place := _PLACE.match(each):
            outer = _OUTERMOST.findall(place["rest"])
            line = int(outer[-1] if outer else place["line"]) or line
        if block >= 0 and (jump := _JUMP.match(each)):
            number = len(jumps)
            what, into, size = _CONDITION if jump["when"] else _PLACE_TO
            what = what.format(when=jump["when"], place=jump["place"])
            counter = counters + 8 * number
            made.append(
                _NOTED.format(
                    what=what, into=into, size=size, word=number << 1, counter=counter, held=held, number=number
                )
            )
            jumps.append(Jump(function, block, line))
            targets.append((function, each.split()[-1] if jump["when"] else ""))
        if not _LEFT_OUT.match(each):
            made.append(each)
    found = (each._replace(to=labels.get(to, -1)) for each, to in zip(jumps, targets, strict=True))
    return "\n".join(made) + "\n", tuple(found)


def take(assembly: str, call: Callable[[Any], None]) -> Traced:
    """The conditional jumps of one run of the module whose assembly this is; `call` makes it, with an engine."""
    trace = np.empty(predictor.MOST_ASKED + _SPARE, np.int32)
    begun = trace.ctypes.data
    held = np.array([begun, begun + predictor.MOST_ASKED * trace.itemsize], np.int64)
    ran = np.zeros(1 + assembly.count("\n\tj"), np.int64)
    text, jumps = instrumented(assembly, held.ctypes.data, ran.ctypes.data)
    escaped = (each.replace("\\", "\\5C").replace('"', "\\22") for each in text.splitlines())
    module = binding.parse_assembly("\n".join(f'module asm "{each}"' for each in escaped))
    engine = binding.create_mcjit_compiler(binding.parse_assembly(""), target_machine())
    engine.add_object_file(binding.ObjectFileRef.from_data(target_machine().emit_object(module)))
    engine.finalize_object()
    call(engine)
    noted = (int(held[0]) - begun) // trace.itemsize
    return Traced(jumps, ran[: len(jumps)], trace[:noted].copy())


def missed(
    traced: Traced, engine: Any, held: Any, threads: int = 1, entries: int = 1
) -> tuple[tuple[int, int], ...]:
    """How often each jump is foretold wrongly in a later run on the same data, by all threads together.

    Beside it how much oftener in the first run.

    Args:
        traced: a run, on one thread.
        engine: one that holds what `profile` notes branches with.
        held: its words, of which the first two become addresses of a predictor's state and of its rows.
        threads: that each run a part of each entry on a core of their own, which has that part alone to learn.
        entries: how often a team starts.
    """
    trace, of_jump = compared(traced)
    piece = np.empty(predictor.MOST_AGAIN, np.int64)
    see = ctypes.CFUNCTYPE(None, ctypes.c_int64)(engine.get_function_address("rl_again"))
    at_first, later = np.zeros(len(of_jump)), np.zeros(len(of_jump))
    for own in dealt(trace, threads, entries):
        rows = np.zeros((max(1, len(of_jump)), predictor.BRANCH_WORDS), np.int64)
        state = predictor.fresh()
        state[predictor.NOTED] = piece.ctypes.data
        held[0], held[1] = state.ctypes.data, rows.ctypes.data

        def once(own: np.ndarray = own) -> None:
            for first in range(0, len(own), len(piece)):
                some = own[first : first + len(piece)]
                piece[: len(some)] = some
                see(len(some))

        once()
        at_first += rows[: len(of_jump), predictor.MISSED]
        if len(own) <= predictor.MOST_AGAIN:
            predictor.ask_again(once, state, rows)
        later += rows[: len(of_jump), predictor.MISSED]
    noted = np.bincount(traced.trace[traced.trace >= 0] >> 1, minlength=len(traced.jumps))

    def of_all(counted: np.ndarray) -> list[int]:
        wrong = np.bincount(of_jump, counted, len(traced.jumps))
        return np.rint(wrong * traced.ran / np.maximum(1, noted)).astype(int).tolist()

    return tuple(zip(of_all(later), of_all(np.maximum(0, at_first - later)), strict=True))


def dealt(trace: np.ndarray, threads: int, entries: int) -> list[np.ndarray]:
    """The trace of each thread: its part of each entry, all taken to be alike."""
    pieces = max(1, min(entries, len(trace) // threads)) * threads
    edges = np.arange(pieces + 1) * len(trace) // pieces
    parts = [trace[first:last] for first, last in itertools.pairwise(edges.tolist())]
    return [np.concatenate(parts[thread::threads]) for thread in range(threads)]


def compared(traced: Traced) -> tuple[np.ndarray, np.ndarray]:
    """The trace with jumps to places out of tables as what is asked of each place in turn: whether it is this one.

    A predictor of places misses as often as all these questions together, of places at random too: of the n-th of
    m places n are asked, the last of which is answered by the others. Also of each number of the trace the jump
    that it is of.
    """
    trace, of_jump = traced.trace, np.arange(len(traced.jumps))
    places = np.flatnonzero(trace < 0)
    if not len(places):
        return trace, of_jump
    asked, times, final = trace.copy(), np.ones(len(trace), np.int64), np.zeros(len(trace), bool)
    times[places] = 0
    for number in np.unique(trace[places - 1] >> 1):
        here = places[trace[places - 1] >> 1 == number]
        found, first, which = np.unique(trace[here], return_index=True, return_inverse=True)
        order = np.empty(len(found), np.int64)
        order[np.argsort(first)] = np.arange(len(found))
        rank = order[which]
        asked[here - 1] = len(of_jump) << 1
        times[here - 1] = np.minimum(rank + 1, len(found) - 1)
        final[here - 1] = rank < len(found) - 1
        of_jump = np.append(of_jump, np.full(max(0, len(found) - 1), number))
    # each question has a number of its own, in order from that of the first
    ends = np.cumsum(times)
    made = np.repeat(asked, times)
    turn = np.arange(len(made)) - np.repeat(ends - times, times)
    made += (2 * turn).astype(made.dtype)
    made[ends[final] - 1] |= 1
    return made, of_jump


def by_block(
    traced: Traced, missed: tuple[tuple[int, int], ...], function: Function, code: tuple[Block, ...]
) -> dict[str, tuple[Foretold, ...]] | None:
    """The jumps of a function that ran, by the IR's block that they are of; None where its `code` is not known."""
    found: dict[str, tuple[Foretold, ...]] = {}
    labels = owners(function, code)
    for jump, ran, wrong in zip(traced.jumps, traced.ran, missed, strict=True):
        if jump.function == function.name and code and ran and (label := labels[jump.block]):
            found[label] = (*found.get(label, ()), Foretold(jump.line, int(ran), *wrong))
    return found if code else None


def passes(traced: Traced, function: Function, code: tuple[Block, ...], entries: int) -> tuple[float, ...]:
    """How often each block of a function's `code` ran; () where a table decides that, or it is not known.

    Args:
        traced: a run.
        function: its IR.
        code: its blocks, of the assembly that was traced.
        entries: how often it was called.
    """
    own = [n for n, each in enumerate(traced.jumps) if each.function == function.name]
    if not code or any(traced.jumps[n].to < 0 for n in own):
        return ()
    noted = traced.trace[traced.trace >= 0]
    simulated = np.bincount(noted >> 1, minlength=len(traced.jumps))
    taken = np.bincount(noted >> 1, noted & 1, len(traced.jumps)) * traced.ran / np.maximum(1, simulated)
    ways: list[dict[int, float]] = [{} for _ in code]  # from a block with a jump, to others
    known: dict[int, float] = {0: float(entries)} if not code[0].before else {}
    left: dict[int, float] = {}
    for n in own:
        here, to = traced.jumps[n].block, traced.jumps[n].to
        known.setdefault(here, float(traced.ran[n]))
        ways[here][to] = ways[here].get(to, 0.0) + float(taken[n])
        left[here] = float(traced.ran[n] - taken[n])
    for here, count in left.items():
        jumped = [traced.jumps[n].to for n in own if traced.jumps[n].block == here]
        # where it goes behind its last jump
        after = [n for n, each in enumerate(code) if each.before.count(here) > jumped.count(n)]
        if len(after) != 1:
            return ()
        ways[here][after[0]] = ways[here].get(after[0], 0.0) + count
    ran = [known.get(n, 0.0) for n in range(len(code))]
    for _ in range(_ROUNDS):
        before = list(ran)
        for n, each in enumerate(code):
            if n not in known:
                ran[n] = sum(ways[one].get(n, 0.0) if one in left else ran[one] for one in set(each.before))
        if ran == before:
            return tuple(ran)
    return ()


def repeatable(values: Iterable[Any]) -> bool:
    """Whether copies of `values` are known to make the same run again: numbers, arrays, records, tuples."""
    plain = (bool, int, float, complex, str, bytes, np.generic, type(None))
    return all(
        repeatable(each)
        if isinstance(each, tuple)
        else not each.dtype.hasobject
        if isinstance(each, (np.ndarray, np.void))
        else isinstance(each, plain)
        for each in values
    )
