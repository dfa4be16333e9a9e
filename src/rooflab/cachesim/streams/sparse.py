"""Streams of sparse matrices and graphs (see `streams`): accesses by way of indices."""

from __future__ import annotations

from collections.abc import Sequence

from rooflab.cachesim.streams.stream import Arena, Stream, positive
from rooflab.errors import RooflabError


def seed_of(seed: int) -> int:
    """The state that the generators begin with.

    Raises:
        RooflabError: no whole number.
    """
    if not isinstance(seed, int):
        raise RooflabError(f"seed is {seed!r}, expected a whole number")
    return (seed * 0x632BE59BD9B4E019) % (1 << 62)


def spmv(
    n: int,
    nonzeros_per_row: int = 16,
    seed: int = 1,
    *,
    columns: int | None = None,
    item_bytes: int = 8,
    index_bytes: int = 4,
) -> Stream:
    """Y = M · x for an n-row CSR matrix with as many entries in every row, their columns random in even bands."""
    width = columns or n
    positive("spmv", n=n, nonzeros_per_row=nonzeros_per_row, columns=columns, item_bytes=item_bytes)
    if nonzeros_per_row > width:
        raise RooflabError(f"spmv: nonzeros_per_row is {nonzeros_per_row:,}, more than the {width:,} columns")
    arena, bases = _csr(n, width, n * nonzeros_per_row, item_bytes, index_bytes)
    table = (n, nonzeros_per_row, seed_of(seed), width, *bases, index_bytes, item_bytes)
    return _multiplied(arena, "spmv", table, n, n * nonzeros_per_row, item_bytes, index_bytes)


def spmv_csr(
    indptr: Sequence[int],
    indices: Sequence[int],
    *,
    columns: int | None = None,
    item_bytes: int = 8,
    index_bytes: int = 4,
) -> Stream:
    """Y = M · x for the CSR matrix with these row pointers and column indices (SciPy's names)."""
    import numpy as np

    pointers, column_indices = np.ascontiguousarray(indptr, np.int64), np.ascontiguousarray(indices, np.int64)
    if pointers.ndim != 1 or len(pointers) < 2 or pointers[0] != 0 or (np.diff(pointers) < 0).any():
        raise RooflabError("spmv_csr: indptr does not hold ascending row pointers that begin with 0")
    if pointers[-1] != len(column_indices):
        raise RooflabError(
            f"spmv_csr: indptr ends in {pointers[-1]:,}, expected the {len(column_indices):,} of indices"
        )
    width = int(column_indices.max(initial=-1)) + 1 if columns is None else columns
    if column_indices.size and (column_indices.min() < 0 or column_indices.max() >= width):
        raise RooflabError(
            f"spmv_csr: column {column_indices.max():,} (or one below 0), expected 0 to {width - 1:,}"
        )
    rows = len(pointers) - 1
    arena, bases = _csr(rows, max(width, 1), max(len(column_indices), 1), item_bytes, index_bytes)
    table = (rows, pointers.ctypes.data, column_indices.ctypes.data, width, *bases, index_bytes, item_bytes)
    arena.kept += [pointers, column_indices]
    return _multiplied(arena, "spmv csr", table, rows, len(column_indices), item_bytes, index_bytes)


def _csr(rows: int, columns: int, entries: int, item: int, index: int) -> tuple[Arena, tuple[int, ...]]:
    arena = Arena()
    sizes = {
        "row pointers": (rows + 1) * index,
        "columns": entries * index,
        "values": entries * item,
        "x": columns * item,
        "y": rows * item,
    }
    bases = tuple(arena.array(name, nbytes) for name, nbytes in sizes.items())
    for name in ("row pointers[i]", "row pointers[i+1]", "values[k]", "columns[k]", "x[columns[k]]", "y[i] ="):
        arena.reference(name)
    return arena, bases


def _multiplied(
    arena: Arena, kernel: str, table: tuple[int, ...], rows: int, entries: int, item: int, index: int
) -> Stream:
    accesses, accessed = 3 * rows + 3 * entries, rows * (2 * index + item) + entries * (2 * item + index)
    return arena.irregular(f"spmv {rows:,} rows, {entries:,} entries", kernel, table, accesses, accessed)


def pagerank(
    vertices: int, edges_per_vertex: int = 16, seed: int = 1, *, iterations: int = 1, skew: float = 0.57
) -> Stream:
    """PageRank by pulling, on a generated graph: for each vertex the ranks of those that point to it.

    Args:
        vertices: of the graph; each is pointed to by `edges_per_vertex` others.
        edges_per_vertex: edges that end in each vertex.
        seed: of the graph.
        iterations: sweeps over all vertices; the two arrays of ranks change places after each.
        skew: how unevenly edges begin: each bit of a source is zero with these odds (0.5 is uniform; R-MAT's
            a + b is 0.76, a power law).
    """
    positive("pagerank", vertices=vertices, edges_per_vertex=edges_per_vertex, iterations=iterations)
    if not 0 < skew < 1:
        raise RooflabError(f"pagerank: skew is {skew!r}, expected a number between 0 and 1")
    edges = vertices * edges_per_vertex
    arena = Arena()
    sizes = {"in pointers": (vertices + 1) * 8, "sources": edges * 4, "out degrees": vertices * 4}
    sizes |= {"rank": vertices * 8, "new rank": vertices * 8}
    bases = tuple(arena.array(name, nbytes) for name, nbytes in sizes.items())
    named = ("in pointers[v]", "in pointers[v+1]", "sources[e]", "out degrees[u]")
    for name in (*named, "rank[u]", "new rank[v] =", "new rank[u]", "rank[v] ="):
        arena.reference(name)
    bits = max(1, (vertices - 1).bit_length())
    table = (vertices, edges_per_vertex, seed_of(seed), iterations, bits, round(skew * 128), *bases)
    accesses = iterations * (3 * vertices + 3 * edges)
    accessed = iterations * (24 * vertices + 16 * edges)
    title = f"pagerank {vertices:,} vertices, {edges:,} edges"
    return arena.irregular(title, "pagerank", table, accesses, accessed)
