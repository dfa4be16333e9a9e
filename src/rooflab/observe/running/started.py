"""A command that was started, and the signals of this process handed on to it: with the least of Python's library.

What this module imports, a command of `rooflab run` waits for: see `early`.
"""

from __future__ import annotations

import os
import signal
import time

TYPE_CHECKING = False  # typing's own takes 7 ms to import
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType
    from typing import Any, Protocol

    class Child(Protocol):
        """A process that was started: a `Spawned` or a `subprocess.Popen`."""

        pid: int
        returncode: int | None

        def kill(self) -> None:
            """Kill it."""
            ...

        def wait(self) -> int:
            """Its exit code, when it has ended."""
            ...


HANDED_ON = tuple(
    getattr(signal, name)
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGCONT")
    if hasattr(signal, name)
)
# These the terminal sends to every process in its foreground, the command too: handed on only if someone's kill
# sent them. linux/include/uapi/asm-generic/siginfo.h: SI_KERNEL.
_OF_A_TERMINAL = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGCONT)
_SI_KERNEL = 0x80
_IGNORED_BY_PYTHON = ("SIGPIPE", "SIGXFSZ")  # which a command would be started with


class Spawned:
    """A process by its number, as `subprocess.Popen` has it; that takes 8 ms to import."""

    def __init__(self, path: str, words: Sequence[str]) -> None:
        """Start the file at `path` with the streams of this process.

        Raises:
            OSError: it cannot be started.
        """
        restored = [getattr(signal, name) for name in _IGNORED_BY_PYTHON if hasattr(signal, name)]
        self.pid = os.posix_spawn(path, list(words), os.environ, setsigdef=restored)
        self.returncode: int | None = None

    def kill(self) -> None:
        """Kill it."""
        os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> int:
        """Its exit code, when it has ended."""
        if self.returncode is None:
            self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.returncode


class Waiter:
    """Waits for a process and hands signals on to it, from `take` until `give_back`."""

    def __init__(self) -> None:
        """Without a process yet, and without signals."""
        self.pid: int | None = None
        self.ended: float | None = None  # when the process was seen to have, of time.perf_counter
        self._early: list[int] = []
        self._blocked: set[int] = set()
        self._before: dict[int, Any] = {}

    def take(self) -> None:
        """Have the signals of this process; only its main thread may."""
        ignored = {one for one in HANDED_ON if signal.getsignal(one) in (signal.SIG_IGN, None)}
        taken = [one for one in HANDED_ON if one not in ignored and one != signal.SIGCONT]
        self._before = {number: signal.signal(number, self.note) for number in taken}
        # Something must be done with SIGCHLD for it to be kept while it is blocked; what began early may end
        # before it is waited for.
        self._before[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, lambda *_: self.look())
        self._blocked = {*taken, signal.SIGCHLD}

    def give_back(self) -> None:
        """Let signals do again what they did before."""
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before, self._blocked = {}, set()

    def note(self, number: int, frame: object) -> None:
        """The handler of the signals until they are blocked, and for good where they cannot be waited for."""
        if self.pid is None:
            self._early.append(number)
        elif number not in _OF_A_TERMINAL or not _on_a_terminal():
            self.send(number)

    def send(self, number: int) -> None:
        """Send signal `number` to the process, if it is still there."""
        if self.pid is not None:
            try:
                os.kill(self.pid, number)
            except ProcessLookupError:
                return  # it has just ended

    def look(self) -> bool:
        """Whether the process has ended; when that was is noted the first time."""
        if self.ended is None and self.pid is not None:
            options = os.WEXITED | os.WNOWAIT | os.WNOHANG
            if os.waitid(os.P_PID, self.pid, options) is not None:
                self.ended = time.perf_counter()
        return self.ended is not None

    def until_exit(self) -> float:
        """When the process ended, of `time.perf_counter`: returns then; it is not reaped."""
        assert self.pid is not None
        for number in self._early:
            self.note(number, None)
        self._early.clear()
        if not self._blocked or not hasattr(signal, "sigwaitinfo"):
            os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
            return self.ended or time.perf_counter()
        # Blocked only now: what is blocked when a process starts is blocked in it too.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, self._blocked)
        try:
            while not self.look():
                found = signal.sigwaitinfo(self._blocked)
                by_terminal = found.si_signo in _OF_A_TERMINAL and found.si_code == _SI_KERNEL
                if found.si_signo != signal.SIGCHLD and not by_terminal:
                    self.send(found.si_signo)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        assert self.ended is not None
        return self.ended

    def __enter__(self) -> Waiter:
        self.take()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.give_back()


class Started:
    """A command that runs.

    Attributes:
        words: of it.
        child: its process.
        waiter: has its signals.
        begin: when it began, of `time.perf_counter`.
        own_peak_bytes: the most memory that this process had by then, with which the command's figure begins.
        stat: the first line of /proc/stat from before it; "" where there is none.
        own_cpu_s: CPU time of this process before it.
    """

    def __init__(self, path: str, words: Sequence[str], waiter: Waiter) -> None:
        """Start it.

        Raises:
            OSError: it cannot be started.
        """
        self.words, self.waiter = tuple(words), waiter
        self.stat, self.own_cpu_s = stat_line(), time.process_time()
        self.begin = time.perf_counter()
        self.child: Child = Spawned(path, words)
        waiter.pid = self.child.pid
        waiter.look()  # for it may have ended already
        self.own_peak_bytes = own_peak_bytes()


def stat_line() -> str:
    """The first line of /proc/stat: what all CPUs did since the machine started; "" where there is none."""
    return _read("/proc/stat").partition("\n")[0]


def own_peak_bytes() -> int | None:
    """The most resident memory of this process' image, which a child's figure begins with; None if unknown.

    Linux' VmHWM: getrusage keeps the memory of what this process was before its exec too, and of who started that.
    """
    for line in _read("/proc/self/status").splitlines():
        name, _, value = line.partition(":")
        if name == "VmHWM" and value.strip().endswith(" kB"):
            return int(value.strip().removesuffix(" kB")) * 1024
    return None


def _read(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read()
    except OSError:
        return ""  # macOS, or no /proc


def _on_a_terminal() -> bool:
    """Whether this process is in the foreground of a terminal, whose Ctrl-C reaches the command by itself."""
    try:
        return os.tcgetpgrp(0) == os.getpgrp()
    except OSError:
        return False
