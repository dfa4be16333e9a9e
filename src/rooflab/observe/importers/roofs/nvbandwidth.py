"""nvbandwidth: matrices of copies between host and devices, its text and its JSON, as links, one way each."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from rooflab.errors import FileError
from rooflab.observe.importers.roofs import attained
from rooflab.observe.reading.opened import content
from rooflab.types.machine import Kind, Level, Link, Machine, Part, Source
from rooflab.units import si

SOURCE = "nvbandwidth"

_JSON = re.compile(rb'^(?:\xef\xbb\xbf)?\s*\{\s*"nvbandwidth"\s*:')
_RUNNING = re.compile(r"^\s*Running (?:benchmark )?([a-z0-9_]+)\.\s*$")  # "benchmark" before its version 0.2
_COLUMNS = re.compile(r"^\s*\d+(?:\s+\d+)*\s*$")
_DEVICE = re.compile(r"[Dd]evice \d+: (.+?)\s*(?:\([0-9a-fA-F:]+\))?\s*$")
_JSON_DEVICE = re.compile(r"^\s*\d+: (.+?)\s*\([0-9a-fA-F:]+\)")
_MATRIX = re.compile(
    r"(?:memcpy|latency).*(?:GPU|CPU)\(|(?:GPU|CPU)\((?:row|column)\).*\(\w?[bs](?:/s)?\)\s*$", re.IGNORECASE
)
_COPIES = re.compile(r"\bmemcpy (CE|SM) (CPU|GPU)\(row\) (->|<-) GPU\(column\) bandwidth \(GB/s\)")
_PART = re.compile(r"\b(Read|Write)([12])\b|\bTotal\b")
_MOST_DEVICES = 4096
_LEAST = 1e-3  # GB/s, or ns: below is nothing that was measured


class _Test(NamedTuple):
    """What a test case measures: the link's name, what it leads to, whether both directions run at once."""

    link: str
    to: str
    duplex: bool | None = None


_TESTS = {
    "host_to_device_memcpy": _Test("host to device", "device"),
    "device_to_host_memcpy": _Test("device to host", "host"),
    "host_to_device_bidirectional_memcpy": _Test("host to device while the other way runs", "device", True),
    "device_to_host_bidirectional_memcpy": _Test("device to host while the other way runs", "host", True),
    "device_to_device_memcpy_read": _Test("device to device, reading", "device"),
    "device_to_device_memcpy_write": _Test("device to device, writing", "device"),
    "device_to_device_bidirectional_memcpy": _Test("device to device while the other way runs", "device", True),
    "device_to_device_bidirectional_memcpy_read": _Test(
        "device to device, reading while the other way runs", "device", True
    ),
    "device_to_device_bidirectional_memcpy_write": _Test(
        "device to device, writing while the other way runs", "device", True
    ),
    "all_to_host_memcpy": _Test("device to host while all others do", "host"),
    "host_to_all_memcpy": _Test("host to device while it sends to all others", "device"),
    "all_to_host_bidirectional_memcpy": _Test("device to host while all copy both ways", "host", True),
    "host_to_all_bidirectional_memcpy": _Test("host to device while all copy both ways", "device", True),
    "all_to_one_write": _Test("all devices to one, writing, added", "device"),
    "all_to_one_read": _Test("all devices to one, reading, added", "device"),
    "one_to_all_write": _Test("one device to all, writing, added", "device"),
    "one_to_all_read": _Test("one device to all, reading, added", "device"),
}
_LATENCIES = {
    "host_device_latency": _Test("device reads host memory", "host"),
    "device_to_device_latency": _Test("device reads another's memory", "device"),
}
_LOCAL = "device_local_copy"
# What a matrix is of where no line before it names its test: what was pasted without it.
_UNNAMED = {
    ("CPU", "->"): "host_to_device_memcpy",
    ("CPU", "<-"): "device_to_host_memcpy",
    ("GPU", "->"): "device_to_device_memcpy_read",
    ("GPU", "<-"): "device_to_device_memcpy_write",
}
_BY = {"ce": "copy engine", "sm": "SMs"}


class _Matrix(NamedTuple):
    """One matrix: of which test, its description, and the rows as text."""

    test: str
    description: str
    rows: list[list[str]]


class _File(NamedTuple):
    """What a file holds, whichever way it was written."""

    matrices: list[_Matrix]
    devices: list[str]
    failed: list[str]
    dropped: int


def sniff(head: bytes) -> bool:
    """Whether `head`, the first of a file, is of nvbandwidth: its JSON's key, or a matrix of copies."""
    if _JSON.match(head):
        return True
    text = head.decode("latin-1")
    if text.lstrip().startswith("{"):
        return False
    named = "nvbandwidth Version" in text or any(_RUNNING.match(line) for line in text.splitlines())
    own = "memcpy local GPU(column)" in text or _COPIES.search(text) is not None
    return own or (named and "(row)" in text and "GPU(column)" in text)


