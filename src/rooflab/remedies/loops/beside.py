"""Changed loops compiled and counted in a copy of this process, beside it: what it keeps on disk is found here.

This process goes through the changes from the first on, the copy through the rest of them; it stands still while
anything is timed. What it leaves undone, or where there is none, is done here.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rooflab.loops import copied, kept

_OPEN, _OURS, _BEGUN, _DONE = 0, 1, 2, 3
_LOOK_S = 1e-3  # between looks at whether it is done
_DIES_WITH_PARENT = 1  # PR_SET_PDEATHSIG (linux/prctl.h)
_MOST_BYTES = 64 << 20  # of arguments: of more, copies for all changes at once are too many

Key = tuple[Any, ...]


class Beside:
    """A copy of this process at work on tasks; to be ended."""

    def __init__(self, tasks: Mapping[Key, Callable[[], object]]) -> None:
        """`tasks`: in the order in which they are done, what each is called here; they keep what they find out.

        The first is left to this process, which comes to it at once.
        """
        self._numbers = {key: number for number, key in enumerate(tasks)}
        self._states = mmap.mmap(-1, max(1, len(tasks)))
        self._states[0] = _OURS
        self._pid = 0  # of the copy; there, none
        self._pid = copied.start(lambda: self._work(list(tasks.values())))

    def _work(self, tasks: list[Callable[[], object]]) -> None:
        """The copy's part."""
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        ctypes.CDLL(None).prctl(_DIES_WITH_PARENT, int(signal.SIGKILL))
        for number, task in enumerate(tasks):
            if self._states[number] == _OPEN:
                self._states[number] = _BEGUN
                # what it cannot do is found out here, and said
                with contextlib.suppress(Exception):
                    task()
                self._states[number] = _DONE

    def claim(self, *keys: Key) -> None:
        """Return once each task is done there, or ours to do: one that was not begun no longer will be."""
        for key in keys:
            number = self._numbers.get(key)
            if number is None:
                continue
            self.leave(key)
            while self._states[number] == _BEGUN and self._is_alive():
                time.sleep(_LOOK_S)

    def leave(self, key: Key) -> None:
        """Have a task that was not begun there not be begun."""
        number = self._numbers.get(key)
        if number is not None and self._states[number] == _OPEN:
            self._states[number] = _OURS

    def _is_alive(self) -> bool:
        if self._pid and os.waitpid(self._pid, os.WNOHANG)[0]:
            self._pid = 0
        return bool(self._pid)

    @contextmanager
    def still(self) -> Iterator[None]:
        """While it lasts, the copy does nothing."""
        self._send(signal.SIGSTOP)
        try:
            yield
        finally:
            self._send(signal.SIGCONT)

    def _send(self, what: signal.Signals) -> None:
        if self._is_alive():
            os.kill(self._pid, what)

    def end(self) -> None:
        """End the copy."""
        if self._is_alive():
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
        self._pid = 0
        self._states.close()


def is_worth_it(nbytes: int) -> bool:
    """Whether a process over arguments of so many bytes is copied: on Linux, with a second core, and a disk.

    Where nothing was compiled yet, all answers were found on disk, and further ones will be.
    """
    if "numba" not in sys.modules:
        return False
    from rooflab.loops.compiled import ahead

    return sys.platform == "linux" and kept.is_on() and ahead.is_worth_it() and nbytes <= _MOST_BYTES
