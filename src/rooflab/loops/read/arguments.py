"""The arguments that a loop is run on: bound to their names, checked, given addresses of their own."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from rooflab.errors import RooflabError
from rooflab.loops.read.source import BeyondSource, Source
from rooflab.loops.read.twin_text import Layout
from rooflab.loops.read.value_types import Kind, of_value, root

PAGE_BYTES = 4096


class Placed(NamedTuple):
    """An array argument in the simulated address space: its first element at `address`, its bytes from `low`."""

    name: str
    address: int
    low: int
    nbytes: int


class Arguments(NamedTuple):
    """What a loop is called with.

    Attributes:
        values: of all parameters, in order.
        types: by name.
        layouts: of the arrays, by name.
        placed: the arrays, in order.
    """

    values: tuple[Any, ...]
    types: dict[str, Kind]
    layouts: dict[str, Layout]
    placed: tuple[Placed, ...]

    def copied(self, written: Collection[str] | None = None) -> tuple[Any, ...]:
        """The values with every array copied that shares memory with one `written`, those still sharing it.

        Args:
            written: names of the arrays that may be written to; None: any may be.
        """
        held: dict[int, np.ndarray] = {}
        arrays = self.arrays()
        changing = {id(_owner(arrays[name])) for name in (arrays if written is None else written)}
        return tuple(
            _copied(value, held) if isinstance(value, np.ndarray) and id(_owner(value)) in changing else value
            for value in self.values
        )

    def arrays(self) -> dict[str, np.ndarray]:
        """The array arguments by name."""
        names = {each.name for each in self.placed}
        return {name: value for name, value in zip(self.types, self.values, strict=True) if name in names}


def bind(fn: Callable[..., Any], source: Source, values: Sequence[Any]) -> Arguments:
    """`given` as the arguments of `fn`.

    Raises:
        RooflabError: too few or many, one that is no number and no array of numbers, an empty array.
    """
    try:
        bound = inspect.signature(inspect.unwrap(getattr(fn, "py_func", fn))).bind(*values)
    except TypeError as error:
        wanted = ", ".join(source.parameters)
        raise RooflabError(f"{source.name}: {error}; expected {source.name}({wanted})") from None
    bound.apply_defaults()
    for name, value in bound.arguments.items():
        try:
            of_value(value)
        except RooflabError as error:
            raise type(error)(f"{source.name}: argument {name} is {error}") from None
        if isinstance(value, np.ndarray):
            check_array(source, name, value)
    arrays = {name: value for name, value in bound.arguments.items() if isinstance(value, np.ndarray)}
    _check_stores(source, arrays)
    if not arrays:
        raise BeyondSource(f"{source.name}: got no array among its arguments, expected at least one")
    return laid_out(dict(bound.arguments))


def laid_out(values: dict[str, Any]) -> Arguments:
    """`values` by name, which are known to be usable, with the addresses of the arrays among them."""
    arrays = {name: value for name, value in values.items() if isinstance(value, np.ndarray)}
    placed = place(arrays)
    layouts = {each.name: _layout(arrays[each.name], each.address) for each in placed}
    types = {name: of_value(value) for name, value in values.items()}
    return Arguments(tuple(values.values()), types, layouts, placed)


def place(arrays: dict[str, np.ndarray]) -> tuple[Placed, ...]:
    """Compact addresses from 0, each memory on pages of its own; arrays that share memory share it here too.

    The addresses of this process would differ from run to run, and the counts of conflicts with them.
    """
    spans = {name: np.lib.array_utils.byte_bounds(value) for name, value in arrays.items()}
    lows: dict[str, tuple[int, int]] = {}
    for name, (low, high) in spans.items():
        near, far = low, high
        # Views of one memory are found through each other.
        for _ in spans:
            for other_low, other_high in spans.values():
                if other_low < far and near < other_high:
                    near, far = min(near, other_low), max(far, other_high)
        lows[name] = near, far
    bases: dict[tuple[int, int], int] = {}
    end = 0
    for memory in lows.values():
        if memory not in bases:
            bases[memory] = end
            end += -(-(memory[1] - memory[0]) // PAGE_BYTES) * PAGE_BYTES
    placed = []
    for name, value in arrays.items():
        base, start = bases[lows[name]], lows[name][0]
        first = value.__array_interface__["data"][0]
        low, high = spans[name]
        placed.append(Placed(name, base + first - start, base + low - start, high - low))
    return tuple(placed)


def _check_stores(source: Source, arrays: dict[str, np.ndarray]) -> None:
    """Nothing is stored in an array that is read-only."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            base = root(node)
            value = arrays.get(base.id) if isinstance(base, ast.Name) else None
            if value is not None and not value.flags.writeable:
                statement = f"{ast.unparse(node)} = …"
                raise RooflabError(
                    f"{source.at(node)}: {source.name}: {statement}: {ast.unparse(base)} is read-only, expected an"
                    f" array that can be written to: {ast.unparse(base)}.copy()"
                )


