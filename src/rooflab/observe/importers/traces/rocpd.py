"""rocprofv3's databases (rocpd), what it writes where no format is asked for: traces, or counters."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from rooflab.errors import FileError
from rooflab.observe.importers.counters.rocprofv3_counters import Dispatch, Losses, counters
from rooflab.observe.importers.traces import rocm
from rooflab.observe.reading.activities import Activities, Columns, numbered, numbered_by
from rooflab.observe.reading.columns import number, whole
from rooflab.observe.reading.databases import Database
from rooflab.types.counted import Counters
from rooflab.types.trace import ANNOTATION, COPY, KERNEL, NONE, Calls, Device, Dropped, Kernels, Launches, Trace

SOURCE = "rocprofv3 database"

# Tables end in an underscore and the number of a run; files of several runs may be put into one.
_TABLE = re.compile(r"rocpd_kernel_dispatch(|_.+)")
_NEWER = "rocpd_timestamp"  # of schema 4, whose kernels have no times of their own
_SIZES = tuple(f"{what}_size_{axis}" for what in ("grid", "workgroup") for axis in "xyz")
_AGENT_NAMES = ("product_name", "model_name", "name")
_RUNS = 64  # that a file may hold
_WHERE = ("start", "end", "stream_id", "queue_id", "event_id", "pid")


def knows(file: Database) -> bool:
    """Whether the tables of `file` are rocpd's."""
    return any(name.startswith("rocpd_") for name in file.tables)


def read(file: Database, path: Path) -> Trace | Counters:
    """What `file` at `path` holds: counters where some were collected, else a trace.

    Raises:
        FileError: nothing in it that can be used.
    """
    suffixes = sorted(found.group(1) for name in file.tables if (found := _TABLE.fullmatch(name)))
    runs = [_Run(file, suffix, place) for place, suffix in enumerate(suffixes[:_RUNS])]
    dispatches: dict[Dispatch, dict[str, float]] = {}
    losses = Losses()
    for run in runs:
        run.count(dispatches, losses)
    devices = {device.number: device for run in runs for device in run.devices()}
    known = tuple(devices[at] for at in sorted(devices))
    if dispatches:
        losses.more += _damages(file)
        return counters(SOURCE, dispatches, losses, known)
    activities = Activities()
    for run in runs:
        run.trace(activities)
    if activities.empty:
        newer = any(name.startswith(_NEWER) for name in file.tables)
        what = "its schema is newer than 3: use --output-format json" if newer else "nothing was recorded"
        raise FileError(f"{path}: no kernel, copy, call or counter in this database of rocprofv3: {what}")
    return rocm.trace(SOURCE, activities, known, _damages(file))


def _damages(file: Database) -> list[Dropped]:
    lost = "what stands behind is lost"
    return [Dropped(1, f"{table} is damaged ({why}): {lost}") for table, why in file.damaged.items()]


