"""likwid-perfctr's output, framed or -O: FLOP and bytes from raw counts, held against the printed metrics."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from rooflab.errors import FileError
from rooflab.observe.importers.counters import likwid_tables, ncu_metrics
from rooflab.observe.importers.counters.cpu_events import Counts, Event, clean_count, counts, cpu_name, squashed
from rooflab.observe.importers.counters.likwid_tables import Counter, Measured
from rooflab.observe.reading.opened import content
from rooflab.observe.reading.tables import plain_text
from rooflab.types.counted import Counted, Counters
from rooflab.types.trace import Device, Dropped
from rooflab.units import percent

SOURCE = "likwid-perfctr"

_RUNTIME = "RDTSC Runtime [s]"
_WHOLE_RUNTIME = "Runtime (RDTSC) [s]"
_CALLS = "call count"
_HEAD_BYTES = 60_000
_TOLERANCE = 0.01  # of printed metrics, which are rounded
_COARSE = 0.005  # of a run time, half its last digit
_HALF_DIGIT_S = 0.5e-6  # of a region's time
_EXPONENT_S = 0.5e-4  # below it metrics are printed with an exponent and seven digits
_OF_A_THREAD = re.compile("PMC|FIXC")  # each thread has its own; of a socket's counters one thread has all
_MOST_NAMES = 4  # of rows in a note

Notes = list[tuple[str, str]]  # of which row ("" for the file), and what

# Units of printed metrics: the base unit, its factor, and how the columns of threads go together.
_UNITS = {
    "MHz": ("Hz", 1e6, "mean"),
    "s": ("s", 1.0, "most"),
    "MFLOP/s": ("FLOP/s", 1e6, "sum"),
    "MBytes/s": ("B/s", 1e6, "sum"),
    "GBytes": ("B", 1e9, "sum"),
    "MUOPS/s": ("UOPS/s", 1e6, "sum"),
    "J": ("J", 1.0, "sum"),
    "W": ("W", 1.0, "sum"),
}
_DTYPES = {"SP": "fp32", "DP": "fp64", "HP": "fp16"}


class _Printed(NamedTuple):
    """A metric that raw counts give too: its label, and the level and way, or the format, that it is of."""

    pattern: re.Pattern[str]
    way: str


_PRINTED = (
    _Printed(re.compile(r"(?P<dtype>SP|DP|HP) \[MFLOP/s\]"), "flop"),
    _Printed(re.compile(r"(?P<level>Memory|HBM) (?:read|load) (?P<what>bandwidth|data volume) \[.*\]"), "read"),
    _Printed(
        re.compile(r"(?P<level>Memory|HBM) (?:write|evict|writeback) (?P<what>bandwidth|data volume) \[.*\]"),
        "write",
    ),
    _Printed(re.compile(r"(?P<level>Memory|HBM) (?P<what>bandwidth|data volume) \[.*\]"), "both"),
    _Printed(re.compile(r"(?P<level>L2)D? load (?P<what>bandwidth|data volume) \[.*\]"), "read"),
    _Printed(re.compile(r"(?P<level>L2)D? evict (?P<what>bandwidth|data volume) \[.*\]"), "write"),
    _Printed(re.compile(r"(?P<level>L3) load (?P<what>bandwidth|data volume) \[.*\]"), "read"),
)


def sniff(head: bytes) -> bool:
    """Whether `head`, the first of a file, is of likwid-perfctr: a table of it, or its banner and much output."""
    text = plain_text(head)
    if likwid_tables.is_table(text):
        return True
    banner = re.match(r"-{20,}\s*\nCPU name:\t.*\nCPU type:\t.*\nCPU clock:\t.*\n-{20,}", text.lstrip())
    return bool(banner) and len(head) > _HEAD_BYTES and "LIKWID MICRO BENCHMARK" not in text


def load(path: Path) -> Counters:
    """The counters in the file at `path`: a row for each region, or for each group of the whole run.

    Raises:
        FileError: no table of likwid-perfctr, or no counts in it.
    """
    tables = likwid_tables.read(plain_text(content(path)))
    cpu = " ".join(tables.cpu.get(key, "") for key in ("name", "type")).strip()
    notes: Notes = []
    rows = [row for groups in _by_region(tables.groups) for row in _rows(groups, cpu, notes)]
    if not rows:
        raise FileError(
            f"{path}: no counts of likwid-perfctr, expected a table Event, Counter, HWThread 0 (-O or not); "
            f"{len(tables.groups)} groups and {tables.dropped} unusable lines were found"
        )
    device = cpu_name(tables.cpu.get("name", ""))
    if any(row.device is not None for row in rows):
        notes.append(("", "rows of GPUs are held against no machine: the file does not name theirs"))
    return Counters(
        source=SOURCE,
        rows=tuple(rows),
        device=Device(number=0, name=device) if device else None,
        dropped=(Dropped(tables.dropped, "lines of tables without a number"),) if tables.dropped else (),
        notes=_together(notes, len(rows)),
    )


def _by_region(groups: Iterable[Measured]) -> Iterable[list[Measured]]:
    """Groups that were measured in different calls of one region together; those of a whole run each alone."""
    found: dict[tuple[object, ...], list[Measured]] = {}
    for number, one in enumerate(groups):
        if not one.counters:
            continue
        key = (one.region, one.on_gpu) if one.region is not None else (number,)
        found.setdefault(key, []).append(one)
    return found.values()


def _rows(groups: list[Measured], cpu: str, notes: Notes) -> Iterable[Counted]:
    if groups[0].region is not None and len({one.number for one in groups}) < len(groups):
        # A group stands there twice, in two runs of the program: they are not added.
        for one in groups:
            yield from _row([one], cpu, notes)
        return
    yield from _row(groups, cpu, notes)


def _row(groups: Sequence[Measured], cpu: str, notes: Notes) -> Iterable[Counted]:
    first = groups[0]
    name = first.region if first.region is not None else f"run, {first.group}"
    where = ", ".join(sorted({column for one in first.counters for column in one.values}))
    if first.on_gpu:
        name = f"{name}, {where}"
    calls, seconds = 0, 0.0
    timed = True
    for one in groups:
        own, time_s = _calls(one), _time_s(one)
        calls += own
        timed = timed and time_s is not None
        seconds += time_s or 0.0
        _warn_of_time(name, one, time_s, notes)
    if not calls:
        notes.append((name, "called 0 times, left out"))
        return
    if len(groups) > 1:
        which = ", ".join(one.group for one in groups)
        notes.append((name, f"{which} were counted in different calls; the row is the mean of a call"))
    events = list(_events_of_a_call(groups, name, notes))
    time_s = seconds / calls if timed and seconds else None
    if time_s is None:
        notes.append((name, "no run time in the file"))
    metrics = _metrics(groups)
    if first.on_gpu:
        counted = ncu_metrics.counted(name, _as_ncu(events, time_s), None, None)
        yield msgspec.structs.replace(counted, time_s=time_s, runs=calls, metrics=metrics, device=where)
        return
    said = counts(events, cpu)
    notes += [(name, note) for note in said.notes]
    for one in groups:
        notes += [(name, note) for note in _disagreements(one, cpu)]
    yield Counted(
        name=name,
        time_s=time_s,
        runs=calls,
        flop=said.flop,
        traffic=said.traffic,
        instructions=said.instructions,
        metrics=metrics,
    )


def _calls(one: Measured) -> int:
    """How often the region was entered: by the thread that entered it most; 1 for a whole run."""
    if one.region is None or _CALLS not in one.about:
        return 1
    return int(max((value for value in one.about[_CALLS].values() if value and value > 0), default=0))


def _times(one: Measured) -> dict[str, float | None]:
    """Seconds by column, the best that the file has."""
    printed = one.metrics.get(_WHOLE_RUNTIME, {})
    for label in (_RUNTIME, _WHOLE_RUNTIME):
        if label in one.about:
            return {column: _finer(value, printed.get(column)) for column, value in one.about[label].items()}
    return printed


def _finer(seconds: float | None, printed: float | None) -> float | None:
    """A region's time, which has six decimals; that of its metrics where it is so short that they have more."""
    if seconds is None or not printed or printed >= _EXPONENT_S or abs(seconds - printed) > _HALF_DIGIT_S:
        return seconds
    return printed


