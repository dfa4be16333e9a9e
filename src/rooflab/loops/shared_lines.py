"""Which cache lines threads take from one another, of accesses that were recorded thread by thread.

The threads of a phase, between two barriers, go on beside each other: each by its own accesses. A thread that gets
a line keeps it for what it does meanwhile: loads find what its own stores have left in the store queue, and what
waits there is written once the line is there. So what it does within as many stores as the queue holds is one
visit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numba import njit

from rooflab.cachesim.coherence.layout import ADDRESS_SHIFT, READS
from rooflab.types.shared_lines import SharedLines

STORE_QUEUE = 64  # stores that wait: 64 of Zen 4, 56 of Skylake, 72 of Sunny Cove (their makers' guides)
_MOST_CELLS = 1 << 26  # of a table of lines by threads
_PARTS = 8  # of a line, that are told apart
_FEW = 8  # times a thread takes a line: below it is what the edge of a share comes to


class Recorded(NamedTuple):
    """Accesses of threads, in the order of each.

    Attributes:
        records: one a word (see `cachesim.coherence.stream`).
        refs: the number of the source line of each.
        threads, phases: whose each is, and between which barriers.
    """

    records: np.ndarray
    refs: np.ndarray
    threads: np.ndarray
    phases: np.ndarray


def of(
    recorded: Recorded, threads: int, line_bytes: int, lines: tuple[int, ...], array_at: Callable[[int], str]
) -> tuple[SharedLines, ...]:
    """The lines that are taken, the most often taken first.

    Args:
        recorded: accesses.
        threads: of the team.
        line_bytes: of a cache line.
        lines: of the source, by number.
        array_at: what lies at an address.
    """
    addresses = recorded.records >> ADDRESS_SHIFT
    units = addresses // line_bytes
    stored = (recorded.records & 15) != READS
    chosen = _on_lines_of_several(units, stored, recorded.threads, threads)
    if not chosen.any():
        return ()
    known, numbers = np.unique(units[chosen], return_inverse=True)
    progress = _progress(recorded.threads, recorded.phases, threads)[chosen]
    stores = _stores_before(stored, recorded.threads, threads)[chosen]
    whose, phases = recorded.threads[chosen], recorded.phases[chosen]
    order = np.lexsort((whose, progress, phases))
    parts = (addresses[chosen] % line_bytes) * _PARTS // line_bytes
    taken = _taken(
        numbers[order],
        parts[order],
        whose[order],
        phases[order],
        stores[order],
        stored[chosen][order],
        len(known),
        threads,
    )
    refs = recorded.refs[chosen][order]
    found = []
    places = [array_at(int(unit) * line_bytes) for unit in known]
    groups: dict[tuple[int, str], list[int]] = {}
    for at in np.flatnonzero(taken).tolist():
        groups.setdefault((lines[refs[at]], places[numbers[order[at]]]), []).append(at)
    for (line, array), held in groups.items():
        of_lines = np.bincount(numbers[order[held]])
        if len(held) < _FEW * threads:
            continue
        found.append(
            SharedLines(
                line=line,
                array=array,
                cache_lines=int((of_lines > 0).sum()),
                threads=threads,
                taken=len(held),
                falsely=int((taken[held] == 1).sum()),
                in_turn=_in_turn(numbers[order[held]], phases[order[held]]),
            )
        )
    return tuple(sorted(found, key=lambda each: -each.in_turn))


def _in_turn(numbers: np.ndarray, phases: np.ndarray) -> int:
    """How often lines are taken one after the other: those of the busiest line of each phase."""
    held, counts = np.unique(np.stack([phases, numbers]), axis=1, return_counts=True)
    starts = np.flatnonzero(np.diff(held[0], prepend=-1))
    return int(np.maximum.reduceat(counts, starts).sum())


def _on_lines_of_several(units: np.ndarray, stored: np.ndarray, whose: np.ndarray, threads: int) -> np.ndarray:
    """Which accesses are to lines that several threads access, and one stores to."""
    if not len(units):
        return np.zeros(0, bool)
    near = units - int(units.min())
    size = int(near.max()) + 1
    if size * threads > _MOST_CELLS:
        known, near = np.unique(units, return_inverse=True)
        size = len(known)
    touched = np.zeros((threads, size), bool)
    touched[whose, near] = True
    written = np.zeros(size, bool)
    written[near[stored]] = True
    return ((touched.sum(axis=0) > 1) & written)[near]


def _progress(whose: np.ndarray, phases: np.ndarray, threads: int) -> np.ndarray:
    """How many accesses its thread made before each, within its phase."""
    found = np.zeros(len(whose), np.int64)
    for thread in range(threads):
        mine = np.flatnonzero(whose == thread)
        held = phases[mine]
        first = np.searchsorted(held, held, side="left")
        found[mine] = np.arange(len(mine)) - first
    return found


def _stores_before(stored: np.ndarray, whose: np.ndarray, threads: int) -> np.ndarray:
    """How many stores its thread made before each."""
    found = np.zeros(len(whose), np.int64)
    for thread in range(threads):
        mine = np.flatnonzero(whose == thread)
        found[mine] = np.cumsum(stored[mine])
    return found


@njit(cache=True)
def _taken(
    numbers: np.ndarray,
    parts: np.ndarray,
    whose: np.ndarray,
    phases: np.ndarray,
    stores: np.ndarray,
    stored: np.ndarray,
    lines: int,
    threads: int,
) -> np.ndarray:
    """For each access whether its thread takes the line by it: 0 not, 1 for nothing of another's, 2 for that."""
    found = np.zeros(len(numbers), np.int8)
    started = np.full((lines, threads), -1, np.int64)  # which access began the last visit, one by number
    began_at = np.zeros((lines, threads), np.int64)  # the stores that its thread had made then
    phase_of = np.full((lines, threads), -1, np.int64)
    last_store = np.full((lines, threads), -1, np.int64)  # to the line, by whom: which access
    last_visit = np.full((lines, threads), -1, np.int64)
    part_store = np.full((lines, _PARTS, 2), -1, np.int64)  # which access, by whom
    since = np.full((lines, threads), -1, np.int64)  # the visit before: what was stored after it is news
    for at in range(len(numbers)):
        line, part, me = numbers[at], parts[at], whose[at]
        inside = (
            phase_of[line, me] == phases[at]
            and stores[at] - began_at[line, me] < STORE_QUEUE
            and started[line, me] >= 0
        )
        if not inside:
            before = last_visit[line, me]
            needs = False
            for other in range(threads):
                if other != me:
                    needs |= last_store[line, other] > before
                    if stored[at]:
                        needs |= last_visit[line, other] > before
            since[line, me] = before
            started[line, me], began_at[line, me], phase_of[line, me] = at, stores[at], phases[at]
            if needs:
                found[at] = 1
        begin = started[line, me]
        if inside and stored[at] and last_store[line, me] < begin and found[begin] == 0:
            # it came to read, and others may read on: what it stores takes the line from them
            for other in range(threads):
                if other != me and last_visit[line, other] > since[line, me]:
                    found[begin] = 1
        if (
            found[begin] == 1
            and part_store[line, part, 1] not in (-1, me)
            and (part_store[line, part, 0] > since[line, me])
        ):
            found[begin] = 2
        last_visit[line, me] = at
        if stored[at]:
            last_store[line, me] = at
            part_store[line, part, 0], part_store[line, part, 1] = at, me
    return found