class _Run:
    """The tables of one run; `place` tells it from others in the same file."""

    def __init__(self, file: Database, suffix: str, place: int) -> None:
        self._file, self._suffix, self._place = file, suffix, place
        columns = ("id", "type", "logical_index", "absolute_index", *_AGENT_NAMES, "extdata")
        self._agents = {whole(row.get("id")): row for row in file.rows(self._table("info_agent"), columns)}
        columns = (*_WHERE, "agent_id", "kernel_id", "dispatch_id", "group_segment_size", *_SIZES)
        part = file.wholes(self._table("kernel_dispatch"), columns)
        self._kernels = part if {"start", "end"} <= set(part) else {}
        self._names = self._texts("info_kernel_symbol", "kernel_name")
        self._names |= self._texts("info_kernel_symbol", "display_name")
        self._processes = self._map("info_process", "pid")

    def devices(self) -> list[Device]:
        """The GPUs that are described."""
        found = []
        for at, row in self._agents.items():
            if row.get("type") != "GPU" or at is None:
                continue
            name = next((row[one] for one in _AGENT_NAMES if isinstance(row.get(one), str) and row[one]), None)
            more = _object(row.get("extdata"))
            gfx = row.get("name")
            found.append(
                Device(
                    number=self._agent(at),
                    name=name if isinstance(name, str) else None,
                    compute_units=whole(more.get("cu_count")) or None,
                    capability=gfx if isinstance(gfx, str) and gfx.startswith("gfx") else None,
                    warp_size=whole(more.get("wave_front_size")) or None,
                )
            )
        return found

    def count(self, dispatches: dict[Dispatch, dict[str, float]], losses: Losses) -> None:
        """Add the counters that were collected; the instances of a unit are added."""
        names = self._texts("info_pmc", "symbol") | self._texts("info_pmc", "name")
        found: dict[int, dict[str, float]] = {}
        for piece in self._file.pieces(self._table("pmc_event"), ("event_id", "pmc_id", "value")):
            for event, pmc, value in zip(*piece, strict=True):
                amount, name = number(value), names.get(pmc) if isinstance(pmc, int) else None
                if amount is None or amount < 0 or name is None or not isinstance(event, int):
                    losses.lines += 1
                    continue
                of_event = found.setdefault(event, {})
                of_event[name] = of_event.get(name, 0.0) + amount
        if not found or "event_id" not in self._kernels:
            return
        columns = {name: column.tolist() for name, column in self._kernels.items()}
        for place, event in enumerate(columns["event_id"]):
            values = found.pop(event, None)
            name = self._names.get(columns["kernel_id"][place]) if "kernel_id" in columns else None
            if values is None or name is None:
                losses.lines += len(values or ())
                continue
            sizes = [columns[one][place] if one in columns else NONE for one in _SIZES]
            agent = self._agent(columns["agent_id"][place]) if "agent_id" in columns else NONE
            dispatch = Dispatch(
                str(columns["dispatch_id"][place] if "dispatch_id" in columns else place),
                "" if agent == NONE else f"Agent {agent}",
                f"{self._place}.{columns['pid'][place] if 'pid' in columns else ''}",
                name,
                _product(sizes[:3]),
                _product(sizes[3:]),
                columns["start"][place],
                columns["end"][place],
            )
            dispatches[dispatch] = values
        losses.lines += sum(len(values) for values in found.values())

    def trace(self, to: Activities) -> None:
        """Take the kernels, copies, calls and ranges."""
        events = self._file.wholes(self._table("event"), ("id", "stack_id", "category_id"))
        copies = self._file.wholes(
            self._table("memory_copy"), (*_WHERE, "name_id", "src_agent_id", "dst_agent_id", "size")
        )
        regions = self._file.wholes(self._table("region"), (*_WHERE, "name_id", "tid"))
        ids = [
            part[name] for part in (copies, regions, events) for name in ("name_id", "category_id") if name in part
        ]
        wanted = np.unique(np.concatenate([*ids, np.empty(0, np.int64)]))
        strings = self._file.texts(self._table("string"), "id", "string", wanted)
        self._take_kernels(events, to)
        if {"start", "end"} <= set(copies):
            self._take_copies(copies, events, strings, to)
        if {"start", "end"} <= set(regions):
            self._take_regions(regions, events, strings, to)

    def _take_kernels(self, events: Columns, to: Activities) -> None:
        part = self._kernels
        count = len(part["start"]) if part else 0
        if not count:
            return
        kernel = part.get("kernel_id", np.full(count, NONE, np.int64))
        columns = {
            "name": numbered_by(to.names, kernel, lambda one: self._names.get(one, "unnamed kernel")),
            "kind": np.full(count, KERNEL, np.int8),
            "device": self._devices_of(part.get("agent_id", np.full(count, NONE, np.int64))),
            "correlation": self._correlation(part, events),
        }
        columns |= _stream(part)
        if set(_SIZES) <= set(part):
            shared = part.get("group_segment_size", np.full(count, NONE, np.int64))
            sizes = zip(*(part[one].tolist() for one in _SIZES), shared.tolist(), strict=True)
            shapes = [rocm.shape(one[:3], one[3:6], shared_bytes=one[6]) for one in sizes]
            columns["shape"] = numbered(to.shapes, shapes)
        to.add(Kernels, part["start"], part["end"], columns)

    def _take_copies(self, part: Columns, events: Columns, strings: dict[int, str], to: Activities) -> None:
        count = len(part["start"])
        unknown = np.full(count, NONE, np.int64)
        names = [rocm.copy_name(strings.get(one, "")) for one in part.get("name_id", unknown).tolist()]
        ends = [part.get(name, unknown).tolist() for name in ("src_agent_id", "dst_agent_id")]
        devices = [rocm.copy_device(*one) for one in zip(names, *ends, strict=True)]
        size = part.get("size", unknown)
        columns = {
            "name": numbered(to.names, names),
            "kind": np.full(count, COPY, np.int8),
            "device": self._devices_of(rocm.whole_column(devices)),
            "correlation": self._correlation(part, events),
            "nbytes": np.where(size >= 0, size, np.nan),
        }
        to.add(Kernels, part["start"], part["end"], columns | _stream(part))

    def _take_regions(self, part: Columns, events: Columns, strings: dict[int, str], to: Activities) -> None:
        """Calls are launches; regions whose category is of markers are ranges, with their message as name."""
        count = len(part["start"])
        unknown = np.full(count, NONE, np.int64)
        event = part.get("event_id", unknown)
        category = _looked_up(events, "category_id", event)
        ranges = np.isin(category, [at for at, text in strings.items() if text.startswith(rocm.MARKERS)])
        names = numbered_by(to.names, part.get("name_id", unknown), lambda one: strings.get(one, "call of ROCm"))
        messages = self._file.texts(self._table("event"), "id", "extdata", np.unique(event[ranges]))
        for place in np.flatnonzero(ranges).tolist():
            said = _object(messages.get(int(event[place]))).get("message")
            if isinstance(said, str):
                names[place] = to.names[said]
        threads, tids = part.get("tid", unknown), self._map("info_thread", "tid")
        pids = part.get("pid", unknown)
        seen = [
            (self._processes.get(pid, pid), tids.get(tid, tid))
            for pid, tid in zip(pids.tolist(), threads.tolist(), strict=True)
        ]
        thread = numbered(to.threads, seen)
        correlation = self._correlation(part, events)
        calls = ~ranges
        columns = {"name": names[calls], "thread": thread[calls], "correlation": correlation[calls]}
        to.add(Launches, part["start"][calls], part["end"][calls], columns)
        ranges &= part["end"] > part["start"]
        kinds = np.full(count, ANNOTATION, np.int8)
        taken = {"name": names[ranges], "thread": thread[ranges], "kind": kinds[ranges]}
        to.add(Calls, part["start"][ranges], part["end"][ranges], taken)

    def _table(self, name: str) -> str:
        return f"rocpd_{name}{self._suffix}"

    def _texts(self, table: str, column: str) -> dict[int, str]:
        found = self._file.texts(self._table(table), "id", column)
        return {at: text for at, text in found.items() if text}

    def _map(self, table: str, column: str) -> dict[int, int]:
        part = self._file.wholes(self._table(table), ("id", column))
        return dict(zip(part["id"].tolist(), part[column].tolist(), strict=True)) if len(part) == 2 else {}

    def _agent(self, at: int) -> int:
        """The number that the tool's CSV calls "Agent 4"; `at` is that of the agent's row."""
        row = self._agents.get(at, {})
        found = next(
            (whole(row[one]) for one in ("logical_index", "absolute_index") if row.get(one) is not None), at
        )
        return NONE if found is None else found

    def _devices_of(self, agents: NDArray[np.int64]) -> NDArray[np.int64]:
        distinct, places = np.unique(agents, return_inverse=True)
        return rocm.whole_column(self._agent(int(one)) for one in distinct)[places]

    def _correlation(self, part: Columns, events: Columns) -> NDArray[np.int64]:
        """Kernels and the calls that launched them stand at the same place of a stack of calls."""
        stack = _looked_up(events, "stack_id", part.get("event_id", np.full(len(part["start"]), NONE, np.int64)))
        own = self._place << 56 | (part["pid"] & 0xFFFF) << 40 if "pid" in part else self._place << 56
        return np.where(stack > 0, own | stack & (2**40 - 1), NONE)


def _looked_up(events: Columns, column: str, wanted: NDArray[np.int64]) -> NDArray[np.int64]:
    """What stands in `column` of the events that `wanted` numbers; `NONE` for those that are not there."""
    if column not in events or not len(events["id"]):
        return np.full(len(wanted), NONE, np.int64)
    order = np.argsort(events["id"], kind="stable")
    known = events["id"][order]
    at = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    return np.where(known[at] == wanted, events[column][order[at]], NONE)


def _stream(part: Columns) -> dict[str, NDArray[Any]]:
    name = next((one for one in ("stream_id", "queue_id") if one in part), None)
    return {} if name is None else {"stream": part[name]}


def _product(sizes: list[int]) -> int:
    x, y, z = sizes
    return x * y * z if min(sizes) > 0 and max(sizes) < 2**31 else NONE


def _object(text: Any) -> dict[str, Any]:
    """The object that `text` is; empty for what is none."""
    try:
        found = msgspec.json.decode(text) if isinstance(text, str) else {}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
