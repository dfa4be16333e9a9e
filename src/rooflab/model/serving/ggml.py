"""The kernels of llama.cpp's graph on one device: an operation each, activations in fp32 between them.

What is launched follows ggml-org/llama.cpp as of the end of 2025: src/llama-graph.cpp for the operations,
ggml-cuda/ggml-cuda.cu for those that become one kernel (norm and weights; of single tokens gate, up and
activation; bias and product; the choice of experts).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rooflab.model.parallel.layout import share
from rooflab.model.serving import beside
from rooflab.model.serving import kernels as made_by
from rooflab.model.serving.batch import Batch, Number
from rooflab.model.serving.ggml_products import ITEM_BYTES, linear, operation, pass_over, product
from rooflab.model.serving.kernels import Kernel
from rooflab.work.llm.architecture import Architecture, Experts, Mlp
from rooflab.work.llm.formats import WeightFormat
from rooflab.work.llm.mixers import Attention

if TYPE_CHECKING:
    from rooflab.model.engines.engine import Engine
    from rooflab.model.serving.program import Run

# Bytes that each score of a prompt moves without flash attention: the product's result, the mask and softmax, the
# second product; libraries of 16-bit products (CUDA's) convert it from and to fp32 besides.
_SCORE_BYTES, _SCORE_BYTES_LIBRARY = 16.0, 24.0
_SCORE_STARTS = 5.0


def joins(run: Run) -> bool:
    """Whether operations become one kernel, as the module says; Metal's run side by side, at about that gain."""
    return run.engine.joins_operations


def biased(run: Run, layer: str, count: float, elements: Number, number: float = 1.0) -> list[Kernel]:
    """Biases added to the results of `number` products: of one token products may add them."""
    if joins(run):
        elements = np.where(np.asarray(run.tokens) > 1, elements, 0.0)
    return [pass_over(layer, "add the bias", count * number, np.asarray(elements) / number)]


def normalised(run: Run, count: float) -> list[Kernel]:
    """Adding the residual, and the norm with its weights."""
    elements = run.tokens * float(run.model.hidden)
    return [pass_over("norm", "add", count, elements, 2.0), pass_over("norm", "normalise", count, elements)]


def attention(run: Run, a: Attention, count: float) -> list[Kernel]:
    """An attention layer but for its norm."""
    hidden, tokens, stored = float(run.model.hidden), run.tokens, run.precision.attention
    heads, kv_heads = share(a.heads, run.layout.tensor), share(a.kv_heads, run.layout.tensor)
    q, k, v = heads * a.size, kv_heads * a.size, kv_heads * a.values
    layer = "attention"
    widths = (q + heads * a.gate, *a.kv_parts(kv_heads))
    made = linear(run, layer, "project to q, k, v", count, tokens, widths, hidden, stored)
    parts = (("q", q),) if a.borrows else (("q", q), ("k", k))
    if a.bias:
        three = (q,) if a.borrows else (q, k, v)
        made += biased(run, layer, count, tokens * sum(three), float(len(three)))
    if a.qk_norm:
        made += [pass_over(layer, f"normalise {name}", count, tokens * n) for name, n in parts]
    if a.rotates:
        made += [pass_over(layer, f"positions of {name}", count, tokens * n) for name, n in parts]
    item = run.precision.cache_bytes
    if not a.borrows:
        read, written = tokens * (k + v) * ITEM_BYTES, tokens * (k + v) * item
        starts = 1.0 if a.rotates and joins(run) else 2.0  # keys are written with their positions
        made.append(operation(layer, "write the cache", count, reads=read, writes=written, starts=starts))
    made += _attend(run, a, count, heads, kv_heads)
    if a.gate:
        made.append(pass_over(layer, "gate the result", count, tokens * q, 2.0))
    made += linear(run, layer, "project the result", count, tokens, (hidden,), float(heads * a.values), stored)
    return made + (biased(run, layer, count, tokens * hidden) if a.out_bias else [])


_MICRO_BATCH = 512.0  # llama.cpp's --ubatch-size: tokens of a prompt that are computed at a time


def _kept_keys(window: int, new: Number) -> int:
    """Keys that a query of a prompt meets in a layer with a window; 0 for all.

    The cache holds the window and a micro-batch; the kernel skips keys to come, not those before the window.
    """
    longest = float(np.max(new, initial=1.0))
    return round(window + min(longest, _MICRO_BATCH) / 2.0) if window else 0


def _attend(run: Run, a: Attention, count: float, heads: float, kv_heads: float) -> list[Kernel]:
    batch, item, layer = run.batch, run.precision.cache_bytes, "attention"
    keys = np.asarray(batch.decode_context, float)
    keys = np.minimum(keys, a.window) if a.window else keys
    single = np.asarray(batch.decode_sequences * batch.decode_tokens, float)
    kv = batch.decode_sequences * kv_heads * keys * (a.size + a.values) * item
    q = single * heads * a.size * ITEM_BYTES
    scores = single * heads * keys * ITEM_BYTES
    fused = run.engine.flash_attention
    made = [
        operation(
            layer, "attend (one token each)", count,
            reads=kv + q + (0.0 if fused else 3.0 * scores), writes=q + (0.0 if fused else 2.0 * scores),
            warm=q + (0.0 if fused else 3.0 * scores), starts=2.0 if fused else 4.0,
        )
    ]  # fmt: skip
    prompts = made_by.attention(
        layer,
        "attend (prompts)",
        count,
        **batch.prompts,
        heads=heads,
        kv_heads=kv_heads,
        size=a.size,
        values=a.values,
        window=_kept_keys(a.window, batch.prefill_tokens) if fused else a.window,
        cached_bytes=item,
        causal=a.causal,
    )
    if fused:
        return [*made, prompts]
    # Without it every score is made, those of keys to come as well.
    pairs = batch.prefill_sequences * batch.prefill_tokens * (batch.prefill_context + batch.prefill_tokens) * heads
    each = _SCORE_BYTES if run.family == "apple" else _SCORE_BYTES_LIBRARY
    made.append(
        operation(
            layer, "scores and softmax (prompts)", count,
            reads=prompts.read_bytes + pairs * each / 2.0, writes=prompts.write_bytes + pairs * each / 2.0,
            starts=_SCORE_STARTS, flop=2.0 * pairs * (a.size + a.values), dtype="fp16",
        )
    )  # fmt: skip
    return made


