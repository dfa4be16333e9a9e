"""The kernels of attention layers on one rank: projections, positions, the cache, attention, to an encoder too."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from rooflab.model.kernels.gpu import attention_libraries
from rooflab.model.parallel.layout import share
from rooflab.model.serving import beside, indexer
from rooflab.model.serving.batch import Number
from rooflab.model.serving.kernels import HALF_BYTES, Kernel, attention, collective
from rooflab.model.serving.projections import LAYER, linear, projected
from rooflab.model.serving.row_kernels import norm, pointwise, rows_of_blocks
from rooflab.work.llm.mixers import Attention

if TYPE_CHECKING:
    from rooflab.model.serving.program import Run


def kernels(run: Run, a: Attention, count: float) -> list[Kernel]:
    """Attention of one layer, `count` times: this rank's heads."""
    ways, hidden = run.layout.tensor, float(run.model.hidden)
    heads, kv_heads = share(a.heads, ways), share(a.kv_heads, ways)
    tokens = run.tokens
    q, kv = heads * a.size, 0.0 if a.borrows else kv_heads * (a.size + a.values)
    stored = run.precision.attention
    widths = (q + heads * a.gate, *a.kv_parts(kv_heads))
    made = linear(run, LAYER, "project to q, k, v", count, tokens, widths, hidden, stored, scaled=True)
    if a.qk_norm:
        made += _qk_norms(run, a, count, heads, 0.0 if a.borrows else kv_heads)
    if run.engine.eager:
        made += _position_calls(run, a, count, heads, kv_heads)
    else:
        made += _positions_and_cache(run, count, q if a.rotates else 0.0, kv, kv_heads)
    if a.index_heads:
        made += indexer.by_group(run, a, count)
    made += _attend(run, count, heads, heads if run.engine.copies_keys else kv_heads, a)
    made += passed_on(run, count, float(kv), float(heads * a.values))
    if a.gate:
        made.append(pointwise(LAYER, "gate the result", count, tokens * heads * a.values, reads=4.0, writes=2.0))
    made += projected(run, count, float(heads * a.values))
    return made


def _qk_norms(run: Run, a: Attention, count: float, heads: float, kv_heads: float) -> list[Kernel]:
    """Norms of q and k, head by head, or over all heads, whose sums of squares ranks with some of them add up.

    Two numbers of a token in fp32 (vllm-project/vllm, minimax_m2.py and the norm it takes from MiniMax-01's;
    sgl-project/sglang, minimax_m2.py): one pass over q and k for the sums, one for the result.
    """
    name, tokens, ways = "normalise q and k", run.tokens, run.layout.tensor
    if a.qk_norm != "full" or ways == 1:
        rows = tokens * (heads + kv_heads)
        return [norm(LAYER, name, count, rows, float(a.size), reads=2.0, writes=2.0, warm=2.0)]
    width = (heads + kv_heads) * a.size
    sums = run.engine.sums(run.family, ways)
    return [
        norm(LAYER, "squares of q and k", count, tokens, width, reads=2.0, writes=0.0, warm=2.0),
        collective("communication", "sum squares of q and k", count, "all_reduce", tokens * 8.0, ways, sums=sums),
        pointwise(LAYER, name, count, tokens * width, reads=2.0, writes=2.0),
    ]


def cross(run: Run, a: Attention, count: float) -> list[Kernel]:
    """Attention to an encoder's tokens, whose keys and values are made once, with the prompt."""
    batch, hidden, stored = run.batch, float(run.model.hidden), run.precision.attention
    heads, kv_heads = share(a.heads, run.layout.tensor), share(a.kv_heads, run.layout.tensor)
    length = beside.encoded_tokens(run.model, run.prompt)
    prompts = batch.prefill_sequences * batch.prefill_tokens / np.maximum(run.prompt, 1.0)
    widths = (kv_heads * a.size, kv_heads * a.values)
    made = linear(run, LAYER, "project to q (cross)", count, run.tokens, (heads * a.size,), hidden, stored)
    made += linear(run, LAYER, "project to k, v (cross)", count, prompts * length, widths, hidden, stored)
    for name, sequences, new in (
        ("prompts", batch.prefill_sequences, batch.prefill_tokens),
        ("one token each", batch.decode_sequences, batch.decode_tokens),
    ):
        made.append(
            attention(
                LAYER,
                f"attend to the encoder ({name})",
                count,
                sequences=sequences,
                new=new,
                before=np.maximum(length - new, 0.0),
                heads=heads,
                kv_heads=kv_heads,
                size=a.size,
                values=a.values,
                cached_bytes=run.precision.cache_bytes,
                causal=False,
                planned=True,
            )
        )
    return made + projected(run, count, float(heads * a.values))


