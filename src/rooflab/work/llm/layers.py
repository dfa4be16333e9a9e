"""One layer of a configuration: its mixer, attention to an encoder and norms, by family."""

from __future__ import annotations

import dataclasses

from rooflab.errors import RooflabError
from rooflab.work.llm import latent_layers, recurrent_layers
from rooflab.work.llm.families import Family
from rooflab.work.llm.fields import Fields
from rooflab.work.llm.mixers import Attention, Mixer
from rooflab.work.llm.streams import AltUp, HyperConnections, Streams


def mixer_of(family: Family, word: str, fields: Fields, number: int) -> Mixer | None:
    """The mixer of layer `number`; None where it has none."""
    recurrent = recurrent_layers.mixer_of(family, word, fields, number)
    if recurrent is not None:
        return recurrent
    if family.mixer in ("latent", "kimi"):
        return latent_layers.latent_of(family, fields, number)
    if family.mixer == "compressed":
        return latent_layers.compressed_of(fields, number)
    if family.mixer == "chosen":
        return _chosen_attention(family, word, fields, number)
    if family.mixer == "nemotron_h" and recurrent_layers.nemotron_kind(fields, number) != "attention":
        return None
    return attention_of(family, word, fields, number)


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
    if not isinstance(fields.get("block_configs"), list):  # DeciLM-7B
        return attention_of(family, word, fields, number)
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
    heads = _by_layer(fields, number).size("num_attention_heads", fields.size(f"{own}num_attention_heads", heads))
    size = fields.maybe(f"{own}head_dim") or fields.maybe("head_dim")
    if size is None:
        if hidden % heads:
            raise RooflabError(
                f"{fields.source}: hidden_size {hidden} over num_attention_heads {heads} leaves a rest: add "
                "head_dim"
            )
        size = hidden // heads
    kv_heads = fields.maybe(f"{own}num_key_value_heads") or fields.maybe("num_key_value_heads")
    kv_heads = fields.listed("num_key_value_heads_per_layer", number) or kv_heads  # DeciLM-7B, GGUF files
    values = fields.maybe(f"{own}v_head_dim") or fields.maybe("v_head_dim") if word == "mimo_v2_flash" else size
    if word == "falcon" and not fields.flag("new_decoder_architecture"):
        kv_heads = 1 if fields.flag("multi_query", True) else heads
    if word == "gpt_bigcode":
        kv_heads = 1 if fields.flag("multi_query", True) else heads
    if word in _NEVER_SHARED:
        kv_heads = heads
    index_heads, index_size, index_top = latent_layers.blocks_of(fields, number)
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
        gate=_gate(family, fields, values or size),
        qk_norm="head" if fields.flag(_QK_NORMS.get(word, "")) else family.qk_norm,
        rotates=family.rotates and fields.get("position_embedding_type") not in ("nope", "none"),
        borrows=word in ("gemma3n", "gemma4") and borrows(fields, number),
        sinks=word == "gpt_oss" or (word == "mimo_v2_flash" and window > 0),
        index_heads=index_heads,
        index_size=index_size,
        index_top=index_top,
    )


def _gate(family: Family, fields: Fields, size: int) -> int:
    """Numbers of a token that multiply the result of one head of `size`."""
    kind = family.gate
    if kind == "stated":  # of true, false, "per-head" or "per-element"; each head has one where nothing is said
        names = ("gating", "use_head_wise_attn_gate", "use_attention_gate")
        stated = next((found for found in map(fields.get, names) if found is not None), True)
        kind = {"per-element": "element"}.get(str(stated), "head") if stated else ""
    return {"": 0, "head": 1}.get(kind, size)


def _by_layer(fields: Fields, number: int) -> Fields:
    """What a file says of layer `number` alone: heads of layers with a window, or of each, where they differ."""
    listed = fields.get("per_layer_config")  # as files saved by transformers 5 have it, by layer
    stated = listed.get(str(number)) if isinstance(listed, dict) else None
    own = dict(stated) if isinstance(stated, dict) else {}
    heads = fields.listed("num_attention_heads_per_layer", number)
    # Step 3.5: of layers of another kind, as its maker's files and as transformers' have it.
    other, sliding = fields.get("attention_other_setting"), fields.maybe("num_sliding_attention_heads")
    if isinstance(other, dict) and other.get("attention_type") == fields.kind(number):
        own |= {"num_attention_heads": other.get("num_attention_heads")}
    elif sliding is not None and fields.kind(number) == "sliding_attention":
        own |= {"num_attention_heads": sliding}
    return Fields(
        own | ({} if heads is None else {"num_attention_heads": heads}), f"{fields.source}: layer {number}"
    )


def _gemma4_global(family: Family, fields: Fields, number: int) -> Attention:
    """A layer of Gemma 4 that sees all: wider heads, and where keys and values are one, as many as are stated."""
    heads, one_kv = fields.size("num_attention_heads"), fields.flag("attention_k_eq_v")
    kv_heads = fields.size("num_key_value_heads", heads)
    own = _by_layer(fields, number)
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
    return fields.count("hidden_size_per_layer_input") if word in ("gemma3n", "gemma4") else 0


def streams_of(family: Family, word: str, fields: Fields) -> Streams | None:
    """Residual streams beside the layers; None where there is one residual."""
    if word == "gemma3n":
        return AltUp(fields.size("altup_num_inputs", 4), fields.size("laurel_rank", 64))
    count = fields.size("hc_mult", 1)
    return HyperConnections(count, family.mixed, family.averaged) if count > 1 else None


# The field that says whether q and k are normalised head by head.
_QK_NORMS = {"bailing_moe": "use_qk_norm", "cohere": "use_qk_norm", "persimmon": "qk_layernorm"}
# Whose code knows of no shared heads, whatever their files say.
_NEVER_SHARED = ("gpt_neox", "gpt2", "gptj", "opt", "bloom", "mpt", "persimmon", "gpt_neo", "xglm")
# Where `attention_bias` is of q, k and v alone.
_Q_K_V = ("glm", "glm4", "glm4_moe", "helium", "mimo_v2_flash")


# Of so many layers the last attends to all, where no field says, as transformers' configurations fill it in.
_PATTERN = {"cohere2": 4, "olmo3": 4, "gemma3n": 5}


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
    if pattern is not None or word in ("gemma3", "gemma3n", "gemma4", "cohere2", "olmo3"):
        return window if (number + 1) % fields.size("sliding_window_pattern", _PATTERN.get(word, 6)) else 0
    if word.startswith("qwen"):  # the first `max_window_layers` see all
        return window if fields.flag("use_sliding_window") and number >= fields.count("max_window_layers") else 0
    return window


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
    if word == "gemma3n":  # one more after each layer's own embedding
        return family.norms + 1
    if word == "gemma4":  # one more after each layer's own embedding, three more around experts
        own = 1 if fields.count("hidden_size_per_layer_input") else 0
        return family.norms + own + (3 if fields.flag("enable_moe_block") else 0)
    if fields.flag("use_post_norm"):  # after attention and after the feed-forward part, beside those before
        return 4
    if fields.flag("use_sandwich_norm"):  # LFM3
        return 4
    return family.norms
