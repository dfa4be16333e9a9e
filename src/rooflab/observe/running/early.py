"""`rooflab run` with a plain command: started before the rest of rooflab is imported, which takes 50 ms."""

from __future__ import annotations

import os

from rooflab.observe.running.started import Started, Waiter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_FLAGS = frozenset(["--no-counters", "-q", "--quiet", "--json"])  # which change nothing about how it is started
_NO_COUNTERS = "--no-counters"
_DEVICES = "/sys/bus/event_source/devices"
_OF_NO_CORE = frozenset(["breakpoint", "kprobe", "msr", "power", "software", "tracepoint", "uprobe"])
_begun: list[Started] = []


def begin(arguments: Sequence[str]) -> None:
    """Start the command of `rooflab run …` where nothing has to be checked or opened before it; else do nothing.

    What is given in any other way (files to write, a machine, several runs, a profile, an error) is for the
    command line, which finds the command by `take`.

    Args:
        arguments: of `rooflab`.
    """
    words = _plain(arguments)
    path = None if words is None else _executable(words[0])
    if words is None or path is None:
        return
    waiter = Waiter()
    waiter.take()
    try:
        _begun.append(Started(path, words, waiter))
    except (OSError, ValueError):
        waiter.give_back()  # the command line starts it again, and says what is wrong


def take(words: Sequence[str]) -> Started | None:
    """The command that was begun, if it is this one; the caller has it from here on."""
    if _begun and _begun[0].words == tuple(words):
        return _begun.pop()
    return None


def abandon() -> None:
    """End what was begun and nobody took."""
    while _begun:
        started = _begun.pop()
        started.waiter.pid = None
        started.child.kill()
        started.child.wait()
        started.waiter.give_back()


def _plain(arguments: Sequence[str]) -> list[str] | None:
    """The command's words, where only flags come before them; None where there is more to it."""
    if not arguments or arguments[0] != "run":
        return None
    rest = list(arguments[1:])
    flags = set()
    while rest and rest[0] in _FLAGS:
        flags.add(rest.pop(0))
    if rest and rest[0] == "--":
        rest.pop(0)
    elif not rest or rest[0].startswith("-"):
        return None
    counts = _NO_COUNTERS not in flags and not _no_core_counts()
    return rest if rest and rest[0] and not counts else None


def _no_core_counts() -> bool:
    """Whether the kernel lists its devices with counters, and none of a core or a memory controller."""
    try:
        found = os.listdir(_DEVICES)
    except OSError:
        return False
    return bool(found) and _OF_NO_CORE.issuperset(found)


def _executable(name: str) -> str | None:
    """The file that `name` is started from; None where it is for others to say why there is none."""
    folders = [""] if os.sep in name else os.environ.get("PATH", "").split(os.pathsep)
    for folder in folders:
        path = os.path.join(folder, name)
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return None
