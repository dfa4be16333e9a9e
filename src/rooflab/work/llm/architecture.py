"""What a language model is made of: blocks of a mixer and a feed-forward part, counted, with their sizes.

Sizes are those of the whole model; what one rank of a layout holds is reckoned in `model.parallel`.
"""

from __future__ import annotations

from dataclasses import dataclass

from rooflab.errors import RooflabError
from rooflab.work.llm.mixers import Attention, Mixer
from rooflab.work.llm.streams import Streams


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
        width: size of the vectors that the chosen ones meet, to and from which each token is projected (latent
            experts: Nemotron 3, Muse Spark); 0 for the hidden size.
        image_inner: inner size of as many experts again, which only tokens of images meet (ERNIE 4.5 VL); 0 for
            none.
        shared_gate: whether a gate of one number weighs what they give.
        bias, router_bias: whether experts and router have one.
        idle: what the router may choose beside them that gives back what it gets (LongCat's zero-computation
            experts); `chosen` counts without these, in the mean.
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
    idle: int = 0
    repeated: float = 0.0
    width: int = 0
    image_inner: int = 0

    @property
    def scored(self) -> int:
        """How many the router tells apart."""
        return self.count + self.idle

    def parameters(self, hidden: int) -> int:
        """Of all experts, what is shared, and the router."""
        shared = Mlp(self.shared, self.gated).parameters(hidden) if self.shared else 0
        own = self.count * self.of_one(hidden) + shared + 2 * hidden * self.width + self.of_images(hidden)
        return own + self.scored * (hidden + self.router_bias) + hidden * self.shared_gate

    def of_one(self, hidden: int) -> int:
        """Parameters of one of them."""
        return Mlp(self.inner, self.gated, self.bias).parameters(self.width or hidden)

    def of_images(self, hidden: int) -> int:
        """Parameters of what only tokens of images meet, with a router of their own."""
        if not self.image_inner:
            return 0
        return self.count * (Mlp(self.image_inner, self.gated, self.bias).parameters(hidden) + hidden)

    def active_parameters(self, hidden: int) -> int:
        """Of what one token of text meets."""
        idle = (self.count - self.chosen) * self.of_one(hidden) + self.of_images(hidden)
        return self.parameters(hidden) - idle


@dataclass(frozen=True, slots=True)
class Block:
    """`count` layers that are alike: norms, a mixer, a feed-forward part; either may be missing.

    Attributes:
        cross: attention to an encoder between the two.
        norms: how many normalisations of the hidden size there are.
        parallel: whether both read the same normalised input and are added together (GPT-J, Falcon, Cohere).
        side: elements of a second embedding of each token, which every layer has of its own and mixes in by two
            products (Gemma 4's per-layer inputs); 0 for none.
        beside: a second mixer that reads what the first does; their results are added (Falcon-H1).
        streams: residual ones beside the layer; None for the usual single residual.
    """

    count: int
    mixer: Mixer | None
    feed: Mlp | Experts | None
    cross: Attention | None = None
    norms: int = 2
    parallel: bool = False
    side: int = 0
    streams: Streams | None = None
    beside: Mixer | None = None

    @property
    def mixers(self) -> tuple[Mixer, ...]:
        """What mixes tokens in it: none, one, or two side by side."""
        return tuple(each for each in (self.mixer, self.beside) if each is not None)

    def parameters(self, hidden: int, norm_parameters: int) -> int:
        """Of one layer."""
        parts = [each for each in (*self.mixers, self.cross, self.feed) if each is not None]
        own = sum(each.parameters(hidden) for each in parts) + self.stream_parameters(hidden)
        return own + self.norms * norm_parameters + 2 * hidden * self.side

    def stream_parameters(self, hidden: int) -> int:
        """Of what mixes residual streams around its parts."""
        parts = (self.mixer is not None) + (self.feed is not None)
        return self.streams.parameters(hidden, parts) if self.streams else 0


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
    def streams(self) -> Streams | None:
        """The residual streams that its layers have in common; None for the usual single residual."""
        return next((each.streams for each in self.blocks if each.streams), None)

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
        streams = self.streams.ending(self.hidden) if self.streams else 0
        return layers + self.embedding_parameters + self.head_parameters + norms + streams + self.relative + towers

    @property
    def active_parameters(self) -> int:
        """Of them, those that one token meets."""
        idle = sum(
            each.count * (each.feed.parameters(self.hidden) - each.feed.active_parameters(self.hidden))
            for each in self.blocks
            if isinstance(each.feed, Experts)
        )
        return self.parameters - idle
