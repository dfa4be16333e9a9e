"""A level's prefetchers: the next unit, the other half of a pair, and the next of a reference's equal strides."""

from __future__ import annotations

from typing import Any

from numba import njit

from rooflab.cachesim.native.compile import INLINED, Named
from rooflab.cachesim.native.layout import (
    ADJACENT,
    AHEAD,
    CONFIDENT,
    FLAGS,
    NEXT_LINE,
    PAGE_SHIFT,
    PREFETCH,
    PREFETCHES,
    SELF_CALL,
    SHIFT,
    STRIDE,
    STRIDE_ENTRIES,
    STRIDE_WORDS,
    STRIDES,
    UNIT_SHIFT,
)
from rooflab.cachesim.native.words import WORD, add, call, load, shift_right, store
from rooflab.cachesim.sets.addressing import is_valid, set_of
from rooflab.cachesim.sets.policies import Policy


@njit(**INLINED)
def _next_of_stride(level, address, reference):
    # The address that the stride prefetcher asks for after this access, or −1.
    entry = load(level, STRIDES) + (reference & (STRIDE_ENTRIES - 1)) * (STRIDE_WORDS * WORD)
    stride = address - load(entry, 0)
    store(entry, 0, address)
    confidence = load(entry, 2) + 1 if stride == load(entry, 1) else 0
    store(entry, 1, stride)
    store(entry, 2, confidence)
    if confidence < CONFIDENT or stride == 0:
        return -1
    return address + stride * load(level, AHEAD)


def make_prefetchers(policy: Policy, named: Named) -> Any:
    """The compiled `prefetch(level, row, address, hit, reference)` of a level with `policy`, after an access."""
    find = policy.find

    @named.part
    def ask(level, row, address, wanted, reference):
        # Into this level, where it is not there yet and lies in the same page as the access.
        if wanted < 0 or wanted >> PAGE_SHIFT != address >> PAGE_SHIFT:
            return
        line = shift_right(wanted, load(level, SHIFT))
        if not is_valid(level, find(level, set_of(level, line), line), wanted):
            add(row, PREFETCHES, 1)
            bits = load(level, UNIT_SHIFT)
            call(load(level, SELF_CALL), level, wanted >> bits << bits, 1 << bits, PREFETCH, reference)

    @named.inlined
    def prefetch(level, row, address, hit, reference):
        flags, unit = load(level, FLAGS), 1 << load(level, UNIT_SHIFT)
        if flags & NEXT_LINE and not hit:
            ask(level, row, address, address + unit, reference)
        if flags & ADJACENT and not hit:
            ask(level, row, address, address ^ unit, reference)
        if flags & STRIDE:
            ask(level, row, address, _next_of_stride(level, address, reference), reference)

    return prefetch
