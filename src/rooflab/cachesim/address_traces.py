"""Address traces in files: Dinero din and xdin, valgrind's lackey, drmemtrace's view, ChampSim; gz and xz too.

Files are read a block at a time and parsed by compiled code straight into accesses: memory stays bounded
whatever a file's size. Lines that cannot be read are counted by reason and skipped.
"""

from __future__ import annotations

import gzip
import lzma
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Literal, get_args

import numpy as np

from rooflab.cachesim import hierarchy, trace_kernels
from rooflab.cachesim.replay import replay
from rooflab.errors import FileError, UnknownNameError
from rooflab.types.simulation import Cache, Simulation

Format = Literal["din", "xdin", "lackey", "drmemtrace", "champsim"]
FORMATS: tuple[str, ...] = get_args(Format)
Instructions = Literal["skip", "load"]
_BLOCK_BYTES = 1 << 20
_SNIFF_BYTES = 1 << 16
_CHAMPSIM_BYTES = 64
_REASONS = ("not a line of this format", "no hexadecimal address", "a size of 0 or over 4096 bytes")
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
        assumptions: of the levels, to be shown.

    Raises:
        FileError: no such file, a format that cannot be told, a file with no readable line.
        UnknownNameError: no such format.
    """
    if format is not None and format not in FORMATS:
        raise UnknownNameError("trace format", str(format), FORMATS)
    built = hierarchy.build(levels, tlbs=tlbs, references=("loads", "stores", "instructions"))
    begun = time.perf_counter()
    with _open(path) as file:
        head = _read(path, file, _SNIFF_BYTES)
        chosen = format or sniff(head, str(path))
        totals = np.zeros(trace_kernels.TOTALS, np.int64)
        settings = (item_bytes, int(instructions == "load"), built.address)
        rest = (_champsim if chosen == "champsim" else _text)(path, file, head, chosen, settings, totals)
    dropped = {why: int(n) for why, n in zip(_REASONS, totals[trace_kernels.DROPPED :], strict=False) if n}
    if rest:
        dropped["an unfinished record at the end"] = 1
    if not totals[trace_kernels.ACCESSES] and not totals[trace_kernels.SKIPPED]:
        raise FileError(f"{path}: no line reads as {chosen} ({_LOOKS[chosen]}); {_what(head)}")
    return built.result(
        path.name,
        accesses=int(totals[trace_kernels.ACCESSES]),
        accessed_bytes=int(totals[trace_kernels.BYTES]),
        dropped=dropped,
        assumptions=(*assumptions, *_said(chosen, instructions, item_bytes, int(totals[trace_kernels.SKIPPED]))),
        seconds=time.perf_counter() - begun,
    )


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


def _text(
    path: Path, file: IO[bytes], head: bytes, chosen: str, settings: tuple[int, int, int], totals: np.ndarray
) -> bool:
    parse = trace_kernels.PARSERS[chosen]
    left = b""
    for block in _blocks(path, file, head):
        text = left + block
        end = text.rfind(b"\n") + 1
        if end:
            parse(np.frombuffer(text, np.uint8)[:end], *settings, totals)
        left = text[end:]
        if len(left) > _BLOCK_BYTES:
            # No line is that long: it is not this format, and must not fill the memory.
            totals[trace_kernels.DROPPED] += 1
            left = b""
    if left.strip():
        parse(np.frombuffer(left + b"\n", np.uint8), *settings, totals)
    return False


def _champsim(
    path: Path, file: IO[bytes], head: bytes, chosen: str, settings: tuple[int, int, int], totals: np.ndarray
) -> bool:
    left = b""
    for block in _blocks(path, file, head):
        data = left + block
        whole = len(data) // _CHAMPSIM_BYTES * _CHAMPSIM_BYTES
        if whole:
            trace_kernels.champsim(np.frombuffer(data, np.uint64, whole // 8), *settings, totals)
        left = data[whole:]
    return bool(left)


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
