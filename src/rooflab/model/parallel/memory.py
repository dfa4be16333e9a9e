"""Bytes of a rank by kind (weights, cache, states, activations, workspace), and how much of them fits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rooflab.errors import RooflabError
from rooflab.model.device.device import Device
from rooflab.model.engines.engine import Engine
from rooflab.model.parallel.layout import Layout, share
from rooflab.types.machine import Machine
from rooflab.units import iec
from rooflab.work.llm.architecture import Architecture, Block, Experts, Mlp
from rooflab.work.llm.mixers import Attention, Compressed, Latent, Mixer, Recurrent
from rooflab.work.llm.precision import Precision
from rooflab.work.llm.precision import precision as named
from rooflab.work.llm.streams import HyperConnections

Number = float | np.ndarray


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Bytes of the fullest rank.

    Attributes:
        weights: of its share of the model.
        cache: of keys and values; `states` of linear and state-space layers.
        activations: between the kernels of a step of `step_tokens`.
        workspace: of libraries, graphs and collectives.
        has: what the device has, and an engine may use of it; None where not stated.
    """

    weights: Number
    cache: Number
    states: Number
    activations: Number
    workspace: Number
    has: float | None

    @property
    def total(self) -> Number:
        """All of it."""
        return self.weights + self.cache + self.states + self.activations + self.workspace

    @property
    def fits(self) -> np.ndarray | bool | None:
        """Whether it does; None where the device states no capacity."""
        return None if self.has is None else self.total <= self.has


STEP_TOKENS = 8192  # tokens of the largest step that activations are held for, where no scheduler says


def memory_of(
    model: Architecture,
    layout: Layout,
    precision: Precision,
    device: Device,
    engine: Engine,
    tokens: Number,
    sequences: Number,
    step_tokens: float = STEP_TOKENS,
    adapters: float = 0.0,
    prompt: float = 0.0,
) -> Memory:
    """Bytes of one rank with `tokens` in the cache of the whole copy of the model, of so many sequences.

    `step_tokens` are those of the largest step, on one rank, which activations are held for;
    `adapters` bytes held beside the weights. An encoder of text has `prompt` tokens.
    """
    mine = np.asarray(tokens, float) / (layout.data * layout.context)
    held = np.asarray(sequences, float) / layout.data
    widest = max((_widest(block, layout) for block in model.blocks), default=0.0)
    weights = weight_bytes(model, layout, precision) + adapters
    activations = step_tokens * (2.0 * (3 * model.hidden + widest))
    has = None if device.memory_bytes is None else float(np.ravel(device.memory_bytes)[0])
    taken = weights + activations + engine.workspace_bytes if engine.memory_of_rest else 0.0
    return Memory(
        weights=weights,
        cache=mine * cache_bytes_per_token(model, layout, precision)
        if _has_no_window(model)
        else _windowed(model, layout, precision, mine, held),
        states=held * (state_bytes(model, layout) + encoded_bytes(model, layout, precision, prompt)),
        activations=activations,
        workspace=engine.workspace_bytes,
        has=None if has is None else min(taken + engine.memory_share * (has - taken), has),
    )


def weight_bytes(model: Architecture, layout: Layout, precision: Precision) -> float:
    """Bytes of the weights of one rank: its stage, its share of heads, inner sizes and experts."""
    ways = layout.tensor
    total = 0.0
    for block in model.blocks:
        one = block.norms * model.norm_parameters * 2.0
        one += 2.0 * model.hidden * block.side * precision.linear.nbytes
        wide = 4.0 if isinstance(block.streams, HyperConnections) else 2.0
        one += block.stream_parameters(model.hidden) * wide
        for mixer in (*block.mixers, block.cross):
            if mixer is not None:
                last = _result_parameters(model, mixer, ways)
                one += (_mixer_parameters(model, mixer, ways) - last) * precision.attention.nbytes
                one += last * precision.of_result.nbytes
        if isinstance(block.feed, Mlp):
            one += block.feed.parameters(model.hidden) / ways * precision.linear.nbytes
        elif block.feed is not None:
            one += _expert_bytes(model, block.feed, layout, precision)
        total += block.count * one
    total /= layout.pipeline
    ends = model.embedding_parameters * precision.embedding.nbytes + model.head_parameters * precision.head.nbytes
    towers = sum(each.parameters() for each in (model.encoder, model.tower) if each is not None)
    # Of several stages the first or the last is the fullest.
    ends += model.hidden * model.side_width * precision.embedding.nbytes
    if model.streams is not None:
        ends += model.streams.ending(model.hidden) * precision.embedding.nbytes
    return total + ends / ways / (2.0 if layout.pipeline > 1 else 1.0) + towers * 2.0 + model.norm_parameters * 2.0


def _mixer_parameters(model: Architecture, mixer: Mixer, ways: int) -> float:
    whole = mixer.parameters(model.hidden)
    if isinstance(mixer, Attention):
        # Heads of keys and values fewer than the ranks are held by several.
        copied = share(mixer.kv_heads, ways) * ways - mixer.kv_heads
        return (whole + model.hidden * sum(mixer.kv_parts(copied))) / ways
    if isinstance(mixer, Latent | Compressed):
        shared = model.hidden * mixer.shared
        return shared + (whole - shared) / ways
    return whole / ways


