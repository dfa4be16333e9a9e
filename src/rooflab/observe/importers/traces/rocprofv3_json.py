"""rocprofv3's results.json: kernels, copies, calls and ranges as a trace; counters, where there are some."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from rooflab.errors import FileError
from rooflab.observe.importers.counters.rocprofv3_counters import Dispatch, Losses, counters
from rooflab.observe.importers.traces import rocm
from rooflab.observe.reading.activities import Activities, numbered
from rooflab.observe.reading.columns import number, whole, whole_numbers_of
from rooflab.observe.reading.json_lists import objects
from rooflab.observe.reading.opened import content
from rooflab.types.counted import Counters
from rooflab.types.trace import ANNOTATION, COPY, KERNEL, NONE, Calls, Device, Dropped, Kernels, Launches, Trace

SOURCE = "rocprofv3 results"

_MARK = re.compile(rb'^\s*(?:\xef\xbb\xbf)?\{\s*"rocprofiler-sdk-tool"\s*:')
_TOLD = ("agents", "counters", "kernel_symbols")
_CALLS = ("hip_api", "hsa_api", "rccl_api")
_GPU = 2  # rocprofiler_agent_type_t
_NAMES = ("formatted_kernel_name", "demangled_kernel_name", "truncated_kernel_name", "kernel_name")


class _Handle(msgspec.Struct, frozen=True, gc=False):
    handle: Any = None


class _Three(msgspec.Struct, frozen=True, gc=False):
    x: Any = None
    y: Any = None
    z: Any = None


class _Ids(msgspec.Struct, frozen=True, gc=False):
    internal: Any = None


class _Info(msgspec.Struct, frozen=True, gc=False):
    agent_id: _Handle = _Handle()
    queue_id: _Handle = _Handle()
    kernel_id: Any = None
    dispatch_id: Any = None
    group_segment_size: Any = None
    workgroup_size: _Three = _Three()
    grid_size: _Three = _Three()


class _Record(msgspec.Struct, frozen=True, gc=False):
    """What ran once: a kernel, a copy, a call."""

    kind: Any = None
    operation: Any = None
    correlation_id: _Ids = _Ids()
    thread_id: Any = None
    start_timestamp: Any = None
    end_timestamp: Any = None
    dispatch_info: _Info = _Info()
    stream_id: _Handle | None = None
    src_agent_id: _Handle = _Handle()
    dst_agent_id: _Handle = _Handle()
    bytes: Any = None
    key: Any = None
    value: Any = None


class _Value(msgspec.Struct, frozen=True, gc=False):
    counter_id: _Handle = _Handle()
    value: Any = None


class _Counted(msgspec.Struct, frozen=True):
    """Counters of a dispatch: a value for each instance of a unit."""

    dispatch_data: _Record = _Record()
    records: list[_Value] = []


class _Records(msgspec.Struct, frozen=True):
    kernel_dispatch: list[_Record] = []
    memory_copy: list[_Record] = []
    hip_api: list[_Record] = []
    hsa_api: list[_Record] = []
    rccl_api: list[_Record] = []
    marker_api: list[_Record] = []


class _Callbacks(msgspec.Struct, frozen=True):
    counter_collection: list[_Counted] = []


class _Tool(msgspec.Struct, frozen=True):
    """What is read of a process."""

    metadata: Any = None
    agents: list[Any] = []
    counters: list[Any] = []
    strings: Any = None
    kernel_symbols: list[Any] = []
    callback_records: _Callbacks = _Callbacks()
    buffer_records: _Records = _Records()


class _File(msgspec.Struct, frozen=True):
    tools: list[_Tool] = msgspec.field(name="rocprofiler-sdk-tool")


def sniff(head: bytes) -> bool:
    """Whether `head`, the first of a file, begins such a document."""
    return bool(_MARK.match(head))


def load(path: Path) -> Trace | Counters:
    """What the file at `path` holds: counters where some were collected, else a trace.

    Raises:
        FileError: nothing in it that can be used.
    """
    tools, broken = _tools(content(path))
    dispatches: dict[Dispatch, dict[str, float]] = {}
    losses = Losses()
    losses.lines += broken
    for tool in tools:
        _count(tool, dispatches, losses)
    if dispatches:
        return counters(SOURCE, dispatches, losses, _devices(tools))
    activities = Activities()
    for tool in tools:
        _Reader(tool, activities).read()
    if activities.empty:
        raise FileError(f"{path}: no kernel, copy, call or counter in this file of rocprofv3 that can be used")
    dropped = [Dropped(broken, "records that could not be read")] if broken else []
    return rocm.trace(SOURCE, activities, _devices(tools), dropped)


def _tools(text: bytes) -> tuple[list[_Tool], int]:
    """The processes in `text`, and how many records could not be read."""
    try:
        return msgspec.json.decode(text.removeprefix(b"\xef\xbb\xbf"), type=_File).tools, 0
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    kinds: dict[str, Any] = dict.fromkeys(_Records.__struct_fields__, _Record)
    kinds |= {"counter_collection": _Counted} | dict.fromkeys((*_TOLD, "buffer_records"), dict)
    lists: dict[str, list[Any]] = {}
    broken = 1  # the document
    for key, kind in kinds.items():
        lists[key], lost = objects(text, key, kind, (*kinds, "callback_records"))
        broken += lost
    strings = {
        # Under this name there is a list of kinds, and records that are no list.
        "buffer_records": lists.pop("buffer_records"),
        "marker_api": [{"key": one.key, "value": one.value} for one in lists["marker_api"] if one.key is not None],
    }
    counted = _Callbacks(counter_collection=lists.pop("counter_collection"))
    told = {name: lists.pop(name) for name in _TOLD}
    return [_Tool(strings=strings, callback_records=counted, buffer_records=_Records(**lists), **told)], broken


def _dicts(value: Any) -> list[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _handle(value: Any) -> Any:
    """The handle in {"handle": 7}, or 7 itself."""
    found = value.get("handle") if isinstance(value, dict) else value
    return found if isinstance(found, int | str) else None


def _kernel_names(tool: _Tool) -> dict[Any, str]:
    found = {}
    for symbol in _dicts(tool.kernel_symbols):
        name = next((symbol[key] for key in _NAMES if isinstance(symbol.get(key), str) and symbol[key]), None)
        kernel = symbol.get("kernel_id", symbol.get("id"))
        if name is not None and isinstance(kernel, int | str):
            found[kernel] = name
    return found


def _agents(tool: _Tool) -> dict[Any, Mapping[str, Any]]:
    return {_handle(one.get("id")): one for one in _dicts(tool.agents)}


def _agent_number(agents: Mapping[Any, Mapping[str, Any]], handle: Any) -> int:
    """The number that the tool's CSV calls "Agent 4": of the node, without nodes that are not there."""
    known = agents.get(handle, {})
    found = whole(known.get("logical_node_id", known.get("node_id")))
    return NONE if found is None else found


