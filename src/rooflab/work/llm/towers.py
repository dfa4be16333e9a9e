"""Encoders beside a language model, read from a configuration: of text, of sound, of images."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rooflab.errors import RooflabError
from rooflab.work.llm import defaults, feeds
from rooflab.work.llm.architecture import Block, Mlp, Tower
from rooflab.work.llm.families import Family
from rooflab.work.llm.fields import Fields
from rooflab.work.llm.mixers import Attention


def encoder_of(family: Family, word: str, fields: Fields) -> Tower | None:
    """The encoder that a decoder attends to; None for a model without."""
    if family.mixer not in ("t5", "whisper"):
        return None
    hidden = fields.size("hidden_size")
    heads = fields.size("encoder_attention_heads", fields.size("num_attention_heads"))
    size = fields.size("head_dim", hidden // heads)
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
    feed = feeds.dense_of(family, word, fields)
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


# Towers whose feed-forward part has a gate, whatever its activation is called.
_GATED = ("pixtral",)
# Towers whose projections add no bias.
_BARE = ("pixtral",)
# Towers with a learnt table of one position for each patch, and of one more for the token of the class.
_POSITIONS = {
    "siglip_vision_model": 0, "idefics2_vision": 0, "idefics3_vision": 0, "smolvlm_vision": 0,
    "clip_vision_model": 1, "internvl_vision": 1, "blip_2_vision_model": 1, "llama4_vision_model": 1,
}  # fmt: skip


def tower_of(config: Mapping[str, Any], hidden: int) -> Tower | None:
    """The tower that turns images into tokens of the language model; None for none, or one without stated layers.

    Raises:
        RooflabError: a size in its section that is no whole number above 0.
    """
    found = config.get("vision_config")
    if not isinstance(found, Mapping):
        return None
    found = {**defaults.left_out(config, "vision_config"), **found}
    outer, kind = Fields(config, "config"), defaults.type_of(config, "vision_config")
    fields = Fields({name: _one(value) for name, value in found.items()}, "vision_config")
    word = defaults.word(config.get("model_type"))
    width = fields.maybe("embed_dim") or fields.maybe("hidden_size") or fields.maybe("width") or 0
    if not width:
        raise RooflabError("vision_config: no field hidden_size (also called embed_dim, width)")
    if word in ("qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe"):
        width = fields.size("hidden_size")
    heads = fields.size("num_attention_heads", fields.size("num_heads", 16))
    size = width // heads
    count = fields.maybe("depth") or fields.maybe("num_hidden_layers") or fields.maybe("layers")
    if count is None:  # convolutions, or another library's model by its name
        return None
    inner = fields.size("intermediate_size", int(width * float(found.get("mlp_ratio", 4))))
    if kind.startswith(
        "glm4v"
    ):  # there `intermediate_size` is of what joins patches, and the layers' is the result's
        inner = fields.size("out_hidden_size", inner)
    gated = "silu" in str(found.get("hidden_act", "")) or kind in _GATED
    bias = kind not in _BARE
    attention = Attention(heads, heads, size, size, bias=bias, out_bias=bias, rotates=False, causal=False)
    patch = fields.size("patch_size", 14)
    inputs = fields.size("in_channels", fields.size("num_channels", 3)) * patch * patch
    inputs *= fields.size("temporal_patch_size", 1)
    patches = (fields.size("image_size", 0) // patch) ** 2 if fields.maybe("image_size") else 0
    merge, project = _projected(word, kind, width, hidden, patches, fields, outer)
    positions = fields.maybe("num_position_embeddings") or 0
    if kind in _POSITIONS and patches:
        positions = patches + _POSITIONS[kind]
    indexes = found.get("deepstack_visual_indexes")
    return Tower(
        sort="image",
        hidden=width,
        blocks=(Block(count, attention, Mlp(inner, gated, bias, bias)),),
        patch_inputs=inputs,
        merge=merge,
        project=project,
        projections=1 + (len(indexes) if isinstance(indexes, list) else 0),
        positions=positions,
    )


def _one(value: Any) -> Any:
    """A size that is stated for both sides of an image, once; anything else as it is."""
    same = isinstance(value, list) and len(value) == 2 and value[0] == value[1]
    return value[0] if same and isinstance(value[0], int) else value


def _projected(
    word: str, kind: str, width: int, hidden: int, patches: int, fields: Fields, outer: Fields
) -> tuple[int, tuple[int, ...]]:
    """How many patches become one token, and the sizes of the products that make it of them."""
    merge = fields.size("spatial_merge_size", fields.size("merge_kernel_size", 1)) ** 2
    if word in ("gemma3", "shieldgemma2") and patches:  # patches are averaged to so many tokens of an image
        return max(1, patches // outer.size("mm_tokens_per_image", 256)), (width, hidden)
    if word in ("idefics3", "smolvlm"):
        merge = outer.size("scale_factor", 2) ** 2
        return merge, (width * merge, hidden)
    if word in ("muse_glimmer", "muse_spark"):
        merge, into = fields.size("merge_size", 2) ** 2, outer.size("projector_hidden_size", 4096)
        return merge, (width * merge, into, into, hidden)
    if word in ("mistral3", "mistral_large4", "lighton_ocr"):
        merge = outer.size("spatial_merge_size", 2) ** 2
        return merge, (width * merge, width, hidden, hidden)
    if word in ("internvl", "qianfan_ocr"):
        merge = round(1.0 / float(outer.get("downsample_ratio") or 0.5)) ** 2
        return merge, (width * merge, hidden, hidden)
    if word == "llama4":
        merge = round(1.0 / float(fields.get("pixel_shuffle_ratio") or 0.5)) ** 2
        into = fields.size("projector_input_dim", 4096)
        return merge, (width * merge, into, fields.size("projector_output_dim", into), hidden)
    if kind.startswith(("glm4v", "glm5_next")):  # a gated part: three products of one size, as two of 1.5
        out = fields.size("out_hidden_size", hidden)
        inner = fields.size("projection_intermediate_size", fields.maybe("intermediate_size"))
        return merge, (width * merge, out, out, 3 * inner // 2, out)
    if word in _TWO_PRODUCTS:
        return merge, (width, hidden, hidden)
    return merge, ((width * merge, width * merge, hidden) if merge > 1 else (width, hidden))


# Models with two products between the tower and the language model, the second as wide as the model.
_TWO_PRODUCTS = ("llava", "llava_next", "llava_next_video", "llava_onevision", "vipllava", "video_llava")
