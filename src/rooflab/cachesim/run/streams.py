"""Streams run through caches: the one place that chooses between kernels."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from rooflab.cachesim.level import hierarchy
from rooflab.cachesim.native.compile import ready
from rooflab.cachesim.run import final_write_back, time_limit, warping
from rooflab.cachesim.streams import nests
from rooflab.cachesim.streams.stream import Stream
from rooflab.timing import check_time_limit
from rooflab.types.simulation import Cache, Simulation


def simulate_stream(
    stream: Stream,
    levels: Sequence[Cache],
    *,
    tlbs: Sequence[Cache] = (),
    classify: bool = False,
    exact: bool = False,
    flush: bool = False,
    time_limit_s: float | None = None,
    assumptions: tuple[str, ...] = (),
    pacing: time_limit.Pacing = time_limit.BY_THE_CLOCK,
) -> Simulation:
    """What `levels` do with `stream` (see `rooflab.simulate`); with a time limit, in pieces of that `pacing`.

    Raises:
        RooflabError: levels that do not fit each other, a time limit that is not a positive number.
    """
    check_time_limit(time_limit_s)
    unit = levels[0].unit_bytes if levels else 1
    units = stream.most_units(unit) if classify else None
    built = hierarchy.build(
        levels, tlbs=tlbs, references=stream.references, units=units, address_end=_address_end(stream)
    )
    ran = time_limit.Ran(stream.accesses, stream.accessed_bytes, True)
    if stream.program is not None:
        warping.prepare(built, stream.program)
    begun = time.perf_counter()
    if time_limit_s is not None:
        ran = time_limit.run(built, stream, time_limit_s, exact, pacing)
    elif stream.program is not None:
        warping.run_program(built, stream.program, np.array(stream.spans, np.int64), exact)
    else:
        assert stream.irregular is not None
        from rooflab.cachesim.run import irregular

        name, numbers = stream.irregular
        table, kernel = np.array(numbers, np.int64), irregular.kernel_of(name, built.queued)
        ready(kernel, built.address, table.ctypes.data)
        begun = time.perf_counter()
        kernel(built.address, table.ctypes.data)
    return final_write_back.result_of(
        built,
        stream.name,
        flush=flush,
        owners=stream.owners,
        spans=stream.spans,
        arrays=stream.arrays,
        accesses=ran.accesses,
        accessed_bytes=ran.accessed_bytes,
        assumptions=assumptions,
        complete=ran.complete,
        seconds=time.perf_counter() - begun,
    )


def _address_end(stream: Stream) -> int | None:
    """Where the addresses of `stream` end; None where it makes other requests than loads and stores."""
    if stream.program is not None and nests.streams(stream.program):
        return None
    return max(end for _, end in stream.spans)