def _devices(tools: Iterable[_Tool]) -> tuple[Device, ...]:
    found: dict[int, Device] = {}
    for tool in tools:
        agents = _agents(tool)
        for handle, one in agents.items():
            at = _agent_number(agents, handle)
            if one.get("type") != _GPU or at == NONE:
                continue
            name = next((one[key] for key in ("product_name", "model_name", "name") if one.get(key)), None)
            sizes = [number(bank.get("size_in_bytes")) for bank in _dicts(one.get("mem_banks"))]
            memory = sum(size for size in sizes if size is not None and size > 0)
            units, gfx = whole(one.get("cu_count")), one.get("name")
            found[at] = Device(
                number=at,
                name=name if isinstance(name, str) else None,
                memory_bytes=memory or None,
                compute_units=units or None,
                capability=gfx if isinstance(gfx, str) and gfx.startswith("gfx") else None,
                warp_size=whole(one.get("wave_front_size")) or None,
            )
    return tuple(found[at] for at in sorted(found))


def _count(tool: _Tool, dispatches: dict[Dispatch, dict[str, float]], losses: Losses) -> None:
    """Add the counters that `tool` collected; the instances of a unit are added."""
    names = {}
    for one in _dicts(tool.counters):
        if isinstance(one.get("name"), str):
            names[_handle(one.get("agent_id")), _handle(one.get("id"))] = one["name"]
            names.setdefault((None, _handle(one.get("id"))), one["name"])
    kernels, agents, pid = _kernel_names(tool), _agents(tool), _pid(tool)
    ran = {_handle(one.dispatch_info.dispatch_id): one for one in tool.buffer_records.kernel_dispatch}
    for counted in tool.callback_records.counter_collection:
        data = counted.dispatch_data
        info = data.dispatch_info
        agent = _handle(info.agent_id.handle)
        values: dict[str, float] = {}
        for one in counted.records:
            handle, value = _handle(one.counter_id.handle), number(one.value)
            name = names.get((agent, handle)) or names.get((None, handle))
            if name is None or value is None or value < 0:
                losses.lines += 1
            else:
                values[name] = values.get(name, 0.0) + value
        name = kernels.get(_handle(info.kernel_id))
        if not values or name is None:
            losses.lines += not values
            continue
        at = _agent_number(agents, agent)
        # Versions before ROCm 6.4 have the times only where kernels were traced too.
        timed = data if data.start_timestamp is not None else ran.get(_handle(info.dispatch_id), data)
        dispatch = Dispatch(
            str(info.dispatch_id),
            "" if at == NONE else f"Agent {at}",
            pid,
            name,
            _product(info.grid_size),
            _product(info.workgroup_size),
            _time(timed.start_timestamp),
            _time(timed.end_timestamp),
        )
        if dispatch in dispatches:
            losses.again += 1
        else:
            dispatches[dispatch] = values


def _pid(tool: _Tool) -> str:
    return str(tool.metadata.get("pid", "")) if isinstance(tool.metadata, dict) else ""


def _time(value: Any) -> int:
    found = whole(value)
    return NONE if found is None else found


