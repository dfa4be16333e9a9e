"""Address traces in files: Dinero din and xdin, valgrind's lackey, drmemtrace's view, ChampSim; gz and xz too.

Files are read a block at a time and parsed by compiled code straight into accesses: memory stays bounded
whatever a file's size. Lines that cannot be read are counted by reason and skipped.
"""

from __future__ import annotations

import gzip
import lzma
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Literal, NamedTuple, get_args

import numpy as np

from rooflab.cachesim import flush, growth, hierarchy, reuse, trace_kernels
from rooflab.cachesim.compiled import ready
from rooflab.cachesim.replay import replay
from rooflab.errors import FileError, UnknownNameError
from rooflab.types.simulation import Cache, MissCurve, Simulation

Format = Literal["din", "xdin", "lackey", "drmemtrace", "champsim"]
FORMATS: tuple[str, ...] = get_args(Format)
Instructions = Literal["skip", "load"]
_BLOCK_BYTES = 1 << 20
_SNIFF_BYTES = 1 << 16
_CHAMPSIM_BYTES = 64
_PIECE_BYTES = 1 << 14  # read at once where room must be made for all that it may touch; whole ChampSim records
_SHORTEST_LINE = 4
_REASONS = (
    "not a line of this format",
    "no hexadecimal address",
    "a size of 0 or over 4096 bytes",
    "an unfinished record at the end",
)
_REFERENCES = ("loads", "stores", "instructions")
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
# How each text format looks, for the message about a file of another.
_LOOKS = {
    "din": "'0 1fff0'",
    "xdin": "'r 1fff0 8'",
    "lackey": "' L 1fff000758,8'",
    "drmemtrace": "'… write 8 byte(s) @ 0x7ffd… by PC 0x…'",
    "champsim": "64-byte binary records",
}


def simulate_trace(
    path: Path,
    levels: Sequence[Cache],
    *,
    format: str | None = None,
    tlbs: Sequence[Cache] = (),
    instructions: Instructions = "skip",
    item_bytes: int = 4,
    classify: bool = False,
    write_back_at_end: bool = False,
    time_limit_s: float | None = None,
    assumptions: tuple[str, ...] = (),
) -> Simulation:
    """What `levels` do with the accesses of the trace at `path`.

    Args:
        path: of the file; .gz and .xz are unpacked as they are read.
        levels: near to far.
        format: of the file; found by its first lines where None.
        tlbs: translation look-aside buffers.
        instructions: whether instruction fetches are skipped, or are loads of the (unified) first level.
        item_bytes: bytes of an access where the format does not say (din: 4, ChampSim: 8 is usual).
        classify: tell compulsory, capacity and conflict misses apart; memory grows with what is touched.
        write_back_at_end: count what is left dirty as written back.
        time_limit_s: stop reading after so long; counts are then partial, and marked.
        assumptions: of the levels, to be shown.

    Raises:
        FileError: no such file, a format that cannot be told, a file with no readable line.
        UnknownNameError: no such format.
    """
    # With `classify` the sets of units seen grow on the way: the first ones are small.
    built = hierarchy.build(
        levels, tlbs=tlbs, references=_REFERENCES, units=growth.FIRST_UNITS if classify else None
    )
    room = growth.Seen(built) if classify else None
    read = _through(path, built.address, Settings(format, instructions, item_bytes, time_limit_s), room)
    found = built.result(
        path.name,
        accesses=read.accesses,
        accessed_bytes=read.accessed_bytes,
        dropped=read.dropped,
        assumptions=(*assumptions, *read.said),
        seconds=read.seconds,
        complete=read.complete,
    )
    return flush.written_back(found, built) if write_back_at_end else found


