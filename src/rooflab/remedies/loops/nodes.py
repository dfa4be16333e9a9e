"""The rule about memory of several nodes: near the cores that use it, and spread over the nodes of a team."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from rooflab.model.loop import times
from rooflab.remedies.loops.case import Case, Unasked
from rooflab.types.machine import Level, Machine, is_main_memory
from rooflab.units import duration, si

_FEW = 0.1  # of the time: what takes less is not said
_LOCAL, _REMOTE = "local memory", "remote memory"  # where links between nodes lead


def near_memory(case: Case) -> Iterator[Unasked]:
    """Memory of the node whose cores use it, where several nodes have memory."""
    memory, links = case.report.points[-1], case.machine.links
    slowest = min((each.each_way_bytes_per_s or 0.0 for each in links if each.to == _REMOTE), default=0.0)
    if not slowest:
        return
    if memory.bytes_per_s and (memory.time_s or 0.0) >= _FEW * case.predicted.time_s:
        yield Unasked(
            "near-memory",
            f"predicted is memory of the node whose cores use it ({si(memory.bytes_per_s, 'B/s')}); of another"
            f" it is {si(slowest, 'B/s')}, {duration(memory.nbytes / slowest)} instead of"
            f" {duration(memory.nbytes / memory.bytes_per_s)}: touch arrays first on the cores that use them, or"
            " numactl --cpunodebind=0 --membind=0",
        )
    yield from _spread(case)


def _spread(case: Case) -> Iterator[Unasked]:
    """What a team gains where each thread has touched its share first: pages lie on the node that does so."""
    threads, nodes = max((each.threads for each in case.report.scaling), default=1), nodes_of(case.machine)
    if threads < 2 or nodes < 2:
        return
    near, together = (
        times.predict(case.report, machine, threads, timing=case.timing, team=case.team)
        for machine in (case.machine, on_one_node(case.machine, nodes))
    )
    if near is None or together is None or together.time_s - near.time_s < _FEW * together.time_s:
        return
    yield Unasked(
        "near-memory",
        f"predicted are arrays that lie on all {nodes} nodes: with arrays that one thread has touched first, which"
        f" lie on one, {threads} threads take {duration(together.time_s)} instead of {duration(near.time_s)}: fill"
        " them in a loop over prange of the same trips",
    )


def nodes_of(machine: Machine) -> int:
    """How many nodes' memory was measured: each seen from each node, or from one."""
    local, remote = (sum(each.to == to for each in machine.links) for to in (_LOCAL, _REMOTE))
    return (local + remote) // local if local else 1


def on_one_node(machine: Machine, nodes: int) -> Machine:
    """`machine` as if all bytes of its memory lay on one of so many nodes, which gives all cores its part."""

    def limited(level: Level) -> Level:
        ones = {(each.what, each.stores): each.value for each in level.rates if each.scope == "core"}
        rates = (
            replace(each, value=max(each.value / nodes, min(each.value, ones.get((each.what, each.stores), 0.0))))
            if each.scope == "all"
            else each
            for each in level.rates
        )
        return replace(level, rates=tuple(rates))

    levels = tuple(limited(each) if is_main_memory(each) else each for each in machine.levels)
    return replace(machine, levels=levels)
