"""Operations that are equal, in modules that are alike: one line for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from rooflab.types.groups import Group, grouped
from rooflab.types.report import Report, Row


class Line(NamedTuple):
    """Equal operations in alike modules, as one line of the table of operations.

    Attributes:
        times: how often they run, all together.
        row: the first of them, with the verdict of those that take most of the time.
        rows: their numbers among the report's rows.
        measured_s: of all of them; None where one was not measured.
    """

    name: str
    module: str
    times: int
    flop: float | None
    nbytes: float | None
    time_s: float | None
    row: Row
    rows: tuple[int, ...] = ()
    measured_s: float | None = None


def lines_of(report: Report) -> tuple[Line, ...]:
    """Equal operations in alike modules as one line each, in the order of the first; views are left out."""
    alike: dict[object, list[tuple[int, Row]]] = {}
    for number, row in enumerate(merge_alike(report.rows)):
        if row.op.kind != "view":
            key = (row.op.name, row.op.module, row.op.phase, id(row.cost), row.op.count)
            alike.setdefault(key, []).append((number, row))
    lines = []
    for members in alike.values():
        numbers, rows = zip(*members, strict=True)
        first, times = _standing_for(rows), len(rows) * rows[0].op.count
        flop = None if first.flop is None else first.flop * len(rows)
        nbytes = None if first.nbytes is None else first.nbytes * len(rows)
        predicted = [row.prediction.time_s for row in rows if row.prediction is not None]
        time_s = sum(predicted) if len(predicted) == len(rows) else None
        seen = [row.observation.time_s for row in rows if row.observation is not None]
        measured_s = sum(seen) if len(seen) == len(rows) else None
        lines.append(Line(first.op.name, first.op.module, times, flop, nbytes, time_s, first, numbers, measured_s))
    return tuple(lines)


def _standing_for(rows: Sequence[Row]) -> Row:
    """The first of equal rows that are bound as those are that take most of their time together."""
    seconds: dict[tuple[str | None, str | None], float] = {}
    for row in rows:
        verdict = row.bound, row.binds
        seconds[verdict] = seconds.get(verdict, 0.0) + (row.prediction.time_s if row.prediction else 0.0)
    most = max(seconds, key=seconds.__getitem__)
    return next(row for row in rows if (row.bound, row.binds) == most)


def merge_alike(rows: Sequence[Row]) -> tuple[Row, ...]:
    """`rows` with numbered neighbours that ask for the same ("blocks.0" to "blocks.11") as "blocks.0–11"."""
    renamed = _alike(grouped(rows, "module"))
    if not renamed:
        return tuple(rows)
    replace = msgspec.structs.replace
    merged: dict[str, str] = {}
    rows_merged = []
    for row in rows:
        path = row.op.module
        if path not in merged:
            parts = path.split(".") if path else []
            prefixes = (".".join(parts[: i + 1]) for i in range(len(parts)))
            merged[path] = ".".join(renamed.get(p, part) for p, part in zip(prefixes, parts, strict=True))
        rows_merged.append(replace(row, op=replace(row.op, module=merged[path])) if merged[path] != path else row)
    return tuple(rows_merged)


def _alike(groups: Sequence[Group]) -> dict[str, str]:
    """For each module path in a run of alike numbered neighbours: its new last part."""
    siblings: dict[str, list[Group]] = {}
    for group in groups:
        parent, _, last = group.name.rpartition(".")
        if last.isdigit():
            siblings.setdefault(parent, []).append(group)
    names: dict[str, str] = {}
    for members in siblings.values():
        runs: list[list[Group]] = []
        for group in members:
            if runs and _numbers(group) == _numbers(runs[-1][0]):
                runs[-1].append(group)
            else:
                runs.append([group])
        for run in runs:
            if len(run) > 1:
                ends = f"{run[0].name.rpartition('.')[2]}–{run[-1].name.rpartition('.')[2]}"
                names |= {each.name: ends for each in run}
    return names


def _numbers(group: Group) -> tuple[float, ...]:
    return group.ops, group.counted, group.flop, group.read_bytes, group.write_bytes
