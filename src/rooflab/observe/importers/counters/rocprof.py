"""Tables of rocprof (v1, v2) and rocprof-compute, a kernel a line: counters, times, or sums over launches."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rooflab.errors import FileError
from rooflab.observe.importers.counters import amd_counters
from rooflab.observe.reading.activities import Activities, numbered
from rooflab.observe.reading.opened import content
from rooflab.observe.reading.tables import Table, plain_text, tables
from rooflab.observe.reading.text_columns import TextColumns
from rooflab.types.counted import Counted, Counters
from rooflab.types.trace import Dropped, Kernels, Shape, Trace

SOURCE = "rocprof and rocprof-compute"

# Names of columns that tell of a launch, over the versions; all others are counters.
_NAMES = ("kernel_name", "kernelname", "name")
_STARTS = ("start_timestamp", "beginns")
_ENDS = ("end_timestamp", "endns", "stop_timestamp")
_WHERE = """
    index dispatch_id gpu_id gpu-id queue_id queue-id queue-index pid tid process_id thread_id grd wgr lds scr
    grid_size workgroup_size lds_per_workgroup scratch_per_workitem lds_block_size scratch_size vgpr arch_vgpr
    accum_vgpr sgpr fbar sig obj wave_size dispatchns completens durationns correlation_id kernel_id node
    vgpr_count sgpr_count accum_vgpr_count calls percentage