def curve_of_trace(
    path: Path,
    line_bytes: int = 64,
    *,
    format: str | None = None,
    instructions: Instructions = "skip",
    item_bytes: int = 4,
) -> MissCurve:
    """The misses of the trace at `path` in fully associative LRU caches of every capacity.

    Memory grows with the lines that the trace touches, not with its length: up to 280 bytes a line.

    Raises:
        RooflabError: a line that is no power of two, more lines than are kept.
        FileError: as `simulate_trace`.
    """
    reuse.check_line(line_bytes)
    counted = reuse.Distances(growth.FIRST_UNITS, len(_REFERENCES), line_bytes)
    read = _through(path, counted.address, Settings(format, instructions, item_bytes), counted)
    return counted.curve(path.name, read.accesses, line_bytes)


class Settings(NamedTuple):
    """How a trace is read (see `simulate_trace`)."""

    format: str | None
    instructions: Instructions
    item_bytes: int
    time_limit_s: float | None = None


class _Read(NamedTuple):
    accesses: int
    accessed_bytes: int
    dropped: dict[str, int]
    said: tuple[str, ...]
    complete: bool
    seconds: float


def _through(path: Path, address: int, settings: Settings, room: growth.Growing | None) -> _Read:
    """Make every access of the trace at `path` on the state at `address`."""
    if settings.format is not None and settings.format not in FORMATS:
        raise UnknownNameError("trace format", str(settings.format), FORMATS)
    totals = np.zeros(trace_kernels.TOTALS, np.int64)
    complete = True
    with _open(path) as file:
        head = _read(path, file, _SNIFF_BYTES)
        chosen = settings.format or sniff(head, str(path))
        pieces = _records if chosen == "champsim" else _lines
        run = _runner(chosen, settings, address, totals)
        begun = time.perf_counter()
        for piece in pieces(_blocks(path, file, head), None if room is None else _PIECE_BYTES, totals):
            if room is not None:
                room.make_room(*_most(chosen, len(piece), settings.item_bytes))
            run(piece)
            if settings.time_limit_s is not None and time.perf_counter() - begun > settings.time_limit_s:
                complete = False
                break
        seconds = time.perf_counter() - begun
    dropped = {why: int(n) for why, n in zip(_REASONS, totals[trace_kernels.DROPPED :], strict=True) if n}
    accesses, skipped = int(totals[trace_kernels.ACCESSES]), int(totals[trace_kernels.SKIPPED])
    if not accesses and not skipped:
        raise FileError(f"{path}: no line reads as {chosen} ({_LOOKS[chosen]}); {_what(head)}")
    said = _said(chosen, settings.instructions, settings.item_bytes, skipped)
    return _Read(accesses, int(totals[trace_kernels.BYTES]), dropped, said, complete, seconds)


def _runner(
    chosen: str, settings: Settings, address: int, totals: np.ndarray
) -> Callable[[memoryview[int] | bytes], None]:
    parse = trace_kernels.champsim if chosen == "champsim" else trace_kernels.PARSERS[chosen]
    kind = np.uint64 if chosen == "champsim" else np.uint8
    told = (settings.item_bytes, int(settings.instructions == "load"), address)

    ready(parse, np.frombuffer(b"\n" * _CHAMPSIM_BYTES, kind), *told, totals)

    def run(piece: memoryview[int] | bytes) -> None:
        parse(np.frombuffer(piece, kind), *told, totals)

    return run


def _most(chosen: str, nbytes: int, item_bytes: int) -> tuple[int, int]:
    """The most accesses, each of a new place, that `nbytes` of a trace may hold, and the most bytes of one."""
    if chosen == "champsim":
        return nbytes // _CHAMPSIM_BYTES * 7, max(item_bytes, 4)  # the instruction, 4 loads, 2 stores
    # The shortest lines: "0 0" and "r 0 1", with their ends.
    return nbytes // _SHORTEST_LINE + 1, item_bytes if chosen == "din" else trace_kernels.LARGEST


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
        raise FileError(f"{path}: no address trace that is known ({', '.join(FORMATS)}); {_what(head)}")
    lines = [line for line in head.splitlines()[:200] if line.strip()]
    scores = {
        name: sum(1 for line in lines if _reads_as(name, line)) for name in ("din", "xdin", "lackey", "drmemtrace")
    }
    best = max(scores, key=lambda name: scores[name])
    if scores[best] * 2 < len(lines) and not (best in ("lackey", "drmemtrace") and scores[best] > 3):
        raise FileError(f"{path}: no address trace that is known ({', '.join(FORMATS)}); {_what(head)}")
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
    records = [head[at : at + _CHAMPSIM_BYTES] for at in range(0, min(len(head), 64 * _CHAMPSIM_BYTES), 64)]
    whole = [each for each in records if len(each) == _CHAMPSIM_BYTES]
    return bool(whole) and all(each[8] <= 1 and each[9] <= 1 for each in whole)


