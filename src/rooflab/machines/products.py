"""How long a library's products of matrices take: the terms of their time, which measuring fits and models use.

A library multiplies blocks: it packs parts of both operands into caches, computes tiles of the result with its
innermost loop, and adds them to the result. So the time of `b` products of m × k by k × n is a sum, each term a
constant of the library on this machine times

    call_s          1: what the call costs, whatever its size
    item_s          b: what each product of a batch costs, its team of threads included
    multiply_add_s  b·m·n·k
    left_s          b·m·k: elements of the left operand packed
    right_s         b·k·n: of the right one
    result_s        b·m·n: elements of the result read and written
    row_s, column_s b·m, b·n: loops started
    edge_rows_s     b·k·n·(what the rest of m after whole tiles costs), edge_columns_s likewise of n
    far_byte_s      bytes of a working set that the caches of a core do not hold
    memory_byte_s   bytes of a working set that no cache holds

and that of a matrix and a vector, which streams the matrix,

    call_s, item_s  as above
    row_s, column_s b rows of the matrix as it lies in memory, b columns: loops started
    element_s       b elements of the matrix
    far_byte_s, memory_byte_s

A tile that is not full costs as many rows as are missing to a whole one, where the innermost loop masks them
("masked"), or one pass for each power of two in its rest, where the library has smaller loops ("halves": 7 rows
are passes of 4, 2 and 1).

(Goto and van de Geijn, Anatomy of high-performance matrix multiplication, ACM TOMS 34 (2008), for the blocks.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from rooflab.types.measured import Products, Tail

PRODUCT, BATCHED, MATVEC, VECMAT = ROUTINES = (
    "product",
    "batched product",
    "matrix × vector",
    "vector × matrix",
)
_STREAMED = ("call_s", "item_s", "row_s", "column_s", "element_s", "far_byte_s", "memory_byte_s")
_BLOCKED = (
    "call_s",
    "item_s",
    "multiply_add_s",
    "left_s",
    "right_s",
    "result_s",
    "row_s",
    "column_s",
    "edge_rows_s",
    "edge_columns_s",
    "far_byte_s",
    "memory_byte_s",
)
# A working set below the first share of a cache is held by it, beyond the second nothing of it is.
_HELD, _LOST = 0.6, 1.4
# Terms that scale with the clock of the cores, with caches, with calls, and with the memory.
COMPUTING = ("multiply_add_s", "edge_rows_s", "edge_columns_s", "row_s", "column_s", "element_s")
MOVING = ("left_s", "right_s", "result_s", "far_byte_s")
CALLING = ("call_s", "item_s")
FROM_MEMORY = ("memory_byte_s",)


# The fits of one routine and number format, by number of threads.
Fits = Mapping[int, Products]


class Shapes(NamedTuple):
    """Products by row: `batch` of m × k by k × n, arrays of one shape; `item_bytes` of an element."""

    batch: np.ndarray
    m: np.ndarray
    n: np.ndarray
    k: np.ndarray
    item_bytes: np.ndarray

    @property
    def multiply_adds(self) -> np.ndarray:
        """Of one product of the batch."""
        return self.m * self.n * self.k

    @property
    def footprint_bytes(self) -> np.ndarray:
        """Of both operands and the result, of the whole batch."""
        return self.batch * self.item_bytes * (self.m * self.k + self.k * self.n + self.m * self.n)


def shapes_of(listed: Sequence[tuple[int, int, int, int]], item_bytes: int) -> Shapes:
    """(batch, m, n, k) of each as columns."""
    columns = np.array(listed, float).reshape(-1, 4).T
    b, m, n, k = columns
    return Shapes(b, m, n, k, np.full(len(listed), float(item_bytes)))


def routine_of(library: str, batch: int, m: int, n: int) -> str:
    """Which routine of `library` computes it: NumPy multiplies a batch one by one, PyTorch in one call."""
    if library == "torch" and batch > 1:
        return BATCHED
    if n == 1:
        return MATVEC
    return VECMAT if m == 1 else PRODUCT


def term_names(routine: str) -> tuple[str, ...]:
    """The terms of a routine, in the order of the columns of `terms`."""
    return _STREAMED if routine in (MATVEC, VECMAT) else _BLOCKED


def terms(
    routine: str, x: Shapes, tile: tuple[int, int], tail: Tail, cache_bytes: tuple[float, float]
) -> dict[str, np.ndarray]:
    """What each term's constant is multiplied with, by name (see the top of this file)."""
    b, m, n, k = x.batch, x.m, x.n, x.k
    foot = x.footprint_bytes
    both = {
        "call_s": np.ones_like(b),
        "item_s": b,
        "far_byte_s": foot * lost_share(foot, cache_bytes[0]),
        "memory_byte_s": foot * lost_share(foot, cache_bytes[1]),
    }
    if routine in (MATVEC, VECMAT):
        rows, columns = (m, k) if routine == MATVEC else (k, n)
        return both | {"row_s": b * rows, "column_s": b * columns, "element_s": b * rows * columns}
    return both | {
        "multiply_add_s": b * m * n * k,
        "left_s": b * m * k,
        "right_s": b * k * n,
        "result_s": b * m * n,
        "row_s": b * m,
        "column_s": b * n,
        "edge_rows_s": b * k * n * _rest(m, tile[0], tail),
        "edge_columns_s": b * k * m * _rest(n, tile[1], tail),
    }


