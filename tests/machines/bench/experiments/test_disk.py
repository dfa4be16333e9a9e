"""The disk: a short real run, what it is called where it lies in memory or in the page cache, what goes wrong."""

from __future__ import annotations

import errno
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from rooflab.machines.bench.experiments.disk import (
    Disk,
    DiskRate,
    file_bytes,
    filesystem_of,
    labelled,
    measure_disk,
)
from rooflab.timing import Series
from rooflab.units import KIB, MIB

# It times what other tests would disturb.
pytestmark = pytest.mark.alone

SHM = Path("/dev/shm")
PATTERNS = ["write", "read", "random read 4 KiB", "random write 4 KiB"]


def short(where: Path, **more: object) -> Disk | str:
    """A run of 0.2 s over 2 MiB, in blocks of 256 KiB."""
    return measure_disk(where, seconds=0.2, limit_bytes=2 * MIB, block_bytes=256 * KIB, **more)  # type: ignore[arg-type]


def test_a_real_run_gives_four_patterns_and_leaves_no_file(tmp_path: Path) -> None:
    start = time.monotonic()
    found = short(tmp_path)
    took = time.monotonic() - start
    assert isinstance(found, Disk), found
    assert [rate.what for rate in found.rates] == PATTERNS
    assert [rate.block_bytes for rate in found.rates] == [256 * KIB, 256 * KIB, 4096, 4096]
    assert all(1 <= rate.series.runs <= 5 for rate in found.rates)
    assert all(value > 0 for rate in found.rates for value in rate.series.values)
    assert found.capacity_bytes > 2 * MIB
    assert not list(tmp_path.iterdir())
    # 0.2 s and what fsync takes: the bound is a hang's, not a speed's.
    assert took < 30


def test_no_more_is_written_than_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    furthest = 0
    pwrite = os.pwrite

    def watched(handle: int, data: bytes, offset: int) -> int:
        nonlocal furthest
        count = pwrite(handle, data, offset)
        furthest = max(furthest, offset + count)
        return count

    monkeypatch.setattr(os, "pwrite", watched)
    found = short(tmp_path, clock=_steps(1e-4))
    assert isinstance(found, Disk)
    assert furthest == 2 * MIB


def _steps(seconds: float) -> Callable[[], float]:
    """A clock on which every look takes `seconds`."""
    now = 0.0

    def clock() -> float:
        nonlocal now
        now += seconds
        return now

    return clock


def test_time_is_bounded_by_the_clock(tmp_path: Path) -> None:
    clock = _steps(0.01)
    found = measure_disk(tmp_path, seconds=1.0, limit_bytes=64 * MIB, block_bytes=256 * KIB, clock=clock)
    assert isinstance(found, Disk)
    # 4 patterns × 5 windows of 50 ms; each may run over by one access and its two looks at the clock.
    assert 1.0 <= clock() <= 1.0 + 20 * 0.04


@pytest.mark.skipif(filesystem_of(SHM) != "tmpfs", reason="/dev/shm is no tmpfs here")
def test_a_file_system_in_memory_is_called_memory() -> None:
    before = set(SHM.iterdir())
    found = short(SHM)
    if isinstance(found, str):
        pytest.skip(found)  # a container's /dev/shm may hold 64 MiB only
    assert found.label == "files in memory"
    assert found.filesystem == "tmpfs"
    assert found.note == "the temporary directory lies on tmpfs: these are memory speeds, not a disk's"
    assert not [path for path in set(SHM.iterdir()) - before if path.name.startswith("rooflab-")]


@pytest.mark.skipif(not hasattr(os, "O_DIRECT"), reason="this system has no O_DIRECT")
def test_refused_o_direct_is_called_page_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = os.open

    def refusing(path: str, flags: int, *rest: int) -> int:
        if flags & os.O_DIRECT:
            raise OSError(errno.EINVAL, "Invalid argument")
        return opened(path, flags, *rest)

    monkeypatch.setattr(os, "open", refusing)
    found = short(tmp_path, filesystem=lambda where: "ext4")
    assert isinstance(found, Disk)
    assert found.label == "page cache"
    assert found.note is not None
    assert "refuses O_DIRECT" in found.note


@pytest.mark.skipif(not hasattr(os, "O_DIRECT"), reason="this system has no O_DIRECT")
def test_a_cache_behind_o_direct_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    opened = os.open

    def granting(path: str, flags: int, *rest: int) -> int:
        asked.append(flags)
        return opened(path, flags & ~os.O_DIRECT, *rest)

    monkeypatch.setattr(os, "open", granting)
    # A page each microsecond: no device answers as fast, and no load on this machine changes it.
    found = measure_disk(
        tmp_path,
        seconds=0.001,
        limit_bytes=2 * MIB,
        block_bytes=256 * KIB,
        filesystem=lambda where: "ext4",
        clock=_steps(1e-6),
    )
    assert isinstance(found, Disk)
    assert found.label == "page cache"
    assert found.note == "O_DIRECT is accepted but answers faster than any device: these are a cache's speeds"
    assert any(flags & os.O_DIRECT for flags in asked)


