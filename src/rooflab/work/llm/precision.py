"""In which number formats the parts of a model are stored and computed."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rooflab.errors import UnknownNameError
from rooflab.work.llm.architecture import Architecture
from rooflab.work.llm.formats import WeightFormat, weight_format

CACHES = {"bf16": 2.0, "fp16": 2.0, "fp8": 1.0, "int8": 1.0, "q8_0": 1.0625, "fp32": 4.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Precision:
    """Formats by part; made by `precision`.

    Attributes:
        linear: of dense layers; `attention` of its projections; `experts` of routed experts.
        result: of the last of attention's projections, where it is another than that of the others.
        draft: of the layer that makes drafts, where it is another than that of the others.
        head: of the product with the vocabulary; `embedding` of the table of tokens.
        cache: number format of keys and values.
    """

    linear: WeightFormat
    attention: WeightFormat
    experts: WeightFormat
    head: WeightFormat
    embedding: WeightFormat
    cache: str = "bf16"
    result: WeightFormat | None = None
    draft: WeightFormat | None = None

    @property
    def drafting(self) -> Precision:
        """Of the layer that makes drafts."""
        of = self.draft
        return self if of is None else replace(self, linear=of, attention=of, experts=of, result=None)

    @property
    def of_result(self) -> WeightFormat:
        """Of the projection of what attention gives."""
        return self.result or self.attention

    @property
    def name(self) -> str:
        """That of the weights of dense layers, and of the experts' where they differ."""
        same = self.experts.name == self.linear.name
        return self.linear.name if same else f"{self.linear.name}, experts {self.experts.name}"

    @property
    def cache_bytes(self) -> float:
        """Of one element of the cache."""
        return CACHES[self.cache]


def precision(
    weights: str = "bf16",
    *,
    attention: str | None = None,
    experts: str | None = None,
    head: str | None = None,
    cache: str = "bf16",
) -> Precision:
    """Formats by name: dense layers in `weights`, the others too where nothing else is said.

    The head and the embedding stay in 16 bits, as published checkpoints keep them, but in GGUF's blocks where the
    weights have those; EXL2's head has six.

    Raises:
        UnknownNameError: an unknown format, with near matches.
    """
    if cache not in CACHES:
        raise UnknownNameError("format of the cache", cache, CACHES)
    linear = weight_format(weights)
    blocks = "llama.cpp" in linear.source.ref
    outer = linear if blocks else weight_format("bf16")
    return Precision(
        linear=linear,
        attention=weight_format(attention) if attention else linear,
        experts=weight_format(experts) if experts else linear,
        head=weight_format(head or linear.head or outer.name),
        embedding=outer,
        cache=cache,
    )


def stored(model: Architecture, cache: str = "bf16") -> Precision:
    """The formats that `model` is published in; of a GGUF file those of its tensors."""
    found = precision(model.stored, experts=model.expert_stored, cache=cache)
    parts = {part: replace(weight_format(word), bits=bits) for part, word, bits in model.formats}
    return replace(found, **parts)
