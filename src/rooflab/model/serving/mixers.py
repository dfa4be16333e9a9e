"""The kernels of attention layers, latent attention, linear attention and state-space layers on one rank."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from rooflab.model.kernels.gpu import attention as gpu_attention
from rooflab.model.parallel.layout import share
from rooflab.model.serving import beside, ggml, ggml_products, latent_cache
from rooflab.model.serving.batch import Number
from rooflab.model.serving.kernels import (
    HALF_BYTES,
    Kernel,
    attention,
    collective,
    grouped,
    norm,
    pointwise,
    product,
    rows_of_blocks,
)
from rooflab.work.llm.architecture import Attention, Delta, Latent, Mixer, StateSpace
from rooflab.work.llm.formats import WeightFormat, weight_format

if TYPE_CHECKING:
    from rooflab.model.serving.program import Run

LAYER = "attention"


def kernels(run: Run, mixer: Mixer, count: float) -> list[Kernel]:
    """What one layer's mixer runs, `count` times."""
    if isinstance(mixer, Attention):
        return ggml.attention(run, mixer, count) if run.engine.one_by_one else _attention(run, mixer, count)
    if isinstance(mixer, Latent):
        return _latent(run, mixer, count)
    return _delta(run, mixer, count) if isinstance(mixer, Delta) else _state_space(run, mixer, count)


def linear(
    run: Run,
    layer: str,
    name: str,
    count: float,
    m: Number,
    widths: Sequence[float],
    k: float,
    stored: WeightFormat,
    *,
    scaled: bool = False,
) -> list[Kernel]:
    """Products of m rows of k with matrices of these widths, joined where the engine does; scaling before them.

    `scaled` says that the kernel before has left the rows in the product's format already.
    """
    made: list[Kernel] = []
    if run.engine.one_by_one:
        return ggml_products.linear(run, layer, name, count, m, widths, k, stored)
    narrow = stored.activations and not (scaled and run.engine.joins_scaling)
    if narrow:
        made += scaling(run, layer, count, m, k, stored)
    made += beside.adapters(run, layer, name, count, m, [float(each) for each in widths], k)
    joined = [float(sum(widths))] if run.engine.joins_projections else [float(each) for each in widths]
    return made + [kernel for each in joined for kernel in products(run, layer, name, count, m, each, k, stored)]


def products(
    run: Run, layer: str, name: str, count: float, m: Number, n: float, k: float, stored: WeightFormat
) -> list[Kernel]:
    """One product as the engine runs it."""
    if run.engine.one_by_one:
        return ggml_products.product(run, layer, name, count, m, n, k, stored)
    if run.engine.stream_rows and stored.bits < 16:
        return _streamed(run, layer, name, count, m, n, k, stored)
    if not stored.widens:
        return [product(layer, name, count, m, n, k, stored)]
    rows = np.asarray(m, float)
    several = np.where(rows > 1, rows, 0.0)
    return [
        *_widened(layer, name, count, several, n, k, stored),
        _where_any(rows - several, product(layer, name, count, rows - several, n, k, stored)),
    ]


def _streamed(
    run: Run, layer: str, name: str, count: float, m: Number, n: float, k: float, stored: WeightFormat
) -> list[Kernel]:
    """Of few rows the weights go past them once, on ordinary lanes; of more they are written in 16 bits first."""
    rows = np.asarray(m, float)
    few = np.where(rows <= run.engine.stream_rows, rows, 0.0)
    many = rows - few
    weights = n * k * stored.nbytes
    elements = n * k * (few > 0)
    # A weight is widened in about one instruction and a half, and half of one multiplies two of a row.
    passing = pointwise(
        layer, name, count, elements, reads=stored.nbytes, writes=0.0, instructions=1.5 + few / 2.0
    )
    into, out = few * k * HALF_BYTES, few * n * HALF_BYTES
    return [
        dataclasses.replace(
            passing, warm_bytes=into, weight_bytes=weights * (few > 0), read_bytes=passing.read_bytes + into,
            write_bytes=out, flop=2.0 * few * n * k, dtype="fp32",
        ),
        *_widened(layer, name, count, many, n, k, stored),
    ]  # fmt: skip


