"""From what was counted to a `CoreSimulation`: sharing by array and line, races with what could be seen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rooflab.cachesim.coherence import layout as at
from rooflab.cachesim.coherence import visible_stores
from rooflab.cachesim.coherence.stream import CoreArray
from rooflab.types.core_simulation import CoreCounts, CoreSimulation, Sharing

if TYPE_CHECKING:
    from rooflab.cachesim.coherence.simulate import System

LINES_KEPT = 100
_COLUMNS = {
    "invalidations": at.LINE_INVALIDATIONS,
    "true_sharing": at.LINE_TRUE,
    "false_sharing": at.LINE_FALSE,
    "transfers": at.LINE_TRANSFERS,
    "upgrades": at.LINE_UPGRADES,
    "downgrades": at.LINE_DOWNGRADES,
}
_OF_CORE = {
    "upgrades": at.UPGRADES,
    "invalidations": at.LOST_COPIES,
    "received": at.RECEIVED,
    "supplied": at.SUPPLIED,
    "downgrades": at.DOWNGRADES,
    "true_sharing": at.TRUE_SHARING,
    "false_sharing": at.FALSE_SHARING,
}


def simulation(system: System, again: System | None, protocol: Any, assumptions: Sequence[str]) -> CoreSimulation:
    """What `system` has counted; races are told by `again`, which ran with the racing items watched."""
    _close(system)
    timed = system.turns.quantum is None
    cores = tuple(
        CoreCounts(
            loads=system.loads(core),
            stores=system.stores(core),
            levels=system.levels_of(core),
            time=int(row[at.TIME]) if timed else None,
            **{field: int(row[word]) for field, word in _OF_CORE.items()},
        )
        for core, row in enumerate(system.rows)
    )
    looked = system.words[at.SHADOW] != 0
    return CoreSimulation(
        name=system.streams.name,
        protocol=protocol,
        rule=system.turns.text,
        cores=cores,
        shared=system.shared_counts(),
        arrays=_by_array(system),
        lines=_by_line(system),
        races=visible_stores.races(system, again) if looked else None,
        racing=int(system.race_counts.sum()) if looked else None,
        assumptions=tuple(assumptions),
        seconds=system.seconds,
    )


def _close(system: System) -> None:
    # The end of the run ends every copy: what has brought nothing new until then was false sharing.
    pending = system.cells[:, :, at.STATE] & at.PENDING != 0
    system.lines[:, at.LINE_FALSE] += pending.sum(axis=1)
    system.rows[:, at.FALSE_SHARING] += pending.sum(axis=0)
    system.cells[:, :, at.STATE] &= ~at.PENDING


def _touched(system: System) -> np.ndarray:
    return np.flatnonzero(system.lines.any(axis=1))


def _arrays_of(system: System, line: int) -> list[CoreArray]:
    first, end = line * system.line_bytes, (line + 1) * system.line_bytes
    return [array for array in system.streams.arrays if array.base < end and array.end > first]


def _by_array(system: System) -> tuple[Sharing, ...]:
    # Lines of one array alone are summed without looking at each: most are.
    totals: dict[str, np.ndarray] = {}
    lines = _touched(system)
    size = system.line_bytes
    first = np.array([array.base // size for array in system.streams.arrays])
    last = np.array([(array.end - 1) // size for array in system.streams.arrays])
    owner = np.searchsorted(first, lines, side="right") - 1
    alone = np.ones(len(lines), bool)
    for place, array in enumerate(system.streams.arrays):
        for edge in {int(first[place]), int(last[place])}:
            if len(_arrays_of(system, edge)) > 1:
                alone &= lines != edge
        chosen = system.lines[lines[alone & (owner == place)]].sum(axis=0)
        totals[array.name] = totals.get(array.name, 0) + chosen
    for line in sorted({int(line) for line in lines[~alone]}):
        name = ", ".join(array.name for array in _arrays_of(system, line))
        totals[name] = totals.get(name, 0) + system.lines[line]
    sharing = [_sharing(name, row) for name, row in totals.items()]
    return tuple(sorted(sharing, key=lambda each: -each.invalidations))


def _by_line(system: System) -> tuple[Sharing, ...]:
    lines = _touched(system)
    rows = system.lines[lines]
    shared = rows[:, at.LINE_INVALIDATIONS] + rows[:, at.LINE_TRANSFERS] > 0
    order = np.lexsort((-rows[shared][:, at.LINE_INVALIDATIONS], -rows[shared][:, at.LINE_FALSE]))
    chosen = lines[shared][order][:LINES_KEPT]
    return tuple(
        _sharing(
            ", ".join(array.name for array in _arrays_of(system, int(line))),
            system.lines[line],
            int(line),
            tuple(
                f"core {core}: {items}"
                for core in range(system.count)
                if (items := _used(system, int(line), core))
            ),
        )
        for line in chosen
    )


def _sharing(name: str, row: np.ndarray, line: int | None = None, used: tuple[str, ...] = ()) -> Sharing:
    counts = {field: int(row[word]) for field, word in _COLUMNS.items()}
    return Sharing(name=name, line=line, used=used, **counts)


def _used(system: System, line: int, core: int) -> str:
    """The items of a line that a core used: "a[0…7] stored"."""
    cell = system.cells[line, core]
    stored = int(cell[at.SINCE] | cell[at.WRITTEN])
    loaded = int(cell[at.READ]) & ~stored
    uses = []
    for mask, word in ((stored, "stored"), (loaded, "loaded")):
        items = _items(system, line, mask & (1 << 64) - 1)
        if items:
            uses.append(f"{items} {word}")
    return ", ".join(uses)


def _items(system: System, line: int, mask: int) -> str:
    part = 1 << int(system.words[at.PART_SHIFT])
    ranges = []
    for array in _arrays_of(system, line):
        addresses = (line * system.line_bytes + bit * part for bit in range(64) if mask >> bit & 1)
        indices = sorted({array.index(each) for each in addresses if array.base <= each < array.end})
        ranges += [f"{array.name}[{run}]" for run in _runs(indices)]
    return " ".join(ranges)


def _runs(numbers: Iterable[int]) -> list[str]:
    """Whole numbers in order, neighbours joined: "0…3", "7"."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return [str(first) if first == last else f"{first}…{last}" for first, last in runs]
