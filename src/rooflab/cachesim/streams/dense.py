"""Streams over dense arrays: sweeps, copies, products, stencils, transposes, random and chased accesses.

Each is a description: the accesses are generated while they are simulated. Arrays lie one after the other,
each on a page of its own, and are of 8-byte numbers unless `item_bytes` says otherwise.
"""

from __future__ import annotations

from itertools import permutations
from typing import Literal

from rooflab.cachesim.streams.nests import Access, Loop
from rooflab.cachesim.streams.sparse import seed_of
from rooflab.cachesim.streams.stream import Arena, Stream, positive
from rooflab.errors import RooflabError, UnknownNameError

ORDERS = tuple("".join(order) for order in permutations("ijk"))


def sequential(nbytes: int, *, item_bytes: int = 8, passes: int = 1) -> Stream:
    """Loads of `nbytes` bytes, one item after the other, `passes` times over.

    >>> sequential(2**26).accesses
    8388608
    """
    positive("sequential", nbytes=nbytes, item_bytes=item_bytes, passes=passes)
    return _swept(f"sequential {nbytes:,} B", nbytes, item_bytes, item_bytes, passes)


def strided(nbytes: int, stride_bytes: int, *, item_bytes: int = 8, passes: int = 1) -> Stream:
    """Loads of one item every `stride_bytes` of `nbytes` bytes, `passes` times over."""
    positive("strided", nbytes=nbytes, stride_bytes=stride_bytes, item_bytes=item_bytes, passes=passes)
    return _swept(f"strided {nbytes:,} B by {stride_bytes:,}", nbytes, stride_bytes, item_bytes, passes)


