"""Accesses in arrays, run through a hierarchy: columns of any requests, or words of loads and stores."""

from __future__ import annotations

from rooflab.cachesim.level.access import access, open_state
from rooflab.cachesim.native.compile import kernel
from rooflab.cachesim.native.words import load
from rooflab.cachesim.run.irregular import fetch_ahead, open_last_level

# An access of `replay_words` has an address, and a word: bytes, then its reference, then 1 for a store.
BYTES_SHIFT, REFERENCE_MASK = 3, 3
LOADS, STORES, INSTRUCTIONS = 0 << 1, 1 << 1 | 1, 2 << 1
AHEAD = 8  # accesses between bringing a set of the last level near and looking at it


def _replay(state, requests, addresses, nbytes, references):
    view = open_state(state)
    for i in range(addresses.size):
        access(view, addresses[i], nbytes[i], requests[i], references[i])


def _replay_words(state, addresses, words, count):
    # The number of bytes accessed. AHEAD addresses more are read than there are.
    view, last_level, total = open_state(state), open_last_level(state), 0
    for i in range(count):
        fetch_ahead(last_level, load(addresses, i + AHEAD))
        word = load(words, i)
        nbytes = word >> BYTES_SHIFT
        total += nbytes
        access(view, load(addresses, i), nbytes, word & 1, word >> 1 & REFERENCE_MASK)
    return total


replay = kernel(_replay)
replay_words = kernel(_replay_words)
