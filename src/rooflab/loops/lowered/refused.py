"""What is refused before anything is compiled: functions that are not called as plain ones are, recursion."""

from __future__ import annotations

import dis
import inspect
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from numba.core.dispatcher import Dispatcher

from rooflab.errors import RooflabError
from rooflab.loops.read.decorated import python_function
from rooflab.loops.read.source import Source


def check(fn: Callable[..., Any], source: Source) -> None:
    """Raise where `fn` cannot be counted whatever it is called with.

    Raises:
        RooflabError: a generator, starred arguments, a function that calls itself, directly or through others.
    """
    function = python_function(fn)
    if inspect.isgeneratorfunction(function):
        _refuse(
            function,
            source.line,
            "it is a generator, which runs only as far as it is asked: loop over it in a function, and count that",
        )
    starred = [each for each in (source.tree.args.vararg, source.tree.args.kwarg) if each is not None]
    if starred:
        stars = "*" if source.tree.args.vararg is not None else "**"
        _refuse(function, source.line, f"{stars}{starred[0].arg} is starred, expected arguments by name")
    _check_calls(function, [], set())


def _check_calls(function: Any, around: list[Any], seen: set[Any]) -> None:
    """Raise where what `function` calls comes back to it or to one of those `around` it; `seen` are all right."""
    for called, line in _called(function):
        if called is function or called in around:
            itself = "itself" if called is function else f"{called.__name__}, which called it"
            _refuse(
                function,
                line,
                f"calls {itself}: recursion is not counted; write it as a loop with an array as its stack",
            )
        if called not in seen:
            _check_calls(called, [*around, function], seen)
    seen.add(function)


def _called(function: Any) -> Iterator[tuple[Any, int]]:
    """The functions that `function` names and numba compiles with it, each with the line that names it first."""
    seen = set()
    line = function.__code__.co_firstlineno
    for each in dis.get_instructions(function):
        line = each.starts_line or line
        value: Any = function.__globals__.get(each.argval) if each.opname == "LOAD_GLOBAL" else None
        plain = inspect.isfunction(value) and value.__module__ == function.__module__
        if (plain or isinstance(value, Dispatcher)) and each.argval not in seen:
            seen.add(each.argval)
            yield python_function(value), line


def _refuse(function: Any, line: int, reason: str) -> NoReturn:
    raise RooflabError(f"{inspect.getsourcefile(function)}:{line}: {function.__name__}: {reason}")
