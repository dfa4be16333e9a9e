"""What did this command do to the machine? A command run and watched."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rooflab.errors import RooflabError

if TYPE_CHECKING:
    from os import PathLike

    from rooflab.types.machine import Machine
    from rooflab.types.run import Run


def run(
    command: Sequence[str],
    *,
    machine: str | PathLike[str] | Machine | None = None,
    runs: int = 1,
    counters: bool = True,
) -> Run:
    """Run `command` and say what it did to the machine: time, cores, faults, memory; FLOP and bytes where counted.

    Its standard streams are those of this process, and signals are handed on to it.

    Args:
        command: its words: ["python", "train.py"].
        machine: a name or file of one, whose roofs what was counted is held against; by default the machine of the
            catalogue that has this CPU's name.
        runs: how often it is run; events of the CPU that do not fit at once are divided among the executions.
        counters: whether to count events, where the CPU and the system allow it.

    Returns:
        The run. `exit_code` is the command's own; an execution that fails or is killed is the last one.

    Raises:
        RooflabError: no such command, or one that cannot be started; runs below 1.
        UnknownNameError: no such machine.
    """
    from rooflab.observe.running.command import check
    from rooflab.observe.running.watched import watched

    words = _words(command)
    if runs < 1:
        raise RooflabError(f"runs: got {runs}, expected a whole number above zero")
    check(words)
    target = None if machine is None else _machine(machine)
    found = watched(words, runs=runs, counters=counters)
    if found.counted is None:
        return found.run
    import msgspec

    from rooflab.story.observed import profiled

    return msgspec.structs.replace(found.run, profile=profiled(found.counted, found.run.name, target))


def _machine(machine: str | PathLike[str] | Machine) -> Machine | None:
    from rooflab.story.machines import as_machine

    return as_machine(machine)


def _words(command: Sequence[str]) -> tuple[str, ...]:
    if isinstance(command, str):
        raise RooflabError(f"command: got the text {command!r}, expected its words: {command.split()!r}")
    return tuple(command)
