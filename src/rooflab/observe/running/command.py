"""One execution of a command: its streams left alone, signals handed on, and what the system says of it."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rooflab.errors import RooflabError, near_matches
from rooflab.observe.running.started import Waiter, own_peak_bytes

if TYPE_CHECKING:
    from rooflab.observe.running.started import Child, Started
    from rooflab.types.usage import Usage

_MAXRSS_BYTES = 1 if sys.platform == "darwin" else 1024  # getrusage(2) of Linux and of macOS
# Linux counts resident pages in batches, one for each CPU: its figure may be off by some hundred kB.
_UNCOUNTED_BYTES = 1 << 20
_PATIENCE_S = 10.0

# Stops itself, so that counters can be opened on it, and then becomes the command under the same number.
GATE = ("/bin/sh", "-c", 'kill -STOP $$; exec "$@"', "sh")


class Ended(NamedTuple):
    """How an execution ended.

    Attributes:
        exit_code: 128 + n where signal n killed it.
        signal: the name of that signal; None where there was none.
    """

    exit_code: int
    signal: str | None
    usage: Usage


class Held(NamedTuple):
    """A process that has started: `pid`, and whether it is stopped before its first instruction."""

    pid: int
    stopped: bool


Attach = Callable[[Held], None]


def check(command: Sequence[str]) -> None:
    """Return where `command` can be started.

    Raises:
        RooflabError: no command, or none of that name that may be executed.
    """
    if not command:
        raise RooflabError("run needs a command: rooflab run -- python script.py")
    name = command[0]
    if "\0" in "".join(command):
        raise RooflabError(f"{name!r}: a command cannot hold a NUL character")
    if shutil.which(name) is not None:
        return
    path = Path(name)
    if os.sep in name and path.is_dir():
        raise RooflabError(f"{name}: is a folder, expected a command")
    if os.sep in name and path.exists():
        raise RooflabError(f"{name}: may not be executed (chmod +x {name})")
    if os.sep in name:
        raise RooflabError(f"{name}: no such file, expected a command")
    if path.is_file():
        how = "python " if path.suffix == ".py" else "./"
        raise RooflabError(f"{name}: no such command on PATH; the file here is run by: {how}{name}")
    near = near_matches(name, _on_path()) if len(name) > 2 else []
    raise RooflabError(f"{name}: no such command on PATH{f'; did you mean {near[0]}?' if near else ''}")


def _on_path() -> set[str]:
    found: set[str] = set()
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        try:
            found.update(os.listdir(folder or "."))
        except OSError:
            continue  # folders on PATH need not exist
    return found


def execute(
    command: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    attach: Attach | None = None,
    gated: bool = False,
    traceable: bool = False,
    detach: Callable[[], None] | None = None,
) -> Ended:
    """Run `command` to its end, with the streams of this process and its signals.

    Args:
        command: what `check` found startable.
        env: variables of the environment that are set or changed.
        attach: called when it has started, before its first instruction where `gated`.
        gated: start it stopped, and let it go when `attach` has returned.
        traceable: let any process of this user read its memory, where the system (Yama) keeps it to its parents.
        detach: called at its end, while its last figures can still be read.

    Returns:
        How it ended and what the system says of it; the time runs from its start, or from when it was let go.

    Raises:
        RooflabError: it cannot be started.
    """
    with _signals() as waiter:
        begin = time.perf_counter()
        child = _start([*GATE, *command] if gated else list(command), env, traceable)
        waiter.pid = child.pid
        # Read after the start: what this process had when it was copied is no more than it has had by now.
        least = _own_peak_bytes() + _UNCOUNTED_BYTES
        before = 0
        try:
            if gated:
                os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
                before = _minor_faults(child.pid)
            if attach is not None:
                attach(Held(child.pid, gated))
        except BaseException:
            child.kill()
            child.wait()
            raise
        if gated:
            begin = time.perf_counter()
            os.kill(child.pid, signal.SIGCONT)
        return _ended(child, waiter, begin, least, faults=before, detach=detach)


def finish(started: Started) -> Ended:
    """Wait for a command that runs already, as `execute` does for one that it starts."""
    own = started.own_peak_bytes or _own_peak_bytes()
    try:
        return _ended(started.child, started.waiter, started.begin, own + _UNCOUNTED_BYTES)
    finally:
        started.waiter.give_back()


def _ended(
    child: Child,
    waiter: Waiter,
    begin: float,
    least_bytes: int,
    *,
    faults: int = 0,
    detach: Callable[[], None] | None = None,
) -> Ended:
    """How `child` ended, when it has; `faults` it had before it began."""
    wall_s = waiter.until_exit() - begin
    moved = _moved(child.pid)
    if detach is not None:
        detach()
    waiter.pid = None  # its number may be given to another process from here on
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)  # so that nobody waits for it again
    from rooflab.types.usage import Usage  # now: a command does not wait for it

    peak = used.ru_maxrss * _MAXRSS_BYTES
    usage = Usage(
        wall_s=wall_s,
        user_s=used.ru_utime,
        system_s=used.ru_stime,
        peak_memory_bytes=peak if peak > least_bytes else None,
        least_memory_bytes=least_bytes,
        minor_faults=max(used.ru_minflt - faults, 0),
        major_faults=used.ru_majflt,
        voluntary_switches=used.ru_nvcsw,
        involuntary_switches=used.ru_nivcsw,
        **moved,
    )
    return Ended(*_code(child.returncode), usage)


def _own_peak_bytes() -> int:
    """As `started` has it; where the system does not say, getrusage's larger figure, which makes less known."""
    return own_peak_bytes() or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _MAXRSS_BYTES


