"""What is shown of a profile beside the program that ran: how much fits, its modules, what fits nowhere."""

from __future__ import annotations

from collections import defaultdict

from rooflab import units
from rooflab.types.profile import Profile, ProfileRow
from rooflab.views.common.table import UNKNOWN, Table, lasting

_DEPTH = 2  # parts of a module's path that are told apart
_SHOWN = 30
_COUNTED = 0.95  # above that the operations say more than their kinds


def sentences(profile: Profile) -> list[str]:
    """How much of the profile was found in the program."""
    one = profile.matching
    if one is None:
        return []
    runs = f"{one.runs} {'run' if one.runs == 1 else 'runs'}"
    if one.partial_runs:
        runs += f" and {one.partial_runs} cut off"
    lines = [
        f"Beside {one.program} ({runs}): {one.kernels_found:,} of {one.kernels:,} kernels belong to"
        f" {one.ops_found:,} of its {one.ops:,} operations."
    ]
    if one.predicted_s is not None:
        lines.append(f"One run is predicted to take {units.duration(one.predicted_s)} (mode {one.mode}).")
    return lines


def tables(profile: Profile) -> list[Table]:
    """The modules of the program, and what belongs to no operation or has no kernel."""
    return [] if profile.matching is None else [_modules(profile), _unmatched(profile)]


def _modules(profile: Profile) -> Table:
    groups: dict[str, list[ProfileRow]] = defaultdict(list)
    for row in profile.rows:
        if not (row.unmatched and row.prediction is None):
            groups[_part(row)].append(row)
    total = profile.time_s
    lines = []
    most = sorted(groups.items(), key=lambda item: -sum(row.time_s for row in item[1]))
    for name, rows in most[:_SHOWN]:
        measured = sum(row.time_s for row in rows)
        known = [row.expected_s for row in rows]
        expected = None if None in known else sum(one for one in known if one is not None)
        share = units.percent(measured / total, 1) if total else UNKNOWN
        lines.append((name, f"{len(rows):,}", units.duration(measured), share, lasting(expected)))
    note = f"{len(most) - _SHOWN} more modules: the files have all." if len(most) > _SHOWN else ""
    columns = ("module", "operations", "measured", "of time", "predicted")
    return Table("Modules by measured time", columns, tuple(lines), note=note)


def _part(row: ProfileRow) -> str:
    name = ".".join(row.module.split(".")[:_DEPTH]) or "(top)"
    return name if row.phase == "forward" else f"{name} ({row.phase})"


def _unmatched(profile: Profile) -> Table:
    groups: dict[tuple[str, str], list[ProfileRow]] = defaultdict(list)
    for row in profile.rows:
        if row.unmatched:
            groups[row.name, row.unmatched].append(row)
    most = sorted(groups.items(), key=lambda item: -sum(row.time_s for row in item[1]))
    lines = [
        (
            _short(name),
            why,
            f"{sum(row.executions for row in rows):,}",
            units.duration(sum(row.time_s for row in rows)),
        )
        for (name, why), rows in most[:_SHOWN]
    ]
    note = f"{len(most) - _SHOWN} more: the files have all." if len(most) > _SHOWN else ""
    columns = ("operation or kernel", "why", "times", "measured")
    return Table("Not matched", columns, tuple(lines), words=2, note=note)


def kinds(profile: Profile) -> Table:
    """Time by kind of operation, where much of it could not be counted: what a kernel's name says is certain."""
    columns = ("kind", "measured", "of time", "of it counted")
    if profile.coverage is None or profile.coverage > _COUNTED or not any(row.kind for row in profile.rows):
        return Table("Time by kind", columns, ())
    groups: dict[str, list[ProfileRow]] = defaultdict(list)
    for row in profile.rows:
        groups[row.kind or "unknown"].append(row)
    lines = []
    for kind, rows in sorted(groups.items(), key=lambda item: -sum(row.time_s for row in item[1])):
        measured = sum(row.time_s for row in rows)
        counted = sum(row.time_s for row in rows if row.flop is not None and row.nbytes is not None)
        share = units.percent(counted / measured) if measured else UNKNOWN
        lines.append((kind, units.duration(measured), units.percent(measured / profile.time_s, 1), share))
    return Table("Time by kind", columns, tuple(lines))


def _short(text: str, length: int = 60) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"
