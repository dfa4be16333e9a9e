"""Several residual streams beside the layers of a model, of which each layer reads one mixture."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HyperConnections:
    """Manifold-constrained hyper-connections (DeepSeek-V4): each part reads a mixture of all, and adds to all.

    Attributes:
        count: streams.
        mixes: whether they are mixed with each other too, or go on as they are (Hunyuan 4).
        averaged: whether the last layer's are joined by their mean (GLM-5.3), rather than by numbers made of them.
    """

    count: int
    mixes: bool = True
    averaged: bool = False

    @property
    def numbers(self) -> int:
        """Numbers that say how they are mixed: what a part reads, where it adds, what goes on to which."""
        return (2 + self.count * self.mixes) * self.count

    def parameters(self, hidden: int, parts: int) -> int:
        """Of what makes these numbers of the streams, before each of a layer's `parts`; a scale by sort."""
        return parts * (self.numbers * (self.count * hidden + 1) + 2 + self.mixes)

    def ending(self, hidden: int) -> int:
        """Parameters of what joins the streams after the last layer."""
        return 0 if self.averaged else self.count * (self.count * hidden + 1) + 1


@dataclass(frozen=True, slots=True)
class AltUp:
    """Alternating updates (arXiv:2301.13310): all streams are foretold, one passes the layer, all are put right.

    Attributes:
        count: streams.
        rank: of a learnt residual beside attention (LAuReL, arXiv:2411.07501).
    """

    count: int
    rank: int

    def parameters(self, hidden: int, parts: int) -> int:
        """Of one layer: both tables of coefficients, their router and norm, a scale, the learnt residual."""
        return (self.count + self.count**2) * self.count + hidden * (self.count + 2) + hidden * (2 * self.rank + 1)

    def ending(self, hidden: int) -> int:
        """Parameters of the products that make the other streams of the first, and one of all at the end."""
        return 2 * (self.count - 1) * hidden**2


Streams = HyperConnections | AltUp
