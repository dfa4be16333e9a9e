"""Nsight Systems' exports to SQLite: kernels, copies, calls of CUDA, NVTX ranges, whatever columns they have."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rooflab.errors import FileError
from rooflab.observe.importers.traces import nvtx
from rooflab.observe.reading.activities import Activities, Columns, numbered, numbered_by
from rooflab.observe.reading.columns import Table, number, whole
from rooflab.observe.reading.databases import Database
from rooflab.types.trace import (
    ANNOTATION,
    COPY,
    KERNEL,
    MEMSET,
    NONE,
    OPERATOR,
    Calls,
    Device,
    Dropped,
    Kernels,
    Launches,
    Shape,
    Signature,
    Trace,
)

SOURCE = "Nsight Systems"

_MARKS = ("CUPTI_ACTIVITY_KIND_", "TARGET_INFO_", "NVTX_EVENTS", "ENUM_NSYS_", "ENUM_CUPTI_")  # some of its tables
_NEWEST_SCHEMA = 3  # EXPORT_SCHEMA_VERSION is 3.x from 2023 to 2026

_PREFIX = "CUPTI_ACTIVITY_KIND_"
_WHERE = ("start", "end", "deviceId", "streamId", "correlationId", "globalPid")
_SIZES = ("gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ")
_RESOURCES = ("registersPerThread", "staticSharedMemory", "dynamicSharedMemory")
# With its template arguments a kernel is recognised best.
_KERNEL_NAMES = ("demangledName", "shortName")
_CALL = ("start", "end", "globalTid", "correlationId", "nameId")
_RANGE = ("start", "end", "globalTid", "textId", "eventType")
# CUpti_ActivityMemcpyKind, in the words of PyTorch's profiler.
_WAYS = ("", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP")
_COPIES = tuple(f"Memcpy {way}".strip() for way in _WAYS)
# CUpti_ActivitySynchronizationType: what the host waits in.
_WAITS = {1: "cudaEventSynchronize", 3: "cudaStreamSynchronize", 4: "cudaDeviceSynchronize"}
# NvtxPushPopRange and NvtxStartEndRange of ENUM_NSYS_EVENT_TYPE: the others have no length, or name things.
_RANGES = (59, 60)
_VERSION = re.compile(r"_v\d{4,5}(?:_pt[sd][sz])?$")  # cudaLaunchKernel_v7000
_NO_ONE = Signature()
_24_BITS = 0xFFFFFF  # of a process and of a thread in a globalTid


def knows(file: Database) -> bool:
    """Whether the tables of `file` are Nsight Systems'."""
    return any(one.startswith(_MARKS) for one in file.tables)


def read(file: Database, path: Path) -> Trace:
    """The trace in `file`, which lies at `path`.

    Raises:
        FileError: no activity in it that can be read.
    """
    activities = Activities()
    reader = _Reader(file, activities)
    reader.read()
    if activities.empty:
        raise FileError(f"{path}: {_nothing(file, activities)}")
    return activities.trace(
        SOURCE,
        thread=lambda one: (str(one >> 24 & _24_BITS), str(one & _24_BITS)),
        devices=_devices(file),
        framework="torch" if reader.has_operators else None,
        dropped=reader.dropped(),
        notes=_notes(file, activities),
    )


def _nothing(file: Database, activities: Activities) -> str:
    if activities.bad_times:
        return f"none of its {activities.bad_times} activities has a start and an end that can be true"
    if file.damaged:
        return f"the database is damaged: {next(iter(file.damaged.values()))}"
    return (
        "no kernel, copy, call of CUDA or NVTX range in it, expected an export of Nsight Systems; record with "
        "nsys profile --trace=cuda,nvtx"
    )


