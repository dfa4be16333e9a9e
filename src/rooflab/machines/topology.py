"""How a machine hangs together: which units share which cache, what the memory and the links are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from rooflab.types.machine import Level, Link, Machine, Part, Rate, is_main_memory, is_storage
from rooflab.units import FLOP_PER_FMA


class Segment(NamedTuple):
    """Units of a machine, from `first` to before `stop`; drawn one by one where there is one, else folded."""

    first: int
    stop: int

    @property
    def units(self) -> int:
        """How many units it stands for."""
        return self.stop - self.first


class Shared(NamedTuple):
    """A level of the memory hierarchy as it is spread over the units.

    Attributes:
        units: how many share one instance; None where nothing says so.
        instances: how many there are; None where that is not known.
    """

    level: Level
    units: int | None
    instances: int | None


class Topology(NamedTuple):
    """What is where in a machine.

    Attributes:
        unit: what computes: "core", "SM", …; None where the machine names none.
        units: how many; None where not known.
        lanes: multiply-adds in fp32 that one unit starts each clock; None where not stated.
        matrix: FLOP a clock of one unit's matrix engine and their number format; None where not stated.
        shared: caches and memory, near to far.
        links: to what lies outside, and between the parts.
        nodes: measured links between NUMA nodes.
        parts: kinds of component.
        mixed: whether the units are of several kinds (P-cores, E-cores), which `parts` tell apart.
        unknown: sentences about what is left out since nothing states it.
    """

    machine: Machine
    unit: str | None
    units: int | None
    lanes: float | None
    matrix: tuple[float, str] | None
    shared: tuple[Shared, ...]
    links: tuple[Link, ...]
    nodes: tuple[Link, ...]
    parts: tuple[Part, ...]
    mixed: bool
    unknown: tuple[str, ...]

    @property
    def empty(self) -> bool:
        """Whether nothing is known that could be drawn."""
        return not (self.shared or self.parts or self.units)


def topology(machine: Machine) -> Topology:
    """How `machine` hangs together, as far as it says so."""
    shared = tuple(_shared(level, machine) for level in machine.levels if not is_storage(level))
    nodes = tuple(link for link in machine.links if link.to in ("local memory", "remote memory"))
    return Topology(
        machine,
        machine.compute_unit,
        machine.compute_units,
        _lanes(machine),
        _matrix(machine),
        shared,
        tuple(link for link in machine.links if link not in nodes),
        nodes,
        machine.parts,
        mixed(machine),
        tuple(_unknown(machine, shared)),
    )


def mixed(machine: Machine) -> bool:
    """Whether the units of `machine` are of several kinds, one after the other in its parts."""
    return len(machine.parts) > 1 and sum(part.count for part in machine.parts) == machine.compute_units


def segments(units: int, sizes: Iterable[int], most: int) -> tuple[Segment, ...]:
    """The columns of a picture of `units` units: the first ones one by one, the others folded.

    Args:
        units: how many there are.
        sizes: of groups that share something; a fold ends where a group ends.
        most: columns that there is room for.

    >>> segments(4, [], 8) == tuple(Segment(n, n + 1) for n in range(4))
    True
    >>> segments(64, [8], 10)[7:]
    (Segment(first=7, stop=8), Segment(first=8, stop=64))
    >>> segments(304, [38], 6)[3:]
    (Segment(first=3, stop=4), Segment(first=4, stop=38), Segment(first=38, stop=304))
    """
    if units <= most:
        return tuple(Segment(n, n + 1) for n in range(units))
    groups = sorted({size for size in sizes if 1 < size < units})
    whole = groups[0] if groups and groups[0] < most - len(groups) + 1 else 0
    shown = (most - len(groups)) // whole * whole if whole else most - 1 - len(groups)
    shown = max(shown, 1)
    ends = sorted({min(-(-shown // size) * size, units) for size in groups} | {units})
    columns = [Segment(n, n + 1) for n in range(shown)]
    for end in ends:
        if end > columns[-1].stop:
            columns.append(Segment(columns[-1].stop, end))
    return tuple(columns)


def _shared(level: Level, machine: Machine) -> Shared:
    units = machine.compute_units
    if level.shared_by is None:
        # There is one main memory; how many caches there are is not known without who shares them.
        return Shared(level, units if is_main_memory(level) else None, 1 if is_main_memory(level) else None)
    alike = not mixed(machine) or level.shared_by == units
    instances = None if units is None or not alike else -(-units // level.shared_by)
    return Shared(level, level.shared_by, instances)


def _vector(machine: Machine, engine: str, dtype: str) -> Rate | None:
    fits = [
        peak
        for peak in machine.peaks
        if peak.engine == engine
        and peak.dtype == dtype
        and peak.per_unit_per_clock
        and peak.units is not None
        and peak.units == machine.compute_units
        and peak.basis == "theoretical"
    ]
    return max(fits, key=lambda peak: peak.value, default=None)


def _lanes(machine: Machine) -> float | None:
    peak = _vector(machine, "vector", "fp32")
    return None if peak is None or peak.per_unit_per_clock is None else peak.per_unit_per_clock / FLOP_PER_FMA


def _matrix(machine: Machine) -> tuple[float, str] | None:
    for dtype in ("bf16", "fp16"):
        peak = _vector(machine, "matrix", dtype)
        if peak is not None and peak.per_unit_per_clock is not None:
            return peak.per_unit_per_clock, dtype
    return None


def _unknown(machine: Machine, shared: Iterable[Shared]) -> Iterable[str]:
    if machine.kind == "system":
        yield "Which part hangs on which is stated for kinds alone: a link is drawn as one bus for all of a kind."
        yield "What joins disks and network adapters to the host is not stated: no line is drawn to them."
    elif mixed(machine):
        first = machine.parts[0].name
        yield f"The units are not alike: caches that only some share are drawn for the {first} alone."
    elif machine.compute_units is None:
        yield f"How many units compute is not stated: one {machine.compute_unit or 'unit'} is drawn."
    for each in shared:
        level = each.level
        if each.units is None and not is_main_memory(level):
            yield f"{level.name}: how many units share it is not stated: it is drawn dashed."
        if level.capacity_bytes is None:
            yield f"{level.name}: its capacity is not stated."
        if not level.rates:
            yield f"{level.name}: its bandwidth is not stated."
