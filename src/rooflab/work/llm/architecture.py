"""What a language model is made of: blocks of a mixer and a feed-forward part, counted, with their sizes.

Sizes are those of the whole model; what one rank of a layout holds is reckoned in `model.parallel`.
"""

from __future__ import annotations

from dataclasses import dataclass

from rooflab.errors import RooflabError


@dataclass(frozen=True, slots=True)
class Attention:
    """Softmax attention with heads of q that share heads of k and v (GQA; MQA with one; MHA with as many).

    Attributes:
        heads, kv_heads: of queries; of keys and values.
        size, values: elements of a head of q and k; of v.
        window: keys that a query sees, itself among them; 0 for all.
        bias, out_bias: whether the projections of q, k, v and that of the result add one.
        gate: whether a gate as wide as the queries multiplies the result (Qwen3-Next).
        qk_norm: whether q and k are normalised, head by head or ("full") over all heads.
        rotates: whether positions are turned into q and k (RoPE).
        causal: whether a query sees only what is before it.
        cross: whether keys and values come from the encoder.
        sinks: whether each head has a number that takes part in the softmax (gpt-oss).
        borrows: whether keys and values are those of an earlier layer: none are made or kept (Gemma 3n, Gemma 4).
        one_kv: whether values are what keys are made of, by one product (Gemma 4's layers without a window).
    """

    heads: int
    kv_heads: int
    size: int
    values: int
    window: int = 0
    bias: bool = False
    out_bias: bool = False
    gate: bool = False
    qk_norm: str = ""
    rotates: bool = True
    causal: bool = True
    cross: bool = False
    sinks: bool = False
    borrows: bool = False
    one_kv: bool = False

    def kv_parts(self, kv_heads: int | float) -> tuple[float, ...]:
        """Widths of the products that make keys and values of so many heads; none where they are borrowed."""
        if self.borrows:
            return ()
        return (kv_heads * self.size,) if self.one_kv else (kv_heads * self.size, kv_heads * self.values)

    def parameters(self, hidden: int) -> int:
        """Of its four projections, biases and norms."""
        q, kv = self.heads * self.size, int(sum(self.kv_parts(self.kv_heads)))
        total = hidden * (q * (1 + self.gate) + kv) + self.heads * self.values * hidden
        total += (q * (1 + self.gate) + kv) * self.bias + hidden * self.out_bias + self.heads * self.sinks
        if self.qk_norm == "full":
            total += q + self.kv_heads * self.size
        elif self.qk_norm:
            total += (2 - self.borrows) * self.size
        return total

    def cached_elements(self) -> int:
        """Elements that one token adds to the cache."""
        return 0 if self.borrows else self.kv_heads * (self.size + self.values)


@dataclass(frozen=True, slots=True)
class Latent:
    """Multi-head latent attention: keys and values from one latent vector (DeepSeek-V2, arXiv:2405.04434).

    Attributes:
        heads: of queries, keys and values.
        q_rank, kv_rank: elements of the latent vectors; `q_rank` 0 where queries are projected at once.
        plain, rotary: elements of a head of q and k without and with positions; `values` of a head of v.
        index_heads, index_size, index_top: of the lightning indexer, which picks that many keys for each query
            (DeepSeek-V3.2's sparse attention); 0 for none.
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

    def parameters(self, hidden: int) -> int:
        """Of its projections and the norms of its latent vectors."""
        q = self.heads * (self.plain + self.rotary)
        total = hidden * q if not self.q_rank else hidden * self.q_rank + self.q_rank + self.q_rank * q
        total += hidden * (self.kv_rank + self.rotary) + self.kv_rank
        total += self.kv_rank * self.heads * (self.plain + self.values) + self.heads * self.values * hidden
        if self.index_heads:
            total += (self.q_rank or hidden) * self.index_heads * self.index_size
            total += hidden * (self.index_size + self.index_heads) + 2 * self.index_size
        return total

    def cached_elements(self) -> int:
        """Elements that one token adds to the cache, the indexer's keys (a byte each) as half an element."""
        return self.kv_rank + self.rotary + self.index_size // 2


