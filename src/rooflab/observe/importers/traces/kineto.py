"""Traces of PyTorch's profiler (Kineto): CUDA, ROCm and CPU, of any version so far."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from rooflab.errors import FileError
from rooflab.observe.importers.traces.kineto_events import Args, Event, MoreArgs, MoreEvent, Number
from rooflab.observe.importers.traces.kineto_parts import Parts
from rooflab.observe.reading.chrome_events import Events, of_another
from rooflab.observe.reading.collector import collecting_nothing
from rooflab.observe.reading.columns import (
    Clock,
    Columns,
    Table,
    in_order,
    number,
    numbers_of,
    whole,
    whole_numbers_of,
)
from rooflab.observe.reading.opened import chunks
from rooflab.observe.reading.pairs import Pairs
from rooflab.types.trace import (
    ANNOTATION,
    COPY,
    KERNEL,
    MEMSET,
    MODULE,
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

SOURCE = "PyTorch profiler"

_KERNELS = {
    "kernel": KERNEL,
    "Kernel": KERNEL,
    "gpu_memcpy": COPY,
    "Memcpy": COPY,
    "gpu_memset": MEMSET,
    "Memset": MEMSET,
}
_CALLS = {"cpu_op": OPERATOR, "Operator": OPERATOR, "operator": OPERATOR, "user_annotation": ANNOTATION}
# Events of torch.autograd.profiler before Kineto have no category; the thread of those on devices is the device's.
_OLD_KERNELS, _OLD_CALLS = "CUDA functions", "CPU functions"
_MODULE = "nn.Module: "
_MEMORY = "[memory]"
_LAUNCHES = ("cuda_runtime", "cuda_driver", "hip_runtime", "hip_driver", "xpu_runtime", "Runtime")
# Microseconds since 1970 are 1.8e15 now, nanoseconds 1.8e18: what is beyond counts nanoseconds.
_NANOSECONDS_FROM = 1e17

_PIECE_BYTES = 2**20  # decoded at once: its events take several times that

_SPLIT = b"\0"  # stands in no JSON text


# In pieces without these no event has `MoreArgs`.
_MORE = (b"Collective name", b"Total Allocated", _MEMORY.encode())


def sniff(head: bytes) -> bool:
    """Whether `head`, the first of a file, is a trace of Chrome's form, by no other tool's marks."""
    if of_another(head):
        return False
    begin = head.lstrip()[:1]
    # What stands before the events may be longer than `head`.
    told = begin == b"{" and any(key in head for key in (b'"deviceProperties"', b'"schemaVersion"', b'"baseTime'))
    return told or b'"traceEvents"' in head or (begin == b"[" and b'"ph"' in head)


def load(path: Path) -> Trace:
    """The trace in the file at `path`.

    Raises:
        FileError: no trace of Chrome's form, or none of its events could be read.
    """
    events = Events(chunks(path, chunk_bytes=_PIECE_BYTES), Event, (_MORE, MoreEvent))
    taken = _Taken()
    with collecting_nothing():
        for several in events:
            taken.add(several)
    if not events.found:
        raise FileError(f'{path}: no list of "traceEvents", expected a trace of the PyTorch profiler')
    if not taken.seen and events.broken:
        raise FileError(f"{path}: none of its {events.broken} events could be read")
    if not taken.seen:
        raise FileError(f"{path}: its list of events is empty, expected those of a run")
    return taken.trace(events)


class _Taken:
    """What was taken from the events so far, in columns, times in the file's unit."""

    def __init__(self) -> None:
        self.seen = self.bad_times = 0
        self._pairs: Pairs[Event] = Pairs()
        self.clock = Clock()
        self.parts = Parts()
        self.names, self.threads, self.shapes, self.arguments = Table(), Table(), Table(), Table()
        kinds = (("kernels", Kernels), ("calls", Calls), ("launches", Launches))
        self._columns = {name: Columns(cls.__struct_fields__, _DTYPES) for name, cls in kinds}

    def add(self, events: list[Event]) -> None:
        """Keep what is wanted of `events`."""
        self.seen += len(events)
        kinds: dict[tuple[str | None, type[Event]], list[Event]] = defaultdict(list)
        for event in events:
            if event.ph in ("B", "E"):
                event = self._pairs.whole(event)
                if event is None:
                    continue
            if event.ph == "X":
                kinds[event.cat, type(event)].append(event)
            elif event.name == _MEMORY:
                kinds[_MEMORY, type(event)].append(event)
        for (category, _), several in kinds.items():
            if category in _KERNELS:
                self._kernels(several, _KERNELS[category])
            elif category in _CALLS:
                self._calls(several, _CALLS[category])
            elif category in _LAUNCHES:
                self._launches(several)
            elif category is None:
                self._calls([one for one in several if one.pid == _OLD_CALLS], OPERATOR)
                old = [one for one in several if one.pid == _OLD_KERNELS]
                args = [msgspec.structs.replace(one.args, device=one.tid, stream=0) for one in old]
                self._kernels(
                    [msgspec.structs.replace(one, args=each) for one, each in zip(old, args, strict=True)], KERNEL
                )
            elif category == _MEMORY and isinstance(several[0], MoreEvent):
                starts = self.clock.after_base([one.ts for one in several])
                self.bad_times += self.parts.memory([one.args for one in several], starts, self._threads(several))
            elif category == "python_function":
                # With stacks recorded these are most of a file; modules alone say where an operator belongs.
                modules = [one for one in several if one.name is not None and one.name.startswith(_MODULE)]
                if modules:
                    self._calls(modules, MODULE)

    def _timed(self, events: list[Event]) -> tuple[list[Event], np.ndarray, np.ndarray]:
        """The events whose times can be true, with their starts and durations."""
        starts = self.clock.after_base([one.ts for one in events])
        durations = numbers_of([one.dur for one in events])
        good = np.isfinite(starts) & np.isfinite(durations) & (durations >= 0)
        if good.all():
            return events, starts, durations
        self.bad_times += int(np.count_nonzero(~good))
        return [one for one, keep in zip(events, good, strict=True) if keep], starts[good], durations[good]

    def _named(self, events: list[Event]) -> np.ndarray:
        names = self.names
        return np.array([names[one.name] for one in events], np.int32)

    def _threads(self, events: list[Event]) -> np.ndarray:
        threads = self.threads
        return np.array([threads[one.pid, one.tid] for one in events], np.int32)

    def _kernels(self, events: list[Event], kind: int) -> None:
        events, starts, durations = self._timed(events)
        args = [one.args for one in events]
        if args and isinstance(args[0], MoreArgs):
            self.parts.kernels(args, starts, durations)
        shapes = self.shapes
        self._columns["kernels"].add(
            self._named(events),
            np.full(len(events), kind, np.int8),
            starts,
            durations,
            whole_numbers_of([one.device for one in args]),
            whole_numbers_of([one.stream for one in args]),
            whole_numbers_of([one.correlation for one in args]),
            _externals(args),
            numbers_of([one.nbytes for one in args]),
            np.array(
                [shapes[bytes(one.grid), bytes(one.block), one.registers, one.shared] for one in args],
                np.int32,
            ),
        )

    def _calls(self, events: list[Event], kind: int) -> None:
        events, starts, durations = self._timed(events)
        args = [one.args for one in events]
        arguments = self.arguments
        self._columns["calls"].add(
            self._named(events),
            np.full(len(events), kind, np.int8),
            starts,
            durations,
            self._threads(events),
            _externals(args),
            whole_numbers_of([one.sequence for one in args]),
            np.array(
                [
                    arguments[
                        _SPLIT.join((b"".join((one.dims, one.older_dims)), one.types, one.strides, one.values))
                    ]
                    for one in args
                ],
                np.int32,
            ),
        )

    def _launches(self, events: list[Event]) -> None:
        events, starts, durations = self._timed(events)
        args = [one.args for one in events]
        self._columns["launches"].add(
            self._named(events),
            starts,
            durations,
            self._threads(events),
            whole_numbers_of([one.correlation for one in args]),
            _externals(args),
        )

    def trace(self, events: Events) -> Trace:
        """All that was taken, times in seconds after the first of them."""
        several = [self._columns[name].taken() for name in ("kernels", "calls", "launches")]
        unit_s = 1e-9 if self.clock.base > _NANOSECONDS_FROM else 1e-6
        starts = [one["start_s"].min() for one in several if len(one["start_s"])]
        begin = min(map(float, (*starts, self.parts.first())))
        begin = begin if np.isfinite(begin) else 0.0
        for columns in several:
            columns["start_s"] -= begin
            columns["start_s"] *= unit_s
            columns["duration_s"] *= unit_s
        kernels, calls, launches = in_order(*several)
        signatures = tuple(_signature(text) for text in self.arguments)
        distributed = events.others.get("distributedInfo")
        distributed = distributed if isinstance(distributed, dict) else {}
        return Trace(
            source=SOURCE,
            kernels=kernels,
            calls=calls,
            launches=launches,
            names=tuple(str(name or "") for name in self.names),
            shapes=tuple(map(_shape, self.shapes)),
            signatures=signatures,
            threads=tuple((str(pid), str(tid)) for pid, tid in self.threads),
            devices=_devices(events.others.get("deviceProperties")),
            collectives=self.parts.collectives(begin, unit_s),
            allocations=self.parts.allocations(begin, unit_s),
            framework="torch",
            rank=whole(distributed.get("rank")),
            ranks=whole(distributed.get("world_size")),
            dropped=self._dropped(events),
            notes=_notes(calls.kind, len(kernels), signatures),
        )

    def _dropped(self, events: Events) -> tuple[Dropped, ...]:
        dropped = []
        if events.broken:
            dropped.append(Dropped(events.broken, "could not be read"))
        if self.bad_times:
            dropped.append(Dropped(self.bad_times, "without a start or a duration that can be true"))
        if self._pairs.alone:
            dropped.append(Dropped(self._pairs.alone, "begin without an end, or end without a beginning"))
        if events.cut:
            dropped.append(Dropped(1, "the file ends within its events"))
        return tuple(dropped)


