"""What a GGUF file's metadata and names of tensors say, as the fields of a config.json that says the same.

Keys and names of tensors are those of ggml-org/llama.cpp, gguf-py/gguf/constants.py; which of them an architecture
has, and what they mean there, by its conversion/*.py.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rooflab.errors import FileError

Tensors = Mapping[str, tuple[tuple[int, ...], int]]  # shape and type of each by its name

# `general.architecture` of a file: the model_type whose layers it has, where the two are not spelt alike.
ARCHITECTURES = {
    "qwen2moe": "qwen2_moe", "qwen2vl": "qwen2_vl", "qwen3moe": "qwen3_moe", "qwen3vl": "qwen3_vl",
    "qwen3vlmoe": "qwen3_vl_moe", "qwen3next": "qwen3_next", "qwen35": "qwen3_5", "qwen35moe": "qwen3_5_moe",
    "phi2": "phi", "deepseek2": "deepseek_v2", "glm-dsa": "glm_moe_dsa", "gpt-oss": "gpt_oss",
    "gptneox": "gpt_neox", "command-r": "cohere", "glm4moe": "glm4_moe", "minimax-m2": "minimax_m2",
    "starcoder": "gpt_bigcode", "granitehybrid": "granitemoehybrid", "nemotron_h_moe": "nemotron_h",
    "falcon-h1": "falcon_h1", "lfm2moe": "lfm2_moe", "bailingmoe": "bailing_moe", "bailingmoe2": "bailing_moe",
    "exaone-moe": "exaone_moe", "ernie4_5-moe": "ernie4_5_moe", "hunyuan-moe": "hunyuan_v1_moe",
    "hunyuan-dense": "hunyuan_v1_dense", "hunyuan_vl": "hunyuan_v1_dense", "kimi-linear": "kimi_linear",
    "step35": "step3p5", "mistral3": "mistral", "paddleocr": "ernie4_5", "deci": "nemotron_nas",
    "mimo2": "mimo_v2_flash",
}  # fmt: skip
# Fields of a config.json by the metadata that holds them, after the architecture's name.
_FIELDS = {
    "hidden_size": "embedding_length", "num_hidden_layers": "block_count",
    "intermediate_size": "feed_forward_length", "num_attention_heads": "attention.head_count",
    "num_key_value_heads": "attention.head_count_kv", "head_dim": "attention.key_length",
    "max_position_embeddings": "context_length", "vocab_size": "vocab_size", "num_experts": "expert_count",
    "num_experts_per_tok": "expert_used_count", "moe_intermediate_size": "expert_feed_forward_length",
    "shared_expert_intermediate_size": "expert_shared_feed_forward_length",
    "n_shared_experts": "expert_shared_count", "first_k_dense_replace": "leading_dense_block_count",
    "sliding_window": "attention.sliding_window", "q_lora_rank": "attention.q_lora_rank",
    "kv_lora_rank": "attention.kv_lora_rank", "num_kv_shared_layers": "attention.shared_kv_layers",
    "hidden_size_per_layer_input": "embedding_length_per_layer_input", "conv_L_cache": "shortconv.l_cache",
    "index_n_heads": "attention.indexer.head_count", "index_head_dim": "attention.indexer.key_length",
    "index_topk": "attention.indexer.top_k", "num_nextn_predict_layers": "nextn_predict_layers",
    "interleave_moe_layer_step": "interleave_moe_layer_step",
}  # fmt: skip
_LATENT = ("deepseek2", "glm-dsa", "mistral4", "kimi-linear")
_MAMBA = ("mamba", "mamba2")
_BESIDE = ("granitehybrid", "falcon-h1", "nemotron_h", "nemotron_h_moe")
# Whose own files state the inner size of all shared experts.
_SHARED = ("qwen2moe", "qwen3next", "qwen35moe", "laguna")
_DELTA = ("qwen3next", "qwen35", "qwen35moe")
# Whose experts are as wide as `feed_forward_length` says, which other files have for dense layers.
_ALL_EXPERTS = ("gpt-oss", "llama4")


def fields_of(metadata: Mapping[str, Any], tensors: Tensors, path: Path) -> dict[str, Any]:
    """The fields of a config.json that says the same.

    Raises:
        FileError: a list by layer that ends before the last, or one of sizes that its architecture has no list of.
    """
    word = str(metadata.get("general.architecture", ""))
    read = {name: metadata[key] for name, rest in _FIELDS.items() if (key := f"{word}.{rest}") in metadata}
    drafts = read.get("num_nextn_predict_layers", 0)
    if read.get("num_hidden_layers") and drafts:  # which llama.cpp counts among the blocks
        read["num_hidden_layers"] -= drafts
    layers = read.get("num_hidden_layers") or 0
    fields = {name: value for name, value in read.items() if value and not isinstance(value, list)}
    for name, listed in read.items():
        if isinstance(listed, list):
            fields |= _listed(name, listed[:layers], layers, f"{path}: {word}.{_FIELDS[name]}")
    if "vocab_size" not in fields and isinstance(metadata.get("tokenizer.ggml.tokens"), list):
        fields["vocab_size"] = len(metadata["tokenizer.ggml.tokens"])
    fields["model_type"] = ARCHITECTURES.get(word, word)
    if word == "llama" and fields.get("num_experts"):
        fields["model_type"] = "mixtral"
    fields |= _own(word, fields, lambda rest, default=None: metadata.get(f"{word}.{rest}", default))
    fields |= _kinds(word, metadata, tensors, layers)
    if "per_layer_token_embd.weight" in tensors:  # rows of the layers' own embedding (Gemma 3n, 4)
        fields["vocab_size_per_layer_input"] = tensors["per_layer_token_embd.weight"][0][-1]
    if "blk.0.laurel_l.weight" in tensors:  # the rank of Gemma 3n's learnt residual
        fields["laurel_rank"] = tensors["blk.0.laurel_l.weight"][0][-1]
    names = {f"blk.{number}.attn_{part}.bias" for number in range(layers) for part in ("q", "qkv")}
    if not names.isdisjoint(tensors):
        fields |= {"attention_bias": True, "attention_out_bias": "blk.0.attn_output.bias" in tensors}
        fields["qkv_bias"] = True
    fields["tie_word_embeddings"] = bool(tensors) and "output.weight" not in tensors
    return {name: value for name, value in fields.items() if value is not None}


# Lists by layer that are read as such, and what they are called then.
_LISTS = {
    "num_attention_heads": "num_attention_heads_per_layer",
    "num_key_value_heads": "num_key_value_heads_per_layer",
    "intermediate_size": "intermediate_size",
}


def _listed(name: str, values: list[Any], layers: int, what: str) -> dict[str, Any]:
    """A size by layer: 0 where a layer has no such part, else one for all, or a list."""
    if len(values) < layers:
        raise FileError(f"{what} has {len(values)} entries, expected one for each of {layers} layers")
    sizes = {each for each in values if each}
    most = max(sizes, default=0)
    if len(sizes) < 2:
        return {name: most} if most else {}
    if name not in _LISTS:
        raise FileError(f"{what} differs by layer ({min(sizes)} to {most}), which is not read for this field")
    # As a layer without the part has none of the size, any will do.
    return {name: most, _LISTS[name]: [each or most for each in values]}


def _own(word: str, fields: Mapping[str, Any], get: Any) -> dict[str, Any]:
    """What an architecture's metadata say in words of their own."""
    made: dict[str, Any] = {}
    inner, heads = get("ssm.inner_size"), get("ssm.time_step_rank")
    if word in _ALL_EXPERTS:
        made["intermediate_size"] = fields.get("moe_intermediate_size") or fields.get("intermediate_size")
    if word == "llama4":
        made["intermediate_size_mlp"] = fields.get("intermediate_size")
    if word in _LATENT:
        rotary = get("rope.dimension_count", 64)
        key = get("attention.key_length_mla", get("attention.key_length", 192))
        value = get("attention.value_length_mla", get("attention.value_length", 128))
        made |= {
            "qk_rope_head_dim": rotary,
            "qk_nope_head_dim": key - rotary,
            "v_head_dim": value,
            "head_dim": None,
        }
    if word == "kimi-linear":
        made |= {"linear_head_dim": get("kda.head_dim"), "linear_num_heads": fields.get("num_attention_heads")}
        made["linear_conv_kernel_dim"] = get("ssm.conv_kernel")
    if word in _MAMBA:
        made |= {
            "intermediate_size": inner, "expand": (inner or 0) // (fields.get("hidden_size") or 1) or None,
            "state_size": get("ssm.state_size"), "conv_kernel": get("ssm.conv_kernel"), "time_step_rank": heads,
            "n_groups": get("ssm.group_count"), "num_heads": heads,
        }  # fmt: skip
    if word in _BESIDE and inner and heads:
        made |= _beside(word, fields, get, inner, heads)
    if word == "jamba":
        made |= {
            "mamba_d_state": get("ssm.state_size"), "mamba_d_conv": get("ssm.conv_kernel"), "mamba_dt_rank": heads,
            "mamba_expand": (inner or 0) // (fields.get("hidden_size") or 1) or None,
        }  # fmt: skip
    if word in _DELTA and inner and heads:
        made |= {
            "linear_num_key_heads": get("ssm.group_count"), "linear_num_value_heads": heads,
            "linear_key_head_dim": get("ssm.state_size"), "linear_value_head_dim": inner // heads,
            "linear_conv_kernel_dim": get("ssm.conv_kernel"),
            "full_attention_interval": get("full_attention_interval"),
        }  # fmt: skip
    shared = fields.get("shared_expert_intermediate_size")
    if shared and word not in _SHARED:  # of as many experts as are shared; others' files have it as one
        made["shared_expert_intermediate_size"] = None
        made["moe_shared_expert_intermediate_size"] = shared // (fields.get("n_shared_experts") or 1)
    if word == "nemotron_h_moe":
        made["moe_latent_size"] = get("moe_latent_size")
    if word in ("granite", "granitemoe", "granitehybrid"):
        routed = fields.get("num_experts")
        made["shared_intermediate_size"] = shared
        if word == "granitehybrid" and not routed:  # its dense part is what all tokens share
            made |= {
                "shared_intermediate_size": shared or fields.get("intermediate_size"),
                "intermediate_size": None,
            }
    if word == "lfm2":  # as wide as is stated
        made["block_auto_adjust_ff_dim"] = False
    if word == "step35":
        made["share_expert_dim"] = shared
    if word == "gemma4":
        made |= {"global_head_dim": get("attention.key_length"), "head_dim": get("attention.key_length_swa")}
    return made


