"""A loop over prange as several cores run it: each one's loads and stores, in its order, barriers around the loop.

The lowered twin runs once, on one core, before a recorder in the place of the caches. Stores to an array of
marks, which are taken out again, tell where a loop over prange begins, where each trip does, and where it ends.
"""

from __future__ import annotations

import ast
import copy
import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from rooflab.cachesim.coherence.stream import ADDRESS_SHIFT, BARRIER_RECORD, CoreArray, CoreStreams, check_cores
from rooflab.cachesim.native import layout
from rooflab.cachesim.native.compile import callback, native_address
from rooflab.cachesim.native.words import CALL_SIGNATURE, load, store
from rooflab.errors import RooflabError
from rooflab.loops.lowered import built, count, from_source, memory
from rooflab.loops.read.arguments import Arguments
from rooflab.loops.read.source import Source
from rooflab.loops.read.understood import Understood
from rooflab.loops.read.value_types import ValueTypes
from rooflab.loops.understanding import understand

MOST_ACCESSES = _ROOM = 1 << 25
ASSUMPTIONS = (
    "trips of a loop over prange: one block a core, a barrier before and after; core 0 does the rest",
    "values, and so branches and indices, are those of a run on one core; scalars stay in registers",
)
_MARKS, _TRIP, _END, _BEGIN = "marks_of_prange", 0, 1, 2


def streams(
    fn: Callable[..., Any],
    args: tuple[Any, ...],
    cores: int,
    time_limit_s: float = 60.0,
    *,
    most_accesses: int = MOST_ACCESSES,
) -> CoreStreams:
    """What `cores` cores access when they share the trips of the prange loops of `fn`.

    Args:
        fn: as `rooflab.loop` takes it.
        args: its arguments; they are copied.
        cores: how many.
        time_limit_s: bound on the run that is recorded.
        most_accesses: that may be recorded, at most `MOST_ACCESSES`.

    Raises:
        RooflabError: no prange in it, what cannot be counted, an access out of bounds, too many accesses.
    """
    check_cores(cores)
    loop = understand(fn, args)
    return dealt(recorded(loop, loop.source.tree, time_limit_s, most_accesses), f"{fn.__name__} by", cores)


class Ran(NamedTuple):
    """One run on one core, in order.

    Attributes:
        records: its accesses, those to marks among them, one a word (see `cachesim.coherence.stream`).
        refs: of each, which of the `lines` of the source makes it.
        marks: the address of the marks.
        lines: of the source.
        arrays: of the arguments.
    """

    records: np.ndarray
    refs: np.ndarray
    marks: int
    lines: tuple[int, ...]
    arrays: tuple[CoreArray, ...]


def dealt(ran: Ran, name: str, cores: int, rounds: int = 1) -> CoreStreams:
    """What so many cores access in a run, once or several times over, a barrier between two."""
    parts = _dealt(ran.records, ran.marks, cores)
    streams = tuple(_again([*each, *([BARRIER_RECORD, *each] * (rounds - 1))]) for each in parts)
    return CoreStreams(f"{name} {cores} cores", ran.arrays, streams)


def recorded(loop: Understood, tree: ast.FunctionDef, time_limit_s: float, most_accesses: int) -> Ran:
    """A run of `loop` recorded with marks in its outermost loops over prange, as `tree` has them.

    Raises:
        RooflabError: as `streams`.
    """
    source, marks = _marked(loop.source._replace(tree=tree), loop.value_types), np.zeros(3, np.int64)
    values = {**dict(zip(loop.source.parameters, loop.arguments.values, strict=True)), _MARKS: marks}
    state, words = _recorder()
    address = state.ctypes.data
    fn_marked = from_source.function(source)
    made = built.of_source(fn_marked, source, values, built.geometry(address), keep=True)
    placed = memory.lay_out(values, made.lengths)
    twin = count.opened(made, built.view_of(address), placed, None)
    outcome = count.run_once(twin, source, time_limit_s)
    if outcome.error is not None:
        raise RooflabError(outcome.error)
    used = int(state[layout.SETS])
    if outcome.stopped or used > most_accesses:
        reached = f"did not end in {time_limit_s:g} s" if outcome.stopped else f"makes {used:,} accesses"
        name = loop.source.name
        raise RooflabError(f"{name} {reached}, expected at most {most_accesses:,}: give smaller arguments")
    lines = tuple(each.line for each in made.plan.refs)
    return Ran(words[0, :used], words[1, :used], placed.placed[-1].address, lines, _arrays(loop.arguments))


