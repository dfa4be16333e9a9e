"""Number formats of weights: how many bits each takes with its scales, and what multiplies them."""

from __future__ import annotations

import functools
import tomllib
from dataclasses import dataclass
from importlib import resources

import msgspec

from rooflab.errors import UnknownNameError
from rooflab.types.source import Source


@dataclass(frozen=True, slots=True)
class WeightFormat:
    """How weights are stored and multiplied.

    Attributes:
        name: as engines and files call it, in lower case.
        bits: of one weight, its share of the scales included.
        multiplies: the number format that both operands have when they meet.
        activations: "" where they come as they are; what they are scaled by: "tensor", "token" or "block".
        source: where the numbers come from.
        calls: of PyTorch that a product is, where each operation is a call of its own.
        widens: whether weights that meet several rows are written in 16 bits first.
        head: the format that published files have in the head beside it; "" where nothing else is said.
    """

    name: str
    bits: float
    multiplies: str
    source: Source
    activations: str = ""
    calls: float = 1.0
    widens: bool = False
    head: str = ""

    @property
    def nbytes(self) -> float:
        """Bytes of one weight."""
        return self.bits / 8


@functools.cache
def table() -> dict[str, WeightFormat]:
    """All formats by name."""
    text = (resources.files("rooflab.work.llm") / "formats.toml").read_text(encoding="utf-8")
    raw = tomllib.loads(text)
    sources = {name: msgspec.convert(each, Source) for name, each in raw["sources"].items()}
    return {
        name: WeightFormat(
            name=name,
            bits=float(each["bits"]),
            multiplies=each["multiplies"],
            source=sources[each["source"]],
            activations=each.get("activations", ""),
            calls=float(each.get("calls", 1.0)),
            widens=bool(each.get("widens")),
            head=each.get("head", ""),
        )
        for name, each in raw["formats"].items()
    }


_ALSO = {
    "float16": "fp16",
    "bfloat16": "bf16",
    "float32": "fp32",
    "f32": "fp32",
    "fp4": "nvfp4",
    "int4": "int4_wo",
    "awq": "int4_wo",
    "gptq": "int4_wo",
    "w8a8": "int8",
    "w4a16": "int4_wo",
    "w8a16": "int8_wo",
    "load_in_8bit": "bnb_int8",
    "load_in_4bit": "bnb_nf4",
    "nf4": "bnb_nf4",
}


_SIZES = ("xxs", "xs", "s", "m", "l", "xl")  # of GGUF's mixtures


def weight_format(name: str) -> WeightFormat:
    """The format called `name`.

    Raises:
        UnknownNameError: no such format, with near matches.
    """
    known = table()
    key = name.casefold().replace("-", "_")
    # GGUF's mixtures (Q4_K_M) are named after what most of their tensors have.
    stem, _, size = key.rpartition("_")
    for each in (key, _ALSO.get(key, ""), stem if size in _SIZES else ""):
        if each in known:
            return known[each]
    raise UnknownNameError("weight format", name, [*known, *_ALSO])
