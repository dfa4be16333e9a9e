"""Streams run through caches: the one place that chooses between kernels."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from rooflab.cachesim import hierarchy, nests, warping
from rooflab.cachesim.compiled import ready
from rooflab.cachesim.stream import Stream
from rooflab.types.simulation import Cache, Simulation


def simulate_stream(
    stream: Stream,
    levels: Sequence[Cache],
    *,
    tlbs: Sequence[Cache] = (),
    classify: bool = False,
    exact: bool = False,
    assumptions: tuple[str, ...] = (),
) -> Simulation:
    """What `levels` do with `stream` (see `rooflab.simulate`)."""
    unit = levels[0].unit_bytes if levels else 1
    units = stream.footprint_bytes // unit + 2 * len(stream.spans) if classify else None
    built = hierarchy.build(levels, tlbs=tlbs, references=stream.references, units=units, limit=_limit(stream))
    if stream.program is not None:
        warping.prepare(built)
        begun = time.perf_counter()
        warping.run_program(built, stream.program, np.array(stream.spans, np.int64), exact)
    else:
        assert stream.walk is not None
        from rooflab.cachesim import walks

        name, numbers = stream.walk
        table, walk = np.array(numbers, np.int64), walks.WALKS[name]
        ready(walk, built.address, table.ctypes.data)
        begun = time.perf_counter()
        walk(built.address, table.ctypes.data)
    seconds = time.perf_counter() - begun
    return built.result(
        stream.name,
        arrays=stream.arrays,
        accesses=stream.accesses,
        accessed_bytes=stream.accessed_bytes,
        assumptions=assumptions,
        seconds=seconds,
    )


def _limit(stream: Stream) -> int | None:
    """Where the addresses of `stream` end; None where it makes other requests than loads and stores."""
    if stream.program is not None and nests.streams(stream.program):
        return None
    return max(end for _, end in stream.spans)
