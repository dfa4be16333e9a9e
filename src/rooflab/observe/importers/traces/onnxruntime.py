"""Profiles of onnxruntime: a list of Chrome's events, a node of the graph each; kernels of GPUs where recorded."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import msgspec

from rooflab.errors import FileError
from rooflab.observe.reading.chrome_events import Events
from rooflab.observe.reading.columns import whole
from rooflab.observe.reading.nesting import holders
from rooflab.observe.reading.opened import chunks
from rooflab.observe.reading.recording import Recording, times_s
from rooflab.types.trace import ANNOTATION, COPY, MODULE, NONE, Device, Dropped, Shape, Signature, Trace

SOURCE = "onnxruntime profiler"

_MARK = re.compile(rb'"cat"\s*:\s*"(?:Session|Node)"')
_WRITER = re.compile(rb'"(?:model_loading_\w+|session_initialization|model_run)"|_kernel_time"|"op_name"')
_KERNEL_TIME = "_kernel_time"
_RUN = "model_run"
_HOST = -1  # the number of the device whose activities are the host's own
# Providers whose nodes run on the calling thread; of others the node's time is that of launching.
_ON_HOST = re.compile(r"CPU|Dnnl|XNNPACK|Xnnpack|ACL|ArmNN|Azure")
_MOVES = ("Memcpy", "MemcpyFromHost", "MemcpyToHost")
_US = 1e-6


class _Event(msgspec.Struct, gc=False):
    """An event as it stands in the file; what kind of thing a value is, is checked later."""

    cat: Any = None
    name: Any = None
    pid: Any = None
    tid: Any = None
    ts: Any = None
    dur: Any = None
    args: Any = None


class _Node(msgspec.Struct, gc=False):
    """A node that ran."""

    name: str
    op: str
    start_s: float
    duration_s: float
    thread: tuple[str, str]
    provider: str
    signature: Signature


def sniff(head: bytes) -> bool:
    """Whether `head`, the first of a file, is a profile of onnxruntime."""
    return _MARK.search(head) is not None and _WRITER.search(head) is not None


def load(path: Path) -> Trace:
    """The trace in the file at `path`.

    Raises:
        FileError: no list of events, or none of a node.
    """
    events = Events(chunks(path), _Event)
    taken = _Taken()
    for several in events:
        for event in several:
            taken.add(event)
    if not events.found:
        raise FileError(f"{path}: no list of events, expected a profile that onnxruntime wrote (enable_profiling)")
    if not taken.nodes:
        raise FileError(
            f"{path}: onnxruntime's profile has no node that ran ({events.broken + taken.bad} events could not be "
            "read); run the session before its profile ends"
        )
    return taken.trace(events)


class _Taken:
    """What was taken from the events so far."""

    def __init__(self) -> None:
        self.nodes: list[_Node] = []
        self.bad = 0
        self._kernels: list[tuple[str, int, float, float, int, Shape]] = []
        self._runs: list[tuple[float, float, tuple[str, str]]] = []
        self._last: dict[str, int] = {}

    def add(self, event: _Event) -> None:
        """Keep `event` where it is a node, a kernel or a run."""
        name = event.name if isinstance(event.name, str) else ""
        args = event.args if isinstance(event.args, dict) else {}
        node = event.cat == "Node" and name.endswith(_KERNEL_TIME)
        if not (node or event.cat == "Kernel" or (event.cat == "Session" and name == _RUN)):
            return
        times = times_s(event.ts, event.dur, _US)
        if times is None:
            self.bad += 1
            return
        thread = str(event.pid), str(event.tid)
        if node:
            self._last[name] = len(self.nodes)
            self.nodes.append(
                _Node(
                    name=name.removesuffix(_KERNEL_TIME),
                    op=str(args.get("op_name") or "?"),
                    start_s=times[0],
                    duration_s=times[1],
                    thread=thread,
                    provider=str(args.get("provider") or ""),
                    signature=_signature(args),
                )
            )
        elif event.cat == "Kernel":
            parent = args.get("parent_name")
            number = self._last.get(parent, NONE) if isinstance(parent, str) else NONE
            stream = whole(args.get("stream"))
            self._kernels.append((name, number, *times, stream if stream is not None else 0, _launched(args)))
        else:
            self._runs.append((*times, thread))

    def trace(self, events: Events) -> Trace:
        """All that was taken: nodes of the CPU are operators and activities at once."""
        recording = Recording()
        # Conditions and loops: the nodes of their bodies are the activities.
        outer = holders([(one.start_s, one.duration_s, one.thread) for one in self.nodes])
        unseen = 0
        threads: dict[tuple[str, str], int] = {}
        for number, node in enumerate(self.nodes):
            path = _module(node.name)
            if path and number not in outer:
                recording.call(f"nn.Module: {path}", node.start_s, node.duration_s, node.thread, kind=MODULE)
            recording.call(
                node.op, node.start_s, node.duration_s, node.thread, external=number, signature=node.signature
            )
            if number in outer:
                continue
            if _ON_HOST.search(node.provider) or not node.provider:
                stream = threads.setdefault(node.thread, len(threads))
                recording.kernel(
                    node.name,
                    node.start_s,
                    node.duration_s,
                    device=_HOST,
                    stream=stream,
                    external=number,
                    kind=COPY if node.op in _MOVES else 0,
                )
            else:
                unseen += 1
        for name, parent, start_s, duration_s, stream, shape in self._kernels:
            recording.kernel(name, start_s, duration_s, device=0, stream=stream, external=parent, shape=shape)
        for number, (start_s, duration_s, thread) in enumerate(self._runs):
            recording.call(f"step {number} of {_RUN}", start_s, duration_s, thread, kind=ANNOTATION)
        devices = [Device(number=_HOST)] + ([Device(number=0)] if self._kernels else [])
        return recording.trace(
            SOURCE,
            framework="onnx",
            devices=devices,
            dropped=(
                Dropped(events.broken, "could not be read"),
                Dropped(self.bad, "without a start or a duration that can be true"),
                Dropped(int(events.cut), "the file ends within its events"),
            ),
            notes=self._notes(unseen),
        )

    def _notes(self, unseen: int) -> list[str]:
        notes = []
        if unseen and not self._kernels:
            providers = sorted({one.provider for one in self.nodes if not _ON_HOST.search(one.provider)})
            notes.append(
                f"{unseen} nodes ran on a device ({', '.join(providers)}) whose kernels were not recorded: what "
                "is recorded of them is the time of launching, so they are left out"
            )
        if not any(one.signature.results for one in self.nodes):
            notes.append("shapes are not in it (onnxruntime before 1.8): no FLOP and bytes without them")
        else:
            notes.append(
                "attributes of nodes are not recorded: what they decide is taken from the shapes, or not counted; "
                "weights that were packed when the session began have no shape of their own"
            )
        return notes


def _module(name: str) -> str:
    """The module path in a node's name as exporters write it: "/model/layers.0/q_proj/MatMul"."""
    return ".".join(part for part in name.split("/")[:-1] if part) if name.startswith("/") else ""


