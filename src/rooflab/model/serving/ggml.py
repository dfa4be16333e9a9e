"""The kernels of llama.cpp's graph on one device: an operation each, activations in fp32 between them.

What is launched follows ggml-org/llama.cpp as of the end of 2025: src/llama-graph.cpp for the operations,
ggml-cuda/ggml-cuda.cu for those that become one kernel (norm and weights; of single tokens gate, up and
activation; bias and product; the choice of experts).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from rooflab.model.parallel.layout import share
from rooflab.model.serving import beside
from rooflab.model.serving import kernels as made_by
from rooflab.model.serving.batch import Number
from rooflab.model.serving.kernels import Kernel
from rooflab.work.llm.architecture import Attention, Experts, Mlp
from rooflab.work.llm.formats import WeightFormat

if TYPE_CHECKING:
    from rooflab.model.serving.program import Run

_ITEM = 4.0  # bytes of an activation
_Q8 = 1.125  # bytes of an activation in blocks of 32 numbers of 8 bits with a scale and a sum (block_q8_1)
_BLOCK = 32.0  # numbers that share a scale
# Bytes that each score of a prompt moves without flash attention: the product's result, the mask and softmax, the
# second product; libraries of 16-bit products (CUDA's) convert it from and to fp32 besides.
_SCORE_BYTES, _SCORE_BYTES_LIBRARY = 16.0, 24.0
_SCORE_STARTS = 5.0


def operation(
    layer: str,
    name: str,
    count: float,
    *,
    reads: Number,
    writes: Number,
    warm: Number | None = None,
    weights: Number = 0.0,
    starts: Number = 1.0,
    flop: Number = 0.0,
    dtype: str = "fp32",
    scalings: Number = 0.0,
    blocks: Number = 0.0,
    unpacks: Number = 0.0,
    dots: Number = 0.0,
    sums: Number = 0.0,
) -> Kernel:
    """One of ggml's operations: bytes, of them warm ones (all, where not given) and weights; how many kernels.

    `scalings` are sums of a block of products that ordinary lanes scale; `blocks` is 1 where operands are blocks.
    On a CPU: `unpacks` are instructions that widen weights, `dots` products of 32 numbers, `sums` vectors of such
    products' sums that are scaled.
    """
    return Kernel(
        layer=layer,
        name=name,
        sort="ggml",
        count=count,
        columns={
            "starts": starts,
            "scalings": scalings,
            "blocks": blocks,
            "unpacks": unpacks,
            "dots": dots,
            "sums": sums,
        },
        read_bytes=reads,
        write_bytes=writes,
        warm_bytes=reads if warm is None else warm,
        weight_bytes=weights,
        flop=flop,
        dtype=dtype,
    )


def joins(run: Run) -> bool:
    """Whether operations become one kernel, as the module says; Metal's run side by side, at about that gain."""
    return run.engine.joins_operations


def biased(run: Run, layer: str, count: float, elements: Number, number: float = 1.0) -> list[Kernel]:
    """Biases added to the results of `number` products: of one token products may add them."""
    if joins(run):
        elements = np.where(np.asarray(run.tokens) > 1, elements, 0.0)
    return [pass_over(layer, "add the bias", count * number, np.asarray(elements) / number)]


def is_blocks(stored: WeightFormat) -> bool:
    """Whether weights are blocks of GGUF, which meet activations in blocks of 8 bits."""
    return stored.bits < 16 and (stored.activations == "block" or stored.name == "mxfp4")


def pass_over(
    layer: str, name: str, count: float, elements: Number, reads: float = 1.0, writes: float = 1.0
) -> Kernel:
    """An operation over elements: so many operands read and written."""
    return operation(layer, name, count, reads=elements * reads * _ITEM, writes=elements * writes * _ITEM)


def product(
    run: Run,
    layer: str,
    name: str,
    count: float,
    rows: Number,
    n: float,
    k: float,
    stored: WeightFormat,
    active: Number = 1.0,
    chosen: float = 1.0,
    *,
    beside: float = 0.0,
) -> list[Kernel]:
    """`rows` rows of k numbers times one of `active` matrices of k x n weights each; `beside` more matrices fused.

    Of rows of `chosen` experts each the bound of few is that many times higher.
    """
    rows = np.asarray(rows, float)
    few = np.where(rows <= run.engine.stream_rows * chosen, rows, 0.0)
    some, many = np.where(few > 0, 1.0, 0.0), rows - few
    into = rows * k
    made = []
    if is_blocks(stored):
        made.append(operation(layer, "to blocks", count, reads=into * _ITEM, writes=into * _Q8))
    item = _Q8 if is_blocks(stored) else _ITEM
    weights = n * k * active * stored.nbytes * (1.0 + beside)
    made.append(
        operation(
            layer, name, count,
            reads=some * weights + few * k * item, writes=few * n * _ITEM, warm=few * k * item,
            weights=some * weights, flop=2.0 * few * n * k * (1.0 + beside),
            dtype="int8" if is_blocks(stored) else stored.multiplies,
            **_on_cores(run, few * (1.0 + beside), n, k, stored),
        )
    )  # fmt: skip
    if not beside:
        made += _many(run, layer, name, count, many, n, k, stored, active)
    return made


