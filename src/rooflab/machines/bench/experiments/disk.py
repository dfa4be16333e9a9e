"""The disk under a directory: sequential and random access to a temporary file, past the page cache if it can."""

from __future__ import annotations

import contextlib
import itertools
import mmap
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rooflab.timing import Series
from rooflab.types.machine import DISK, MEMORY_FILES, PAGE_CACHE
from rooflab.units import GIB, MIB

LIMIT_BYTES = 1 * GIB
BLOCK_BYTES = 4 * MIB
PAGE_BYTES = 4096
_LEAST_BLOCKS = 8
_WINDOWS = 5
_F_NOCACHE = 48  # macOS: fcntl.h
# One random page from the fastest storage sold (Optane DC P5800X) takes 5 µs: Intel's product brief, 2020.
_FASTEST_DEVICE_S = 3e-6
_IN_MEMORY = ("tmpfs", "ramfs")


@dataclass(frozen=True)
class DiskRate:
    """One access pattern: bytes per second in each window of time, at queue depth 1."""

    what: str
    series: Series
    block_bytes: int


@dataclass(frozen=True)
class Disk:
    """What was measured under a directory.

    Attributes:
        label: name of the `Level`: "disk", "page cache" where that could not be bypassed, "files in memory"
            on tmpfs.
        filesystem: its type, where the system says.
        capacity_bytes: of the file system.
        note: why a label is what it is; None for a plain disk.
    """

    label: str
    rates: tuple[DiskRate, ...]
    filesystem: str | None
    capacity_bytes: int
    note: str | None = None


def measure_disk(
    directory: Path | None = None,
    *,
    seconds: float = 3.0,
    limit_bytes: int = LIMIT_BYTES,
    block_bytes: int = BLOCK_BYTES,
    filesystem: Callable[[Path], str | None] | None = None,
    rng: np.random.Generator | None = None,
    clock: Callable[[], float] = time.perf_counter,
    tick: Callable[[], None] = lambda: None,
) -> Disk | str:
    """Sequential and random bandwidths of a temporary file, or one sentence why there are none.

    At most `limit_bytes`, and a quarter of the free space, are written and about `seconds` spent; the file is
    removed in any case.

    Args:
        directory: where the file is written; the temporary directory if None.
        seconds: for all four patterns together.
        limit_bytes: size of the file at most.
        block_bytes: of one sequential access.
        filesystem: gives the type of a directory's file system; `filesystem_of` if None.
        rng: chooses the pages of random accesses.
        clock: gives the time in seconds.
        tick: called after each window of time; raises to stop.
    """
    where = directory
    try:
        where = where or Path(tempfile.gettempdir())  # raises where no candidate is writable
        room = os.statvfs(where)
        free, capacity = room.f_bavail * room.f_frsize, room.f_blocks * room.f_frsize
        limit, least = file_bytes(free, limit_bytes, block_bytes), _LEAST_BLOCKS * block_bytes
        if limit < least:
            return f"disk not measured: {where} has {free // MIB} MiB free, expected {4 * least // MIB}"
        handle, name = tempfile.mkstemp(prefix="rooflab-", dir=where)
        os.close(handle)
        try:
            pages = rng or np.random.default_rng()
            rates, direct = _access(Path(name), limit, block_bytes, seconds, pages, clock, tick)
        finally:
            os.unlink(name)
    except OSError as error:
        return f"disk not measured: {where or 'temporary directory'}: {error.strerror or error}"
    return labelled(rates, direct, (filesystem or filesystem_of)(where), capacity)