def _result_parameters(model: Architecture, mixer: Mixer, ways: int) -> float:
    """Of the projection of what attention gives."""
    if isinstance(mixer, Attention | Latent):
        return model.hidden * mixer.heads * mixer.values / ways
    return mixer.result_parameters(model.hidden) / ways if isinstance(mixer, Compressed) else 0.0


def _expert_bytes(model: Architecture, feed: Experts, layout: Layout, precision: Precision) -> float:
    each = feed.of_one(model.hidden) + feed.of_images(model.hidden) / feed.count
    routed = each / layout.expert_tensor_ranks * -(-feed.count // layout.experts) * precision.experts.nbytes
    shared = Mlp(feed.shared, feed.gated).parameters(model.hidden) / layout.tensor if feed.shared else 0.0
    shared += 2.0 * model.hidden * feed.width  # to the experts' own size and back, on every rank
    return routed + shared * precision.linear.nbytes + feed.scored * model.hidden * 2.0


def cache_bytes_per_token(model: Architecture, layout: Layout, precision: Precision) -> float:
    """Bytes that one token adds to the cache of a rank, windows aside."""
    total = sum(block.count * _cached(block, layout) for block in model.blocks)
    return total * precision.cache_bytes / layout.pipeline


def _cached(block: Block, layout: Layout) -> float:
    return sum(_cached_by(mixer, layout) for mixer in block.mixers)


def _cached_by(mixer: Mixer, layout: Layout) -> float:
    if isinstance(mixer, Attention):
        heads = 0.0 if mixer.borrows else share(mixer.kv_heads, layout.tensor)
        return heads * (mixer.size + mixer.values) + mixer.index_size
    return float(mixer.cached_elements()) if isinstance(mixer, Latent | Compressed) else 0.0


def state_bytes(model: Architecture, layout: Layout) -> float:
    """Bytes of one sequence's states on a rank, in fp32 as engines keep them, and of windows beside blocks."""
    total = sum(
        block.count * mixer.state_elements()
        for block in model.blocks
        for mixer in block.mixers
        if isinstance(mixer, Recurrent)
    )
    windows = sum(
        block.count * mixer.window_elements()
        for block in model.blocks
        for mixer in block.mixers
        if isinstance(mixer, Compressed)
    )
    return (4.0 * total / layout.tensor + 2.0 * windows) / layout.pipeline


def encoded_bytes(model: Architecture, layout: Layout, precision: Precision, prompt: float) -> float:
    """Bytes of one sequence's keys and values of an encoder's tokens on a rank, in layers that attend to them."""
    if model.encoder is None:
        return 0.0
    tokens = float(model.encoder.positions) if model.encoder.positions else prompt
    each = sum(
        block.count * share(block.cross.kv_heads, layout.tensor) * (block.cross.size + block.cross.values)
        for block in model.blocks
        if block.cross is not None
    )
    return tokens * each * precision.cache_bytes / layout.pipeline


def _has_no_window(model: Architecture) -> bool:
    return not any(isinstance(block.mixer, Attention) and block.mixer.window for block in model.blocks)


def _windowed(
    model: Architecture, layout: Layout, precision: Precision, tokens: np.ndarray, sequences: np.ndarray
) -> np.ndarray:
    """The cache where layers with a window keep only that many tokens of each sequence."""
    total = np.zeros_like(tokens)
    for block in model.blocks:
        window = block.mixer.window if isinstance(block.mixer, Attention) else 0
        kept = np.minimum(tokens, sequences * window) if window else tokens
        total = total + kept * (block.count * _cached(block, layout))
    return total * (precision.cache_bytes / layout.pipeline)


def _widest(block: Block, layout: Layout) -> float:
    feed = block.feed
    if isinstance(feed, Mlp):
        return feed.inner * (1 + feed.gated) / layout.tensor
    if isinstance(feed, Experts):
        return feed.chosen * feed.inner * (1 + feed.gated) / layout.expert_tensor_ranks / layout.experts
    return 0.0


def check_fits(
    model: Architecture,
    machine: Machine,
    layout: Layout,
    memory: Memory,
    precision: Precision,
    blocks: bool = False,
) -> None:
    """Whether one rank holds it; of narrower formats (GGUF's `blocks`, if so) the widest that would is named.

    Raises:
        RooflabError: it does not, by how much.
    """
    if memory.has is not None and not np.all(memory.fits):
        least = float(np.max(memory.total))
        raise RooflabError(
            f"{model.name} on {machine.name} as {layout.name}: {iec(least, 3)} a device (weights "
            f"{iec(float(np.max(memory.weights)), 3)}, cache {iec(float(np.max(memory.cache)), 3)}) and "
            f"{iec(memory.has, 3)} to use: {iec(least - memory.has, 3)} too much; "
            f"{_narrower(memory, precision, blocks)}more devices or fewer tokens in the cache would fit"
        )


def _narrower(memory: Memory, precision: Precision, blocks: bool) -> str:
    """The widest of usual formats in which the weights would leave room for the rest."""
    weights, rest = float(np.max(memory.weights)), float(np.max(memory.total - memory.weights))
    now = precision.experts.bits if precision.experts.bits < precision.linear.bits else precision.linear.bits
    for name in ("q8_0", "q6_k", "q4_k_m", "q3_k_m", "q2_k") if blocks else ("fp8", "int4_wo"):
        bits = named(name).linear.bits
        if bits < now and memory.has is not None and weights * bits / now + rest <= memory.has:
            return f"--precision {name}, "
    return ""
