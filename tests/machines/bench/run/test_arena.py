"""Memory to measure in: where it lies, what it holds, what the system says of its pages."""

from __future__ import annotations

import mmap
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rooflab.machines.bench.run.arena import FILL, HUGE_PAGE_BYTES, Arena
from rooflab.machines.bench.run.pinned_threads import PinnedThreads
from rooflab.machines.bench.run.thread_arenas import SLACK_BYTES, ThreadArenas
from rooflab.machines.bench.run.trials import JITTER_BYTES
from rooflab.units import MIB
from support.machines.workshop import Workshop


@given(nbytes=st.integers(1, 4 * MIB))
def test_aligned_and_wholly_inside(nbytes: int) -> None:
    arena = Arena.reserve(nbytes)
    assert arena.address % HUGE_PAGE_BYTES == 0
    arena.touch()
    whole = arena.view(np.uint8, 0, nbytes)
    assert whole.size == nbytes
    assert (whole[0], whole[-1]) == (FILL, FILL)


def test_touching_a_range_leaves_the_rest() -> None:
    arena = Arena.reserve(8192)
    arena.touch(64, 128)
    found = arena.view(np.uint8, 0, 256)
    assert found[:64].max() == 0
    assert set(found[64:192]) == {FILL}
    assert found[192:].max() == 0


def test_a_view_is_the_memory_itself() -> None:
    arena = Arena.reserve(8192)
    arena.view(np.int64, 128, 64)[:] = 7
    assert list(arena.view(np.int64, 120, 24)) == [0, 7, 7]


def test_the_fill_is_a_normal_number_in_every_format() -> None:
    arena = Arena.reserve(4096)
    arena.touch()
    for kind in (np.float64, np.float32, np.float16):
        values = arena.view(kind, 0, 64)
        assert np.isfinite(values).all()
        assert (np.abs(values) >= np.finfo(kind).tiny).all()


def test_a_kernel_without_huge_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    class Refusing(mmap.mmap):
        def madvise(self, *arguments: int) -> None:  # type: ignore[override]
            raise OSError(22, "Invalid argument")

    monkeypatch.setattr("rooflab.machines.bench.run.arena.mmap.mmap", Refusing)
    arena = Arena.reserve(MIB)
    arena.touch()
    assert arena.view(np.uint8, 0, 1)[0] == FILL


def smaps(tmp_path: Path, text: str) -> Path:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/smaps").write_text(text)
    return tmp_path


def block(first: int, last: int, resident: int, huge: int) -> str:
    return (
        f"{first:08x}-{last:08x} rw-p 00000000 00:00 0 \nSize: 1 kB\nRss:  {resident} kB\n"
        f"AnonHugePages:    {huge} kB\nVmFlags: rd wr\n"
    )


@pytest.mark.parametrize(("resident", "huge", "share"), [(8192, 8192, 1.0), (8192, 2048, 0.25), (4096, 0, 0.0)])
def test_share_of_huge_pages(tmp_path: Path, resident: int, huge: int, share: float) -> None:
    arena = Arena.reserve(8 * MIB)
    here, there = arena.address, arena.address + 16 * MIB
    text = (
        block(0x1000, 0x2000, 4, 0)
        + block(here - 4096, here + 8 * MIB, resident, huge)
        + block(there, there + 1, 1, 1)
    )
    assert arena.huge_share(smaps(tmp_path, text)) == share


@pytest.mark.parametrize("case", ["untouched", "elsewhere", "no such line"])
def test_share_of_huge_pages_that_is_not_told(tmp_path: Path, case: str) -> None:
    arena = Arena.reserve(8 * MIB)
    here = block(arena.address, arena.address + 8 * MIB, 0 if case == "untouched" else 8192, 0)
    if case == "elsewhere":
        here = block(0x1000, 0x2000, 4, 4)
    if case == "no such line":
        here = here.replace("AnonHugePages", "Other")
    assert arena.huge_share(smaps(tmp_path, here)) is None
    assert arena.huge_share(tmp_path / "none") is None


def test_every_cpu_has_memory_of_its_own_with_room_for_jitter(workshop: Workshop) -> None:
    asked = dict.fromkeys(workshop.cpus, 3 * MIB)
    with PinnedThreads(workshop.cpus) as pinned:
        arenas = ThreadArenas.touched(pinned, asked)
    assert set(arenas.by_cpu) == set(workshop.cpus)
    kernel = workshop.bench.kernels[workshop.streams[0].symbol]
    for cpu, arena in arenas.by_cpu.items():
        assert arena.nbytes >= 3 * MIB + SLACK_BYTES
        assert arena.view(np.uint8, 0, arena.nbytes).min() == FILL
        for streams in (1, 2, 3):
            job = arenas.stream_job(cpu, kernel, streams, 3 * MIB)
            for start in (job.a, job.b, job.c)[:streams]:
                assert arena.address <= start
                assert start + job.nbytes + JITTER_BYTES <= arena.address + arena.nbytes
    starts = sorted(arena.address for arena in arenas.by_cpu.values())
    assert len(set(starts)) == len(starts)
