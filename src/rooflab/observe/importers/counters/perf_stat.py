"""`perf stat`: plain, -x or -j, intervals, repeats, cores: FLOP and bytes from its counts, and their doubts."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from rooflab.errors import FileError
from rooflab.observe.importers.counters import perf_lines
from rooflab.observe.importers.counters.cpu_event_rows import BYTE_EVENTS
from rooflab.observe.importers.counters.cpu_events import Event, clean_count, counts, squashed
from rooflab.observe.importers.counters.perf_lines import Reading, Run, events_of
from rooflab.observe.reading.numerals import numeral
from rooflab.observe.reading.opened import content
from rooflab.observe.reading.tables import plain_text
from rooflab.types.counted import Counted, Counters
from rooflab.types.trace import Device, Dropped
from rooflab.units import percent

SOURCE = "perf stat"

_WHOLE = 0.999  # of the time, below which a count is extrapolated
_ROUNDED = 0.01  # of a time that is computed from a printed metric: not used where its digits are fewer
_HYBRID = re.compile(r"(cpu_(?:core|atom|lowpower))/(.*)/\w*")
_FACTORS = {"msec": 1e-3, "ms": 1e-3, "ns": 1e-9, "MiB": 2.0**20, "KiB": 2.0**10, "GiB": 2.0**30, "MB": 1e6}
_RATE = re.compile(r"(GB/s|MB/s|MiB/s|GiB/s)\s+(.+)")
_RATES = {"GB/s": 1e9, "MB/s": 1e6, "MiB/s": 2.0**20, "GiB/s": 2.0**30}
_RATIOS = re.compile(r"[KMG]?/sec|GHz|%?\s*of all")  # what the counts say themselves
_SHARE = re.compile(r"%\s+(.+)")  # "%  tma_backend_bound"
_DIFFERS = 0.05
_BYTES = {row.event: row for row in BYTE_EVENTS}
# Units of a socket that perf lists one by one under one name where it does not merge them.
_OUTSIDE_CORES = re.compile(
    r"unc_|uncore|cas_c|umc|imc|dram|data_(?:read|write)|mc_cas|power/|_cmn|l3", re.IGNORECASE
)
_WHOLE_SYSTEM = re.compile(r"system wide|CPU\(s\) ")
_MOST_NAMES = 6  # of events in a note


def sniff(head: bytes) -> bool:
    """Whether `head`, the first of a file, is of `perf stat`."""
    return perf_lines.is_perf_stat(plain_text(head))


def load(path: Path) -> Counters:
    """The counters in the file at `path`: a row for each command, the mean of its repeats or intervals.

    Raises:
        FileError: no reading of `perf stat`, or none that was counted.
    """
    found = perf_lines.read(plain_text(content(path)))
    if not found.runs:
        raise FileError(
            f"{path}: no reading of perf stat, expected the output of perf stat, with -x, with -j or plain; what "
            "--metric-only and --topdown print has no counts: leave these out"
        )
    states = [one.state for run in found.runs for one in events_of(run)]
    if all(states):
        raise FileError(
            f"{path}: perf stat counted none of its {len(states)} events ({states[0] if states else 'none'}): the "
            "counters are not there (virtual machines, containers) or not permitted (kernel.perf_event_paranoid)"
        )
    notes: list[str] = []
    rows = [_row(run, notes) for run in found.runs if any(one.value is not None for one in events_of(run))]
    timeless = [row.name for row in rows if row.time_s is None]
    if timeless:
        notes.append(
            f"no time, and so no place in a profile: {_some(timeless)}; record it with -e duration_time, or with "
            "perf stat's plain output"
        )
    return Counters(
        source=SOURCE,
        rows=tuple(rows),
        device=Device(number=0),
        dropped=(Dropped(found.dropped, "lines that are no reading of an event"),) if found.dropped else (),
        notes=tuple(dict.fromkeys(notes)),
    )


class _Total(NamedTuple):
    """An event, its scopes and intervals added, in perf's unit; the smallest share of time that it was counted."""

    event: str
    value: float
    unit: str
    running: float


def counted(readings: Iterable[Reading], name: str, time_s: float, cpu: str) -> Counters:
    """What `readings` of perf say of one execution of `name` that took `time_s`, on the CPU called `cpu`."""
    run = Run(name)
    run.readings = list(readings)
    run.clocks = {"time elapsed": time_s}
    notes: list[str] = []
    row = _row(run, notes, cpu)
    return Counters(
        source=SOURCE, rows=(row,), device=Device(number=0, name=cpu), notes=tuple(dict.fromkeys(notes))
    )


