"""What a profile of XLA (JAX, TensorFlow) says, in either of its forms: operations of devices, steps, launches."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from rooflab.observe.reading.columns import number, whole
from rooflab.observe.reading.nesting import holders
from rooflab.observe.reading.recording import Recording
from rooflab.types.trace import ANNOTATION, COPY, KERNEL, MODULE, NONE, Device, Dropped, Shape, Signature, Trace

_HOST = -1  # the number of the device whose activities are the host's own
_DEVICE = re.compile(r"/device:(?P<kind>[A-Z_]+):(?P<number>\d{1,9})")
_STREAM = re.compile(r"Stream #(\d{1,9})")
_OPS = "XLA Ops"
_STEPS = "Steps"
_COPIES = re.compile(r"^(?:Memcpy|MemcpyH2D|MemcpyD2H|Memset)|^copy-(?:start|done)")
_SIZE = re.compile(r"\bsize:(\d{1,18})\b")
_GRID = re.compile(r"\bgrid:(\d+),(\d+),(\d+)")
_BLOCK = re.compile(r"\bblock:(\d+),(\d+),(\d+)")
_REGISTERS = re.compile(r"\bregs:(\d+)")
_SHARED = re.compile(r"\b(?:static|dynamic)_shared:(\d+)")
_JIT = re.compile(r"^(?:p?jit|pmap|xmap)\((.*)\)$")
_FLOP = ("model_flops", "flops")
_BYTES = ("bytes_accessed", "raw_bytes_accessed")


class Event(NamedTuple):
    """An event that is wanted, seconds of the file's clock."""

    name: str
    start_s: float
    duration_s: float
    stats: Mapping[str, Any]


class Line(NamedTuple):
    """A row of events: a thread of the host, or a queue of a device.

    Attributes:
        plane: "/host:CPU", "/device:GPU:0".
    """

    plane: str
    name: str
    events: list[Event]


def wanted(stats: Mapping[str, Any]) -> bool:
    """Whether an event of the host with `stats` says something of an operation, a step or a launch."""
    return "hlo_op" in stats or "step_num" in stats or "correlation_id" in stats


def is_device(plane: str) -> bool:
    """Whether `plane` is a device's."""
    return _DEVICE.match(plane) is not None


def trace(
    source: str,
    lines: Iterable[Line],
    *,
    devices: Iterable[Device] = (),
    dropped: Iterable[Dropped] = (),
    notes: Iterable[str] = (),
    known: Mapping[tuple[str, str], Signature] | None = None,
) -> Trace:
    """The lines as a trace: each operation a call and an activity of its device.

    Args:
        source: the format.
        lines: with the events that are wanted.
        devices: that the file describes.
        dropped: what could not be used.
        notes: what a reader must know.
        known: what compiled operations are, by module and name, where the file holds the compiled program.
    """
    taken = _Taken(known or {})
    several = list(lines)
    found = {one.number for one in devices}
    for plane in dict.fromkeys(line.plane for line in several):
        match = _DEVICE.match(plane)
        own = [line for line in several if line.plane == plane]
        if match is None:
            taken.host(own)
        else:
            taken.device(int(match["number"]), own)
    if taken.hosted:
        devices = [*devices, Device(number=_HOST)]
    extra = {int(one) for one in taken.used} - found - {_HOST}
    devices = [*devices, *(Device(number=one) for one in sorted(extra))]
    said = list(notes)
    if not taken.stated and taken.recording.kernels:
        said.append("neither FLOP nor bytes of operations are in it: the .xplane.pb of the same run may have them")
    return taken.recording.trace(source, framework="xla", devices=devices, dropped=dropped, notes=said)


