"""What a lowered twin calls for each access: the door to the simulator, and how far apart its new lines lie."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numba
import numpy as np
from llvmlite import binding
from numba import njit, types

from rooflab.cachesim.level.access import View, is_noted
from rooflab.cachesim.level.plain_kinds import Kind, queued_kind
from rooflab.cachesim.level.queued_levels import make_request
from rooflab.cachesim.native.compile import INLINED, OPTIONS, Named, source_digest
from rooflab.cachesim.native.words import add, call, count_bits, load, store
from rooflab.loops.read.twin_text import LEAST_POWER, POWERS
from rooflab.loops.twin import generated_files

PREVIOUS, FAR, OUTSIDE, STEP, SAME, RUN, ALONE, MULTIPLES = 0, 1, 2, 3, 4, 5, 6, 7  # words of a reference's notes
# RUN: steps like STEP that FAR, SAME, ALONE and MULTIPLES do not have yet: see `settle`.
# ALONE: far steps like STEP, and others where neither the line nor a neighbour of it was seen a moment before.
# From MULTIPLES on: far steps by the power of two that they are multiples of, up to 64 bytes, 128, … 4 KiB.
# From RECENT on: the last lines seen, each at its number's last bits. Reads from memory in an order that data
# shuffle within 25 lines take a Zen 4 as long as in order, within 250 as long as anywhere.
RECENT = MULTIPLES + POWERS
RECENT_LINES = 64
NOTE_WORDS = RECENT + RECENT_LINES
_LEAST_BITS = LEAST_POWER.bit_length() - 1
_LINE_BITS = 6
NEAR_BYTES = 255  # between new lines of a stream: prefetchers follow steps of up to three lines
VIEW = View._fields


@njit(**INLINED)
def _power(step):
    """Of two, beyond the least, that `step` is a multiple of."""
    return min(max(count_bits((step & -step) - 1) - _LEAST_BITS, 0), POWERS - 1)


@njit(**INLINED)
def _was_seen(notes, line):
    """Whether `line` is among the last that were seen."""
    return load(notes, RECENT + (line & (RECENT_LINES - 1))) == line


@njit(**INLINED)
def _note_step(notes, address):
    """Note whether a new line is far from the last one, and the step that most of the far ones are."""
    line = address >> _LINE_BITS
    step = address - load(notes, PREVIOUS)
    store(notes, PREVIOUS, address)
    most = load(notes, STEP)
    if step == most:
        add(notes, RUN, 1)
    elif step > NEAR_BYTES or step < -NEAR_BYTES:
        alike = load(notes, RUN) if most else 0
        store(notes, RUN, 0)
        add(notes, FAR, alike + 1)
        add(notes, ALONE, alike)
        # the step that most are, if any is (Boyer and Moore's majority vote)
        votes = load(notes, SAME) + alike
        if votes > 0:
            add(notes, MULTIPLES + _power(most), alike)
            store(notes, SAME, votes - 1)
        else:
            store(notes, STEP, step)
        add(notes, MULTIPLES + _power(step), 1)
        if not (_was_seen(notes, line) or _was_seen(notes, line - 1) or _was_seen(notes, line + 1)):
            add(notes, ALONE, 1)
        store(notes, RECENT + (line & (RECENT_LINES - 1)), line)
    else:
        store(notes, RECENT + (line & (RECENT_LINES - 1)), line)


def settle(notes: np.ndarray) -> None:
    """Have each row of `notes` hold all of its steps in FAR, SAME, ALONE and MULTIPLES."""
    for row in notes:
        step, alike = int(row[STEP]), int(row[RUN])
        if step:
            power = ((step & -step) - 1).bit_count() - _LEAST_BITS
            row[FAR] += alike
            row[ALONE] += alike
            row[SAME] += alike
            row[MULTIPLES + min(max(power, 0), POWERS - 1)] += alike
        row[RUN] = 0


def _make_accesses(kind: Kind | None) -> tuple[Callable[..., Any], ...]:
    """What is called for an access: anywhere, within a unit of the first level, to elements one behind the other.

    They have the simulator see it, unless it finds its line noted; and note whether it is far from the last seen.
    Hits are not counted (see `access_uncounted`): the twin knows how many accesses it makes. Where levels are
    queued, the first is of `kind`, and inlined.
    """
    ask = make_request(kind)

    def _access(view, address, nbytes, request, reference, notes):
        crosses = (address + (nbytes - 1)) >> view.shift != address >> view.shift
        if not crosses and is_noted(view, address, request):
            return
        _note_step(notes, address)
        if crosses:
            call(view.split_call, view.state, address, nbytes, request, reference)
        else:
            ask(view, address, nbytes, request, reference)

    def _within(view, address, nbytes, request, reference, notes):
        if is_noted(view, address, request):
            return
        _note_step(notes, address)
        ask(view, address, nbytes, request, reference)

    one = njit(**OPTIONS)(_access)

    def _range(view, address, nbytes, request, reference, notes, elements):
        for element in range(elements):
            one(view, address + element * nbytes, nbytes, request, reference, notes)

    named = Named(kind.tag if kind else "any")
    return named.name(_access), named.name(_within), named.name(_range)


BUMP, END, SIZES, ROWS = 0, 1, 2, 8  # words of the allocator's state; from ROWS on: a size, its first free block
MOST_SIZES = 4096
ALIGNED_BYTES, PAGE_BYTES, LARGE_BYTES = 64, 4096, 131072


def _allocate(state, nbytes):
    """The address of a block of `nbytes`, the one that was freed last where one of that size was; 0: none left."""
    unit = PAGE_BYTES if nbytes >= LARGE_BYTES else ALIGNED_BYTES
    size = max(unit, (nbytes + unit - 1) // unit * unit)
    sizes = load(state, SIZES)
    for row in range(sizes):
        if load(state, ROWS + 2 * row) == size:
            free = load(state, ROWS + 2 * row + 1)
            if free != 0:
                store(state, ROWS + 2 * row + 1, load(free, 0))
                return free
            break
    address = (load(state, BUMP) + unit - 1) // unit * unit
    if address + size > load(state, END):
        return 0
    store(state, BUMP, address + size)
    return address


def _release(state, address, nbytes):
    """Give the block of `nbytes` at `address` back."""
    unit = PAGE_BYTES if nbytes >= LARGE_BYTES else ALIGNED_BYTES
    size = max(unit, (nbytes + unit - 1) // unit * unit)
    sizes = load(state, SIZES)
    for row in range(sizes):
        if load(state, ROWS + 2 * row) == size:
            store(address, 0, load(state, ROWS + 2 * row + 1))
            store(state, ROWS + 2 * row + 1, address)
            return
    if sizes < MOST_SIZES:
        store(state, ROWS + 2 * sizes, size)
        store(address, 0, 0)
        store(state, ROWS + 2 * sizes + 1, address)
        store(state, SIZES, sizes + 1)


@functools.cache
def compiled(function: Callable[..., Any], parameters: int, result: bool, sees: bool = False) -> tuple[bytes, str]:
    """`function` of that many whole numbers as LLVM bitcode, and its name there (in numba's own convention).

    Args:
        function: what to compile.
        parameters: how many whole numbers it takes.
        result: whether it returns a whole number.
        sees: before them it takes a `View`, which in LLVM is as many whole numbers as it has fields.
    """
    own = Path(function.__code__.co_filename).read_text("utf-8")
    here = Path(__file__).read_text("utf-8")
    key = "|".join([source_digest(), own, here, numba.__version__, binding.get_host_cpu_name()])
    digest = hashlib.sha256(key.encode()).hexdigest()[:20]
    path = generated_files.folder() / f"part{function.__name__}_{digest}.bc"
    if path.exists():
        name, _, bitcode = path.read_bytes().partition(b"\n")
        return bitcode, name.decode()
    integer = types.int64
    dispatcher: Any = njit(**OPTIONS)(function)
    view = [types.NamedUniTuple(integer, len(VIEW), View)] if sees else []
    signature = (integer if result else types.void)(*view, *([integer] * parameters))
    dispatcher.compile(signature)
    overload = next(iter(dispatcher.overloads.values()))
    name = overload.fndesc.llvm_func_name
    module = binding.parse_assembly(overload.library.get_llvm_str())
    for each in module.functions:
        if not each.is_declaration:
            # What made machine code of it left addresses that are offsets from a number. Where that is known to be
            # 0, once it is inlined, LLVM would take it for the null pointer, and what follows for unreachable.
            each.add_function_attribute("null_pointer_is_valid")
    bitcode = module.as_bitcode()
    generated_files.write(path, name.encode() + b"\n" + bitcode)
    return bitcode, name


class Part(NamedTuple):
    """What `compiled` takes."""

    function: Callable[..., Any]
    parameters: int
    result: bool = False
    sees: bool = False


@functools.cache
def parts(queued_ways: int) -> tuple[Part, ...]:
    """What a twin is linked with, in the order of its wiring.

    `queued_ways`: `layout.QUEUED_WAYS` of the first level.
    """
    access, within, ranged = _make_accesses(queued_kind(queued_ways))
    return (
        Part(access, 5, sees=True),
        Part(ranged, 6, sees=True),
        Part(_allocate, 2, result=True),
        Part(_release, 3),
        Part(within, 5, sees=True),
    )