def _row(run: Run, notes: list[str], cpu: str = "") -> Counted:
    name = run.name or "run"
    ends = sorted({one.end_s for one in events_of(run) if one.end_s is not None and one.end_s > 0})
    runs = max(len(ends) if ends else run.runs, 1)
    parts = len(ends) or 1  # that the totals are sums of; repeats are printed as their mean already
    totals = _totals(run, notes)
    events = [
        Event(one.event, one.value / parts, _pmu(one.event), _scaled(one.unit))
        for one in _without_hybrid(totals, _WHOLE_SYSTEM.match(run.name) is not None, notes)
    ]
    said = counts(events, cpu)
    time_s = _time_s(run, ends, totals, notes)
    if len(ends) > 1:
        notes.append(
            f"{name}: {len(ends)} intervals are one row, their mean: what happened in which of them is not shown"
        )
    scopes = {one.scope for one in events_of(run)} - {""}
    if len(scopes) > 1:
        notes.append(f"{name}: {len(scopes)} cores, sockets or threads are added up in one row")
    notes += said.notes
    notes += _doubts(run, totals)
    notes += _disagreements(run, time_s, parts)
    return Counted(
        name=name,
        time_s=time_s,
        runs=runs,
        flop=said.flop,
        traffic=said.traffic,
        instructions=said.instructions,
        metrics=_metrics(run, totals),
    )


def _once(readings: Iterable[Reading], notes: list[str]) -> Iterable[Reading]:
    """`readings`, those of one event of the cores, in one place and interval, made one: their mean.

    An event that several groups or metrics (-M) ask for is counted and printed for each of them.
    """
    same: dict[tuple[str, str, float | None], list[Reading]] = {}
    for one in readings:
        if _OUTSIDE_CORES.search(one.event):
            yield one
        else:
            same.setdefault((one.event, one.scope, one.end_s), []).append(one)
    several = dict.fromkeys(event for (event, _, _), all_of in same.items() if len(all_of) > 1)
    if several:
        notes.append(
            f"counted more than once, of several groups or metrics; the mean is taken: {_some(list(several))}"
        )
    for all_of in same.values():
        counted = [one.value for one in all_of if one.value is not None]
        if counted:
            running = min(one.running for one in all_of if one.value is not None)
            first = next(one for one in all_of if one.value is not None)
            yield first._replace(value=sum(counted) / len(counted), running=running)
        else:
            yield all_of[0]


def _totals(run: Run, notes: list[str]) -> list[_Total]:
    """Each event of `run`; times of the clock are the longest of the scopes, everything else their sum."""
    values: dict[str, float] = {}
    by_time: dict[tuple[str, float | None], float] = {}
    units: dict[str, str] = {}
    shares: dict[str, float] = {}
    for one in _once(events_of(run), notes):
        shares.setdefault(one.event, 1.0)
        if one.value is None:
            continue
        if one.event == "duration_time":
            key = one.event, one.end_s
            by_time[key] = max(by_time.get(key, 0.0), one.value)
            values[one.event] = sum(value for (event, _), value in by_time.items() if event == one.event)
        elif clean_count(one.value) is not None:
            values[one.event] = values.get(one.event, 0.0) + one.value
        units[one.event] = one.unit
        shares[one.event] = min(shares[one.event], one.running)
    return [_Total(event, value, units[event], shares[event]) for event, value in values.items()]


def _pmu(event: str) -> str:
    """The unit that counted it: "uncore_imc_0" of "uncore_imc_0/cas_count_read/"."""
    return event.partition("/")[0] if "/" in event else ""


def _scaled(unit: str) -> str:
    """The unit of bytes that perf scaled a count to; "" for one that it left alone."""
    return unit if unit in ("MiB", "KiB", "GiB", "MB", "Bytes", "64Bytes") else ""


def _without_hybrid(totals: list[_Total], everywhere: bool, notes: list[str]) -> Iterable[_Total]:
    """The counts, those of different kinds of core made one where that can be done without extrapolation.

    A thread that moves between kinds of core is counted by each for a part of the time, and perf extrapolates each
    part to the whole: what was counted is the value times its share, and the shares add up to one. Where perf
    counted whole CPUs (`everywhere`, -a or -C) each kind has its own CPUs and time: the counts add up as they are.
    """
    kinds: dict[str, list[_Total]] = {}
    for one in totals:
        match = _HYBRID.fullmatch(one.event)
        if match is None:
            yield one
        else:
            kinds.setdefault(match.group(2), []).append(one)
    for event, several in kinds.items():
        share = sum(one.running for one in several)
        if everywhere or len(several) == 1 or all(one.running >= _WHOLE for one in several):
            yield _Total(event, sum(one.value for one in several), several[0].unit, 1.0)
        elif 0.95 <= share <= 1.02:
            yield _Total(event, sum(one.value * one.running for one in several), several[0].unit, 1.0)
            notes.append(
                f"{event}: each kind of core counted a part of the time: added as counted, not extrapolated"
            )
        else:
            notes.append(
                f"{event}: the kinds of core counted {percent(share)} of the time together and took turns with "
                "other "
                "events: their extrapolated counts are not added"
            )


