"""What traces of ROCm's tools have in common: agents by number, directions of copies, grids in threads."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from rooflab.observe.reading.activities import Activities
from rooflab.types.trace import NONE, Device, Dropped, Kernels, Launches, Shape, Trace

_NUMBER = re.compile(r"(\d{1,9})\s*$")
# Directions by their ends, which all versions have: HOST_TO_DEVICE, MEMORY_COPY_HOST_TO_DEVICE.
_COPIES = {
    "HOST_TO_DEVICE": "Memcpy HtoD",
    "DEVICE_TO_HOST": "Memcpy DtoH",
    "DEVICE_TO_DEVICE": "Memcpy DtoD",
    "HOST_TO_HOST": "Memcpy HtoH",
}
MARKERS = "MARKER"  # how domains of ranges begin


def agent(text: str) -> int:
    """The number in "Agent 4", "GPU 3" or "4"; `NONE` without one."""
    found = _NUMBER.search(text)
    return int(found.group(1)) if found else NONE


def copy_name(direction: str) -> str:
    """The name of a copy, in the words of other traces."""
    upper = direction.upper()
    return next((name for end, name in _COPIES.items() if upper.endswith(end)), "Memcpy")


def copy_device(name: str, source: int, target: int) -> int:
    """The device that a copy is of: the one that is not the host."""
    return source if name == "Memcpy DtoH" else target


def shape(
    threads: Sequence[int],
    group: Sequence[int],
    registers: int = NONE,
    shared_bytes: int = NONE,
) -> Shape:
    """The shape of a launch whose grid is given in threads."""
    sizes = [size for size in (*threads, *group) if size < 1]
    return Shape(
        None if sizes else tuple(-(-size // each) for size, each in zip(threads, group, strict=True)),
        tuple(group) if min(group, default=0) > 0 else None,
        registers if registers >= 0 else None,
        shared_bytes if shared_bytes >= 0 else None,
    )


def trace(
    source: str,
    activities: Activities,
    devices: Iterable[Device] = (),
    dropped: Iterable[Dropped] = (),
    notes: Iterable[str] = (),
) -> Trace:
    """All that was kept, as a trace."""
    said = list(notes)
    if not activities.has(Kernels):
        said.append("no kernel of a device is in it: profile with --kernel-trace; the times are the host's")
    elif not activities.has(Launches):
        said.append("no calls of HIP are in this file: the causes of idle time are not known")
    return activities.trace(source, devices=devices, dropped=dropped, notes=said)


def whole_column(numbers: Iterable[int]) -> NDArray[np.int64]:
    """`numbers` as a column."""
    return np.array(list(numbers), np.int64)
