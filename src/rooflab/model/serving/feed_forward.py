"""The kernels of feed-forward parts on one rank: dense ones, and experts with their router."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rooflab.model.engines.engine import Engine
from rooflab.model.kernels.gpu.matmul import ALIGNED_BYTES
from rooflab.model.serving import ggml
from rooflab.model.serving.batch import Number
from rooflab.model.serving.kernels import HALF_BYTES, Kernel, collective, grouped, product
from rooflab.model.serving.projections import linear
from rooflab.model.serving.row_kernels import norm, pointwise
from rooflab.work.llm.architecture import Experts, Mlp
from rooflab.work.llm.formats import WeightFormat

if TYPE_CHECKING:
    from rooflab.model.serving.program import Run


def is_routed(feed: Mlp | Experts) -> bool:
    """Whether tokens choose experts."""
    return isinstance(feed, Experts)


def kernels(run: Run, feed: Mlp | Experts, count: float) -> list[Kernel]:
    """What one layer's feed-forward part runs, `count` times."""
    if run.engine.one_by_one:
        if isinstance(feed, Mlp):
            return ggml.dense(run, "mlp", feed, count)
        exchanged = _exchanged(run, feed, count) if run.layout.stage_ranks > run.layout.tensor else []
        return exchanged + ggml.experts(
            run, feed, count, *load(feed, run.layout.experts, run.all_tokens, run.extras.imbalance)
        )
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
    if run.engine.eager and gated:
        made.append(pointwise(layer, "activate", count, tokens * mine, reads=2.0, writes=2.0))
        made.append(pointwise(layer, "times the gate", count, tokens * mine, reads=4.0, writes=2.0))
    else:
        made.append(pointwise(layer, "activate", count, tokens * mine, reads=reads, writes=1.0 if narrow else 2.0))
    return made + linear(run, layer, "down", count, tokens, (hidden,), mine, stored, scaled=True)


def _experts(run: Run, feed: Experts, count: float) -> list[Kernel]:
    layout, hidden = run.layout, float(run.model.hidden)
    tokens, layer = run.all_tokens, "experts"
    made: list[Kernel] = []
    mine = run.tokens
    made.append(product(layer, "route", count, mine, float(feed.scored), hidden, run.precision.embedding))
    own = float(feed.width) or hidden
    if feed.width:
        made += linear(run, layer, "to the experts' size", count, mine, (own,), hidden, run.precision.linear)
    if layout.stage_ranks > layout.tensor:
        made += _exchanged(run, feed, count)
    rows, active = load(feed, layout.experts, tokens, run.extras.imbalance)
    library = run.engine.experts_kernel(run.family, run.precision.experts)
    routed = Routed(
        tokens=tokens,
        rows=rows,
        active=active,
        chosen=float(feed.chosen),
        experts=float(feed.count),
        hidden=own,
        inner=feed.inner / layout.expert_tensor_ranks,
        ways=float(layout.experts),
        all_rows=library.startswith("triton"),
        library=library,
    )
    made += expert_kernels(run.engine, run.precision.experts, routed, count, gated=feed.gated)
    if feed.width:
        made += linear(run, layer, "to the hidden size", count, mine, (hidden,), own, run.precision.linear)
    if feed.shared:
        made += _dense(run, layer, feed.shared, feed.gated, count, mine, run.precision.linear)
    return made


def _exchanged(run: Run, feed: Experts, count: float) -> list[Kernel]:
    """Tokens sent to the ranks of their experts and back.

    Every rank gets all tokens and keeps what its experts are chosen for, or, where there are more ranks than
    experts chosen, each token goes to those alone (DeepEP, dispatch in fp8 where experts multiply narrow formats).
    """
    ranks, hidden = run.layout.stage_ranks, float(feed.width or run.model.hidden)
    if ranks <= feed.chosen:
        moved = run.all_tokens * hidden * HALF_BYTES
        there, back = ("all_gather", moved), ("reduce_scatter", moved)
    else:
        sent = run.tokens * feed.chosen * hidden
        there = ("all_to_all", sent * (1.0 if run.precision.experts.activations else HALF_BYTES))
        back = ("all_to_all", sent * HALF_BYTES)
    names = ("send tokens to experts", "sum what experts give")
    return [
        collective("communication", name, count, function, moved, ranks)
        for name, (function, moved) in zip(names, (there, back), strict=True)
    ]