def test_bypassed_page_cache_is_called_disk() -> None:
    pages = DiskRate("random read 4 KiB", Series((60e6,)), 4096)  # 68 µs a page
    assert labelled((pages,), True, "ext4", 10**12) == Disk("disk", (pages,), "ext4", 10**12)


def test_too_little_room_is_said_and_nothing_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Room:
        f_bavail, f_frsize, f_blocks = 25 * 256, 4096, 10**6  # 25 MiB free

    monkeypatch.setattr(os, "statvfs", lambda where: Room)
    assert measure_disk(tmp_path) == f"disk not measured: {tmp_path} has 25 MiB free, expected 128"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("free_mib", "limit_mib", "expected_mib"),
    [
        (200, 1024, 48),  # a quarter is 50, in whole blocks of 4 MiB
        (10**6, 1024, 1024),
        (10, 1024, 0),
    ],
)
def test_a_quarter_of_the_free_room_at_most(free_mib: int, limit_mib: int, expected_mib: int) -> None:
    assert file_bytes(free_mib * MIB, limit_mib * MIB) == expected_mib * MIB


def test_a_missing_directory_is_said(tmp_path: Path) -> None:
    missing = tmp_path / "none"
    assert short(missing) == f"disk not measured: {missing}: No such file or directory"


def test_an_unwritable_directory_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**where: object) -> tuple[int, str]:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(tempfile, "mkstemp", refuse)
    assert short(tmp_path) == f"disk not measured: {tmp_path}: Permission denied"


def test_no_temporary_directory_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> str:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found in ['/tmp']")

    monkeypatch.setattr(tempfile, "gettempdir", none)
    found = measure_disk()
    assert found == "disk not measured: temporary directory: No usable temporary directory found in ['/tmp']"


@pytest.mark.parametrize("call", ["pwrite", "preadv", "fsync"])
def test_a_disk_that_fails_gives_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    def fail(*arguments: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, call, fail)
    assert short(tmp_path) == f"disk not measured: {tmp_path}: No space left on device"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError, MemoryError])
def test_the_file_goes_whatever_is_raised(tmp_path: Path, error: type[BaseException]) -> None:
    ticks = []

    def tick() -> None:
        ticks.append(len(list(tmp_path.iterdir())))
        if len(ticks) == 3:
            raise error

    handles = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else None
    with pytest.raises(error):
        short(tmp_path, tick=tick)
    assert ticks == [1, 1, 1]
    assert not list(tmp_path.iterdir())
    if handles is not None:
        assert len(os.listdir("/proc/self/fd")) == handles


def test_random_places_come_from_the_generator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    preadv = os.preadv

    def offsets(seed: int) -> list[int]:
        seen: list[int] = []

        def watched(handle: int, buffers: list, offset: int) -> int:
            if len(buffers[0]) == 4096:
                seen.append(offset)
            return preadv(handle, buffers, offset)

        monkeypatch.setattr(os, "preadv", watched)
        found = measure_disk(
            tmp_path,
            seconds=0.04,
            limit_bytes=2 * MIB,
            block_bytes=256 * KIB,
            rng=np.random.default_rng(seed),
            clock=_steps(1e-4),
        )
        assert isinstance(found, Disk)
        return seen

    first = offsets(1)
    assert first == offsets(1) != offsets(2)
    assert all(offset % 4096 == 0 and 0 <= offset < 2 * MIB for offset in first)
    assert len(set(first)) > len(first) // 2


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("/", "ext4"),
        ("/home/me", "xfs"),
        ("/home/me/deep/down", "xfs"),
        ("/homestead", "ext4"),  # not under /home
        ("/mnt/my disk/x", "btrfs"),  # the kernel writes a blank as \040
    ],
)
def test_the_file_system_of_a_path(tmp_path: Path, where: str, expected: str) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(
        "/dev/a / ext4 rw 0 0\n/dev/b /home xfs rw 0 0\nbroken\n/dev/c /mnt/my\\040disk btrfs rw 0 0\n"
    )
    assert filesystem_of(Path(where), mounts) == expected


def test_a_file_system_that_is_not_told(tmp_path: Path) -> None:
    assert filesystem_of(tmp_path, tmp_path / "none") is None