class _Reader:
    """Moves what is wanted from the tables to columns.

    Attributes:
        has_operators: whether ranges are of PyTorch's operators.
    """

    def __init__(self, file: Database, to: Activities) -> None:
        self._file, self._to = file, to
        self._open = 0
        self.has_operators = False
        self._gpus = _gpus(file)
        self._processes: set[int] = set()
        self._strings: dict[int, str] = {}

    def read(self) -> None:
        """Take the kernels, copies, calls and ranges."""
        kernels = self._table("KERNEL", (*_WHERE, *_KERNEL_NAMES, *_SIZES, *_RESOURCES))
        copies = self._table("MEMCPY", (*_WHERE, "bytes", "copyKind"))
        sets = self._table("MEMSET", (*_WHERE, "bytes"))
        graphs = self._table("GRAPH_TRACE", _WHERE)
        calls = [self._table(kind, _CALL) for kind in ("RUNTIME", "DRIVER")]
        ranges = self._file.wholes("NVTX_EVENTS", _RANGE)
        named = [(kernels, _KERNEL_NAMES), *((one, ("nameId",)) for one in calls), (ranges, ("textId",))]
        ids = [part[name] for part, names in named for name in names if name in part]
        wanted = np.unique(np.concatenate([*ids, np.empty(0, np.int64)]))
        self._strings = self._file.texts("StringIds", "id", "value", wanted)
        self._kernels(kernels)
        self._copies(copies)
        self._put(sets, MEMSET, np.zeros(_long(sets), np.int64), lambda _: "Memset (Device)")
        self._put(graphs, KERNEL, np.zeros(_long(graphs), np.int64), lambda _: "CUDA graph")
        for one in calls:
            self._calls(one, one.get("nameId"), self._name_of_call)
        if not _long(calls[0]):
            self._waits()
        self._ranges(ranges)

    def dropped(self) -> tuple[Dropped, ...]:
        """What was not taken, beside times that cannot be true."""
        found = [
            Dropped(1, f"{table} is damaged ({why}): what stands behind is lost")
            for table, why in self._file.damaged.items()
        ]
        if self._open:
            found.append(Dropped(self._open, "NVTX ranges that were not closed"))
        return tuple(found)

    def _table(self, kind: str, columns: tuple[str, ...]) -> dict[str, NDArray[np.int64]]:
        part = self._file.wholes(_PREFIX + kind, columns)
        for name in ("globalPid", "globalTid"):
            if name in part:
                self._processes.update(np.unique(part[name] >> 24 & _24_BITS).tolist())
        return part if {"start", "end"} <= set(part) else {}

    def _kernels(self, part: Columns) -> None:
        name = np.full(_long(part), NONE, np.int64)
        known = np.array(list(self._strings), np.int64)
        for column in reversed(_KERNEL_NAMES):
            if column in part:
                name = np.where(np.isin(part[column], known), part[column], name)
        shape = np.zeros(len(name), np.int32)
        if len(name) and set(_SIZES + _RESOURCES) <= set(part):
            table = Table()
            columns = [part[one].tolist() for one in (*_SIZES, *_RESOURCES)]
            places = np.array([table[one] for one in zip(*columns, strict=True)], np.int32)
            shape = np.array([self._to.shapes[_shape(*one)] for one in table], np.int32)[places]
        self._put(part, KERNEL, name, lambda one: self._strings.get(one, "unnamed kernel"), shape)

    def _copies(self, part: Columns) -> None:
        kinds = part.get("copyKind", np.full(_long(part), NONE, np.int64))
        self._put(part, COPY, kinds, lambda one: _COPIES[one] if 0 < one < len(_COPIES) else _COPIES[0])

    def _put(
        self,
        part: Columns,
        kind: int,
        name: NDArray[np.int64],
        meaning: Callable[[int], str],
        shape: NDArray[np.int32] | None = None,
    ) -> None:
        """Keep the activities of devices in `part`; `meaning` says what the numbers of `name` stand for."""
        count = _long(part)
        if not count:
            return
        columns = {
            "name": numbered_by(self._to.names, name, meaning),
            "kind": np.full(count, kind, np.int8),
            "device": self._devices(part),
            "correlation": self._correlation(part, "globalPid"),
            "shape": np.zeros(count, np.int32) if shape is None else shape,
        }
        if "streamId" in part:
            columns["stream"] = part["streamId"]
        if "bytes" in part:
            columns["nbytes"] = np.where(part["bytes"] >= 0, part["bytes"], np.nan)
        self._to.add(Kernels, part["start"], part["end"], columns)

    def _devices(self, part: Columns) -> NDArray[np.int64]:
        """The GPU of each activity: CUDA numbers those that a process sees, the export says which they are."""
        seen = part.get("deviceId", np.full(_long(part), NONE, np.int64))
        if not self._gpus or "globalPid" not in part:
            return seen
        process = part["globalPid"] >> 24 & _24_BITS
        found = seen.copy()
        for (pid, device), gpu in self._gpus.items():
            found[(process == pid) & (seen == device)] = gpu
        return found

    def _correlation(self, part: Columns, where: str) -> NDArray[np.int64]:
        """Numbers that join launches and kernels; processes count theirs each from 1."""
        found = part.get("correlationId", np.full(_long(part), NONE, np.int64))
        if len(self._processes) < 2 or where not in part:
            return found
        own = (part[where] >> 24 & _24_BITS) << 32 | found & 0xFFFFFFFF
        return np.where(found == NONE, NONE, own)

    def _name_of_call(self, one: int) -> str:
        return _VERSION.sub("", self._strings.get(one, "call of CUDA"))

    def _calls(self, part: Columns, name: NDArray[np.int64] | None, meaning: Callable[[int], str]) -> None:
        count = _long(part)
        if not count:
            return
        name = np.full(count, NONE, np.int64) if name is None else name
        columns = {
            "name": numbered_by(self._to.names, name, meaning),
            "thread": self._threads(part),
            "correlation": self._correlation(part, "globalTid"),
        }
        self._to.add(Launches, part["start"], part["end"], columns)

    def _threads(self, part: Columns) -> NDArray[np.int32]:
        return numbered_by(self._to.threads, part.get("globalTid", np.zeros(_long(part), np.int64)), int)

    def _waits(self) -> None:
        """Where calls were not recorded, waits of the host still are."""
        part = self._table("SYNCHRONIZATION", ("start", "end", "correlationId", "globalPid", "syncType"))
        if "syncType" not in part:
            return
        waits = np.isin(part["syncType"], list(_WAITS))
        part = {name: column[waits] for name, column in part.items()}
        part["globalTid"] = part.get("globalPid", np.zeros(_long(part), np.int64))
        self._calls(part, part["syncType"], lambda one: _WAITS[one])

    def _ranges(self, part: dict[str, NDArray[np.int64]]) -> None:
        """NVTX ranges, whose text stands beside them or among the strings."""
        if not {"start", "end"} <= set(part):
            return
        texts = [one for (piece,) in self._file.pieces("NVTX_EVENTS", ("text",)) for one in piece]
        # A damaged page may end one reading sooner than the other.
        count = min(_long(part), len(texts)) if texts else _long(part)
        part = {name: column[:count] for name, column in part.items()}
        kinds = part.get("eventType", np.full(count, _RANGES[0], np.int64))
        ranges = np.isin(kinds, _RANGES)
        closed = ranges & (part["end"] > 0)
        self._open += int(np.count_nonzero(ranges & ~closed))
        of_strings = part.get("textId", np.full(count, NONE, np.int64))[closed].tolist()
        named = [self._strings.get(one, "") for one in of_strings]
        if texts:
            own = [texts[place] for place in np.flatnonzero(closed).tolist()]
            named = [text if isinstance(text, str) else name for text, name in zip(own, named, strict=True)]
        part = {name: column[closed] for name, column in part.items()}
        self._to.add(Calls, part["start"], part["end"], self._of_texts(named) | {"thread": self._threads(part)})

    def _of_texts(self, texts: list[str]) -> dict[str, NDArray[Any]]:
        """The columns that the texts of ranges give: annotations, or operators with their shapes."""
        operators = [nvtx.operator(text) for text in texts]
        self.has_operators |= any(one is not None for one in operators)
        both = list(zip(texts, operators, strict=True))
        kinds = [ANNOTATION if one is None else OPERATOR for one in operators]
        signatures = [_NO_ONE if one is None else one.signature for one in operators]
        sequences = [NONE if one is None else one.sequence for one in operators]
        return {
            "name": numbered(self._to.names, [text if one is None else one.name for text, one in both]),
            "kind": np.array(kinds, np.int8),
            "sequence": np.array(sequences, np.int64),
            "signature": numbered(self._to.signatures, signatures),
        }


