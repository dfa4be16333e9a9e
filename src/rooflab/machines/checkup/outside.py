"""Asking other programs, side by side and within a time: what each said, or that it did not answer."""

from __future__ import annotations

import os
import platform
import re
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

_MOST_CHARS = 160
# A path of two steps and more, in what others say: only its last step is kept.
_PATH = re.compile(r"(?<![\w:/.])(?:~|\.{1,2})?(?:/[^\s/:'\",;()\[\]]+){2,}/?")


@dataclass(frozen=True, slots=True)
class Answer:
    """What a program answered.

    Attributes:
        code: its exit code, negative for the signal that ended it; None where it did not answer in time.
        said: its last line, of stdout where there is any.
        output: all of stdout.
    """

    code: int | None
    said: str = ""
    output: str = ""

    @property
    def works(self) -> bool:
        """Whether it ended without an error."""
        return self.code == 0

    @property
    def late(self) -> bool:
        """Whether it was ended because it took too long."""
        return self.code is None


@dataclass(slots=True)
class _Running:
    """The processes that run, so that all can be ended at once."""

    processes: list[subprocess.Popen[str]] = field(default_factory=list)
    ended: bool = False


def ask(
    commands: Mapping[str, Sequence[str]],
    within_s: float,
    at_once: int,
    tell: Callable[[str], None] = lambda name: None,
    changes: Mapping[str, str] | None = None,
) -> dict[str, Answer]:
    """The answer to each of `commands`, those that cannot be started left out.

    Args:
        commands: program and arguments, by name; started in order.
        within_s: until then all that run are ended, and none is started.
        at_once: how many run side by side.
        tell: called with the name of each that has answered.
        changes: of the environment's variables.
    """
    until = time.monotonic() + within_s
    running = _Running()
    environment = {**os.environ, **(changes or {})}

    def answered(name: str) -> Answer | None:
        answer = _one(commands[name], until, running, environment)
        tell(name)
        return answer

    try:
        with ThreadPoolExecutor(max(1, at_once)) as pool:
            try:
                answers = list(pool.map(answered, commands))
            except BaseException:
                running.ended = True
                for process in running.processes:
                    _end(process)
                pool.shutdown(cancel_futures=True)
                raise
    finally:
        running.processes.clear()
    return {name: answer for name, answer in zip(commands, answers, strict=True) if answer is not None}


def _one(command: Sequence[str], until: float, running: _Running, environment: Mapping[str, str]) -> Answer | None:
    left = until - time.monotonic()
    if left <= 0 or running.ended:
        return Answer(None)
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env=environment,
            start_new_session=True,  # so that what it starts ends with it
        )
    except OSError:
        # not there, or not executable: whoever asks knows what that means
        return None
    running.processes.append(process)
    try:
        out, err = process.communicate(timeout=left)
    except subprocess.TimeoutExpired:
        _end(process)
        process.communicate()
        return Answer(None)
    return Answer(process.returncode, _last_line(out) or _last_line(err), out)


def _end(process: subprocess.Popen[str]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        # it has ended by itself meanwhile
        return


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""


def without_names(text: str) -> str:
    """`text` of another program without folders, this host's name and control characters, and not too long."""
    plain = _PATH.sub(lambda match: match[0].rstrip("/").rpartition("/")[2], text)
    host = platform.node()
    if len(host) > 2:
        plain = re.sub(rf"\b{re.escape(host)}\b", "this host", plain)
    plain = "".join(char if char.isprintable() else " " for char in plain).strip()
    return plain if len(plain) <= _MOST_CHARS else f"{plain[: _MOST_CHARS - 1]}…"
