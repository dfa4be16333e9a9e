"""What a roofline of profiles shows: a mark for each operation, and the roofs of every machine."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rooflab.errors import RooflabError
from rooflab.model.roofline import roofline as model
from rooflab.model.roofline.per_operation import peak_of
from rooflab.types.kernel_names import short_name
from rooflab.types.machine import Engine, Machine, Rate, is_main_memory
from rooflab.types.profile import Profile, ProfileRow
from rooflab.types.work import Flop
from rooflab.units import duration, si

MAIN = "main memory"
_MOST_MARKS = 300  # of a file, by time: more cannot be told apart
_MOST_PEAKS = 3  # of a machine, by the FLOP that ask for them
_SAME = 1.02  # peaks closer than this are one line
_WORTH = 0.01  # of a file's FLOP: a format below has no roof of its own
_NAME = 40


class Mark(NamedTuple):
    """An operation: where it stands, how much of its file's time it took, and what is said of it.

    Attributes:
        group: the file; of one profile alone what binds it.
        intensity: FLOP per byte of `level`; None where there is no FLOP.
    """

    name: str
    file: str
    group: str
    share: float
    time_s: float
    intensity: float | None
    flop_per_s: float
    bytes_per_s: float
    level: str
    tip: str


class Roof(NamedTuple):
    """A line: bytes a second of a memory (slanted), or FLOP (or operations) a second of an engine (flat)."""

    machine: str
    name: str
    value: float
    unit: str

    @property
    def slanted(self) -> bool:
        """Whether it is a bandwidth."""
        return self.unit == "B/s"


class Scene(NamedTuple):
    """Everything that is to be drawn, before it has a place.

    Attributes:
        groups: files (or what binds), in the order of their colours.
        machines: by name, with the files that were recorded on each.
        left: how many operations have no place, because FLOP or bytes are not known.
    """

    name: str
    groups: tuple[str, ...]
    machines: dict[str, tuple[str, ...]]
    marks: tuple[Mark, ...]
    roofs: tuple[Roof, ...]
    left: int
    other_levels: tuple[str, ...]
    bases: tuple[str, ...]


def scene(name: str, profiles: Sequence[Profile], machines: Sequence[Machine] = ()) -> Scene:
    """What is drawn of `profiles` and of the `machines` that were given beside them.

    Raises:
        RooflabError: no operation with a place, and no roof.
    """
    alone = len(profiles) == 1 and not machines
    marks: list[Mark] = []
    left = 0
    asked: dict[str, list[Flop]] = defaultdict(list)
    held: dict[str, Machine] = {}
    files: dict[str, list[str]] = defaultdict(list)
    for profile in profiles:
        found, without = _marks(profile, alone)
        marks += found
        left += without
        if profile.machine is not None:
            held.setdefault(profile.machine.name, profile.machine)
            files[profile.machine.name].append(profile.name)
            asked[profile.machine.name] += flop_of(profile.rows)
    for machine in machines:
        held.setdefault(machine.name, machine)
        files[machine.name].append(machine.name)
        marks += _points(machine)
    every = [one for several in asked.values() for one in several]
    roofs: list[Roof] = []
    bases: dict[str, None] = {}
    for machine in held.values():
        for roof, rate in _roofs(machine, asked.get(machine.name) or every):
            roofs.append(roof)
            bases.setdefault(rate.basis)
    if not any(mark.intensity for mark in marks) and not any(roof.slanted for roof in roofs):
        raise RooflabError(
            f"{name}: no operation with known FLOP, bytes and time, and no machine with a memory bandwidth, so no "
            "roofline; expected at least one of them"
        )
    return Scene(
        name,
        tuple(dict.fromkeys(mark.group for mark in marks)),
        {one: tuple(dict.fromkeys(files[one])) for one in held},
        tuple(sorted(marks, key=lambda mark: -mark.time_s)),
        tuple(roofs),
        left,
        tuple(dict.fromkeys(mark.level for mark in marks if mark.level != MAIN)),
        tuple(bases),
    )


class _Sum:
    """Rows that differ by their place in the program alone, added."""

    def __init__(self, row: ProfileRow) -> None:
        self.row = row
        self.time_s = self.flop = self.nbytes = 0.0
        self.executions = 0


def _marks(profile: Profile, alone: bool) -> tuple[list[Mark], int]:
    """The marks of a profile, and how many operations have none."""
    sums: dict[tuple[str, str, str, str], _Sum] = {}
    left = 0
    for row in profile.rows:
        level, nbytes = bytes_of(row)
        if row.flop is None or not nbytes or not row.time_s:
            left += 1
            continue
        one = sums.setdefault((row.name, row.shapes, row.dtype, level), _Sum(row))
        one.time_s += row.time_s
        one.flop += row.flop
        one.nbytes += nbytes
        one.executions += row.executions
    total = profile.time_s
    found = sorted(sums.items(), key=lambda item: -item[1].time_s)
    left += max(0, len(found) - _MOST_MARKS)
    marks = [_mark(profile, one, level, total, alone) for (*_, level), one in found[:_MOST_MARKS]]
    return marks, left


def _mark(profile: Profile, one: _Sum, level: str, total: float, alone: bool) -> Mark:
    name = short_name(one.row.name, _NAME)
    rate = f"{si(one.flop / one.time_s, 'FLOP/s')}, " if one.flop else ""
    moved = si(one.nbytes / one.time_s, "B/s")
    return Mark(
        name=name,
        file=profile.name,
        group=(one.row.bound or "bound not known") if alone else profile.name,
        share=one.time_s / total if total else 0.0,
        time_s=one.time_s,
        intensity=one.flop / one.nbytes if one.flop else None,
        flop_per_s=one.flop / one.time_s,
        bytes_per_s=one.nbytes / one.time_s,
        level=level,
        tip=f"{rate}{moved} of {level}, {one.executions:,} times, {duration(one.time_s)}",
    )


def bytes_of(row: ProfileRow) -> tuple[str, float | None]:
    """The bytes that a row is placed by: of main memory, else of the furthest level that was counted."""
    if row.nbytes is not None or row.counted is None or not row.counted.traffic:
        return MAIN, row.nbytes
    furthest = row.counted.traffic[-1]
    return furthest.level, furthest.nbytes * row.executions


def flop_of(rows: Iterable[ProfileRow]) -> list[Flop]:
    """The FLOP that rows ask for, else those that were counted."""
    found = []
    for row in rows:
        flop = row.cost.flop if row.cost is not None else (row.counted.flop or () if row.counted else ())
        found += [Flop(one.engine, one.dtype, one.count * row.executions) for one in flop]
    return found


def _points(machine: Machine) -> list[Mark]:
    """The known kernels that were run on a machine whose file is among those given."""
    return [
        Mark(
            name=point.name,
            file=machine.name,
            group=machine.name,
            share=0.0,
            time_s=0.0,
            intensity=point.intensity,
            flop_per_s=point.flop_per_s,
            bytes_per_s=point.bytes / point.time_s,
            level=MAIN if point.level is None or point.level in ("DRAM", "HBM", "memory") else point.level,
            tip=f"{si(point.flop_per_s, 'FLOP/s')}, known kernel of {machine.name}",
        )
        for point in machine.points
        if point.scope == "all" and point.bytes > 0 and point.flop > 0 and point.time_s > 0
    ]


def _roofs(machine: Machine, asked: Sequence[Flop]) -> list[tuple[Roof, Rate]]:
    """The main memory's bandwidth, and the peaks of the engines that the work asks for.

    Theory where it is stated; what was attained of a machine that somebody measured.
    """
    found: list[tuple[Roof, Rate]] = []
    memory = _memory(machine)
    if memory is not None:
        found.append((Roof(machine.name, memory[0], memory[1].value, "B/s"), memory[1]))
    peaks = peaks_of(machine, asked)
    for name, rate in peaks:
        unit = "OP/s" if rate.per_s == "op" else "FLOP/s"
        found.append((Roof(machine.name, name, rate.value, unit), rate))
    return found


def _memory(machine: Machine) -> tuple[str, Rate] | None:
    for level in machine.levels:
        if not is_main_memory(level):
            continue
        first, second = ("attained", "theoretical") if _is_measured(machine) else ("theoretical", "attained")
        rate = level.rate(basis=first) or level.rate(basis=second)
        if rate is not None:
            return level.name, rate
    furthest = model.memory_roof(model.roofs(machine), machine)
    return None if furthest is None else (furthest.name, furthest.rate)


def _is_measured(machine: Machine) -> bool:
    return machine.source.kind in ("measured", "reported")


def peaks_of(machine: Machine, asked: Sequence[Flop]) -> list[tuple[str, Rate]]:
    """The peaks of those engines and formats that most FLOP ask for; the fastest where nothing fits."""
    counts: dict[tuple[Engine, str], float] = defaultdict(float)
    for one in asked:
        counts[one.engine, one.dtype] += one.count
    total = sum(counts.values())
    found: list[tuple[list[str], Rate]] = []
    for (engine, dtype), count in sorted(counts.items(), key=lambda item: -item[1]):
        rate, name = peak_of(machine, engine, dtype)
        if rate is None or count < _WORTH * total:
            continue
        if rate.dtype is not None and _is_measured(machine):
            rate = machine.peak(rate.dtype, engine=rate.engine, basis="attained") or rate
        same = next((names for names, one in found if _alike(one.value, rate.value)), None)
        if same is None:
            found.append(([name.removesuffix(" vector")], rate))
        elif name.removesuffix(" vector") not in same:
            same.append(name.removesuffix(" vector"))
    named = {", ".join(names): rate for names, rate in found[:_MOST_PEAKS]}
    if not named:
        roofs = model.roofs(machine).peaks
        named = {
            roof.name: roof.rate if _is_measured(machine) else roof.theory or roof.rate for roof in roofs[-1:]
        }
    return sorted(named.items(), key=lambda item: item[1].value)


def _alike(one: float, other: float) -> bool:
    return max(one, other) <= min(one, other) * _SAME
