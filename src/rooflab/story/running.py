"""What did this command do to the machine? A command run and watched."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rooflab.errors import RooflabError

if TYPE_CHECKING:
    from os import PathLike

    from rooflab.observe.running.profiler import Session
    from rooflab.types.machine import Machine
    from rooflab.types.run import Run


def run(
    command: Sequence[str],
    *,
    machine: str | PathLike[str] | Machine | None = None,
    runs: int = 1,
    counters: bool = True,
    profile: bool = False,
    profile_steps: int = 3,
    profile_s: float = 5.0,
    traces: str | PathLike[str] | None = None,
) -> Run:
    """Run `command` and say what it did to the machine: time, cores, faults, memory; FLOP and bytes where counted.

    Its standard streams are those of this process, and signals are handed on to it.

    Args:
        command: its words: ["python", "train.py"].
        machine: a name or file of one, whose roofs what was counted is held against; by default the machine of the
            catalogue that has this CPU's name.
        runs: how often it is run; events of the CPU that do not fit at once are divided among the executions.
        counters: whether to count events, where the CPU and the system allow it; not with `profile`.
        profile: whether to record it by PyTorch's or JAX's profiler, whichever it imports; it runs as it stands.
        profile_steps: how many optimizer steps are recorded, after two of warm-up, where it has any.
        profile_s: seconds that are recorded at most, each of its processes.
        traces: a folder that the profiler's own files are kept in.

    Returns:
        The run. `exit_code` is the command's own; an execution that fails or is killed is the last one.

    Raises:
        RooflabError: no such command, or one that cannot be started; runs below 1; no such folder.
        UnknownNameError: no such machine.
    """
    from rooflab.observe.running.command import check
    from rooflab.observe.running.watched import watched

    words = _words(command)
    if runs < 1:
        raise RooflabError(f"runs: got {runs}, expected a whole number above zero")
    check(words)
    target = None if machine is None else _machine(machine)
    if profile:
        return _profiled(words, target, _profiling(runs, profile_steps, profile_s, traces))
    found = watched(words, runs=runs, counters=counters)
    if found.counted is None:
        return found.run
    import msgspec

    from rooflab.story.observed import profiled

    return msgspec.structs.replace(found.run, profile=profiled(found.counted, found.run.name, target))


def _profiling(runs: int, steps: int, seconds: float, traces: str | PathLike[str] | None) -> Session:
    """What arms a program.

    Raises:
        RooflabError: more than one run, no steps or time, no such folder.
    """
    from pathlib import Path

    from rooflab.observe.running.profiler import Session

    if runs != 1:
        raise RooflabError(f"runs: got {runs}, a profile is of one run: leave it out")
    if steps < 1:
        raise RooflabError(f"profile_steps: got {steps}, expected a whole number above zero")
    if not 0 < seconds <= 600:
        raise RooflabError(f"profile_s: got {seconds:g}, expected seconds from 0 to 600")
    folder = None if traces is None else Path(traces)
    if folder is not None and not folder.is_dir():
        raise RooflabError(f"{folder}: no such folder, expected one that the profiler's files are kept in")
    return Session(steps, seconds, folder)


def _profiled(words: tuple[str, ...], machine: Machine | None, session: Session) -> Run:
    """A run of `words` with what a framework's profiler recorded of it."""
    import msgspec

    from rooflab.observe.running.watched import watched
    from rooflab.story.files import read_one
    from rooflab.story.several import read_several

    with session:
        run = watched(words, counters=False, env=session.env).run
        recorded = session.recorded()
        files = [one.file for one in recorded if one.file is not None]
        lacks = [one.sentence for one in recorded if one.file is None]
        found: dict[str, Any] = {}
        try:
            if len(files) == 1:
                found["profile"] = read_one(files[0], machine)
            elif files:
                found["profiles"] = read_several(files, machine, None)
        except RooflabError as error:
            lacks.append(f"its profile cannot be read: {error}")
        if not recorded:
            lacks.append(_NEITHER)
    notes = [*(one.sentence for one in recorded if one.file is not None), *run.notes]
    notes.append("times are those of a run that was profiled; FLOP and bytes were not counted by the CPU")
    return msgspec.structs.replace(run, lacks=tuple(lacks), notes=tuple(notes), **found)


_NEITHER = (
    "not profiled: no Python that it started imported torch or jax; a Python with -I, -E or -S is not reached, "
    "and for other programs there are profilers whose files `rooflab load` reads"
)


def _machine(machine: str | PathLike[str] | Machine) -> Machine | None:
    from rooflab.story.machines import as_machine

    return as_machine(machine)


def _words(command: Sequence[str]) -> tuple[str, ...]:
    if isinstance(command, str):
        raise RooflabError(f"command: got the text {command!r}, expected its words: {command.split()!r}")
    return tuple(command)