def load(path: Path) -> Machine:
    """The links that were attained, and the copy within a device, from the file at `path`.

    Raises:
        FileError: not its JSON, or no matrix with a number.
    """
    raw = content(path, 2**28)
    read = _of_json(raw, path) if _JSON.match(raw) else _of_text(attained.lines_of(path))
    origin = attained.source(SOURCE, path)
    known = attained.known_device(read.devices[0]) if read.devices else None
    links: dict[str, Link] = {}
    levels: list[Level] = []
    notes: list[str] = []
    dropped = read.dropped
    for matrix in read.matrices:
        values = [one for row in matrix.rows for cell in row if (one := attained.positive(cell)) and one >= _LEAST]
        if not values:
            dropped += 1
        elif matrix.test.removeprefix("multinode_") == _LOCAL:
            said = f"{si(2 * max(values) * 1e9, 'B/s')} a device, each byte counted as read and as written"
            notes.append(f"device_local_copy printed {max(values):g} GB/s of bytes copied, which is {said}.")
            if len(read.devices) < 2:  # a system's roof is not one device's
                levels = [_local(max(values), attained.main_memory_of(known), origin)]
        else:
            made, said = _links(matrix, values, origin)
            notes += said
            for link in made:
                links[link.name] = _better(links.get(link.name), link)
    if not links and not levels:
        got = read.failed[0] if read.failed else "no matrix with a number"
        raise attained.nothing(path, SOURCE, got, "matrices of GB/s")
    return _machine(path, read, origin, known, tuple(links.values()), tuple(levels), notes, dropped)


def _of_text(lines: list[str]) -> _File:
    matrices: list[_Matrix] = []
    devices: list[str] = []
    failed: list[str] = []
    test, width, dropped = "", 0, 0
    titled = (
        False  # whether the rows that follow have a title: those of a test that has none are not the one's before
    )
    for line in lines:
        cells = line.split()
        if found := _RUNNING.match(line):
            test, width, titled = found[1], 0, False
        elif line.startswith("Waived"):
            failed.append("a test that this system cannot run")
        elif line.startswith(("Error", "ERROR")):
            failed.append(line.strip()[:200])
        elif _MATRIX.search(line) and "(" in line:
            matrices.append(_Matrix(test or _unnamed(line), line.strip(), []))
            width, titled = 0, True
        elif (found := _DEVICE.search(line)) and len(devices) < _MOST_DEVICES:
            devices.append(found[1])
        elif matrices and _COLUMNS.match(line) and not width:
            width = len(cells)
            if not titled:
                matrices.append(_Matrix(test, "", []))
                titled = True
        elif matrices and width and cells and cells[0].isdigit():
            if len(cells) == width + 1:
                matrices[-1].rows.append(cells[1:])
            else:
                dropped += 1
        elif not cells:
            width = 0 if matrices and matrices[-1].rows else width
    return _File(matrices, devices, failed, dropped)


def _unnamed(title: str) -> str:
    """The test that a matrix's title alone tells; "" where it is of several."""
    found = _COPIES.search(title)
    return f"{_UNNAMED[found[2], found[3]]}_{found[1].lower()}" if found else ""


class _Testcase(msgspec.Struct):
    """One entry of `testcases` in the JSON, as far as it can be read."""

    name: str
    status: str
    description: str
    rows: list[list[str]]


def _of_json(raw: bytes, path: Path) -> _File:
    try:
        whole = msgspec.json.decode(raw.removeprefix(b"\xef\xbb\xbf"))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FileError(f"{path}: nvbandwidth's JSON cannot be read ({error}); expected a whole file") from None
    root: Any = whole.get("nvbandwidth") if isinstance(whole, dict) else None
    if not isinstance(root, dict):
        raise attained.nothing(path, SOURCE, "no object under 'nvbandwidth'", "its test cases")
    failed = [str(root["error"])[:200]] if root.get("error") else []
    matrices: list[_Matrix] = []
    dropped = 0
    cases = root.get("testcases")
    for raw_case in cases if isinstance(cases, list) else []:
        case = _case(raw_case)
        if case is None:
            dropped += 1
        elif not case.rows:
            failed.append(f"{case.name}: {case.status}")
        else:
            matrices += _split(case)
    listed = root.get("GPU Device list")
    devices = []
    for one in listed if isinstance(listed, list) else []:
        if isinstance(one, str) and (found := _JSON_DEVICE.match(one)) and len(devices) < _MOST_DEVICES:
            devices.append(found[1])
    return _File(matrices, devices, failed, dropped)


