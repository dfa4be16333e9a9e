"""What a twin calls beside the simulator: counters of blocks, trips of loops, indices out of bounds, the stop.

The memory at `events` holds, as 64-bit words: STOP, which another thread sets to end the run; what went out
of bounds; AT, the loop in which the run was stopped; and from VARIABLES on the value of each loop's variable,
so that an error and a stop can say where they were. The memory at `passes` holds how often each block ran.
"""

from __future__ import annotations

from typing import Any

from numba import njit, types
from numba.extending import intrinsic

from rooflab.cachesim.native.words import I64, add, pointer, store

STOP, REF, AXIS, INDEX, LENGTH, AT, VARIABLES = 0, 1, 2, 3, 4, 5, 8
_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"}


@intrinsic
def _watched(typing_context: Any, base: Any, index: Any) -> Any:
    """The word `index` after `base`, read anew each time: another thread writes it."""

    def generate(context, builder, signature, args):
        return builder.load_atomic(pointer(builder, args[0], args[1]), "monotonic", 8, typ=I64)

    return types.int64(types.int64, types.int64), generate


@njit(**_OPTIONS)
def enter(passes, block):
    """Count a pass of `block`."""
    add(passes, block, 1)


@njit(**_OPTIONS)
def step(passes, block, events, loop, variable):
    """Count a trip of `loop`, note its variable, and end the run where that is asked for."""
    add(passes, block, 1)
    store(events, VARIABLES + loop, variable)
    if _watched(events, STOP) != 0:  # type: ignore[call-arg]
        store(events, AT, loop)
        raise InterruptedError


@njit(**_OPTIONS)
def outside(events, ref, axis, index, length):
    """The element that a negative `index` means, counted from the end; an IndexError where there is none."""
    if -length <= index < 0:
        return index + length
    store(events, REF, ref)
    store(events, AXIS, axis)
    store(events, INDEX, index)
    store(events, LENGTH, length)
    raise IndexError