def _start(command: list[str], env: Mapping[str, str] | None, traceable: bool) -> subprocess.Popen[bytes]:
    whole = None if env is None else {**os.environ, **env}
    try:
        return subprocess.Popen(
            command, env=whole, close_fds=False, preexec_fn=_allow_tracing() if traceable else None
        )
    except OSError as error:
        # ENOEXEC: a script without "#!", which a shell would run; the others name what is wrong.
        raise RooflabError(f"{command[0]}: cannot be started: {error.strerror or error}") from None


def _allow_tracing() -> Callable[[], None]:
    """What a process does before its exec, so that any of this user's may trace it (prctl(2), PR_SET_PTRACER)."""
    import ctypes

    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    option, any_process = 0x59616D61, ctypes.c_ulong(-1)
    return lambda: None if prctl is None else prctl(option, any_process, 0, 0, 0)


def _code(returned: int) -> tuple[int, str | None]:
    if returned >= 0:
        return returned, None
    try:
        return 128 - returned, signal.Signals(-returned).name
    except ValueError:
        return 128 - returned, f"signal {-returned}"  # real-time signals have no names


def _minor_faults(pid: int) -> int:
    """What the gate cost before the command began: the 10th field of /proc/PID/stat (proc_pid_stat(5))."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[7])
    except (OSError, ValueError, IndexError):
        return 0  # left in: a hundred page faults


_IO = {
    "read_bytes": "storage_read_bytes",
    "write_bytes": "storage_written_bytes",
    "rchar": "read_bytes",
    "wchar": "written_bytes",
}


def _moved(pid: int) -> dict[str, int]:
    """Bytes of /proc/PID/io of a process that has ended and was not waited for, its children's included."""
    try:
        lines = Path(f"/proc/{pid}/io").read_text().splitlines()
    except OSError:
        return {}  # another system, or a kernel without task accounting
    pairs = (line.partition(":") for line in lines)
    return {_IO[key]: int(value) for key, _, value in pairs if key in _IO}


@contextmanager
def _signals() -> Iterator[Waiter]:
    """A waiter that has the signals of this process, until the end of the block."""
    waiter = Waiter()
    if threading.current_thread() is not threading.main_thread():
        yield waiter  # only the main thread may handle signals
        return
    with waiter:
        yield waiter