def _long(part: Columns) -> int:
    return len(part["start"]) if "start" in part else 0


def _shape(*numbers: int) -> Shape:
    grid, block, (registers, static, dynamic) = numbers[:3], numbers[3:6], numbers[6:]
    return Shape(
        grid if min(grid) > 0 else None,
        block if min(block) > 0 else None,
        registers if registers >= 0 else None,
        static + dynamic if min(static, dynamic) >= 0 else None,
    )


def _gpus(file: Database) -> dict[tuple[int, int], int]:
    """The GPU that each process calls a number."""
    found = {}
    for row in file.rows("TARGET_INFO_CUDA_DEVICE", ("gpuId", "cudaId", "pid")):
        gpu, device, pid = (whole(row.get(name)) for name in ("gpuId", "cudaId", "pid"))
        if gpu is not None and device is not None and pid is not None:
            found[pid & _24_BITS, device] = gpu
    return found


def _devices(file: Database) -> tuple[Device, ...]:
    columns = ("id", "name", "totalMemory", "smCount", "computeMajor", "computeMinor", "threadsPerWarp")
    devices = []
    for place, row in enumerate(file.rows("TARGET_INFO_GPU", columns)):
        major, minor = whole(row.get("computeMajor")), whole(row.get("computeMinor"))
        given, memory, name = whole(row.get("id")), number(row.get("totalMemory")), row.get("name")
        devices.append(
            Device(
                number=place if given is None else given,
                name=name if isinstance(name, str) and name else None,
                memory_bytes=memory if memory and memory > 0 else None,
                compute_units=whole(row.get("smCount")) or None,
                capability=None if not major or minor is None else f"{major}.{minor}",
                warp_size=whole(row.get("threadsPerWarp")) or 32,
            )
        )
    return tuple(devices)


def _notes(file: Database, activities: Activities) -> tuple[str, ...]:
    notes = []
    settings = {row.get("name"): row.get("value") for row in file.rows("META_DATA_EXPORT", ("name", "value"))}
    version = str(settings.get("EXPORT_SCHEMA_VERSION", ""))
    if version.partition(".")[0].isdigit() and int(version.partition(".")[0]) > _NEWEST_SCHEMA:
        notes.append(f"its schema {version} is newer than {_NEWEST_SCHEMA}.x: what is known of it was read")
    if any(True for _ in file.pieces(_PREFIX + "GRAPH_TRACE", ("start",))):
        notes.append("CUDA graphs were recorded whole: profile with --cuda-graph-trace=node to see their kernels")
    if not activities.has(Kernels):
        notes.append("no kernel of a device is in it: profile with --trace=cuda; the times are the host's")
    elif not activities.has(Launches):
        notes.append("no calls of CUDA were recorded: the causes of idle time are not known")
    return tuple(notes)
