"""rocprofv3's counter_collection.csv: a counter of a dispatch a line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from rooflab.errors import FileError
from rooflab.observe.importers.counters import amd_counters
from rooflab.observe.reading.opened import content
from rooflab.observe.reading.tables import plain_text, tables
from rooflab.observe.reading.text_columns import TextColumns
from rooflab.types.counted import Counters
from rooflab.types.trace import Device, Dropped

SOURCE = "rocprofv3 counters"

_NEEDED = ("dispatch_id", "kernel_name", "counter_name", "counter_value")
_UNIT_S = 1e-9


class Dispatch(NamedTuple):
    """A launch of a kernel: sizes in threads, times in nanoseconds; negative for what is not known."""

    number: str
    agent: str
    process: str
    name: str
    threads: int
    group: int
    start: int
    end: int


def sniff(head: bytes) -> bool:
    """Whether `head`, the first of a file, has the header of such a table."""
    lines = plain_text(head).splitlines()[:200]
    return any(_is_header(line.replace('"', "").split(",")) for line in lines)


def load(path: Path) -> Counters:
    """The dispatches in the file at `path`, each with its counters.

    Raises:
        FileError: no such table, or no counter in it that can be used.
    """
    found = list(tables(plain_text(content(path)), _is_header))
    if not found:
        raise FileError(f"{path}: no table of counters of rocprofv3, expected its counter_collection.csv")
    dispatches: dict[Dispatch, dict[str, float]] = {}
    dropped = Losses()
    for table in found:
        dropped.lines += table.dropped
        _take(TextColumns(table, lambda name: name.strip().lower()), dispatches, dropped)
    if not dispatches:
        raise FileError(f"{path}: no line of rocprofv3's table has a counter that can be used")
    return counters(SOURCE, dispatches, dropped)


def _is_header(cells: Sequence[str]) -> bool:
    names = [cell.strip().lower() for cell in cells]
    return all(name in names for name in _NEEDED)


class Losses:
    """What could not be used."""

    def __init__(self) -> None:
        self.lines = self.again = 0
        self.more: list[Dropped] = []

    def dropped(self) -> tuple[Dropped, ...]:
        """Each loss with its reason."""
        found = (
            (self.lines, "lines that are no counter of a dispatch"),
            (self.again, "counters that were given again, with another value, for the same dispatch"),
        )
        return (*(Dropped(count, why) for count, why in found if count), *self.more)


def _take(columns: TextColumns, dispatches: dict[Dispatch, dict[str, float]], dropped: Losses) -> None:
    several = zip(
        columns.texts("dispatch_id"),
        columns.texts("agent_id"),
        columns.texts("process_id"),
        columns.texts("kernel_name"),
        columns.wholes("grid_size").tolist(),
        columns.wholes("workgroup_size").tolist(),
        columns.wholes("start_timestamp").tolist(),
        columns.wholes("end_timestamp").tolist(),
        strict=True,
    )
    names, values = columns.texts("counter_name"), columns.numbers("counter_value").tolist()
    for one, name, value in zip(several, names, values, strict=True):
        dispatch = Dispatch(*one)
        if not (name and dispatch.name and dispatch.number.isdecimal() and value >= 0):
            dropped.lines += 1
            continue
        known = dispatches.setdefault(dispatch, {})
        if known.setdefault(name, value) != value:
            dropped.again += 1


def counters(
    source: str, dispatches: dict[Dispatch, dict[str, float]], dropped: Losses, known: Sequence[Device] = ()
) -> Counters:
    """The dispatches as rows, in the order in which they were launched; `known` describes devices."""
    rows = tuple(
        amd_counters.counted(
            one.name,
            values,
            (one.end - one.start) * _UNIT_S if 0 <= one.start < one.end else None,
            amd_counters.groups((one.threads,), (one.group,)),
            (one.group,) if one.group > 0 else None,
        )
        for one, values in dispatches.items()
    )
    notes = list(amd_counters.notes(rows))
    if all(row.time_s is None for row in rows):
        notes.append("when the kernels ran was not recorded: rates are not known")
    agents = sorted({one.agent for one in dispatches if one.agent})
    if len(agents) > 1:
        notes.append(f"kernels of {len(agents)} devices are in it: {', '.join(agents[:8])}")
    return Counters(
        source=source, rows=rows, device=_device(agents, known), dropped=dropped.dropped(), notes=tuple(notes)
    )


def _device(agents: Sequence[str], known: Sequence[Device]) -> Device | None:
    """The first device, by the number in "Agent 4"; None where there are several that differ."""
    numbers = [int(text) for one in agents if (text := one.rpartition(" ")[2]).isdecimal() and len(text) < 10]
    told = [one for one in known if one.number in numbers]
    if told and len({one.name for one in told}) == 1:
        return told[0]
    return Device(number=numbers[0], warp_size=64) if len(numbers) == 1 == len(agents) else None