def passed_on(run: Run, count: float, kept: float, out: float) -> list[Kernel]:
    """Where ranks share a sequence's tokens: a prompt's keys and values to all, and partial results put together.

    `kept` are elements of a token in the cache, `out` those of a token's result on this rank, which is added up in
    fp32 with the logarithm of each head's sum (flash decoding; Liu et al., ring attention, arXiv:2310.01889, pass
    as many bytes in turn).
    """
    ways, batch = run.layout.context, run.batch
    if ways == 1:
        return []
    # Each rank's share of the new tokens, and of those that are in the cache already.
    new = batch.prefill_tokens * ways
    before = batch.prefill_context - (new - batch.prefill_tokens) / 2.0
    keys = batch.prefill_sequences * (new + before) * kept * run.precision.cache_bytes
    return [
        collective("communication", "pass keys and values on", count, "all_gather", keys, ways),
        collective(
            *("communication", "join parts of attention", count, "all_reduce"),
            *(batch.decode_sequences * out * 4.0, ways),
            sums=run.engine.sums(run.family, ways),
        ),
    ]


def _positions_and_cache(run: Run, count: float, q: float, kv: float, kv_heads: float) -> list[Kernel]:
    tokens, item = run.tokens, run.precision.cache_bytes
    if not kv:  # nothing is kept: queries alone are turned
        turned = tokens * q * HALF_BYTES
        return [rows_of_blocks(LAYER, "positions", count, tokens, 512.0, turned, turned)] if q else []
    if run.engine.joins_rope_and_cache:
        moved = tokens * (q + kv) * HALF_BYTES
        return [
            rows_of_blocks(
                LAYER,
                "positions and cache",
                count,
                tokens * kv_heads,
                256.0,
                moved,
                tokens * (q * HALF_BYTES + kv * item),
            )
        ]
    made = []
    if q:
        turned = tokens * (q + kv / 2) * HALF_BYTES
        made.append(rows_of_blocks(LAYER, "positions", count, tokens, 512.0, turned, turned))
    narrow = item < HALF_BYTES
    if narrow and not run.engine.writes_narrow:
        cast = pointwise(
            LAYER, "cast keys and values", 2.0 * count, tokens * kv / 2.0, reads=HALF_BYTES, writes=item
        )
        made.append(cast)
    made.append(
        rows_of_blocks(
            *(LAYER, "write the cache", count, tokens, 512.0, tokens * kv * HALF_BYTES, tokens * kv * item),
            converted=tokens * kv if narrow and run.engine.writes_narrow else 0.0,
        )
    )
    return made


# Of q and of k: times the cosines, the halves turned (a sign, a copy), times the sines, the sum.
_TURNS = 5.0


def _position_calls(run: Run, a: Attention, count: float, heads: float, kv_heads: float) -> list[Kernel]:
    """PyTorch's operations one by one; keys and values are copied with the new ones behind them."""
    engine, tokens, batch = run.engine, run.tokens, run.batch
    made: list[Kernel] = []
    if a.rotates:
        turned = tokens * (heads + (0 if a.borrows else kv_heads)) * a.size / 2.0
        made.append(pointwise(LAYER, "positions", count * 2.0 * _TURNS, turned, reads=3.0, writes=2.0))
        angles = engine.position_calls - 2.0 * _TURNS
        made.append(pointwise(LAYER, "angles", count * angles, tokens * float(a.size), reads=4.0, writes=4.0))
    kept = batch.prefill_sequences * (batch.prefill_context + batch.prefill_tokens)
    kept = (kept + batch.decode_sequences * batch.decode_context) * kv_heads * (a.size + a.values) / 2.0
    if not a.borrows:
        made.append(_copied(run, "copy the cache to a longer one", count, kept, kept))
    if engine.copies_keys and heads > kv_heads:
        made.append(_copied(run, "copy shared keys", count, kept, kept * heads / kv_heads))
    return made


def _copied(run: Run, name: str, count: float, read: Number, written: Number) -> Kernel:
    """Keys, and values, copied: so many elements of each."""
    item = run.precision.cache_bytes
    made = pointwise(LAYER, name, count * 2.0, written, reads=item, writes=item)
    columns = made.columns | {"read_bytes_0": read * item}
    return dataclasses.replace(made, columns=columns, read_bytes=read * item, warm_bytes=0.0)


def _attend(run: Run, count: float, heads: float, kv_heads: float, a: Attention) -> list[Kernel]:
    batch, item = run.batch, run.precision.cache_bytes
    common = {
        "heads": heads,
        "kv_heads": kv_heads,
        "size": a.size,
        "values": a.values,
        "window": a.window,
        "causal": a.causal,
        "limit": a.index_top,
        "planned": True,
    }
    shares = run.engine.shares(heads / kv_heads)
    prompts = run.engine.attention_kernel(run.family, decodes=False)
    single = run.engine.attention_kernel(run.family, decodes=True, shares=shares)
    eight = run.precision.cache == "fp8"
    narrow = eight and (run.engine.narrow_prompts or attention_libraries.narrows(prompts, item))
    prefill = attention(
        LAYER,
        "attend (prompts)",
        count,
        **batch.prompts,
        cached_bytes=item,
        dtype="fp8" if narrow else "bf16",
        kernel=prompts,
        **common,
    )
    decode = attention(
        LAYER,
        "attend (one token each)",
        count,
        **batch.singles,
        cached_bytes=item,
        dtype="fp8" if eight and attention_libraries.narrows(single, item) else "bf16",
        shares=shares,
        kernel=single,
        **common,
    )
    return [prefill, decode]
