"""A serving engine's habits, read from its data file: which kernels it joins, what its host does between steps."""

from __future__ import annotations

import functools
import math
import tomllib
from dataclasses import dataclass, fields
from importlib import resources
from typing import Any

import msgspec

from rooflab.errors import RooflabError, UnknownNameError, squash
from rooflab.model.file_heads import heads
from rooflab.model.peers import PeerSums
from rooflab.types.constants import Constant
from rooflab.types.source import Source
from rooflab.units import parse_any
from rooflab.work.llm.formats import WeightFormat


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """What an engine makes of a layer, and its host's part; see the data files for each number's meaning.

    Attributes:
        name: as its makers write it; `aliases` other words for it.
        constants: each of the numbers with its meaning and source.
        attention: whose attention kernels it calls on a card of each family
            (`model.kernels.gpu.attention_libraries`); on others, those of the general model.
        experts: whose products for groups it runs on a card of each family (`model.kernels.gpu.matmul`), by
            its numbers ("half", "fp8", "block"); on others, those of the general model.
        peer_sums: which sums over ranks its own kernels take, by the card's family: see `sums`.
    """

    name: str
    aliases: tuple[str, ...]
    constants: dict[str, Constant]
    attention: dict[str, str]
    experts: dict[str, dict[str, str]]
    peer_sums: dict[str, Any]
    joins_projections: bool
    joins_norm: bool
    joins_rope_and_cache: bool
    writes_narrow: bool
    joins_scaling: bool
    joins_all_reduce: bool
    shares_keys: bool
    shared_heads: float
    narrow_prompts: bool
    peer_all_reduce: bool
    graph_tokens: float
    graphs_prompts: bool
    stream_rows: float
    one_by_one: bool
    eager: bool
    position_calls: float
    copies_keys: bool
    flash_attention: bool
    joins_operations: bool
    widens_once: bool
    experts_by_row: bool
    rows_together: bool
    splits_layers: bool
    sorting_s: float
    mask_s: float
    step_s: float
    sequence_s: float
    send_s: float
    message_s: float
    ranks_s: float
    launch_s: float
    mixes_prompts: bool
    plans_ahead: bool
    request_s: float
    serial_s: float
    prompt_token_s: float
    latent_s: float
    experts_half: float
    experts_fp8: float
    experts_block: float
    experts_widened: float
    experts_mxfp4: float
    sorting_kernels: float
    experts_fp4: float
    memory_share: float
    memory_of_rest: bool
    workspace_bytes: float

    def attention_kernel(self, family: str, *, decodes: bool, shares: bool = True) -> str:
        """The kernel that it calls on a card of that family; "" where that is not known."""
        library = self.attention.get(family)
        if library is None:
            return ""
        if not decodes:
            return f"{library}_prompts"
        return f"{library}_decode" if shares else "masked_decode"

    def latent_kernel(self, family: str, *, decodes: bool) -> str:
        """The same of latent vectors: of prompts only where their keys and values are expanded first."""
        of = {"fa": ("", "fa"), "trtllm": ("trtllm", "trtllm"), "vllm_fa": ("", "trtllm")}
        library = of.get(self.attention.get(family, ""), ("", ""))[decodes] if family == "hopper" else ""
        return f"{library}_latent_{'decode' if decodes else 'prompts'}" if library else ""

    def latent_format(self, family: str, cached_bytes: float, *, chooses: bool = False) -> str:
        """What the decoding kernel of latent attention multiplies: 8 bits beside such a cache on Blackwell.

        NVIDIA's kernels there (trtllm-gen, which all three engines call) take q in the cache's format: SGLang's
        trtllm_mla_backend brings q to 8 bits before it calls FlashInfer's trtllm_batch_decode_with_kv_cache_mla.
        Where a layer `chooses` the tokens it attends to, SGLang and vLLM call FlashMLA's kernels, which widen an
        8-bit cache first (deepseek-ai/FlashMLA, README: sparse decoding).
        """
        library = self.attention.get(family, "") if family == "blackwell" else ""
        narrow = library == "trtllm" or (library == "trtllm_gen" and not chooses)
        return "fp8" if narrow and cached_bytes == 1.0 else "bf16"

    def latent_bytes(self, family: str, cached_bytes: float) -> float:
        """Bytes of a number of the latent cache, as its kernel's time goes.

        vLLM's FlashMLA turns values in shared memory for Hopper's matrix engine where they have 8 bits: a cache of
        half the bytes is no faster there (by its table, 512 to 131,072 tokens of context).
        """
        return 2.0 if (family, self.attention.get(family)) == ("hopper", "vllm_fa") else cached_bytes

    def sums(self, family: str, ranks: int) -> PeerSums | None:
        """Which of its own kernels sum over so many ranks on a card of that family; None where none does."""
        if not self.peer_all_reduce:
            return None
        ours = self.peer_sums.get(family, self.peer_sums["any"])
        one_shot, peers, shared = (_bytes(ours.get(name, {}), ranks) for name in ("one_shot", "peers", "shared"))
        return PeerSums(
            one_shot_bytes=math.inf if ranks <= min(map(int, ours["peers"])) else one_shot or 0.0,
            peer_bytes=peers or 0.0,
            shared_bytes=shared or 0.0,
            in_switch=ranks in ours.get("in_switch", ()),
            waits=self.peer_sums.get("waits", False),
            includes=self.peer_sums.get("includes", False),
        )

    def shares(self, group: float) -> bool:
        """Whether a decoding kernel reads keys and values once for all `group` heads that share them."""
        return self.shares_keys and (not self.shared_heads or group <= self.shared_heads)

    def experts_share(self, stored: WeightFormat) -> float:
        """Rate of its products for groups of rows in that format, as a share of PyTorch's grouped product's."""
        return getattr(self, f"experts_{_part(stored)}")

    def experts_kernel(self, family: str, stored: WeightFormat) -> str:
        """The products for groups of rows that it runs on a card of that family; "" where that is not known."""
        return self.experts.get(family, {}).get(_part(stored), "") if stored.multiplies != "int8" else ""


