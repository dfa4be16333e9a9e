"""The target of the command `loop`: "FILE.py:NAME" to a function and what it is called with."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from rooflab.cli import program_target as targets
from rooflab.errors import RooflabError


class LoopTarget(NamedTuple):
    """A function of loops and its arguments."""

    fn: Callable[..., Any]
    args: tuple[Any, ...]


def load(text: str, n: int | None, dims: Mapping[str, int], args: str | None = None) -> LoopTarget:
    """The function that `text` names, with the arguments that `args`, else its own file, makes.

    The file's `NAME_args(n)`, else its `args(n)`, returns them as a tuple; `args` is another function of that
    file, "FILE.py:NAME", or "FILE.py" for that file's. Where the maker has a parameter `loop`, it is told NAME;
    `dims` are its other keywords.

    Raises:
        FileError: no such file, or one that cannot be imported.
        UnknownNameError: no such function in it, with near matches.
        RooflabError: the file makes no arguments, or an error inside it.
    """
    module, fn = targets.named(text)
    place, _, name = text.rpartition(":")
    if args is None:
        return LoopTarget(fn, _made(module, text, place, name, n, dims))
    other = args if ":" in args or args.endswith(".py") else f"{place}:{args}"
    return LoopTarget(fn, _made_elsewhere(other, name, n, dims))


def is_of_c(text: str) -> bool:
    """Whether a target is a function of C, C++ or LLVM IR."""
    from rooflab.loops.c import flags

    return flags.is_ours(flags.named(text)[0] or text)


def check_c(text: str, cflags: str | None) -> None:
    """Raise where the function of C that `text` names is not there, before its arguments are made."""
    from rooflab.loops.c import examine

    examine.target(text, cflags)


def load_c(text: str, args: str | None, n: int | None, dims: Mapping[str, int]) -> tuple[Any, ...]:
    """What the function of C that `text` names is called with: what "FILE.py:NAME", `args`, makes.

    Of "FILE.py" alone its `TARGET_args(n)`, else its `args(n)`.

    Raises:
        FileError, UnknownNameError, RooflabError: as of `load`; no `args` for a function that needs some.
    """
    from rooflab.loops.c import flags

    function = flags.named(text)[1].rpartition("::")[2]
    if args is None:
        raise RooflabError(
            f"{text}: expected --args FILE.py:NAME, a function of Python that returns the arguments of {function}:"
            " arrays and numbers: def args(n): return np.zeros(n), n"
        )
    return _made_elsewhere(args, function, n, dims)


def _made_elsewhere(args: str, function: str, n: int | None, dims: Mapping[str, int]) -> tuple[Any, ...]:
    """What "FILE.py:NAME", or of "FILE.py" its maker for `function`, returns."""
    if args.endswith(".py"):
        return _made(targets.imported(args), args, args, function, n, dims)
    module, maker = targets.named(args)
    return _made(module, args, args.rpartition(":")[0], function, n, dims, maker)


def _made(
    module: Any,
    text: str,
    place: str,
    name: str,
    n: int | None,
    dims: Mapping[str, int],
    maker: Any = None,
) -> tuple[Any, ...]:
    """What `maker`, else the module's NAME_args, else its args, returns."""
    maker = maker or getattr(module, f"{name}_args", None) or getattr(module, "args", None)
    if maker is None:
        raise RooflabError(
            f"{place}: no function args, expected one that makes the arguments of {name}: def args(n): return …"
        )
    if not callable(maker):
        raise RooflabError(
            f"{place}: what should make the arguments of {name} is {maker!r:.60}, expected a function:"
            " def args(n): return …"
        )
    keywords: dict[str, Any] = dict(dims)
    parameters = inspect.signature(maker).parameters
    if "loop" in parameters:
        keywords["loop"] = name
    for each in keywords:
        if each not in parameters:
            expected = ", ".join(parameters) or "none"
            raise RooflabError(f"{place}: {maker.__name__} has no parameter {each!r}, expected one of: {expected}")
    sizes = () if n is None else (n,)
    needed = [p.name for p in parameters.values() if p.default is p.empty and p.name not in keywords]
    if len(needed) > len(sizes):
        raise RooflabError(
            f"{place}: {maker.__name__} needs {needed[-1]!r}: give --n 4096, or --dim {needed[-1]}=…"
        )
    try:
        inspect.signature(maker).bind(*sizes, **keywords)
    except TypeError as error:
        wanted = f"{maker.__name__}{inspect.signature(maker)}"
        raise RooflabError(f"{place}: {error}: --n is the first argument of {wanted}, --dim a named one") from None
    with targets.located(text):
        made = maker(*sizes, **keywords)
    if made is None or isinstance(made, (Mapping, set, Iterator)):
        kind = "nothing" if made is None else f"a {type(made).__name__}"
        raise RooflabError(
            f"{place}: {maker.__name__} returned {kind}, expected the arguments of {name} in order: a tuple"
        )
    from rooflab.cli.settled import settled

    return settled(tuple(made) if isinstance(made, (tuple, list)) else (made,))