"""
_IDENTITY = {*_WHERE.split(), *_NAMES, *_STARTS, *_ENDS}
_REPEATED = re.compile(r"_\d+$")  # rocprof-compute joins passes: wave_size_1, obj_1
_STATS = ("name", "calls", "totaldurationns")
_SUMS = {
    "totaldurationns": "total_s",
    "averagens": "average_s",
    "minns": "min_s",
    "maxns": "max_s",
    "stddev": "stddev_s",
}
_UNIT_S = 1e-9


def sniff(head: bytes) -> bool:
    """Whether `head`, the first of a file, has the header of such a table."""
    lines = plain_text(head).splitlines()[:200]
    return any(_is_header([cell.strip().strip('"') for cell in line.split(",")]) for line in lines)


def load(path: Path) -> Counters | Trace:
    """The kernels of the table in the file at `path`: a trace where it has their times and no counters.

    Raises:
        FileError: no such table, or no kernel in it that can be used.
    """
    found = list(tables(plain_text(content(path)), _is_header))
    if not found:
        raise FileError(
            f"{path}: no table of rocprof, expected its results.csv or pmc_perf.csv of rocprof-compute"
        )
    table = max(found, key=lambda one: len(one.rows))
    columns = TextColumns(table, _column)
    dropped = sum(one.dropped for one in found) + sum(len(one.rows) for one in found if one is not table)
    if _has(columns, *_STATS):
        loaded = _sums(columns, dropped)
    elif not _counters(table):
        loaded = _trace(columns, dropped)
    else:
        loaded = _kernels(columns, _counters(table), dropped)
    if loaded is None:
        raise FileError(f"{path}: the table of rocprof has no kernel with a time or a counter that can be used")
    return loaded


def _column(name: str) -> str:
    """Names of what is not a counter are not told apart by case; counters are left as they are."""
    name = name.strip()
    return name.lower() if name.lower() in _IDENTITY or name.lower() in _SUMS else name


def _is_header(cells: list[str]) -> bool:
    names = [cell.strip().lower() for cell in cells]
    if tuple(names[:3]) == _STATS:
        return True
    launch = {"index", "dispatch_id", "gpu-id", "gpu_id"} & set(names)
    # rocprofv3 has a counter a line, and "Kind" in its traces.
    return (
        len(launch) > 1
        and any(name in names for name in _NAMES[:2])
        and not {"counter_name", "kind", "agent_id"} & set(names)
    )


def _counters(table: Table) -> list[str]:
    names = [name.strip() for name in table.header]
    return [one for one in names if one and _REPEATED.sub("", one.lower()) not in _IDENTITY]


def _has(columns: TextColumns, *names: str) -> bool:
    return all(name in columns for name in names)


def _first(columns: TextColumns, names: tuple[str, ...]) -> str:
    return next((name for name in names if name in columns), names[0])


def _times_s(columns: TextColumns) -> NDArray[np.float64]:
    """Duration of each launch in seconds; NaN where it is not known."""
    start, end = columns.wholes(_first(columns, _STARTS)), columns.wholes(_first(columns, _ENDS))
    known = (start >= 0) & (end > start)
    found = np.where(known, (end - start) * _UNIT_S, np.nan)
    if "durationns" in columns:
        told = columns.numbers("durationns") * _UNIT_S
        found = np.where(np.isnan(found) & (told > 0), told, found)
    return found


def _kernels(columns: TextColumns, names: list[str], dropped: int) -> Counters | None:
    times_s = _times_s(columns)
    values = {name: columns.numbers(name) for name in dict.fromkeys(names)}
    rows: list[Counted] = []
    unusable = negative = 0
    sizes = _sizes(columns)
    for place, name in enumerate(columns.texts(_first(columns, _NAMES))):
        counters = {each: float(column[place]) for each, column in values.items() if column[place] >= 0}
        negative += sum(1 for column in values.values() if column[place] < 0)
        time_s = None if np.isnan(times_s[place]) else float(times_s[place])
        if not name or (not counters and time_s is None):
            unusable += 1
            continue
        grid, block = sizes[place]
        rows.append(amd_counters.counted(name, counters, time_s, grid, block))
    if not rows:
        return None
    found = list(amd_counters.notes(rows))
    if all(row.time_s is None for row in rows):
        found.append("when the kernels ran was not recorded (rocprof --timestamp on): rates are not known")
    losses = [Dropped(dropped + unusable, "lines that are no kernel")] if dropped + unusable else []
    losses += [Dropped(negative, "counters below zero")] if negative else []
    return Counters(source=SOURCE, rows=tuple(rows), dropped=tuple(losses), notes=tuple(found))


def _sizes(columns: TextColumns) -> list[tuple[tuple[int, ...] | None, tuple[int, ...] | None]]:
    threads = columns.wholes(_first(columns, ("grid_size", "grd"))).tolist()
    groups = columns.wholes(_first(columns, ("workgroup_size", "wgr"))).tolist()
    return [
        (amd_counters.groups((size,), (group,)), (group,) if group > 0 else None)
        for size, group in zip(threads, groups, strict=True)
    ]


def _trace(columns: TextColumns, dropped: int) -> Trace | None:
    activities = Activities()
    names = columns.texts(_first(columns, _NAMES))
    shapes = [Shape(grid, block) for grid, block in _sizes(columns)]
    activities.add(
        Kernels,
        columns.wholes(_first(columns, _STARTS)),
        columns.wholes(_first(columns, _ENDS)),
        {
            "name": numbered(activities.names, names),
            "device": columns.wholes(_first(columns, ("gpu-id", "gpu_id"))),
            "stream": columns.wholes(_first(columns, ("queue-id", "queue_id"))),
            "shape": numbered(activities.shapes, shapes),
        },
    )
    if activities.empty:
        return None
    losses = (Dropped(dropped, "lines that are no kernel"),) if dropped else ()
    return activities.trace(
        SOURCE,
        dropped=losses,
        notes=("no calls of HIP were recorded: the causes of idle time are not known",),
    )


def _sums(columns: TextColumns, dropped: int) -> Counters | None:
    totals_s = columns.numbers("totaldurationns") * _UNIT_S
    counts = columns.wholes("calls")
    others = {name: columns.numbers(column) * _UNIT_S for column, name in _SUMS.items() if column in columns}
    rows = [
        Counted(
            name=name,
            time_s=float(totals_s[place]) / int(counts[place]),
            runs=int(counts[place]),
            metrics={each: float(column[place]) for each, column in others.items() if not np.isnan(column[place])},
        )
        for place, name in enumerate(columns.texts("name"))
        if name and totals_s[place] >= 0 and counts[place] >= 1
    ]
    unusable = dropped + len(columns) - len(rows)
    if not rows:
        return None
    return Counters(
        source=SOURCE,
        rows=tuple(rows),
        dropped=(Dropped(unusable, "lines that are no sum over calls"),) if unusable else (),
        notes=("sums over all calls of a kernel or function: when each ran is not recorded",),
    )