def _many(
    run: Run,
    layer: str,
    name: str,
    count: float,
    rows: np.ndarray,
    n: float,
    k: float,
    stored: WeightFormat,
    active: Number,
) -> list[Kernel]:
    some = np.where(rows > 0, 1.0, 0.0)
    weights = some * n * k * active * stored.nbytes
    if not is_blocks(stored):
        if run.family in ("apple", "cpu"):  # their kernels read fp32 and multiply 16 bits
            reads, out = weights + rows * k * _ITEM, rows * n * _ITEM
            warm, flop = rows * k * _ITEM, 2.0 * rows * n * k
            return [
                operation(
                    layer,
                    name,
                    count,
                    reads=reads,
                    writes=out,
                    warm=warm,
                    weights=weights,
                    flop=flop,
                    dtype="fp16",
                    **_on_cores(run, rows, n, k, stored),
                )
            ]
        halves = operation(layer, "to 16 bits", count, reads=rows * k * _ITEM, writes=rows * k * 2.0)
        if np.any(np.asarray(active) > 1):
            return [halves, made_by.grouped(layer, name, count, rows, n, k, active, stored)]
        return [halves, made_by.product(layer, name, count, rows, n, k, stored, out_bytes=_ITEM)]
    # Tiles have up to 128 rows; half of the last one of each expert's is empty.
    mean = rows / np.maximum(active, 1.0)
    padded = np.where(np.asarray(active) > 1, rows + active * 64.0 * -np.expm1(-mean / 128.0), rows)
    return [
        operation(
            layer, name, count,
            reads=weights + rows * k * _Q8, writes=rows * n * _ITEM, warm=rows * k * _Q8, weights=weights,
            starts=2.0, flop=2.0 * padded * n * k, dtype="int8",
            scalings=padded * n * k / _BLOCK * _scales(stored), blocks=1.0, **_on_cores(run, rows, n, k, stored),
        )
    ]  # fmt: skip


# Vector instructions of 32 bytes that widen 32 weights to 8 bits (16-bit weights: to fp32, four at a time): loads,
# masks, shifts, high bits, and for iq formats entries of their tables and signs; counted in
# ggml/src/ggml-cpu/arch/x86/quants.c of ggml-org/llama.cpp.
_UNPACK = {
    "q8_0": 1.0, "q4_0": 5.0, "q4_1": 4.0, "iq4_nl": 6.0, "iq4_xs": 6.0, "q5_0": 10.0, "q5_1": 10.0, "q4_k": 5.0,
    "q5_k": 7.0, "q6_k": 8.0, "q3_k": 9.0, "q2_k": 5.0, "iq3": 24.0, "iq2": 18.0, "iq1": 14.0, "mxfp4": 6.0,
}  # fmt: skip
_HALVES = 8.0
# Formats that llama.cpp lays out anew for several rows at a time (ggml-cpu/repack.cpp).
_REPACKED, _REPACKED_ROWS = ("q4_0", "iq4_nl", "q4_k"), 4.0
_SUMS_OF_A_VECTOR = 4.0


def _on_cores(run: Run, rows: Number, n: float, k: float, stored: WeightFormat) -> dict[str, Number]:
    """Instructions of a product on a CPU: weights are widened for each row anew, or once for several."""
    rows = np.asarray(rows, float)
    each = next((count for name, count in _UNPACK.items() if stored.name.startswith(name)), _HALVES)
    repacked = stored.name.startswith(_REPACKED)
    together = max(run.engine.unpack_rows, _REPACKED_ROWS if repacked else 1.0)
    times = np.where(rows > 0, np.maximum(rows / together, 1.0), 0.0)
    dots = rows * n * k / _BLOCK
    # Sums of four blocks or rows lie side by side in one vector where the layout or the program has it so.
    beside = _SUMS_OF_A_VECTOR if repacked or run.engine.unpack_rows > 1 else 1.0
    return {"unpacks": times * n * k / _BLOCK * each, "dots": dots, "sums": dots / beside * is_blocks(stored)}


