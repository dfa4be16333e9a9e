"""A file opened for reading whatever it is packed with, within limits on what it may unpack to."""

from __future__ import annotations

import codecs
import gzip
import lzma
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from rooflab.errors import FileError, MissingExtraError
from rooflab.units import si

LIMIT_BYTES = 16 * 2**30  # unpacked, unless the caller allows more
RATIO = 200  # unpacked over packed: traces reach 40, a bomb 1,000
_FREE_BYTES = 64 * 2**20  # small files may be packed as well as they like
_CHUNK_BYTES = 2 * 2**20

_PACKED = ((b"\x1f\x8b", "gzip"), (b"\xfd7zXZ\x00", "xz"), (b"\x28\xb5\x2f\xfd", "zstd"))


Progress = Callable[[str, float, float], None]  # what is done, how far, of how much; 0 of 0 where unknown

_PROGRESS: ContextVar[Progress | None] = ContextVar("progress", default=None)


@contextmanager
def watched(progress: Progress | None) -> Iterator[None]:
    """While it is open, each piece of a file that is read is told to `progress`, whichever format reads it."""
    before = _PROGRESS.set(progress)
    try:
        yield
    finally:
        _PROGRESS.reset(before)


# What a caller allows a file to unpack to, whatever it is packed into; None for the limits above.
_ALLOWED: ContextVar[float | None] = ContextVar("allowed", default=None)


@contextmanager
def allowing(limit_bytes: float | None) -> Iterator[None]:
    """Within it files may unpack to `limit_bytes`, and to any multiple of their size; None changes nothing."""
    token = _ALLOWED.set(limit_bytes)
    try:
        yield
    finally:
        _ALLOWED.reset(token)


def chunks(path: Path, limit_bytes: float = LIMIT_BYTES, chunk_bytes: int = _CHUNK_BYTES) -> Iterator[bytes]:
    """The content of the file at `path`, unpacked, piece by piece; a cut end gives what came before it.

    Text that begins with a mark of byte order is given as UTF-8 without it: PowerShell's ">" writes UTF-16.

    Raises:
        FileError: no such file, one that cannot be read, or one that unpacks to more than `limit_bytes`, or to
            more than 200 times its size.
    """
    pieces = _unpacked(path, limit_bytes, chunk_bytes)
    first = next(pieces, None)
    if first is None:
        return
    if first.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        decoder = codecs.getincrementaldecoder("utf-16")("replace")
        yield decoder.decode(first).encode()
        for piece in pieces:
            yield decoder.decode(piece).encode()
    else:
        yield first.removeprefix(codecs.BOM_UTF8)
        yield from pieces


def _unpacked(path: Path, limit_bytes: float, chunk_bytes: int) -> Iterator[bytes]:
    """The content as it is in the file, unpacked."""
    packed_bytes = _size(path)
    given, told = 0, _PROGRESS.get()
    allowed = _ALLOWED.get()
    limit_bytes = limit_bytes if allowed is None else allowed
    with _opened(path) as stream:
        while True:
            try:
                piece = stream.read(chunk_bytes)
            except (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile) as error:
                # Cut short or damaged: what stands before it is read, and the reader notices by its own means.
                rest = _before_damage(path, given)
                if not rest and not given:
                    raise FileError(f"{path}: cannot be unpacked: {error}") from None
                yield rest
                return
            except OSError as error:
                raise FileError(f"{path}: cannot be read: {error.strerror or error}") from None
            if not piece:
                return
            given += len(piece)
            if told is not None:
                told(f"reading {path.name}", *_place(stream, packed_bytes))
            if given > limit_bytes:
                raise FileError(
                    f"{path}: more than {si(limit_bytes, 'B')} unpacked; give a higher limit (--limit) to read it"
                )
            if allowed is None and given > _FREE_BYTES and given > RATIO * packed_bytes:
                raise FileError(
                    f"{path}: unpacks to more than {RATIO} times its {packed_bytes} bytes, as a bomb does; if it "
                    "is none, say how much it may unpack to (--limit 20GB)"
                )
            yield piece


_STEP_BYTES = 512  # packed, of what is tried again


def _before_damage(path: Path, given: int) -> bytes:
    """What the packed file at `path` holds after its first `given` bytes and before it is damaged, at most 4 MiB.

    A reader of packed files throws away what it unpacked in the step in which it failed.
    """
    with path.open("rb") as file:
        magic = file.read(8)
        file.seek(0)
        if magic.startswith(b"\x1f\x8b"):
            decoder: Any = zlib.decompressobj(wbits=31)
        elif magic.startswith(b"\xfd7zXZ"):
            decoder = lzma.LZMADecompressor()
        else:
            return b""
        seen, rest = 0, b""
        while len(rest) < _CHUNK_BYTES and (packed := file.read(_STEP_BYTES)):
            try:
                piece = decoder.decompress(packed)
            except (zlib.error, lzma.LZMAError, EOFError):
                break
            rest += piece[max(given - seen, 0) :]
            seen += len(piece)
    return rest


def _place(stream: Any, packed_bytes: int) -> tuple[float, float]:
    """How far `stream` is in the file, of how much; zeros where its packing does not tell."""
    file = getattr(stream, "fileobj", stream)  # gzip's: the packed file beneath
    try:
        return (0.0, 0.0) if isinstance(stream, lzma.LZMAFile) else (float(file.tell()), float(packed_bytes))
    except (AttributeError, OSError, ValueError):
        return 0.0, 0.0


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        raise FileError(f"{path}: no such file") from None
    except OSError as error:
        raise FileError(f"{path}: cannot be read: {error.strerror or error}") from None


def _opened(path: Path) -> Any:
    try:
        with path.open("rb") as file:
            head = file.read(8)
        packing = next((name for magic, name in _PACKED if head.startswith(magic)), None)
        if packing == "gzip":
            return gzip.open(path, "rb")
        if packing == "xz":
            return lzma.open(path, "rb")
        if packing == "zstd":
            return _zstd(path)
        return path.open("rb")
    except IsADirectoryError:
        raise FileError(f"{path}: a folder, expected a file") from None
    except OSError as error:
        raise FileError(f"{path}: cannot be read: {error.strerror or error}") from None


def _zstd(path: Path) -> Any:
    try:
        import zstandard  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise MissingExtraError("zstandard", "zstd", "files packed with zstd") from None
    return zstandard.open(path, "rb")


TEXT_BYTES = 2 * 2**30  # of a table, which is read whole


def content(path: Path, limit_bytes: float = TEXT_BYTES) -> bytes:
    """The whole content of the file at `path`, unpacked; errors as in `chunks`."""
    return b"".join(chunks(path, limit_bytes))


_HEAD_BYTES = 64 * 2**10


def head_of(path: Path) -> bytes:
    """The first 64 KiB of the file at `path`, unpacked; errors as in `chunks`."""
    return next(chunks(path, chunk_bytes=_HEAD_BYTES), b"")
