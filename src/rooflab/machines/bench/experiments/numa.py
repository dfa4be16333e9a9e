"""Memory of other nodes as one core sees it."""

from __future__ import annotations

from rooflab.machines.bench.experiments.bandwidth import StreamCase, StreamForm, stream_trial
from rooflab.machines.bench.experiments.latency import latency
from rooflab.machines.bench.findings import RemoteMemory
from rooflab.machines.bench.run.thread_arenas import ThreadArenas
from rooflab.machines.bench.run.trials import Bench
from rooflab.machines.detect import Host
from rooflab.units import MIB

_LEAST_BYTES, _MOST_BYTES = 64 * MIB, 512 * MIB
_BEYOND_CACHE = 2  # what is read lies partly in the last cache still, but no longer as a whole
_ROUNDS = 3
_MOST_NODES = 4
_RUN_S = 0.02


def working_set(last_cache_bytes: float, allowed_bytes: int) -> int:
    """Bytes to read of each node's memory: twice the last cache, so that it is memory that answers.

    At most 512 MiB and `allowed_bytes`, since the other arenas are still there; `RemoteMemory.beyond_cache` says
    where that was too little.
    """
    return int(min(max(_BEYOND_CACHE * last_cache_bytes, _LEAST_BYTES), _MOST_BYTES, allowed_bytes))


def measure_remote(
    bench: Bench, host: Host, cpus: tuple[int, ...], form: StreamForm, last_cache_bytes: float, allowed_bytes: int
) -> list[RemoteMemory]:
    """Read bandwidth and latency from each granted node to every one's memory, its own included.

    Empty where the granted CPUs lie on one node; on more than four, from the first CPU's node alone, as the whole
    matrix would take long. Memory belongs to the node of the thread that touches it first, so each stretch is
    touched by a CPU of its node, and read by a CPU of each.
    """
    first = cpus[0]
    node_of = {cpu: one.node for cpu in cpus if (one := host.cpu(cpu)) is not None and one.node is not None}
    homes = {node: cpu for cpu, node in reversed(node_of.items())}
    if len(homes) < 2 or first not in node_of:
        return []
    views, size = [], working_set(last_cache_bytes, allowed_bytes)
    readers = sorted(homes.values()) if len(homes) <= _MOST_NODES else [first]
    beyond = size >= _BEYOND_CACHE * last_cache_bytes
    for node, cpu in sorted(homes.items()):
        arena = ThreadArenas.touched(bench.pinned, {cpu: size}).by_cpu[cpu]
        for reader in readers:
            seen = ThreadArenas({reader: arena})
            trial = stream_trial(bench, seen, form, StreamCase(form.row, "core", size), (reader,), _RUN_S)
            read = bench.interleave([trial], _ROUNDS)[trial.key].series
            loads = latency(bench, arena, reader, [size], _ROUNDS, _RUN_S)[size]
            views.append(RemoteMemory(node_of[reader], node, read, loads, size, beyond))
    return sorted(views, key=lambda view: (view.node, view.home))
