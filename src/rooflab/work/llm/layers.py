"""One layer of a configuration: its mixer and its feed-forward part, by family."""

from __future__ import annotations

import dataclasses

from rooflab.errors import RooflabError
from rooflab.work.llm.architecture import Attention, Delta, Experts, Latent, Mixer, Mlp, ShortConv, StateSpace
from rooflab.work.llm.families import Family
from rooflab.work.llm.fields import Fields


def mixer_of(family: Family, word: str, fields: Fields, number: int) -> Mixer | None:
    """The mixer of layer `number`; None where it has none."""
    if family.mixer == "latent":
        return _latent(fields)
    if family.mixer == "chosen":
        return _chosen_attention(family, word, fields, number)
    if family.mixer == "delta" and _is_linear(fields, number):
        return Delta(
            heads=fields.size("linear_num_key_heads"),
            value_heads=fields.size("linear_num_value_heads"),
            size=fields.size("linear_key_head_dim"),
            values=fields.size("linear_value_head_dim"),
            taps=fields.size("linear_conv_kernel_dim", 4),
        )
    if family.mixer == "mamba":
        return _mamba(word, fields)
    if family.mixer == "conv" and not _attends(fields, number):
        return ShortConv(fields.size("hidden_size"), fields.size("conv_L_cache", 3), fields.flag("conv_bias"))
    if family.mixer == "nemotron_h":
        kind = _nemotron_kind(fields, number)
        if kind == "mamba":
            return _mamba2(
                fields, fields.size("mamba_num_heads") * fields.size("mamba_head_dim"),
                fields.size("mamba_num_heads"), bias=fields.flag("mamba_proj_bias"),
            )  # fmt: skip
        return attention_of(family, word, fields, number) if kind == "attention" else None
    if family.mixer == "bamba" and not _attends(fields, number):
        inner = fields.size("mamba_expand", 2) * fields.size("hidden_size")
        return _mamba2(fields, inner, fields.size("mamba_n_heads"), bias=fields.flag("mamba_proj_bias"))
    if family.mixer == "jamba" and number % fields.size("attn_layer_period", 8) != fields.count(
        "attn_layer_offset", 4
    ):
        return _mamba(word, fields)
    return attention_of(family, word, fields, number)


def _chosen(fields: Fields, number: int, part: str) -> Fields | None:
    """What a search chose for a part ("attention", "ffn") of layer `number`; None for nothing at all (a no-op).

    Raises:
        RooflabError: a list without the layer, or a part of which no sizes are known.
    """
    listed = fields.get("block_configs")
    if not isinstance(listed, list) or number >= len(listed) or not isinstance(listed[number].get(part), dict):
        raise RooflabError(
            f"{fields.source}: block_configs has no {part} of layer {number}, expected one for each of "
            f"{fields.layers()} layers"
        )
    found = Fields(listed[number][part], f"{fields.source}: block_configs[{number}].{part}")
    if found.flag("replace_with_linear"):
        raise RooflabError(f"{found.source} is replaced with one product, which is not modelled")
    return None if found.flag("no_op") else found