class Routed(NamedTuple):
    """What reaches the experts of one rank: tokens that all ranks share, rows here, experts that get any.

    Attributes:
        chosen, experts: experts that a token meets, of how many.
        hidden, inner: sizes; `inner` of one rank's share of an expert.
        ways: ranks among which experts are divided.
        all_rows: whether the kernels between and after the products pass over the rows of all ranks' experts, and
            the products write zeros for those of others (Triton's; vllm-project/vllm, fused_moe.py).
        library: whose products they are (`model.kernels.gpu.matmul.KERNELS`).
        tile_rows: rows of the products' tiles where a configuration says them; 0 where it does not.
        uneven: how uneven the experts' rows are; see `serving.kernels.grouped`.
    """

    tokens: Number
    rows: Number
    active: Number
    chosen: Number
    experts: Number
    hidden: Number
    inner: Number
    ways: Number
    all_rows: bool = False
    library: str = ""
    tile_rows: Number = 0.0
    uneven: Number = 1.0


def expert_kernels(engine: Engine, stored: WeightFormat, x: Routed, count: float, *, gated: bool) -> list[Kernel]:
    """A layer of routed experts after the router's product: choice, sorting, two grouped products, the sum."""
    layer = "experts"
    made = [
        norm(layer, "choose", count, x.tokens, x.experts, reads=2.0, writes=2.0, warm=2.0),
        pointwise(layer, "sort", count, x.tokens * x.chosen, reads=8.0, writes=8.0),
    ]
    if stored.name == "mxfp4" and engine.sorting_kernels:
        each = count * engine.sorting_kernels
        made.append(pointwise(layer, "count and place", each, x.tokens * x.chosen, reads=8.0, writes=8.0))
    narrow, block = bool(stored.activations), stored.activations == "block"
    copied, scaled = x.library in _COPIES, x.tokens
    if copied and block:  # rows are copied before they are scaled
        made.append(pointwise(layer, "copy rows", count, x.rows * x.hidden, reads=2.0, writes=2.0))
        scaled = x.rows
    if block:  # a block's scale is found and used in the registers of a warp
        made.append(pointwise(layer, "scale activations", count, scaled * x.hidden, reads=2.0, writes=1.0))
    elif narrow:
        made.append(norm(layer, "scale activations", count, x.tokens, x.hidden, reads=2.0, writes=1.0, warm=2.0))
    if copied and not block:
        item = 1.0 if narrow else 2.0
        made.append(pointwise(layer, "copy rows", count, x.rows * x.hidden, reads=item, writes=item))
    up = (1.0 + gated) * x.inner
    made += _groups(engine, "up", count, x, up, x.hidden, stored)
    writes = 1.0 if narrow else 2.0
    passed = x.tokens * x.chosen if x.all_rows else x.rows
    if x.all_rows:
        zeros = np.maximum(passed - x.rows, 0.0) * (up + x.hidden)
        made.append(pointwise(layer, "zeros", count, zeros, reads=0.0, writes=2.0))
    if x.library not in _ACTIVATES:
        joined = not (copied and block)  # else scaled by a kernel of its own
        into = writes if joined else 2.0
        made.append(pointwise(layer, "activate", count, passed * x.inner, reads=2.0 * (1 + gated), writes=into))
        if not joined:
            made.append(pointwise(layer, "scale activated", count, passed * x.inner, reads=2.0, writes=1.0))
    made += _groups(engine, "down", count, x, x.hidden, x.inner, stored)
    # Rows of experts elsewhere are not read; the kernels that know of all rows read zeros.
    reads = 2.0 * (x.chosen if x.all_rows else x.rows / np.where(x.tokens > 0, x.tokens, 1.0))
    made.append(norm(layer, "add up", count, x.tokens, x.hidden, reads=reads, writes=2.0, warm=2.0))
    return made


