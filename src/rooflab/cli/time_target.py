"""The target of the command `time`: a function, what it is called with, and a limit on how long that takes."""

from __future__ import annotations

import inspect
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import click

from rooflab.cli import program_target as targets
from rooflab.errors import RooflabError

_GRACE_S = 5.0  # after the limit, for what a library does and Python cannot interrupt
_CODE = 2


class Call(NamedTuple):
    """A function, its arguments, and what it is called for people."""

    fn: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    name: str


def load(
    text: str,
    maker: str | None,
    n: int | None,
    dims: Mapping[str, int],
    begin: Callable[[], None] = lambda: None,
) -> Call:
    """The call that `text` and `maker` name.

    Args:
        text: "FILE.py:NAME" or "package.module:NAME".
        maker: "NAME" in the same file or "FILE.py:NAME": a function that returns the arguments, as a tuple or
            list, a dictionary of keywords, or a single one. By default NAME_args, else args where the function
            needs any.
        n: its first argument.
        dims: its keywords, or those of a function that needs no other arguments.
        begin: called when all files are imported, before any function in them is called.

    Raises:
        FileError: no such file, or one that cannot be imported.
        UnknownNameError: no such function in it, with near matches.
        RooflabError: arguments that nothing makes, or an error inside the file.
    """
    module, fn = targets.named(text)
    place, _, name = text.rpartition(":")
    made = _maker(module, fn, place, name, maker)
    begin()
    if made is None:
        return _without(text, fn, n, dims)
    title, make = made
    given = _arguments(title, make, n, dims)
    if isinstance(given, Mapping):
        return Call(fn, (), dict(given), _title(place, name))
    args = tuple(given) if isinstance(given, (tuple, list)) else (given,)
    return Call(fn, args, {}, _title(place, name))


def _title(place: str, name: str) -> str:
    """What it is called for people: "file.py:fn" without folders, "numpy.sort"."""
    return f"{os.path.basename(place)}:{name}" if place.endswith(".py") else f"{place}.{name}"


def _maker(
    module: Any, fn: Callable[..., Any], place: str, name: str, maker: str | None
) -> tuple[str, Callable[..., Any]] | None:
    if maker is not None:
        full = maker if ":" in maker else f"{place}:{maker}"
        return full, targets.named(full)[1]
    own = getattr(module, f"{name}_args", None)
    if callable(own):
        return f"{place}:{name}_args", own
    common = getattr(module, "args", None)
    if callable(common) and needed(fn):
        return f"{place}:args", common
    return None


def needed(fn: Callable[..., Any]) -> list[str]:
    """The arguments that `fn` cannot be called without; none where its signature cannot be read."""
    try:
        parameters = inspect.signature(fn).parameters.values()
    except (TypeError, ValueError):  # callables of C
        return []
    starred = {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}
    return [one.name for one in parameters if one.default is one.empty and one.kind not in starred]


def _without(text: str, fn: Callable[..., Any], n: int | None, dims: Mapping[str, int]) -> Call:
    """A function that nothing makes arguments for: as `analyze` takes it."""
    place, _, name = text.rpartition(":")
    missing = [one for one in needed(fn) if one not in dims]
    if missing:
        raise RooflabError(
            f"{text}: {name} needs {', '.join(map(repr, missing))}, and nothing in the file makes them: write def "
            f"{name}_args(n=1000): return …, or name a function that does by --args FILE.py:NAME"
        )
    if n is not None:
        raise RooflabError(
            f"{text}: --n is for the function that makes the arguments, and there is none: leave it out"
        )
    if inspect.iscoroutinefunction(fn) or inspect.isasyncgenfunction(fn):
        return Call(
            fn, (), dims, _title(place, name)
        )  # which `time` says what to do about; called here nothing would await it
    target = targets.called(text, fn, dict(dims))
    return Call(target.program, target.args, target.kwargs, _title(place, name))


def _arguments(title: str, make: Callable[..., Any], n: int | None, dims: Mapping[str, int]) -> Any:
    sizes = () if n is None else (n,)
    try:
        signature = inspect.signature(make)
    except (TypeError, ValueError):
        signature = None
    if signature is not None:
        try:
            signature.bind(*sizes, **dims)
        except TypeError as error:
            form = f"{title.rpartition(':')[2]}{signature}"
            raise RooflabError(
                f"{title}: {error}: --n gives the first argument of {form}, --dim NAME=N a named one"
            ) from None
    with targets.located(title):
        return make(*sizes, **dims)


class Watch:
    """Ends what does not return in time, with a line that says so: Python at once, a library seconds later."""

    def __init__(self, text: str, limit_s: float) -> None:
        """Takes the target's name and how long it may take; nothing is watched yet."""
        self._limit_s = limit_s
        self._said = f"{text}: did not return within {limit_s:g} s: give it less to do, or a larger --limit"
        self._last: threading.Timer | None = None
        self._before: Any = None

    def begin(self) -> None:
        """From here on."""
        self.end()
        self._before = signal.signal(signal.SIGALRM, self._over)
        signal.setitimer(signal.ITIMER_REAL, self._limit_s)
        self._last = threading.Timer(self._limit_s + _GRACE_S, self._leave)
        self._last.daemon = True
        self._last.start()

    def end(self) -> None:
        """It has returned."""
        if self._last is not None:
            self._last.cancel()
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, self._before)
            self._last = None

    def _over(self, number: int, frame: Any) -> None:
        raise RooflabError(self._said)

    def _leave(self) -> None:
        click.echo(f"rooflab: {self._said}", err=True)
        os._exit(_CODE)


@contextmanager
def watched(text: str, limit_s: float) -> Iterator[Watch]:
    """Errors of the target in one line; a watch for what may not return, which is over at the end.

    Raises:
        RooflabError: any error of the target, its exit, or its time is over.
    """
    watch = Watch(text, limit_s)
    try:
        with targets.located(text):
            yield watch
    finally:
        watch.end()
