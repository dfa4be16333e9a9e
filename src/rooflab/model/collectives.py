"""Time of a collective by latency and bandwidth: a ring, a tree between nodes, the switch, or directly.

Each algorithm takes `steps × latency + bytes on the wire / bandwidth` (Hockney; the ring and tree of Patarasuk and
Yuan, J. Parallel Distrib. Comput. 69(2), 2009, and of NCCL), and a library takes the quickest. NCCL has two ways
to move them (its protocols LL and LL128, and Simple): lines that carry a flag each need no waiting but use less of
the link; whole chunks use all of it, and every step waits for one. It chooses by what it believes of the links,
not by what they attain: where the way through the host is slow, it keeps the flags for long. A rank's own part is
copied in its own memory.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from rooflab.errors import RooflabError, UnknownNameError
from rooflab.model.device.constants import constants_of
from rooflab.types.constants import Constants
from rooflab.types.machine import Link, Machine, is_main_memory

Number = float | np.ndarray

# Ring algorithms: what each rank sends per byte of the whole message, and how many steps, over n ranks.
# The message is the larger of what a rank gives and gets (nccl-tests calls it the size).
_RING: dict[str, tuple[str, str]] = {
    "all_reduce": ("twice", "twice"),
    "all_gather": ("others", "once"),
    "reduce_scatter": ("others", "once"),
    "all_to_all": ("others", "direct"),
    "gather": ("others", "direct"),
    "scatter": ("others", "direct"),
    "broadcast": ("all", "once"),
    "reduce": ("all", "once"),
    "send": ("all", "one"),
    "recv": ("all", "one"),
    "permute": ("all", "one"),
    "barrier": ("none", "twice"),
}
FUNCTIONS = tuple(_RING)
# Those in which a rank's own part is copied from its input to its output.
_COPIES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "gather", "scatter")


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """What joins the ranks; each attained share and time is the library's.

    Attributes:
        link, link_bytes_per_s: of one rank to the others of its node, one way, in theory.
        node_ranks: how many ranks that link joins.
        mesh: whether it is a cable to each of the others, of which few ranks use few, not a way to a switch.
        fabric_bytes_per_s: of one rank to other nodes, one way; None where the machine states no network.
        memory_bytes_per_s: of a rank's own memory.
        launch_s: starting and ending a collective; `direct_s` more where all send to all, and `direct_wait_s`
            more where those send whole chunks.
        step_s, direct_step_s, fabric_step_s: latency of a step of the ring, of one more partner in a direct
            exchange, of a step between nodes.
        chunk_step_s: what a step of the ring waits for a whole chunk; `protocol_step_s` what the library takes
            that to be when it chooses.
        chunk_s, direct_chunk_s: what fills the pipeline.
        peer_bytes_per_s: at which flagged lines go to one partner of a direct exchange.
        link_share, flag_share: attained of the link by whole chunks, and where every line carries a flag.
        path_shares: of that, what is left for 2 ranks, up to 4, and more: on the way through a host the first
            share a switch, the next a socket. 1 where ranks have a fabric of their own.
        peer_start_s, peer_rank_s, peer_wait_s, two_shot_s: starting a kernel that reads its peers' memory, for
            each peer after the first, where it waits for them to begin and to end, and its second half's wait.
        peer_share, peer_limit_bytes: attained of the link by it, and the largest message that it is used for.
        fabric_share, copy_share: attained of fabric and memory.
        switch_share, switch_s: where the switch adds and multiplies: attained of the link, and its start; a share
            of 0 where it cannot.
    """

    link: str
    link_bytes_per_s: Number
    node_ranks: int
    mesh: bool
    fabric_bytes_per_s: Number | None
    memory_bytes_per_s: Number
    launch_s: float
    direct_s: float
    direct_wait_s: float
    step_s: float
    direct_step_s: float
    fabric_step_s: float
    chunk_step_s: float
    protocol_step_s: float
    chunk_s: float
    direct_chunk_s: float
    peer_bytes_per_s: float
    link_share: float
    flag_share: float
    path_shares: tuple[float, float, float]
    peer_start_s: float
    peer_rank_s: float
    peer_wait_s: float
    two_shot_s: float
    peer_share: float
    peer_limit_bytes: float
    fabric_share: float
    copy_share: float
    switch_share: float
    switch_s: float


class Times(NamedTuple):
    """Seconds of a collective, floats or arrays.

    Attributes:
        time_s: all of it; `overhead_s` of it start and steps; `link_s` the wire; `copy_s` own memory.
        floor_s: what the wire takes at its theoretical rate by the algorithm that sends least.
        switch: whether the switch does it (1) or the ring (0).
    """

    time_s: Number
    overhead_s: Number
    link_s: Number
    copy_s: Number
    floor_s: Number
    switch: Number


def network(
    machine: Machine, *, node_ranks: int | None = None, link: str | None = None, constants: Constants | None = None
) -> Network:
    """What joins several of `machine` (or the parts of a system such as a DGX).

    Args:
        machine: one GPU of several, or a system of them.
        node_ranks: how many its link joins; by default the parts of a system, else its family's usual number.
        link: the link to take by name or end ("PCIe", "host"); by default that to its own kind, else to the host.
        constants: of its family.

    Raises:
        RooflabError: the machine states no link or no memory bandwidth.
        UnknownNameError: no such link.
    """
    c = constants or constants_of(machine)
    chosen = find_link(machine, link, node_ranks)
    units = machine.compute_units if machine.kind == "system" and machine.compute_units else 1
    memory = next((level for level in machine.levels if is_main_memory(level)), None)
    rate = None if memory is None else memory.rate(basis="theoretical") or memory.rate()
    if rate is None:
        raise RooflabError(f"{machine.name} states no memory bandwidth, which a collective's copies need")
    fabric = next((each for each in machine.links if each.to == "network" and each.each_way_bytes_per_s), None)
    # What goes through the host shares its root ports and may pass its memory. Only NVLink's switches add.
    by_host, topology = chosen.to == "host", chosen.topology or ""
    switched = chosen.name.startswith("NVLink") and not _is_bridge(chosen)
    in_switch = c("collective.switch_share") if switched else 0.0
    where = "collective.host_" if by_host else "collective."
    pair, root, socket = (c(f"collective.host_{name}_share") for name in ("pair", "root", "socket"))
    assert chosen.each_way_bytes_per_s is not None  # `find_link` gives no other
    return Network(
        link=chosen.name,
        link_bytes_per_s=chosen.each_way_bytes_per_s,
        node_ranks=node_ranks or _joined(topology) or (units if units > 1 else int(c("collective.node_ranks"))),
        mesh="all to all" in topology,
        fabric_bytes_per_s=fabric.each_way_bytes_per_s if fabric else c("collective.fabric_bytes_per_s"),
        memory_bytes_per_s=rate.value / units,
        link_share=c(f"{where}link_share"),
        flag_share=c(f"{where}flag_share"),
        path_shares=(pair, root, socket) if by_host else (1.0, 1.0, 1.0),
        switch_share=in_switch,
        **{name: c(f"collective.{name}") for name in _SHARED},
    )


_SHARED = (
    *("peer_start_s", "peer_rank_s", "peer_wait_s", "two_shot_s", "peer_share", "peer_limit_bytes"),
    *("launch_s", "direct_s", "direct_wait_s", "step_s", "direct_step_s", "fabric_step_s", "chunk_step_s"),
    *(
        "protocol_step_s",
        "chunk_s",
        "direct_chunk_s",
        "peer_bytes_per_s",
        "fabric_share",
        "copy_share",
        "switch_s",
    ),
)
_JOINING = ("GPU", "TPU", "chip", "accelerator", "core", "host", "network")


def _is_bridge(link: Link) -> bool:
    return (link.topology or "").startswith("bridge")


def _joined(topology: str) -> int | None:
    """How many devices a link joins, where its topology says so: "all 72 through NVSwitch"."""
    match = re.search(r"\ball (\d+) through", topology)
    return int(match[1]) if match else None


def find_link(machine: Machine, wanted: str | None = None, ranks: int | None = None) -> Link:
    """The link of `machine` that joins it to its like, else to its host; or the one that is `wanted`.

    A bridge joins two cards: it is taken for a node of two `ranks`, and where there is no other link.

    Raises:
        RooflabError: it states no link with a bandwidth.
        UnknownNameError: no such link, with near matches.
    """
    links = [link for link in machine.links if link.each_way_bytes_per_s]
    if not links:
        raise RooflabError(without_link(machine))
    if wanted is not None:
        for link in links:
            if wanted.casefold() in (link.to.casefold(), *link.name.casefold().split(), link.name.casefold()):
                return link
        raise UnknownNameError(f"link of {machine.name}", wanted, [link.name for link in links])
    candidates = [link for link in links if ranks == 2 or not _is_bridge(link)] or links
    return min(candidates, key=lambda link: _JOINING.index(link.to) if link.to in _JOINING else len(_JOINING))


def without_link(machine: Machine) -> str | None:
    """What `machine` lacks for collectives, in one sentence; None where it states a link."""
    if any(link.each_way_bytes_per_s for link in machine.links):
        return None
    return (
        f"{machine.name} states no link to other machines, which a collective needs: add [[links]] with "
        "each_way_bytes_per_s to its file (see docs/machine-file.md)"
    )


def times(function: str, nbytes: Number, ranks: Number, net: Network, *, adds_in_switch: Any = True) -> Times:
    """Seconds of `function` over `ranks` of a message of `nbytes`, the quickest of the library's algorithms.

    Args:
        function: one of `FUNCTIONS`.
        nbytes: the message: what a rank gives, or gets where that is more.
        ranks: how many take part.
        net: what joins them.
        adds_in_switch: whether the switch can add this number format (NVLink SHARP: 16 bits and more).

    Raises:
        UnknownNameError: another function.
    """
    if function not in _RING:
        raise UnknownNameError("collective", function, FUNCTIONS)
    n, size = np.asarray(ranks, float), np.asarray(nbytes, float)
    inside, nodes = np.minimum(n, net.node_ranks), np.ceil(n / net.node_ranks)
    # What crosses nodes goes over all their adapters at once, except from one rank to its own partners.
    link_bytes_per_s = net.link_bytes_per_s
    if net.mesh:
        link_bytes_per_s = link_bytes_per_s * np.maximum(inside - 1, 1) / max(net.node_ranks - 1, 1)
    wire = _sent(function, inside) * size / link_bytes_per_s
    across = _sent(function, nodes) * size / (np.inf if net.fabric_bytes_per_s is None else net.fabric_bytes_per_s)
    if function == "all_to_all":
        wire = wire * inside / n
    elif _RING[function][1] != "one":
        across = across / inside
    copy_s = np.where(n > 1, 2 * size / n / (net.memory_bytes_per_s * net.copy_share), 0.0)
    copy_s = copy_s if function in _COPIES else np.zeros_like(copy_s)
    across_s = across / net.fabric_share
    move = _direct if _RING[function][1] == "direct" else _ring
    overhead, link_s = move(function, _Message(size, n, inside, wire, across_s, copy_s), net)
    overhead = overhead + _fabric_steps_s(function, nodes, net) + 2 * np.sqrt(net.chunk_s * across_s)
    total, floor = overhead + link_s + copy_s, np.maximum(wire, across)
    in_switch = np.zeros_like(total)
    if function == "all_reduce" and net.switch_share:
        # Every rank's data goes up to the switch once, 1/n of the sums comes back to be stored to all.
        up = (1 + 1 / inside) * size / net.link_bytes_per_s
        up_s = up / net.switch_share
        up_overhead = net.launch_s + net.switch_s
        able = np.asarray(adds_in_switch, bool) & (n > 1) & (nodes == 1)
        chosen = able & (up_overhead + up_s < total)
        in_switch = chosen * 1.0
        total = np.where(chosen, up_overhead + up_s, total)
        overhead, link_s = np.where(chosen, up_overhead, overhead), np.where(chosen, up_s, link_s)
        copy_s = np.where(chosen, 0.0, copy_s)
        floor = np.where(able, np.minimum(floor, up), floor)
    return Times(*(scalar_if_one(each) for each in (total, overhead, link_s, copy_s, floor, in_switch)))


def scalar_if_one(values: np.ndarray) -> Number:
    """A float of an array without axes."""
    return float(values) if values.ndim == 0 else values


def _sent(function: str, ranks: np.ndarray) -> np.ndarray:
    """Bytes that each of `ranks` sends per byte of the message."""
    others = (ranks - 1) / ranks
    return {
        "twice": 2 * others,
        "others": others,
        "all": np.where(ranks > 1, 1.0, 0.0),
        "none": np.zeros_like(others),
    }[_RING[function][0]]


class _Message(NamedTuple):
    """A message of `size` bytes over `n` ranks, `inside` of them in a node.

    `wire` are the seconds of its bytes at the link's theoretical rate, `across_s` those between nodes.
    """

    size: np.ndarray
    n: np.ndarray
    inside: np.ndarray
    wire: np.ndarray
    across_s: np.ndarray
    copy_s: np.ndarray


def _ring(function: str, x: _Message, net: Network) -> tuple[np.ndarray, np.ndarray]:
    """Overhead and link seconds of steps round a ring: lines with flags, or chunks if the library takes them."""
    others = x.inside - 1
    steps = {"twice": 2 * others, "once": others, "one": np.minimum(others, 1)}[_RING[function][1]]
    path = _path_share(x.inside, net)
    flagged_s, whole_s = x.wire / net.flag_share, x.wire / net.link_share
    chunks = flagged_s - whole_s > steps * net.protocol_step_s
    link_s = np.maximum(np.where(chunks, whole_s, flagged_s) / path, x.across_s)
    waiting_s = np.where(chunks, steps * net.chunk_step_s, 2 * np.sqrt(net.chunk_s * flagged_s))
    return net.launch_s + steps * net.step_s + waiting_s, link_s


def _direct(function: str, x: _Message, net: Network) -> tuple[np.ndarray, np.ndarray]:
    """The same where every rank sends to every other at once: flagged lines to each partner, or whole chunks."""
    path = _path_share(x.inside, net)
    flagged_s, whole_s = x.wire / net.flag_share, x.wire / net.link_share
    peer_s = np.where(x.n > 1, x.size / x.n / net.peer_bytes_per_s, 0.0)
    waiting_s = net.direct_wait_s + 2 * np.sqrt(net.direct_chunk_s * whole_s / path)
    chunks = peer_s + flagged_s > net.direct_wait_s + whole_s + x.copy_s
    link_s = np.maximum(np.where(chunks, whole_s, flagged_s) / path, x.across_s)
    start_s = net.launch_s + net.direct_s + (x.inside - 1) * net.direct_step_s
    return start_s + np.where(chunks, waiting_s, np.maximum(peer_s - x.copy_s, 0.0)), link_s


def _path_share(inside: np.ndarray, net: Network) -> np.ndarray:
    pair, root, socket = net.path_shares
    return np.where(inside <= _PAIR, pair, np.where(inside <= _ROOT, root, socket))


# Servers with eight cards on PCIe: two behind a switch or bridge, four at a socket, two sockets.
_PAIR, _ROOT = 2, 4


def _fabric_steps_s(function: str, nodes: np.ndarray, net: Network) -> np.ndarray:
    """Between nodes a reduction goes up and down a tree; the others go round."""
    kind = _RING[function][1]
    steps = {
        "twice": 2 * np.ceil(np.log2(nodes)),
        "once": np.minimum(nodes - 1, 2 * np.ceil(np.log2(nodes)))
        if function in ("broadcast", "reduce")
        else nodes - 1,
        "direct": np.minimum(nodes - 1, 1),
        "one": np.minimum(nodes - 1, 1),
    }[kind]
    return steps * net.fabric_step_s


class LayerTimes(NamedTuple):
    """Seconds that a layer waits for its collectives: `each` of them, how many (`calls`), `total_s`."""

    each: Times
    calls: int
    total_s: float


def tensor_parallel(tokens: int, hidden: int, element_bytes: float, ranks: int, net: Network) -> LayerTimes:
    """A transformer layer's two all-reduces of its activations, after attention and after the MLP.

    Shoeybi et al.: "Megatron-LM", arXiv:1909.08053, section 3. Nothing overlaps them.
    """
    each = times("all_reduce", tokens * hidden * element_bytes, ranks, net, adds_in_switch=element_bytes >= 2)
    return LayerTimes(each, 2, 2 * float(each.time_s))


def data_parallel(
    parameters: float, element_bytes: float, ranks: int, net: Network, *, bucket_bytes: float = 25 * 2**20
) -> LayerTimes:
    """All-reduces of the gradients of `parameters` in buckets, as PyTorch's DDP does (25 MiB by default).

    Those of all but the last bucket may overlap the backward pass; the total is their time by itself.
    """
    nbytes = parameters * element_bytes
    calls = max(1, int(np.ceil(nbytes / bucket_bytes)))
    each = times("all_reduce", nbytes / calls, ranks, net, adds_in_switch=element_bytes >= 2)
    return LayerTimes(each, calls, calls * float(each.time_s))
