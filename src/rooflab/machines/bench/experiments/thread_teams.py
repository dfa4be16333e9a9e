"""What numba's teams of threads take to start and join; threads of such a team kept each on a CPU of its own.

Left to the scheduler, two threads of a team may be put on one CPU: then one spins in the barrier while the other
waits for it, milliseconds long, until the scheduler parts them. Pinned ones are apart from the start.
"""

from __future__ import annotations

import hashlib
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from rooflab.types.team_timing import TeamTiming

_VERSION = 2
SETTINGS_FILE = ".numba_config.yaml"  # numba's, in the folder that a process runs in
_CALLS, _REGIONS, _STRETCHES, _FREE_CALLS = 41, 10, 3, 9
_MOMENTS, _PAUSE_S = 5, 0.02  # what disturbs one of them does not disturb most
_APART = 16  # words from one thread's word to the next: two lines


def most() -> int:
    """How many threads numba's teams may have; numba is imported where only it knows."""
    asked = os.environ.get("NUMBA_NUM_THREADS", "")
    if "numba" in sys.modules or Path(SETTINGS_FILE).is_file() or (asked and not asked.isdigit()):
        import numba

        return numba.get_num_threads()
    here = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return int(asked or max(1, here))


def have_begun() -> bool:
    """Whether numba has begun its threads in this process."""
    parallel = sys.modules.get("numba.np.ufunc.parallel")
    # private, and nothing else says so; where it is called otherwise by now, they may have begun
    return parallel is not None and bool(getattr(parallel, "_is_initialized", True))


def can_pin() -> bool:
    """Whether threads can be kept on CPUs here."""
    return sys.platform == "linux"


@contextmanager
def at_most(threads: int | None) -> Iterator[None]:
    """Within it, numba's teams have so many threads, or as many as there are where those are fewer; None: all."""
    if threads is None:
        yield
        return
    import numba

    before = numba.get_num_threads()
    numba.set_num_threads(min(threads, before))
    try:
        yield
    finally:
        numba.set_num_threads(before)


@contextmanager
def pinned(threads: int, pin: Callable[[np.ndarray], Any] | None = None) -> Iterator[None]:
    """Within it, each of numba's `threads` threads stays on a CPU of its own, of those that this process may use.

    Where there are fewer CPUs than threads, or none can be chosen, they are left as they are. `pin` does it: given
    sets of CPUs by thread, as words of 64 bits; by default the one of `bench.kernels.teams`.
    """
    found = masks(threads)
    if found is None:
        yield
        return
    if pin is None:
        from rooflab.machines.bench.kernels import teams

        pin = teams.pin
    pin(found[0])
    try:
        yield
    finally:
        pin(found[1])


def masks(threads: int) -> tuple[np.ndarray, np.ndarray] | None:
    """Bits of the CPUs that each of `threads` is to stay on, and those of all; None where they are left free."""
    cpus = sorted(os.sched_getaffinity(0)) if can_pin() else []
    if threads < 2 or len(cpus) < threads:
        return None
    alone = np.zeros((threads, max(cpus) // 64 + 1), np.uint64)
    for thread, cpu in enumerate(_spread(cpus, threads)):
        alone[thread, cpu // 64] = np.uint64(1) << np.uint64(cpu % 64)
    all_of_them = np.zeros_like(alone)
    for cpu in cpus:
        all_of_them[:, cpu // 64] |= np.uint64(1) << np.uint64(cpu % 64)
    return alone, all_of_them


def _spread(cpus: list[int], threads: int) -> list[int]:
    """So many of `cpus`: one of each core first, their siblings after all cores have one."""
    from rooflab.machines.detect import detect

    siblings = {each.number: each.siblings for each in detect(gpus=False).cpus}
    seen: dict[tuple[int, ...], int] = {}
    order = []
    for cpu in cpus:
        core = siblings.get(cpu, (cpu,))
        order.append((seen.get(core, 0), cpu))
        seen[core] = seen.get(core, 0) + 1
    return [cpu for _, cpu in sorted(order)][:threads]


def measure() -> TeamTiming | None:
    """What numba's teams take here, by number of threads; from disk where it is there. None with one thread."""
    count = most()
    if count < 2:
        return None
    path = _path(count)
    if path.exists():
        try:
            return msgspec.json.decode(path.read_bytes(), type=TeamTiming)
        except msgspec.DecodeError:
            # cut off, or of another version: measured anew
            path.unlink(missing_ok=True)
    return afresh()


def afresh() -> TeamTiming | None:
    """The same measured now, and kept on disk where that can be written to."""
    count = most()
    if count < 2:
        return None
    found, path = _measured(count), _path(count)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(msgspec.json.encode(found))
    except OSError:
        # no home that can be written to: measured anew by the next process
        pass
    return found


def _path(threads: int) -> Path:
    from llvmlite import binding

    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    asked = [f"{name}={os.environ.get(name, '')}" for name in ("NUMBA_THREADING_LAYER", "OMP_WAIT_POLICY")]
    key = "|".join((str(_VERSION), binding.get_host_cpu_name(), str(threads), *asked))
    return Path(home) / "rooflab" / f"team-{hashlib.sha256(key.encode()).hexdigest()[:16]}.json"


def _measured(most_threads: int) -> TeamTiming:
    import numba
    from numba.np.ufunc.parallel import threading_layer

    from rooflab.machines.bench.kernels.teams import empty

    counts = tuple(
        sorted({2, *(2**n for n in range(1, most_threads.bit_length()) if 2**n <= most_threads), most_threads})
    )
    times: dict[int, list[float]] = {count: [] for count in (1, *counts)}
    try:
        for moment in range(_MOMENTS):
            if moment:
                time.sleep(_PAUSE_S)
            for count in times:
                numba.set_num_threads(count)
                words = np.zeros((count, _APART), np.int64)
                with pinned(count):
                    empty(words, _REGIONS)
                    seconds = [_seconds(empty, words, _REGIONS) / _REGIONS for _ in range(_CALLS)]
                times[count].append(statistics.median(seconds))
        words = np.zeros((most_threads, _APART), np.int64)
        # one call after the other, as a program makes them that does something else in between
        free = max(
            statistics.median(_seconds(empty, words, 1) for _ in range(_FREE_CALLS)) for _ in range(_STRETCHES)
        )
    finally:
        numba.set_num_threads(most_threads)
    typical = {count: statistics.median(each) for count, each in times.items()}
    pinned_s = tuple(typical[count] for count in counts)
    return TeamTiming(layer=threading_layer(), threads=counts, pinned_s=pinned_s, alone_s=typical[1], free_s=free)


def _seconds(empty: Callable[[np.ndarray, int], None], words: np.ndarray, times: int) -> float:
    begun = time.perf_counter()
    empty(words, times)
    return time.perf_counter() - begun