def lost_share(nbytes: np.ndarray, capacity_bytes: float) -> np.ndarray:
    """The share of a working set that a cache no longer holds from one call to the next; 0 of one not known."""
    if capacity_bytes <= 0:
        return np.zeros_like(nbytes)
    return np.clip((nbytes / capacity_bytes - _HELD) / (_LOST - _HELD), 0.0, 1.0)


def _rest(count: np.ndarray, tile: int, tail: Tail) -> np.ndarray:
    """What is left after whole tiles: rows missing to another one, or passes by halves."""
    if tail == "masked":
        return np.ceil(count / tile) * tile - count
    return np.bitwise_count((count % tile).astype(np.uint32)).astype(float)


def seconds(row: Products, x: Shapes) -> np.ndarray:
    """What `row` says of products `x` that its threads compute: the sum of its terms."""
    columns = terms(row.routine, x, row.tile, row.tail, row.cache_bytes)
    return sum((row.terms.get(name, 0.0) * column for name, column in columns.items()), np.zeros_like(x.m))


def library_seconds(rows: Fits, threads: int, x: Shapes) -> np.ndarray:
    """Seconds of products `x` by the fits of one routine and format, by number of threads.

    A product below the library's own limit is left to one thread.

    Args:
        rows: by number of threads.
        threads: how many the library is given.
    """
    alone = seconds(rows[min(rows)], x)
    if threads <= 1 or len(rows) == 1:
        return alone
    together = between(rows, threads)
    return np.where(teamed(together, x), seconds(together, x), alone)


def teamed(row: Products, x: Shapes) -> np.ndarray:
    """Whether a library that was given the threads of `row` takes more than one of them."""
    work = x.multiply_adds * (x.batch if row.routine == BATCHED else 1.0)
    return work > row.team_from


def between(rows: Fits, threads: int) -> Products:
    """The fit for `threads`: measured, or between its neighbours in 1 / threads, as shared work is."""
    if threads in rows:
        return rows[threads]
    below = max((count for count in rows if count < threads), default=min(rows))
    above = min((count for count in rows if count > threads), default=max(rows))
    if below == above:
        return rows[below]
    share = (1 / below - 1 / threads) / (1 / below - 1 / above)
    low, high = rows[below], rows[above]
    names = {**low.terms, **high.terms}
    mixed = {name: low.terms.get(name, 0.0) * (1 - share) + high.terms.get(name, 0.0) * share for name in names}
    return msgspec.structs.replace(high, threads=threads, terms=mixed)
