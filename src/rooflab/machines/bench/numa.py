"""Memory of other nodes as one core sees it."""

from __future__ import annotations

from rooflab.machines.bench.bandwidth import At, Form, stream_trial
from rooflab.machines.bench.findings import Remote
from rooflab.machines.bench.latency import latency
from rooflab.machines.bench.memory import Memory
from rooflab.machines.bench.trials import Bench
from rooflab.machines.detect import Host
from rooflab.units import MIB

_WORKING_SET_BYTES = 64 * MIB
_ROUNDS = 3
_RUN_S = 0.02


def measure_remote(bench: Bench, host: Host, cpus: tuple[int, ...], form: Form) -> list[Remote]:
    """Read bandwidth and latency from the first CPU's node to every granted node's memory, its own included.

    Empty where the granted CPUs lie on one node. Memory belongs to the node of the thread that touches
    it first, so each stretch is touched by a CPU of its node and read by the first CPU.
    """
    first = cpus[0]
    node_of = {cpu: one.node for cpu in cpus if (one := host.cpu(cpu)) is not None and one.node is not None}
    homes = {node: cpu for cpu, node in reversed(node_of.items())}
    if len(homes) < 2 or first not in node_of:
        return []
    found = []
    for node, cpu in sorted(homes.items()):
        arena = Memory.touched(bench.crew, {cpu: _WORKING_SET_BYTES}).arenas[cpu]
        seen_from_first = Memory({first: arena})
        trial = stream_trial(
            bench, seen_from_first, form, At(form.row, "core", _WORKING_SET_BYTES), (first,), _RUN_S
        )
        read = bench.interleave([trial], _ROUNDS)[trial.key].series
        loads = latency(bench, arena, first, [_WORKING_SET_BYTES], _ROUNDS, _RUN_S)[_WORKING_SET_BYTES]
        found.append(Remote(node_of[first], node, read, loads))
    return found
