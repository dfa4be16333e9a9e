"""The runtime of OpenMP that clang's code is run with: found, its threads kept on CPUs, its starts timed."""

from __future__ import annotations

import ctypes
import functools
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from llvmlite import binding

from rooflab.loops.compiled.target import target_machine
from rooflab.machines.bench.experiments import thread_teams
from rooflab.types.team_timing import TeamTiming

WAYS = "python -m pip install intel-openmp (it brings LLVM's runtime), or install libomp (Debian: libomp5)"
_NAMES = ("libomp.so.5", "libomp.so", "libiomp5.so", "libomp.dylib")
_FOLDERS = ("/usr/lib", "/usr/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/local/lib",
            "/opt/homebrew/opt/libomp/lib", "/usr/local/opt/libomp/lib")  # fmt: skip
_PIECES = 2000  # of each thread
_CALLS, _REGIONS, _STRETCHES, _FREE_CALLS = 41, 10, 3, 9
_IR = """
@rl.where = private constant [23 x i8] c";unknown;unknown;0;0;;\\00"
@rl.ident = private constant { i32, i32, i32, i32, ptr } { i32 0, i32 2, i32 0, i32 22, ptr @rl.where }
declare void @__kmpc_fork_call(ptr, i32, ptr, ...)
declare i32 @omp_get_thread_num()
declare i32 @sched_setaffinity(i32, i64, ptr)
define internal void @nothing(ptr %g, ptr %b) {
  ret void
}
define internal void @one_pinned(ptr %g, ptr %b, ptr %masks, i64 %bytes) {
  %t = call i32 @omp_get_thread_num()
  %n = sext i32 %t to i64
  %at = mul i64 %n, %bytes
  %mask = getelementptr i8, ptr %masks, i64 %at
  %s = call i32 @sched_setaffinity(i32 0, i64 %bytes, ptr %mask)
  ret void
}
declare i32 @__kmpc_global_thread_num(ptr)
declare void @__kmpc_dispatch_init_4(ptr, i32, i32, i32, i32, i32, i32)
declare i32 @__kmpc_dispatch_next_4(ptr, i32, ptr, ptr, ptr, ptr)
define internal void @asking(ptr %g, ptr %b, i64 %last) {
  %low = alloca i32
  %high = alloca i32
  %step = alloca i32
  %is_last = alloca i32
  %me = load i32, ptr %g
  %end = trunc i64 %last to i32
  call void @__kmpc_dispatch_init_4(ptr @rl.ident, i32 %me, i32 1073741859, i32 0, i32 %end, i32 1, i32 1)
  br label %again
again:
  %more = call i32 @__kmpc_dispatch_next_4(ptr @rl.ident, i32 %me, ptr %is_last, ptr %low, ptr %high, ptr %step)
  %some = icmp ne i32 %more, 0
  br i1 %some, label %again, label %done
done:
  ret void
}
define void @rl_ask(i64 %last) {
  call void (ptr, i32, ptr, ...) @__kmpc_fork_call(ptr @rl.ident, i32 1, ptr @asking, i64 %last)
  ret void
}
define void @rl_pin(ptr %masks, i64 %bytes) {
  call void (ptr, i32, ptr, ...) @__kmpc_fork_call(ptr @rl.ident, i32 2, ptr @one_pinned, ptr %masks, i64 %bytes)
  ret void
}
define void @rl_empty(i64 %times) {
  br label %again
again:
  %n = phi i64 [ 0, %0 ], [ %next, %again ]
  call void (ptr, i32, ptr, ...) @__kmpc_fork_call(ptr @rl.ident, i32 0, ptr @nothing)
  %next = add i64 %n, 1
  %more = icmp ult i64 %next, %times
  br i1 %more, label %again, label %done
done:
  ret void
}
"""


class Runtime(NamedTuple):
    """A runtime that is loaded: its name, its library, functions that call it, and what they live in."""

    name: str
    library: ctypes.CDLL
    pin: Callable[[int, int], None]
    empty: Callable[[int], None]
    ask: Callable[[int], None]
    held: Any

    @property
    def most(self) -> int:
        """How many threads a team of it has, unless it is told otherwise."""
        return int(self.library.omp_get_max_threads())


