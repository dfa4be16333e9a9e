"""Sets of any number of ways, in constant time: lines found by hashing, their order kept in linked lists.

Used for sets wider than 32 ways (fully associative caches and TLBs), and for the fully associative
shadow that tells capacity misses from conflict misses. META names a header of addresses.
"""

from __future__ import annotations

from numba import njit

from rooflab.cachesim.native.compile import OPTIONS
from rooflab.cachesim.native.layout import META, SCRATCH, SECTORS, TAGS
from rooflab.cachesim.native.words import load, shift_right, store
from rooflab.cachesim.sets.policies import Policy
from rooflab.cachesim.sets.set_vectors import EMPTY

# Words of the header.
BUCKETS, HASH_SHIFT, PREVIOUS, FOLLOWING, CHAIN, NEWEST, OLDEST, FREE = range(8)
HEADER_WORDS = 8
_GOLDEN = -7046029254386353131  # 2**64 / golden ratio as a signed word: multiplicative hashing


@njit(**OPTIONS)
def bucket_of(header, line):
    """The bucket of `line`."""
    return shift_right(line * _GOLDEN, load(header, HASH_SHIFT))


@njit(**OPTIONS)
def find(level, index, line):
    """The place of `line`, or −1."""
    header, tags = load(level, META), load(level, TAGS)
    at = load(load(header, BUCKETS), bucket_of(header, line))
    chain = load(header, CHAIN)
    while at >= 0 and load(tags, at) >> 1 != line:
        at = load(chain, at)
    return at


@njit(**OPTIONS)
def _unlink(header, index, at):
    previous, following = load(header, PREVIOUS), load(header, FOLLOWING)
    before, after = load(previous, at), load(following, at)
    if before >= 0:
        store(following, before, after)
    else:
        store(load(header, NEWEST), index, after)
    if after >= 0:
        store(previous, after, before)
    else:
        store(load(header, OLDEST), index, before)


@njit(**OPTIONS)
def _link_newest(header, index, at):
    newest = load(load(header, NEWEST), index)
    store(load(header, PREVIOUS), at, -1)
    store(load(header, FOLLOWING), at, newest)
    if newest >= 0:
        store(load(header, PREVIOUS), newest, at)
    else:
        store(load(header, OLDEST), index, at)
    store(load(header, NEWEST), index, at)


@njit(**OPTIONS)
def _unchain(header, tags, at):
    buckets, chain = load(header, BUCKETS), load(header, CHAIN)
    bucket = bucket_of(header, load(tags, at) >> 1)
    each = load(buckets, bucket)
    if each == at:
        store(buckets, bucket, load(chain, at))
        return
    while load(chain, each) != at:
        each = load(chain, each)
    store(chain, each, load(chain, at))


@njit(**OPTIONS)
def insert(level, index, entry, sectors):
    """The entry that was evicted, or EMPTY."""
    header, tags = load(level, META), load(level, TAGS)
    at, old = load(load(header, FREE), index), EMPTY
    if at >= 0:
        store(load(header, FREE), index, load(load(header, FOLLOWING), at))
    else:
        at = load(load(header, OLDEST), index)
        old = load(tags, at)
        _unlink(header, index, at)
        _unchain(header, tags, at)
        store(level, SCRATCH, load(load(level, SECTORS), at))
    store(tags, at, entry)
    if sectors:
        store(load(level, SECTORS), at, sectors)
    _link_newest(header, index, at)
    bucket = bucket_of(header, entry >> 1)
    store(load(header, CHAIN), at, load(load(header, BUCKETS), bucket))
    store(load(header, BUCKETS), bucket, at)
    return old


@njit(**OPTIONS)
def remove(level, index, place):
    """Take the entry at `place` out of its set."""
    header, tags = load(level, META), load(level, TAGS)
    _unlink(header, index, place)
    _unchain(header, tags, place)
    store(tags, place, EMPTY)
    store(load(header, FOLLOWING), place, load(load(header, FREE), index))
    store(load(header, FREE), index, place)


@njit(**OPTIONS)
def touch_newest(level, index, place, dirty):
    """The entry at `place`, refreshed (LRU)."""
    entry = load(load(level, TAGS), place) | dirty
    store(load(level, TAGS), place, entry)
    header = load(level, META)
    if load(load(header, NEWEST), index) != place:
        _unlink(header, index, place)
        _link_newest(header, index, place)
    return entry


@njit(**OPTIONS)
def touch_in_place(level, index, place, dirty):
    """The entry at `place`, its age as it was (FIFO)."""
    entry = load(load(level, TAGS), place) | dirty
    store(load(level, TAGS), place, entry)
    return entry


def hashed(ways: int, refresh: bool) -> Policy:
    """LRU where a hit refreshes a line (`refresh`), else FIFO, of any number of ways."""
    return Policy(find, touch_newest if refresh else touch_in_place, insert, remove, ways)
