"""The kernels of feed-forward parts on one rank: dense ones, and experts with their router."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rooflab.model.serving.batch import Number
from rooflab.model.serving.kernels import HALF_BYTES, Kernel, collective, grouped, norm, pointwise, product
from rooflab.model.serving.mixers import linear
from rooflab.work.llm.architecture import Experts, Mlp
from rooflab.work.llm.formats import WeightFormat

if TYPE_CHECKING:
    from rooflab.model.serving.program import Run


def is_routed(feed: Mlp | Experts) -> bool:
    """Whether tokens choose experts."""
    return isinstance(feed, Experts)


def kernels(run: Run, feed: Mlp | Experts, count: float) -> list[Kernel]:
    """What one layer's feed-forward part runs, `count` times."""
    if isinstance(feed, Mlp):
        return _dense(run, "mlp", feed.inner, feed.gated, count, run.tokens, run.precision.linear)
    return _experts(run, feed, count)


def _dense(
    run: Run, layer: str, inner: int, gated: bool, count: float, tokens: Number, stored: WeightFormat
) -> list[Kernel]:
    hidden, mine = float(run.model.hidden), inner / run.layout.tensor
    made = linear(run, layer, "up", count, tokens, (mine,) * (1 + gated), hidden, stored, scaled=True)
    reads = 2.0 * (1 + gated)
    narrow = bool(stored.activations) and run.engine.joins_scaling
    made.append(pointwise(layer, "activate", count, tokens * mine, reads=reads, writes=1.0 if narrow else 2.0))
    return made + linear(run, layer, "down", count, tokens, (hidden,), mine, stored, scaled=True)


def _experts(run: Run, feed: Experts, count: float) -> list[Kernel]:
    layout, hidden = run.layout, float(run.model.hidden)
    tokens, layer = run.all_tokens, "experts"
    made: list[Kernel] = []
    mine = run.tokens
    made.append(product(layer, "route", count, mine, float(feed.count), hidden, run.precision.embedding))
    made.append(norm(layer, "choose", count, mine, float(feed.count), reads=2.0, writes=2.0, warm=2.0))
    if layout.data > 1:
        moved = tokens * hidden * HALF_BYTES
        made.append(
            collective("communication", "send tokens to experts", count, "all_gather", moved, layout.stage_ranks)
        )
        made.append(
            collective(
                "communication", "sum what experts give", count, "reduce_scatter", moved, layout.stage_ranks
            )
        )
    rows, active = load(feed, layout.experts, tokens)
    inner = feed.inner / layout.expert_tensor_ranks
    stored = run.precision.experts
    made.append(pointwise(layer, "sort", count, tokens * float(feed.chosen), reads=8.0, writes=8.0))
    narrow = bool(stored.activations)
    if narrow:
        made.append(norm(layer, "scale activations", count, tokens, hidden, reads=2.0, writes=1.0, warm=2.0))
    made.append(grouped(layer, "up", count, rows, (1 + feed.gated) * inner, hidden, active, stored))
    made.append(
        pointwise(
            layer, "activate", count, rows * inner, reads=2.0 * (1 + feed.gated), writes=1.0 if narrow else 2.0
        )
    )
    made.append(grouped(layer, "down", count, rows, hidden, inner, active, stored))
    made.append(
        norm(
            layer,
            "add up",
            count,
            tokens,
            hidden,
            reads=2.0 * max(feed.chosen / layout.experts, 1.0),
            writes=2.0,
            warm=2.0,
        )
    )
    if feed.shared:
        made += _dense(run, layer, feed.shared, feed.gated, count, mine, run.precision.linear)
    return made


def load(feed: Experts, ways: int, tokens: Number) -> tuple[Number, Number]:
    """Rows of the busiest rank of `ways`, and how many of its experts they meet, in the mean.

    Tokens choose as if at random: of R rows over w ranks the busiest has about R/w + √(2 ln w · R/w) (the largest
    of w binomial counts), and an expert is met with probability 1 − (1 − chosen/count)^tokens.
    """
    mean = tokens * feed.chosen / ways
    rows = (
        np.minimum(mean + np.sqrt(2.0 * np.log(ways) * mean), tokens * min(feed.chosen, feed.count / ways))
        if ways > 1
        else mean
    )
    here = feed.count / ways
    met = here * -np.expm1(tokens * np.log1p(-min(feed.chosen / feed.count, 1.0 - 1e-9)))
    return np.maximum(rows, 1.0), np.clip(met, 1.0, here)