def _kind(head: bytes) -> str | None:
    return next((name for magic, name in _MAGIC.items() if head.startswith(magic)), None)


def _what(head: bytes) -> str:
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


def _read(path: Path, file: IO[bytes], count: int) -> bytes:
    try:
        return file.read(count)
    except (OSError, EOFError, lzma.LZMAError) as error:
        raise FileError(f"{path}: cannot be unpacked: {error}") from None


def _blocks(path: Path, file: IO[bytes], head: bytes) -> Iterator[bytes]:
    block = head
    while block:
        yield block
        block = _read(path, file, _BLOCK_BYTES)


def _lines(blocks: Iterator[bytes], most: int | None, totals: np.ndarray) -> Iterator[memoryview[int] | bytes]:
    """Whole lines, at most `most` bytes of them at a time (or one longer line)."""
    left = b""
    for block in blocks:
        text = left + block
        end = text.rfind(b"\n") + 1
        at = 0
        while at < end:
            stop = end
            if most is not None and at + most < end:
                stop = text.rfind(b"\n", at, at + most) + 1 or text.index(b"\n", at + most) + 1
            yield memoryview(text)[at:stop]
            at = stop
        left = text[end:]
        if len(left) > _BLOCK_BYTES:
            # No line is that long: it is not this format, and must not fill the memory.
            totals[trace_kernels.DROPPED] += 1
            left = b""
    if left.strip():
        yield left + b"\n"


def _records(blocks: Iterator[bytes], most: int | None, totals: np.ndarray) -> Iterator[memoryview[int] | bytes]:
    """Whole records of ChampSim, at most `most` bytes of them at a time."""
    left = b""
    for block in blocks:
        data = left + block
        whole = len(data) // _CHAMPSIM_BYTES * _CHAMPSIM_BYTES
        step = most or max(whole, 1)
        for at in range(0, whole, step):
            yield memoryview(data)[at : min(at + step, whole)]
        left = data[whole:]
    totals[trace_kernels.UNFINISHED] += bool(left)


def _said(chosen: str, instructions: str, item_bytes: int, skipped: int) -> tuple[str, ...]:
    said = [f"read as {chosen}"]
    if chosen in ("din", "champsim"):
        said.append(f"every access taken as {item_bytes} bytes: {chosen} does not say")
    if skipped:
        said.append(f"{skipped:,} records that are no data access (instructions, markers) left out")
    if instructions == "load":
        said.append("instruction fetches taken as loads of the first level")
    return tuple(said)


def simulate_columns(
    addresses: Sequence[int] | np.ndarray,
    levels: Sequence[Cache],
    *,
    stores: Sequence[bool] | np.ndarray | None = None,
    nbytes: int = 8,
    name: str = "trace",
) -> Simulation:
    """What `levels` do with accesses given as arrays: addresses, and whether each is a store."""
    where = np.ascontiguousarray(addresses, np.int64)
    requests = np.zeros(len(where), np.int64) if stores is None else np.ascontiguousarray(stores).astype(np.int64)
    built = hierarchy.build(levels, references=("loads", "stores"))
    begun = time.perf_counter()
    replay(built.address, requests, where, np.full(len(where), nbytes, np.int64), requests)
    seconds = time.perf_counter() - begun
    return built.result(name, accesses=len(where), accessed_bytes=nbytes * len(where), seconds=seconds)