def _three(size: _Three) -> tuple[int, int, int]:
    x, y, z = (NONE if (one := whole(each)) is None else one for each in (size.x, size.y, size.z))
    return x, y, z


def _product(size: _Three) -> int:
    x, y, z = _three(size)
    return x * y * z if min(x, y, z) > 0 and max(x, y, z) < 2**31 else NONE


class _Reader:
    """Moves what a process recorded to columns."""

    def __init__(self, tool: _Tool, to: Activities) -> None:
        self._tool, self._to = tool, to
        self._agents = _agents(tool)
        strings = tool.strings if isinstance(tool.strings, dict) else {}
        listed = strings.get("buffer_records")
        self._kinds = [one if isinstance(one, dict) else {} for one in listed] if isinstance(listed, list) else []
        self._messages = {_handle(one.get("key")): one.get("value") for one in _dicts(strings.get("marker_api"))}
        # Processes count their correlations each from 1.
        self._pid = _pid(tool)
        self._above = ((whole(self._pid) or 0) & 0x7FFFFFFF) << 32

    def read(self) -> None:
        """Take the kernels, copies, calls and ranges."""
        records = self._tool.buffer_records
        self._kernels(records.kernel_dispatch)
        self._copies(records.memory_copy)
        for name in _CALLS:
            self._launches(getattr(records, name))
        self._ranges(records.marker_api)

    def _kernels(self, records: list[_Record]) -> None:
        names = _kernel_names(self._tool)
        infos = [one.dispatch_info for one in records]
        shapes = [
            rocm.shape(
                _three(one.grid_size), _three(one.workgroup_size), shared_bytes=_time(one.group_segment_size)
            )
            for one in infos
        ]
        columns = {
            "name": numbered(
                self._to.names, [names.get(_handle(one.kernel_id), "unnamed kernel") for one in infos]
            ),
            "kind": np.full(len(records), KERNEL, np.int8),
            "device": self._devices([one.agent_id.handle for one in infos]),
            "stream": self._streams(records),
            "shape": numbered(self._to.shapes, shapes),
        }
        self._add(Kernels, records, columns)

    def _copies(self, records: list[_Record]) -> None:
        names = [rocm.copy_name(self._operation(one)) for one in records]
        ends = [
            rocm.copy_device(name, one.src_agent_id.handle, one.dst_agent_id.handle)
            for name, one in zip(names, records, strict=True)
        ]
        sizes = [number(one.bytes) for one in records]
        columns = {
            "name": numbered(self._to.names, names),
            "kind": np.full(len(records), COPY, np.int8),
            "device": self._devices(ends),
            "stream": self._streams(records),
            "nbytes": np.array([np.nan if one is None or one < 0 else one for one in sizes], np.float64),
        }
        self._add(Kernels, records, columns)

    def _launches(self, records: list[_Record]) -> None:
        names = [self._operation(one) or "call of ROCm" for one in records]
        columns = {"name": numbered(self._to.names, names), "thread": self._threads(records)}
        self._add(Launches, records, columns)

    def _ranges(self, records: list[_Record]) -> None:
        """Ranges of ROCTX; a mark has no length."""
        ranges = [one for one in records if _time(one.end_timestamp) > _time(one.start_timestamp)]
        names = [
            self._messages.get(_handle(one.correlation_id.internal)) or self._operation(one) for one in ranges
        ]
        columns = {
            "name": numbered(self._to.names, [str(name) for name in names]),
            "kind": np.full(len(ranges), ANNOTATION, np.int8),
            "thread": self._threads(ranges),
        }
        self._add(Calls, ranges, columns)

    def _add(self, to: type, records: list[_Record], columns: dict[str, NDArray[Any]]) -> None:
        if not records:
            return
        if to is not Calls:
            own = whole_numbers_of([one.correlation_id.internal for one in records])
            columns["correlation"] = np.where(own > 0, own & 0xFFFFFFFF | self._above, NONE)
        start = whole_numbers_of([one.start_timestamp for one in records])
        self._to.add(to, start, whole_numbers_of([one.end_timestamp for one in records]), columns)

    def _operation(self, record: _Record) -> str:
        """The name of what `record` is of: kinds and their operations are listed in the file."""
        kind, operation = whole(record.kind), whole(record.operation)
        if kind is None or operation is None or not 0 <= kind < len(self._kinds):
            return ""
        names = self._kinds[kind].get("operations")
        return str(names[operation]) if isinstance(names, list) and 0 <= operation < len(names) else ""

    def _devices(self, handles: Iterable[Any]) -> NDArray[np.int64]:
        return rocm.whole_column(_agent_number(self._agents, _handle(one)) for one in handles)

    def _streams(self, records: list[_Record]) -> NDArray[np.int64]:
        return whole_numbers_of(
            [
                one.dispatch_info.queue_id.handle if one.stream_id is None else one.stream_id.handle
                for one in records
            ]
        )

    def _threads(self, records: list[_Record]) -> NDArray[np.int32]:
        return numbered(self._to.threads, [(self._pid, _time(one.thread_id)) for one in records])