def _swept(title: str, nbytes: int, stride: int, item: int, passes: int) -> Stream:
    if item > nbytes:
        raise RooflabError(f"{title}: item_bytes is {item:,}, more than the whole array")
    arena = Arena()
    arena.array("a", nbytes)
    sweep = Loop("i", (nbytes - item) // stride + 1, (arena.load("a[i]", {"i": stride}, item),))
    return arena.affine(title, sweep if passes == 1 else Loop("pass", passes, (sweep,)))


def copy(n: int, *, item_bytes: int = 8, stores: Literal["ordinary", "nontemporal"] = "ordinary") -> Stream:
    """a[i] = b[i] for n items."""
    return _streamed("copy", n, ("b",), item_bytes, stores)


def triad(n: int, *, item_bytes: int = 8, stores: Literal["ordinary", "nontemporal"] = "ordinary") -> Stream:
    """a[i] = b[i] + s·c[i] for n items (STREAM)."""
    return _streamed("triad", n, ("b", "c"), item_bytes, stores)


def _streamed(what: str, n: int, read: tuple[str, ...], item: int, stores: str) -> Stream:
    positive(what, n=n, item_bytes=item)
    if stores not in ("ordinary", "nontemporal"):
        raise UnknownNameError(f"stores of {what}", stores, ("ordinary", "nontemporal"))
    arena = Arena()
    for name in ("a", *read):
        arena.array(name, n * item)
    loaded = [arena.load(f"{name}[i]", {"i": item}, item) for name in read]
    write = arena.store if stores == "ordinary" else arena.stream_store
    return arena.affine(f"{what} {n:,}", Loop("i", n, (*loaded, write("a[i] =", {"i": item}, item))))


def matmul(
    n: int,
    *,
    order: str = "ijk",
    tile: int | None = None,
    m: int | None = None,
    k: int | None = None,
    item_bytes: int = 8,
    registers: bool = True,
) -> Stream:
    """C[m, n] = A[m, k] · B[k, n], row by row, with its loops in any order.

    Args:
        n: columns of B and C; also m and k unless they are given.
        order: the loops from outer to inner: "ijk", "ikj", "jik", "jki", "kij" or "kji".
        tile: side of the tiles that all three loops are cut into, in the same order.
        m: rows of A and C.
        k: columns of A, rows of B.
        item_bytes: 8 for double.
        registers: what the innermost loop does not move stays in a register: read before the loop (but for a C
            that the loop sums up from zero), written after it. False reads and writes C at every step.

    >>> matmul(256).accesses  # 2 loads a step, a store for each element of C
    33619968
    """
    rows, depth = m or n, k or n
    positive("matmul", n=n, m=m, k=k, tile=tile, item_bytes=item_bytes)
    if order not in ORDERS:
        raise UnknownNameError("order of matmul", str(order), ORDERS)
    arena = Arena()
    for name, count in (("A", rows * depth), ("B", depth * n), ("C", rows * n)):
        arena.array(name, count * item_bytes)
    extents = {"i": rows, "j": n, "k": depth}
    strides = {
        "A[i, k]": {"i": depth * item_bytes, "k": item_bytes},
        "B[k, j]": {"k": n * item_bytes, "j": item_bytes},
        "C[i, j]": {"i": n * item_bytes, "j": item_bytes},
    }
    tiled = {} if tile is None else {loop: tile for loop in extents if tile < extents[loop]}
    for moves in strides.values():
        moves.update({loop * 2: moves[loop] * tiled[loop] for loop in tiled if loop in moves})
    loads = {name: arena.load(name, moves, item_bytes) for name, moves in strides.items()}
    store = arena.store("C[i, j] =", strides["C[i, j]"], item_bytes)
    body = _matmul_body(order, extents, tiled, loads, store, registers)
    title = f"matmul {rows:,} × {n:,} × {depth:,} {order}" + (f" tile {tile:,}" if tile else "")
    for loop in reversed([loop for loop in order if loop in tiled]):
        body = (Loop(loop * 2, -(-extents[loop] // tiled[loop]), body),)
    outermost = body[0]
    assert isinstance(outermost, Loop)
    return arena.affine(title, outermost)


def _matmul_body(
    order: str,
    extents: dict[str, int],
    tiled: dict[str, int],
    loads: dict[str, Access],
    store: Access,
    registers: bool,
) -> tuple[Loop | Access, ...]:
    def loop(name: str, body: tuple[Loop | Access, ...]) -> Loop:
        clip = (name * 2, extents[name]) if name in tiled else None
        return Loop(name, tiled.get(name, extents[name]), body, clip)

    inner = order[2]
    fixed = [name for name in loads if registers and inner not in name.split("[")[1]]
    before = [loads[name] for name in fixed if not name.startswith("C") or "k" in tiled]
    moving = [access for name, access in loads.items() if name not in fixed]
    summed = any(name.startswith("C") for name in fixed)
    inside = loop(inner, tuple(moving) if summed else (*moving, store))
    body: tuple[Loop | Access, ...] = (*before, inside, *((store,) if summed else ()))
    return (loop(order[0], (loop(order[1], body),)),)


def transpose(n: int, *, m: int | None = None, tile: int | None = None, item_bytes: int = 8) -> Stream:
    """B[j, i] = A[i, j] for an m by n A, row by row, in square tiles where `tile` is given."""
    rows = m or n
    positive("transpose", n=n, m=m, tile=tile, item_bytes=item_bytes)
    arena = Arena()
    arena.array("A", rows * n * item_bytes)
    arena.array("B", rows * n * item_bytes)
    read, write = {"i": n * item_bytes, "j": item_bytes}, {"i": item_bytes, "j": rows * item_bytes}
    extents = {"i": rows, "j": n}
    tiled = {} if tile is None else {loop: tile for loop in extents if tile < extents[loop]}
    for moves in (read, write):
        moves.update({loop * 2: moves[loop] * tiled[loop] for loop in tiled})
    body: tuple[Loop | Access, ...] = (
        arena.load("A[i, j]", read, item_bytes),
        arena.store("B[j, i] =", write, item_bytes),
    )
    for loop in ("j", "i"):
        clip = (loop * 2, extents[loop]) if loop in tiled else None
        body = (Loop(loop, tiled.get(loop, extents[loop]), body, clip),)
    for loop in ("j", "i"):
        if loop in tiled:
            body = (Loop(loop * 2, -(-extents[loop] // tile), body),)  # type: ignore[operator]
    outermost = body[0]
    assert isinstance(outermost, Loop)
    return arena.affine(f"transpose {rows:,} × {n:,}" + (f" tile {tile:,}" if tile else ""), outermost)


def stencil2d(n: int, *, m: int | None = None, sweeps: int = 1, item_bytes: int = 8) -> Stream:
    """The 5-point stencil on the interior of m by n points, from a into b (and back, sweep by sweep).

    >>> stencil2d(2048).accesses  # 5 loads and a store for each of 2,046² points
    25116696
    """
    rows = m or n
    positive("stencil2d", n=n, m=m, sweeps=sweeps, item_bytes=item_bytes)
    if min(rows, n) < 3:
        raise RooflabError(f"stencil2d: {rows} × {n} points have no interior, expected at least 3 × 3")
    row, item = n * item_bytes, item_bytes
    points = {"i-1, j": -row, "i+1, j": row, "i, j-1": -item, "i, j": 0, "i, j+1": item}
    arena = Arena()
    for name in ("a", "b"):
        arena.array(name, rows * row)
    extents, moves = {"i": rows - 2, "j": n - 2}, {"i": row, "j": item}
    title = f"stencil2d {rows:,} × {n:,}" + (f", {sweeps} sweeps" if sweeps > 1 else "")
    return _stencil(arena, title, points, extents, moves, row + item, sweeps, item)


def stencil3d(n: int, *, sweeps: int = 1, item_bytes: int = 8) -> Stream:
    """The 7-point stencil on the interior of n³ points, from a into b (and back, sweep by sweep)."""
    positive("stencil3d", n=n, sweeps=sweeps, item_bytes=item_bytes)
    if n < 3:
        raise RooflabError(f"stencil3d: {n}³ points have no interior, expected at least 3³")
    item, row, plane = item_bytes, n * item_bytes, n * n * item_bytes
    points = {
        "i-1, j, k": -plane,
        "i+1, j, k": plane,
        "i, j-1, k": -row,
        "i, j+1, k": row,
        "i, j, k-1": -item,
        "i, j, k": 0,
        "i, j, k+1": item,
    }
    arena = Arena()
    for name in ("a", "b"):
        arena.array(name, n * plane)
    extents, moves = dict.fromkeys("ijk", n - 2), {"i": plane, "j": row, "k": item}
    title = f"stencil3d {n:,}³" + (f", {sweeps} sweeps" if sweeps > 1 else "")
    return _stencil(arena, title, points, extents, moves, plane + row + item, sweeps, item)


def _stencil(
    arena: Arena,
    title: str,
    points: dict[str, int],
    extents: dict[str, int],
    moves: dict[str, int],
    centre: int,
    sweeps: int,
    item: int,
) -> Stream:
    def sweep(source: str, target: str) -> Loop:
        loads = [arena.load(f"{source}[{at}]", moves, item, centre + by) for at, by in points.items()]
        index = ", ".join(extents)
        body: tuple[Loop | Access, ...] = (*loads, arena.store(f"{target}[{index}] =", moves, item, centre))
        for name in reversed(extents):
            body = (Loop(name, extents[name], body),)
        assert isinstance(body[0], Loop)
        return body[0]

    there = sweep("a", "b")
    if sweeps == 1:
        return arena.affine(title, there)
    both = Loop("sweep", sweeps // 2, (there, sweep("b", "a")))
    return arena.affine(title, both, *([there] if sweeps % 2 else []))


def random(nbytes: int, count: int, seed: int = 1, *, item_bytes: int = 8, store: bool = False) -> Stream:
    """`count` loads (or stores) of random items of an array of `nbytes` bytes."""
    positive("random", nbytes=nbytes, count=count, item_bytes=item_bytes)
    items = _items("random", nbytes, item_bytes)
    arena = Arena()
    arena.array("a", items * item_bytes)
    arena.reference("a[random] =" if store else "a[random]")
    table = (items, count, seed_of(seed), item_bytes, 1 if store else 0)
    return arena.irregular(f"random {nbytes:,} B", "random", table, count, count * item_bytes)


def pointer_chase(nbytes: int, count: int | None = None, seed: int = 1, *, stride_bytes: int = 64) -> Stream:
    """`count` dependent loads along one cycle through all items, `stride_bytes` apart, of `nbytes` bytes.

    By default each item once.
    """
    positive("pointer_chase", nbytes=nbytes, count=count, stride_bytes=stride_bytes)
    items = _items("pointer_chase", nbytes, stride_bytes)
    count = count or items
    arena = Arena()
    arena.array("a", items * stride_bytes)
    arena.reference("a[next]")
    bits = max(3, (items - 1).bit_length())
    table = (items, count, seed_of(seed), stride_bytes, bits, 0)
    return arena.irregular(f"pointer chase {nbytes:,} B", "chase", table, count, 8 * count)


def attention(
    tokens: int, head_dim: int = 64, *, tile: int | None = None, item_bytes: int = 4, query_tile: int | None = None
) -> Stream:
    """One head of attention: O = softmax(Q · Kᵀ) · V over `tokens` tokens.

    Without `tile` the scores are written to memory, read and written by the softmax, and read again. With it
    (FlashAttention) a block of queries meets a block of keys at a time, and the scores stay in a buffer of
    one block by one block.
    """
    positive(
        "attention", tokens=tokens, head_dim=head_dim, tile=tile, query_tile=query_tile, item_bytes=item_bytes
    )
    from rooflab.cachesim.streams.attention_loops import fused, unfused

    if tile is None:
        return unfused(tokens, head_dim, item_bytes)
    return fused(tokens, head_dim, min(tile, tokens), min(query_tile or tile, tokens), item_bytes)


def _items(what: str, nbytes: int, item: int) -> int:
    if nbytes < item:
        raise RooflabError(f"{what}: {nbytes:,} bytes hold no item of {item:,}")
    if nbytes // item >= 1 << 31:
        raise RooflabError(f"{what}: {nbytes // item:,} items, expected fewer than 2**31")
    return nbytes // item
