"""Which kernels one step runs on one rank: each block of a model, as an engine and a layout make it."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from rooflab.model.engines.engine import Engine
from rooflab.model.parallel.layout import Layout
from rooflab.model.serving import attention, beside, feed_forward, ggml, mixers, projections
from rooflab.model.serving.batch import Batch, Number
from rooflab.model.serving.extras import NONE, Extras
from rooflab.model.serving.kernels import HALF_BYTES, Kernel, collective
from rooflab.model.serving.row_kernels import lookup, norm, pointwise
from rooflab.work.llm.architecture import Architecture, Block
from rooflab.work.llm.precision import Precision


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What the kernels of a step depend on.

    Attributes:
        batch: sequences of the fullest group of ranks that takes sequences of its own.
        tokens: new tokens of that group; `all_tokens` of all groups, which experts share.
        family: of the card, by which engines choose libraries; "" where it does not matter.
        extras: what is served beside; `prompt` are tokens of a whole prompt that are not cached.
    """

    model: Architecture
    layout: Layout
    engine: Engine
    precision: Precision
    batch: Batch
    tokens: Number
    all_tokens: Number
    family: str = ""
    extras: Extras = NONE
    prompt: Number = 1.0


def of_one_group(batch: Batch, layout: Layout) -> Batch:
    """What of it the fullest group of ranks has that takes sequences of its own.

    A prompt is all one group's: of fewer prompts than groups some have one, and the step lasts as long as theirs.
    """
    if layout.data == 1:
        return batch
    prompts = np.asarray(batch.prefill_sequences)
    return batch._replace(
        prefill_sequences=np.maximum(prompts / layout.data, np.minimum(prompts, 1.0)),
        decode_sequences=np.ceil(batch.decode_sequences / layout.data),
    )


def run_of(
    model: Architecture,
    layout: Layout,
    engine: Engine,
    precision: Precision,
    batch: Batch,
    family: str = "",
    extras: Extras | None = None,
    prompt: float = 1.0,
) -> Run:
    """`batch`, of all ranks of a copy of the model, divided over the groups that take sequences of their own."""
    mine = of_one_group(batch, layout)
    if layout.context > 1:
        # Each rank takes its part of the new tokens of a prompt, some early and some late ones, so that in the
        # mean they see as many keys as all do: before + (all + 1) / 2. Of a sequence that decodes it holds a part
        # of the keys; what the parts give is put together.
        part = mine.prefill_tokens / layout.context
        mine = mine._replace(
            prefill_tokens=part,
            prefill_context=mine.prefill_context + (mine.prefill_tokens - part) / 2.0,
            decode_context=mine.decode_context / layout.context,
        )
    return Run(
        model=model,
        layout=layout,
        engine=engine,
        precision=precision,
        batch=mine,
        tokens=mine.new_tokens,
        all_tokens=np.maximum(batch.new_tokens, mine.new_tokens),
        family=family,
        extras=extras or NONE,
        prompt=prompt,
    )


def kernels_of(run: Run) -> list[Kernel]:
    """All kernels of a step, in the order of the first of each."""
    kernels = [
        lookup(
            "embedding",
            "look up tokens",
            1.0,
            run.tokens,
            run.model.hidden,
            run.model.vocabulary * run.model.hidden * run.precision.embedding.nbytes,
        ),
    ]
    kernels += beside.towers(run)
    kernels += beside.side_inputs(run)
    for block in run.model.blocks:
        kernels += block_kernels(run, block)
    kernels += beside.stream_ends(run)
    kernels += _head(run)
    stages = run.layout.pipeline - 1
    if stages:
        kernels.append(
            collective(
                "pipeline", "send to the next stage", stages, "send", run.tokens * run.model.hidden * HALF_BYTES, 2
            )
        )
    return kernels


def draft_kernels(run: Run, drafts: int) -> list[Kernel]:
    """Drafts of multi-token prediction: the last block and the head for each, over one token a sequence."""
    batch = run.batch
    one = Batch(0.0 * batch.decode_sequences, 0.0, 0.0, batch.decode_sequences, batch.decode_context).arrays()
    draft = dataclasses.replace(
        run,
        batch=one,
        tokens=one.new_tokens,
        all_tokens=one.new_tokens * run.layout.data,
        precision=run.precision.drafting,
    )
    last = dataclasses.replace(run.model.blocks[-1], count=1)
    made = [*block_kernels(draft, last), *_head(draft)]
    return [dataclasses.replace(kernel, count=drafts * kernel.count) for kernel in made]