def _time_s(run: Run, ends: list[float], totals: list[_Total], notes: list[str]) -> float | None:
    """Seconds of one run or interval, by the best clock that the file has."""
    if "time elapsed" in run.clocks and not ends:
        return run.clocks["time elapsed"] or None
    by_name = {one.event: one for one in totals}
    duration = by_name.get("duration_time")
    if duration is not None and duration.value > 0:
        return duration.value * _FACTORS.get(duration.unit or "ns", 1e-9) / (len(ends) or 1)
    if ends:
        steps = [after - before for before, after in itertools.pairwise(ends)]
        step = sorted(steps)[len(steps) // 2] if steps else ends[0]
        begin = 0.0 if ends[0] <= 1.5 * step else ends[0] - step
        return (ends[-1] - begin) / len(ends) or None
    return _time_of_utilization(run, notes)


def _time_of_utilization(run: Run, notes: list[str]) -> float | None:
    """Elapsed time where perf prints only the CPU's time and how many CPUs that is."""
    best: float | None = None
    for one in events_of(run):
        if one.metric_unit != "CPUs utilized" or one.value is None or one.value <= 0:
            continue
        text = one.metric.replace(",", ".")
        used = numeral(text)
        if not used or used < 0:
            continue
        half_digit = 0.5 * 10.0 ** -len(text.partition(".")[2])
        if half_digit / used > _ROUNDED:
            continue
        seconds = one.value * _FACTORS.get(one.unit, 1e-9) / used
        best = seconds if best is None else max(best, seconds)
        notes.append(
            f"the elapsed time is {one.event} over the CPUs utilized, within "
            f"{percent(max(half_digit / used, 1e-3), 1)}; "
            "-e duration_time records it"
        )
    return best


def _doubts(run: Run, totals: list[_Total]) -> Iterable[str]:
    """Events that were not counted, or counted for a part of the time."""
    for state, what in (
        ("not supported", "this machine does not have them, or does not show them"),
        ("not counted", "the program did not run while they were on, or all counters were taken"),
    ):
        names = dict.fromkeys(one.event for one in events_of(run) if one.state == state)
        if names:
            yield f"<{state}>: {_some(list(names))}: {what}"
    whole_cpus = _WHOLE_SYSTEM.match(run.name) is not None
    parts = [one for one in totals if one.running < _WHOLE and (whole_cpus or not _HYBRID.fullmatch(one.event))]
    if parts:
        least = min(parts, key=lambda one: one.running)
        yield (
            f"extrapolated by perf, as events took turns on the counters: {_some([one.event for one in parts])}; "
            f"least {least.event}, counted {percent(least.running)} of the time"
        )


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(names[:_MOST_NAMES]) + more


def _disagreements(run: Run, time_s: float | None, parts: int) -> Iterable[str]:
    """Bandwidths that perf prints and its own counts contradict."""
    if time_s is None or parts > 1:
        return
    for one in events_of(run):
        rate = _RATE.fullmatch(one.metric_unit)
        if rate is None or one.value is None or one.unit or one.scope:
            continue
        row, printed = _BYTES.get(squashed(one.event)), numeral(one.metric.replace(",", "."))
        if row is None or row.each is None or not printed:
            continue
        own = one.value * row.each / time_s / _RATES[rate.group(1)]
        if abs(own - printed) > _DIFFERS * max(own, printed):
            yield (
                f"perf prints {rate.group(2)} {printed:.2f} {rate.group(1)}, its count of {one.event} gives "
                f"{own:.2f} {rate.group(1)}: the count is used"
            )


def _metrics(run: Run, totals: list[_Total]) -> dict[str, float]:
    """Every event and metric in base units, all intervals together; by scope too where there are several."""
    found = {one.event: one.value * _FACTORS.get(one.unit, 1.0) for one in totals}
    scopes = {one.scope for one in events_of(run)}
    for one in run.readings:
        if one.value is not None and len(scopes) > 1 and one.scope:
            key = f"{one.scope} {one.event}"
            found[key] = found.get(key, 0.0) + one.value * _FACTORS.get(one.unit, 1.0)
        value = numeral(one.metric.replace(",", "."))
        if value is None or not one.metric_unit or _RATIOS.match(one.metric_unit):
            continue
        share = _SHARE.fullmatch(one.metric_unit)
        rate = _RATE.fullmatch(one.metric_unit)
        if rate:
            found[f"{rate.group(2)} [B/s]"] = value * _RATES[rate.group(1)]
        elif share and not one.scope and one.end_s is None:
            found[share.group(1)] = value / 100
        elif not one.scope and one.end_s is None:
            found[one.metric_unit] = value
    for label, seconds in run.clocks.items():
        found[f"seconds {label}"] = seconds
    if found.get("cycles") and "instructions" in found:
        found["insn per cycle"] = found["instructions"] / found["cycles"]
    return found
