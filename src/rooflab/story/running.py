"""What did this command do to the machine? A command run and watched."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rooflab.errors import RooflabError

if TYPE_CHECKING:
    from rooflab.types.run import Run


def run(
    command: Sequence[str],
    *,
    runs: int = 1,
) -> Run:
    """Run `command` and say what it did to the machine: its time, cores, page faults, memory and waits.

    Its standard streams are those of this process, and signals are handed on to it.

    Args:
        command: its words: ["python", "train.py"].
        runs: how often it is run.

    Returns:
        The run. `exit_code` is the command's own; an execution that fails or is killed is the last one.

    Raises:
        RooflabError: no such command, or one that cannot be started; runs below 1.
    """
    from rooflab.observe.running.command import check
    from rooflab.observe.running.watched import watched

    words = _words(command)
    if runs < 1:
        raise RooflabError(f"runs: got {runs}, expected a whole number above zero")
    check(words)
    return watched(words, runs=runs)


def _words(command: Sequence[str]) -> tuple[str, ...]:
    if isinstance(command, str):
        raise RooflabError(f"command: got the text {command!r}, expected its words: {command.split()!r}")
    return tuple(command)
