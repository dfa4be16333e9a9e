"""What several cores do, side by side: a stream of records for each core, made in chunks while they are simulated.

A record is one 64-bit word, address << 16 | nbytes << 4 | operation (see `layout`): a load, a store, an
atomic read-modify-write, a barrier of all cores, or a lock that is acquired or released.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from rooflab.cachesim.coherence.layout import ACQUIRE, ADDRESS_SHIFT, ATOMIC, BARRIER, READS, RELEASE, WRITES
from rooflab.errors import RooflabError, UnknownNameError

OPERATIONS = {
    "load": READS,
    "store": WRITES,
    "atomic": ATOMIC,
    "barrier": BARRIER,
    "acquire": ACQUIRE,
    "release": RELEASE,
}
NAMES = {number: name for name, number in OPERATIONS.items()}
ITEM_SIZES = (1, 2, 4, 8, 16, 32, 64)
PAGE_BYTES, MOST_CORES = 4096, 64
MOST_BYTES = 1 << 34  # of all arrays: the simulator keeps some words for each line of them


@dataclass(frozen=True)
class CoreArray:
    """An array of a made-up address space that starts at zero."""

    name: str
    base: int
    items: int
    item_bytes: int = 8

    @property
    def end(self) -> int:
        """The address after its last item."""
        return self.base + self.items * self.item_bytes

    def index(self, address: int) -> int:
        """Which item lies at `address`."""
        return (address - self.base) // self.item_bytes


@dataclass(frozen=True)
class CoreStreams:
    """A stream of records for each core.

    Attributes:
        name: what it is, with its sizes.
        arrays: in order of address.
        cores: for each core a function that starts its stream anew, in chunks of records.
        ordering: addresses of atomics and locks.
        values: what a store writes, by core and number of its record, where told.
    """

    name: str
    arrays: tuple[CoreArray, ...]
    cores: tuple[Callable[[], Iterator[np.ndarray]], ...]
    ordering: tuple[int, ...] = ()
    values: Mapping[tuple[int, int], object] = field(default_factory=dict)

    @property
    def footprint_bytes(self) -> int:
        """The address after the last array."""
        return max(array.end for array in self.arrays)


def lay_out(
    sizes: Mapping[str, int], item_bytes: int | Mapping[str, int] = 8, align_bytes: int = PAGE_BYTES
) -> dict[str, CoreArray]:
    """Arrays one after the other, each at a multiple of `align_bytes` (and of its item)."""
    arrays: dict[str, CoreArray] = {}
    end = 0
    for name, items in sizes.items():
        item = item_bytes if isinstance(item_bytes, int) else item_bytes.get(name, 8)
        if item not in ITEM_SIZES:
            raise RooflabError(
                f"{name}: item_bytes is {item!r}, expected one of {', '.join(map(str, ITEM_SIZES))}"
            )
        step = max(align_bytes, item)
        arrays[name] = CoreArray(name, -(-end // step) * step, items, item)
        end = arrays[name].end
    if end > MOST_BYTES:
        raise RooflabError(f"arrays of {end:,} bytes, expected at most {MOST_BYTES:,} with several cores")
    return arrays


def pack(array: CoreArray, operation: int, index: np.ndarray | int) -> np.ndarray:
    """Records of that operation on items of an array."""
    address = array.base + np.asarray(index, np.int64) * array.item_bytes
    return address << ADDRESS_SHIFT | array.item_bytes << 4 | operation


BARRIER_RECORD = np.array([BARRIER], np.int64)


def listed(
    cores: Sequence[Sequence[Sequence[object]]],
    *,
    arrays: Mapping[str, int] | None = None,
    item_bytes: int | Mapping[str, int] = 8,
    align_bytes: int = PAGE_BYTES,
    name: str | None = None,
) -> CoreStreams:
    """Streams that are written out: for each core ("load", "a", 3), ("store", "a", 3), ("barrier",) and so on.

    Args:
        cores: a list of operations for each core: load, store, atomic, acquire and release with an array and an
            index, barrier without. A store may name its value: ("store", "flag", 0, 1).
        arrays: items of each array; as far as the largest index where not given.
        item_bytes: of all arrays, or by array.
        align_bytes: where arrays begin: each on a page, unless told; 8 packs them.
        name: of the whole.

    Raises:
        RooflabError: an operation that cannot be read, an index out of bounds: which core, which entry.
    """
    if isinstance(cores, (str, bytes, Mapping)) or not isinstance(cores, Sequence):
        raise RooflabError(f"streams is a {type(cores).__name__}, expected a list of operations for each core")
    read = [_read(core, entries) for core, entries in enumerate(cores)]
    check_cores(len(read))
    sizes: dict[str, int] = dict(arrays or {})
    for core, entries in enumerate(read):
        for number, (operation, array, index, _) in enumerate(entries):
            if array is None:
                continue
            if arrays is not None and not (array in arrays and 0 <= index < arrays[array]):
                expected = f"0 to {arrays[array] - 1}" if array in arrays else f"an array of {', '.join(arrays)}"
                item = f"core {core}, entry {number}: {operation} {array}[{index}]"
                raise RooflabError(f"{item} is out of bounds, expected {expected}")
            sizes[array] = max(sizes.get(array, 1), index + 1)
    laid = lay_out(sizes or {"nothing": 1}, item_bytes, align_bytes)
    records, ordering, values = [], set(), {}
    for core, entries in enumerate(read):
        of_core = np.full(len(entries), BARRIER, np.int64)
        for number, (operation, array, index, value) in enumerate(entries):
            if array is not None:
                of_core[number] = pack(laid[array], OPERATIONS[operation], index)
                if OPERATIONS[operation] >= ATOMIC:
                    ordering.add(laid[array].base + index * laid[array].item_bytes)
            if value is not None:
                values[core, number] = value
        records.append(of_core)
    return CoreStreams(
        name or f"{len(read)} cores, {sum(map(len, read)):,} operations",
        tuple(laid.values()),
        tuple(_repeated(each) for each in records),
        tuple(sorted(ordering)),
        values,
    )


def check_cores(count: int) -> None:
    """Raise where there are too few or too many cores.

    Raises:
        RooflabError: no core, or more than are simulated.
    """
    if not 1 <= count <= MOST_CORES:
        raise RooflabError(f"{count} cores, expected 1 to {MOST_CORES}: a list of operations for each")


def _repeated(records: np.ndarray) -> Callable[[], Iterator[np.ndarray]]:
    return lambda: iter((records,))


def _read(core: int, entries: object) -> list[tuple[str, str | None, int, object]]:
    if isinstance(entries, str) or not isinstance(entries, Sequence):
        raise RooflabError(f"core {core}: a {type(entries).__name__}, expected a list of operations")
    return [_entry(core, number, entry) for number, entry in enumerate(entries)]


def _entry(core: int, number: int, entry: object) -> tuple[str, str | None, int, object]:
    where = f"core {core}, entry {number}"
    parts = list(entry) if isinstance(entry, Sequence) and not isinstance(entry, str) else [entry]
    if not parts or not isinstance(parts[0], str):
        raise RooflabError(f'{where}: {entry!r}, expected ("load", array, index) or ("barrier",)')
    operation = parts[0]
    if operation not in OPERATIONS:
        raise UnknownNameError(f"operation at {where}", operation, OPERATIONS)
    if operation == "barrier" and len(parts) == 1:
        return operation, None, 0, None
    value = parts[3] if operation in ("store", "atomic") and len(parts) == 4 else None
    wanted = 3 + (value is not None)
    if operation == "barrier" or len(parts) != wanted or not isinstance(parts[1], str):
        shape = '("barrier",)' if operation == "barrier" else f'("{operation}", array, index)'
        raise RooflabError(f"{where}: {entry!r}, expected {shape}")
    index = parts[2]
    if not isinstance(index, (int, np.integer)) or isinstance(index, bool) or index < 0:
        raise RooflabError(f"{where}: index of {parts[1]} is {index!r}, expected a whole number from 0")
    return operation, parts[1], int(index), value