def _time_s(one: Measured) -> float | None:
    """Of the slowest thread."""
    return max((value for value in _times(one).values() if value and value > 0), default=None)


def _warn_of_time(name: str, one: Measured, time_s: float | None, notes: Notes) -> None:
    if not time_s:
        return
    if _RUNTIME in one.about:
        half = _HALF_DIGIT_S if time_s >= _EXPONENT_S else 0.0
    elif _WHOLE_RUNTIME in one.about or one.decimals is None:
        return
    else:
        half = 0.5 * 10.0**-one.decimals
    if half / time_s > _COARSE:
        known = percent(half / time_s)
        notes.append((name, f"its run time is printed as {time_s:g} s: rates are known within {known} only"))


def _together(notes: Iterable[tuple[str, str]], rows: int) -> tuple[str, ...]:
    """What is to be said, once, before it of which rows where it is not of all."""
    names: dict[str, dict[str, None]] = {}
    for name, text in notes:
        names.setdefault(text, {}).setdefault(name)
    said: list[str] = []
    for text, several in names.items():
        if "" in several or len(several) >= rows > 1:
            said.append(text)
        elif len(several) > _MOST_NAMES:
            said.append(f"{len(several)} of {rows} rows: {text}")
        else:
            said.append(f"{', '.join(several)}: {text}")
    return tuple(said)


def _total(counter: Counter) -> float | None:
    """Of all threads; None where none counted it."""
    known = [value for value in map(clean_count, counter.values.values()) if value is not None]
    return sum(known) if known else None