def _scales(stored: WeightFormat) -> float:
    """Scalings of a block of 32: two where scales are of 16 weights, half a one more with a least value added."""
    name = stored.name
    if name.startswith(("q6_k", "q3_k", "q2_k", "iq2", "iq1_m")):
        return 2.0
    return 1.5 if name.startswith(("q4_1", "q5_1", "q4_k", "q5_k")) else 1.0


def linear(
    run: Run,
    layer: str,
    name: str,
    count: float,
    rows: Number,
    widths: Sequence[float],
    k: float,
    stored: WeightFormat,
) -> list[Kernel]:
    """Products of the same rows with several matrices, each by itself, and their adapters."""
    made = [each for n in widths if n for each in product(run, layer, name, count, rows, float(n), k, stored)]
    return made + beside.adapters(run, layer, name, count, rows, [float(each) for each in widths], k)


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
    made = linear(run, layer, "project to q, k, v", count, tokens, (q * (1 + a.gate), k, v), hidden, stored)
    if a.bias:
        made += biased(run, layer, count, tokens * (q + k + v), 3.0)
    if a.qk_norm:
        made += [pass_over(layer, f"normalise {name}", count, tokens * n) for name, n in (("q", q), ("k", k))]
    if a.rotates:
        made += [pass_over(layer, f"positions of {name}", count, tokens * n) for name, n in (("q", q), ("k", k))]
    item = run.precision.cache_bytes
    cached = tokens * (k + v)
    starts = 1.0 if a.rotates and joins(run) else 2.0  # keys are written with their positions
    made.append(
        operation(layer, "write the cache", count, reads=cached * _ITEM, writes=cached * item, starts=starts)
    )
    made += _attend(run, a, count, heads, kv_heads)
    if a.gate:
        made.append(pass_over(layer, "gate the result", count, tokens * q, 2.0))
    made += linear(run, layer, "project the result", count, tokens, (hidden,), float(heads * a.values), stored)
    return made + (biased(run, layer, count, tokens * hidden) if a.out_bias else [])


def _attend(run: Run, a: Attention, count: float, heads: float, kv_heads: float) -> list[Kernel]:
    batch, item, layer = run.batch, run.precision.cache_bytes, "attention"
    keys = np.asarray(batch.decode_context, float)
    keys = np.minimum(keys, a.window) if a.window else keys
    single = np.asarray(batch.decode_sequences * batch.decode_tokens, float)
    kv = batch.decode_sequences * kv_heads * keys * (a.size + a.values) * item
    q = single * heads * a.size * _ITEM
    scores = single * heads * keys * _ITEM
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
        sequences=batch.prefill_sequences,
        new=batch.prefill_tokens,
        before=batch.prefill_context,
        heads=heads,
        kv_heads=kv_heads,
        size=a.size,
        values=a.values,
        window=a.window,
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


def experts(run: Run, feed: Experts, count: float, rows: Number, active: Number) -> list[Kernel]:
    """Routed experts of which `rows` rows meet `active`, and what is shared."""
    layer, hidden, tokens = "experts", float(run.model.hidden), np.asarray(run.tokens, float)
    stored, inner = run.precision.experts, feed.inner / run.layout.expert_tensor_ranks
    chosen = float(feed.chosen)
    made = product(run, layer, "route", count, tokens, float(feed.count), hidden, run.precision.embedding)
    made.append(pass_over(layer, "choose", count, tokens * feed.count))
    if not joins(run):
        made.append(pass_over(layer, "softmax and weights of those chosen", count * 2.0, tokens * chosen))
    made.append(pass_over(layer, "sort", count, np.where(tokens > 1, tokens * chosen, 0.0)))
    made += _gated(
        run, layer, count, tokens, rows, inner, hidden, stored, feed.gated, active=active, chosen=chosen
    )
    if feed.bias:
        made += biased(run, layer, count, rows * (inner * (1 + feed.gated) + hidden), 2.0 + feed.gated)
    made += product(run, layer, "down", count, rows, hidden, inner, stored, active=active, chosen=chosen)
    made.append(pass_over(layer, "weigh", count, rows * hidden))
    adds = 1.0 if joins(run) else max(chosen - 1.0, 1.0)
    made.append(pass_over(layer, "add up", count * adds, tokens * hidden, 1.0 + chosen / adds))
    if feed.shared:
        made += dense(run, layer, Mlp(feed.shared, feed.gated), count)
    return made