@functools.cache
def find() -> Runtime | None:
    """The runtime of this process, of the system, or of PyPI's intel-openmp; None where there is none."""
    for each in _candidates():
        try:
            library = ctypes.CDLL(each, mode=ctypes.RTLD_GLOBAL)
            library.__kmpc_fork_call  # noqa: B018
            # the same, which machine code made here finds it by
            binding.load_library_permanently(each)
        except (OSError, AttributeError, RuntimeError):
            # not there, or another library of that name
            continue
        return _opened(os.path.basename(each), library)
    return None


def _candidates() -> list[str]:
    """What may be a runtime: first the one that is loaded already, as a second one ends the process."""
    loaded = []
    maps = Path("/proc/self/maps")
    if maps.exists():
        places = {line.split(maxsplit=5)[-1].strip() for line in maps.read_text("utf-8", "replace").splitlines()}
        loaded = sorted(each for each in places if os.path.basename(each).startswith(("libomp.", "libiomp5.")))
    found = [*loaded, *_NAMES]
    folders = [Path(sys.prefix) / "lib", *map(Path, _FOLDERS)]
    folders += sorted(Path("/usr/lib").glob("llvm-*/lib"), reverse=True)
    return found + [str(folder / name) for folder in folders for name in _NAMES if (folder / name).exists()]


def _opened(name: str, library: ctypes.CDLL) -> Runtime:
    engine = binding.create_mcjit_compiler(binding.parse_assembly(_IR), target_machine())
    engine.finalize_object()
    pin = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(engine.get_function_address("rl_pin"))
    empty = ctypes.CFUNCTYPE(None, ctypes.c_int64)(engine.get_function_address("rl_empty"))
    ask = ctypes.CFUNCTYPE(None, ctypes.c_int64)(engine.get_function_address("rl_ask"))
    return Runtime(name, library, pin, empty, ask, engine)


@contextmanager
def team(runtime: Runtime, threads: int) -> Iterator[None]:
    """Within it teams have so many threads, each on a CPU of its own where there are enough."""
    before = runtime.most
    runtime.library.omp_set_num_threads(threads)
    masks = thread_teams.masks(threads) if threads > 1 else None
    try:
        if masks is not None:
            _pinned(runtime, masks[0])
        yield
    finally:
        if masks is not None:
            _pinned(runtime, masks[1])
        runtime.library.omp_set_num_threads(before)


def _pinned(runtime: Runtime, masks: np.ndarray) -> None:
    runtime.pin(masks.ctypes.data, masks.shape[1] * masks.itemsize)


def counts(most: int) -> list[int]:
    """Numbers of threads that are run: powers of two, and the most."""
    return sorted({most, *(2**n for n in range(1, most.bit_length()))} - {1})


def measure(runtime: Runtime, most: int) -> TeamTiming | None:
    """What starting and joining its teams takes here, by number of threads; None with one thread."""
    if most < 2:
        return None
    numbers, seconds, piece_s = counts(most), [], None
    for threads in numbers:
        with team(runtime, threads):
            runtime.empty(_REGIONS)
            seconds.append(statistics.median(_seconds(runtime, _REGIONS) / _REGIONS for _ in range(_CALLS)))
            if threads == most:
                asked = statistics.median(_asked(runtime, _PIECES * most) for _ in range(_FREE_CALLS))
                piece_s = max(0.0, asked - seconds[-1]) / _PIECES
    free = max(statistics.median(_seconds(runtime, 1) for _ in range(_FREE_CALLS)) for _ in range(_STRETCHES))
    pinned = tuple(seconds)
    return TeamTiming(layer=runtime.name, threads=tuple(numbers), pinned_s=pinned, free_s=free, piece_s=piece_s)


def _asked(runtime: Runtime, pieces: int) -> float:
    begun = time.perf_counter()
    runtime.ask(pieces - 1)
    return time.perf_counter() - begun


def _seconds(runtime: Runtime, times: int) -> float:
    begun = time.perf_counter()
    runtime.empty(times)
    return time.perf_counter() - begun
