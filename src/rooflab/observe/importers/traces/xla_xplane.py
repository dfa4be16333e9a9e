"""Profiles of JAX and TensorFlow in their own form (.xplane.pb): planes, their lines, events on them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rooflab.errors import FileError
from rooflab.observe.importers.traces import xla_events
from rooflab.observe.importers.traces.xla_events import Event, Line
from rooflab.observe.reading import hlo
from rooflab.observe.reading.columns import number, whole
from rooflab.observe.reading.opened import content
from rooflab.observe.reading.protobuf import BrokenMessage, Value, fields, signed, text, varint
from rooflab.types.trace import Device, Dropped, Signature, Trace

SOURCE = "XLA profiler (JAX, TensorFlow), xplane"

# Numbers of fields in the messages of xplane.proto.
_PLANES = 1
_PLANE_NAME, _PLANE_LINES, _PLANE_EVENTS, _PLANE_STATS, _PLANE_OWN_STATS = 2, 3, 4, 5, 6
_LINE_NAME, _LINE_TIME_NS, _LINE_EVENTS, _LINE_SHOWN = 2, 3, 4, 11
_EVENT_METADATA, _EVENT_OFFSET_PS, _EVENT_DURATION_PS, _EVENT_STATS = 1, 2, 3, 4
_META_NAME, _META_SHOWN, _META_STATS = 2, 4, 5
_STAT_DOUBLE, _STAT_UNSIGNED, _STAT_SIGNED, _STAT_TEXT, _STAT_BYTES, _STAT_REFERENCE = 2, 3, 4, 5, 6, 7
_PROGRAMS = "/host:metadata"
_FIRST_NAMES = (b"/host:", b"/device:", b"Task Environment")
_PYTHON = "$"  # begins the names of Python's own calls, most of the events of a host
_NS, _PS = 1e-9, 1e-12
_DAYS_S = 86_400.0 * 36_500  # a start beyond that is no time


def sniff(head: bytes) -> bool:
    """Whether `head`, the first of a file, begins with a plane of a host or of a device."""
    try:
        key, at = varint(head, 0, len(head))
        if key != _PLANES << 3 | 2:
            return False
        length, at = varint(head, at, len(head))
        end = min(len(head), at + min(length, 200))
        key, at = varint(head, at, end)
        if key == 1 << 3:  # the plane's number
            _, at = varint(head, at, end)
            key, at = varint(head, at, end)
        if key != _PLANE_NAME << 3 | 2:
            return False
        _, at = varint(head, at, end)
    except BrokenMessage:
        return False
    return head.startswith(_FIRST_NAMES, at)


def load(path: Path) -> Trace:
    """The trace in the file at `path`.

    Raises:
        FileError: no plane, or no operation in any.
    """
    data = content(path)
    space = _Space(data)
    space.read()
    found = xla_events.trace(
        SOURCE,
        space.lines,
        devices=space.devices,
        known=space.programs,
        dropped=(
            Dropped(space.bad, "events without a name, a start or a duration that can be true"),
            Dropped(space.broken, "planes, lines or tables that are damaged: what comes after in them is lost"),
        ),
    )
    if not len(found.kernels) and not len(found.calls):
        raise FileError(
            f"{path}: the profile has no operation of XLA ({len(space.lines)} lines, {space.broken} damaged "
            "parts); trace a call of a compiled function, and wait for its result before the trace ends"
        )
    return found


class _Space:
    """The planes of a file as they are read."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.lines: list[Line] = []
        self.devices: list[Device] = []
        self.programs: dict[tuple[str, str], Signature] = {}
        self.bad = self.broken = 0

    def read(self) -> None:
        """Read all planes; a damaged one as far as it goes."""
        at, end = 0, len(self.data)
        while at < end:
            try:
                key, at = varint(self.data, at, end)
                length, at = varint(self.data, at, end)
            except BrokenMessage:
                self.broken += 1
                return
            if key & 7 != 2:  # planes and texts are all that stands here
                self.broken += 1
                return
            if at + length > end:
                self.broken += 1
            if key >> 3 == _PLANES:
                self._plane(at, min(end, at + length))
            at += length

    def _fields(self, begin: int, end: int) -> list[tuple[int, Value]]:
        """The fields of a message, as far as they are whole."""
        found: list[tuple[int, Value]] = []
        try:
            found.extend(fields(self.data, begin, end))
        except BrokenMessage:
            self.broken += 1
        return found

    def _plane(self, begin: int, end: int) -> None:
        name = ""
        lines: list[tuple[int, int]] = []
        names: dict[int, str] = {}
        metadata: dict[int, tuple[int, int]] = {}
        own: list[tuple[int, int]] = []
        for field, value in self._walk(begin, end):
            if not isinstance(value, tuple):
                continue
            if field == _PLANE_NAME:
                name = text(self.data, value)
            elif field == _PLANE_LINES:
                lines.append(value)
            elif field == _PLANE_OWN_STATS:
                own.append(value)
            elif field in (_PLANE_EVENTS, _PLANE_STATS):
                key, where = self._entry(value)
                if where is not None:
                    if field == _PLANE_EVENTS:
                        metadata[key] = where
                    else:
                        names[key] = self._name(where)
        if name == _PROGRAMS:
            self._programs(metadata)
            return
        plane = _Plane(self, name, names, metadata)
        self.lines += [line for where in lines if (line := plane.line(where)).events]
        if xla_events.is_device(name):
            self.devices.append(_device(name, plane.stats(own)))

    def _programs(self, metadata: Mapping[int, tuple[int, int]]) -> None:
        """The compiled programs: each an HloProto among the statistics of a name, its number the program's."""
        for number_, where in metadata.items():
            for field, stat in self._fields(*where):
                if field != _META_STATS or not isinstance(stat, tuple):
                    continue
                for kind, value in self._fields(*stat):
                    if kind == _STAT_BYTES and isinstance(value, tuple):
                        self._program(number_, value)

    def _program(self, number_: int, where: tuple[int, int]) -> None:
        try:
            module, found = hlo.program(self.data[where[0] : where[1]])
        except BrokenMessage:
            self.broken += 1
            return
        for name, signature in found.items():
            self.programs[str(number_), name] = signature
            # By name only where one program has it: others of that name may be of other shapes.
            key = module, name
            self.programs[key] = Signature() if self.programs.get(key, signature) != signature else signature

    def _walk(self, begin: int, end: int) -> list[tuple[int, Value]]:
        """As `_fields`, but a field that is cut by the end is given as far as it goes."""
        found = []
        at = begin
        try:
            while at < end:
                key, at = varint(self.data, at, end)
                if key & 7 == 2:
                    length, at = varint(self.data, at, end)
                    if at + length > end:
                        self.broken += 1
                    found.append((key >> 3, (at, min(end, at + length))))
                    at += length
                elif key & 7 == 0:
                    value, at = varint(self.data, at, end)
                    found.append((key >> 3, value))
                else:
                    raise BrokenMessage
        except BrokenMessage:
            self.broken += 1
        return found

    def _entry(self, where: tuple[int, int]) -> tuple[int, tuple[int, int] | None]:
        """Key and value of a map's entry."""
        key, value = 0, None
        for field, found in self._fields(*where):
            if field == 1 and isinstance(found, int):
                key = found
            elif field == 2 and isinstance(found, tuple):
                value = found
        return key, value

    def _name(self, where: tuple[int, int]) -> str:
        return next((text(self.data, value) for field, value in self._fields(*where) if field == _META_NAME), "")