def whose(ran: Ran, threads: int) -> tuple[np.ndarray, np.ndarray]:
    """Of each access its thread, −1 of a mark, and between which barriers it lies: odd in loops over prange."""
    addresses = ran.records >> ADDRESS_SHIFT
    places = np.flatnonzero(addresses >= ran.marks)
    types = (addresses[places] - ran.marks) // 8
    owners, phases = np.zeros(len(addresses), np.int64), np.zeros(len(addresses), np.int64)
    trips = places[types == _TRIP]
    begins, ends = places[types == _BEGIN], places[types == _END]
    phases[begins] += 1
    phases[ends] += 1
    for begin, end in zip(begins, ends, strict=True):
        mine = trips[np.searchsorted(trips, begin) : np.searchsorted(trips, end)]
        edges = np.append(mine, end)
        for thread in range(threads):
            owners[edges[thread * len(mine) // threads] : edges[(thread + 1) * len(mine) // threads]] = thread
    owners[places] = -1
    return owners, np.cumsum(phases)


def _marked(source: Source, types: ValueTypes) -> Source:
    """`source` with marks in its outermost loops over prange."""
    tree = copy.deepcopy(source.tree)
    marked = _mark(tree.body, lambda node: types.called(node) == "prange")
    if not marked:
        raise RooflabError(
            f"{source.path}:{tree.lineno}: {source.name} has no loop over prange, expected one whose trips the"
            " cores share: for i in prange(n), with from numba import prange"
        )
    tree.args.args.append(ast.copy_location(ast.arg(_MARKS), tree))
    return source._replace(tree=ast.fix_missing_locations(tree))


def _mark(body: list[ast.stmt], is_prange: Callable[[ast.Call], bool]) -> bool:
    marked = False
    for place in reversed(range(len(body))):
        node = body[place]
        if isinstance(node, ast.For) and isinstance(node.iter, ast.Call) and is_prange(node.iter):
            marked = True
            node.body.insert(0, _store(node, _TRIP))
            body.insert(place + 1, _store(node, _END))
            body.insert(place, _store(node, _BEGIN))
            continue
        for inner in (getattr(node, "body", []), getattr(node, "orelse", [])):
            marked |= _mark(inner, is_prange)
    return marked


def _store(node: ast.stmt, mark: int) -> ast.stmt:
    statement = ast.parse(f"{_MARKS}[{mark}] = 1").body[0]
    for each in ast.walk(statement):
        ast.copy_location(each, node)
    return statement


def _record(state, address, nbytes, request, reference):
    used = load(state, layout.SETS)
    if used < _ROOM:
        store(load(state, layout.TAGS), used, address << ADDRESS_SHIFT | nbytes << 4 | request)
        store(load(state, layout.TAGS), used + _ROOM, reference)
    store(state, layout.SETS, used + 1)
    return 0


@functools.cache
def _record_address() -> int:
    _KEPT.append(callback(CALL_SIGNATURE, _record, "record"))
    return native_address(_KEPT[-1])


_KEPT: list[Any] = []  # machine code lives as long as what compiled it


def _recorder() -> tuple[np.ndarray, np.ndarray]:
    """A first level (see `cachesim.level.access`) that knows no line and writes every access down; and where.

    Of each access a word of what it is, in the first row, and one of who makes it.
    """
    state, records = np.zeros(layout.DESCRIPTOR_WORDS + 1, np.int64), np.empty((2, _ROOM), np.int64)
    state[-1] = -1  # its last-line slot: never the unit asked for
    state[layout.LAST_LINES] = state[layout.DESCRIPTOR_WORDS :].ctypes.data
    state[layout.UNIT_SHIFT] = 62  # one unit holds all addresses
    state[layout.TAGS] = records.ctypes.data
    for word in (layout.SELF_CALL, layout.UNIT_CALL, layout.SPLIT_CALL):
        state[word] = _record_address()
    return state, records


def _dealt(records: np.ndarray, marks: int, cores: int) -> list[list[np.ndarray]]:
    """The records of each core, in parts; `marks` is the address of the marks."""
    addresses = records >> ADDRESS_SHIFT
    places = np.flatnonzero(addresses >= marks)
    types = (addresses[places] - marks) // 8
    parts: list[list[np.ndarray]] = [[] for _ in range(cores)]
    done = 0
    begins, ends = places[types == _BEGIN], places[types == _END]
    trips = places[types == _TRIP]
    for begin, end in zip(begins, ends, strict=True):
        parts[0].append(records[done:begin])
        mine = trips[np.searchsorted(trips, begin) : np.searchsorted(trips, end)]
        edges = np.append(mine, end)
        for core, part in enumerate(parts):
            first, last = edges[core * len(mine) // cores], edges[(core + 1) * len(mine) // cores]
            block = records[first:last]
            part += [BARRIER_RECORD, block[addresses[first:last] < marks], BARRIER_RECORD]
        done = end + 1
    parts[0].append(records[done:])
    return parts


def _again(parts: list[np.ndarray]) -> Callable[[], Iterator[np.ndarray]]:
    whole = [part for part in parts if len(part)]
    return lambda: iter(whole)


def _arrays(arguments: Arguments) -> tuple[CoreArray, ...]:
    """The arrays in order of address; of those that share memory, the one that begins first and is longest."""
    values = arguments.arrays()
    arrays: list[CoreArray] = []
    for each in sorted(arguments.placed, key=lambda placed: (placed.low, -placed.nbytes)):
        item = values[each.name].itemsize
        if arrays and each.low < arrays[-1].end:
            continue
        arrays.append(CoreArray(each.name, each.low, -(-each.nbytes // item), item))
    return tuple(arrays)