def _signature(args: dict[str, Any]) -> Signature:
    """The shapes and number formats of a node's inputs and outputs, where recorded."""
    inputs, outputs = _tensors(args.get("input_type_shape")), _tensors(args.get("output_type_shape"))
    return Signature(
        shapes=tuple(shape for _, shape in inputs),
        dtypes=tuple(dtype for dtype, _ in inputs),
        results=tuple(shape for _, shape in outputs),
        result_dtypes=tuple(dtype for dtype, _ in outputs),
    )


def _tensors(given: Any) -> list[tuple[str, tuple[int, ...]]]:
    """The pairs in `[{"float": [1, 16]}, …]`; () of an unknown size makes the whole list unknown."""
    found = []
    for one in given if isinstance(given, list) else []:
        if not isinstance(one, dict) or len(one) != 1:
            return []
        dtype, sizes = next(iter(one.items()))
        numbers = [whole(size) for size in sizes] if isinstance(sizes, list) else [None]
        if not all(size is not None and 0 <= size < 2**40 for size in numbers) or len(numbers) > 64:
            return []
        shape = tuple(size for size in numbers if size is not None)
        if math.prod(shape) > 2**53:
            return []
        found.append((str(dtype), shape))
    return found


def _launched(args: dict[str, Any]) -> Shape:
    def sizes(what: str) -> tuple[int, ...] | None:
        numbers = [whole(args.get(f"{what}_{axis}")) for axis in "xyz"]
        return tuple(one for one in numbers if one is not None) if None not in numbers else None

    return Shape(grid=sizes("grid"), block=sizes("block"))