class _Plane:
    """One plane: its tables of names, by which its events are read."""

    def __init__(
        self, space: _Space, name: str, names: Mapping[int, str], metadata: Mapping[int, tuple[int, int]]
    ) -> None:
        self.space, self.name, self.names = space, name, names
        self._metadata = metadata
        self._read: dict[int, tuple[str, dict[str, Any]]] = {}

    def line(self, where: tuple[int, int]) -> Line:
        """A line with the events of it that are wanted."""
        name = shown = ""
        begin_ns = 0
        events: list[tuple[int, int]] = []
        for field, value in self.space._walk(*where):
            if field == _LINE_NAME:
                name = text(self.space.data, value)
            elif field == _LINE_SHOWN:
                shown = text(self.space.data, value)
            elif field == _LINE_TIME_NS and isinstance(value, int):
                begin_ns = signed(value)
            elif field == _LINE_EVENTS and isinstance(value, tuple):
                events.append(value)
        found = (self._event(one, begin_ns) for one in events)
        return Line(self.name, shown or name, [one for one in found if one is not None])

    def _event(self, where: tuple[int, int], begin_ns: int) -> Event | None:
        """An event; None for one that is not wanted, or that is damaged (and counted)."""
        key, offset, duration = 0, 0, 0
        own: list[tuple[int, int]] = []
        for field, value in self.space._fields(*where):
            if isinstance(value, tuple):
                if field == _EVENT_STATS:
                    own.append(value)
            elif isinstance(value, int):
                if field == _EVENT_METADATA:
                    key = value
                elif field == _EVENT_OFFSET_PS:
                    offset = signed(value)
                elif field == _EVENT_DURATION_PS:
                    duration = signed(value)
        name, shared = self._of(key)
        if name.startswith(_PYTHON):
            return None
        stats = {**shared, **self.stats(own)}
        if not xla_events.is_device(self.name) and not xla_events.wanted(stats):
            return None
        start_s = begin_ns * _NS + offset * _PS
        if not name or not 0 <= start_s < _DAYS_S or not 0 <= duration * _PS < _DAYS_S:
            self.space.bad += 1
            return None
        return Event(name, start_s, duration * _PS, stats)

    def _of(self, key: int) -> tuple[str, dict[str, Any]]:
        """Name and statistics that all events of one kind share."""
        if key not in self._read:
            name = shown = ""
            own: list[tuple[int, int]] = []
            for field, value in self.space._fields(*self._metadata.get(key, (0, 0))):
                if field == _META_NAME:
                    name = text(self.space.data, value)
                elif field == _META_SHOWN:
                    shown = text(self.space.data, value)
                elif field == _META_STATS and isinstance(value, tuple):
                    own.append(value)
            stats = self.stats(own)
            if shown and shown != name:
                stats.setdefault("long_name", name)
            self._read[key] = shown or name, stats
        return self._read[key]

    def stats(self, several: list[tuple[int, int]]) -> dict[str, Any]:
        """Statistics by name; what is bytes is left out."""
        found: dict[str, Any] = {}
        for where in several:
            name, value = "", None
            for field, given in self.space._fields(*where):
                if field == 1 and isinstance(given, int):
                    name = self.names.get(given, "")
                elif field == _STAT_DOUBLE or (field == _STAT_UNSIGNED and isinstance(given, int)):
                    value = given if not isinstance(given, tuple) else None
                elif field == _STAT_SIGNED and isinstance(given, int):
                    value = signed(given)
                elif field == _STAT_TEXT:
                    value = text(self.space.data, given)
                elif field == _STAT_REFERENCE and isinstance(given, int):
                    value = self.names.get(given)
            if name and value is not None:
                found[name] = value
        return found


def _device(name: str, stats: Mapping[str, Any]) -> Device:
    """The device that a plane describes."""
    place = name.rpartition(":")[2]
    major, minor = whole(stats.get("compute_cap_major")), whole(stats.get("compute_cap_minor"))
    kind = stats.get("device_type_string") or stats.get("device_type")
    return Device(
        number=int(place),
        name=str(kind) if kind else None,
        memory_bytes=number(stats.get("memory_size")),
        compute_units=whole(stats.get("core_count")),
        capability=None if major is None or minor is None else f"{major}.{minor}",
    )
