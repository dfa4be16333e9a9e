"""Streams whose addresses no loop nest describes: random, chased, sparse. Generated as they are simulated.

Each kernel takes a compiled `access`, the state and the address of its table of integers. Random numbers come
from mixing counters (splitmix64: Steele, Lea and Flood, OOPSLA 2014), so that any element can be had again without
being stored.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from numba import njit

from rooflab.cachesim.level.access import open_state
from rooflab.cachesim.level.plain_kinds import Kind
from rooflab.cachesim.level.queued_levels import make_access
from rooflab.cachesim.native.compile import INLINED, Named, kernel
from rooflab.cachesim.native.layout import LOAD, MASK, NEXT_LEVEL, QUEUE, SET_SHIFT, SHIFT, STORE, TAGS
from rooflab.cachesim.native.words import load, prefetch, shift_right, store


@njit(**INLINED)
def mixed(counter):
    """63 well mixed bits of `counter`."""
    z = counter * -7046029254386353131
    z = (z ^ shift_right(z, 30)) * -4658895280553007687
    z = (z ^ shift_right(z, 27)) * -7723592293110705685
    return shift_right(z ^ shift_right(z, 31), 1)


@njit(**INLINED)
def below(number, count):
    """A number from 0 to `count` − 1 made of 63 random bits: the high bits of a product (count below 2**31)."""
    return shift_right(shift_right(number, 31) * count, 32)


@njit(**INLINED)
def open_last_level(state):
    """What `fetch_ahead` needs: of the largest level, tags, bits of the line, mask of the sets, bits of a set."""
    level = state
    while load(level, NEXT_LEVEL):
        level = load(level, NEXT_LEVEL)
    return (
        load(level, TAGS),
        load(level, SHIFT),
        load(level, MASK) if load(level, SET_SHIFT) else 0,
        load(level, SET_SHIFT),
    )


@njit(**INLINED)
def fetch_ahead(last_level, address):
    """Have the set of the last level that an access to come will look at brought near: its tags are many."""
    tags, shift, mask, set_shift = last_level
    prefetch(tags + (((address >> shift) & mask) << set_shift))


def _random(access, state, table):
    # items, count, seed, bytes of an item, request
    view = open_state(state)
    items, count, seed = load(table, 0), load(table, 1), load(table, 2)
    nbytes, request = load(table, 3), load(table, 4)
    if load(state, QUEUE):
        # Sets are brought near while requests wait.
        for i in range(count):
            access(view, below(mixed(seed + i), items) * nbytes, nbytes, request, 0)
        return
    last_level = open_last_level(state)
    one, two, three, four = 0, 0, 0, 0
    for i in range(-4, count):
        address, one, two, three = one, two, three, four
        four = below(mixed(seed + i + 4), items) * nbytes
        fetch_ahead(last_level, four)
        if i >= 0:
            access(view, address, nbytes, request, 0)


def _chase(access, state, table):
    # A permutation of one cycle that needs no memory: a full-period linear congruential generator over 2**bits
    # items (Hull and Dobell: multiplier 5 mod 8, odd increment), those above `items` left out.
    # The item to begin with is in the table, and the next one is left there for the slice that goes on.
    view = open_state(state)
    items, count, seed = load(table, 0), load(table, 1), load(table, 2)
    stride, bits = load(table, 3), load(table, 4)
    mask, at = (1 << bits) - 1, load(table, 5)
    multiplier, increment = (mixed(seed) & mask) // 8 * 8 + 5, (mixed(seed + 1) & mask) | 1
    for _ in range(count):
        access(view, at * stride, 8, LOAD, 0)
        at = (at * multiplier + increment) & mask
        while at >= items:
            at = (at * multiplier + increment) & mask
    store(table, 5, at)


@njit(**INLINED)
def open_matrix(table):
    """Of a matrix in CSR: addresses of pointers, indices, values, x and y; bytes of an index and of an item."""
    return (
        load(table, 4),
        load(table, 5),
        load(table, 6),
        load(table, 7),
        load(table, 8),
        load(table, 9),
        load(table, 10),
    )


def _spmv(access, state, table):
    # y = M x, M in CSR with `each` entries a row in ascending bands of columns: one random column a band
    view = open_state(state)
    rows, each, seed, columns = load(table, 0), load(table, 1), load(table, 2), load(table, 3)
    pointers, indices, values, x, y, index_bytes, item = open_matrix(table)
    for row in range(rows):
        access(view, pointers + row * index_bytes, index_bytes, LOAD, 0)
        access(view, pointers + (row + 1) * index_bytes, index_bytes, LOAD, 1)
        for entry in range(each):
            place = row * each + entry
            first, last = columns * entry // each, columns * (entry + 1) // each
            column = first + below(mixed(seed + place), last - first)
            access(view, values + place * item, item, LOAD, 2)
            access(view, indices + place * index_bytes, index_bytes, LOAD, 3)
            access(view, x + column * item, item, LOAD, 4)
        access(view, y + row * item, item, STORE, 5)


def _spmv_csr(access, state, table):
    # The same for a matrix that exists: its row pointers and column indices are read from where they lie
    view = open_state(state)
    rows, row_pointers, column_indices = load(table, 0), load(table, 1), load(table, 2)
    pointers, indices, values, x, y, index_bytes, item = open_matrix(table)
    for row in range(rows):
        access(view, pointers + row * index_bytes, index_bytes, LOAD, 0)
        access(view, pointers + (row + 1) * index_bytes, index_bytes, LOAD, 1)
        for place in range(load(row_pointers, row), load(row_pointers, row + 1)):
            access(view, values + place * item, item, LOAD, 2)
            access(view, indices + place * index_bytes, index_bytes, LOAD, 3)
            access(view, x + load(column_indices, place) * item, item, LOAD, 4)
        access(view, y + row * item, item, STORE, 5)


@njit(**INLINED)
def source_of(edge, seed, bits, skew):
    """The vertex that `edge` comes from: each bit is one with odds of `skew` in 256 (R-MAT's, one side)."""
    vertex, number = 0, 0
    for level in range(bits):
        if level & 7 == 0:
            number = mixed(seed + edge * 8 + (level >> 3))
        vertex = vertex << 1 | (1 if number & 0xFF >= skew else 0)
        number >>= 7
    return vertex


def _pagerank(access, state, table):
    # Pull: for each vertex the ranks of those that point to it, divided by how many they point to.
    view = open_state(state)
    vertices, each, seed, iterations = load(table, 0), load(table, 1), load(table, 2), load(table, 3)
    bits, skew = load(table, 4), load(table, 5)
    pointers, sources, degrees = load(table, 6), load(table, 7), load(table, 8)
    rank, new = load(table, 9), load(table, 10)
    for sweep in range(iterations):
        old, fresh = (rank, new) if sweep & 1 == 0 else (new, rank)
        flip = 0 if sweep & 1 == 0 else 2
        for vertex in range(vertices):
            access(view, pointers + vertex * 8, 8, LOAD, 0)
            access(view, pointers + (vertex + 1) * 8, 8, LOAD, 1)
            for edge in range(vertex * each, (vertex + 1) * each):
                access(view, sources + edge * 4, 4, LOAD, 2)
                source = source_of(edge, seed, bits, skew)
                while source >= vertices:
                    source -= vertices
                access(view, old + source * 8, 8, LOAD, 4 + flip)
                access(view, degrees + source * 4, 4, LOAD, 3)
            access(view, fresh + vertex * 8, 8, STORE, 5 + flip)


def _recorded(access, state, table):
    # count, then the addresses of three arrays: where, how many bytes, and LOAD or STORE
    view, last_level = open_state(state), open_last_level(state)
    count, where, sizes, requests = load(table, 0), load(table, 1), load(table, 2), load(table, 3)
    for i in range(count):
        fetch_ahead(last_level, load(where, min(i + 4, count - 1)))
        request = load(requests, i)
        access(view, load(where, i), load(sizes, i), request, request)


_KERNELS: dict[str, Callable[..., None]] = {
    "random": _random,
    "chase": _chase,
    "spmv": _spmv,
    "spmv csr": _spmv_csr,
    "pagerank": _pagerank,
    "recorded": _recorded,
}


@functools.cache
def kernel_of(name: str, first: Kind | None = None) -> Any:
    """The compiled kernel `name`; `first` is the kind of the first level where levels are queued."""
    access, make, tag = make_access(first), njit(**INLINED)(_KERNELS[name]), f"{name} {first and first.tag}"

    def generated(state, table):
        make(access, state, table)

    return kernel(Named(tag).name(generated), tag)
