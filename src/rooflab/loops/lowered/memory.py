"""The memory that a lowered twin works in: copies of its arrays as placed, then room for what it makes."""

from __future__ import annotations

import mmap
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from rooflab.loops.lowered.counted_access import BUMP, END, MOST_SIZES, ROWS
from rooflab.loops.read.arguments import PAGE_BYTES, Placed, arrays_in, place

_LOCAL_SHARE, _LEAST_LOCAL_BYTES, _MOST_BYTES = 8, 1 << 28, 1 << 36


class Memory(NamedTuple):
    """Memory of a run.

    Attributes:
        values: the arguments with every array copied into it.
        low, end: its addresses; those of the simulator count from `low`.
        placed: the arrays, by name.
        allocator: the state of what hands out the rest of it.
        constants: addresses of the module's constant arrays.
        held: what owns it.
    """

    values: tuple[Any, ...]
    low: int
    end: int
    placed: tuple[Placed, ...]
    allocator: np.ndarray
    constants: Mapping[str, int]
    held: Any


def lay_out(arguments: Mapping[str, Any], constants: Mapping[str, int]) -> Memory:
    """Memory with copies of the arrays of `arguments`; `constants`: bytes of the module's constant arrays."""
    arrays = dict(each for name, value in arguments.items() for each in arrays_in(name, value))
    placed = place(arrays)
    end = max((_page(each.low + each.nbytes) for each in placed), default=0)
    addresses = {}
    for name, nbytes in constants.items():
        addresses[name] = end
        end = _page(end + nbytes)
    size = _size(end)
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
    held = mmap.mmap(-1, size, flags=flags)
    low = np.frombuffer(held, np.uint8).ctypes.data
    copies = {each.name: _copied(arrays[each.name], held, each.address) for each in placed}
    values = tuple(_with_copies(name, value, copies) for name, value in arguments.items())
    allocator = np.zeros(ROWS + 2 * MOST_SIZES, np.int64)
    allocator[BUMP], allocator[END] = low + end, low + size
    return Memory(values, low, low + size, placed, allocator, addresses, held)


def extent(arguments: Mapping[str, Any]) -> int:
    """The bytes of the memory that `lay_out` makes, where the module has no constant arrays."""
    arrays = dict(each for name, value in arguments.items() for each in arrays_in(name, value))
    return _size(max((_page(each.low + each.nbytes) for each in place(arrays)), default=0))


def _size(end: int) -> int:
    room = max(_LEAST_LOCAL_BYTES, _LOCAL_SHARE * end)
    return min(_page(end + room), max(_MOST_BYTES, _page(end)))


def _page(nbytes: int) -> int:
    return -(-nbytes // PAGE_BYTES) * PAGE_BYTES


def _copied(value: np.ndarray, held: Any, address: int) -> np.ndarray:
    fresh: np.ndarray = np.ndarray(value.shape, value.dtype, held, address, value.strides)
    fresh[...] = value
    fresh.flags.writeable = value.flags.writeable
    return fresh


def _with_copies(name: str, value: Any, copies: Mapping[str, np.ndarray]) -> Any:
    if isinstance(value, np.ndarray):
        return copies[name]
    if isinstance(value, tuple):
        parts = [_with_copies(f"{name}[{number}]", each, copies) for number, each in enumerate(value)]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    return value
