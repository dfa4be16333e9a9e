"""Arrays that a file's function made, where malloc would have put them: the same report then comes each time."""

from __future__ import annotations

from typing import Any

import numpy as np

_LINE_BYTES, _INTO_LINE = 64, 16  # where large arrays begin: behind the 16 bytes that malloc keeps of each


def settled(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """`values` with each array 16 bytes into a line of a cache, as all large arrays lie.

    Small ones lie by chance, in each process elsewhere, and with them which accesses cross a line. What shares
    memory with another of them, arrays of objects and what is not contiguous stay where they are.
    """
    arrays: list[np.ndarray] = []
    _gather(values, arrays)
    distinct = list({id(each): each for each in arrays}.values())
    shared = {
        id(each)
        for each in distinct
        if any(other is not each and np.may_share_memory(each, other) for other in distinct)
    }
    moved: dict[int, np.ndarray] = {}
    return tuple(_moved(each, shared, moved) for each in values)


def _gather(value: Any, arrays: list[np.ndarray]) -> None:
    if isinstance(value, np.ndarray):
        arrays.append(value)
    elif isinstance(value, (tuple, list)):
        for each in value:
            _gather(each, arrays)


def _moved(value: Any, shared: set[int], moved: dict[int, np.ndarray]) -> Any:
    if type(value) is tuple:
        return tuple(_moved(each, shared, moved) for each in value)
    if type(value) is not np.ndarray or not value.nbytes or value.dtype.hasobject or id(value) in shared:
        return value
    contiguous = value.flags.c_contiguous or value.flags.f_contiguous
    if not contiguous or value.ctypes.data % _LINE_BYTES == _INTO_LINE:
        return value
    if id(value) not in moved:
        room = np.empty(value.nbytes + _LINE_BYTES, np.uint8)
        start = (_INTO_LINE - room.ctypes.data) % _LINE_BYTES
        copy: np.ndarray = np.ndarray(value.shape, value.dtype, room.data, start, value.strides)
        copy[...] = value
        copy.flags.writeable = value.flags.writeable
        moved[id(value)] = copy
    return moved[id(value)]
