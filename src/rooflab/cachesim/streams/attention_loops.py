"""One head of attention as loops: with the scores in memory, and tile by tile."""

from __future__ import annotations

from rooflab.cachesim.streams.nests import Loop
from rooflab.cachesim.streams.stream import Arena, Stream


def unfused(tokens: int, dim: int, item: int) -> Stream:
    """S = Q · Kᵀ, a softmax of each row of S (maximum, sum of exponentials, division), O = S · V."""
    arena = Arena()
    for name, count in (("Q", tokens * dim), ("K", tokens * dim), ("V", tokens * dim), ("S", tokens * tokens)):
        arena.array(name, count * item)
    arena.array("O", tokens * dim * item)
    row, wide = dim * item, tokens * item
    q = arena.load("Q[i, d]", {"i": row, "d": item}, item)
    k = arena.load("K[j, d]", {"j": row, "d": item}, item)
    put = arena.store("S[i, j] =", {"i": wide, "j": item}, item)
    scores = Loop("i", tokens, (Loop("j", tokens, (Loop("d", dim, (q, k)), put)),))
    s = arena.load("S[i, j]", {"i": wide, "j": item}, item)
    passes = (Loop("j", tokens, (s,)), Loop("j", tokens, (s, put)), Loop("j", tokens, (s, put)))
    softmax = Loop("i", tokens, passes)
    v = arena.load("V[j, d]", {"j": row, "d": item}, item)
    o = arena.load("O[i, d]", {"i": row, "d": item}, item)
    write = arena.store("O[i, d] =", {"i": row, "d": item}, item)
    values = Loop("i", tokens, (Loop("j", tokens, (s, Loop("d", dim, (v, o, write)))),))
    return arena.affine(f"attention {tokens:,} × {dim:,}", scores, softmax, values)


def fused(tokens: int, dim: int, keys: int, queries: int, item: int) -> Stream:
    """The same a block of `queries` by a block of `keys` at a time; scores live in a buffer of one such block."""
    arena = Arena()
    for name, count in (("Q", tokens * dim), ("K", tokens * dim), ("V", tokens * dim), ("S", queries * keys)):
        arena.array(name, count * item)
    arena.array("O", tokens * dim * item)
    row, wide = dim * item, keys * item
    by_query = {"ii": queries * row, "i": row, "d": item}
    by_key = {"jj": keys * row, "j": row, "d": item}
    at = {"i": wide, "j": item}

    def over(name: str, size: int, *body: object) -> Loop:
        return Loop(name, size, body, (name * 2, tokens))  # type: ignore[arg-type]

    q, k = arena.load("Q[i, d]", by_query, item), arena.load("K[j, d]", by_key, item)
    put, s = arena.store("S[i, j] =", at, item), arena.load("S[i, j]", at, item)
    v = arena.load("V[j, d]", by_key, item)
    o, write = arena.load("O[i, d]", by_query, item), arena.store("O[i, d] =", by_query, item)
    scores = over("i", queries, over("j", keys, Loop("d", dim, (q, k)), put))
    softmax = over("i", queries, over("j", keys, s), over("j", keys, s, put))
    values = over("i", queries, over("j", keys, s, Loop("d", dim, (v, o, write))))
    blocks = Loop("jj", -(-tokens // keys), (scores, softmax, values))
    outer = Loop("ii", -(-tokens // queries), (blocks,))
    return arena.affine(f"attention {tokens:,} × {dim:,} in tiles of {queries:,} × {keys:,}", outer)
