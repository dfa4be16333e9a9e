"""Kernels beside those of a model's layers: LoRA adapters, towers that make tokens of pictures and sound."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from rooflab.model.serving.batch import Batch, Number
from rooflab.model.serving.kernels import Kernel, grouped, product
from rooflab.model.serving.row_kernels import lookup, norm, pointwise
from rooflab.work.llm.architecture import Architecture, Block, Tower
from rooflab.work.llm.streams import AltUp, HyperConnections

if TYPE_CHECKING:
    from rooflab.model.serving.program import Run

ADAPTER = "adapter"


def adapters(
    run: Run, layer: str, name: str, count: float, m: Number, widths: Sequence[float], k: float
) -> list[Kernel]:
    """The two products of LoRA beside a projection: rows of k numbers to the rank, and from it to the result.

    As many adapters are read as S sequences that take one of N alike meet, N (1 − (1 − 1/N)^S): one grouped
    product for all of them (Punica, arXiv:2310.18547; vllm-project/vllm, lora/ops/triton_ops).
    """
    rank, held = run.extras.lora_rank, run.extras.loras
    if not rank:
        return []
    sequences = np.asarray(run.batch.sequences, float)
    met = held * -np.expm1(sequences * np.log1p(-1.0 / held)) if held > 1 else np.minimum(sequences, 1.0)
    met = np.maximum(met, 1e-9)
    half, parts = run.precision.embedding, float(sum(1 for each in widths if each))
    share = run.engine.experts_half
    down, up, mean = f"{name}: {ADAPTER}, down", f"{name}: {ADAPTER}, up", sum(widths) / parts
    return [
        grouped(layer, down, count, m, rank * parts, k, met, half, share=share),
        grouped(layer, up, count, m * parts, mean, float(rank), met * parts, half, share=share),
    ]


def encoded_tokens(model: Architecture, prompt: Number) -> Number:
    """Tokens of an encoder: as many positions as it has (of sound), else those of the prompt; 0 without one."""
    if model.encoder is None:
        return 0.0
    return float(model.encoder.positions) if model.encoder.positions else prompt


def towers(run: Run) -> list[Kernel]:
    """What makes a prompt's tokens of pictures, or the encoder's of sound or text, for the prompts of this step.

    Each new token of a prompt has its share of the request's: a prompt in two chunks has half of it in each.
    """
    model, extras = run.model, run.extras
    made: list[Kernel] = []
    prompt = np.maximum(run.prompt, 1.0)
    share = run.batch.prefill_sequences * run.batch.prefill_tokens / prompt  # requests' worth of prompts
    if extras.image_tokens and model.tower is not None:
        each = extras.image_tokens * model.tower.merge / extras.images
        made += _tower(run, model.tower, share * extras.images, each)
    if model.encoder is not None:
        made += _tower(run, model.encoder, share, float(np.max(encoded_tokens(model, prompt))))
    return made


def _tower(run: Run, tower: Tower, inputs: Number, length: float) -> list[Kernel]:
    """So many inputs of `length` tokens each through a tower's layers."""
    from rooflab.model.serving.program import block_kernels

    inputs = np.asarray(inputs, float)
    batch = Batch(inputs, np.where(inputs > 0, length, 0.0), 0.0, 0.0, 0.0).arrays()
    model = Architecture(tower.sort, tower.hidden, 1, tower.blocks)
    layout = dataclasses.replace(run.layout, experts=1, data=1, context=1, pipeline=1, sequence=False)
    plain = dataclasses.replace(run.extras, lora_rank=0, image_tokens=0)
    inside = dataclasses.replace(
        run, model=model, layout=layout, batch=batch, tokens=batch.new_tokens, all_tokens=batch.new_tokens,
        extras=plain,
    )  # fmt: skip
    layer, half, tokens = f"{tower.sort} tower", run.precision.embedding, batch.new_tokens
    made: list[Kernel] = []
    if tower.patch_inputs:
        width = float(tower.hidden)
        made.append(product(layer, "patches", 1.0, tokens, width, float(tower.patch_inputs), half))
    for block in tower.blocks:
        made += block_kernels(inside, block)
    made.append(norm(layer, "normalise", 1.0, tokens, float(tower.hidden), reads=2.0, writes=2.0, warm=2.0))
    for k, n in zip(tower.project, tower.project[1:], strict=False):
        chains, joined = float(tower.projections), tokens / tower.merge
        made.append(product(layer, "project", chains, joined, float(n), float(k), half))
    return [
        kernel if kernel.layer == "communication" else dataclasses.replace(kernel, layer=layer) for kernel in made
    ]


