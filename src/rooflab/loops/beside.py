"""A copy of this process at work on tasks beside it: what it keeps on disk, and what tasks return, is found here.

This process comes to the tasks too, in an order of its own: what the copy has not begun by then is done here. The
copy stands still while anything is timed. Where there is none, or it comes to nothing, all is done here.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import pickle
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rooflab.loops import copied, kept

_OPEN, _OURS, _BEGUN, _DONE = 0, 1, 2, 3
_LOOK_S = 1e-3  # between looks at whether it is done
_STUCK_S = 1.0  # without a moment of computing: it waits for a lock of a thread that was not copied
_DIES_WITH_PARENT = 1  # PR_SET_PDEATHSIG (linux/prctl.h)
_CLOCK_OF_PROCESS = 2  # CPUCLOCK_SCHED, in the number of another process's clock (linux/posix-timers.h)
_MOST_BYTES = 64 << 20  # of arguments: of more, copies for all tasks at once are too many

Key = tuple[Any, ...]


class Beside:
    """A copy of this process at work on tasks; to be ended."""

    def __init__(
        self, tasks: Mapping[Key, Callable[[], object]], ours: Collection[Key] = (), stderr: Any = None
    ) -> None:
        """Begin.

        Args:
            tasks: in the order in which they are done, what each is called here. What they return is handed over
                by `pickle`, what they keep on disk is found there.
            ours: those that are left to this process, which comes to them at once.
            stderr: a file that what the copy writes to its standard error goes to.
        """
        self._numbers = {key: number for number, key in enumerate(tasks)}
        self._states = mmap.mmap(-1, max(1, len(tasks)))
        for key in ours:
            self.leave(key)
        self._results = [tempfile.TemporaryFile() for _ in tasks]  # noqa: SIM115  until it is ended
        self._pid = 0  # of the copy; there, none
        try:
            with _alone():
                self._pid = copied.start(lambda: self._work(list(tasks.values()), stderr))
        except OSError:
            # no memory or no process to be had: all of it is done here
            self._states[:] = bytes([_OURS]) * len(self._states)

    def _work(self, tasks: list[Callable[[], object]], stderr: Any) -> None:
        """The copy's part."""
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        ctypes.CDLL(None).prctl(_DIES_WITH_PARENT, int(signal.SIGKILL))
        if stderr is not None:
            os.dup2(stderr.fileno(), 2)
        for number, task in enumerate(tasks):
            if self._states[number] == _OPEN:
                self._states[number] = _BEGUN
                # what it cannot do is found out here, and said
                with contextlib.suppress(Exception):
                    self._results[number].write(pickle.dumps(task()))
                    self._results[number].flush()
                self._states[number] = _DONE

    def claim(self, *keys: Key) -> None:
        """Return once each task is done there, or ours to do: one that was not begun no longer will be."""
        for key in keys:
            self.leave(key)
            self.done(key)

    def done(self, *keys: Key) -> bool:
        """Return once each task that the copy is to do is done, or will not be; whether all of them are."""
        numbers = [self._numbers[key] for key in keys if key in self._numbers]
        computed_s, since = self._computed_s(), time.monotonic()
        while any(self._states[each] in (_OPEN, _BEGUN) for each in numbers) and self._is_alive():
            time.sleep(_LOOK_S)
            if time.monotonic() - since > _STUCK_S:
                now_s = self._computed_s()
                if now_s == computed_s:
                    self._kill()
                computed_s, since = now_s, time.monotonic()
        return all(self._states[each] == _DONE for each in numbers)

    def result(self, key: Key) -> Any:
        """What a task returned there, which is waited for if it was begun; None where it is ours to do."""
        self.claim(key)
        number = self._numbers.get(key)
        if number is None or self._states[number] != _DONE:
            return None
        self._results[number].seek(0)
        content = self._results[number].read()
        return pickle.loads(content) if content else None

    def leave(self, key: Key) -> None:
        """Have a task that was not begun there not be begun."""
        number = self._numbers.get(key)
        if number is not None and self._states[number] == _OPEN:
            self._states[number] = _OURS

    def _is_alive(self) -> bool:
        try:
            if self._pid and os.waitpid(self._pid, os.WNOHANG)[0]:
                self._pid = 0
        except ChildProcessError:
            # somebody waits for all children of this process
            self._pid = 0
        return bool(self._pid)

    def _computed_s(self) -> float:
        """Seconds that the copy has computed; 0 where it is not known."""
        try:
            return time.clock_gettime((~self._pid << 3) | _CLOCK_OF_PROCESS) if self._pid else 0.0
        except OSError:
            # it has ended
            return 0.0

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

    def _kill(self) -> None:
        if self._is_alive():
            os.kill(self._pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self._pid, 0)
        self._pid = 0

    def end(self) -> None:
        """End the copy."""
        self._kill()
        for each in self._results:
            each.close()
        self._states.close()


@contextmanager
def _alone() -> Iterator[None]:
    """While it lasts no other thread compiles: a copy has the locks of those that it has not.

    A lock that a thread holds as this process is copied stays locked in the copy.
    """
    if "numba" not in sys.modules:
        yield
        return
    from numba.core.compiler_lock import global_compiler_lock

    with global_compiler_lock:
        yield


def is_worth_it(nbytes: int) -> bool:
    """Whether a process is copied for what the copy leaves on disk: where `can_be`, with a disk.

    Where nothing was compiled yet, all answers were found on disk, and further ones will be.
    """
    return "numba" in sys.modules and kept.is_on() and can_be(nbytes)


def can_be(nbytes: int) -> bool:
    """Whether a process over arguments of so many bytes is copied at all: on Linux, with a second core."""
    return sys.platform == "linux" and has_second_core() and nbytes <= _MOST_BYTES


def has_second_core() -> bool:
    """Whether this process may use a second core."""
    try:
        return len(os.sched_getaffinity(0)) > 1
    except AttributeError:
        # not on Linux
        return (os.cpu_count() or 1) > 1
