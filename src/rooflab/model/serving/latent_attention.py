"""The kernels of latent attention on one rank."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rooflab.model.parallel.layout import share
from rooflab.model.serving import indexer, latent_cache
from rooflab.model.serving.attention import passed_on
from rooflab.model.serving.batch import Number
from rooflab.model.serving.kernels import HALF_BYTES, Kernel, attention, grouped, product
from rooflab.model.serving.projections import LAYER, linear, projected
from rooflab.model.serving.row_kernels import norm, pointwise, rows_of_blocks
from rooflab.work.llm.mixers import Latent

if TYPE_CHECKING:
    from rooflab.model.serving.program import Run


def _latent_writes(run: Run, count: float, heads: float, turned: float, kept: float) -> list[Kernel]:
    """The kernels that turn `turned` elements of a token's q and write the `kept` ones of its latent vector."""
    batch, item = run.batch, run.precision.cache_bytes

    def write(name: str, tokens: Number, blocks: Number, threads: float) -> Kernel:
        read, written = (turned + kept) * HALF_BYTES, turned * HALF_BYTES + kept * item
        return rows_of_blocks(LAYER, name, count, blocks, threads, tokens * read, tokens * written)

    if not run.engine.joins_rope_and_cache:
        return [write("positions and cache", run.tokens, run.tokens, 512.0)]
    narrow, singles = item < HALF_BYTES, batch.decode_sequences * batch.decode_tokens
    of_prompts = (batch.prefill_tokens, batch.prefill_sequences)
    prompts = latent_cache.tensorrt_blocks(*of_prompts, heads, decode=False, narrow=narrow)
    decode = latent_cache.tensorrt_blocks(singles, 1.0, heads, decode=True, narrow=narrow)
    return [
        write("positions and cache (prompts)", batch.prefill_tokens * batch.prefill_sequences, *prompts),
        write("positions and cache (one token each)", singles, *decode),
    ]


def kernels(run: Run, a: Latent, count: float) -> list[Kernel]:
    """Prompts expand the latent vector to keys and values; single tokens meet it, with q projected to its size."""
    hidden, tokens, batch, stored = float(run.model.hidden), run.tokens, run.batch, run.precision.attention
    heads, item = share(a.heads, run.layout.tensor), run.precision.cache_bytes
    size = a.plain + a.rotary
    kept, gates = float(a.kept), float(heads * a.gate)
    first = (float(a.q_rank or heads * size), *((kept,) if kept else ()))
    widths = (*first, gates) if gates else first
    made = linear(run, LAYER, "project to latent vectors", count, tokens, widths, hidden, stored, scaled=True)
    if a.q_rank or kept:
        made.append(
            norm(LAYER, "normalise latent vectors", count, tokens, sum(first), reads=2.0, writes=2.0, warm=2.0)
        )
    if a.q_rank:
        made += linear(
            run, LAYER, "project to q", count, tokens, (float(heads * size),), float(a.q_rank), stored, scaled=True
        )
    made += _latent_writes(run, count, float(heads), heads * a.rotary, kept)
    seen = batch.prefill_sequences * (batch.prefill_tokens + batch.prefill_context)
    if a.index_heads:
        made += indexer.of_latent(run, a, count)
    made.append(
        product(
            LAYER,
            "expand keys and values",
            count,
            seen,
            float(heads * (a.plain + a.values)),
            float(a.kv_rank),
            stored,
        )
    )
    narrow = run.precision.cache == "fp8" and run.engine.narrow_prompts
    if narrow:
        new = batch.prefill_sequences * batch.prefill_tokens
        narrowed = heads * (new * size + seen * (size + a.values))
        made.append(
            pointwise(LAYER, "q, keys and values to 8 bits", count, narrowed, reads=HALF_BYTES, writes=1.0)
        )
    made.append(
        attention(
            LAYER,
            "attend (prompts)",
            count,
            **batch.prompts,
            heads=heads,
            kv_heads=heads,
            size=size,
            values=a.values,
            planned=True,
            limit=a.index_top,
            dtype="fp8" if narrow else "bf16",
            kernel=run.engine.latent_kernel(run.family, decodes=False),
        )
    )

    def by_head(name: str, n: int, k: int) -> Kernel:
        """The product of one token each with a matrix of k x n, each head's its own."""
        rows = batch.decode_sequences * batch.decode_tokens * heads
        return grouped(LAYER, name, count, rows, float(n), float(k), heads, run.precision.embedding, even=True)

    made.append(by_head("q to the latent space", a.kv_rank, a.plain))
    made.append(
        attention(
            LAYER,
            "attend (one token each)",
            count,
            **batch.singles,
            heads=heads,
            kv_heads=1.0,
            size=a.kv_rank + a.rotary,
            values=a.kv_rank,
            cached_bytes=run.engine.latent_bytes(run.family, item),
            v_in_k=True,
            planned=True,
            limit=a.index_top,
            dtype=run.engine.latent_format(run.family, item, chooses=bool(a.index_top)),
            kernel=run.engine.latent_kernel(run.family, decodes=True),
        )
    )
    made.append(by_head("values from the latent space", a.values, a.kv_rank))
    made += passed_on(run, count, kept, float(heads * a.kv_rank))
    if a.gate:
        made.append(pointwise(LAYER, "gate the result", count, tokens * heads * a.values, reads=4.0, writes=2.0))
    made += projected(run, count, float(heads * a.values))
    return made
