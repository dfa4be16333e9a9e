"""Latent and compressed attention of one layer of a configuration."""

from __future__ import annotations

from rooflab.errors import RooflabError
from rooflab.work.llm.fields import Fields
from rooflab.work.llm.mixers import Compressed, Latent


def latent_of(fields: Fields) -> Latent:
    """Latent attention, with its indexer where it has one."""
    return Latent(
        heads=fields.size("num_attention_heads"),
        q_rank=fields.count("q_lora_rank"),
        kv_rank=fields.size("kv_lora_rank"),
        plain=fields.size("qk_nope_head_dim"),
        rotary=fields.size("qk_rope_head_dim"),
        values=fields.size("v_head_dim"),
        index_heads=fields.count("index_n_heads"),
        index_size=fields.count("index_head_dim"),
        index_top=fields.count("index_topk"),
    )


# Kinds of DeepSeek-V4's layers: the field of a block's tokens, how many they are where no field says.
_BLOCKS = {
    "compressed_sparse_attention": ("compress_rate_csa", 4),
    "heavily_compressed_attention": ("compress_rate_hca", 128),
}


def compressed_of(fields: Fields, number: int) -> Compressed:
    """Attention of layer `number` of DeepSeek-V4.

    Raises:
        RooflabError: a kind of layer that it has none of, or a list of rates that ends before the layer.
    """
    kind, rate = _compressing(fields, number)
    picks = kind == "compressed_sparse_attention"
    return Compressed(
        heads=fields.size("num_attention_heads"),
        size=fields.size("head_dim"),
        rotary=fields.size("qk_rope_head_dim", 64),
        q_rank=fields.size("q_lora_rank"),
        window=fields.size("sliding_window"),
        rate=rate,
        overlaps=picks,
        groups=fields.size("o_groups"),
        out_rank=fields.size("o_lora_rank"),
        index_heads=fields.size("index_n_heads") if picks else 0,
        index_size=fields.size("index_head_dim") if picks else 0,
        index_top=fields.size("index_topk") if picks else 0,
    )


def _compressing(fields: Fields, number: int) -> tuple[str, int]:
    """The kind of a layer and how many tokens a block has: of `layer_types`, of a rate by layer, or in turn."""
    kind, rate = fields.kind(number), fields.listed("compress_ratios", number)
    if kind is None and rate is not None:
        kind = {0: "sliding_attention", 4: "compressed_sparse_attention", 128: "heavily_compressed_attention"}.get(
            rate, f"compress_ratios {rate}"
        )
    elif kind is None:  # two that compress heavily, then both sorts in turn
        kind = "compressed_sparse_attention" if number > 1 and number % 2 else "heavily_compressed_attention"
    if kind == "sliding_attention":
        return kind, 0
    if kind not in _BLOCKS:
        raise RooflabError(
            f"{fields.source}: layer {number} is of kind {kind!r}, expected sliding_attention, "
            f"{' or '.join(_BLOCKS)}"
        )
    name, usual = _BLOCKS[kind]
    stated = fields.get("compress_rates")
    by_kind = Fields(stated if isinstance(stated, dict) else {}, f"{fields.source}: compress_rates")
    return kind, by_kind.size(kind, fields.size(name, usual))
