"""A stream cut into pieces between which a clock can be read: compiled code cannot be interrupted.

Pieces make the same accesses in the same order as the whole, so that counts of the pieces that ran are exact.
"""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from rooflab.cachesim.level.hierarchy import Hierarchy
from rooflab.cachesim.native import layout
from rooflab.cachesim.native.compile import ready
from rooflab.cachesim.run import irregular, warping
from rooflab.cachesim.streams import nests
from rooflab.cachesim.streams.stream import Stream


class Pacing(NamedTuple):
    """How long pieces are.

    Attributes:
        share: of the time limit; pieces grow until they take that long.
        step_accesses: of one step of a loop, before inner loops are cut instead: half a second at the slowest.
        steps: of every piece; None lets the clock decide.
    """

    share: float = 1 / 32
    step_accesses: int = 1 << 24
    steps: int | None = None


BY_THE_CLOCK = Pacing()


class Ran(NamedTuple):
    """How much of a stream ran before the clock stopped it; bytes are None where that is not known."""

    accesses: int
    accessed_bytes: int | None
    complete: bool


def run(built: Hierarchy, stream: Stream, time_limit_s: float, exact: bool, pacing: Pacing = BY_THE_CLOCK) -> Ran:
    """Run `stream` on `built`, at most one piece longer than `time_limit_s`."""
    begun = time.perf_counter()
    start_pace = functools.partial(_Pace, pacing, time_limit_s * pacing.share)

    def time_is_left() -> bool:
        return time.perf_counter() - begun < time_limit_s

    if stream.program is not None:
        return _run_program(built, stream, exact, time_is_left, start_pace)
    return _run_irregular(built, stream, time_is_left, start_pace)