def _chosen_attention(family: Family, word: str, fields: Fields, number: int) -> Attention | None:
    """Of Nemotron-NAS: so many heads of queries share one of keys and values, or nothing attends."""
    if not isinstance(fields.get("block_configs"), list):  # DeciLM-7B: heads of keys and values by layer
        shared = fields.get("num_key_value_heads_per_layer")
        made = attention_of(family, word, fields, number)
        own = shared[number] if isinstance(shared, list) and number < len(shared) else made.kv_heads
        return dataclasses.replace(made, kv_heads=own)
    found = _chosen(fields, number, "attention")
    if found is None:
        return None
    made = attention_of(family, word, fields, number)
    return dataclasses.replace(made, kv_heads=made.heads // found.size("n_heads_in_group"))


def attention_of(family: Family, word: str, fields: Fields, number: int) -> Attention:
    """Softmax attention of layer `number`."""
    window = _window(fields, word, number)
    # Layers with a window may have heads of their own (MiMo), or those without (Gemma 4).
    own = "swa_" if window else ""
    if word == "gemma4" and not window:
        return _gemma4_global(family, fields, number)
    heads, hidden = fields.size("num_attention_heads"), fields.size("hidden_size")
    heads = fields.size(f"{own}num_attention_heads", heads)
    size = fields.maybe(f"{own}head_dim") or fields.maybe("head_dim") or fields.maybe("d_kv")
    if size is None:
        if hidden % heads:
            raise RooflabError(
                f"{fields.source}: hidden_size {hidden} over num_attention_heads {heads} leaves a rest: add "
                "head_dim"
            )
        size = hidden // heads
    kv_heads = fields.maybe(f"{own}num_key_value_heads") or fields.maybe("num_key_value_heads")
    values = fields.maybe(f"{own}v_head_dim") or fields.maybe("v_head_dim") if word == "mimo_v2_flash" else size
    if word == "falcon" and not fields.flag("new_decoder_architecture"):
        kv_heads = 1 if fields.flag("multi_query", True) else heads
    if word == "gpt_bigcode":
        kv_heads = 1 if fields.flag("multi_query", True) else heads
    if word in _NEVER_SHARED:
        kv_heads = heads
    stated = fields.flag("attention_bias", fields.flag("use_bias", fields.flag("qkv_bias")))
    out = fields.flag("attention_out_bias", stated if word in _OUT_BIAS else fields.flag("use_bias"))
    return Attention(
        heads=heads,
        kv_heads=kv_heads or heads,
        size=size,
        values=values or size,
        window=window,
        bias=stated if family.bias is None else family.bias,
        out_bias=out if family.out_bias is None else family.out_bias,
        gate=word in ("qwen3_next", "qwen3_5", "qwen3_5_moe", "afmoe"),
        qk_norm="head" if fields.flag(_QK_NORMS.get(word, "")) else family.qk_norm,
        rotates=family.rotates and fields.get("position_embedding_type") not in ("nope", "none"),
        borrows=word == "gemma4" and _borrows(fields, number),
        sinks=word == "gpt_oss" or (word == "mimo_v2_flash" and window > 0),
    )


def _gemma4_global(family: Family, fields: Fields, number: int) -> Attention:
    """A layer of Gemma 4 that sees all: wider heads, and where keys and values are one, as many as are stated."""
    heads, one_kv = fields.size("num_attention_heads"), fields.flag("attention_k_eq_v")
    kv_heads = fields.size("num_key_value_heads", heads)
    listed = fields.get("per_layer_config")  # as files saved by transformers 5 have it, by layer
    own = Fields(listed.get(str(number), {}) if isinstance(listed, dict) else {}, fields.source)
    stated = own.maybe("num_key_value_heads") or fields.maybe("num_global_key_value_heads")
    size = own.maybe("head_dim") or fields.size("global_head_dim", 512)
    return Attention(
        heads=heads,
        kv_heads=stated if one_kv and stated else kv_heads,
        size=size,
        values=size,
        bias=fields.flag("attention_bias"),
        out_bias=fields.flag("attention_bias"),
        qk_norm=family.qk_norm,
        borrows=_borrows(fields, number),
        one_kv=one_kv,
    )


def _borrows(fields: Fields, number: int) -> bool:
    """Whether layer `number` is among the last ones, which attend to an earlier layer's keys and values."""
    return number >= fields.layers() - fields.count("num_kv_shared_layers")


def side_of(word: str, fields: Fields) -> int:
    """Elements of the embedding that each layer has of its own; 0 for none."""
    return fields.count("hidden_size_per_layer_input") if word == "gemma4" else 0


# The field that says whether q and k are normalised head by head.
_QK_NORMS = {"cohere": "use_qk_norm", "persimmon": "qk_layernorm"}
# Whose code knows of no shared heads, whatever their files say.
_NEVER_SHARED = ("gpt_neox", "gpt2", "gptj", "opt", "bloom", "mpt", "persimmon", "gpt_neo", "xglm")
# Where `attention_bias` is of the result's projection too.
_OUT_BIAS = ("llama", "granite", "glm4_moe_", "smollm3", "qwen3_", "cohere", "olmo")


# Of so many layers the last attends to all, where no field says, as transformers' configurations fill it in.
_PATTERN = {"cohere2": 4, "olmo3": 4}


def _window(fields: Fields, word: str, number: int) -> int:
    """Keys that a query of the layer sees; 0 for all. Of a chunk (Llama 4) all its keys, the most there can be."""
    chunk = fields.maybe("attention_chunk_size")
    if chunk is not None:
        kind, listed = fields.kind(number), fields.get("no_rope_layers")
        if kind is not None:
            return chunk if kind == "chunked_attention" else 0
        if isinstance(listed, list) and number < len(listed):  # 1 where positions are turned in
            return chunk if listed[number] else 0
        return chunk if (number + 1) % fields.size("no_rope_layer_interval", 4) else 0
    local = fields.get("attention_layers")
    if isinstance(local, list) and number < len(local):  # GPT-Neo: global and local in turn
        return fields.size("window_size", 256) if local[number] == "local" else 0
    window = fields.get("sliding_window")
    if not isinstance(window, int) or isinstance(window, bool) or window < 1:
        return 0
    if fields.get("use_sliding_window") is False:
        return 0
    kind, pattern = fields.kind(number), fields.get("sliding_window_pattern")
    if kind is not None:
        return window if kind in ("sliding_attention", "sliding") else 0
    if word == "gpt_oss" or word == "gemma2":
        return window if number % 2 == 0 else 0
    listed = fields.get("hybrid_layer_pattern")
    if isinstance(listed, list) and number < len(listed):  # MiMo: 1 where a layer has a window
        return window if listed[number] else 0
    if isinstance(pattern, str) and pattern:  # EXAONE: L for local, G for global, over and over
        return window if pattern[number % len(pattern)] == "L" else 0
    if pattern is not None or word in ("gemma3", "gemma4", "cohere2", "olmo3"):
        return window if (number + 1) % fields.size("sliding_window_pattern", _PATTERN.get(word, 6)) else 0
    if word.startswith("qwen"):  # the first `max_window_layers` see all
        return window if fields.flag("use_sliding_window") and number >= fields.count("max_window_layers") else 0
    return window


def _is_linear(fields: Fields, number: int) -> bool:
    kind = fields.kind(number)
    if kind is not None:
        return kind == "linear_attention"
    return (number + 1) % fields.size("full_attention_interval", 4) != 0


def _attends(fields: Fields, number: int) -> bool:
    """Whether a layer beside Mamba-2's attends: by its kind, or among those listed."""
    kind = fields.kind(number)
    if kind is not None:
        return "attention" in kind and "linear" not in kind
    listed = fields.get("attn_layer_indices")
    listed = fields.get("full_attn_idxs") if listed is None else listed
    return isinstance(listed, list) and number in listed


def _latent(fields: Fields) -> Latent:
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


def _mamba(word: str, fields: Fields) -> StateSpace:
    hidden = fields.size("hidden_size")
    expand = fields.size("expand", fields.size("mamba_expand", 2))
    inner = (
        fields.size("intermediate_size", expand * hidden) if word in ("mamba", "falcon_mamba") else expand * hidden
    )
    if word == "mamba2":
        return _mamba2(fields, inner, fields.size("num_heads"), bias=fields.flag("use_bias"))
    rank = fields.get("time_step_rank") or fields.get("mamba_dt_rank")
    return StateSpace(
        inner=inner,
        state=fields.size("state_size", fields.size("mamba_d_state", 16)),
        taps=fields.size("conv_kernel", fields.size("mamba_d_conv", 4)),
        rank=rank if isinstance(rank, int) else -(-hidden // 16),
        bias=fields.flag("use_bias", fields.flag("mamba_proj_bias")),
        conv_bias=fields.flag("use_conv_bias", fields.flag("mamba_conv_bias", True)),
    )


def _mamba2(fields: Fields, inner: int, heads: int, *, bias: bool) -> StateSpace:
    return StateSpace(
        inner=inner,
        state=fields.size("ssm_state_size", fields.size("state_size", fields.size("mamba_d_state", 128))),
        taps=fields.size("conv_kernel", fields.size("mamba_d_conv", 4)),
        heads=heads,
        groups=fields.size("n_groups", fields.size("mamba_n_groups", 1)),
        bias=bias,
        conv_bias=fields.flag("use_conv_bias", fields.flag("mamba_conv_bias", True)),
    )


def _nemotron_kind(fields: Fields, number: int) -> str:
    pattern = fields.get("hybrid_override_pattern")
    if isinstance(pattern, str):
        kinds = {"M": "mamba", "*": "attention", "-": "mlp", "E": "moe"}
        if pattern[number] not in kinds:
            raise RooflabError(
                f"{fields.source}: hybrid_override_pattern has {pattern[number]!r} at layer {number}, expected M "
                "(Mamba), * (attention), - (feed-forward) or E (experts)"
            )
        return kinds[pattern[number]]
    kind = fields.kind(number) or "mamba"
    return {"linear_attention": "mamba", "full_attention": "attention"}.get(kind, kind)


def feed_of(family: Family, word: str, fields: Fields, number: int) -> Mlp | Experts | None:
    """The feed-forward part of layer `number`; None where it has none."""
    readers = {
        "mixtral": _mixtral, "qwen": _qwen, "deepseek": _deepseek, "minimax": _mixtral, "gpt_oss": _gpt_oss,
        "llama4": _llama4, "nemotron_h": _nemotron, "jamba": _jamba, "granite": _granite, "ernie": _ernie,
        "hunyuan": _hunyuan, "gemma4": _gemma4,
        "chosen": _chosen_feed, "lfm2": _lfm2,
    }  # fmt: skip
    if family.feed == "none":
        return None
    if family.feed in readers:
        return readers[family.feed](family, fields, number)
    return dense_of(family, word, fields)


def dense_of(family: Family, word: str, fields: Fields) -> Mlp:
    """A dense feed-forward part; four times as wide as the hidden size where no field says."""
    inner = fields.size("intermediate_size", 4 * fields.size("hidden_size"))
    if word == "mpt":
        inner = fields.size("expansion_ratio", 4) * fields.size("hidden_size")
    if word == "falcon":
        inner = fields.size("ffn_hidden_size", 4 * fields.size("hidden_size"))
    gated = family.gated
    if word == "t5":
        gated = "gated" in str(fields.get("feed_forward_proj") or "relu")
    bias = fields.flag("mlp_bias", fields.flag("use_mlp_bias")) if family.mlp_bias is None else family.mlp_bias
    return Mlp(inner, gated, bias, bias)


def _mixtral(family: Family, fields: Fields, number: int) -> Experts:
    return Experts(
        count=fields.size("num_local_experts"),
        chosen=fields.size("num_experts_per_tok"),
        inner=fields.size("intermediate_size"),
    )


def _gpt_oss(family: Family, fields: Fields, number: int) -> Experts:
    return Experts(
        count=fields.size("num_local_experts"),
        chosen=fields.size("num_experts_per_tok"),
        inner=fields.size("intermediate_size"),
        bias=True,
        router_bias=True,
    )


def _qwen(family: Family, fields: Fields, number: int) -> Mlp | Experts:
    count = fields.count("num_local_experts", fields.count("num_experts"))
    only_dense = fields.get("mlp_only_layers") or []
    if not count or number in only_dense or (number + 1) % fields.size("decoder_sparse_step", 1):
        return Mlp(fields.size("intermediate_size"))
    shared = fields.count("shared_expert_intermediate_size")
    return Experts(
        count=count,
        chosen=fields.size("num_experts_per_tok"),
        inner=fields.size("moe_intermediate_size", fields.maybe("intermediate_size")),
        shared=shared,
        shared_gate=bool(shared),
    )


def _deepseek(family: Family, fields: Fields, number: int) -> Mlp | Experts:
    count = fields.count("num_local_experts", fields.count("n_routed_experts"))
    wide = fields.maybe("intermediate_size")  # of dense layers; of the experts too where nothing else is stated
    if not count or _is_dense(fields, number):
        return Mlp(fields.size("intermediate_size"))
    inner = fields.size("moe_intermediate_size", wide)
    return Experts(
        count=count,
        chosen=fields.size("num_experts_per_tok"),
        inner=inner,
        shared=inner * fields.count("n_shared_experts"),
    )


def _is_dense(fields: Fields, number: int) -> bool:
    """Whether layer `number` has no experts: by its kind, by a list of 0 and 1, or by how many are dense first."""
    kind, listed = fields.kind(number, ("mlp_layer_types",)), fields.get("moe_layer_freq")
    if kind is not None:
        return kind == "dense"
    if isinstance(listed, list) and number < len(listed):
        return not listed[number]
    return number < fields.count("first_k_dense_replace") or number % fields.size("moe_layer_freq", 1) != 0


def _llama4(family: Family, fields: Fields, number: int) -> Mlp | Experts:
    step = fields.size("interleave_moe_layer_step", 1)
    routed = fields.get("moe_layers")
    if (number not in routed) if isinstance(routed, list) and routed else (number + 1) % step:
        return Mlp(fields.size("intermediate_size_mlp"))
    inner = fields.size("intermediate_size")
    return Experts(
        count=fields.size("num_local_experts"),
        chosen=fields.size("num_experts_per_tok"),
        inner=inner,
        shared=inner,
    )


def _nemotron(family: Family, fields: Fields, number: int) -> Mlp | Experts | None:
    kind = _nemotron_kind(fields, number)
    if kind == "mlp":
        return Mlp(fields.size("intermediate_size"), gated=False, bias=fields.flag("mlp_bias"))
    if kind != "moe":
        return None
    return Experts(
        count=fields.size("n_routed_experts"),
        chosen=fields.size("num_experts_per_tok"),
        inner=fields.size("moe_intermediate_size"),
        gated=False,
        shared=fields.count("n_shared_experts", 1) * fields.count("moe_shared_expert_intermediate_size"),
    )


def _chosen_feed(family: Family, fields: Fields, number: int) -> Mlp | None:
    """As wide as a multiple of the hidden size says, rounded up to 256 (DeciLM's modeling_decilm.py)."""
    if not isinstance(fields.get("block_configs"), list):
        return Mlp(fields.size("intermediate_size"))
    found = _chosen(fields, number, "ffn")
    if found is None:
        return None
    multiple = found.get("ffn_mult")
    if isinstance(multiple, bool) or not isinstance(multiple, (int, float)) or multiple <= 0:
        raise RooflabError(f"{found.source}: ffn_mult is {multiple!r}, expected a number above 0")
    return Mlp(-(-int(2 * multiple * fields.size("hidden_size") / 3) // 256) * 256)


def _lfm2(family: Family, fields: Fields, number: int) -> Mlp:
    """Two thirds as wide as stated, rounded up, where the file does not say otherwise (modeling_lfm2.py)."""
    inner = fields.maybe("block_ff_dim") or fields.size("intermediate_size")
    if fields.flag("block_auto_adjust_ff_dim", True):
        multiplier, step = fields.get("block_ffn_dim_multiplier"), fields.size("block_multiple_of", 256)
        inner = int((1.0 if multiplier is None else float(multiplier)) * int(2 * inner / 3))
        inner = -(-inner // step) * step
    return Mlp(inner)


def _gemma4(family: Family, fields: Fields, number: int) -> Mlp | Experts:
    wide = fields.flag("use_double_wide_mlp") and _borrows(fields, number)
    inner = fields.size("intermediate_size") * (2 if wide else 1)
    if not fields.flag("enable_moe_block"):
        return Mlp(inner)
    return Experts(
        count=fields.size("num_local_experts"),
        chosen=fields.size("num_experts_per_tok"),
        inner=fields.size("moe_intermediate_size"),
        shared=inner,  # the dense part, which every token passes too
    )


def _jamba(family: Family, fields: Fields, number: int) -> Mlp | Experts:
    if number % fields.size("expert_layer_period", 2) != fields.count("expert_layer_offset", 1):
        return Mlp(fields.size("intermediate_size"))
    return Experts(
        count=fields.size("num_local_experts", 16),
        chosen=fields.size("num_experts_per_tok", 2),
        inner=fields.size("intermediate_size"),
    )


def _granite(family: Family, fields: Fields, number: int) -> Mlp | Experts:
    shared = fields.count("shared_intermediate_size", 1024 if family.mixer == "bamba" else 0)
    if not fields.count("num_local_experts"):
        return Mlp(fields.size("shared_intermediate_size", 1024))
    return Experts(
        count=fields.size("num_local_experts"),
        chosen=fields.size("num_experts_per_tok"),
        inner=fields.size("intermediate_size"),
        shared=shared,
    )


def _ernie(family: Family, fields: Fields, number: int) -> Mlp | Experts:
    first, last = fields.count("moe_layer_start_index", 1), fields.get("moe_layer_end_index")
    past = isinstance(last, int) and 0 <= last < number
    if number < first or past or (number + 1) % fields.size("moe_layer_interval", 1):
        return Mlp(fields.size("intermediate_size"), bias=fields.flag("use_bias"))
    inner = fields.size("moe_intermediate_size")
    return Experts(
        count=fields.size("num_local_experts"),
        chosen=fields.size("num_experts_per_tok", fields.size("moe_k", 6)),
        inner=inner,
        shared=inner * fields.count("moe_num_shared_experts"),
    )


def _hunyuan(family: Family, fields: Fields, number: int) -> Experts:
    def one(name: str, default: int) -> int:
        """A number, or the layer's of a list."""
        found = fields.get(name)
        return int(found[number] if isinstance(found, list) else found or default)

    inner = fields.size("intermediate_size")
    return Experts(
        count=one("num_local_experts", 1),
        chosen=one("num_experts_per_tok", 1),
        inner=one("moe_intermediate_size", inner),
        shared=inner * one("num_shared_expert", 1),
    )


def cross_of(family: Family, fields: Fields) -> Attention | None:
    """Attention to an encoder, in layers of a decoder that has one."""
    if family.mixer not in ("t5", "whisper"):
        return None
    heads = fields.size("num_attention_heads")
    size = fields.size("d_kv", fields.size("hidden_size") // heads)
    bias, out_bias = bool(family.bias), bool(family.out_bias)
    return Attention(
        heads, heads, size, size, bias=bias, out_bias=out_bias, rotates=False, causal=False, cross=True
    )


def norms_of(family: Family, word: str, fields: Fields) -> int:
    """Normalisations of the hidden size in a layer, those before a cross attention aside."""
    if word == "falcon":
        if fields.flag("new_decoder_architecture"):
            return fields.size("num_ln_in_parallel_attn", 2)
        return 1 if fields.flag("parallel_attn", True) else 2
    if word == "gpt_neox":
        return 2
    if word == "gemma4":  # one more after each layer's own embedding, three more around experts
        own = 1 if fields.count("hidden_size_per_layer_input") else 0
        return family.norms + own + (3 if fields.flag("enable_moe_block") else 0)
    if fields.flag("use_post_norm"):  # after attention and after the feed-forward part, beside those before
        return 4
    return family.norms