def check_array(source: Source, name: str, value: np.ndarray) -> None:
    """Raise where a loop cannot run on `value`: masked, without elements, in another machine's order of bytes."""
    masked = sys.modules.get("numpy.ma")  # until it is imported there is no masked array
    if masked is not None and isinstance(value, masked.MaskedArray):
        raise RooflabError(f"{source.name}: argument {name} is masked, expected a plain array: {name}.filled(0)")
    if value.ndim == 0:
        raise RooflabError(f"{source.name}: argument {name} is an array of no dimension, expected a plain number")
    if value.size == 0:
        raise RooflabError(f"{source.name}: argument {name} has no element (shape {value.shape}), expected some")
    if not value.dtype.isnative:
        swapped = f"{name}.astype({name}.dtype.newbyteorder('='))"
        raise RooflabError(
            f"{source.name}: argument {name} has bytes in the other order ({value.dtype.str}),"
            f" expected this machine's: {swapped}"
        )


def _layout(value: np.ndarray, address: int) -> Layout:
    size = value.itemsize
    # Elements of 1, 2, 4, 8 or 16 bytes on multiples of their size never cross a line.
    whole = size & (size - 1) == 0 and address % size == 0 and all(each % size == 0 for each in value.strides)
    return Layout(unit=value.flags.c_contiguous, split=not whole)


def _owner(value: np.ndarray) -> np.ndarray:
    """The array whose memory `value` is a view of, or itself."""
    while isinstance(value.base, np.ndarray):
        value = value.base
    return value


_PAGE_BYTES = 4096


def copied_in_place(array: np.ndarray) -> np.ndarray:
    """A copy that begins as far into a page of memory as `array`: accesses lie across lines where its own do.

    Of what is not contiguous, a copy wherever NumPy puts it.
    """
    return placed_as(array, array)


def placed_as(array: np.ndarray, other: np.ndarray) -> np.ndarray:
    """A copy of `array` that begins as far into a page of memory as `other` does: alike in every process."""
    if array.dtype.hasobject or not (array.flags.c_contiguous or array.flags.f_contiguous) or not array.nbytes:
        return array.copy(order="K")
    room = np.empty(array.nbytes + _PAGE_BYTES, np.uint8)
    start = (other.ctypes.data - room.ctypes.data) % _PAGE_BYTES
    order = "C" if array.flags.c_contiguous else "F"
    copy = np.ndarray(array.shape, array.dtype, room.data, start, array.strides, order)
    copy[...] = array
    return copy


def arrays_in(name: str, value: Any) -> Iterator[tuple[str, np.ndarray]]:
    """The arrays in an argument, with names: a tuple of arrays has several."""
    if isinstance(value, np.ndarray):
        yield name, value
    elif isinstance(value, tuple):
        for number, each in enumerate(value):
            yield from arrays_in(f"{name}[{number}]", each)


def copies_of(values: Iterable[Any]) -> tuple[Any, ...]:
    """`values` in order, each array in them copied in place: read-only where it is, one copy where it is one.

    Records are copied too.
    """
    held: dict[int, np.ndarray] = {}
    return tuple(_copy_of(value, held) for value in values)


def _copy_of(value: Any, held: dict[int, np.ndarray]) -> Any:
    if isinstance(value, np.ndarray):
        if id(value) not in held:
            held[id(value)] = copied_in_place(value)
            held[id(value)].flags.writeable = value.flags.writeable
        return held[id(value)]
    if isinstance(value, tuple):
        parts = [_copy_of(each, held) for each in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    return value.copy() if isinstance(value, np.void) else value


def _copied(value: np.ndarray, held: dict[int, np.ndarray]) -> np.ndarray:
    """A copy with the same strides; views of one memory become views of one copy."""
    owner = _owner(value)
    if id(owner) not in held:
        held[id(owner)] = copied_in_place(owner)
    fresh = held[id(owner)]
    if owner is value:
        return fresh
    if fresh.strides != owner.strides or owner.dtype.hasobject:
        return value.copy(order="K")
    offset = value.__array_interface__["data"][0] - owner.__array_interface__["data"][0]
    return np.ndarray(value.shape, value.dtype, fresh.data, offset, value.strides)
