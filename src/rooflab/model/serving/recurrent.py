"""The kernels of linear attention, state-space layers and short convolutions on one rank."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rooflab.model.serving.kernels import Kernel, grouped
from rooflab.model.serving.projections import LAYER, linear
from rooflab.model.serving.row_kernels import norm, pointwise
from rooflab.work.llm.mixers import Delta, Lightning, ShortConv, StateSpace

if TYPE_CHECKING:
    from rooflab.model.serving.program import Run


def delta(run: Run, a: Delta, count: float) -> list[Kernel]:
    """Linear attention by the delta rule: a state of each head, a short convolution before it, a gate behind."""
    ways, hidden, tokens, stored = run.layout.tensor, float(run.model.hidden), run.tokens, run.precision.attention
    mixed, out = a.mixed / ways, a.value_heads * a.values / ways
    heads, low = a.value_heads / ways, float(2 * a.rank)
    # What decays and gate are made of is small: every rank makes all of it.
    given = (mixed + (low or out), heads + (0.0 if a.rank else a.decays / ways))
    made = linear(
        run,
        LAYER,
        "project to q, k, v, gate",
        count,
        tokens,
        given,
        hidden,
        stored,
        scaled=True,
    )
    made.append(
        pointwise(LAYER, "convolve", count, tokens * mixed, reads=2.0, writes=2.0, instructions=4.0 * a.taps)
    )
    if a.rank:
        made += linear(run, LAYER, "project to decays", count, tokens, (a.decays / ways,), float(a.rank), stored)
        made += linear(run, LAYER, "project to the gate", count, tokens, (out,), float(a.rank), stored)
        made.append(pointwise(LAYER, "decay", count, tokens * a.decays / ways, reads=2.0, writes=4.0))
    made += _recurrence(run, count, heads, a.size, a.values)
    made.append(
        norm(LAYER, "gate and normalise", count, tokens * heads, float(a.values), reads=4.0, writes=2.0, warm=4.0)
    )
    made += linear(run, LAYER, "project the result", count, tokens, (hidden,), out, stored)
    return made


def lightning(run: Run, a: Lightning, count: float) -> list[Kernel]:
    """Linear attention with fixed decays: no convolution before it, a norm over all heads and a gate behind."""
    ways, hidden, tokens, stored = run.layout.tensor, float(run.model.hidden), run.tokens, run.precision.attention
    heads, out = a.heads / ways, a.heads * a.size / ways
    made = linear(
        run, LAYER, "project to q, k, v, gate", count, tokens, (3 * out, out), hidden, stored, scaled=True
    )
    made.append(pointwise(LAYER, "activate q, k, v", count, tokens * 3 * out, reads=2.0, writes=2.0))
    made += _recurrence(run, count, heads, a.size, a.size)
    made.append(norm(LAYER, "normalise and gate", count, tokens, out, reads=4.0, writes=2.0, warm=4.0))
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


def state_space(run: Run, a: StateSpace, count: float) -> list[Kernel]:
    """A state-space layer: Mamba-2's where it has heads, else Mamba's scan of each channel."""
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
        name = "gate and normalise" if a.normed else "gate"
        made.append(norm(LAYER, name, count, tokens, inner, reads=4.0, writes=2.0, warm=4.0))
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


def short_conv(run: Run, a: ShortConv, count: float) -> list[Kernel]:
    """A convolution of few taps between two gates; what a sequence keeps are its last inputs."""
    ways, hidden, tokens, stored = run.layout.tensor, float(run.model.hidden), run.tokens, run.precision.attention
    width = a.width / ways
    made = linear(run, LAYER, "project to gates", count, tokens, (3 * width,), hidden, stored, scaled=True)
    # Three inputs and the result in 16 bits; a product, the taps, and the other gate's product.
    made.append(
        pointwise(LAYER, "convolve", count, tokens * width, reads=6.0, writes=2.0, instructions=4.0 * a.taps + 4.0)
    )
    kept = run.batch.sequences * width * (a.taps - 1)
    made.append(pointwise(LAYER, "state", count, kept, reads=2.0, writes=2.0))
    made += linear(run, LAYER, "project the result", count, tokens, (hidden,), width, stored)
    return made
