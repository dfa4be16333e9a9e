"""What is shown of a simulation of several cores: what each did, what they did to each other, what races."""

from __future__ import annotations

from rooflab import units
from rooflab.types.core_simulation import CoreSimulation, Race, Sharing
from rooflab.views.common.advice import said
from rooflab.views.common.sheet import Sheet
from rooflab.views.common.table import UNKNOWN, Table

ROWS, NAMED = 10, 3


def sheet_of(simulation: CoreSimulation) -> Sheet:
    """What is shown of `simulation`."""
    return Sheet(
        simulation.name,
        "caches of several cores",
        sentences=tuple(summary(simulation)),
        tables=tuple(tables(simulation)),
        notes=simulation.assumptions,
        advice=said(simulation.advice),
    )


def summary(simulation: CoreSimulation) -> list[str]:
    """What was simulated, by which rule, and what came of it, in sentences."""
    counted = f"{simulation.accesses:,} accesses by {len(simulation.cores)} cores, {simulation.protocol.upper()}"
    if simulation.seconds:
        rate = units.si(simulation.accesses / simulation.seconds, "accesses/s")
        counted += f", simulated exactly in {units.duration(simulation.seconds)} ({rate})"
    lost = simulation.invalidations
    sentences = [
        f"{counted}.",
        f"Turns: {simulation.rule}.",
        f"{lost:,} invalidations by other cores' stores: {_kinds(simulation)}.",
    ]
    if simulation.races is not None:
        items = len({(race.array, race.index) for race in simulation.races})
        sentences.append(f"Data races: on {items:,} items." if items else "Data races: none.")
    return sentences


def _kinds(simulation: CoreSimulation) -> str:
    true, false = simulation.true_sharing, simulation.false_sharing
    rest = simulation.invalidations - true - false
    return f"{true:,} true sharing, {false:,} false sharing, {rest:,} never accessed again"


def tables(simulation: CoreSimulation) -> list[Table]:
    """By core, by level, by array, by line and the races, where there are any."""
    shown = [_cores(simulation), _levels(simulation)]
    shared = [each for each in simulation.arrays if each.transfers or each.invalidations]
    if shared:
        shown.append(_sharing("Sharing by array", shared))
    if simulation.lines:
        shown.append(_lines(simulation))
    if simulation.races:
        shown.append(_races(simulation.races))
    return shown


def _cores(simulation: CoreSimulation) -> Table:
    fields = ("loads", "stores", "upgrades", "invalidations", "true_sharing", "false_sharing")
    fields += ("received", "supplied", "downgrades")
    columns = (
        "core",
        "loads",
        "stores",
        "upgrades",
        "invalidated",
        "true",
        "false",
        "received",
        "supplied",
        "downgraded",
    )
    timed = any(core.time is not None for core in simulation.cores)
    rows = []
    for number, core in enumerate(simulation.cores):
        cells = [f"{getattr(core, field):,}" for field in fields]
        rows.append((str(number), *cells, *([f"{core.time or 0:,}"] if timed else [])))
    return Table("Cores", (*columns, *(["time"] if timed else [])), tuple(rows))


def _levels(simulation: CoreSimulation) -> Table:
    every = [(f"core {n}", level) for n, core in enumerate(simulation.cores) for level in core.levels]
    every += [("shared", simulation.shared)] if simulation.shared else []
    rows = [
        (
            whose,
            level.name,
            f"{level.hits:,}",
            f"{level.misses:,}",
            UNKNOWN if level.hit_rate is None else units.percent(level.hit_rate, 2),
            f"{level.evictions:,}",
            units.si(level.read_bytes, "B"),
            units.si(level.write_bytes, "B"),
        )
        for whose, level in every
    ]
    columns = ("whose", "level", "hits", "misses", "hit rate", "evictions", "read", "written")
    return Table("Caches", columns, tuple(rows), words=2)


_COUNTS = ("invalidations", "true_sharing", "false_sharing", "unreturned", "transfers", "upgrades")
_NAMES = ("invalidated", "true", "false", "not reused", "transfers", "upgrades")


def _sharing(title: str, every: list[Sharing]) -> Table:
    rows = [(each.name, *(f"{getattr(each, field):,}" for field in _COUNTS)) for each in every[:ROWS]]
    return Table(title, ("array", *_NAMES), tuple(rows), note=_rest(len(every), "arrays"))


def _lines(simulation: CoreSimulation) -> Table:
    rows = tuple(
        (_some(each.used, "; ", "more cores"), *(f"{getattr(each, field):,}" for field in _COUNTS))
        for each in simulation.lines[:ROWS]
    )
    return Table("Lines that cores share", ("used", *_NAMES), rows, note=_rest(len(simulation.lines), "lines"))


def _races(races: tuple[Race, ...]) -> Table:
    rows = tuple(
        (
            f"{race.array}[{race.index}]",
            f"core {race.earlier} {_verbs(race)[0]}, core {race.later} {_verbs(race)[1]}",
            "the end" if race.reader is None else f"core {race.reader}",
            race.seen or UNKNOWN,
            _some(race.could_see, ", ", "more") if race.could_see else UNKNOWN,
        )
        for race in races[:ROWS]
    )
    columns = ("item", "unordered", "who reads", "saw", "could see")
    return Table("Data races", columns, rows, words=5, note=_rest(len(races), "races"))


def _some(texts: tuple[str, ...], between: str, what: str) -> str:
    """The first few of many, and how many more there are."""
    shown = texts if len(texts) <= NAMED + 1 else (*texts[:NAMED], f"{len(texts) - NAMED:,} {what}")
    return between.join(shown)


def _verbs(race: Race) -> tuple[str, str]:
    first, second = ({"write": "stores", "read": "loads"}[word] for word in race.kind.split("-"))
    return first, second


def _rest(count: int, what: str) -> str:
    return f"and {count - ROWS:,} more {what}" if count > ROWS else ""
