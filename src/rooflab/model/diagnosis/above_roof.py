"""Points above their roof: never clipped, but asked what would explain them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from rooflab.machines import catalog
from rooflab.types.finding import Finding
from rooflab.types.kernel_names import short_name
from rooflab.types.machine import Machine, is_cache, is_main_memory, whole_capacity_bytes
from rooflab.types.placement import RoofShare
from rooflab.types.profile import Profile, ProfileRow
from rooflab.units import duration, si

TOLERANCE = 0.02  # clocks and counters of several passes agree to that
# No kernel of a GPU is shorter: an empty one takes about 1 µs on the device (measured on H100 and H200).
_SHORTEST_S = 0.5e-6
_BOOST = 1.35  # how far cards are known to boost beyond the clock that is printed for them
_SPARSE = 2.05  # 2:4 sparsity doubles a matrix peak
_GIB = 2**30 / 10**9


class _Reason(NamedTuple):
    rule: str
    says: str
    hint: str


def look(profile: Profile) -> Iterator[Finding]:
    """Rows above a roof of the machine, one finding for each roof and reason."""
    machine = profile.machine
    if machine is None:
        return
    found: dict[tuple[str, str], list[tuple[ProfileRow, RoofShare]]] = defaultdict(list)
    for row in profile.rows:
        # What shapes ask for may lie in a cache: that is above the roof of main memory, and no wonder.
        placed = row.placement if row.counted is not None else None
        for roof in placed.roofs if placed is not None else ():
            if roof.share > 1 + TOLERANCE:
                found[roof.name, _reason(row, roof, machine).rule].append((row, roof))
    for (name, _), places in found.items():
        places.sort(key=lambda place: -place[0].time_s)
        worst_row, worst = max(places, key=lambda place: place[1].share)
        reason = _reason(worst_row, worst, machine)
        unit = {"level": "B/s", "engine": "FLOP/s", "issue": "inst/s"}[worst.kind]
        rate = worst.share * worst.roof_per_s
        yield Finding(
            rule=reason.rule,
            kind="doubt",
            says=(
                f"{short_name(worst_row.name)}: {si(rate, unit)} is {worst.share:.3g} times the {name} roof of "
                f"{si(worst.roof_per_s, unit)}. {reason.says}"
            ),
            hint=reason.hint,
            evidence={"share": worst.share, "rate_per_s": rate, "roof_per_s": worst.roof_per_s, "roof": name},
            rows=tuple(dict.fromkeys(row.name for row, _ in places)),
            time_s=sum(row.time_s for row, _ in places),
        )


def below_floor(profile: Profile) -> Iterator[Finding]:
    """Operations whose measured time is less than their floor on the machine."""
    rows = [row for row in profile.rows if row.of_floor is not None and row.of_floor > 1 + TOLERANCE]
    if not rows or profile.machine is None:
        return
    worst = max(rows, key=lambda row: row.of_floor or 0.0)
    assert worst.prediction is not None
    yield Finding(
        rule="below floor",
        kind="doubt",
        says=(
            f"{short_name(worst.name)} took {duration(worst.time_s)}, less than its floor on "
            f"{profile.machine.name}, {duration(worst.prediction.floor_s)}: another machine, data in a cache, or "
            "work that was skipped (sparse operands, a mask)"
        ),
        hint="check --machine; where the operands were in a cache, the floor of cold memory does not hold",
        evidence={"of_floor": worst.of_floor or 0.0, "time_s": worst.time_s, "floor_s": worst.prediction.floor_s},
        rows=tuple(dict.fromkeys(row.name for row in rows)),
        time_s=sum(row.time_s for row in rows),
    )


def _reason(row: ProfileRow, roof: RoofShare, machine: Machine) -> _Reason:
    one_s = row.time_s / row.executions
    if machine.kind == "gpu" and one_s < _SHORTEST_S:
        return _Reason(
            "missing synchronisation",
            f"It is timed at {one_s * 1e9:.3g} ns, less than any kernel takes: the clock stopped at the launch.",
            "synchronise before the clock is read, or time with events of the device",
        )
    if roof.kind == "level":
        return _level_reason(row, roof, machine)
    clock_hz = None if row.counted is None or row.counted.access is None else row.counted.access.clock_hz
    if roof.share <= _BOOST:
        at = "" if clock_hz is None else f" (it ran at {si(clock_hz, 'Hz')})"
        return _Reason(
            "boost clock",
            f"The roof is at the printed clock; the card may run faster{at}.",
            "take the clock that was measured, or the highest that the card has, for the roof",
        )
    if "matrix" in roof.name and roof.share <= _SPARSE:
        return _Reason(
            "sparse peak",
            "The roof is dense; 2:4 sparse operands reach twice of it.",
            "count the products that were done, or hold it against the sparse peak",
        )
    return _other(roof, machine)


def _level_reason(row: ProfileRow, roof: RoofShare, machine: Machine) -> _Reason:
    memory = next((level for level in machine.levels if level.name == roof.name), None)
    main = None if row.counted is None else row.counted.main_memory
    counted = main is not None and main.basis == "counted"
    cache = _last_cache_bytes(machine)
    if memory is not None and is_main_memory(memory) and not counted and cache and roof.amount <= cache:
        return _Reason(
            "cache-resident",
            f"Its {si(roof.amount, 'B')} fit in the {si(cache, 'B')} of caches: that is no speed of {roof.name}.",
            "use arrays of four times the last cache, or flush it between runs",
        )
    if memory is not None and is_main_memory(memory) and not counted and roof.share < 8:
        return _Reason(
            "modelled bytes",
            "Its bytes are those that the program asks for: caches served a part of them.",
            "count what main memory moves, or do not call it a speed of main memory",
        )
    if roof.share <= _GIB + TOLERANCE / 2:
        return _Reason(
            "units",
            "A GiB called GB would be 1.074 of it; memory may also run faster than is printed.",
            "look at which unit the tool means",
        )
    if 8 <= roof.share <= 12:
        return _Reason("units", "About ten times: 1e10 for 1e9, or bits for bytes.", "look at the tool's unit")
    return _other(roof, machine)


def _last_cache_bytes(machine: Machine) -> float | None:
    sizes = [whole_capacity_bytes(level, machine) for level in machine.levels if is_cache(level)]
    return max((size for size in sizes if size is not None), default=None)


def _other(roof: RoofShare, machine: Machine) -> _Reason:
    """Machines of the same vendor whose roof would hold it, the lowest first."""
    rate = roof.share * roof.roof_per_s
    fits: list[tuple[float, str]] = []
    for name in catalog.names():
        other = catalog.find(name)
        if other.kind != machine.kind or other.vendor != machine.vendor or other.name == machine.name:
            continue
        theirs = _roof_of(other, roof)
        if theirs is not None and theirs * (1 + TOLERANCE) >= rate:
            fits.append((theirs, name))
    names = ", ".join(name for _, name in sorted(fits)[:3])
    held = f" (these would hold it: {names})" if names else ""
    return _Reason(
        "above roof",
        f"Another machine{held}, a count that is too high, or a time that is too short.",
        "check --machine, the count and the timer",
    )


def _roof_of(machine: Machine, roof: RoofShare) -> float | None:
    if roof.kind == "level":
        memory = roof.name in ("DRAM", "HBM", "memory")
        for level in machine.levels:
            if level.name == roof.name or (memory and is_main_memory(level)):
                rate = level.rate(basis="theoretical")
                return None if rate is None else rate.value
        return None
    dtype, _, engine = roof.name.partition(" ")
    peak = machine.peak(dtype, basis="theoretical")
    return peak.value if peak is not None and engine and peak.engine == engine else None
