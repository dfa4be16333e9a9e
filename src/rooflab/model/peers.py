"""All-reduces by kernels that read their peers' memory, as serving engines have for small messages.

In one shot each rank reads all of the others' data; in two it adds up its part of them and reads the other sums.
Which of them runs, and up to which message, is an engine's choice by how many ranks there are: `PeerSums`. Kernels
whose data carry flags start at once; others wait for their peers before and after. Beyond that some engines copy
the message into memory that all ranks share, have the switch add it up there, and copy it back.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rooflab.model.collectives import Network, Number, Times, scalar_if_one, times


class PeerSums(NamedTuple):
    """Up to which message an engine takes which kernel, in bytes, on so many ranks.

    Attributes:
        one_shot_bytes: in one shot; two beyond it. None: whichever is quicker.
        peer_bytes: by such kernels at all. None: `Network.peer_limit_bytes`.
        shared_bytes: in memory that all ranks share; 0 where the engine has none.
        in_switch: whether the switch adds it up there, if it can, rather than the ranks in two shots.
        waits: whether the kernel waits for its peers, not for flags in their data.
        includes: whether the first two limits still belong to it.
    """

    one_shot_bytes: Number | None = None
    peer_bytes: Number | None = None
    shared_bytes: Number = 0.0
    in_switch: Any = False
    waits: Any = False
    includes: Any = True


QUICKER = PeerSums()


def peer_all_reduce(
    nbytes: Number, ranks: Number, net: Network, sums: PeerSums = QUICKER, *, adds_in_switch: Any = True
) -> Times:
    """Seconds of an all-reduce of `nbytes` over `ranks` by those kernels: floats or arrays.

    The library's own (`collectives.times`) beyond the engine's limits, between nodes and through a host.
    """
    n, size = np.asarray(ranks, float), np.asarray(nbytes, float)
    other = times("all_reduce", size, n, net, adds_in_switch=adds_in_switch)
    rank_s = np.maximum(n - 2, 0) * net.peer_rank_s
    start_s = net.peer_start_s + rank_s + np.where(sums.waits, net.peer_wait_s, 0.0)
    one_wire, two_wire = ((n - 1) * size / net.link_bytes_per_s, 2 * (n - 1) / n * size / net.link_bytes_per_s)
    one_s, two_s = one_wire / net.peer_share, two_wire / net.peer_share + net.two_shot_s
    one = one_s <= two_s if sums.one_shot_bytes is None else _within(size, sums.one_shot_bytes, sums.includes)
    most = net.peer_limit_bytes if sums.peer_bytes is None else sums.peer_bytes
    direct = (n > 1) & (n <= net.node_ranks) & (net.path_shares == (1.0, 1.0, 1.0))
    ours = direct & _within(size, most, sums.includes)
    link_s = np.where(one, one_wire, two_wire) / net.peer_share
    overhead = start_s + np.where(one, 0.0, net.two_shot_s)
    floor = np.minimum(one_wire, two_wire)
    mine = (overhead + link_s, overhead, link_s, 0.0, floor, 0.0)
    kept = [np.where(ours, a, b) for a, b in zip(mine, other, strict=True)]
    if np.any(sums.shared_bytes):
        shared = direct & ~ours & (size <= sums.shared_bytes)
        theirs = _shared(size, n, net, sums, two_wire, floor)
        kept = [np.where(shared, a, b) for a, b in zip(theirs, kept, strict=True)]
    return Times(*(scalar_if_one(each) for each in kept))


def _within(size: np.ndarray, most: Number, includes: Any) -> np.ndarray:
    return (size < most) | (np.asarray(includes, bool) & (size <= most))


def _shared(
    size: np.ndarray, n: np.ndarray, net: Network, sums: PeerSums, two_wire: np.ndarray, floor: np.ndarray
) -> tuple[Number, ...]:
    """Copied into shared memory, added up in the switch or in two shots, copied out: three kernels."""
    switch = np.asarray(sums.in_switch, bool) & (net.switch_share > 0)
    up = (1 + 1 / n) * size / net.link_bytes_per_s
    link_s = np.where(switch, up / (net.switch_share or 1.0), two_wire / net.peer_share)
    start_s = net.peer_start_s + net.peer_wait_s + np.maximum(n - 2, 0) * net.peer_rank_s
    overhead = start_s + np.where(switch, 0.0, net.two_shot_s) + 2 * _COPY_START_S
    copy_s = 2 * 2 * size / (net.memory_bytes_per_s * _COPY_SHARE)
    floor = np.where(switch, np.minimum(floor, up), floor)
    return overhead + link_s + copy_s, overhead, link_s, copy_s, floor, switch * 1.0


# A plain copy within a graph: from its start to the next kernel's, and its share of the memory's bandwidth.
_COPY_START_S, _COPY_SHARE = 1.7e-6, 0.9