def _events_of_a_call(groups: Sequence[Measured], name: str, notes: Notes) -> Iterable[Event]:
    """Each event once, all counters and threads added, as the mean of a call of the groups that counted it."""
    totals: dict[tuple[str, bool], tuple[str, str, float, int]] = {}
    for one in groups:
        own: dict[tuple[str, bool], tuple[str, str, float]] = {}
        for counter in one.counters:
            total = _total(counter)
            if total is None:
                notes.append(
                    (name, f"{counter.event} on {counter.counter} was not counted, its total leaves it out")
                )
                continue
            if any(value is not None and clean_count(value) is None for value in counter.values.values()):
                notes.append((name, f"{counter.event} ran backwards on some threads, which are left out"))
            if _OF_A_THREAD.match(counter.counter) and None in counter.values.values():
                text = f"{counter.event} was not counted on some threads, its total leaves them out"
                notes.append((name, text))
            key = squashed(counter.event), counter.counter.upper().startswith("HBM")
            label, place, before = own.get(key, (counter.event, counter.counter, 0.0))
            own[key] = label, place, before + total
        for key, (label, place, total) in own.items():
            _, _, before, calls = totals.get(key, (label, place, 0.0, 0))
            totals[key] = label, place, before + total, calls + _calls(one)
    for label, place, total, calls in totals.values():
        if calls:
            yield Event(label, total / calls, place)


def _as_ncu(events: Iterable[Event], time_s: float | None) -> dict[str, float]:
    """Counts of a GPU by Nsight Compute's names: SMSP_SASS_…_SUM is smsp__sass_….sum."""
    found = {} if time_s is None else {"gpu__time_duration.sum": time_s}
    for event in events:
        name = event.name.lower()
        name = name if "__" in name else name.replace("_", "__", 1)
        found[re.sub(r"_(sum|avg|max|min)$", r".\1", name)] = event.value
    return found


def _metrics(groups: Iterable[Measured]) -> dict[str, float]:
    """Raw counts and printed metrics as they were read, of all calls and threads, in base units."""
    found: dict[str, float] = {}
    for one in groups:
        own: dict[str, float] = {}
        for counter in one.counters:
            total = _total(counter)
            if total is not None:
                own[counter.event] = own.get(counter.event, 0.0) + total
        for label, values in {**one.about, **one.metrics}.items():
            known = [value for value in values.values() if value is not None]
            if known:
                unit = re.search(r"\[([^]]*)\]", label)
                written = unit.group(1) if unit else ""
                base, factor, how = _UNITS.get(written, (written, 1.0, "mean"))
                together = {"sum": sum(known), "most": max(known), "mean": sum(known) / len(known)}[how]
                own[label.replace(f"[{written}]", f"[{base}]")] = factor * together
        for label, value in own.items():
            found.setdefault(label, value)
    return found


def _disagreements(one: Measured, cpu: str) -> Iterable[str]:
    """Printed metrics that the raw counts contradict: the groups' formulas have been wrong."""
    times = _times(one)
    for label, values in one.metrics.items():
        for printed in _PRINTED:
            match = printed.pattern.fullmatch(label)
            if match is None:
                continue
            said, own = 0.0, 0.0
            compared = False
            for column, value in values.items():
                ours = _own(match, printed.way, _of_column(one, column, cpu), times.get(column))
                if value is not None and ours is not None:
                    said, own, compared = said + value, own + ours, True
            if compared and abs(said - own) > _TOLERANCE * max(abs(said), abs(own)) + 1e-4 * len(values):
                yield (
                    f"likwid prints {label.partition(' [')[0]} {said:,.6g}, its raw counts give "
                    f"{own:,.6g} {label.partition('[')[2].rstrip(']')}: the raw counts are used"
                )
            break


def _of_column(one: Measured, column: str, cpu: str) -> Counts:
    events = [
        Event(counter.event, value, counter.counter)
        for counter in one.counters
        if (value := clean_count(counter.values.get(column))) is not None
    ]
    return counts(events, cpu)


def _own(match: re.Match[str], way: str, said: Counts, time_s: float | None) -> float | None:
    """What the raw counts of one thread make of a printed metric, in its unit."""
    if way == "flop":
        if said.flop is None or not time_s:
            return None
        dtype = _DTYPES[match.group("dtype")]
        fitting = [one.count for one in said.flop if one.dtype == dtype] or [one.count for one in said.flop]
        return sum(fitting) / time_s / 1e6
    level = {"Memory": "DRAM"}.get(match.group("level"), match.group("level"))
    traffic = next((one for one in said.traffic if one.level == level), None)
    if traffic is None or (way != "both" and not traffic.write_bytes and not traffic.read_bytes):
        return None
    nbytes = {"read": traffic.read_bytes, "write": traffic.write_bytes, "both": traffic.nbytes}[way]
    if match.group("what") == "data volume":
        return nbytes / 1e9
    return nbytes / time_s / 1e6 if time_s else None