class _Taken:
    """What was taken from the lines so far."""

    def __init__(self, known: Mapping[tuple[str, str], Signature]) -> None:
        self.recording = Recording()
        self.used: set[int] = set()
        self.hosted = self.stated = False
        self._known = known
        self._next = 0

    def host(self, lines: list[Line]) -> None:
        """Operations that ran on threads of the host, steps that the program marked, launches."""
        ran = [(line, event) for line in lines for event in line.events if "hlo_op" in event.stats]
        outer = holders([(event.start_s, event.duration_s, line.name) for line, event in ran])
        streams: dict[str, int] = {}
        for place, (line, event) in enumerate(ran):
            self.hosted = True
            stream = streams.setdefault(line.name, len(streams))
            self._operation(event, (line.plane, line.name), _HOST, stream, place not in outer)
        for line in lines:
            thread = line.plane, line.name
            for event in line.events:
                step = whole(event.stats.get("step_num"))
                if step is not None:
                    name = f"step {step} of {event.name}"
                    self.recording.call(name, event.start_s, event.duration_s, thread, kind=ANNOTATION)
                correlation = whole(event.stats.get("correlation_id"))
                if correlation is not None and "hlo_op" not in event.stats:
                    self.recording.launch(event.name, event.start_s, event.duration_s, thread, correlation)

    def device(self, device: int, lines: list[Line]) -> None:
        """Operations of a device: of its streams where they are recorded, else of its line of operations."""
        queues = [line for line in lines if _STREAM.search(line.name)] or [
            line for line in lines if line.name == _OPS
        ]
        for line in queues:
            match = _STREAM.search(line.name)
            stream = int(match[1]) if match else 0
            outer = holders([(event.start_s, event.duration_s, 0) for event in line.events])
            for place, event in enumerate(line.events):
                self._operation(event, (line.plane, line.name), device, stream, place not in outer)
        for line in lines:
            if line.name == _STEPS:
                for event in line.events:
                    name = f"step {event.name} of {line.plane}"
                    thread = line.plane, line.name
                    self.recording.call(name, event.start_s, event.duration_s, thread, kind=ANNOTATION)

    def _operation(self, event: Event, thread: tuple[str, str], device: int, stream: int, activity: bool) -> None:
        """One operation: a call with what is known of it; an activity too, unless others ran within it."""
        stats = event.stats
        op, module = str(stats.get("hlo_op") or event.name), str(stats.get("hlo_module") or "")
        signature = self._signature(op, module, stats)
        copy = _COPIES.match(event.name) is not None and "hlo_op" not in stats
        number_ = self._next
        self._next += 1
        if not copy and activity:
            path = _path(module, stats, signature)
            if path:
                self.recording.call(f"nn.Module: {path}", event.start_s, event.duration_s, thread, kind=MODULE)
            self.recording.call(op, event.start_s, event.duration_s, thread, external=number_, signature=signature)
        if not activity:
            return
        self.used.add(device)
        size = _SIZE.search(str(stats.get("memcpy_details", "")))
        correlation = whole(stats.get("correlation_id"))
        self.recording.kernel(
            event.name,
            event.start_s,
            event.duration_s,
            device=device,
            stream=stream,
            kind=COPY if copy else KERNEL,
            correlation=NONE if correlation is None else correlation,
            external=NONE if copy else number_,
            nbytes=float(size[1]) if size else math.nan,
            shape=_launched(str(stats.get("kernel_details", ""))),
        )

    def _signature(self, op: str, module: str, stats: Mapping[str, Any]) -> Signature:
        """What the file states of an operation: with each of its events, or in the compiled program."""
        flop, moved = _stated(stats, _FLOP), _stated(stats, _BYTES)
        compiled = self._known.get((str(stats.get("program_id")), op)) or self._known.get((module, op))
        if flop is None and moved is None and compiled is not None and compiled.kind:
            self.stated = True
            return compiled
        if flop is None and moved is None:
            return Signature()
        self.stated = True
        long_name = str(stats.get("long_name", ""))
        kind = str(stats.get("hlo_category") or "")
        return Signature(
            values=(long_name[:4000],),
            kind=kind,
            result_dtypes=_result_dtypes(long_name),
            flop=flop,
            nbytes=moved,
        )


_RESULT = re.compile(r"=\s*\(?\s*([a-z]+[0-9]*[a-z0-9]*)\[")


def _result_dtypes(long_name: str) -> tuple[str, ...]:
    """The number format of the first result in "%fusion.3 = bf16[128,256]{1,0} fusion(…)"."""
    found = _RESULT.search(long_name[:4000])
    return (found[1],) if found else ()


def _stated(stats: Mapping[str, Any], names: tuple[str, ...]) -> float | None:
    for name in names:
        found = number(stats.get(name))
        if found is not None and found >= 0:
            return found
    return None


def _path(module: str, stats: Mapping[str, Any], signature: Signature) -> str:
    """The path of the program's scopes around an operation, else the compiled module's name."""
    scope = str(stats.get("tf_op") or stats.get("name") or (signature.values[0] if signature.values else ""))
    parts = (
        [part for part in scope.rstrip(":").split("/")[:-1] if part] if "/" in scope and "=" not in scope else []
    )
    if not parts:
        return module
    match = _JIT.match(parts[0])
    first = match[1] if match else parts[0]
    return ".".join([first, *parts[1:]])


def _launched(details: str) -> Shape | None:
    """The launch in "regs:32 static_shared:0 dynamic_shared:0 grid:64,1,1 block:256,1,1"."""
    if not details:
        return None

    def sizes(pattern: re.Pattern[str]) -> tuple[int, ...] | None:
        found = pattern.search(details)
        return tuple(int(one) for one in found.groups()) if found else None

    registers = _REGISTERS.search(details)
    shared = [float(one) for one in _SHARED.findall(details)]
    return Shape(
        grid=sizes(_GRID),
        block=sizes(_BLOCK),
        registers=float(registers[1]) if registers else None,
        shared_bytes=sum(shared) if shared else None,
    )