def _beside(word: str, fields: Mapping[str, Any], get: Any, inner: int, heads: int) -> dict[str, Any]:
    """Sizes of Mamba-2 in layers that stand beside others, as the model_type's own files call them."""
    state, taps, groups = get("ssm.state_size"), get("ssm.conv_kernel"), get("ssm.group_count")
    if word.startswith("nemotron_h"):
        named = {"mamba_num_heads": heads, "mamba_head_dim": inner // heads}
        return {**named, "ssm_state_size": state, "conv_kernel": taps, "n_groups": groups}
    named = {"mamba_d_state": state, "mamba_d_conv": taps, "mamba_n_groups": groups, "mamba_n_heads": heads}
    if word == "falcon-h1":
        return {**named, "mamba_d_ssm": inner}
    return {**named, "mamba_expand": (inner // (fields.get("hidden_size") or inner)) or None}


# What a tensor's name says that a layer mixes tokens with.
_MIXES = (
    ("shortconv.", "conv"), ("ssm_in.", "mamba"), ("attn_q.", "attention"),
    ("attn_qkv.", "attention"), ("attn_q_a.", "attention"), ("attn_kv_a_mqa.", "attention"),
)  # fmt: skip


def _kinds(word: str, metadata: Mapping[str, Any], tensors: Tensors, layers: int) -> dict[str, Any]:
    """Kinds of layers where they are not all alike, by their tensors' names and the pattern of windows."""
    parts: list[set[str]] = [set() for _ in range(layers)]
    for name in tensors:
        place = name.split(".", 2)
        if place[0] == "blk" and len(place) == 3 and place[1].isdigit() and int(place[1]) < layers:
            parts[int(place[1])].add(place[2])
    if not layers or not all(parts):  # a part of a file that was split: nothing is known of other layers
        parts = []
    mixes = [_mix(each, linear=word in (*_DELTA, "kimi-linear")) for each in parts]
    routed = [any("_exps." in name for name in each) for each in parts]
    made: dict[str, Any] = {}
    if len(set(mixes)) > 1 or word.startswith("nemotron_h"):
        whole = {"attention": "full_attention"}
        made["layer_types"] = [
            whole.get(mix, mix) if mix else "moe" if sparse else "mlp"
            for mix, sparse in zip(mixes, routed, strict=True)
        ]
    elif isinstance(pattern := metadata.get(f"{word}.attention.sliding_window_pattern"), list):
        made["layer_types"] = ["sliding_attention" if slides else "full_attention" for slides in pattern[:layers]]
    elif isinstance(pattern, int) and not isinstance(pattern, bool):
        made["sliding_window_pattern"] = pattern
    if any(routed) and not all(routed) and not word.startswith("nemotron_h"):
        made["mlp_layer_types"] = ["sparse" if sparse else "dense" for sparse in routed]
    return made


def _mix(names: set[str], *, linear: bool) -> str:
    """What mixes tokens in a layer of such tensors; attention where it has Mamba beside; "" for nothing.

    `linear`: whether what has a state is linear attention, whose queries are called as attention's are.
    """
    if linear and any(name.startswith("ssm_") for name in names):
        return "linear_attention"
    found = [kind for start, kind in _MIXES if any(name.startswith(start) for name in names)]
    if "mamba" in found:
        return "attention" if "attention" in found else "mamba"
    return found[0] if found else ""


def parameters_of(tensors: Tensors, layers: int) -> int:
    """Numbers in all tensors of the model: without factors of positions, and layers that draft."""
    total = 0
    for name, (shape, _) in tensors.items():
        place = name.split(".")
        drafts = place[0] == "blk" and place[1].isdigit() and int(place[1]) >= layers
        if not drafts and not name.startswith("rope_") and ".rope_" not in name:
            total += math.prod(shape)
    return total