class _Pace:
    """How long the next piece is to be: twice the last where that took less than `piece_s`."""

    def __init__(self, pacing: Pacing, piece_s: float) -> None:
        self.pacing, self.piece_s, self.steps, self._at = pacing, piece_s, 1, time.perf_counter()

    def next(self) -> int:
        if self.pacing.steps is not None:
            return self.pacing.steps
        now = time.perf_counter()
        took, self._at = now - self._at, now
        self.steps = self.steps * 2 if took < self.piece_s else max(1, self.steps // 2)
        return self.steps


def _run_program(
    built: Hierarchy,
    stream: Stream,
    exact: bool,
    time_is_left: Callable[[], bool],
    start_pace: Callable[[], _Pace],
) -> Ran:
    assert stream.program is not None
    spans, requests = np.array(stream.spans, np.int64), np.zeros(len(stream.references), np.int64)
    accesses, nbytes = 0, 0
    pieces = (piece for loop in stream.program.loops for piece in _pieces(loop, start_pace))
    for piece in pieces:
        warping.run_program(built, nests.Program((piece,)), spans, exact)
        accesses, nbytes = accesses + nests.count(piece), nbytes + nests.count(piece, weight=True)
        for reference, request, number in nests.totals(piece):
            requests[reference] += number if request != layout.STREAM else 0
        if not time_is_left():
            break
    # Each call left the hits of its own piece: those of the whole are what was asked for and was no miss.
    rows = built.counts(0)
    hits = requests + rows[:, layout.EXTRA] - rows[:, layout.MISSES]
    rows[:, layout.HITS] = np.where(requests == 0, 0, hits)
    return Ran(accesses, nbytes, accesses == stream.accesses)


def _pieces(loop: nests.Loop, start_pace: Callable[[], _Pace]) -> Iterator[nests.Loop]:
    """`loop` in pieces, one after the other: steps of it, or of its inner loops where one step is long."""
    inner = any(isinstance(part, nests.Loop) for part in loop.body)
    pace, done = start_pace(), 0
    if inner and nests.count(loop) > pace.pacing.step_accesses * loop.extent:
        for step in range(loop.extent):
            once = part_of(loop, step, step + 1)
            for part in once.body:
                if isinstance(part, nests.Access):
                    yield nests.Loop(loop.name, 1, (part,))
                else:
                    yield from _pieces(_unclipped(part, once), start_pace)
        return
    while done < loop.extent:
        stop = min(loop.extent, done + pace.next())
        yield part_of(loop, done, stop)
        done = stop


def part_of(loop: nests.Loop, first: int, stop: int) -> nests.Loop:
    """The steps of `loop` from `first` up to `stop`."""
    body = tuple(_moved(part, loop.name, first, stop) for part in loop.body)
    return dataclasses.replace(loop, extent=stop - first, body=body)


def _moved(part: nests.Loop | nests.Access, name: str, first: int, stop: int) -> Any:
    if isinstance(part, nests.Access):
        return dataclasses.replace(part, base=part.base + part.strides.get(name, 0) * first)
    clip = part.clip
    if clip and clip[0] == name:
        clip = (name, min(clip[1], stop * part.extent) - first * part.extent)
    body = tuple(_moved(each, name, first, stop) for each in part.body)
    return dataclasses.replace(part, body=body, clip=clip)


def _unclipped(part: nests.Loop, around: nests.Loop) -> nests.Loop:
    """`part` outside of `around`, which has one step: what that clips gets its own extent."""

    def free(each: nests.Loop | nests.Access) -> Any:
        if isinstance(each, nests.Access):
            return each
        body = tuple(free(deeper) for deeper in each.body)
        if each.clip and each.clip[0] == around.name:
            return dataclasses.replace(each, body=body, extent=min(each.extent, each.clip[1]), clip=None)
        return dataclasses.replace(each, body=body)

    return free(part)


def _run_irregular(
    built: Hierarchy, stream: Stream, time_is_left: Callable[[], bool], start_pace: Callable[[], _Pace]
) -> Ran:
    assert stream.irregular is not None
    name, numbers = stream.irregular
    kernel, pace = irregular.kernel_of(name, built.queued), start_pace()
    ready(kernel, built.address, 0)
    done, whole = 0, _steps(name, numbers)
    while done < whole and (done == 0 or time_is_left()):
        stop = min(whole, done + pace.next() * _STEP[name])
        table = np.array(_table_of_steps(name, numbers, done, stop), np.int64)
        kernel(built.address, table.ctypes.data)
        if name == "chase":
            numbers = tuple(table.tolist())  # with the item to go on with: only the kernel itself knows it
        done = stop
    if done == whole:
        return Ran(stream.accesses, stream.accessed_bytes, True)
    rows = built.counts(0)
    asked = rows[:, layout.HITS].sum() + rows[:, layout.MISSES].sum() - rows[:, layout.EXTRA].sum()
    return Ran(int(asked), None, False)


# Accesses, rows, iterations that the shortest piece makes.
_STEP = {
    "random": 1 << 16,
    "chase": 1 << 16,
    "recorded": 1 << 16,
    "spmv": 1 << 12,
    "spmv csr": 1 << 12,
    "pagerank": 2,
}


def _steps(name: str, numbers: tuple[int, ...]) -> int:
    """How many steps an irregular stream has: accesses, rows, or iterations."""
    return {"random": numbers[1], "chase": numbers[1], "pagerank": numbers[3]}.get(name, numbers[0])


def _table_of_steps(name: str, numbers: tuple[int, ...], first: int, stop: int) -> list[int]:
    """The table of the steps from `first` up to `stop` of an irregular stream (its words: see `irregular`)."""
    table = list(numbers)
    if name == "random":
        table[1], table[2] = stop - first, table[2] + first
    elif name == "chase":
        table[1] = stop - first
    elif name == "recorded":
        table = [stop - first, *(each + first * 8 for each in numbers[1:])]
    elif name == "pagerank":
        # Two iterations at a time: ranks are read from one array and written to the other in turns.
        table[3] = stop - first
    elif name in ("spmv", "spmv csr"):
        index_bytes, item = table[9], table[10]
        table[0] = stop - first
        table[4] += first * index_bytes
        table[8] += first * item
        if name == "spmv csr":
            table[1] += first * 8
        else:
            entries = first * table[1]
            table[2] += entries
            table[5] += entries * index_bytes
            table[6] += entries * item
    return table
