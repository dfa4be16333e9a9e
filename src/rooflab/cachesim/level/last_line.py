"""The last line of each set, noted by a first level for the inlined part of an access (see `access`)."""

from __future__ import annotations

from numba import njit

from rooflab.cachesim.native.compile import INLINED
from rooflab.cachesim.native.layout import LAST_LINES, NOTES_LAST_LINE, PREFETCH, SLOT_MASK, SLOT_SHIFT, UNIT_SHIFT
from rooflab.cachesim.native.words import load, store


@njit(**INLINED)
def _slot(level, address):
    return load(level, LAST_LINES) + ((address >> load(level, SLOT_SHIFT)) & load(level, SLOT_MASK))


@njit(**INLINED)
def note(level, flags, address, request, dirty):
    """Note that one more access of this unit changes nothing; a prefetch makes another line the newest: forget."""
    if flags & NOTES_LAST_LINE:
        unit = address >> load(level, UNIT_SHIFT)
        store(_slot(level, address), 0, -1 if request == PREFETCH else unit << 1 | dirty)


@njit(**INLINED)
def forget(level, address):
    """Forget what was noted of the set that `address` belongs to."""
    store(_slot(level, address), 0, -1)
