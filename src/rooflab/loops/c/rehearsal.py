"""A run in a copy of this process: what ends it there, a signal or no end, is said instead of suffered."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import tempfile
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from rooflab.loops import copied
from rooflab.units import duration

LIMIT_S = 60.0  # of a rehearsal, where the caller knows none
_SHORTEST_S, _LONGEST_S = 2e-4, 2e-2  # between looks at whether it has ended


def ended(run: Callable[[], Any], limit_s: float | None) -> str:
    """How `run` ended a copy of this process: "is ended by SIGILL", "has no end within 60 s"; "" where it returns.

    What it prints goes nowhere, what it reads is empty, what it writes to memory stays in the copy. Where no
    process can be copied, nothing is run.
    """
    if not hasattr(os, "fork"):
        return ""
    pid = copied.start(run)
    limit = LIMIT_S if limit_s is None else limit_s
    until, wait = time.perf_counter() + limit, _SHORTEST_S
    try:
        while time.perf_counter() < until:
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                pid = 0
                return _said(status)
            time.sleep(wait)
            wait = min(2 * wait, _LONGEST_S)
        return f"has no end within {duration(limit)}"
    finally:
        if pid:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


class Brought(NamedTuple):
    """What a copy of this process came to: its result, or how it ended."""

    result: Any = None
    how: str = ""


def brought(run: Callable[[], Any], limit_s: float | None) -> Brought:
    """What `run` returns in a copy of this process, or how that ended, as `ended` says it.

    What it returns is handed over by `pickle`. Where no process can be copied, it runs here.

    Raises:
        Exception: what `run` raises.
    """
    if not hasattr(os, "fork"):
        return Brought(run())
    with tempfile.TemporaryFile() as held:

        def told() -> None:
            try:
                answer: tuple[Any, Exception | None] = run(), None
            except Exception as error:  # noqa: BLE001
                # raised again where it can be handled
                answer = None, error
            with contextlib.suppress(OSError):
                held.write(pickle.dumps(answer))
                held.flush()

        if how := ended(told, limit_s):
            return Brought(how=how)
        held.seek(0)
        content = held.read()
    if not content:
        return Brought(how="ends without an answer")
    result, error = pickle.loads(content)
    if error is not None:
        raise error
    return Brought(result)


def _said(status: int) -> str:
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        named = {each.value: each.name for each in signal.Signals}
        return f"is ended by {named.get(number, f'signal {number}')}"
    code = os.WEXITSTATUS(status)
    return f"ends the process with code {code}" if code else ""
