"""Fields of a model's configuration by their usual names, read with errors that say which and where."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rooflab.errors import RooflabError

# Each field by the name that most files give it, then what others call it.
_NAMES: dict[str, tuple[str, ...]] = {
    "hidden_size": ("n_embd", "d_model", "dim", "model_dim"),
    "num_hidden_layers": ("n_layer", "n_layers", "num_layers", "decoder_layers"),
    "num_attention_heads": ("n_head", "n_heads", "num_heads", "decoder_attention_heads", "attention_heads"),
    "num_key_value_heads": (
        "num_kv_heads", "n_head_kv", "n_kv_heads", "multi_query_group_num", "num_attention_groups",
    ),
    "intermediate_size": ("n_inner", "ffn_dim", "d_ff", "ffn_hidden_size", "decoder_ffn_dim"),
    "vocab_size": ("padded_vocab_size",),
    "head_dim": ("kv_channels", "d_kv"),
    "qkv_bias": ("add_qkv_bias", "use_qkv_bias"),
    "use_bias": ("bias",),
    "max_position_embeddings": (
        "n_positions", "seq_length", "max_seq_len", "max_target_positions", "max_sequence_length",
    ),
    "num_local_experts": ("num_experts", "n_routed_experts", "moe_num_experts"),
    "num_experts_per_tok": (
        "num_experts_per_token", "moe_topk", "top_k_experts", "experts_per_token", "moe_top_k",
    ),
    "moe_intermediate_size": ("expert_intermediate_size", "expert_ffn_hidden_size"),
    "n_shared_experts": ("num_shared_experts", "moe_num_shared_experts"),
    "first_k_dense_replace": ("num_dense_layers",),
    "moe_shared_expert_intermediate_size": ("shared_experts_intermediate_size",),
    "share_expert_dim": ("share_expert_dims",),
}  # fmt: skip


def names_of(name: str) -> tuple[str, ...]:
    """All names of the field that one of them is `name` of: itself alone where it has no other."""
    for first, others in _NAMES.items():
        if name == first or name in others:
            return (first, *others)
    return (name,)


class Fields:
    """A configuration's fields; `source` names it in errors, `asked` are the names that were looked for."""

    def __init__(self, values: Mapping[str, Any], source: str) -> None:
        """Read nothing yet."""
        self.values, self.source = values, source
        self.asked: set[str] = set()

    def get(self, name: str) -> Any:
        """The value of the first of the names of field `name` that is there; None where none is."""
        names = (name, *_NAMES.get(name, ()))
        self.asked.update(names)
        for each in names:
            if self.values.get(each) is not None:
                return self.values[each]
        return None

    def maybe(self, name: str) -> int | None:
        """A whole number above 0, or None where the field is not there.

        Raises:
            RooflabError: anything else.
        """
        found = self.get(name)
        if found is None:
            return None
        if isinstance(found, bool) or not isinstance(found, (int, float)) or found != int(found) or found < 1:
            raise RooflabError(f"{self.source}: {name} is {found!r}, expected a whole number above 0")
        return int(found)

    def size(self, name: str, default: int | None = None) -> int:
        """A whole number above 0, or `default`.

        Raises:
            RooflabError: it is missing without a default, or is no such number.
        """
        found = self.maybe(name)
        if found is not None:
            return found
        if default is None:
            also = f" (also called {', '.join(_NAMES[name])})" if name in _NAMES else ""
            raise RooflabError(f"{self.source}: no field {name}{also}, which the model's size depends on")
        return default

    def count(self, name: str, default: int = 0) -> int:
        """A whole number of at least 0, or `default`.

        Raises:
            RooflabError: anything else.
        """
        found = self.get(name)
        if found is None:
            return default
        if isinstance(found, bool) or not isinstance(found, int) or found < 0:
            raise RooflabError(f"{self.source}: {name} is {found!r}, expected a whole number of at least 0")
        return found

    def flag(self, name: str, default: bool = False) -> bool:
        """True or false; `default` where the field is not there."""
        found = self.get(name)
        return default if found is None else bool(found)

    def layers(self) -> int:
        """How many layers there are."""
        pattern = self.get("hybrid_override_pattern")
        if isinstance(pattern, str):
            return len(pattern)
        kinds = self.get("layers_block_type")
        if self.maybe("num_hidden_layers") is None and isinstance(kinds, list):
            return len(kinds)
        return self.size("num_hidden_layers")

    def kind(self, number: int, names: tuple[str, ...] = ("layer_types", "layers_block_type")) -> str | None:
        """What the list of kinds of layers says of layer `number`; None where there is no such list.

        Raises:
            RooflabError: a list that ends before it.
        """
        for name in names:
            kind = self.listed(name, number)
            if kind is not None:
                return str(kind)
        return None

    def listed(self, name: str, number: int) -> Any:
        """What a list by layer says of layer `number`; None where there is no such list.

        Raises:
            RooflabError: a list that ends before it.
        """
        found = self.get(name)
        if not isinstance(found, list) or not found:
            return None
        if number >= len(found):
            raise RooflabError(
                f"{self.source}: {name} has {len(found)} entries, expected one for each of {self.layers()} layers"
            )
        return found[number]
