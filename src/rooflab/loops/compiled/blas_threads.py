"""How many threads the BLAS libraries of this process compute on: one, while a loop is timed on one core.

numba calls the BLAS that SciPy brings, which spreads a large product over all cores of its own accord: what is
timed as one core's would be half as long on two.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

_MAPS = Path("/proc/self/maps")
# OpenBLAS's own interface (its README), with the prefix of the builds for SciPy and NumPy and the suffix of those
# with 64-bit indices; MKL's, which takes the number itself (oneMKL developer reference, "Threading Control")
_PAIRS = (
    *(
        (f"{prefix}openblas_get_num_threads{suffix}", f"{prefix}openblas_set_num_threads{suffix}")
        for prefix in ("", "scipy_")
        for suffix in ("", "64_", "_64")
    ),
    ("MKL_Get_Max_Threads", "MKL_Set_Num_Threads"),
)
_NAMES = ("openblas", "mkl_rt")  # in the names of their files


class Pool(NamedTuple):
    """Of one library: how many threads it has, and what changes that."""

    threads: Callable[[], int]
    change: Callable[[int], object]


def pools(maps: Path = _MAPS) -> tuple[Pool, ...]:
    """Those of the libraries that are loaded; empty where that cannot be seen, as outside of Linux."""
    try:
        lines = maps.read_text("utf-8", errors="replace").splitlines()
    except OSError:
        return ()
    paths = dict.fromkeys(line.split(maxsplit=5)[-1] for line in lines if line.count(" ") and "/" in line)
    found = []
    for path in paths:
        if any(name in Path(path).name for name in _NAMES):
            with contextlib.suppress(OSError):  # a file that has been replaced since it was loaded
                found += _of_library(ctypes.CDLL(path))
    return tuple(found)


def _of_library(library: ctypes.CDLL) -> list[Pool]:
    return [
        Pool(getattr(library, count), getattr(library, change))
        for count, change in _PAIRS
        if hasattr(library, count) and hasattr(library, change)
    ]


@contextlib.contextmanager
def at_most(threads: int) -> Iterator[None]:
    """Within it, the BLAS libraries that are loaded have no more than so many threads."""
    changed = []
    try:
        for pool in pools():
            before = pool.threads()
            if before > threads:
                changed.append((pool, before))
                pool.change(threads)
        yield
    finally:
        for pool, before in changed:
            pool.change(before)
