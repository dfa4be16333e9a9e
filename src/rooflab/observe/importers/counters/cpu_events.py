"""Counts of a CPU's events in rooflab's words: FLOP by engine and format, bytes by level, instructions, doubts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rooflab.observe.importers.counters.cpu_event_rows import (
    ANY_FLOAT,
    BYTE_EVENTS,
    CHANNEL_EVENT,
    CHANNELS,
    FAULTS,
    FLOP_EVENTS,
    INSTRUCTIONS,
    LINE_BYTES,
    NO_L3,
    VECTOR_BITS,
    WHOLE_FAMILIES,
    ByteEvent,
)
from rooflab.types.work import Flop, Traffic

_FLOP = {row.event: row for row in FLOP_EVENTS}
_BYTES = {row.event: row for row in BYTE_EVENTS}
_BYTE_UNITS = {"MiB": 2.0**20, "MB": 1e6, "GiB": 2.0**30, "KiB": 2.0**10, "Bytes": 1.0, "B": 1.0, "64Bytes": 64.0}


class Event(NamedTuple):
    """A count.

    Attributes:
        name: as the tool wrote it.
        counter: register or unit that counted ("MBOX0C0", "uncore_imc_0"), where the tool says.
        unit: that the tool has already scaled the count to ("MiB"); "" for a plain count.
    """

    name: str
    value: float
    counter: str = ""
    unit: str = ""


class Counts(NamedTuple):
    """What events say together; None where they do not."""

    flop: tuple[Flop, ...] | None
    traffic: tuple[Traffic, ...]
    instructions: float | None
    notes: tuple[str, ...]


def squashed(name: str) -> str:
    """`name` of an event as the rows have it: no PMU, no modifier, small letters, "_" between words."""
    name = name.strip()
    inside = re.fullmatch(r"[\w.@-]+/(.*)/\w*", name)
    if inside:
        name = inside.group(1)
    name = re.sub(r":[a-zA-Z]+$", "", name)
    given = re.search(r"\bname=([^,]+)", name)
    name = given.group(1) if given else name
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")


def counts(events: Sequence[Event], cpu: str = "") -> Counts:
    """What `events` say of the code that ran, on a CPU whose name and type are `cpu` ("" where unknown)."""
    cpu = cpu.lower()
    named = [(squashed(event.name), event) for event in events]
    present = {name for name, _ in named}
    notes: list[str] = []
    flop = _flop(named, present, cpu, notes)
    traffic = _traffic(named, present, cpu, notes)
    notes += [
        f"{event.name} {fault.what} ({fault.source})"
        for fault in FAULTS
        for name, event in named
        if event.value and re.fullmatch(fault.event, name) and re.search(fault.cpu, cpu)
    ]
    return Counts(flop, traffic, instructions(named), tuple(dict.fromkeys(notes)))


def instructions(named: Iterable[tuple[str, Event]]) -> float | None:
    """Instructions of the core, by the first name that is there."""
    totals: dict[str, float] = {}
    for name, event in named:
        totals[name] = totals.get(name, 0.0) + event.value
    return next((totals[name] for name in INSTRUCTIONS if name in totals), None)


def _flop(
    named: Sequence[tuple[str, Event]], present: set[str], cpu: str, notes: list[str]
) -> tuple[Flop, ...] | None:
    found: dict[tuple[str, str], float] = {}
    known = False
    for name, event in named:
        row = _FLOP.get(name)
        if row is None or present.intersection(row.instead_of):
            continue
        each = row.each
        if row.vector_bits and event.value:
            bits = first_fitting(VECTOR_BITS, cpu)
            if bits is None:
                notes.append(
                    f"{event.name} counts operations of each 128 bits of a vector, and the file does not name a "
                    "CPU whose vectors' length is known: FLOP are unknown"
                )
                return None
            each *= bits / row.vector_bits
        known = True
        key = row.engine, row.dtype
        found[key] = found.get(key, 0.0) + each * event.value
    if not known:
        return None
    notes += _doubts(present, {dtype for _, dtype in found})
    order = {"scalar": 0, "vector": 1}
    return tuple(
        Flop(engine, dtype, count)  # type: ignore[arg-type]
        for (engine, dtype), count in sorted(found.items(), key=lambda one: (one[0][1], order.get(one[0][0], 2)))
        if count
    )


def _doubts(present: set[str], dtypes: set[str]) -> list[str]:
    """What the events that were counted leave open."""
    notes: list[str] = []
    if ANY_FLOAT in dtypes:
        notes.append(f'a counter adds all number formats up: its FLOP are of the format "{ANY_FLOAT}"')
    for family in WHOLE_FAMILIES:
        missing = [event for event in family if event not in present]
        if len(missing) < len(family) and missing:
            notes.append(f"FLOP are those of the counted widths alone; not in the file: {', '.join(missing)}")
    return notes


def _traffic(
    named: Sequence[tuple[str, Event]], present: set[str], cpu: str, notes: list[str]
) -> tuple[Traffic, ...]:
    totals: dict[str, dict[str, float]] = {}
    for name, event in named:
        row = _BYTES.get(name)
        if row is None or present.intersection(row.instead_of):
            continue
        level, each = _level(row, event, cpu), _each(row, event, cpu)
        if level is None or each is None:
            continue
        ways = totals.setdefault(level, {})
        ways[row.way] = ways.get(row.way, 0.0) + each * event.value
    channels = _channels(named, cpu, notes)
    if channels is not None and "DRAM" not in totals:
        totals["DRAM"] = {"both": channels}
    found: list[Traffic] = []
    for level in ("L2", "L3", "HBM", "DRAM"):
        ways = totals.get(level)
        if ways is None:
            continue
        if "both" in ways and not {"read", "write"} <= ways.keys():
            found.append(Traffic(level, ways["both"], 0.0, "counted"))
            notes.append(f"bytes of {level} were counted both ways together: they stand as read")
        elif {"read", "write"} <= ways.keys():
            found.append(Traffic(level, ways["read"], ways["write"], "counted"))
        else:
            other = "writes" if "read" in ways else "reads"
            notes.append(f"bytes of {level} are unknown: its {other} were not counted")
    if any(one.level in ("DRAM", "HBM") for one in found):
        notes.append("bytes of memory are those of whole memory controllers, other programs' included")
    return tuple(found)


def _level(row: ByteEvent, event: Event, cpu: str) -> str | None:
    counter = event.counter.lower()
    if row.level == "DRAM" and (counter.startswith("hbm") or "hbm" in counter):
        return "HBM"
    if row.level == "L3" and re.search(NO_L3, cpu):
        return None
    return row.level


def _each(row: ByteEvent, event: Event, cpu: str) -> float | None:
    if event.unit:
        return _BYTE_UNITS.get(event.unit)
    return row.each if row.each is not None else first_fitting(LINE_BYTES, cpu)


def _channels(named: Iterable[tuple[str, Event]], cpu: str, notes: list[str]) -> float | None:
    """Bytes of all memory channels of an AMD CPU; None where one may be missing."""
    found: dict[int, float] = {}
    for name, event in named:
        match = re.fullmatch(CHANNEL_EVENT, name)
        if match:
            number = int(match.group(1))
            found[number] = found.get(number, 0.0) + 64 * event.value
    if not found:
        return None
    every = first_fitting(CHANNELS, cpu)
    if every is not None and len(found) >= every:
        return sum(found.values())
    has = "an unknown number" if every is None else str(every)
    notes.append(
        f"{len(found)} memory channels were counted and the CPU has {has}: bytes of DRAM are unknown; measure all "
        "of them in the same region"
    )
    return None


def cpu_name(printed: str) -> str | None:
    """The CPU's name without the base clock that Intel writes behind it; None for an empty one."""
    return re.sub(r"\s+(?:CPU\s+)?@\s*[\d.]+\s*GHz\s*$", "", printed).strip() or None


def first_fitting(rows: Iterable[tuple[str, int]], cpu: str) -> int | None:
    """The number of the first row whose pattern is in `cpu`, a name in small letters."""
    return next((number for pattern, number in rows if re.search(pattern, cpu)), None)


def clean_count(value: float | None) -> float | None:
    """`value` where it can be a count: not below zero, and not a counter that ran backwards through 2⁶⁴."""
    return value if value is not None and 0 <= value < 2**63 else None
