"""What all kinds of workers share: an item's outcome, a worker's place, the call that runs on it."""

from __future__ import annotations

import functools
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from rooflab.errors import RooflabError

MOST_TRIES = 3  # of an item whose worker is lost each time

Function = Callable[[Any], Any]


class Place(NamedTuple):
    """A worker, by its name among the workers, and the host that it is on."""

    worker: str
    host: str


class Outcome(NamedTuple):
    """What became of one item.

    Attributes:
        at: its number.
        value: what the function returned.
        failed: why there is no value, in a sentence; None where there is one.
        worker: who did it, where that is known.
        tries: how often it was begun; 2 where its first worker was lost.
    """

    at: int
    value: Any = None
    failed: str | None = None
    worker: str | None = None
    tries: int = 1


class Workers(Protocol):
    """Workers of one kind.

    Attributes:
        name: what they are, for people: "2 processes here".
        notes: what was done again and why, in sentences; known once `each` has ended.
        run: tells this use of them from others, on all of them.
        sets_threads: whether they run with fewer threads in libraries than they are granted, as Dask's do.
    """

    name: str
    notes: list[str]
    run: str
    sets_threads: bool

    @property
    def merges(self) -> bool:
        """Whether results come together in this process: not on ranks of a job other than 0."""
        ...

    def places(self) -> tuple[Place, ...]:
        """The workers; empty where nothing tells of them."""
        ...

    def each(
        self, function: Function, items: Sequence[Any], at: Sequence[Place] | None = None
    ) -> Iterator[Outcome]:
        """The outcome of `function` for each item, in the order in which they come.

        `function` is found by its name where the workers are, and items and values travel there and back (pickle).
        `at` says who does each item: another worker of that host where it is lost.
        """
        ...


class Answer(NamedTuple):
    """What travels back from a worker: the value, or why there is none."""

    value: Any
    failed: str | None


def call(version: str, function: Function, item: Any) -> Answer:
    """`function` of `item`, on a worker whose rooflab must be of `version`; its errors as a sentence.

    Raises:
        RooflabError: another version of rooflab.
    """
    from rooflab import __version__

    if version != __version__:
        raise RooflabError(other_version({"a worker": __version__}, version))
    try:
        return Answer(function(item), None)
    except RooflabError as error:
        return Answer(None, str(error))
    except Exception as error:  # noqa: BLE001 — an item's own error must not lose the others; it is said
        return Answer(None, f"{type(error).__name__}: {error}")


def bound(function: Function) -> Callable[[Any], Answer]:
    """`call` of `function` with this rooflab's version."""
    from rooflab import __version__

    return functools.partial(call, __version__, function)


def other_version(found: dict[str, str], here: str) -> str:
    """The sentence for workers whose versions of rooflab are those `found` by their names."""
    several = "; ".join(f"{name} has {version}" for name, version in sorted(found.items())[:3])
    more = f" and {len(found) - 3} more" if len(found) > 3 else ""
    return f"rooflab {here} here, but {several}{more}: install the same version everywhere"


def lost(worker: str, tries: int) -> str:
    """The sentence for an item that was given up."""
    return f"{worker} was lost while at it, {tries} times: out of memory, or killed?"


def host() -> str:
    """A name for this host: what the kernel calls this boot of it, else the host's name.

    Containers of one host have names of their own, but one boot id (Linux, random(4)).
    """
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return socket.gethostname()


def here() -> Place:
    """This process as a worker."""
    return Place(f"process {os.getpid()}", host())