def block_kernels(run: Run, block: Block) -> list[Kernel]:
    """Of one group of layers that are alike."""
    made: list[Kernel] = []
    if block.mixer is not None:
        for mixer in block.mixers:
            made += mixers.kernels(run, mixer, block.count)
        if block.beside is not None:
            both = run.tokens * float(run.model.hidden)
            made.append(pointwise("attention", "add both", block.count, both, reads=4.0, writes=2.0))
        made += reduced(run, "attention", block.count)
    if block.cross is not None:
        made += attention.cross(run, block.cross, block.count)
        made += reduced(run, "attention", block.count)
    if block.feed is not None:
        made += feed_forward.kernels(run, block.feed, block.count)
        if not (run.layout.stage_ranks > run.layout.tensor and feed_forward.is_routed(block.feed)):
            made += reduced(run, "mlp", block.count)
    if block.side:
        made += beside.side(run, block.side, block.count)
    made += beside.streams(run, block, block.count)
    # Norms that adding up over the ranks did not take with it.
    free = max(block.norms - _joined(run, block), 0)
    for _ in range(free):
        made += normalised(run, block.count)
    return made


def _joined(run: Run, block: Block) -> int:
    """Norms that are part of a sum over ranks."""
    if not run.engine.joins_all_reduce or run.layout.tensor == 1:
        return 0
    return sum(each is not None for each in (block.mixer, block.feed))


def normalised(run: Run, count: float) -> list[Kernel]:
    """Adding the residual and normalising: one kernel, or PyTorch's operations one by one."""
    if run.engine.one_by_one:
        return ggml.normalised(run, count)
    rows = run.tokens / (run.layout.tensor if run.layout.sequence else 1.0)
    width = float(run.model.hidden)
    if run.engine.joins_norm:
        return [norm("norm", "add and normalise", count, rows, width, reads=4.0, writes=4.0, warm=4.0)]
    elements = rows * width
    # x + residual; to fp32, its square, the mean, times the root's inverse, back to 16 bits, times the weights.
    casts = ((2.0, 4.0), (4.0, 2.0)) if run.precision.linear.multiplies != "fp32" else ()
    steps = ((4.0, 2.0), (4.0, 4.0), (4.0, 4.0), (2.0, 2.0), *casts)
    made = [pointwise("norm", "add and normalise", count, elements, reads=r, writes=w) for r, w in steps]
    made.append(norm("norm", "mean of squares", count, rows, width, reads=4.0, writes=0.0, warm=4.0))
    return [*made, pointwise("norm", "inverse root", count * 2.0, rows, reads=4.0, writes=4.0)]


def reduced(run: Run, layer: str, count: float) -> list[Kernel]:
    """The sum over ranks after a layer, or its two halves around norms on a share of the tokens."""
    ways = run.layout.tensor
    if ways == 1:
        return []
    nbytes = run.tokens * run.model.hidden * HALF_BYTES
    if run.layout.sequence:
        return [
            collective("communication", f"scatter sums after {layer}", count, "reduce_scatter", nbytes, ways),
            collective("communication", f"gather before {layer}", count, "all_gather", nbytes, ways),
        ]
    sums = run.engine.sums(run.family, ways)
    return [collective("communication", f"sum after {layer}", count, "all_reduce", nbytes, ways, sums=sums)]


def _head(run: Run) -> list[Kernel]:
    ways, rows = run.layout.tensor, run.batch.answers
    columns, hidden = float(-(-run.model.vocabulary // ways)), float(run.model.hidden)
    made = [
        *normalised(run, 1.0),
        *projections.products(
            run, "head", "project to the vocabulary", 1.0, rows, columns, hidden, run.precision.head
        ),
    ]
    logits = rows * float(run.model.vocabulary)
    if ways > 1:
        made.append(collective("communication", "gather logits", 1.0, "all_gather", logits * HALF_BYTES, ways))
    # To fp32, softmax or maximum, and the choice.
    made.append(pointwise("head", "sample: to fp32", 1.0, logits, reads=2.0, writes=4.0))
    made.append(
        norm("head", "sample: choose", 1.0, rows, float(run.model.vocabulary), reads=4.0, writes=0.0, warm=4.0)
    )
    return made
