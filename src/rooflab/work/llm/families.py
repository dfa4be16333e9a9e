"""What a `model_type` of a Hugging Face configuration means where the file itself does not say."""

from __future__ import annotations

from typing import NamedTuple


class Family(NamedTuple):
    """How models of one `model_type` are built.

    Attributes:
        gated: whether a feed-forward part has a gate (SwiGLU, GeGLU).
        bias: of q, k and v; `out_bias` of attention's result; `mlp_bias`; None where a field says.
        qk_norm: as in `Attention`.
        layer_norm: LayerNorm with two vectors of parameters.
        norms: normalisations of the hidden size in a layer.
        parallel: attention and feed-forward part read the same input.
        rotates: whether positions are turned into q and k.
        table: rows of the table of positions beyond the stated ones; None for no table.
        tied: whether the head shares the embedding's table, where no field says.
        mixer, feed: which reader makes them, see `config`.
        parts: layers here that a file counts as one.
        head_bias: whether the head has a bias.
        gate: what multiplies attention's result: "element" for as many numbers as it has, "head" for one a head,
            "stated" where a field says which; "" for none.
        mixed: whether residual streams, where a file has several, are mixed with each other too; `averaged` as in
            `HyperConnections`.
    """

    gated: bool = True
    bias: bool | None = None
    out_bias: bool | None = None
    mlp_bias: bool | None = None
    qk_norm: str = ""
    layer_norm: bool = False
    norms: int = 2
    parallel: bool = False
    rotates: bool = True
    table: int | None = None
    tied: bool = False
    mixer: str = "attention"
    feed: str = "any"
    parts: int = 1
    head_bias: bool = False
    gate: str = ""
    mixed: bool = True
    averaged: bool = False


_OLD = Family(gated=False, bias=True, out_bias=True, mlp_bias=True, layer_norm=True)
_GEMMA = Family(tied=True)
_DEEPSEEK = Family(mixer="latent", feed="deepseek")
_QWEN3_NEXT = Family(qk_norm="head", mixer="delta", feed="qwen", gate="element")
_MUSE = Family(gate="element", feed="deepseek", norms=4)

