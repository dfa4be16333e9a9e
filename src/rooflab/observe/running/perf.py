"""`perf stat` set on a process from outside: events of its cores, and of memory controllers meanwhile.

perf is told to wait with its counters off (`-D -1`), to switch them on through a pipe (`--control`, perf 5.10),
and to write a line for each event (`-x`): linux/tools/perf/Documentation/perf-stat.txt.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from rooflab.observe.running.command import Held

SEPARATOR = ";"
MISSING = (
    "FLOP and bytes of memory were not counted: perf is not installed (Debian: linux-perf; Ubuntu: linux-tools-"
    "generic; Fedora: perf)"
)
_PATIENCE_S = 15.0  # for perf to open its events, and to write what they counted


class Refused(Exception):
    """perf did not start to count; its words."""


def is_there() -> bool:
    """Whether perf is on PATH."""
    return shutil.which("perf") is not None


class _Perf(NamedTuple):
    """A perf that runs: its process, the pipe to it, and where it writes."""

    process: subprocess.Popen[bytes]
    control: int
    written: Path


class Session:
    """One or two perfs beside one execution of a command; `attach` and `detach` are what `execute` calls.

    Args:
        core: events of the process and of those that it starts, as perf takes them.
        machine: events of the whole machine.
    """

    def __init__(self, core: Sequence[str], machine: Sequence[str]) -> None:
        self.core, self.machine = tuple(core), tuple(machine)
        self.refused: str | None = None
        self.text = ""
        self._folder = tempfile.TemporaryDirectory(prefix="rooflab-perf-")
        self._running: list[_Perf] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for one in self._running:
            _end(one, signal.SIGKILL)
        self._folder.cleanup()

    def attach(self, held: Held) -> None:
        """Open the events on a process that waits for it; where perf cannot, `refused` says why and it runs on."""
        try:
            if self.core:
                self._running.append(self._start("cores", self.core, ("-p", str(held.pid))))
            if self.machine:
                self._running.append(self._start("machine", self.machine, ("-a",)))
        except Refused as error:
            self.refused = str(error)
            for one in self._running:
                _end(one, signal.SIGKILL)
            self._running.clear()

    def detach(self) -> None:
        """Stop counting, and keep what was counted in `text`; those of the whole machine stop first."""
        parts: list[str] = []
        for one in reversed(self._running):
            one.process.send_signal(signal.SIGINT)
        for one in self._running:
            _end(one, None)
            parts.append(one.written.read_text("utf-8", "replace") if one.written.exists() else "")
        self._running.clear()
        self.text = "\n".join(parts)

    def _start(self, name: str, events: Sequence[str], of: Sequence[str]) -> _Perf:
        """A perf whose counters run.

        Raises:
            Refused: it could not open them, or is too old to be told when.
        """
        folder = Path(self._folder.name)
        written, said = folder / f"{name}.csv", folder / f"{name}.txt"
        control, ours = os.pipe()
        theirs, done = os.pipe()
        try:
            words = ["perf", "stat", "-x", SEPARATOR, "-o", str(written), "-D", "-1"]
            words += ["--control", f"fd:{control},{done}", "-e", ",".join(events), *of]
            with said.open("wb") as heard:
                process = subprocess.Popen(
                    words,
                    stdin=subprocess.DEVNULL,
                    stdout=heard,
                    stderr=heard,
                    pass_fds=(control, done),
                    env={**os.environ, "LC_ALL": "C"},
                    start_new_session=True,  # Ctrl-C is the command's
                )
        except OSError as error:
            os.close(ours)
            os.close(theirs)
            raise Refused(error.strerror or str(error)) from None
        finally:
            os.close(control)
            os.close(done)
        started = _Perf(process, ours, written)
        try:
            os.write(ours, b"enable\n")
            ready, _, _ = select.select([theirs], [], [], _PATIENCE_S)
            acknowledged = bool(ready) and os.read(theirs, 64).startswith(b"ack")
        except BrokenPipeError:
            acknowledged = False  # it has ended
        finally:
            os.close(theirs)
        if not acknowledged:
            _end(started, signal.SIGKILL)
            raise Refused(_words_of(said))
        return started


def _end(one: _Perf, number: int | None) -> None:
    """Wait for perf to end, after signal `number` where one is given."""
    if number is not None and one.process.poll() is None:
        one.process.send_signal(number)
    try:
        one.process.wait(_PATIENCE_S)
    except subprocess.TimeoutExpired:
        one.process.kill()
        one.process.wait()
    os.close(one.control)


def _words_of(path: Path) -> str:
    """The first line of what perf said that is a reason; its usage text is that of a perf without --control."""
    lines = [line.strip() for line in path.read_text("utf-8", "replace").splitlines() if line.strip()]
    if any("unknown option `control" in line for line in lines):
        return "this perf has no --control: perf 5.10 or newer is needed"
    useful = [line for line in lines if not line.startswith(("Events ", "Usage:", "Error:"))]
    return useful[0][:200] if useful else "perf did not say why"