def _bytes(limits: dict[str, str], ranks: int) -> float | None:
    """The limit for the fewest ranks that are as many; None beyond the largest."""
    at = min((int(each) for each in limits if int(each) >= ranks), default=None)
    return None if at is None else float(parse_any(limits[str(at)])[0])


def _part(stored: WeightFormat) -> str:
    """What engines tell experts apart by."""
    if stored.bits < 8 and stored.multiplies in ("bf16", "fp16"):
        return "mxfp4" if stored.name == "mxfp4" else "widened"
    if stored.multiplies == "fp8" and stored.bits >= 8:
        return "block" if stored.activations == "block" else "fp8"
    return "fp4" if stored.multiplies in ("fp8", "fp4") else "half"


_FOLDER = "rooflab.model.engines"
_HEAD = ("name", "aliases", "sources", "attention", "experts", "peer_sums")


def names() -> tuple[str, ...]:
    """The engines that have a data file."""
    return tuple(heads(_FOLDER))


def engine(name: str) -> Engine:
    """The engine called `name`.

    Raises:
        UnknownNameError: no such engine, with near matches.
    """
    known = {
        squash(word): file for file, of in heads(_FOLDER).items() for word in (file, of["name"], *of["aliases"])
    }
    found = known.get(squash(name))
    if found is None:
        raise UnknownNameError("engine", name, names())
    return load(found)


@functools.cache
def load(file: str) -> Engine:
    """The engine in the data file `file`.

    Raises:
        RooflabError: a number that is missing, unknown, or has no meaning or source.
    """
    raw = tomllib.loads((resources.files(_FOLDER) / f"{file}.toml").read_text(encoding="utf-8"))
    sources = {name: msgspec.convert(each, Source) for name, each in raw["sources"].items()}
    constants = {
        name: _constant(f"{file}.toml: {name}", each, sources) for name, each in raw.items() if name not in _HEAD
    }
    wanted = {each.name: str(each.type) for each in fields(Engine) if each.name not in (*_HEAD, "constants")}
    if wanted.keys() != constants.keys():
        raise RooflabError(f"{file}.toml: {sorted(wanted.keys() ^ constants.keys())}, expected {sorted(wanted)}")
    values: dict[str, Any] = {
        name: bool(each.value) if wanted[name] == "bool" else each.value for name, each in constants.items()
    }
    return Engine(
        name=raw["name"],
        aliases=tuple(raw["aliases"]),
        constants=constants,
        attention=raw.get("attention", {}),
        experts=raw.get("experts", {}),
        peer_sums=raw.get("peer_sums", {}),
        **values,
    )


def _constant(where: str, entry: Any, sources: dict[str, Source]) -> Constant:
    if not isinstance(entry, dict) or not {"value", "meaning", "source"} <= entry.keys():
        raise RooflabError(f"{where} needs a value, a meaning and a source, got {entry!r}")
    if entry["source"] not in sources:
        raise UnknownNameError(f"source of {where}", entry["source"], sorted(sources))
    value = entry["value"]
    number = parse_any(value)[0] if isinstance(value, str) else value
    return Constant(
        value=float(number),
        meaning=entry["meaning"],
        source=sources[entry["source"]],
        fitted=entry.get("fitted", False),
    )