@dataclass(frozen=True, slots=True)
class Delta:
    """Linear attention by the gated delta rule (Gated DeltaNet, arXiv:2412.06464, as in Qwen3-Next).

    Attributes:
        heads, value_heads: of q and k; of v.
        size, values: elements of a head of k; of v.
        taps: of the causal convolution over q, k and v.
    """

    heads: int
    value_heads: int
    size: int
    values: int
    taps: int

    @property
    def mixed(self) -> int:
        """Channels of the convolution: q, k and v together."""
        return 2 * self.heads * self.size + self.value_heads * self.values

    def parameters(self, hidden: int) -> int:
        """Of the projections of q, k, v, gate, decay and step, the convolution, the norm and the result."""
        out = self.value_heads * self.values
        return hidden * (self.mixed + out + 2 * self.value_heads) + (
            self.mixed * self.taps + 2 * self.value_heads + self.values + out * hidden
        )

    def state_elements(self) -> int:
        """Elements of one sequence's state, its last inputs of the convolution among them."""
        return self.value_heads * self.size * self.values + self.mixed * (self.taps - 1)


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
    """

    inner: int
    state: int
    taps: int
    heads: int = 0
    groups: int = 1
    rank: int = 0
    bias: bool = False
    conv_bias: bool = True

    @property
    def mixed(self) -> int:
        """Channels of the convolution."""
        return self.inner + 2 * self.groups * self.state if self.heads else self.inner

    @property
    def projected(self) -> int:
        """Columns of the projection of the input."""
        return self.inner + self.mixed + self.heads if self.heads else 2 * self.inner

    def parameters(self, hidden: int) -> int:
        """Of its projections, convolution and state matrices."""
        total = hidden * self.projected + self.mixed * (self.taps + self.conv_bias) + self.inner * hidden
        total += (self.projected + hidden) * self.bias
        if self.heads:
            return total + 3 * self.heads + self.inner  # A, D, dt bias; the gated norm
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

    def parameters(self, hidden: int) -> int:
        """Of the projection to both gates and the input, the convolution, and the result's projection."""
        return 4 * hidden * self.width + self.taps * self.width + (4 * self.width + hidden) * self.bias

    def state_elements(self) -> int:
        """The last inputs of one sequence."""
        return self.width * (self.taps - 1)


@dataclass(frozen=True, slots=True)
class Mlp:
    """A dense feed-forward part: up and down, and a gate where `gated`."""

    inner: int
    gated: bool = True
    bias: bool = False
    gate_bias: bool = False

    def parameters(self, hidden: int) -> int:
        """Of its matrices and biases."""
        ways = 1 + self.gated
        return (ways + 1) * hidden * self.inner + (ways * self.inner + hidden) * self.bias


@dataclass(frozen=True, slots=True)
class Experts:
    """Experts of which a router takes the best few for each token.

    Attributes:
        count, chosen: experts; how many a token meets.
        inner: of one expert; `gated` as in `Mlp`.
        shared: inner size of what every token meets beside them; 0 for none.
        shared_gate: whether a gate of one number weighs what they give.
        bias, router_bias: whether experts and router have one.
        repeated: share of the choices that fall on experts which other tokens of a step chose too, beyond chance.
    """

    count: int
    chosen: int
    inner: int
    gated: bool = True
    shared: int = 0
    shared_gate: bool = False
    bias: bool = False
    router_bias: bool = False
    repeated: float = 0.0

    def parameters(self, hidden: int) -> int:
        """Of all experts, what is shared, and the router."""
        each = Mlp(self.inner, self.gated, self.bias).parameters(hidden)
        shared = Mlp(self.shared, self.gated).parameters(hidden) if self.shared else 0
        return self.count * each + shared + self.count * (hidden + self.router_bias) + hidden * self.shared_gate

    def active_parameters(self, hidden: int) -> int:
        """Of what one token meets."""
        idle = (self.count - self.chosen) * Mlp(self.inner, self.gated, self.bias).parameters(hidden)
        return self.parameters(hidden) - idle


Recurrent = Delta | StateSpace | ShortConv
Mixer = Attention | Latent | Recurrent


@dataclass(frozen=True, slots=True)
class Block:
    """`count` layers that are alike: norms, a mixer, a feed-forward part; either may be missing.

    Attributes:
        cross: attention to an encoder between the two.
        norms: how many normalisations of the hidden size there are.
        parallel: whether both read the same normalised input and are added together (GPT-J, Falcon, Cohere).
        side: elements of a second embedding of each token, which every layer has of its own and mixes in by two
            products (Gemma 4's per-layer inputs); 0 for none.
    """

    count: int
    mixer: Mixer | None
    feed: Mlp | Experts | None
    cross: Attention | None = None
    norms: int = 2
    parallel: bool = False
    side: int = 0

    def parameters(self, hidden: int, norm_parameters: int) -> int:
        """Of one layer."""
        parts = [each for each in (self.mixer, self.cross, self.feed) if each is not None]
        return (
            sum(each.parameters(hidden) for each in parts) + self.norms * norm_parameters + 2 * hidden * self.side
        )


@dataclass(frozen=True, slots=True)
class Tower:
    """An encoder beside the language model: of text, of sound, or of images cut into patches.

    Attributes:
        sort: "text", "sound" or "image".
        hidden, blocks: as of an architecture.
        relative: numbers of a table of relative positions (T5).
        patch_inputs: numbers of one patch, which a product turns into a token; 0 where tokens are looked up.
        merge: how many patches become one token of the language model.
        project: sizes of the products between the two, from the tower's to the model's; `projections`: how many
            such chains of products there are, of several layers of the tower (DeepStack).
    """

    sort: str
    hidden: int
    blocks: tuple[Block, ...]
    patch_inputs: int = 0
    merge: int = 1
    project: tuple[int, ...] = ()
    projections: int = 1
    positions: int = 0
    layer_norm: bool = True
    relative: int = 0

    def parameters(self) -> int:
        """Of all of it."""
        norm = self.hidden * (2 if self.layer_norm else 1)
        total = sum(each.count * each.parameters(self.hidden, norm) for each in self.blocks) + norm
        total += self.patch_inputs * self.hidden + self.positions * self.hidden
        chain = sum(a * b for a, b in zip(self.project, self.project[1:], strict=False))
        return total + self.relative + self.projections * chain


