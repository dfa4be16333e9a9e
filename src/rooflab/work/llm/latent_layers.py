"""Latent and compressed attention of one layer of a configuration."""

from __future__ import annotations

from rooflab.errors import RooflabError
from rooflab.work.llm.families import Family
from rooflab.work.llm.fields import Fields
from rooflab.work.llm.mixers import Compressed, Latent


def latent_of(family: Family, fields: Fields, number: int) -> Latent:
    """Latent attention of layer `number`, with its indexer where it has one of its own."""
    plain, rotary, values = (
        fields.size("qk_nope_head_dim"),
        fields.count("qk_rope_head_dim"),
        fields.size("v_head_dim"),
    )
    if fields.listed("no_rope_layers", number) == 0:  # no positions: all of a head is plain (Mistral Large 4)
        plain, rotary = plain + rotary, 0
    source = fields.listed("kv_source_layers", number)
    scores = _scores_itself(fields, number)
    return Latent(
        heads=fields.size("num_attention_heads"),
        q_rank=fields.count("q_lora_rank"),
        kv_rank=fields.size("kv_lora_rank"),
        plain=plain,
        rotary=rotary,
        values=values,
        index_heads=fields.count("index_n_heads") if scores else 0,
        index_size=fields.count("index_head_dim") if scores else 0,
        index_top=fields.count("index_topk"),
        index_pool=fields.size("index_kpool", 1),
        gate={"element": values, "head": 1}.get(family.gate, 0),
        sinks=fields.get("learnable_sink_init") is not None,
        borrows=source is not None and source != number,
    )


def _scores_itself(fields: Fields, number: int) -> bool:
    """Whether a layer's indexer is its own: else it sees what the last one before picked (arXiv:2603.12201).

    By the kinds of `indexer_types`, a pattern of F and S, or every so many layers.
    """
    kind, pattern = fields.listed("indexer_types", number), fields.get("index_topk_pattern")
    every, offset = fields.size("index_topk_freq", 1), fields.count("index_skip_topk_offset", 2)
    if kind is not None:
        return kind != "shared"
    if isinstance(pattern, str) and pattern:
        if number >= len(pattern):
            raise RooflabError(
                f"{fields.source}: index_topk_pattern has {len(pattern)} letters, expected one for each of "
                f"{fields.layers()} layers"
            )
        return pattern[number] != "S"
    return max(number - offset + 1, 0) % every == 0


# Fields of the indexer of blocks of keys, and what MiniMax's own files call them in `sparse_attention_config`.
_OF_BLOCKS = {
    "index_n_heads": "sparse_num_index_heads",
    "index_head_dim": "sparse_index_dim",
    "index_block_size": "sparse_block_size",
    "index_topk_blocks": "sparse_topk_blocks",
}


def blocks_of(fields: Fields, number: int) -> tuple[int, int, int]:
    """Of layer `number`'s indexer of blocks of keys: its heads, their size, keys picked; 0 for none."""
    inside, kind = fields.get("sparse_attention_config"), fields.kind(number)
    if not isinstance(inside, dict) and fields.maybe("index_topk_blocks") is None:
        return 0, 0, 0
    own = Fields(inside if isinstance(inside, dict) else {}, f"{fields.source}: sparse_attention_config")
    stated = {name: fields.maybe(name) for name in _OF_BLOCKS}
    listed = own.listed("sparse_attention_freq", number) if inside else None
    if not (listed if kind is None else kind == "minimax_m3_sparse"):
        return 0, 0, 0
    heads, size, block, best = (stated[name] or own.size(other) for name, other in _OF_BLOCKS.items())
    return heads, size, block * best


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