def _groups(
    engine: Engine, name: str, count: float, x: Routed, n: Number, k: Number, stored: WeightFormat
) -> list[Kernel]:
    """The product of each expert with its rows."""
    return [
        grouped(
            "experts", name, count, x.rows, n, k, x.active, stored, share=engine.experts_share(stored),
            library=x.library, tile_rows=tile_rows(x, stored), uneven=x.uneven,
            aligned_bytes=_known_bytes(x, k, stored),
        )
    ]  # fmt: skip


# Triton compiles a kernel for strides that are multiples of 16 elements and one for all others, which it knows
# nothing of (triton-lang/triton, runtime/jit.py: arguments divisible by 16 are specialised).
_KNOWN_ELEMENTS = 16


def _known_bytes(x: Routed, k: Number, stored: WeightFormat) -> Number:
    """What the products know rows to begin at multiples of: Triton's of any stride load element by element."""
    if not x.library.startswith("triton") or stored.name not in ("bf16", "fp16"):
        return ALIGNED_BYTES
    return np.where(np.asarray(k) % _KNOWN_ELEMENTS == 0, float(ALIGNED_BYTES), stored.nbytes)


# Products whose rows are copied expert by expert before, each as often as it is chosen; others fetch them from
# where they are (NVIDIA/TensorRT-LLM, moe_gemm/moe_kernels.cu: expandInputRowsKernel; the runner of
# block scales brings the copies to 8 bits itself).
_COPIES = ("cutlass_groups", "flashinfer_groups", "flashinfer_fp8_groups", "block_groups")

# Products that activate their results themselves before they store them.
_ACTIVATES = ("trtllm_gen_groups",)


def tile_rows(x: Routed, stored: WeightFormat) -> Number:
    """Rows of the products' tiles where the engine chooses them; 0 where the library does.

    TensorRT-LLM's generated kernels pad each expert's rows to tiles of the next power of two of what an expert of
    this rank would get if it got all rows, 8 to 256, to 64 with activations of 16 bits (NVIDIA/TensorRT-LLM,
    thop/mxFp4BlockScaleMoe.cpp: the tokens of all ranks over the experts of one). Triton's products that nobody
    tuned have tiles of 16 rows up to as many tokens as experts, else of 64 (vllm-project/vllm, fused_moe.py).
    """
    if x.library == "triton_default_groups":
        return np.where(x.tokens <= x.experts / x.ways, 16.0, 64.0)
    if x.library != "trtllm_gen_groups":
        return x.tile_rows
    guessed = x.tokens * x.chosen * x.ways / x.experts
    return np.clip(2.0 ** np.ceil(np.log2(np.maximum(guessed, 1e-9))), 8.0, 256.0 if stored.activations else 64.0)


def load(feed: Experts, ways: int, tokens: Number, imbalance: float | None = None) -> tuple[Number, Number]:
    """Rows of the busiest rank of `ways`, and how many of its experts they meet, in the mean.

    Tokens choose as if at random: of R rows over w ranks the busiest has about R/w + √(2 ln w · R/w) (the
    largest of w binomial counts), and an expert is met with probability 1 − (1 − chosen/count)^tokens, of the
    tokens that do not choose as others do. With `imbalance` the busiest has that many times R/w.
    """
    mean = tokens * feed.chosen / ways
    rows = mean
    if ways > 1:
        busiest = mean + np.sqrt(2.0 * np.log(ways) * mean) if imbalance is None else imbalance * mean
        rows = np.minimum(busiest, tokens * min(feed.chosen, feed.count / ways))
    here = feed.count / ways
    # The first token has nobody to choose as.
    alone = np.minimum(tokens, 1.0) + np.maximum(tokens - 1.0, 0.0) * (1.0 - feed.repeated)
    met = here * -np.expm1(alone * np.log1p(-min(feed.chosen / feed.count, 1.0 - 1e-9)))
    some = np.where(tokens > 0, 1.0, 0.0)  # without a token no row, no expert
    return np.maximum(rows, some), np.clip(met, some, here)