def file_bytes(free_bytes: int, limit_bytes: int, block_bytes: int = BLOCK_BYTES) -> int:
    """The size of the file: whole blocks within `limit_bytes` and a quarter of the free space."""
    return min(limit_bytes, free_bytes // 4) // block_bytes * block_bytes


def _access(
    path: Path,
    limit: int,
    block_bytes: int,
    seconds: float,
    rng: np.random.Generator,
    clock: Callable[[], float],
    tick: Callable[[], None],
) -> tuple[tuple[DiskRate, ...], bool]:
    """All four patterns, each within its share of the time; and whether the page cache was bypassed."""
    budget = seconds / 4
    with _opened(path) as (handle, direct), contextlib.closing(_buffer(block_bytes)) as block:
        written = 0

        def write_next() -> int:
            nonlocal written
            if written >= limit:
                return 0
            count = os.pwrite(handle, block, written)
            written += count
            return count

        rates = [_timed("write", write_next, budget, block_bytes, clock, tick, finish=lambda: os.fsync(handle))]
        whole = max(block_bytes, written // block_bytes * block_bytes)
        at = 0

        def read_next() -> int:
            nonlocal at
            count = os.preadv(handle, [block], at)
            at = (at + block_bytes) % whole
            return count

        rates.append(_timed("read", read_next, budget, block_bytes, clock, tick))
        pages = whole // PAGE_BYTES
        with contextlib.closing(_buffer(PAGE_BYTES)) as page:
            places = rng.integers(pages, size=1 << 16)
            turn = itertools.cycle(places.tolist())

            def read_page() -> int:
                return os.preadv(handle, [page], next(turn) * PAGE_BYTES)

            def write_page() -> int:
                return os.pwrite(handle, page, next(turn) * PAGE_BYTES)

            rates.append(_timed("random read 4 KiB", read_page, budget, PAGE_BYTES, clock, tick))
            rates.append(
                _timed("random write 4 KiB", write_page, budget, PAGE_BYTES, clock, tick, lambda: os.fsync(handle))
            )
    return tuple(rates), direct


def _timed(
    what: str,
    access: Callable[[], int],
    budget: float,
    block_bytes: int,
    clock: Callable[[], float],
    tick: Callable[[], None],
    finish: Callable[[], None] | None = None,
) -> DiskRate:
    """Bytes per second of `access` in up to five windows of time; `finish` is part of the last one."""
    values: list[float] = []
    ended = False
    while len(values) < _WINDOWS and not ended:
        start, moved = clock(), 0
        while clock() - start < budget / _WINDOWS:
            count = access()
            moved += count
            if count == 0:
                ended = True
                break
        if finish and (ended or len(values) == _WINDOWS - 1):
            finish()
        if moved:
            values.append(moved / (clock() - start))
        tick()
    return DiskRate(what, Series(tuple(values)), block_bytes)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[tuple[int, bool]]:
    """A descriptor that bypasses the page cache where the file system allows it, and whether it does."""
    handle, direct = -1, False
    try:
        if hasattr(os, "O_DIRECT"):
            try:
                handle = os.open(path, os.O_RDWR | os.O_DIRECT)
                direct = True
            except OSError:
                handle = os.open(path, os.O_RDWR)  # refused, as tmpfs did before Linux 6.6: the label says so
        else:
            handle = os.open(path, os.O_RDWR)
            with contextlib.suppress(ImportError, OSError):
                import fcntl

                fcntl.fcntl(handle, _F_NOCACHE, 1)
                direct = True
        yield handle, direct
    finally:
        if handle >= 0:
            os.close(handle)


def _buffer(nbytes: int) -> mmap.mmap:
    """Page-aligned memory, as O_DIRECT wants it, filled with bytes that do not compress."""
    buffer = mmap.mmap(-1, nbytes)
    buffer.write(np.random.default_rng(0).bytes(nbytes))
    return buffer


def filesystem_of(where: Path, mounts: Path = Path("/proc/mounts")) -> str | None:
    """The type of the file system that `where` lies on; None where the system does not say."""
    try:
        lines = mounts.read_text().splitlines()
    except OSError:
        return None
    target = where.resolve()
    best: tuple[int, str | None] = (-1, None)
    for line in lines:
        fields = line.split()
        if len(fields) < 3:
            continue
        point = Path(fields[1].replace("\\040", " "))
        if (target == point or point in target.parents) and len(point.parts) > best[0]:
            best = (len(point.parts), fields[2])
    return best[1]


def labelled(rates: tuple[DiskRate, ...], direct: bool, filesystem: str | None, capacity: int) -> Disk:
    """The rates under the name of what they are speeds of: a disk, the page cache, or memory."""
    if filesystem in _IN_MEMORY:
        note = f"the temporary directory lies on {filesystem}: these are memory speeds, not a disk's"
        return Disk(MEMORY_FILES, rates, filesystem, capacity, note)
    page = next((one.series for one in rates if one.what == "random read 4 KiB" and one.series.values), None)
    if direct and page and PAGE_BYTES / page.best < _FASTEST_DEVICE_S:
        note = "O_DIRECT is accepted but answers faster than any device: these are a cache's speeds"
        return Disk(PAGE_CACHE, rates, filesystem, capacity, note)
    if not direct:
        note = "the file system refuses O_DIRECT: these are page-cache speeds, not the disk's"
        return Disk(PAGE_CACHE, rates, filesystem, capacity, note)
    return Disk(DISK, rates, filesystem, capacity)
