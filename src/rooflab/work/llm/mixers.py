"""What mixes the tokens of a sequence in a layer: attention in its forms, linear recurrences, short convolutions.

Sizes are those of the whole model; what one rank of a layout holds is reckoned in `model.parallel`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Attention:
    """Softmax attention with heads of q that share heads of k and v (GQA; MQA with one; MHA with as many).

    Attributes:
        heads, kv_heads: of queries; of keys and values.
        size, values: elements of a head of q and k; of v.
        window: keys that a query sees, itself among them; 0 for all.
        bias, out_bias: whether the projections of q, k, v and that of the result add one.
        gate: numbers of a token that multiply a head's result: one, or as many as it has; 0 for none.
        qk_norm: whether q and k are normalised, head by head or ("full") over all heads.
        rotates: whether positions are turned into q and k (RoPE).
        causal: whether a query sees only what is before it.
        cross: whether keys and values come from the encoder.
        sinks: whether each head has a number that takes part in the softmax (gpt-oss).
        borrows: whether keys and values are those of an earlier layer: none are made or kept (Gemma 3n, Gemma 4).
        one_kv: whether values are what keys are made of, by one product (Gemma 4's layers without a window).
        index_heads, index_size: of the indexer that scores all keys by few small heads (MiniMax-M3); 0 for none.
        index_top: keys that it lets a query see, in whole blocks.
    """

    heads: int
    kv_heads: int
    size: int
    values: int
    window: int = 0
    bias: bool = False
    out_bias: bool = False
    gate: int = 0
    qk_norm: str = ""
    rotates: bool = True
    causal: bool = True
    cross: bool = False
    sinks: bool = False
    borrows: bool = False
    one_kv: bool = False
    index_heads: int = 0
    index_size: int = 0
    index_top: int = 0

    def kv_parts(self, kv_heads: int | float) -> tuple[float, ...]:
        """Widths of the products that make keys and values of so many heads; none where they are borrowed."""
        if self.borrows:
            return ()
        return (kv_heads * self.size,) if self.one_kv else (kv_heads * self.size, kv_heads * self.values)

    @property
    def divided(self) -> int:
        """What tensor-parallel ranks divide among them: its heads."""
        return self.heads

    def parameters(self, hidden: int) -> int:
        """Of its four projections, biases and norms."""
        q, kv = self.heads * self.size, int(sum(self.kv_parts(self.kv_heads)))
        gates = self.heads * self.gate
        total = hidden * (q + gates + kv) + self.heads * self.values * hidden
        total += (q + gates + kv) * self.bias + hidden * self.out_bias + self.heads * self.sinks
        if self.qk_norm == "full":
            total += q + self.kv_heads * self.size
        elif self.qk_norm:
            total += (2 - self.borrows) * self.size
        if self.index_heads:
            total += hidden * (self.index_heads + 1) * self.index_size + 2 * self.index_size
        return total

    def cached_elements(self) -> int:
        """Elements that one token adds to the cache."""
        return 0 if self.borrows else self.kv_heads * (self.size + self.values) + self.index_size


@dataclass(frozen=True, slots=True)
class Latent:
    """Multi-head latent attention: keys and values from one latent vector (DeepSeek-V2, arXiv:2405.04434).

    Attributes:
        heads: of queries, keys and values.
        q_rank, kv_rank: elements of the latent vectors; `q_rank` 0 where queries are projected at once.
        plain, rotary: elements of a head of q and k without and with positions; `values` of a head of v.
        index_heads, index_size, index_top: of the lightning indexer, which picks that many keys for each query
            (DeepSeek-V3.2's sparse attention); 0 for none. Without heads a layer sees what an earlier one picked.
        index_pool: tokens that one key of the indexer stands for, weighed by a product of their own (GLM-5.3).
        gate, sinks: as in `Attention`.
        borrows: whether the latent vectors of keys are those of an earlier layer.
    """

    heads: int
    q_rank: int
    kv_rank: int
    plain: int
    rotary: int
    values: int
    index_heads: int = 0
    index_size: int = 0
    index_top: int = 0
    index_pool: int = 1
    gate: int = 0
    sinks: bool = False
    borrows: bool = False

    @property
    def kept(self) -> int:
        """Elements of a token's latent vector that are kept; 0 where they are an earlier layer's."""
        return 0 if self.borrows else self.kv_rank + self.rotary

    @property
    def index_keys(self) -> int:
        """Columns of what makes the indexer's keys: of their parts, and of the weights where several are one."""
        return self.index_size * (1 + (self.index_pool > 1)) if self.index_heads else 0

    @property
    def shared(self) -> int:
        """Columns of the products that every rank makes: the latent vectors."""
        return self.q_rank + self.kept

    @property
    def divided(self) -> int:
        """What tensor-parallel ranks divide among them: its heads."""
        return self.heads

    def parameters(self, hidden: int) -> int:
        """Of its projections and the norms of its latent vectors."""
        q = self.heads * (self.plain + self.rotary)
        total = hidden * q if not self.q_rank else hidden * self.q_rank + self.q_rank + self.q_rank * q
        total += hidden * self.kept + (0 if self.borrows else self.kv_rank)
        total += self.kv_rank * self.heads * (self.plain + self.values) + self.heads * self.values * hidden
        total += self.heads * (hidden * self.gate + self.sinks)
        if self.index_heads:
            total += (self.q_rank or hidden) * self.index_heads * self.index_size
            total += hidden * (self.index_keys + self.index_heads) + 2 * self.index_size
            total += self.index_pool * self.index_size * (self.index_pool > 1)
        return total

    def cached_elements(self) -> float:
        """Elements that one token adds to the cache, the indexer's keys (a byte each) as half an element."""
        return self.kept + (self.index_size / self.index_pool / 2 if self.index_heads else 0)


@dataclass(frozen=True, slots=True)
class Compressed:
    """Many heads of queries over one of keys that are the values too: the last tokens, and blocks of older ones.

    Each block of tokens is compressed to one key, of which a query sees all or the best few (DeepSeek-V4's
    compressed sparse and heavily compressed attention, as transformers' modeling_deepseek_v4 has them).

    Attributes:
        heads: of queries; `size` elements of a head, `rotary` of them with positions.
        q_rank: elements of the latent vector of queries.
        window: tokens before it that a query sees.
        rate: tokens of a block; 0 for no blocks. `overlaps`: whether a key also tells of the block before.
        groups, out_rank: heads' results are brought to so many elements group by group, then to the hidden size.
        index_heads, index_size, index_top: of the indexer, which picks that many blocks; 0 where all are seen.
    """

    heads: int
    size: int
    rotary: int
    q_rank: int
    window: int
    rate: int
    overlaps: bool
    groups: int
    out_rank: int
    index_heads: int = 0
    index_size: int = 0
    index_top: int = 0

    @property
    def pooled(self) -> int:
        """Numbers of a token that go into keys of blocks, the indexer's among them; as many more weigh them."""
        ways = (1 + self.overlaps) if self.rate else 0
        return ways * (self.size + (self.index_size if self.index_heads else 0))

    @property
    def shared(self) -> int:
        """Columns of the products that every rank makes: latent queries, a token's key, parts of blocks' keys."""
        return self.q_rank + self.size + 2 * self.pooled + self.index_heads

    @property
    def divided(self) -> int:
        """What tensor-parallel ranks divide among them: the groups of its heads."""
        return self.groups

    def parameters(self, hidden: int) -> int:
        """Of its projections, norms, sinks, and the weights of a token's place in its block."""
        total = hidden * self.shared + self.q_rank + self.size
        total += self.q_rank * (self.heads * self.size + self.index_heads * self.index_size)
        total += self.result_parameters(hidden) + self.heads + self.rate * self.pooled
        return total + (self.size + (self.index_size if self.index_heads else 0) if self.rate else 0)

    def result_parameters(self, hidden: int) -> int:
        """Of the two products of what the heads give."""
        return self.heads * self.size * self.out_rank + self.groups * self.out_rank * hidden

    def cached_elements(self) -> float:
        """Elements that a token adds to the cache in the mean, the indexer's keys (a byte each) as half of one."""
        return (self.size + self.index_size / 2) / self.rate if self.rate else 0.0

    def window_elements(self) -> int:
        """Elements of the window's keys of one sequence, the tokens of an unfinished block among them."""
        return self.window * self.size + 2 * self.rate * self.pooled


@dataclass(frozen=True, slots=True)
class Delta:
    """Linear attention by the gated delta rule (Gated DeltaNet, arXiv:2412.06464, as in Qwen3-Next).

    Attributes:
        heads, value_heads: of q and k; of v.
        size, values: elements of a head of k; of v.
        taps: of the causal convolution over q, k and v.
        channels: whether each channel of k decays by itself (Kimi Delta Attention, arXiv:2510.26692), or a head as
            one.
        rank: elements that the decays, and the gate behind, are made of by a second product; 0 for one product.
    """

    heads: int
    value_heads: int
    size: int
    values: int
    taps: int
    channels: bool = False
    rank: int = 0

    @property
    def mixed(self) -> int:
        """Channels of the convolution: q, k and v together."""
        return 2 * self.heads * self.size + self.value_heads * self.values

    @property
    def decays(self) -> int:
        """How many decays a token has."""
        return self.heads * self.size if self.channels else self.value_heads

    @property
    def projected(self) -> tuple[int, ...]:
        """Columns of the products of a token: q, k, v, with the gate or what it is made of; decays and steps."""
        out = self.value_heads * self.values
        return (self.mixed + (2 * self.rank or out), self.value_heads + (0 if self.rank else self.decays))

    @property
    def divided(self) -> int:
        """What tensor-parallel ranks divide among them: its heads."""
        return self.value_heads

    def parameters(self, hidden: int) -> int:
        """Of the projections of q, k, v, gate, decay and step, the convolution, the norm and the result."""
        out = self.value_heads * self.values
        total = hidden * sum(self.projected) + self.rank * (self.decays + out)
        return total + self.mixed * self.taps + self.value_heads + self.decays + self.values + out * hidden

    def state_elements(self) -> int:
        """Elements of one sequence's state, its last inputs of the convolution among them."""
        return self.value_heads * self.size * self.values + self.mixed * (self.taps - 1)


@dataclass(frozen=True, slots=True)
class Lightning:
    """Linear attention whose heads each forget at a rate of their own that never changes (arXiv:2501.08313).

    Attributes:
        heads: of q, k and v alike; `size` elements of each.
    """

    heads: int
    size: int

    @property
    def divided(self) -> int:
        """What tensor-parallel ranks divide among them: its heads."""
        return self.heads

    def parameters(self, hidden: int) -> int:
        """Of the projections of q, k, v and the gate, the norm over all heads, and the result."""
        return 5 * hidden * self.heads * self.size + self.heads * self.size

    def state_elements(self) -> int:
        """Elements of one sequence's state."""
        return self.heads * self.size * self.size


@dataclass(frozen=True, slots=True)
class StateSpace:
    """A selective state-space layer: Mamba (arXiv:2312.00752), or Mamba-2 (arXiv:2405.21060) where it has heads.

    Attributes:
        inner: channels.
        state: elements of the state of a channel.
        taps: of the causal convolution.
        heads, groups: of Mamba-2: heads of channels, and groups that share B and C; 0 heads for Mamba.
        rank: of Mamba's projection of the step.
        bias, conv_bias: whether the projections and the convolution have one.
        normed: whether Mamba-2's gate is followed by a norm.
    """

    inner: int
    state: int
    taps: int
    heads: int = 0
    groups: int = 1
    rank: int = 0
    bias: bool = False
    conv_bias: bool = True
    normed: bool = True

    @property
    def mixed(self) -> int:
        """Channels of the convolution."""
        return self.inner + 2 * self.groups * self.state if self.heads else self.inner

    @property
    def projected(self) -> int:
        """Columns of the projection of the input."""
        return self.inner + self.mixed + self.heads if self.heads else 2 * self.inner

    @property
    def divided(self) -> int:
        """What tensor-parallel ranks divide among them: Mamba-2's heads; 0 for Mamba, whose channels are any."""
        return self.heads

    def parameters(self, hidden: int) -> int:
        """Of its projections, convolution and state matrices."""
        total = hidden * self.projected + self.mixed * (self.taps + self.conv_bias) + self.inner * hidden
        total += (self.projected + hidden) * self.bias
        if self.heads:
            return total + 3 * self.heads + self.inner * self.normed  # A, D, dt bias; the gated norm
        return total + (
            self.inner * (self.rank + 2 * self.state) + self.rank * self.inner + self.inner * (self.state + 2)
        )

    def state_elements(self) -> int:
        """Elements of one sequence's state, its last inputs of the convolution among them."""
        return self.inner * self.state + self.mixed * (self.taps - 1)


@dataclass(frozen=True, slots=True)
class ShortConv:
    """A causal convolution of few taps between two gates (LFM2, arXiv:2511.23404).

    Attributes:
        width: channels, each convolved by itself.
        taps: of the convolution.
        bias: whether the projections and the convolution add one.
    """

    width: int
    taps: int
    bias: bool = False

    @property
    def divided(self) -> int:
        """What tensor-parallel ranks divide among them: its channels."""
        return self.width

    def parameters(self, hidden: int) -> int:
        """Of the projection to both gates and the input, the convolution, and the result's projection."""
        return 4 * hidden * self.width + self.taps * self.width + (4 * self.width + hidden) * self.bias

    def state_elements(self) -> int:
        """The last inputs of one sequence."""
        return self.width * (self.taps - 1)


Recurrent = Delta | Lightning | StateSpace | ShortConv
Mixer = Attention | Latent | Compressed | Recurrent