def side_inputs(run: Run) -> list[Kernel]:
    """What makes each layer's own embedding of new tokens: rows of its table, and a product of the token's vector.

    As Gemma 4's (google/gemma-4, transformers' modeling_gemma4): both are scaled, normalised and added up.
    """
    model, tokens = run.model, run.tokens
    width = float(model.side_width)
    if not width:
        return []
    half, layer = run.precision.embedding, "embedding"
    table = model.side_vocabulary * width * half.nbytes
    return [
        lookup(layer, "look up the layers' own", 1.0, tokens, int(width), table),
        product(layer, "project to the layers' own", 1.0, tokens, width, float(model.hidden), half),
        norm(layer, "normalise the layers' own", 1.0, tokens, width, reads=4.0, writes=2.0, warm=4.0),
    ]


def side(run: Run, width: int, count: float) -> list[Kernel]:
    """A layer's own embedding mixed in: a gate of `width`, times it, and back to the hidden size."""
    hidden, wide, tokens, stored = float(run.model.hidden), float(width), run.tokens, run.precision.linear
    layer = "mlp"
    return [
        product(layer, "gate of the layer's own", count, tokens, wide, hidden, stored),
        pointwise(layer, "times the layer's own", count, tokens * wide, reads=4.0, writes=2.0),
        product(layer, "project the layer's own", count, tokens, hidden, wide, stored),
    ]


def streams(run: Run, block: Block, count: float) -> list[Kernel]:
    """What reads and writes the residual streams around a layer or each part of it, and what says how."""
    if isinstance(block.streams, HyperConnections):
        return _hyper(run, block.streams, count * ((block.mixer is not None) + (block.feed is not None)))
    return _alternating(run, block.streams, count) if block.streams else []


def _hyper(run: Run, of: HyperConnections, times: float) -> list[Kernel]:
    """Around each part: the product that says how streams are mixed, what the part reads, what is written.

    The product's operands are fp32 (DeepSeek's own kernel multiplies them as TF32: deepseek-ai/DeepGEMM,
    tf32_hc_prenorm_gemm), here at the rate of 16 bits with the bytes of fp32; Sinkhorn's iterations over a token's
    few numbers are left out.
    """
    ways, hidden, tokens = float(of.count), float(run.model.hidden), run.tokens
    form = dataclasses.replace(run.precision.embedding, bits=32.0)
    return [
        product("norm", "how streams are mixed", times, tokens, float(of.numbers), ways * hidden, form),
        pointwise("norm", "read the streams", times, tokens * hidden, reads=2.0 * ways, writes=2.0),
        pointwise("norm", "write the streams", times, tokens * hidden * ways, reads=2.0 + 2.0 / ways, writes=2.0),
    ]


def _alternating(run: Run, of: AltUp, count: float) -> list[Kernel]:
    """Before a layer all streams are foretold, after it put right; the learnt residual beside attention."""
    ways, hidden, tokens, half = float(of.count), float(run.model.hidden), run.tokens, run.precision.embedding
    rank, all_streams, stored = float(of.rank), tokens * hidden * ways, run.precision.linear
    return [
        norm("norm", "normalise for the router", 2 * count, tokens, hidden, reads=2.0, writes=2.0, warm=2.0),
        product("norm", "how streams are mixed", 2 * count, tokens, ways, hidden, half),
        pointwise("norm", "foretell the streams", count, all_streams, reads=2.0, writes=2.0),
        pointwise("norm", "put the streams right", count, all_streams, reads=2.0 + 2.0 / ways, writes=2.0),
        product("attention", "learnt residual: down", count, tokens, rank, hidden, stored),
        product("attention", "learnt residual: up", count, tokens, hidden, rank, stored),
        norm("norm", "normalise the learnt residual", count, tokens, hidden, reads=4.0, writes=2.0, warm=4.0),
    ]


def stream_ends(run: Run) -> list[Kernel]:
    """What makes the streams before the first layer, and one of them after the last."""
    of, tokens, hidden = run.model.streams, run.tokens, float(run.model.hidden)
    if of is None:
        return []
    half, others = run.precision.embedding, float(of.count - 1)
    averaged = isinstance(of, HyperConnections) and of.averaged
    reads, writes = 2.0 * of.count, 2.0 / of.count
    joined = pointwise("norm", "join the streams", 1.0, tokens * hidden, reads=reads, writes=2.0)
    if isinstance(of, AltUp):
        return [product("embedding", "make and join streams", 2 * others, tokens, hidden, hidden, half), joined]
    parted = pointwise("norm", "part the streams", 1.0, tokens * hidden * of.count, reads=writes, writes=2.0)
    join = product("norm", "how streams join", 1.0, tokens, float(of.count), of.count * hidden, half)
    return [parted, joined] if averaged else [parted, join, joined]
