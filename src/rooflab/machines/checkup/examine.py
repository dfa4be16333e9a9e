"""A whole checkup: the environment looked at, libraries and tools tried meanwhile, a line for each."""

from __future__ import annotations

import datetime
import platform
import time
from collections.abc import Callable
from pathlib import Path

import rooflab
from rooflab.machines.checkup import counters, gpus, libraries, memory, outside, processor, system, tools
from rooflab.machines.checkup.seen import Seen, look
from rooflab.machines.detect import granted_threads
from rooflab.types.checkup import Checkup, Grant

_WITHIN_S = 8.5  # of the whole; with what Python itself takes to start it stays under 10 s

Progress = Callable[[str, float, float], None]


def examine(quick: bool = False, progress: Progress | None = None, root: Path = Path("/")) -> Checkup:
    """The checkup of the environment whose file system starts at `root`.

    Args:
        quick: look only, try no library and no tool.
        progress: called with what has answered, how many have, how many there are.
        root: for tests; libraries and tools are those of this process whatever it is.
    """
    start = time.monotonic()
    seen = look(root, sleep=None if quick else time.sleep)
    installed, asked = libraries.versions(), tools.commands()
    within_s = _WITHIN_S - (time.monotonic() - start)
    commands = {**asked, **libraries.commands(installed)}
    answers = None if quick else _answers(commands, seen, within_s, progress)
    grants = (
        *counters.grants(seen),
        *processor.grants(seen),
        *memory.grants(seen),
        *system.grants(seen),
        *libraries.grants(installed, answers, within_s),
        *gpus.grants(seen, None if answers is None else answers.get("nvidia-smi")),
        *tools.grants(seen, asked, answers),
    )
    return _checkup(seen, grants, quick, time.monotonic() - start)


def _answers(
    commands: dict[str, list[str]], seen: Seen, within_s: float, progress: Progress | None
) -> dict[str, outside.Answer]:
    # One more than there are CPUs: a trial waits for its disk as well.
    at_once = 1 + (len(granted_threads(seen.host)) if seen.host is not None else 1)
    done = 0

    def tell(name: str) -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress(f"tried {name}", done, len(commands))

    return outside.ask(commands, within_s, at_once, tell, libraries.QUIET)


def _checkup(seen: Seen, grants: tuple[Grant, ...], quick: bool, took_s: float) -> Checkup:
    kernel = "" if seen.host is None else seen.host.kernel or ""
    return Checkup(
        rooflab=rooflab.__version__,
        python=platform.python_version(),
        system=f"{seen.system} {kernel}".strip(),
        processor=None if seen.host is None else seen.host.name,
        grants=grants,
        quick=quick,
        took_s=took_s,
        date=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    )
