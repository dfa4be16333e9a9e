"""Which of these machines is slow? Every node of a fleet measured, and held against the others."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import TYPE_CHECKING

from rooflab.errors import RooflabError

if TYPE_CHECKING:
    from rooflab.executors import On
    from rooflab.machines.fleet.nodes import Each
    from rooflab.types.fleet import Fleet
    from rooflab.types.machine import Machine


def fleet_measure(
    on: On = None,
    *,
    quick: bool = False,
    each: Each = "host",
    workers: int | None = None,
    again: bool = True,
    measure: Callable[[], Machine] | None = None,
    progress: Callable[[str, float, float], None] | None = None,
) -> Fleet:
    """Measure every node of a fleet once, at the same time, and say which is slow, with the evidence.

    On each host `rooflab measure` runs in a process of its own, while no other worker of that host measures.

    Args:
        on: the address of a Dask scheduler ("tcp://HOST:8786") or a client of one, "ranks:FOLDER" on the ranks of
            a job that srun, mpirun or torchrun started (docs/fleets.md), a `concurrent.futures.Executor`; None for
            this host alone.
        quick: quick measurements, as `rooflab.measure(quick=True)`.
        each: "host", or "worker" where workers are bound to sockets: those of one host are measured in turn.
        workers: how many an executor has, where it does not say; with each="worker", how often this host is
            measured.
        again: whether nodes that stand apart are measured a second time, and cleared where that does not confirm
            it.
        measure: what to run on each node instead: a function without arguments that gives a `Machine`.
        progress: called with what is done, how many nodes, and of how many.

    Returns:
        The fleet. On a rank of a job other than 0, that rank's own node alone.

    Raises:
        RooflabError: no such scheduler, or without workers; another version of rooflab there; no node measured.
        MissingExtraError: Dask is not installed.
    """
    from rooflab.comparing.fleet import judged
    from rooflab.executors import over
    from rooflab.machines.fleet import nodes as fleet

    if each not in ("host", "worker"):
        raise RooflabError(f"each: got {each!r}, expected 'host' or 'worker'")
    date = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    arguments = ("--quick",) if quick else ()
    report = progress or (lambda text, done, total: None)
    with over(on, workers=workers) as many:
        found = fleet.measure_nodes(many, each, arguments, measure, report)
        if many.merges and not any(node.machine for node in found):
            raise RooflabError(f"no node was measured: {'; '.join(str(node.failed) for node in found[:3])}")
        first = judged(found, many.name, date)
        notes = fleet.conditions(many, each, measure is not None)
        suspects = [first[name] for name in first.suspects]
        if suspects and again and fleet.can_ask_again(many):
            once_more = fleet.measure_again(many, suspects, arguments, measure, report)
            found = [once_more.get(node.name, node) for node in found]
        elif suspects and again:
            notes.append(f"nothing was measured again: one of {many.name} cannot be asked by name once more")
        return judged(found, many.name, date, quick=quick, notes=(*notes, *many.notes))
