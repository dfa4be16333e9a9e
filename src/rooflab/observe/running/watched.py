"""A command run as often as asked: one `Run` of what the system and the CPU's counters say of it."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rooflab.errors import RooflabError
from rooflab.machines.events import Events
from rooflab.observe.running import early, meanwhile
from rooflab.observe.running.command import Ended, execute, finish

if TYPE_CHECKING:
    from rooflab.types.counted import Counters
    from rooflab.types.run import Run
    from rooflab.types.usage import Meanwhile

Environment = Mapping[str, str] | None

NOT_ASKED = "FLOP and bytes of memory were not counted: --no-counters"


class Watched(NamedTuple):
    """A run, and what was counted of one execution; None without counters."""

    run: Run
    counted: Counters | None = None


def watched(command: Sequence[str], *, runs: int = 1, counters: bool = True, env: Environment = None) -> Watched:
    """Run `command` `runs` times, or until it fails.

    Args:
        command: its words.
        runs: how often; the events of the CPU are divided among the executions where they do not fit at once.
        counters: whether to count events.
        env: variables of its environment that are set or changed.

    Raises:
        RooflabError: it cannot be started, or its input cannot be had a second time.
    """
    if runs > 1:
        _check_input(runs)
    events = available() if counters else Events(lacks=(NOT_ASKED,))
    ended: list[Ended] = []
    others: list[Meanwhile] = []
    texts: list[str] = []
    for number in range(runs):
        if number:
            _rewind()
        begun = early.take(command) if env is None and not events.any else None
        before = meanwhile.moment(stat=None if begun is None else begun.stat)
        cpu_s = time.process_time() if begun is None else begun.own_cpu_s
        if begun is not None:
            one = finish(begun)
        elif events.any:
            one, text, refused = _counted(command, events, number, runs, env)
            texts.append(text)
            if refused is not None:  # it will be the next time too
                events = Events(lacks=(f"FLOP and bytes of memory were not counted: {refused}",))
        else:
            one = execute(command, env=env)
        ended.append(one)
        used = time.process_time() - cpu_s
        others.append(meanwhile.between(before, meanwhile.moment(), one.usage, used))
        if one.exit_code:
            break
    return _result(command, runs, ended, others, events, texts)


def available() -> Events:
    """The events that perf can count here; none where there is no perf, and that is said."""
    from rooflab.machines import events
    from rooflab.machines.detect.files import Tree
    from rooflab.observe.running import perf

    def microarchitecture() -> str | None:
        from rooflab.machines.detect import detect  # only where there are counters: the command waits for this

        return detect(gpus=False).microarchitecture

    found = events.available(Tree.at(Path("/")), microarchitecture)
    return Events(lacks=(perf.MISSING,)) if found.any and not perf.is_there() else found


def _counted(
    command: Sequence[str], events: Events, number: int, runs: int, env: Environment
) -> tuple[Ended, str, str | None]:
    """An execution with its share of the events, what perf wrote of them, and why it did not."""
    from rooflab.observe.running.perf import Session

    mine = [
        one for n, several in enumerate(events.sets) if n % runs == number % len(events.sets) for one in several
    ]
    core = dict.fromkeys(one.text for one in mine)
    with Session(tuple(core), tuple(one.text for one in events.memory)) as session:
        ended = execute(command, env=env, attach=session.attach, gated=True, detach=session.detach)
    return ended, session.text, session.refused


def _result(
    command: Sequence[str],
    asked: int,
    ended: list[Ended],
    others: list[Meanwhile],
    events: Events,
    texts: Sequence[str],
) -> Watched:
    import msgspec

    from rooflab.observe.running import verdict
    from rooflab.types.run import Run

    granted = granted_cores()
    notes = []
    if len(ended) < asked:
        notes.append(f"{len(ended)} of {asked} runs were made: the last one failed")
    run = Run(
        command=tuple(command),
        usage=tuple(one.usage for one in ended),
        exit_code=ended[-1].exit_code,
        signal=ended[-1].signal,
        granted_cores=granted,
        lacks=events.lacks,
    )
    shown = run.usage.index(run.middle)
    said = verdict.verdict(run.middle, granted, others[shown])
    counted = None
    if events.any:
        from rooflab.machines.detect import detect
        from rooflab.observe.running.counted import together

        cpu = detect(gpus=False).name or ""
        counted = together(texts, events, name=run.name, time_s=run.time_s, cpu=cpu)
        said = (*said, *counted.sentences)
        notes += [*events.notes, *counted.notes]
    return Watched(
        msgspec.structs.replace(
            run,
            way=verdict.way_of(run.middle, granted),
            verdict=said,
            meanwhile=others[shown],
            counts=() if counted is None else counted.counts,
            notes=tuple(notes),
        ),
        None if counted is None else counted.counters,
    )


def granted_cores() -> int | None:
    """How many CPUs this process may use, within its quota; None where the system does not say.

    As `machines.detect.granted_threads` counts them, without looking at the whole machine.
    """
    if not hasattr(os, "sched_getaffinity"):
        from rooflab.machines.detect import detect, granted_threads

        return len(granted_threads(detect(gpus=False))) or None
    from rooflab.machines.detect.files import Tree
    from rooflab.machines.detect.limits import read_limits

    allowed, quota = len(os.sched_getaffinity(0)), read_limits(Tree.at(Path("/"))).quota_cpus
    return allowed if quota is None else min(allowed, max(1, math.floor(quota)))


def _check_input(runs: int) -> None:
    """Return where every run can have the same standard input.

    Raises:
        RooflabError: it is a pipe, which can be read once.
    """
    try:
        again = os.isatty(0) or os.lseek(0, 0, os.SEEK_CUR) >= 0
    except OSError:
        again = sys.stdin is None  # closed: nothing to read, whichever run it is
    if not again:
        raise RooflabError(
            f"--runs {runs} runs the command again, and its standard input is a pipe: give it a file"
        )


def _rewind() -> None:
    """Let the next run read standard input from its beginning, where it is a file."""
    try:
        os.lseek(0, 0, os.SEEK_SET)
    except OSError:
        return  # a terminal
