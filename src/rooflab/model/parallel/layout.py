"""How a model is laid out over devices, and what share of it one rank holds."""

from __future__ import annotations

from dataclasses import dataclass

from rooflab.errors import RooflabError
from rooflab.work.llm.architecture import Architecture, Experts
from rooflab.work.llm.mixers import Attention, Mixer, Recurrent


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Ways in which layers, experts, tokens and sequences are divided among the devices of one copy of a model.

    Attributes:
        tensor: ranks that share the heads and inner sizes of a layer (Shoeybi et al., arXiv:1909.08053).
        pipeline: stages of layers.
        experts: ranks among which whole experts are divided.
        expert_tensor: ranks that share the inner size of an expert; None for what is left of the ranks.
        data: groups of ranks whose attention takes sequences of its own, while experts are shared by all.
        context: ranks among which the tokens of one sequence are divided.
        sequence: whether norms between tensor-parallel products work on a share of the tokens each.
    """

    tensor: int = 1
    pipeline: int = 1
    experts: int = 1
    expert_tensor: int | None = None
    data: int = 1
    context: int = 1
    sequence: bool = False

    def __post_init__(self) -> None:
        """Refuse ways that do not divide the ranks.

        Raises:
            RooflabError: a way below 1, or experts that do not take all ranks of a stage.
        """
        for name in ("tensor", "pipeline", "experts", "data", "context"):
            ways = getattr(self, name)
            if not isinstance(ways, int) or ways < 1:
                raise RooflabError(f"layout: {name}={ways!r}, expected a whole number above 0")
        if self.sequence and self.tensor == 1:
            raise RooflabError(
                "layout: sequence parallelism shares norms among tensor-parallel ranks, of which is one"
            )
        if self.stage_ranks % self.experts or (
            self.expert_tensor is not None and self.experts * self.expert_tensor != self.stage_ranks
        ):
            raise RooflabError(
                f"layout: {self.experts} expert ways over {self.stage_ranks} ranks of a stage (tensor "
                f"{self.tensor} x data {self.data} x context {self.context}): expected a divisor of the ranks"
                + ("" if self.expert_tensor is None else f", times {self.expert_tensor} expert-tensor ways")
            )

    @property
    def stage_ranks(self) -> int:
        """Devices of one stage."""
        return self.tensor * self.data * self.context

    @property
    def ranks(self) -> int:
        """Devices of one copy of the model."""
        return self.stage_ranks * self.pipeline

    @property
    def expert_tensor_ranks(self) -> int:
        """Ranks that share an expert."""
        return self.expert_tensor or self.stage_ranks // self.experts

    @property
    def name(self) -> str:
        """Such as "TP4 EP2", "1 device"."""
        words = {"TP": self.tensor, "PP": self.pipeline, "EP": self.experts, "DP": self.data, "CP": self.context}
        said = [f"{word}{ways}" for word, ways in words.items() if ways > 1]
        return " ".join([*said, *(["SP"] if self.sequence else [])]) or "1 device"


def check(model: Architecture, layout: Layout) -> None:
    """Whether `model` can be laid out so.

    Raises:
        RooflabError: heads that do not divide, more expert ways than experts, more stages than layers.
    """
    ways = layout.tensor
    if layout.pipeline > model.layers:
        raise RooflabError(f"{model.name}: {layout.pipeline} pipeline stages for {model.layers} layers")
    if layout.context > 1 and any(
        isinstance(mixer, Recurrent) for block in model.blocks for mixer in block.mixers
    ):
        raise RooflabError(
            f"{model.name}: {layout.context} context-parallel ranks: linear layers go through a sequence in order"
        )
    experts = False
    for block in model.blocks:
        feed = block.feed
        for mixer in block.mixers:
            _divides(model, mixer, ways)
        if isinstance(feed, Experts):
            experts = True
            if layout.experts > feed.count:
                raise RooflabError(
                    f"{model.name}: {layout.experts} expert-parallel ranks for {feed.count} experts: at most "
                    f"{feed.count}"
                )
    if layout.experts > 1 and not experts:
        raise RooflabError(f"{model.name} has no experts: {layout.experts} expert-parallel ranks share nothing")


def _divides(model: Architecture, mixer: Mixer, ways: int) -> None:
    """Whether what mixes tokens can be divided over so many tensor-parallel ranks.

    Raises:
        RooflabError: heads or channels that do not divide.
    """
    if mixer.divided:
        _heads(model, mixer.divided, ways)
    if isinstance(mixer, Attention):
        fewer, more = sorted((mixer.kv_heads, ways))
        if more % fewer:
            raise RooflabError(
                f"{model.name}: {mixer.kv_heads} heads of keys and values over {ways} tensor-parallel ranks: "
                f"expected one to divide the other; try {_nearest(mixer.kv_heads, ways)}"
            )


def _heads(model: Architecture, heads: int, ways: int) -> None:
    if heads % ways:
        raise RooflabError(
            f"{model.name}: {heads} heads over {ways} tensor-parallel ranks: {heads} is not divisible by {ways}; "
            f"try {_nearest(heads, ways)}"
        )


def _nearest(count: int, ways: int) -> str:
    """The divisors of `count` next to `ways`."""
    divisors = [each for each in range(1, count + 1) if count % each == 0]
    below = max((each for each in divisors if each < ways), default=None)
    above = min((each for each in divisors if each > ways), default=None)
    return " or ".join(str(each) for each in (below, above) if each is not None)


def share(size: int, ways: int) -> float:
    """Of `size` things over `ways` ranks, what the fullest rank has (fractions of heads are shared tokens)."""
    return max(-(-size // ways), 1)
