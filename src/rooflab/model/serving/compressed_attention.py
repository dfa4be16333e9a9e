"""The kernels of compressed attention on one rank: a window, keys of blocks of tokens, and what picks them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rooflab.model.parallel.layout import share
from rooflab.model.serving import indexer
from rooflab.model.serving.attention import passed_on
from rooflab.model.serving.kernels import HALF_BYTES, Kernel, attention, grouped
from rooflab.model.serving.projections import LAYER, linear, projected
from rooflab.model.serving.row_kernels import norm, pointwise
from rooflab.work.llm.mixers import Compressed

if TYPE_CHECKING:
    from rooflab.model.serving.program import Run


def kernels(run: Run, a: Compressed, count: float) -> list[Kernel]:
    """Queries over the last tokens and the blocks before them, one kernel for both.

    As transformers' modeling_deepseek_v4 computes it: latent queries, the token's own key and its part of the
    blocks' keys by every rank; heads, and the groups that their results are brought down by, are divided.
    """
    hidden, tokens, batch, stored = float(run.model.hidden), run.tokens, run.batch, run.precision.attention
    ways, item = run.layout.tensor, run.precision.cache_bytes
    heads, groups = share(a.heads, ways), share(a.groups, ways)
    first = (float(a.q_rank + a.size), 2.0 * a.pooled)
    made = linear(run, LAYER, "project to latent q and keys", count, tokens, first, hidden, stored, scaled=True)
    kept = float(a.q_rank + a.size)
    made.append(norm(LAYER, "normalise latent q and keys", count, tokens, kept, reads=2.0, writes=2.0, warm=2.0))
    width = float(heads * a.size)
    made += linear(run, LAYER, "project to q", count, tokens, (width,), float(a.q_rank), stored, scaled=True)
    turned = tokens * (width + a.size)
    made.append(
        pointwise(LAYER, "normalise q, positions and cache", count, turned, reads=HALF_BYTES, writes=HALF_BYTES)
    )
    if a.rate:
        # Parts of blocks' keys and their weights in fp32, kept until a block is whole; a key of each block.
        made.append(
            pointwise(LAYER, "compress blocks", count, tokens * a.pooled, reads=8.0, writes=4.0 + item / a.rate)
        )
    if a.index_heads:
        made += indexer.of_blocks(run, a, count)
    for name, each, decodes in (("prompts", batch.prompts, False), ("one token each", batch.singles, True)):
        made.append(
            attention(
                LAYER,
                f"attend ({name})",
                count,
                **each,
                heads=heads,
                kv_heads=1.0,
                size=a.size,
                values=a.size,
                window=a.window,
                every=a.rate,
                limit=a.index_top,
                cached_bytes=item,
                v_in_k=True,
                planned=True,
                dtype=run.engine.latent_format(run.family, item, chooses=True) if decodes else "bf16",
                kernel=run.engine.latent_kernel(run.family, decodes=True) if decodes else "",
            )
        )
    made.append(pointwise(LAYER, "positions back", count, tokens * width, reads=HALF_BYTES, writes=HALF_BYTES))
    made += passed_on(run, count, float(a.size), width)
    into, rank = a.heads * a.size / a.groups, float(a.out_rank)
    made.append(grouped(LAYER, "result by groups", count, tokens * groups, rank, into, groups, stored, even=True))
    made += projected(run, count, groups * rank)
    return made