FAMILIES: dict[str, Family] = {
    "llama": Family(),
    "mistral": Family(),
    "ministral": Family(),
    "ministral3": Family(),
    "mixtral": Family(feed="mixtral"),
    "smollm3": Family(tied=True),
    "olmo": Family(),
    "olmo2": Family(qk_norm="full"),
    "olmo3": Family(qk_norm="full"),
    "olmoe": Family(qk_norm="full", feed="qwen"),
    "granite": Family(),
    "granitemoe": Family(feed="mixtral"),
    "granitemoehybrid": Family(mixer="bamba", feed="granite"),
    "granitemoeshared": Family(feed="granite"),
    "afmoe": Family(qk_norm="head", feed="deepseek", norms=4, gate="element"),
    "laguna": Family(qk_norm="head", feed="deepseek", gate="stated"),
    "step3p5": Family(qk_norm="head", feed="step", gate="stated"),
    "muse_glimmer": _MUSE,
    "muse_spark": _MUSE,
    "aria_text": Family(feed="deepseek"),
    "hy_v3": Family(qk_norm="head", feed="deepseek"),
    "exaone_moe": Family(qk_norm="head", feed="deepseek"),
    "mellum": Family(qk_norm="head", feed="deepseek"),
    "mimo_v2_flash": Family(feed="deepseek"),
    "cohere2_moe": Family(norms=1, parallel=True, tied=True, feed="deepseek"),
    "hyperclovax": Family(),
    "jais2": Family(gated=False, bias=True, out_bias=True, layer_norm=True),
    "nanochat": Family(gated=False),
    "persimmon": Family(gated=False, bias=True, out_bias=True, mlp_bias=True, layer_norm=True),
    "gpt_neo": _OLD._replace(bias=False, table=0, rotates=False, tied=True),
    "xglm": _OLD._replace(rotates=False, tied=True),
    "bamba": Family(mixer="bamba"),
    "lfm2": Family(qk_norm="head", mixer="conv", feed="lfm2", tied=True),
    "lfm3": Family(qk_norm="head", mixer="conv", tied=True, gate="stated"),
    "lfm2_moe": Family(qk_norm="head", mixer="conv", feed="deepseek", tied=True),
    "apertus": Family(gated=False, qk_norm="head"),
    "arcee": Family(gated=False),
    "dots1": Family(qk_norm="head", feed="deepseek"),
    "ernie4_5": Family(),
    "ernie4_5_moe": Family(feed="ernie"),
    "hunyuan_v1_dense": Family(qk_norm="head"),
    "hunyuan_v1_moe": Family(qk_norm="head", feed="hunyuan"),
    "flex_olmo": Family(qk_norm="full", feed="qwen"),
    "deepseek": Family(feed="deepseek"),
    "minicpm3": Family(mixer="latent"),
    "internlm": Family(),
    "internlm2": Family(),
    "internlm3": Family(),
    "exaone": Family(),
    "exaone4": Family(qk_norm="head"),
    "seed_oss": Family(),
    "helium": Family(),
    "glm": Family(bias=True),
    "glm4": Family(bias=True, norms=4),
    "glm4_moe": Family(feed="deepseek"),
    "glm_moe_dsa": _DEEPSEEK,
    "deepseek_v2": _DEEPSEEK,
    "deepseek_v3": _DEEPSEEK,
    "deepseek_v32": _DEEPSEEK,
    "deepseek_v4": Family(mixer="compressed", feed="deepseek"),
    "longcat_flash": Family(mixer="latent", feed="longcat", parts=2),
    "kimi_linear": Family(mixer="kimi", feed="deepseek"),
    "bailing_hybrid": Family(mixer="kimi", feed="deepseek", gate="head"),
    "glm5_next": Family(mixer="kimi", feed="deepseek", averaged=True),
    "hy_v4": Family(mixer="latent", feed="deepseek", gate="element", mixed=False),
    "mistral_large4": _DEEPSEEK,
    "kimi_k2": _DEEPSEEK,
    "kimi_k25": _DEEPSEEK,
    "glm4_moe_lite": _DEEPSEEK,
    "qwen2": Family(bias=True),
    "qwen2_moe": Family(bias=True, feed="qwen"),
    "qwen2_vl": Family(bias=True),
    "qwen2_5_vl": Family(bias=True),
    "qwen3": Family(qk_norm="head"),
    "qwen3_moe": Family(qk_norm="head", feed="qwen"),
    "qwen3_vl": Family(qk_norm="head"),
    "qwen3_vl_moe": Family(qk_norm="head", feed="qwen"),
    "qwen3_next": _QWEN3_NEXT,
    "qwen3_5": _QWEN3_NEXT,
    "qwen3_5_moe": _QWEN3_NEXT,
    "minimax": Family(mixer="lightning", feed="mixtral"),
    "minimax_m2": Family(qk_norm="full", feed="minimax"),
    "minimax_m3": Family(qk_norm="head", feed="minimax_m3"),
    "gpt_oss": Family(bias=True, out_bias=True, feed="gpt_oss"),
    "llama4": Family(feed="llama4"),
    "nemotron_nas": Family(mixer="chosen", feed="chosen"),
    "gemma": _GEMMA,
    "gemma2": Family(norms=4, tied=True),
    "gemma3": Family(norms=4, qk_norm="head", tied=True),
    "gemma3n": Family(norms=4, qk_norm="head", tied=True, feed="gemma3n"),
    "gemma4": Family(norms=4, qk_norm="head", tied=True, feed="gemma4"),
    "phi": Family(gated=False, bias=True, out_bias=True, mlp_bias=True, layer_norm=True, norms=1, parallel=True,
                  head_bias=True),
    "phi3": Family(),
    "chatglm": Family(),
    "qwen": Family(bias=True, feed="halved"),
    "orion": Family(layer_norm=True),
    "minicpm": Family(tied=True),
    "bailing_moe": Family(feed="deepseek"),
    "phimoe": Family(layer_norm=True, feed="mixtral"),
    "starcoder2": Family(gated=False, bias=True, out_bias=True, mlp_bias=True, layer_norm=True, tied=True),
    "stablelm": Family(layer_norm=True),
    "cohere": Family(norms=1, parallel=True, tied=True),
    "cohere2": Family(norms=1, parallel=True, tied=True),
    "nemotron": Family(gated=False, layer_norm=True),
    "nemotron_h": Family(gated=False, norms=1, mixer="nemotron_h", feed="nemotron_h"),
    "mamba": Family(norms=1, mixer="mamba", feed="none", tied=True),
    "falcon_mamba": Family(norms=1, mixer="mamba", feed="none"),
    "mamba2": Family(norms=1, mixer="mamba", feed="none"),
    "jamba": Family(mixer="jamba", feed="jamba"),
    "gptj": Family(gated=False, bias=False, out_bias=False, mlp_bias=True, layer_norm=True, norms=1, parallel=True,
                   head_bias=True),
    "gpt_neox": Family(gated=False, bias=True, out_bias=True, mlp_bias=True, layer_norm=True, parallel=True),
    "gpt2": _OLD._replace(table=0, rotates=False, tied=True),
    "opt": _OLD._replace(table=2, rotates=False, tied=True),
    "bloom": _OLD._replace(rotates=False, tied=True),
    "mpt": Family(gated=False, bias=False, out_bias=False, mlp_bias=False, rotates=False, tied=True),
    "falcon_h1": Family(mixer="falcon_h1"),
    "falcon": Family(gated=False, bias=False, out_bias=False, mlp_bias=False, layer_norm=True, parallel=True,
                     tied=True),
    "gpt_bigcode": _OLD._replace(table=0, rotates=False, tied=True),
    "t5": Family(bias=False, out_bias=False, mlp_bias=False, rotates=False, tied=True, mixer="t5"),
    "whisper": _OLD._replace(table=0, rotates=False, tied=True, mixer="whisper"),
    "bart": _OLD._replace(table=2, rotates=False, tied=True, mixer="whisper"),
    "pegasus": _OLD._replace(table=0, rotates=False, tied=True, mixer="whisper"),
    "m2m_100": _OLD._replace(rotates=False, tied=True, mixer="whisper"),
}  # fmt: skip

