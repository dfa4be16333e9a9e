"""What is shown of several profiles: a line for each file, and their operations side by side."""

from __future__ import annotations

from collections import defaultdict

from rooflab import units
from rooflab.types.kernel_names import short_name
from rooflab.types.profile import Profile
from rooflab.types.profiles import Profiles
from rooflab.views.common.lines import Lines
from rooflab.views.common.sheet import Sheet
from rooflab.views.common.table import UNKNOWN, Table
from rooflab.views.profile import rows
from rooflab.views.profiles import ranks

_SIDE_BY_SIDE = 6  # files whose operations fit beside each other
_SHOWN = 30  # operations; the files hold all


def sheet_of(profiles: Profiles) -> Sheet:
    """What is shown of `profiles`."""
    found = profiles.profiles
    doubts = [
        (one.name, f"{each.rule}: {each.says}") for one in found for each in one.findings if each.kind == "doubt"
    ]
    dropped = [(one.name, f"{each.count} events left out: {each.why}") for one in found for each in one.dropped]
    return Sheet(
        profiles.name,
        "several profiles",
        sentences=(
            *(() if profiles.ranks is None else ranks.sentences(profiles.ranks)),
            *(
                f"A machine: {one.name}; `rooflab load` of its file alone shows its roofs."
                for one in profiles.machines
            ),
        ),
        tables=tuple(table for table in _tables(profiles) if table.rows),
        warnings=(
            *(() if profiles.ranks is None else profiles.ranks.warnings),
            *(f"not read: {sentence}" for sentence in profiles.failed),
            *_once([(one.name, each) for one in found for each in one.warnings] + doubts + dropped, len(found)),
        ),
        notes=(
            *(() if profiles.ranks is None else profiles.ranks.notes),
            *_once([(one.name, each) for one in found for each in one.notes], len(found)),
            *profiles.notes,
        ),
    )


def _tables(profiles: Profiles) -> list[Table]:
    first = [] if profiles.ranks is None else [ranks.table(profiles.ranks)]
    return [*first, _overview(profiles.profiles), _operations(profiles.profiles)]


def _once(told: list[tuple[str, str]], files: int) -> list[str]:
    """Each sentence once, after the names of those that it is said of; without names where it is said of all."""
    names: dict[str, list[str]] = defaultdict(list)
    for name, sentence in told:
        names[sentence].append(name)
    return [
        sentence if len(several) == files else f"{', '.join(several)}: {sentence}"
        for sentence, several in names.items()
    ]


def _overview(profiles: tuple[Profile, ...]) -> Table:
    lines = []
    for one in profiles:
        devices = one.timeline.devices
        span_s = sum(device.span_s for device in devices)
        busy_s = sum(device.busy_s for device in devices)
        lines.append(
            (
                one.name,
                one.source,
                one.machine.name if one.machine else (one.device.name if one.device else None) or UNKNOWN,
                units.duration(one.time_s),
                units.percent(busy_s / span_s, 1) if span_s else UNKNOWN,
                UNKNOWN if one.coverage is None else units.percent(one.coverage, 1),
                f"{one.bound}, {one.binds}" if one.bound else UNKNOWN,
            )
        )
    columns = ("file", "written by", "on", "measured", "busy", "counted", "limited by")
    note = "Measured: all operations together. Busy: of the time from the first activity of devices to the last."
    return Table("Files", columns, tuple(lines), words=3, note=note)


def _operations(profiles: tuple[Profile, ...]) -> Table:
    shown = profiles[:_SIDE_BY_SIDE]
    times: dict[tuple[str, str], list[float | None]] = defaultdict(lambda: [None] * len(shown))
    for number, one in enumerate(shown):
        for row in one.rows:
            line = times[row.name, row.shapes]
            line[number] = (line[number] or 0.0) + row.time_s
    most = sorted(times.items(), key=lambda item: -max(one or 0.0 for one in item[1]))
    lines = tuple(
        (short_name(name, 44), shapes, *(UNKNOWN if one is None else units.duration(one) for one in line))
        for (name, shapes), line in most[:_SHOWN]
    )
    notes = []
    if len(most) > _SHOWN:
        notes.append(f"{len(most) - _SHOWN} more operations: the files have all.")
    if len(profiles) > _SIDE_BY_SIDE:
        notes.append(f"Of the first {_SIDE_BY_SIDE} files.")
    columns = ("operation", "shapes", *(one.name for one in shown))
    return Table("Operations by measured time", columns, lines, words=2, note=" ".join(notes))


def lines(profiles: Profiles) -> Lines:
    """A line for each row of each profile, in base units, the file before it; an unknown is empty."""
    held = [(one.name, *rows.cells(row)) for one in profiles.profiles for row in one.rows]
    return Lines(("file", *rows.COLUMNS), held)
