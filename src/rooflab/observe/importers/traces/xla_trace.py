"""Traces of JAX and TensorFlow as Chrome's events (trace.json.gz): processes are planes, threads their lines."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import msgspec

from rooflab.errors import FileError
from rooflab.observe.importers.traces.xla_events import Event, Line, is_device, trace, wanted
from rooflab.observe.reading.chrome_events import Events
from rooflab.observe.reading.opened import chunks
from rooflab.observe.reading.recording import times_s
from rooflab.types.trace import Dropped, Trace

SOURCE = "XLA profiler (JAX, TensorFlow)"

_HEADER = re.compile(rb'^\s*\{\s*"displayTimeUnit"\s*:\s*"ns"\s*,\s*"metadata"\s*:\s*\{\s*"highres-ticks"')
_PLANE = re.compile(rb'"name"\s*:\s*"/(?:host|device):[A-Z]')
_US = 1e-6
_MOST_EVENTS = 1_000_000  # that the writer keeps; the .xplane.pb holds all


class _Event(msgspec.Struct, gc=False):
    """An event as it stands in the file; what kind of thing a value is, is checked later."""

    ph: Any = None
    name: Any = None
    pid: Any = None
    tid: Any = None
    ts: Any = None
    dur: Any = None
    args: Any = None


def sniff(head: bytes) -> bool:
    """Whether `head`, the first of a file, begins a trace of XLA's profiler."""
    begin = head.lstrip()[:1]
    return begin in (b"{", b"[") and (_HEADER.search(head) is not None or _PLANE.search(head) is not None)


def load(path: Path) -> Trace:
    """The trace in the file at `path`.

    Raises:
        FileError: no list of events, or no operation among them.
    """
    events = Events(chunks(path), _Event)
    taken = _Taken()
    for several in events:
        for event in several:
            taken.add(event)
    if not events.found:
        raise FileError(f'{path}: no list of "traceEvents", expected a trace of jax.profiler')
    notes = []
    if taken.seen >= _MOST_EVENTS:
        notes.append("the writer keeps 1,000,000 events of this form: the .xplane.pb of the same run has all")
    found = trace(
        SOURCE,
        taken.lines(),
        dropped=(
            Dropped(events.broken, "could not be read"),
            Dropped(taken.bad, "without a start or a duration that can be true"),
            Dropped(int(events.cut), "the file ends within its events"),
        ),
        notes=notes,
    )
    if not len(found.kernels) and not len(found.calls):
        raise FileError(
            f"{path}: the trace has no operation of XLA among its {taken.seen} events; trace a call of a compiled "
            "function, and wait for its result before the trace ends"
        )
    return found


class _Taken:
    """What was taken from the events so far, by process and thread."""

    def __init__(self) -> None:
        self.seen = self.bad = 0
        self._planes: dict[str, str] = {}
        self._names: dict[tuple[str, str], str] = {}
        self._events: dict[tuple[str, str], list[Event]] = defaultdict(list)

    def add(self, event: _Event) -> None:
        """Keep `event` where it names a process or thread, or may be an operation."""
        args = event.args if isinstance(event.args, dict) else {}
        pid, tid = str(event.pid), str(event.tid)
        if event.ph == "M":
            if event.name == "process_name":
                self._planes[pid] = str(args.get("name", ""))
            elif event.name == "thread_name":
                self._names[pid, tid] = str(args.get("name", ""))
            return
        if event.ph != "X":
            return
        self.seen += 1
        if not wanted(args) and not is_device(self._planes.get(pid, "/device:?:0")):
            return
        times = times_s(event.ts, event.dur or 0, _US)
        if times is None or not isinstance(event.name, str):
            self.bad += 1
            return
        self._events[pid, tid].append(Event(event.name, *times, args))

    def lines(self) -> list[Line]:
        """The events by their planes and lines."""
        return [
            Line(self._planes.get(pid, "/host:?"), self._names.get((pid, tid), tid), events)
            for (pid, tid), events in self._events.items()
        ]