def _widened(
    layer: str, name: str, count: float, rows: Number, n: float, k: float, stored: WeightFormat
) -> list[Kernel]:
    some = np.asarray(rows) > 0
    made = pointwise(layer, f"{name}: widen weights", count, n * k * some, reads=stored.nbytes, writes=2.0)
    return [
        dataclasses.replace(made, warm_bytes=0.0, weight_bytes=made.read_bytes),
        _where_any(rows, product(layer, name, count, rows, n, k, weight_format("fp16"))),
    ]


def _where_any(rows: Number, made: Kernel) -> Kernel:
    """A product that settings without a row do not run: they read no weights for it."""
    some = np.asarray(rows) > 0
    return dataclasses.replace(made, read_bytes=made.read_bytes * some, weight_bytes=made.weight_bytes * some)


def scaling(run: Run, layer: str, count: float, m: Number, k: float, stored: WeightFormat) -> list[Kernel]:
    """Rows brought to the product's narrow format, by a kernel of its own."""
    return [norm(layer, "scale activations", count, m, k, reads=2.0, writes=1.0, warm=2.0)]


def _attention(run: Run, a: Attention, count: float) -> list[Kernel]:
    ways, hidden = run.layout.tensor, float(run.model.hidden)
    heads, kv_heads = share(a.heads, ways), share(a.kv_heads, ways)
    tokens = run.tokens
    q, kv = heads * a.size, 0.0 if a.borrows else kv_heads * (a.size + a.values)
    stored = run.precision.attention
    widths = (q * (1 + a.gate), *a.kv_parts(kv_heads))
    made = linear(run, LAYER, "project to q, k, v", count, tokens, widths, hidden, stored, scaled=True)
    if a.qk_norm:
        made.append(
            norm(
                LAYER,
                "normalise q and k",
                count,
                tokens * (heads + (0 if a.borrows else kv_heads)),
                float(a.size),
                reads=2.0,
                writes=2.0,
                warm=2.0,
            )
        )
    if run.engine.eager:
        made += _position_calls(run, a, count, heads, kv_heads)
    else:
        made += _positions_and_cache(run, count, q if a.rotates else 0.0, kv, kv_heads)
    made += _attend(run, count, heads, heads if run.engine.copies_keys else kv_heads, a)
    made += passed_on(run, count, float(kv), float(heads * a.values))
    if a.gate:
        made.append(pointwise(LAYER, "gate the result", count, tokens * heads * a.values, reads=4.0, writes=2.0))
    made += _projected(run, count, float(heads * a.values))
    return made


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
    return made + _projected(run, count, float(heads * a.values))


def _projected(run: Run, count: float, out: float) -> list[Kernel]:
    """What attention gives, `out` values a token, back in the model's width."""
    widths = (float(run.model.hidden),)
    return linear(run, LAYER, "project the result", count, run.tokens, widths, out, run.precision.of_result)


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
        "planned": True,
    }
    shares = run.engine.shares(heads / kv_heads)
    prompts = run.engine.attention_kernel(run.family, decodes=False)
    single = run.engine.attention_kernel(run.family, decodes=True, shares=shares)
    eight = run.precision.cache == "fp8"
    narrow = eight and (run.engine.narrow_prompts or gpu_attention.narrows(prompts, item))
    prefill = attention(
        LAYER,
        "attend (prompts)",
        count,
        sequences=batch.prefill_sequences,
        new=batch.prefill_tokens,
        before=batch.prefill_context,
        cached_bytes=item,
        dtype="fp8" if narrow else "bf16",
        kernel=prompts,
        **common,
    )
    decode = attention(
        LAYER,
        "attend (one token each)",
        count,
        sequences=batch.decode_sequences,
        new=batch.decode_tokens,
        before=np.maximum(batch.decode_context - 1.0, 0.0),
        cached_bytes=item,
        dtype="fp8" if eight and gpu_attention.narrows(single, item) else "bf16",
        shares=shares,
        kernel=single,
        **common,
    )
    return [prefill, decode]


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


