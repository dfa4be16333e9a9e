"""py-spy set on a Python program from outside: stacks of its threads, some times a second.

py-spy reads the program's memory and changes nothing in it (github.com/benfred/py-spy). Its "raw" format is a line
for each stack: frames from the outermost on, divided by ";", and how often it was seen.
"""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sysconfig
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from rooflab.observe.running.command import Held

_PATIENCE_S = 20.0  # for py-spy to write what it has
_TRIES = 5  # to attach: what has just started need not have loaded its interpreter yet
_FRAME = re.compile(r"(?P<name>.*) \((?P<file>[^()]*?)(?::(?P<line>\d+))?\)")
_PROCESS = re.compile(r'process \d+:".*"')
_REASONS = (
    (("Permission denied", "Operation not permitted", "EPERM"), "the system does not let py-spy read its memory"),
    (
        ("python version", "Failed to find", "not a python", "interpreter"),
        "no Python interpreter was found in it: hotspots are those of Python programs",
    ),
    (("No such process", "process not found", "os error 3"), "it ended before the first sample"),
)


class Frame(NamedTuple):
    """A function on a stack: in Python where it has a line, else in a library."""

    name: str
    file: str
    line: int | None


class Stack(NamedTuple):
    """A stack that was `seen` so many times, from its outermost frame on."""

    frames: tuple[Frame, ...]
    seen: int


def where() -> str | None:
    """Where py-spy is: on PATH, or beside this Python; None where it is not installed."""
    return shutil.which("py-spy") or shutil.which("py-spy", path=sysconfig.get_path("scripts"))


class Session:
    """py-spy beside one execution of a command; `attach` and `detach` are what `execute` calls."""

    def __init__(self, program: str, hz: int, native: bool) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="rooflab-spy-")
        self._written = Path(self._folder.name) / "stacks.txt"
        self._words = [program, "record", "--subprocesses", "--format", "raw", "--full-filenames"]
        self._words += ["--rate", str(hz), "--output", str(self._written), *(["--native"] if native else [])]
        self._process: subprocess.Popen[str] | None = None
        self._thread: threading.Thread | None = None
        self._ended = threading.Event()
        self.said = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
        if self._thread is not None:
            self._thread.join(_PATIENCE_S)
        self._folder.cleanup()

    def attach(self, held: Held) -> None:
        """Begin to sample the process, from a thread that tries again while it is starting."""
        self._thread = threading.Thread(target=self._watch, args=(held.pid,), daemon=True)
        self._thread.start()

    def _watch(self, pid: int) -> None:
        for _ in range(_TRIES):
            self._process = subprocess.Popen(
                [*self._words, "--pid", str(pid)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                start_new_session=True,  # Ctrl-C is the command's
            )
            self.said, _ = self._process.communicate()
            if self._process.returncode == 0 or self._ended.wait(0.1):
                return

    def detach(self) -> None:
        """Wait until py-spy has written: it ends with the process."""
        self._ended.set()
        if self._thread is None:
            return
        self._thread.join(1.0)
        if self._thread.is_alive() and self._process is not None:
            self._process.send_signal(signal.SIGINT)  # children of the program run on
            self._thread.join(_PATIENCE_S)

    def stacks(self) -> list[Stack]:
        """What was seen."""
        if not self._written.exists():
            return []
        return list(stacks_of(self._written.read_text("utf-8", "replace")))

    def why_none(self) -> str:
        """Why nothing was seen, by what py-spy said."""
        for words, reason in _REASONS:
            if any(word.lower() in self.said.lower() for word in words):
                return reason
        own = (line.strip() for line in self.said.splitlines())
        lines = [line for line in own if line and not line.startswith("py-spy>")]
        return lines[-1][:200] if lines else "it ended before the first sample"

    def errors(self) -> int:
        """Samples that py-spy could not take."""
        found = re.search(r"Errors: (\d+)", self.said)
        return int(found.group(1)) if found else 0


def stacks_of(text: str) -> Iterator[Stack]:
    """The stacks in `text`, py-spy's raw format; lines that are none are left out."""
    for line in text.splitlines():
        words, _, count = line.rpartition(" ")
        if not count.isdigit():
            continue
        frames = [frame for part in words.split(";") if (frame := _frame(part)) is not None]
        if frames:
            yield Stack(tuple(frames), int(count))


def _frame(text: str) -> Frame | None:
    """A frame; None for the process that py-spy puts in its place."""
    if _PROCESS.fullmatch(text):
        return None
    match = _FRAME.fullmatch(text)
    if match is None:
        return Frame(text, "", None)
    line = match.group("line")
    return Frame(match.group("name"), match.group("file"), int(line) if line else None)
