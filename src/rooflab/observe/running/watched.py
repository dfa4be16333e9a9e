"""A command run as often as asked: one `Run` of what the system says of it."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rooflab.errors import RooflabError
from rooflab.observe.running import meanwhile
from rooflab.observe.running.command import Ended, execute

if TYPE_CHECKING:
    from rooflab.types.run import Run
    from rooflab.types.usage import Meanwhile

# Said of every run: without it a reader may take what is not there for zero.
NOT_COUNTED = (
    "FLOP and bytes of memory: rooflab run counts no events of the CPU; where it grants them "
    "(`rooflab doctor`), run `perf stat -j` and load its file"
)


def watched(command: Sequence[str], *, runs: int = 1) -> Run:
    """Run `command` `runs` times, or until it fails.

    Raises:
        RooflabError: it cannot be started, or its input cannot be had a second time.
    """
    if runs > 1:
        _check_input(runs)
    ended: list[Ended] = []
    others: list[Meanwhile] = []
    for number in range(runs):
        if number:
            _rewind()
        before, cpu_s = meanwhile.moment(), time.process_time()
        ended.append(execute(command))
        used = time.process_time() - cpu_s
        others.append(meanwhile.between(before, meanwhile.moment(), ended[-1].usage, used))
        if ended[-1].exit_code:
            break
    return _result(command, runs, ended, others)


def _result(command: Sequence[str], asked: int, ended: list[Ended], others: list[Meanwhile]) -> Run:
    from rooflab.machines.detect import detect, granted_threads
    from rooflab.observe.running import verdict
    from rooflab.types.run import Run

    granted = len(granted_threads(detect(gpus=False))) or None
    notes = []
    if len(ended) < asked:
        notes.append(f"{len(ended)} of {asked} runs were made: the last one failed")
    run = Run(
        command=tuple(command),
        usage=tuple(one.usage for one in ended),
        exit_code=ended[-1].exit_code,
        signal=ended[-1].signal,
        granted_cores=granted,
    )
    shown = run.usage.index(run.middle)
    return Run(
        command=run.command,
        usage=run.usage,
        exit_code=run.exit_code,
        signal=run.signal,
        granted_cores=granted,
        way=verdict.way_of(run.middle, granted),
        verdict=verdict.verdict(run.middle, granted, others[shown]),
        meanwhile=others[shown],
        lacks=(NOT_COUNTED,),
        notes=tuple(notes),
    )


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