def _case(raw: Any) -> _Testcase | None:
    if not isinstance(raw, dict) or not isinstance(raw.get("name"), str):
        return None
    matrix = raw.get("bandwidth_matrix")
    rows = [
        [str(cell) for cell in row]
        for row in (matrix if isinstance(matrix, list) else [])
        if isinstance(row, list)
    ]
    return _Testcase(
        raw["name"][:100], str(raw.get("status", ""))[:100], str(raw.get("bandwidth_description", ""))[:200], rows
    )


def _split(case: _Testcase) -> list[_Matrix]:
    """The matrices of a test: two directions and their total stand in one list of rows, one after another."""
    width = max(map(len, case.rows))
    found = _PART.search(case.description)
    if not found or found[0] != "Total" or len(case.rows) != 3 * width:
        return [_Matrix(case.name, case.description, case.rows)]
    parts = ("Read1", "Read2", "Total") if "read" in case.name else ("Write1", "Write2", "Total")
    return [
        _Matrix(case.name, case.description.replace("Total", part), case.rows[at * width : (at + 1) * width])
        for at, part in enumerate(parts)
    ]


def _links(matrix: _Matrix, values: list[float], origin: Source) -> tuple[list[Link], list[str]]:
    """The link that a matrix is of, and what is to be said of one that is none."""
    plain = matrix.test.removeprefix("multinode_")
    base, _, by = plain.rpartition("_")
    where = " between nodes" if plain != matrix.test else ""
    part = _PART.search(matrix.description)
    if part and part[0] == "Total":
        return [], []  # both directions added: they stand by themselves before it
    if by not in _BY:
        return [], [f"{matrix.test or matrix.description}: not a test that rooflab knows, left out."]
    if base in _LATENCIES:
        test = _LATENCIES[base]
        latency = Link(
            name=f"{test.link}{where} ({_BY[by]})",
            to=test.to,
            source=origin,
            latency_s=min(values) * 1e-9,
            note=_range([one * 1e-9 for one in values], "s"),
        )
        return [latency], []
    test = _TESTS.get(base)
    if test is None:
        return [], [f"{matrix.test}: not a test that rooflab knows, left out."]
    if test.duplex and by == "sm" and part is None:
        # Size over time of a kernel whose warps copy in both directions, in older versions the sum of two streams.
        each = (
            f"{matrix.test} ({si(max(values) * 1e9, 'B/s')}): the SMs copy in both directions at once and the tool"
        )
        return [], [f"{each} prints one number for both, so no direction's rate is taken from it."]
    link = Link(
        name=f"{test.link}{where} ({_BY[by]})",
        to=test.to,
        source=origin,
        each_way_bytes_per_s=max(values) * 1e9,
        duplex=test.duplex,
        note=_range([one * 1e9 for one in values], "B/s"),
    )
    return [link], []


def _range(values: list[float], unit: str) -> str | None:
    """From the least to the most of several pairs."""
    if len(values) < 2:
        return None
    return f"{len(values)} pairs, {si(min(values), unit)} to {si(max(values), unit)}"


def _better(old: Link | None, new: Link) -> Link:
    """The faster of two measurements of a link."""
    if old is None:
        return new
    if new.latency_s is not None:
        return min(old, new, key=lambda link: link.latency_s or float("inf"))
    return max(old, new, key=lambda link: link.each_way_bytes_per_s or 0.0)


def _local(gigabytes: float, name: str, origin: Source) -> Level:
    """A copy within a device's memory: the tool counts a byte once that is read and written."""
    rate = attained.byte_rate("copy", 2 * gigabytes * 1e9, origin, note="read and written both counted")
    return Level(name=name, source=origin, rates=attained.with_any((rate,)))


def _machine(
    path: Path,
    read: _File,
    origin: Source,
    known: Machine | None,
    links: tuple[Link, ...],
    levels: tuple[Level, ...],
    notes: list[str],
    dropped: int,
) -> Machine:
    names = list(dict.fromkeys(read.devices))
    several = len(read.devices) > 1
    kind: Kind = "system" if several else "gpu"
    title = f"{len(read.devices)} × {names[0]}" if several else (names[0] if names else path.stem)
    parts = tuple(
        Part(name=name, count=read.devices.count(name), source=origin) for name in (names if several else [])
    )
    waived = f"Not measured: {'; '.join(dict.fromkeys(read.failed))}."[:1000] if read.failed else ""
    return Machine(
        name=f"{title} (nvbandwidth)",
        kind=kind,
        vendor="NVIDIA",
        source=origin,
        compute_unit="GPU" if several else (known.compute_unit if known else None),
        compute_units=len(read.devices) if several else (known.compute_units if known else None),
        parts=parts,
        levels=levels,
        links=links,
        note=attained.note(
            "Attained, as nvbandwidth printed it: the fastest pair of a matrix, one direction, GB of 1e9 bytes.",
            *dict.fromkeys(notes),
            waived,
            attained.dropped_sentence(dropped),
        ),
    )
