"""The nodes of a fleet: one of each host or worker, measured over any workers, results as they come."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Literal

import msgspec

from rooflab.errors import RooflabError
from rooflab.executors import Outcome, Place, Workers
from rooflab.machines.fleet.measured_there import Found, Ticket, measured_there
from rooflab.types.fleet import FleetNode
from rooflab.types.machine import Machine

Each = Literal["host", "worker"]
Progress = Callable[[str, float, float], None]
# Dask sets these to 1 in its workers, for tasks that run beside each other (distributed.nanny.pre-spawn-environ):
# what a machine can do is measured alone.
DASK_SETS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def measure_nodes(
    workers: Workers,
    each: Each,
    arguments: Sequence[str],
    measure: Callable[[], Machine] | None,
    progress: Progress,
) -> list[FleetNode]:
    """One node for each host, or for each worker, of `workers`: those of one host in turn.

    Raises:
        RooflabError: workers that do not say how many they are.
    """
    places = workers.places()
    if not places:
        raise RooflabError(f"workers: {workers.name} does not say how many workers it has, expected workers=N")
    # Where hosts are known one worker of each is asked; else all are, and find out who was first on its host.
    if each == "host" and can_ask_again(workers):
        places = tuple({place.host: place for place in reversed(places)}.values())
    ticket = _ticket(workers, each, arguments, measure)
    nodes, text = [], f"measuring {len(places)} node{'s' if len(places) > 1 else ''}"
    progress(text, 0, len(places))
    for done, outcome in enumerate(workers.each(measured_there, [ticket] * len(places), places)):
        node = _node(outcome, places[outcome.at], each)
        if node is not None:
            nodes.append(node)
        progress(text, done + 1, len(places))
    return _named(nodes, each)


def measure_again(
    workers: Workers,
    nodes: Sequence[FleetNode],
    arguments: Sequence[str],
    measure: Callable[[], Machine] | None,
    progress: Progress,
) -> dict[str, FleetNode]:
    """The nodes measured once more, by name; only where workers can be told apart."""
    places = [Place(node.worker or "", node.host) for node in nodes]
    ticket = _ticket(workers, "worker", arguments, measure)
    found, text = {}, f"measuring {len(nodes)} slow node{'s' if len(nodes) > 1 else ''} again"
    progress(text, 0, len(nodes))
    for outcome in workers.each(measured_there, [ticket] * len(nodes), places):
        node, before = _node(outcome, places[outcome.at], "worker"), nodes[outcome.at]
        if node is not None:
            told = None if node.failed is None else f"not measured again: {node.failed}"
            found[before.name] = msgspec.structs.replace(before, again=node.machine, failed=told)
        progress(text, len(found), len(nodes))
    return found


def can_ask_again(workers: Workers) -> bool:
    """Whether one of `workers` can be asked by name once more: not of an executor, nor of ranks, which end."""
    return all(place.host for place in workers.places())


def _ticket(
    workers: Workers, each: Each, arguments: Sequence[str], measure: Callable[[], Machine] | None
) -> Ticket:
    without = DASK_SETS if workers.sets_threads else ()
    return Ticket(workers.run, each == "host", tuple(arguments), without, measure)


def _node(outcome: Outcome, place: Place, each: Each) -> FleetNode | None:
    """The node of an outcome; None where another worker of that host had measured it."""
    worker = outcome.worker or place.worker
    if outcome.failed is not None:
        return FleetNode(
            name=_short(worker), host=place.host, worker=worker, failed=outcome.failed, tries=outcome.tries
        )
    found: Found = outcome.value
    if found.machine is None:
        return None
    machine = Machine.from_dict(msgspec.json.decode(found.machine))
    return FleetNode(
        name=found.hostname if each == "host" else f"{found.hostname} {_short(place.worker)}",
        host=found.host,
        worker=worker,
        kind=kind_of(machine),
        machine=machine,
        failed=None if machine.incomplete is None else f"incomplete: {machine.incomplete}",
        tries=outcome.tries,
    )


def kind_of(machine: Machine) -> str:
    """What nodes must share to be held against each other: the processor, and how many cores are granted."""
    count, unit = machine.compute_units, machine.compute_unit or "core"
    return machine.name if count is None else f"{machine.name}, {count} {unit}{'' if count == 1 else 's'}"


def _named(nodes: list[FleetNode], each: Each) -> list[FleetNode]:
    """The nodes in order of their names, each once; names that two share take the worker's."""
    if each == "host":  # two workers that nothing told apart may have measured one host
        hosts = {node.host: node for node in reversed(nodes) if node.machine is not None}
        nodes = [node for node in nodes if node.machine is None or hosts[node.host] is node]
    shared = Counter(node.name for node in nodes)
    named = [
        msgspec.structs.replace(node, name=f"{node.name} {_short(node.worker or node.host)}")
        if shared[node.name] > 1
        else node
        for node in nodes
    ]
    return sorted(named, key=lambda node: natural(node.name))


def natural(text: str) -> list[tuple[int, str]]:
    """A key by which "node 2" comes before "node 10"."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", text)]


def _short(worker: str) -> str:
    """An address without its protocol."""
    return worker.rpartition("://")[2]


def conditions(workers: Workers, each: Each, own: bool) -> list[str]:
    """How nodes were measured, in sentences; `own`: by the caller's function."""
    what = "the function that was given ran" if own else "`rooflab measure` ran in a process of its own"
    lines = [f"{what} once on each {each}; those of one host took turns, hosts were measured at the same time"]
    if workers.sets_threads and not own:
        lines.append(f"{', '.join(DASK_SETS)}, which Dask sets in its workers, were not handed on")
    return lines