_DTYPES: dict[str, type] = {
    **dict.fromkeys(("start_s", "duration_s", "nbytes"), np.float64),
    **dict.fromkeys(("name", "thread", "shape", "signature"), np.int32),
    "kind": np.int8,
}


def _externals(args: list[Args]) -> np.ndarray:
    externals = whole_numbers_of([one.external for one in args])
    if (externals == NONE).any():
        older = whole_numbers_of([one.older_external for one in args])
        externals = np.where(externals == NONE, older, externals)
    return externals


_LIST = msgspec.json.Decoder(list)
_SIZES = msgspec.json.Decoder(tuple[int, ...])


def _shape(given: tuple[bytes, bytes, Number, Number]) -> Shape:
    grid, block, registers, shared_bytes = given
    return Shape(_sizes(grid), _sizes(block), number(registers), number(shared_bytes))


def _sizes(text: bytes) -> tuple[int, ...] | None:
    try:
        return _SIZES.decode(text) if text else None
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _signature(joined: bytes) -> Signature:
    """The arguments whose shapes, types, strides and values stand in `joined`; () for what cannot be read."""
    lists = []
    for text in joined.split(_SPLIT)[:4]:
        try:
            lists.append(_frozen(_LIST.decode(text)) if text else ())
        except (msgspec.DecodeError, UnicodeDecodeError):
            lists.append(())
    return Signature(*lists)


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


def _devices(raw: Any) -> tuple[Device, ...]:
    devices = []
    for position, one in enumerate(raw if isinstance(raw, list) else []):
        if not isinstance(one, dict):
            continue
        major, minor = whole(one.get("computeMajor")), whole(one.get("computeMinor"))
        given = whole(one.get("id"))
        devices.append(
            Device(
                number=position if given is None else given,
                name=str(one["name"]) if one.get("name") else None,
                memory_bytes=number(one.get("totalGlobalMem")),
                compute_units=whole(one.get("numSms")),
                capability=None if major is None or minor is None else f"{major}.{minor}",
                warp_size=whole(one.get("warpSize")),
            )
        )
    return tuple(devices)


def _notes(kinds: np.ndarray, kernels: int, signatures: tuple[Signature, ...]) -> tuple[str, ...]:
    notes = []
    if np.any(kinds == OPERATOR) and not any(one.shapes for one in signatures):
        notes.append("shapes were not recorded: profile with record_shapes=True to have FLOP and bytes")
    if not kernels:
        notes.append("no kernel of a device is in it: the times are the host's")
    return tuple(notes)
