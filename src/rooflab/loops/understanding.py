"""A Python function and its arguments, read and checked before anything is counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rooflab.errors import RooflabError
from rooflab.loops.read import language, source
from rooflab.loops.read.arguments import bind
from rooflab.loops.read.understood import Understood
from rooflab.loops.read.value_types import ValueTypes
from rooflab.machines.detect import detect
from rooflab.units import iec

TIME_LIMIT_S = 60.0  # of counting, unless the caller says otherwise
_COPIES, _LOOKED_UP_BYTES = 3, 1 << 30  # of less memory than that, there is enough anywhere


def understand(fn: Callable[..., Any], args: tuple[Any, ...], *, granted_bytes: int | None = None) -> Understood:
    """`fn` on the arguments `args`.

    Args:
        fn: as `rooflab.loop` takes it.
        args: in order.
        granted_bytes: memory that this process may use; None: looked up where the arguments are large.

    Raises:
        RooflabError: what cannot be counted, by line; arguments that do not fit in memory with two copies.
    """
    read = source.read(fn)
    arguments = bind(fn, read, args)
    check_memory(read.name, sum(each.nbytes for each in arguments.arrays().values()), granted_bytes)
    types = ValueTypes(read, arguments.types)
    language.check(read, types)
    return Understood(read, types, arguments)


def check_memory(name: str, nbytes: int, granted_bytes: int | None = None) -> None:
    """Raise where arrays of `nbytes`, and copies of them for a counted and a compiled run, do not fit."""
    nbytes *= _COPIES
    if granted_bytes is None and nbytes >= _LOOKED_UP_BYTES:
        granted_bytes = detect(gpus=False).memory_granted_bytes
    if granted_bytes is not None and nbytes > granted_bytes:
        raise RooflabError(
            f"{name}: its arrays and two copies take {iec(nbytes)}, and {iec(granted_bytes)} of memory are"
            " granted: give smaller arguments; a few times the largest cache is enough"
        )
