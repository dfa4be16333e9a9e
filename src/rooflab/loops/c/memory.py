"""The memory that a counted function of C works in: arguments, variables, heap, and what of it may be touched.

Beside it lie a byte for each 8 of it, which says how many of them the program may touch, and a word for each 64,
which holds the size of the block that begins there.
"""

from __future__ import annotations

import mmap
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from rooflab.loops.lowered import memory
from rooflab.loops.lowered.memory import arrays_in

GRANULE, UNIT = 8, 64  # bytes that a byte of `touchable` stands for; that a word of `sizes` does
_APART = 64  # bytes between variables, at least
STACK_BYTES = 1 << 26  # for arrays whose size is known only when they are made


class Object(NamedTuple):
    """Something in memory: its address from the beginning, its bytes, the bytes of an element, its name."""

    name: str
    low: int
    nbytes: int
    itemsize: int


class Layout(NamedTuple):
    """Memory of a run.

    Attributes:
        memory: as for any counted function; its values are the arguments.
        slots: what is handed over for each parameter: 64 bits.
        objects: by name: arguments, variables; those of an argument that is a tuple are "name[0]", "name[1]", …
        tables: arrays of pointers that arguments lead to, by name.
        touchable, sizes: see above.
        stack: where arrays of a size that is not known before are made.
    """

    memory: memory.Memory
    slots: np.ndarray
    objects: Mapping[str, Object]
    touchable: np.ndarray
    sizes: np.ndarray
    stack: int


def lay_out(values: Mapping[str, Any], kinds: Mapping[str, str], variables: Mapping[str, int]) -> Layout:
    """Memory for arguments `values`, and for `variables` of so many bytes.

    Args:
        values: arrays, numbers, tuples of arrays.
        kinds: of the numbers: "double", "float", else whole ones.
        variables: of the module and of the function, with their bytes.
    """
    places, end = {}, 0
    for name, nbytes in variables.items():
        places[name] = end
        end += -(-(nbytes + 1) // _APART) * _APART
    tables = {name: 8 * len(value) for name, value in values.items() if isinstance(value, tuple)}
    made = memory.lay_out(
        values, {"": end + _APART, **{f"*{name}": n for name, n in tables.items()}, "stack": STACK_BYTES}
    )
    objects: dict[str, Object] = {}
    size = made.end - made.low
    touchable = _reserved(size // GRANULE, np.uint8)
    sizes = _reserved(8 * size // UNIT, np.int64)
    by_name = {each.name: each for each in made.placed}
    for name, value in zip(values, made.values, strict=True):
        for part, array in arrays_in(name, value):
            placed = by_name[part]
            objects[part] = Object(part, placed.low, placed.nbytes, array.itemsize)
    base = made.constants[""]
    for name, nbytes in variables.items():
        objects[name] = Object(name, base + places[name], nbytes, 1)
    slots = np.zeros(max(1, len(values)), np.int64)
    for n, (name, value) in enumerate(zip(values, made.values, strict=True)):
        if isinstance(value, tuple):
            at = made.constants[f"*{name}"]
            objects[name] = Object(name, at, 8 * len(value), 8)
            table: np.ndarray = np.ndarray(len(value), np.int64, made.held, at)
            table[:] = [made.low + by_name[f"{name}[{k}]"].address for k in range(len(value))]
            slots[n] = made.low + at
        elif isinstance(value, np.ndarray):
            slots[n] = made.low + by_name[name].address
        else:
            slots[n] = word(value, kinds.get(name, ""))
    for each in objects.values():
        allow(touchable, each.low, each.nbytes)
    return Layout(made, slots, objects, touchable, sizes, made.constants["stack"])


def word(value: Any, kind: str) -> int:
    """The 64 bits of a number of that `kind` of LLVM, the lowest first; 0 of None."""
    if value is None:
        return 0
    if kind in ("double", "float", "half"):
        dtype = {"double": np.float64, "float": np.float32, "half": np.float16}[kind]
        return int.from_bytes(np.array(value, dtype).tobytes(), "little", signed=kind == "double")
    return int(np.int64(np.uint64(value % 2**64)))


def allow(touchable: np.ndarray, low: int, nbytes: int) -> None:
    """Let `nbytes` from `low` on be touched; `low` is a multiple of 8, or what lies before is touchable too."""
    first, last = low // GRANULE, (low + nbytes) // GRANULE
    touchable[first:last] = GRANULE
    if (low + nbytes) % GRANULE:
        touchable[last] = max(touchable[last], (low + nbytes) % GRANULE)


def _reserved(nbytes: int, dtype: Any) -> np.ndarray:
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
    return np.frombuffer(mmap.mmap(-1, max(4096, nbytes), flags=flags), dtype)
