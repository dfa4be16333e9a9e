"""Encoders beside a language model, read from a configuration: of text, of sound, of images."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rooflab.work.llm import layers
from rooflab.work.llm.architecture import Attention, Block, Mlp, Tower
from rooflab.work.llm.families import Family
from rooflab.work.llm.fields import Fields


def encoder_of(family: Family, word: str, fields: Fields) -> Tower | None:
    """The encoder that a decoder attends to; None for a model without."""
    if family.mixer not in ("t5", "whisper"):
        return None
    hidden = fields.size("hidden_size")
    heads = fields.size("encoder_attention_heads", fields.size("num_attention_heads"))
    size = fields.size("d_kv", hidden // heads)
    attention = Attention(
        heads,
        heads,
        size,
        size,
        bias=bool(family.bias),
        out_bias=bool(family.out_bias),
        rotates=False,
        causal=False,
    )
    feed = layers.dense_of(family, word, fields)
    inner = fields.size("encoder_ffn_dim", feed.inner)
    feed = Mlp(inner, feed.gated, feed.bias, feed.gate_bias)
    count = fields.size("encoder_layers", fields.size("num_layers", fields.layers()))
    sound = word == "whisper"
    bins = fields.size("num_mel_bins", 80) if sound else 0
    return Tower(
        sort="sound" if sound else "text",
        hidden=hidden,
        blocks=(Block(count, attention, feed),),
        # Two convolutions over three time steps each: of all bins, then of all channels.
        patch_inputs=3 * (bins + hidden) if sound else 0,
        positions=fields.size("max_source_positions", 1500) if sound else 0,
        layer_norm=family.layer_norm,
        relative=relative_of(word, fields),
    )


def relative_of(word: str, fields: Fields) -> int:
    """Numbers of a stack's table of relative positions: T5 has one, shared by its layers."""
    if word != "t5":
        return 0
    return fields.size("relative_attention_num_buckets", 32) * fields.size("num_attention_heads")


def tower_of(config: Mapping[str, Any], hidden: int) -> Tower | None:
    """The tower that turns images into tokens of the language model; None where there is none."""
    found = config.get("vision_config")
    if not isinstance(found, Mapping):
        return None
    fields = Fields(found, "vision_config")
    width = fields.maybe("embed_dim") or fields.size("hidden_size", 0) or 0
    if config.get("model_type") in ("qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe"):
        width = fields.size("hidden_size")
    heads = fields.size("num_attention_heads", fields.size("num_heads", 16))
    size = width // heads
    count = fields.size("depth", fields.size("num_hidden_layers", 1))
    inner = fields.size("intermediate_size", int(width * float(found.get("mlp_ratio", 4))))
    gated = "silu" in str(found.get("hidden_act", "")) or config.get("model_type") == "pixtral"
    attention = Attention(heads, heads, size, size, bias=True, out_bias=True, rotates=False, causal=False)
    patch = fields.size("patch_size", 14)
    inputs = fields.size("in_channels", fields.size("num_channels", 3)) * patch * patch
    inputs *= fields.size("temporal_patch_size", 1)
    merge = fields.size("spatial_merge_size", 1) ** 2
    return Tower(
        sort="image",
        hidden=width,
        blocks=(Block(count, attention, Mlp(inner, gated, True, True)),),
        patch_inputs=inputs,
        merge=merge,
        project=(width * merge, width * merge, hidden) if merge > 1 else (width, hidden),
    )
