"""From what was counted to a `CoreSimulation`: sharing by array and line, races with what could be seen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rooflab.cachesim.coherence import layout as at
from rooflab.cachesim.coherence import visible_stores as windows
from rooflab.cachesim.coherence.stream import CoreArray
from rooflab.types.core_simulation import CoreCounts, CoreSimulation, Sharing

if TYPE_CHECKING:
    from rooflab.cachesim.coherence.simulate import World

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


def simulation(world: World, again: World | None, protocol: Any, assumptions: Sequence[str]) -> CoreSimulation:
    """What `world` has counted; races are told by `again`, which ran with the racing items watched."""
    _close(world)
    timed = world.turns.quantum is None
    cores = tuple(
        CoreCounts(
            loads=world.loads(core),
            stores=world.stores(core),
            levels=world.levels_of(core),
            time=int(row[at.TIME]) if timed else None,
            **{field: int(row[word]) for field, word in _OF_CORE.items()},
        )
        for core, row in enumerate(world.rows)
    )
    looked = world.words[at.SHADOW] != 0
    return CoreSimulation(
        name=world.streams.name,
        protocol=protocol,
        rule=world.turns.text,
        cores=cores,
        shared=world.shared_counts(),
        arrays=_by_array(world),
        lines=_by_line(world),
        races=windows.races(world, again) if looked else None,
        racing=int(world.race_counts.sum()) if looked else None,
        assumptions=tuple(assumptions),
        seconds=world.seconds,
    )


def _close(world: World) -> None:
    # The end of the run ends every copy: what has brought nothing new until then was false sharing.
    pending = world.cells[:, :, at.STATE] & at.PENDING != 0
    world.lines[:, at.LINE_FALSE] += pending.sum(axis=1)
    world.rows[:, at.FALSE_SHARING] += pending.sum(axis=0)
    world.cells[:, :, at.STATE] &= ~at.PENDING


def _touched(world: World) -> np.ndarray:
    return np.flatnonzero(world.lines.any(axis=1))


def _arrays_of(world: World, line: int) -> list[CoreArray]:
    first, end = line * world.line_bytes, (line + 1) * world.line_bytes
    return [array for array in world.streams.arrays if array.base < end and array.end > first]


def _by_array(world: World) -> tuple[Sharing, ...]:
    # Lines of one array alone are summed without looking at each: most are.
    totals: dict[str, np.ndarray] = {}
    lines = _touched(world)
    size = world.line_bytes
    first = np.array([array.base // size for array in world.streams.arrays])
    last = np.array([(array.end - 1) // size for array in world.streams.arrays])
    owner = np.searchsorted(first, lines, side="right") - 1
    alone = np.ones(len(lines), bool)
    for place, array in enumerate(world.streams.arrays):
        for edge in {int(first[place]), int(last[place])}:
            if len(_arrays_of(world, edge)) > 1:
                alone &= lines != edge
        chosen = world.lines[lines[alone & (owner == place)]].sum(axis=0)
        totals[array.name] = totals.get(array.name, 0) + chosen
    for line in sorted({int(line) for line in lines[~alone]}):
        name = ", ".join(array.name for array in _arrays_of(world, line))
        totals[name] = totals.get(name, 0) + world.lines[line]
    made = [_sharing(name, row) for name, row in totals.items()]
    return tuple(sorted(made, key=lambda each: -each.invalidations))


def _by_line(world: World) -> tuple[Sharing, ...]:
    lines = _touched(world)
    rows = world.lines[lines]
    shared = rows[:, at.LINE_INVALIDATIONS] + rows[:, at.LINE_TRANSFERS] > 0
    order = np.lexsort((-rows[shared][:, at.LINE_INVALIDATIONS], -rows[shared][:, at.LINE_FALSE]))
    chosen = lines[shared][order][:LINES_KEPT]
    return tuple(
        _sharing(
            ", ".join(array.name for array in _arrays_of(world, int(line))),
            world.lines[line],
            int(line),
            tuple(
                f"core {core}: {said}" for core in range(world.count) if (said := _used(world, int(line), core))
            ),
        )
        for line in chosen
    )


def _sharing(name: str, row: np.ndarray, line: int | None = None, used: tuple[str, ...] = ()) -> Sharing:
    counts = {field: int(row[word]) for field, word in _COLUMNS.items()}
    return Sharing(name=name, line=line, used=used, **counts)


def _used(world: World, line: int, core: int) -> str:
    """The items of a line that a core used: "a[0…7] stored"."""
    cell = world.cells[line, core]
    stored = int(cell[at.SINCE] | cell[at.WRITTEN])
    loaded = int(cell[at.READ]) & ~stored
    said = []
    for mask, word in ((stored, "stored"), (loaded, "loaded")):
        items = _items(world, line, mask & (1 << 64) - 1)
        if items:
            said.append(f"{items} {word}")
    return ", ".join(said)


def _items(world: World, line: int, mask: int) -> str:
    part = 1 << int(world.words[at.PART_SHIFT])
    said = []
    for array in _arrays_of(world, line):
        addresses = (line * world.line_bytes + bit * part for bit in range(64) if mask >> bit & 1)
        indices = sorted({array.index(each) for each in addresses if array.base <= each < array.end})
        said += [f"{array.name}[{run}]" for run in _runs(indices)]
    return " ".join(said)


def _runs(numbers: Iterable[int]) -> list[str]:
    """Whole numbers in order, neighbours joined: "0…3", "7"."""
    found: list[list[int]] = []
    for number in numbers:
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return [str(first) if first == last else f"{first}…{last}" for first, last in found]
