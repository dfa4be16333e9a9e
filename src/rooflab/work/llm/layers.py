"""One layer of a configuration: its mixer, attention to an encoder and norms, by family."""

from __future__ import annotations

import dataclasses

from rooflab.errors import RooflabError
from rooflab.work.llm.families import Family
from rooflab.work.llm.fields import Fields
from rooflab.work.llm.mixers import Attention, Compressed, Delta, Latent, Lightning, Mixer, ShortConv, StateSpace


def mixer_of(family: Family, word: str, fields: Fields, number: int) -> Mixer | None:
    """The mixer of layer `number`; None where it has none."""
    if family.mixer == "latent":
        return _latent(fields)
    if family.mixer == "kimi":
        return _kimi(fields, number)
    if family.mixer == "lightning" and _is_lightning(fields, number):
        heads, hidden = fields.size("num_attention_heads"), fields.size("hidden_size")
        return Lightning(heads, fields.size("head_dim", hidden // heads))
    if family.mixer == "compressed":
        return _compressed(fields, number)
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
        kind = nemotron_kind(fields, number)
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


def beside_of(family: Family, fields: Fields) -> Mixer | None:
    """The second mixer of each layer, whose result is added to the first's; None where there is one alone."""
    if family.mixer != "falcon_h1":
        return None
    expanded = fields.size("mamba_expand", 2) * fields.size("hidden_size")
    inner = fields.size("mamba_d_ssm", expanded)
    made = _mamba2(fields, inner, fields.size("mamba_n_heads"), bias=fields.flag("mamba_proj_bias"))
    return dataclasses.replace(made, normed=fields.flag("mamba_rms_norm"))


def _kimi(fields: Fields, number: int) -> Delta | Latent:
    """Of Kimi Linear: the delta rule with decays by channel, or latent attention; files count layers from 1."""
    inside = fields.get("linear_attn_config")
    sizes = Fields(inside if isinstance(inside, dict) else {}, f"{fields.source}: linear_attn_config")
    kind, whole = fields.kind(number), sizes.get("full_attn_layers")
    if kind is not None:
        linear = kind == "linear_attention"
    else:
        linear = number + 1 not in whole if isinstance(whole, list) else number % 4 != 0 or number == 0
    if not linear:
        return _latent(fields)
    heads = sizes.maybe("num_heads") or fields.size("linear_num_heads")
    size = sizes.maybe("head_dim") or fields.size("linear_head_dim")
    taps = sizes.maybe("short_conv_kernel_size") or fields.size("linear_conv_kernel_dim", 4)
    return Delta(heads, heads, size, size, taps, rank=size)


def _is_lightning(fields: Fields, number: int) -> bool:
    """Whether a layer of MiniMax is linear: by its kind, a list of 0 and 1, or every second."""
    kind, listed = fields.kind(number), fields.listed("attn_type_list", number)
    if kind is not None:
        return kind == "linear_attention"
    if listed is not None:
        return not listed
    return number % 2 == 1


def chosen(fields: Fields, number: int, part: str) -> Fields | None:
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
        shared = fields.listed("num_key_value_heads_per_layer", number)
        made = attention_of(family, word, fields, number)
        own = made.kv_heads if shared is None else shared
        return dataclasses.replace(made, kv_heads=own)
    found = chosen(fields, number, "attention")
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
    size = fields.maybe(f"{own}head_dim") or fields.maybe("head_dim")
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
    every = fields.flag("use_bias")
    stated = fields.flag("attention_bias", fields.flag("qkv_bias", every))
    out = fields.flag("attention_out_bias", every if word in _Q_K_V else fields.flag("attention_bias", every))
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
        borrows=word == "gemma4" and borrows(fields, number),
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
        borrows=borrows(fields, number),
        one_kv=one_kv,
    )


def borrows(fields: Fields, number: int) -> bool:
    """Whether layer `number` is among the last ones, which attend to an earlier layer's keys and values."""
    return number >= fields.layers() - fields.count("num_kv_shared_layers")


def side_of(word: str, fields: Fields) -> int:
    """Elements of the embedding that each layer has of its own; 0 for none."""
    return fields.count("hidden_size_per_layer_input") if word == "gemma4" else 0


# The field that says whether q and k are normalised head by head.
_QK_NORMS = {"bailing_moe": "use_qk_norm", "cohere": "use_qk_norm", "persimmon": "qk_layernorm"}
# Whose code knows of no shared heads, whatever their files say.
_NEVER_SHARED = ("gpt_neox", "gpt2", "gptj", "opt", "bloom", "mpt", "persimmon", "gpt_neo", "xglm")
# Where `attention_bias` is of q, k and v alone.
_Q_K_V = ("glm", "glm4", "glm4_moe", "helium", "mimo_v2_flash")


# Of so many layers the last attends to all, where no field says, as transformers' configurations fill it in.
_PATTERN = {"cohere2": 4, "olmo3": 4}


def _window(fields: Fields, word: str, number: int) -> int:
    """Keys that a query of the layer sees; 0 for all. Of a chunk (Llama 4) all its keys, the most there can be."""
    chunk = fields.maybe("attention_chunk_size")
    if chunk is not None:
        kind, turned = fields.kind(number), fields.listed("no_rope_layers", number)
        if kind is not None:
            return chunk if kind == "chunked_attention" else 0
        if turned is not None:  # 1 where positions are turned in
            return chunk if turned else 0
        return chunk if (number + 1) % fields.size("no_rope_layer_interval", 4) else 0
    reach = fields.listed("attention_layers", number)
    if reach is not None:  # GPT-Neo: global and local in turn
        return fields.size("window_size", 256) if reach == "local" else 0
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
    slides = fields.listed("hybrid_layer_pattern", number)
    if slides is not None:  # MiMo: 1 where a layer has a window
        return window if slides else 0
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


# Kinds of DeepSeek-V4's layers: the field of a block's tokens, how many they are where no field says.
_BLOCKS = {
    "compressed_sparse_attention": ("compress_rate_csa", 4),
    "heavily_compressed_attention": ("compress_rate_hca", 128),
}


def _compressed(fields: Fields, number: int) -> Compressed:
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


def nemotron_kind(fields: Fields, number: int) -> str:
    """What layer `number` of Nemotron-H is: "mamba", "attention", "mlp" or "moe".

    Raises:
        RooflabError: a letter of its pattern that stands for none.
    """
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


def cross_of(family: Family, fields: Fields) -> Attention | None:
    """Attention to an encoder, in layers of a decoder that has one."""
    if family.mixer not in ("t5", "whisper"):
        return None
    heads = fields.size("num_attention_heads")
    size = fields.size("head_dim", fields.size("hidden_size") // heads)
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
