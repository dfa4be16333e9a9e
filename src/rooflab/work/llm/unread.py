"""Fields of a configuration that nobody read though they may describe layers: what the numbers are without."""

from __future__ import annotations

import re
from typing import Any

from rooflab.work.llm.fields import Fields

# Words in names of fields that change no size and no count of operations, by the documentation of the
# configurations of Hugging Face's transformers: tokens, constants of formulas, training, texts for people.
_INERT = re.compile(
    r"^_|token_id|token_index|_eps(ilon)?$|^(init|rope|rotary|summary|task|mask|time_step|problem|scale|output|"
    r"return|tokenizer|pretrain|router|aux|seq_aux|label|id2|begin_|forced_|suppress|vocab_file|quanti|torch|"
    r"transformers|use_cache|fused|ep_size|tp_|pp_|num_logits|num_labels|max_length|min_length|num_beams|"
    r"top_k$|top_p$|temperature|model_max|cls|classifier|image_token|video_token|vision_|audio_|apply_|no_repeat)|"
    r"dropout|pdrop|_prob$|_act(ivation)?$|_act_fn$|_(std|range|theta|alpha|noise|limit|scalar|factor|coef|scaling|"
    r"scale|multipliers?|cap|softcapping|softcap|dtype|version|kernels|implementation|overlap|scheme|map|plan|fp32|"
    r"max_distance|base)$|^(architectures|language|languages|license|name|n_group|topk_group|num_expert_group|"
    r"max_window_layers|use_sliding_window|model_type|is_encoder_decoder|is_decoder|chunk_size|mamba_chunk_size|"
    r"qk_head_dim|head_dim|num_attention_heads|num_key_value_heads|original_max_position_embeddings|"
    r"num_decoder_layers|floor_scale|dim_model_base|logits_to_keep|max_source_positions|median_filter_width|"
    r"use_bfloat16|use_flash_attn|gradient_checkpointing|use_cache|embedding_fraction|num_nextn_predict_layers|num_mtp_layers|n_ctx|"
    r"num_mtp_modules|mtp_.*|use_mtp|sep_token|expert_capacity|norm_topk_prob|moe_router.*|use_associative_scan|"
    r"rescale_.*|residual_.*|attn_temperature_tuning|alibi.*|use_mambapy|layer_norm_elementwise_affine|"
    r"time_step_.*|mamba_dt_.*|original_rope|post_layer_norm|postnorm|moe_renormalize|hc_sinkhorn_iters|altup_active_idx|altup_coef_clip|altup_correct_scale|activation_sparsity_pattern|num_hash_layers|mlp_layer_types|norm_head|norm_softmax|use_rmsnorm|swiglu.*|is_gated_act|enable_bias|do_layer_norm_before|learned_pos_emb|no_bias|"
    r"no_rope_.*|nope_layer_interval|layer_types|layers_block_type|moe_intermediate_size|intermediate_size_mlp|"
    r"use_qk_norm|mamba_d_head|expand|index_local_blocks|index_kpool_always_select_tail|kda_safe_gate|z_loss.*|.*_loss.*)$"
)
# Words in the names of fields which, set to true, change what a layer is made of.
_STRUCTURE = re.compile(
    r"expert|moe|layer|head|window|chunk|conv|state|shared|sparse|latent|lora|cross|engram|memory|compress|hash|"
    r"loop|recur|sink|norm|bias|gate|parallel|rope"
)
_MOST = 6  # fields that are named


# Kinds of layers in `layer_types` and `layers_block_type` that are read, by the family's mixer.
_ATTENTION = ("full_attention", "attention", "sliding_attention", "sliding", "chunked_attention", "global")
_KINDS = {
    "attention": (*_ATTENTION, "minimax_m3_sparse"),
    "delta": (*_ATTENTION, "linear_attention"),
    "compressed": ("sliding_attention", "compressed_sparse_attention", "heavily_compressed_attention"),
    "kimi": (*_ATTENTION, "linear_attention", "indexed_attention"),
    "latent": (*_ATTENTION, "indexed_attention"),
    "lightning": (*_ATTENTION, "linear_attention"),
    "falcon_h1": (*_ATTENTION, "hybrid"),
    "conv": (*_ATTENTION, "conv"),
    "bamba": (*_ATTENTION, "mamba", "mamba2", "linear_attention"),
    "jamba": (*_ATTENTION, "mamba", "mamba2", "linear_attention"),
    "nemotron_h": (*_ATTENTION, "mamba", "mamba2", "linear_attention", "mlp", "moe"),
}


def unread(fields: Fields, mixer: str) -> tuple[str, ...]:
    """Fields with a value that nobody asked for and that may say how layers are built, as "name = value".

    A number above 0, a list, a section, or true where the name speaks of a layer's parts; and kinds of layers that
    a family with `mixer` does not have.
    """
    found = [
        f"{name} = {_short(value)}"
        for name, value in fields.values.items()
        if name not in fields.asked and _tells(name, value, fields.get("hidden_size"))
    ]
    for name in ("layer_types", "layers_block_type"):
        kinds, known = fields.get(name), _KINDS.get(mixer)
        if isinstance(kinds, list) and known:
            found += [f"{name} {kind}" for kind in dict.fromkeys(map(str, kinds)) if kind not in known]
    return tuple(found)


def sentence(name: str, word: str, found: tuple[str, ...]) -> str:
    """What is said of such fields of a configuration whose `model_type` is `word`."""
    shown, more = ", ".join(found[:_MOST]), len(found) - _MOST
    return (
        f"{name}: {shown}{f' and {more} more' if more > 0 else ''}: not read for a model_type {word}, so where "
        "layers differ by that, weights and time are without it."
    )


def inert(name: str) -> bool:
    """Whether a field of this name changes no size and no count, or is read where it does."""
    return _INERT.search(name) is not None


def _tells(name: str, value: Any, hidden: int) -> bool:
    if inert(name):
        return False
    if isinstance(value, bool):
        return value and _STRUCTURE.search(name) is not None
    if isinstance(value, int):
        return value > 0 and not (value == hidden and name.endswith(("_dim", "_size")))
    if isinstance(value, str):
        return name.endswith("_pattern")
    if isinstance(value, dict):
        return any(_tells(each, inner, hidden) for each, inner in value.items())
    return bool(value) if isinstance(value, list) else False


def _short(value: Any) -> str:
    if isinstance(value, (list, dict)):
        return f"{'[' if isinstance(value, list) else '{'}…{']' if isinstance(value, list) else '}'}"
    return str(value).lower() if isinstance(value, bool) else str(value)
