"""The first operations of a simulation one by one: which states each leaves, whose copies it takes away.

The compiled simulator runs as always, but each core is handed one record at a time: it comes back before every
operation, and what changed since is one operation's doing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from rooflab.cachesim.coherence import layout as at
from rooflab.cachesim.coherence.stream import NAMES, CoreStreams
from rooflab.types.core_simulation import CoreStep
from rooflab.types.simulation import Cache

if TYPE_CHECKING:
    from rooflab.cachesim.coherence.simulate import Interleaving, System

MOST_STEPS = 64
_STATES = {
    at.INVALID: "I",
    at.SHARED_STATE: "S",
    at.EXCLUSIVE_STATE: "E",
    at.OWNED: "O",
    at.MODIFIED: "M",
}


def first_steps(
    streams: CoreStreams, levels: Sequence[Cache], protocol: str, turns: Interleaving, most: int = MOST_STEPS
) -> tuple[CoreStep, ...]:
    """The first `most` operations of `streams` in the order in which they run; all must run to their ends."""
    from rooflab.cachesim.coherence.schedule import run
    from rooflab.cachesim.coherence.simulate import System

    system = System(streams, levels, protocol, turns, races=False)
    waiting: dict[int, np.ndarray] = {}
    records = [_one_by_one(start()) for start in streams.cores]
    steps: list[CoreStep] = []
    given: dict[int, int] = {}  # the record that each core was handed
    while len(steps) < most:
        lines = {line for record in given.values() for line in _lines(record, system.line_bytes)}
        before = _State(system, lines)
        stopped = run(system.words.ctypes.data)
        after = _State(system, lines)
        for core in range(system.count):
            row = system.rows[core]
            if before.done[core] != after.done[core]:
                steps += _step(system, core, given[core], before, after)
            if row[at.STATUS] == at.BLOCKED and row[at.LENGTH]:
                # Taken back until the lock is free: else it would run in one go with what freed it.
                waiting[core] = np.array([given[core]], np.int64)
                row[at.LENGTH] = row[at.POSITION] = 0
        if stopped < at.CORE_NEEDS:
            break
        core = stopped - at.CORE_NEEDS
        chunk = waiting.pop(core, None)
        chunk = next(records[core], None) if chunk is None else chunk
        if chunk is not None:
            given[core] = int(chunk[0])
        system.refill(core, iter(() if chunk is None else (chunk,)))
    return tuple(steps[:most])


def _one_by_one(chunks: Iterator[np.ndarray]) -> Iterator[np.ndarray]:
    for chunk in chunks:
        whole = np.ascontiguousarray(chunk, np.int64)
        for number in range(whole.size):
            yield whole[number : number + 1].copy()


class _State:
    """What is compared before and after an operation."""

    def __init__(self, system: System, lines: Iterable[int]) -> None:
        self.rows = system.rows.copy()
        self.done = self.rows[:, at.BEFORE] + self.rows[:, at.POSITION]
        self.states = {line: system.cells[line, :, at.STATE] & at.STATE_BITS for line in lines}


def _step(system: System, core: int, record: int, before: _State, after: _State) -> list[CoreStep]:
    """What `core` did with `record`: an entry for each line that it touched."""
    from rooflab.cachesim.coherence.simulate import named

    operation = NAMES[record & 15]
    if operation == "barrier":
        return [CoreStep(core=core, operation=operation)]
    address, nbytes = record >> at.ADDRESS_SHIFT, record >> 4 & at.LONGEST
    size = system.line_bytes
    gained = after.rows - before.rows
    others = [other for other in range(system.count) if other != core]
    suppliers = [other for other in others if gained[other, at.SUPPLIED]]
    found = []
    for line in _lines(record, size):
        first = max(address, line * size)
        found.append(
            CoreStep(
                core=core,
                operation=operation,
                item=named(system.streams.arrays, address),
                line=line,
                first_byte=first - line * size,
                nbytes=min(address + nbytes, (line + 1) * size) - first,
                before=_letters(before, line),
                states=_letters(after, line),
                supplier=suppliers[0] if suppliers else None,
                upgrade=bool(gained[core, at.UPGRADES]),
                invalidated=tuple(other for other in others if gained[other, at.LOST_COPIES]),
                written_back=tuple(other for other in others if gained[other, at.DOWNGRADES]),
                true_sharing=bool(gained[core, at.TRUE_SHARING]),
                false_sharing=tuple(other for other in range(system.count) if gained[other, at.FALSE_SHARING]),
            )
        )
    return found


def _lines(record: int, line_bytes: int) -> range:
    """The lines that a record's bytes lie on; none of a barrier."""
    if record & 15 == at.BARRIER:
        return range(0)
    address, nbytes = record >> at.ADDRESS_SHIFT, record >> 4 & at.LONGEST
    return range(address // line_bytes, (address + nbytes - 1) // line_bytes + 1)


def _letters(state: _State, line: int) -> tuple[str, ...]:
    return tuple(_STATES[int(each)] for each in state.states[line])
