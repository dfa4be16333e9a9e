"""The kernels of an indexer: few small heads score all keys, and attention sees the best of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rooflab.model.parallel.layout import share
from rooflab.model.serving.kernels import HALF_BYTES, Kernel, attention
from rooflab.model.serving.projections import LAYER, linear
from rooflab.model.serving.row_kernels import norm, pointwise
from rooflab.work.llm.mixers import Attention, Compressed, Latent

if TYPE_CHECKING:
    from rooflab.model.serving.program import Run


def of_latent(run: Run, a: Latent, count: float) -> list[Kernel]:
    """The lightning indexer: every token scores all keys before it in few small heads, and keeps the best."""
    width = (float(a.index_keys + a.index_heads),)
    name, hidden = "index: project keys and weights", float(run.model.hidden)
    made = linear(run, LAYER, name, count, run.tokens, width, hidden, run.precision.attention)
    every = a.index_pool if a.index_pool > 1 else 0
    if every:
        parts = run.tokens * a.index_size
        made.append(pointwise(LAYER, "index: pool keys", count, parts, reads=4.0, writes=1.0 / every))
    return made + _scored(run, a, count, every)


def of_blocks(run: Run, a: Compressed, count: float) -> list[Kernel]:
    """The indexer of compressed blocks, whose keys are made beside the blocks' own."""
    width, hidden = (float(a.index_heads),), float(run.model.hidden)
    made = linear(run, LAYER, "index: weights", count, run.tokens, width, hidden, run.precision.attention)
    return made + _scored(run, a, count, a.rate)


def by_group(run: Run, a: Attention, count: float) -> list[Kernel]:
    """An indexer with a head for each group of queries, whose best blocks of keys the group sees (MiniMax-M3).

    Scores are as of attention without values, in 16 bits; a block's is the largest of its keys'.
    """
    heads, tokens, size = share(a.index_heads, run.layout.tensor), run.tokens, float(a.index_size)
    widths, hidden = (heads * size, size), float(run.model.hidden)
    made = linear(run, LAYER, "index: project q and keys", count, tokens, widths, hidden, run.precision.attention)
    rows = tokens * (heads + 1.0)
    made.append(norm(LAYER, "index: normalise", count, rows, size, reads=2.0, writes=2.0, warm=2.0))
    turned = rows * size
    made.append(pointwise(LAYER, "index: positions", count, turned, reads=HALF_BYTES, writes=HALF_BYTES))
    return made + _scores(run, count, float(heads), a.index_size, 0, HALF_BYTES, "bf16")


def _scored(run: Run, a: Latent | Compressed, count: float, every: int) -> list[Kernel]:
    """What an indexer with weights by head does but for its keys: its queries, their scores, the best kept.

    `every`: tokens that a key stands for; 0 where each has its own.
    """
    width, hidden = float(a.index_heads * a.index_size), float(a.q_rank or run.model.hidden)
    made = linear(run, LAYER, "index: project q", count, run.tokens, (width,), hidden, run.precision.attention)
    return made + _scores(run, count, float(a.index_heads), a.index_size, every, 1.0, "fp8")


def _scores(run: Run, count: float, heads: float, size: int, every: int, item: float, dtype: str) -> list[Kernel]:
    """Scores of all keys before a token by heads of `size`, `item` bytes an element, and the best kept."""
    made: list[Kernel] = []
    for name, each in (("prompts", run.batch.prompts), ("one token each", run.batch.singles)):
        made.append(
            attention(
                LAYER,
                f"index: score ({name})",
                count,
                **each,
                every=every,
                heads=heads,
                kv_heads=1.0,
                size=size,
                values=1,
                cached_bytes=item,
                dtype=dtype,
                v_in_k=True,
                planned=True,
            )
        )
        seen = each["before"] + (each["new"] + 1) / 2
        scores = each["sequences"] * each["new"] * seen / max(every, 1)
        made.append(pointwise(LAYER, f"index: keep the best ({name})", count, scores, reads=4.0, writes=0.0))
    return made
