"""Links as nccl-tests measured them: what a library attains of them, and its start.

A row says how long a collective of `size` bytes took over n ranks; the bus bandwidth in its table is that time in
other words (size x factor(n) / time), not a rate of the wire where a switch adds. So times are held against times:
of each collective the largest size gives the share of the link that is attained, the smallest how long it takes to
start. Both stand in place of the constants of the machine's family.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from rooflab.errors import RooflabError
from rooflab.model import collectives
from rooflab.model.collectives import Network
from rooflab.types.machine import Machine

_FUNCTIONS = {
    "all_reduce": "all_reduce",
    "all_gather": "all_gather",
    "reduce_scatter": "reduce_scatter",
    "alltoall": "all_to_all",
    "sendrecv": "send",
    "broadcast": "broadcast",
    "reduce": "reduce",
}
# Bytes that a rank sends for each of the size, which turns a bus bandwidth back into a time.
_FACTORS: dict[str, Callable[[float], float]] = {
    "all_reduce": lambda n: 2 * (n - 1) / n,
    "all_gather": lambda n: (n - 1) / n,
    "reduce_scatter": lambda n: (n - 1) / n,
    "alltoall": lambda n: (n - 1) / n,
}
_LEAST_BYTES = 2**24  # of a size that says what the link attains
_ROUNDS = 4  # of start and share in turn: each moves the other a little
_MOST_SHARE = 1.05  # of a link's theoretical rate: more says that the link is another


class Timed(NamedTuple):
    """Seconds of a collective by size, over so many ranks."""

    function: str
    ranks: int
    nbytes: np.ndarray
    seconds: np.ndarray


def timed(measured: Machine) -> list[Timed]:
    """The collectives in `measured`, a file of nccl-tests as it is read in.

    Raises:
        RooflabError: no number of ranks, results that were wrong, or no collective that is known.
    """
    failed = next((check for check in measured.checks if not check.ok), None)
    if failed is not None:
        raise RooflabError(f"{measured.name}: {failed.message}")
    ranks = measured.compute_units
    if ranks is None or ranks < 2:
        what = "no lines of ranks" if ranks is None else "one rank"
        raise RooflabError(
            f"{measured.name}: {what}, expected nccl-tests' output with its lines `#  Rank  0 …` of two ranks and "
            "more: what a bus bandwidth says depends on them"
        )
    found = []
    for curve in measured.curves:
        name = curve.name.removesuffix(" bus bandwidth")
        if name in _FUNCTIONS:
            nbytes, rate = np.array(curve.x, float), np.array(curve.best, float)
            factor = _FACTORS.get(name, lambda n: 1.0)(ranks)
            found.append(Timed(_FUNCTIONS[name], ranks, nbytes, nbytes * factor / rate))
    if not found:
        raise RooflabError(f"{measured.name}: no collective of {', '.join(_FUNCTIONS)}")
    return found


def with_measured(net: Network, measured: Machine) -> Network:
    """`net` with what `measured` says of it: shares of its links, and starts.

    Raises:
        RooflabError: as of `timed`; times that the links cannot have.
    """
    # Rings first: an all-reduce that a switch does says of them only that they share its links.
    tables = sorted(timed(measured), key=lambda one: one.function == "all_reduce")
    for each in tables:
        net = _fitted(net, each, measured.name, alone=len(tables) == 1)
    return net


def _fitted(net: Network, each: Timed, name: str, *, alone: bool) -> Network:
    large, small = int(np.argmax(each.nbytes)), int(np.argmin(each.nbytes))
    fields, start = _fields(net, each, large)[0], _fields(net, each, small)[1]
    if alone and fields == _SWITCH:
        fields = _SWITCH + _RING
    if each.nbytes[large] >= _LEAST_BYTES:
        for _ in range(_ROUNDS):
            net = _shared(net, each, large, fields, name)
            net = _started(net, each, small, start)
    else:
        net = _started(net, each, small, start)
    return net


def _seconds(net: Network, each: Timed, row: int) -> float:
    return float(collectives.times(each.function, each.nbytes[row], each.ranks, net).time_s)


def _fields(net: Network, each: Timed, row: int) -> tuple[tuple[str, ...], str]:
    """The shares that bind a large message, and the start: between nodes, in a switch, or round a ring."""
    if each.ranks > net.node_ranks:
        return ("fabric_share",), "fabric_step_s"
    if float(np.max(collectives.times(each.function, each.nbytes[row], each.ranks, net).switch)):
        return _SWITCH, "switch_s"
    return _RING, "launch_s"


_SWITCH, _RING = ("switch_share",), ("link_share", "flag_share", "peer_share")


def _shared(net: Network, each: Timed, row: int, fields: tuple[str, ...], name: str) -> Network:
    """The shares such that the time of `row` is the measured one: bisected, since times fall with them."""
    wanted = float(each.seconds[row])

    def at(scale: float) -> Network:
        return dataclasses.replace(net, **{field: getattr(net, field) * scale for field in fields})

    most = _MOST_SHARE / max(getattr(net, field) for field in fields)
    if _seconds(at(most), each, row) > 1.02 * wanted:
        rate, most_rate = each.nbytes[row] / wanted / 1e9, float(np.max(net.link_bytes_per_s)) / 1e9
        raise RooflabError(
            f"{name}: {each.function} of {each.nbytes[row]:,.0f} bytes over {each.ranks} ranks at {rate:,.4g} "
            f"GB/s of its size (algbw), more than {net.link} of {most_rate:,.4g} GB/s each way carries: is it "
            "another node's?"
        )
    low, high = 1e-3, most
    for _ in range(60):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if _seconds(at(middle), each, row) > wanted else (low, middle)
    return at(high)


def _started(net: Network, each: Timed, row: int, field: str) -> Network:
    """The start such that the time of `row` is the measured one, none below a tenth of what it was."""
    more = float(each.seconds[row]) - _seconds(net, each, row)
    steps = 1.0 if field != "fabric_step_s" else max(2.0 * np.ceil(np.log2(-(-each.ranks // net.node_ranks))), 1.0)
    was = getattr(net, field)
    return dataclasses.replace(net, **{field: max(was + more / steps, was / 10.0)})
