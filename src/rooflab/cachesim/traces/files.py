"""Files of address traces: which format they have, and their bytes a block at a time, unpacked.

Memory stays bounded whatever a file's size.
"""

from __future__ import annotations

import gzip
import lzma
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Literal, NamedTuple, get_args

import numpy as np

from rooflab.cachesim.level.seen_units import MOST_UNITS
from rooflab.cachesim.traces.text import MARGIN, NEWLINE
from rooflab.errors import FileError

Format = Literal["din", "xdin", "lackey", "drmemtrace", "champsim"]
FORMATS: tuple[str, ...] = get_args(Format)
CHAMPSIM_BYTES = 64
_MAGIC = {
    b"\x7fELF": "an ELF program",
    b"\x89PNG": "a PNG picture",
    b"PK\x03\x04": "a zip archive",
    b"%PDF": "a PDF document",
    b"\x28\xb5\x2f\xfd": "a zstd archive: unpack it first",
    b"BZh": "a bzip2 archive: unpack it first",
    b"SQLite": "an SQLite database (an Nsight Systems export?)",
    b"{": "JSON",
    b"[": "JSON",
    b"<": "XML or HTML",
}


class Buffers(NamedTuple):
    """How much of a trace is held at once.

    Attributes:
        head_bytes: from which the format is recognised.
        block_bytes: of a read: what is read is still in a cache when it is parsed.
        accesses: that are noted before they are made: they stay in the machine's own L1 and L2.
        first_units: lines (or sectors) that tables of what was touched hold at first; they grow.
        most_units: that they ever hold.
    """

    head_bytes: int = 1 << 16
    block_bytes: int = 1 << 19
    accesses: int = 1 << 12
    first_units: int = 1 << 12
    most_units: int = MOST_UNITS


BUFFERS = Buffers()


class TraceFile:
    """A trace that is read once, from its begin to its end."""

    def __init__(self, path: Path, file: IO[bytes], buffers: Buffers) -> None:
        self._path, self._file, self._block_bytes = path, file, buffers.block_bytes
        with _unpacking(path):
            self.head = file.read(buffers.head_bytes)
        self.endless = 0  # lines too long to be any
        self.unfinished = False  # whether the end of the file is no whole record

    def pieces(self, record_bytes: int | None) -> Iterator[tuple[int, int]]:
        """The places of the first byte, and of the one after the last, of whole lines or records, in order.

        They are good until the next is asked for. There is MARGIN before and after them.

        Args:
            record_bytes: of each record; None for lines, the last of which gets a newline if it has none.
        """
        held, block_bytes = len(self.head), self._block_bytes
        room = bytearray(block_bytes + max(block_bytes, held, CHAMPSIM_BYTES) + 2 * MARGIN)
        first = np.frombuffer(room, np.uint8).ctypes.data + MARGIN
        room[MARGIN : MARGIN + held] = self.head
        got = held
        while got:
            whole = _whole(room, held, record_bytes)
            if whole:
                yield first, first + whole
            held -= whole
            room[MARGIN : MARGIN + held] = room[MARGIN + whole : MARGIN + whole + held]
            if record_bytes is None and held > block_bytes:
                # No line is that long: it is not this format, and must not fill the memory.
                self.endless += 1
                held = 0
            got = self._read_into(memoryview(room)[MARGIN + held : MARGIN + held + block_bytes])
            held += got
        if record_bytes is not None:
            self.unfinished = held > 0
        elif held:
            room[MARGIN + held] = NEWLINE
            yield first, first + held + 1

    def _read_into(self, room: memoryview) -> int:
        with _unpacking(self._path):
            return self._file.readinto(room)  # type: ignore[attr-defined]


def _whole(room: bytearray, held: int, record_bytes: int | None) -> int:
    if record_bytes:
        return held // record_bytes * record_bytes
    return max(room.rfind(b"\n", MARGIN, MARGIN + held) + 1 - MARGIN, 0)


@contextmanager
def opened(path: Path, buffers: Buffers = BUFFERS) -> Iterator[TraceFile]:
    """The trace at `path`, unpacked as it is read where it is .gz or .xz.

    Raises:
        FileError: no such file, or one that cannot be read.
    """
    with _open(path) as file:
        yield TraceFile(path, file, buffers)


def sniff(head: bytes, path: str) -> Format:
    """The format whose lines `head`, the first bytes of a trace, mostly holds.

    Raises:
        FileError: of none; the message says what it looks like instead.
    """
    if not head:
        raise FileError(f"{path}: empty, expected an address trace ({', '.join(FORMATS)})")
    if b"\0" in head[:4096]:
        if _kind(head) is None and _branches(head):
            return "champsim"
        raise FileError(f"{path}: not a known address trace ({', '.join(FORMATS)}); {what(head)}")
    lines = [line for line in head.splitlines()[:200] if line.strip()]
    scores = {
        name: sum(1 for line in lines if _reads_as(name, line)) for name in ("din", "xdin", "lackey", "drmemtrace")
    }
    best = max(scores, key=lambda name: scores[name])
    if scores[best] * 2 < len(lines) and not (best in ("lackey", "drmemtrace") and scores[best] > 3):
        raise FileError(f"{path}: not a known address trace ({', '.join(FORMATS)}); {what(head)}")
    return best  # type: ignore[return-value]


def _reads_as(name: str, line: bytes) -> bool:
    words = line.split()
    if name == "drmemtrace":
        return b"byte(s) @ 0x" in line
    if name == "lackey":
        return len(words) == 2 and words[0] in (b"I", b"L", b"S", b"M") and b"," in words[1]
    if name == "xdin":
        return len(words) == 3 and words[0].lower() in (b"r", b"w", b"i", b"m", b"c", b"v") and _hex(words[1])
    return len(words) in (2, 3) and words[0] in (b"0", b"1", b"2", b"3", b"4") and _hex(words[1])


def _hex(word: bytes) -> bool:
    try:
        int(word, 16)
    except ValueError:
        return False
    return True


def _branches(head: bytes) -> bool:
    """Whether the first records have 0 or 1 where ChampSim's say "is a branch" and "was taken"."""
    records = [head[at : at + CHAMPSIM_BYTES] for at in range(0, min(len(head), 64 * CHAMPSIM_BYTES), 64)]
    whole = [each for each in records if len(each) == CHAMPSIM_BYTES]
    return bool(whole) and all(each[8] <= 1 and each[9] <= 1 for each in whole)


def _kind(head: bytes) -> str | None:
    return next((name for magic, name in _MAGIC.items() if head.startswith(magic)), None)


def what(head: bytes) -> str:
    """What a file that begins with `head`, and is no trace, looks like."""
    if _kind(head):
        return f"it looks like {_kind(head)}"
    if b"\0" in head[:4096]:
        return "it is a binary file"
    first = head.splitlines()[0][:60].decode("utf-8", "replace")
    return f"it begins with {first!r}"


def _open(path: Path) -> IO[bytes]:
    try:
        with open(path, "rb") as file:
            magic = file.read(6)
        if magic[:2] == b"\x1f\x8b":
            return gzip.open(path, "rb")  # type: ignore[return-value]
        if magic == b"\xfd7zXZ\0":
            return lzma.open(path, "rb")  # type: ignore[return-value]
        return open(path, "rb")
    except FileNotFoundError:
        raise FileError(f"{path}: no such file") from None
    except OSError as error:
        raise FileError(f"{path}: cannot be read: {error.strerror or error}") from None


@contextmanager
def _unpacking(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise FileError(f"{path}: cannot be unpacked: {error}") from None
