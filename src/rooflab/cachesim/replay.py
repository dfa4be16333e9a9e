"""Columns of accesses, run through a hierarchy."""

from __future__ import annotations

from rooflab.cachesim.compiled import kernel
from rooflab.cachesim.core import access, open_state


def _replay(state, requests, addresses, nbytes, references):
    view = open_state(state)
    for i in range(addresses.size):
        access(view, addresses[i], nbytes[i], requests[i], references[i])


replay = kernel(_replay)