def dense(run: Run, layer: str, feed: Mlp, count: float) -> list[Kernel]:
    """A feed-forward part: of few tokens gate, up and activation are one kernel."""
    hidden, mine, stored = float(run.model.hidden), feed.inner / run.layout.tensor, run.precision.linear
    tokens = np.asarray(run.tokens, float)
    made = _gated(run, layer, count, tokens, tokens, mine, hidden, stored, feed.gated)
    if feed.bias:
        made += biased(run, layer, count, tokens * (mine * (1 + feed.gated) + hidden), 2.0 + feed.gated)
    made += beside.adapters(run, layer, "up", count, tokens, (mine,) * (1 + feed.gated), hidden)
    return made + linear(run, layer, "down", count, tokens, (hidden,), mine, stored)


def _gated(
    run: Run, layer: str, count: float, tokens: np.ndarray, rows: Number, inner: float, hidden: float,
    stored: WeightFormat, gated: bool, active: Number = 1.0, chosen: float = 1.0,
) -> list[Kernel]:  # fmt: skip
    """Up, gate and activation: of one token one kernel, where the engine joins them."""
    rows = np.asarray(rows, float)
    one = np.where((tokens <= 1) & joins(run) & gated, rows, 0.0)
    rest = rows - one
    made: list[Kernel] = []
    if gated:
        made += product(run, layer, "up and gate", count, one, inner, hidden, stored, active, chosen, beside=1.0)
        made += product(run, layer, "gate", count, rest, inner, hidden, stored, active, chosen)
    made += product(run, layer, "up", count, rest, inner, hidden, stored, active, chosen)
    return [*made, pass_over(layer, "activate", count, rest * inner, 1.0 + gated)]


# A turn of mm_ids_helper (ggml-cuda/mmid.cu): a load that the last cache answers, a chain of shuffles in a warp
# that looks at 32 choices; each expert's warp goes through all of them, before each product.
_SORTING_CLOCKS, _CHOICES = 700.0, 32.0


def _sorted(layer: str, count: float, tokens: Number, chosen: float, products: float) -> Kernel:
    """Which tokens each expert has, found before each of so many products."""
    beside = 2.0 ** np.ceil(np.log2(chosen))  # lanes of a token
    return operation(
        layer,
        "sort",
        count * products,
        reads=tokens * chosen * ITEM_BYTES,
        writes=tokens * chosen * 2.0 * ITEM_BYTES,
        clocks=tokens * beside / _CHOICES * _SORTING_CLOCKS,
    )


def experts(run: Run, feed: Experts, count: float, rows: Number, active: Number) -> list[Kernel]:
    """Routed experts of which `rows` rows meet `active`, and what is shared."""
    layer, hidden, tokens = "experts", float(run.model.hidden), np.asarray(run.tokens, float)
    stored, inner = run.precision.experts, feed.inner / run.layout.expert_tensor_ranks
    chosen, own, linear = float(feed.chosen), float(feed.width) or hidden, run.precision.linear
    made = product(run, layer, "route", count, tokens, float(feed.scored), hidden, run.precision.embedding)
    made.append(pass_over(layer, "choose", count, tokens * feed.scored))
    if not joins(run):
        made.append(pass_over(layer, "softmax and weights of those chosen", count * 2.0, tokens * chosen))
    made.append(_sorted(layer, count, np.where(tokens > 1, tokens, 0.0), chosen, 2.0 + feed.gated))
    if feed.width:
        made += product(run, layer, "to the experts' size", count, tokens, own, hidden, linear)
    made += _gated(run, layer, count, tokens, rows, inner, own, stored, feed.gated, active=active, chosen=chosen)
    if feed.bias:
        made += biased(run, layer, count, rows * (inner * (1 + feed.gated) + own), 2.0 + feed.gated)
    made += product(run, layer, "down", count, rows, own, inner, stored, active=active, chosen=chosen)
    made.append(pass_over(layer, "weigh", count, rows * own))
    adds = 1.0 if joins(run) else max(chosen - 1.0, 1.0)
    made.append(pass_over(layer, "add up", count * adds, tokens * own, 1.0 + chosen / adds))
    if feed.width:
        made += product(run, layer, "to the hidden size", count, tokens, hidden, own, linear)
    if feed.shared:
        made += dense(run, layer, Mlp(feed.shared, feed.gated), count)
    return made


def host_s(model: Architecture, engine: Engine, batch: Batch) -> Number:
    """What a host of ggml does while the device waits: masks of prompts, in older ones experts' tokens sorted."""
    new, tokens = batch.prefill_tokens, np.asarray(batch.new_tokens, float)
    windows = {getattr(block.mixer, "window", 0) for block in model.blocks if block.mixer is not None}
    pairs = batch.prefill_sequences * new * (batch.prefill_context + new)
    total = engine.mask_s * pairs * len(windows)
    for block in model.blocks:
        if isinstance(block.feed, Experts) and engine.sorting_s:
            choices = np.where(tokens > 1, tokens, 0.0) * block.feed.chosen * block.feed.count
            total = total + engine.sorting_s * choices * block.count * (2.0 + block.feed.gated)
    return total