def _latent(run: Run, a: Latent, count: float) -> list[Kernel]:
    """Prompts expand the latent vector to keys and values; single tokens meet it, with q projected to its size."""
    hidden, tokens, batch, stored = float(run.model.hidden), run.tokens, run.batch, run.precision.attention
    heads, item = share(a.heads, run.layout.tensor), run.precision.cache_bytes
    size = a.plain + a.rotary
    first = (a.q_rank or heads * size, a.kv_rank + a.rotary)
    made = linear(run, LAYER, "project to latent vectors", count, tokens, first, hidden, stored, scaled=True)
    made.append(
        norm(LAYER, "normalise latent vectors", count, tokens, float(sum(first)), reads=2.0, writes=2.0, warm=2.0)
    )
    if a.q_rank:
        made += linear(
            run, LAYER, "project to q", count, tokens, (float(heads * size),), float(a.q_rank), stored, scaled=True
        )
    kept = float(a.kv_rank + a.rotary)
    made += _latent_writes(run, count, float(heads), heads * a.rotary, kept)
    seen = batch.prefill_sequences * (batch.prefill_tokens + batch.prefill_context)
    if a.index_top:
        made += _index(run, a, count)
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
            sequences=batch.prefill_sequences,
            new=batch.prefill_tokens,
            before=batch.prefill_context,
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
    single = batch.decode_sequences
    bf16 = run.precision.embedding
    made.append(
        grouped(
            LAYER,
            "q to the latent space",
            count,
            single * batch.decode_tokens * heads,
            float(a.kv_rank),
            float(a.plain),
            heads,
            bf16,
            even=True,
        )
    )
    made.append(
        attention(
            LAYER,
            "attend (one token each)",
            count,
            sequences=single,
            new=batch.decode_tokens,
            before=np.maximum(batch.decode_context - 1.0, 0.0),
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
    made.append(
        grouped(
            LAYER,
            "values from the latent space",
            count,
            single * batch.decode_tokens * heads,
            float(a.values),
            float(a.kv_rank),
            heads,
            bf16,
            even=True,
        )
    )
    made += passed_on(run, count, kept, float(heads * a.kv_rank))
    made += _projected(run, count, float(heads * a.values))
    return made


def _index(run: Run, a: Latent, count: float) -> list[Kernel]:
    """The lightning indexer: every token scores all keys before it in few small heads, and keeps the best."""
    tokens, batch, hidden = run.tokens, run.batch, float(run.model.hidden)
    stored = run.precision.attention
    width = float(a.index_heads * a.index_size)
    made = linear(run, LAYER, "index: project q", count, tokens, (width,), float(a.q_rank or hidden), stored)
    made += linear(
        run,
        LAYER,
        "index: project keys and weights",
        count,
        tokens,
        (float(a.index_size + a.index_heads),),
        hidden,
        stored,
    )
    for name, sequences, new, before in (
        ("prompts", batch.prefill_sequences, batch.prefill_tokens, batch.prefill_context),
        (
            "one token each",
            batch.decode_sequences,
            batch.decode_tokens,
            np.maximum(batch.decode_context - 1.0, 0.0),
        ),
    ):
        made.append(
            attention(
                LAYER,
                f"index: score ({name})",
                count,
                sequences=sequences,
                new=new,
                before=before,
                heads=float(a.index_heads),
                kv_heads=1.0,
                size=a.index_size,
                values=1,
                cached_bytes=1.0,
                dtype="fp8",
                v_in_k=True,
                planned=True,
            )
        )
        scores = sequences * new * (before + (new + 1) / 2)
        made.append(pointwise(LAYER, f"index: keep the best ({name})", count, scores, reads=4.0, writes=0.0))
    return made


def _delta(run: Run, a: Delta, count: float) -> list[Kernel]:
    ways, hidden, tokens, stored = run.layout.tensor, float(run.model.hidden), run.tokens, run.precision.attention
    mixed, out = a.mixed / ways, a.value_heads * a.values / ways
    heads = a.value_heads / ways
    made = linear(
        run,
        LAYER,
        "project to q, k, v, gate",
        count,
        tokens,
        (mixed + out, 2 * heads),
        hidden,
        stored,
        scaled=True,
    )
    made.append(
        pointwise(LAYER, "convolve", count, tokens * mixed, reads=2.0, writes=2.0, instructions=4.0 * a.taps)
    )
    made += _recurrence(run, count, heads, a.size, a.values)
    made.append(
        norm(LAYER, "gate and normalise", count, tokens * heads, float(a.values), reads=4.0, writes=2.0, warm=4.0)
    )
    made += linear(run, LAYER, "project the result", count, tokens, (hidden,), out, stored)
    return made


_CHUNK = 64.0  # tokens of a chunk of a linear recurrence (flash-linear-attention; Mamba-2's kernels take 256)


def _recurrence(run: Run, count: float, heads: float, size: float, values: float) -> list[Kernel]:
    """The state of each head: read and written for one token, chunk by chunk for prompts."""
    batch = run.batch
    state = heads * size * values * 4.0
    single = batch.decode_sequences * batch.decode_tokens
    made = [
        pointwise(LAYER, "state (one token each)", count, single * heads * size * values, reads=4.0, writes=4.0)
    ]
    new = batch.prefill_sequences * batch.prefill_tokens
    chunks = np.ceil(batch.prefill_tokens / _CHUNK) * batch.prefill_sequences
    made.append(pointwise(LAYER, "state (prompts)", count, chunks * state / 4.0, reads=4.0, writes=4.0))
    # Within a chunk products of 64 x 64 pairs, with the state 2 products of size x values for a token.
    bf16 = run.precision.embedding
    made.append(
        grouped(
            LAYER,
            "chunks against the state",
            count,
            new * heads,
            float(values),
            2.0 * size,
            np.maximum(chunks * heads, 1.0),
            bf16,
            even=True,
        )
    )
    made.append(
        grouped(
            LAYER,
            "chunks against themselves",
            count,
            new * heads,
            _CHUNK,
            float(size + values),
            np.maximum(chunks * heads, 1.0),
            bf16,
            even=True,
        )
    )
    return made


def _state_space(run: Run, a: StateSpace, count: float) -> list[Kernel]:
    ways, hidden, tokens, stored = run.layout.tensor, float(run.model.hidden), run.tokens, run.precision.attention
    inner, mixed = a.inner / ways, a.mixed / ways
    made = linear(
        run, LAYER, "project the input", count, tokens, (a.projected / ways,), hidden, stored, scaled=True
    )
    made.append(
        pointwise(LAYER, "convolve", count, tokens * mixed, reads=2.0, writes=2.0, instructions=4.0 * a.taps)
    )
    if a.heads:
        heads = a.heads / ways
        made += _recurrence(run, count, heads, a.state, a.inner / a.heads)
        made.append(norm(LAYER, "gate and normalise", count, tokens, inner, reads=4.0, writes=2.0, warm=4.0))
    else:
        made += linear(
            run, LAYER, "project to step, B, C", count, tokens, (float(a.rank + 2 * a.state),), inner, stored
        )
        made += linear(run, LAYER, "project the step", count, tokens, (inner,), float(a.rank), stored)
        made.append(
            pointwise(LAYER, "scan", count, tokens * inner, reads=6.0, writes=2.0, instructions=8.0 * a.state)
        )
        state = run.batch.sequences * inner * a.state
        made.append(pointwise(LAYER, "state", count, state, reads=4.0, writes=4.0))
    made += linear(run, LAYER, "project the result", count, tokens, (hidden,), inner, stored)
    return made