# Names that mean the same as another's.
ALIASES: dict[str, str] = {
    "llama4_text": "llama4",
    "gemma3_text": "gemma3",
    "gemma3n_text": "gemma3n",
    "gemma4_text": "gemma4",
    "gemma4_unified_text": "gemma4",
    "qwen3_5_text": "qwen3_5",
    "qwen3_5_moe_text": "qwen3_5_moe",
    "qwen2_vl_text": "qwen2_vl",
    "qwen2_5_vl_text": "qwen2_5_vl",
    "qwen3_vl_text": "qwen3_vl",
    "qwen3_vl_moe_text": "qwen3_vl_moe",
    "refinedweb": "falcon",
    "refinedwebmodel": "falcon",
    "deci": "nemotron_nas",
    "aquila": "llama",
    "mt5": "t5",
    "umt5": "t5",
    "mbart": "bart",
    "yi": "llama",
    "minimax_m1": "minimax",
    "minimax_m2_5": "minimax_m2",
    "minimax_text_01": "minimax",
    "codellama": "llama",
    "baichuan": "llama",
    "xverse": "llama",
    "bailing_moe_v2": "bailing_moe",
    "phi4": "phi3",
    # As many parameters as transformers' model of the type's default configuration, with no field left unread.
    "biogpt": "opt",
    "flint": "qwen3_moe",
    "kolibri1": "qwen3_moe",
    "cwm": "llama",
    "gpt_sw3": "gpt2",
    "iquestcoder": "llama",
    "sarvam_mla": "deepseek_v3",
    "sarvam_moe": "dots1",
    "solar_open": "glm4_moe",
    "vaultgemma": "gemma",
    "youtu": "deepseek_v3",
    "axk1": "deepseek_v3",
    "mistral4": "deepseek_v3",
    "glm4v_text": "glm4",
    "glm4v_moe_text": "glm4_moe",
    "glm_ocr_text": "glm4",
    "step3p7": "step3p5",
    "muse_glimmer_text": "muse_glimmer",
    "muse_spark_text": "muse_spark",
    "glm5_next_text": "glm5_next",
    "mistral_large4_text": "mistral_large4",
    "minimax_m3_vl": "minimax_m3",
    "minimax_m3_vl_text": "minimax_m3",
    "granite4_vision_text": "granite",
    "ernie4_5_vl_moe_text": "ernie4_5_moe",
    "ernie4_5_vl_moe": "ernie4_5_moe",
    "ernie4_5_moe_vl": "ernie4_5_moe",
    "hunyuan_vl": "hunyuan_v1_dense",
    "paddleocr_vl": "ernie4_5",
    "hunyuan_vl_text": "hunyuan_v1_dense",
    "paddleocr_vl_text": "ernie4_5",
    "granite_swa": "granite",
    "granitemoe_swa": "granitemoe",
    "apertus1p5_text": "apertus",
    "codegen": "gptj",
    "openai_gpt": "gpt2",
    "qwen2_5_omni_text": "qwen2",
    "qwen3_omni_moe_text": "qwen3_moe",
    "phi4mm": "phi3",
    "blenderbot": "pegasus",
    "blenderbot_small": "pegasus",
    "marian": "pegasus",
    "mvp": "bart",
    "plbart": "bart",
}
