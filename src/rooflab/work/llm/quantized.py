"""The number formats of a model's weights, by the `quantization_config` of its config.json."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

_PLAIN = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}
# Formats of weights alone, by their bits; what multiplies them has 16.
_ALONE = {4: "int4_wo", 8: "int8_wo"}


def stored(config: Mapping[str, Any], whole: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """The fields `stored` and `expert_stored` of an architecture, and what is said of a format that is not known.

    Args:
        config: the JSON object of a config.json.
        whole: its fields with those of the language model's section.

    Returns:
        The fields; "" or a sentence. Weights in a format that is not known count as they are without one.
    """
    dtype = str(whole.get("dtype") or whole.get("torch_dtype") or config.get("torch_dtype") or "bfloat16")
    plain = _PLAIN.get(dtype.removeprefix("torch."), "bf16")
    stated = config.get("quantization_config") or whole.get("quantization_config")
    if not isinstance(stated, Mapping) or not stated:
        return {"stored": plain}, ""
    method = str(stated.get("quant_method", "")).casefold().replace("-", "_").rpartition("/")[2]
    if method == "mxfp4":  # gpt-oss: of the experts alone
        return {"stored": plain, "expert_stored": "mxfp4"}, ""
    found = _METHODS[method](stated) if method in _METHODS else None
    experts = str(stated.get("expert_dtype") or whole.get("expert_dtype") or "")
    if found is not None and experts == "fp4":  # DeepSeek-V4: blocks of 32 that meet the same 8-bit numbers
        return {"stored": found, "expert_stored": "mxfp4_mxfp8"}, ""
    if found is not None:
        return {"stored": found}, ""
    name = method or "no quant_method"
    return {"stored": plain}, (
        f"quantization_config states {name}{_sizes(stated)}, a format that is not known: weights count as {plain} "
        "unless --precision says otherwise"
    )


def _sizes(stated: Mapping[str, Any]) -> str:
    bits = _bits(stated) or stated.get("quant_algo")
    return f" ({bits} bits)" if isinstance(bits, (int, float)) else f" ({bits})" if bits else ""


def _bits(stated: Mapping[str, Any]) -> Any:
    return stated.get("bits") or stated.get("w_bit")


def _by_bits(stated: Mapping[str, Any]) -> str | None:
    """GPTQ, AWQ, AutoRound: 4 bits where none are stated, as their tools write."""
    bits = _bits(stated)
    return _ALONE.get(4 if bits is None else bits)


def _fp8(stated: Mapping[str, Any]) -> str:
    return "fp8_block" if stated.get("weight_block_size") else "fp8"


def _bitsandbytes(stated: Mapping[str, Any]) -> str | None:
    if stated.get("load_in_4bit"):
        return "bnb_nf4"
    return "bnb_int8" if stated.get("load_in_8bit") else None


def _hqq(stated: Mapping[str, Any]) -> str | None:
    sizes = stated.get("quant_config")
    parts = sizes.get("weight_quant_params") if isinstance(sizes, Mapping) else None
    return _ALONE.get(parts.get("nbits", 0)) if isinstance(parts, Mapping) else None


def _torchao(stated: Mapping[str, Any]) -> str | None:
    words = str(stated.get("quant_type", "")).casefold().replace("_", "")
    known = {
        "int4weightonly": "int4_wo", "int8weightonly": "int8_wo", "int8dynamicactivationint8weight": "int8",
        "float8dynamicactivationfloat8weight": "fp8_token",
    }  # fmt: skip
    return next((form for word, form in known.items() if word in words), None)


def _modelopt(stated: Mapping[str, Any]) -> str | None:
    inner = stated.get("quantization")
    algorithm = str((inner if isinstance(inner, Mapping) else stated).get("quant_algo", "")).upper()
    known = {
        "FP8": "fp8", "FP8_PER_CHANNEL_PER_TOKEN": "fp8_token", "FP8_PB_WO": "fp8_block", "FP8_BLOCK": "fp8_block",
        "NVFP4": "nvfp4", "NVFP4_AWQ": "nvfp4", "W4A16_AWQ": "int4_wo", "W8A16": "int8_wo",
        "W8A8_SQ_PER_CHANNEL": "int8",
    }  # fmt: skip
    return known.get(algorithm) or ("nvfp4" if "nvfp4" in str(stated).casefold() else None)


def _compressed(stated: Mapping[str, Any]) -> str | None:
    """Of the first group of layers: bits and kind of weights, and what is done to what they meet."""
    if "nvfp4" in str(stated.get("format", "")).casefold():
        return "nvfp4"
    groups = stated.get("config_groups")
    group = next(iter(groups.values()), None) if isinstance(groups, Mapping) else None
    weights = group.get("weights") if isinstance(group, Mapping) else None
    if not isinstance(group, Mapping) or not isinstance(weights, Mapping):
        return None
    bits, kind, met = weights.get("num_bits"), weights.get("type"), group.get("input_activations")
    if not isinstance(met, Mapping):
        return _ALONE.get(bits) if kind == "int" and isinstance(bits, int) else None
    if bits != 8 or met.get("num_bits", 8) != 8:
        return None
    if kind == "int":
        return "int8"
    if weights.get("strategy") == "block":
        return "fp8_block"
    return "fp8" if met.get("strategy") == "tensor" and not met.get("dynamic") else "fp8_token"


def _exllama(stated: Mapping[str, Any]) -> str | None:
    bits = _bits(stated)
    return f"exl2_{int(bits)}" if bits in (2, 3, 4, 5, 6, 8) else None


def _quark(stated: Mapping[str, Any]) -> str | None:
    sizes = stated.get("global_quant_config")
    weight = sizes.get("weight") if isinstance(sizes, Mapping) else None
    dtype = str(weight.get("dtype", "")) if isinstance(weight, Mapping) else ""
    return "fp8" if dtype.startswith("fp8") else None


_METHODS: dict[str, Callable[[Mapping[str, Any]], str | None]] = {
    "fp8": _fp8,
    "finegrained_fp8": lambda _: "fp8_block",
    "fbgemm_fp8": lambda _: "fp8_token",
    "awq": _by_bits,
    "gptq": _by_bits,
    "auto_round": _by_bits,
    "bitsandbytes": _bitsandbytes,
    "hqq": _hqq,
    "torchao": _torchao,
    "modelopt": _modelopt,
    "modelopt_fp4": _modelopt,
    "compressed_tensors": _compressed,
    "exl2": _exllama,
    "quark": _quark,
}