@dataclass(frozen=True, slots=True)
class Architecture:
    """A language model's sizes.

    Attributes:
        name: as its maker or the file calls it.
        hidden, vocabulary: size of a token's vector; tokens known.
        blocks: groups of layers that are alike, in the order of the first of each.
        tied: whether the head multiplies by the embedding's table.
        encoder: text or sound that layers with `cross` attend to; `tower` turns images into tokens.
        positions: learnt ones in a table; 0 for none.
        layer_norm: LayerNorm (two vectors of parameters) rather than RMSNorm.
        embedding_norm: whether the tokens' vectors are normalised first; `relative` as in `Tower`.
        context: the longest that it is made for; None where not stated.
        side_vocabulary: rows of the table of `Block.side` of all layers; 0 for none.
        draft_layers: layers more that draft tokens (multi-token prediction); 0 where none is stated.
        stored: number format of its weights as published, and `expert_stored` of its experts' weights.
        left_out: sections of its configuration that describe further parts, which are in none of the numbers.
        doubts: what else of its configuration is in none of the numbers, in sentences.
        filled: which sizes its configuration leaves to its class, in sentences.
        formats: of a file's tensors, by part ("linear", "attention", "experts", "head", "embedding"): the format
            that most have, and the bits of a weight in the mean.
        source: where these numbers come from.
    """

    name: str
    hidden: int
    vocabulary: int
    blocks: tuple[Block, ...]
    tied: bool = False
    encoder: Tower | None = None
    tower: Tower | None = None
    positions: int = 0
    layer_norm: bool = False
    head_bias: bool = False
    embedding_norm: bool = False
    relative: int = 0
    context: int | None = None
    side_vocabulary: int = 0
    draft_layers: int = 0
    stored: str = "bf16"
    expert_stored: str | None = None
    left_out: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    filled: tuple[str, ...] = ()
    formats: tuple[tuple[str, str, float], ...] = ()
    source: str = ""

    def __post_init__(self) -> None:
        """Refuse sizes that no model has.

        Raises:
            RooflabError: a size below 1, or no layers.
        """
        if not self.blocks or min(self.hidden, self.vocabulary, *(each.count for each in self.blocks)) < 1:
            raise RooflabError(
                f"{self.name}: hidden size {self.hidden}, vocabulary {self.vocabulary} and "
                f"{sum(each.count for each in self.blocks)} layers, expected all above 0"
            )

    def said(self) -> tuple[str, ...]:
        """What of its configuration is in none of the numbers, in sentences."""
        missing = ", ".join(self.left_out)
        parts = (f"{self.name}: {missing} are not read: weights and time are without them.",) if missing else ()
        return (*parts, *self.doubts)

    def notes(self) -> tuple[str, ...]:
        """What a reader of its numbers should know: what is in none of them, and what no file states."""
        return (*self.said(), *(f"{self.name}: {each}" for each in self.filled))

    @property
    def layers(self) -> int:
        """How many there are."""
        return sum(each.count for each in self.blocks)

    @property
    def embedding_parameters(self) -> int:
        """Of the table of tokens, that of positions, and that of each layer's own embedding."""
        return (self.vocabulary + self.positions) * self.hidden + self.side_vocabulary * self.side_width

    @property
    def side_width(self) -> int:
        """Elements of the embeddings that layers have of their own, of all layers."""
        return sum(each.count * each.side for each in self.blocks)

    @property
    def head_parameters(self) -> int:
        """Of the product at the end, where it has weights of its own."""
        return (0 if self.tied else self.vocabulary * self.hidden) + self.vocabulary * self.head_bias

    @property
    def norm_parameters(self) -> int:
        """Of one normalisation."""
        return self.hidden * (2 if self.layer_norm else 1)

    @property
    def parameters(self) -> int:
        """All that the model holds."""
        layers = sum(each.count * each.parameters(self.hidden, self.norm_parameters) for each in self.blocks)
        towers = sum(each.parameters() for each in (self.encoder, self.tower) if each is not None)
        norms = self.norm_parameters * (1 + self.embedding_norm)
        sides = {each.side for each in self.blocks if each.side}
        norms += self.hidden * self.side_width + sum(sides)  # what brings the token's own vector to them, its norm
        return layers + self.embedding_parameters + self.head_parameters + norms + self.relative + towers

    @property
    def active_parameters(self) -> int:
        """Of them, those that one token meets."""
        idle = sum(
            each.count * (each.feed.parameters(self.hidden) - each.feed.active_parameters(self.hidden))
            for each in self.blocks
            if isinstance(each.feed, Experts)
        )
        return self.parameters - idle
