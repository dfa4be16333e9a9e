"""Formats of weights by what a config.json states of its quantisation, and what is said of those not known."""

from __future__ import annotations

import re

import pytest

from rooflab.work.llm import config, quantized

INT = {"num_bits": 8, "type": "int", "strategy": "channel"}
FLOAT = {"num_bits": 8, "type": "float", "strategy": "channel"}
TOKEN = {"num_bits": 8, "type": "float", "strategy": "token", "dynamic": True}


def group(weights: dict, met: dict | None) -> dict:
    return {"config_groups": {"group_0": {"weights": weights, "input_activations": met}}}


@pytest.mark.parametrize(
    ("stated", "expected"),
    [
        ({"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}, "bnb_nf4"),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True, "load_in_4bit": False}, "bnb_int8"),
        ({"quant_method": "fbgemm_fp8"}, "fp8_token"),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8_block"),
        ({"quant_method": "fp8"}, "fp8"),
        ({"quant_method": "gptq", "bits": 8}, "int8_wo"),
        ({"quant_method": "awq", "w_bit": 4}, "int4_wo"),
        ({"quant_method": "intel/auto-round", "bits": 4}, "int4_wo"),
        ({"quant_method": "hqq", "quant_config": {"weight_quant_params": {"nbits": 4}}}, "int4_wo"),
        ({"quant_method": "torchao", "quant_type": {"default": {"_type": "Int8WeightOnlyConfig"}}}, "int8_wo"),
        ({"quant_method": "torchao", "quant_type": "int8_dynamic_activation_int8_weight"}, "int8"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "nvfp4"),
        ({"quant_method": "modelopt", "quantization": {"quant_algo": "FP8"}}, "fp8"),
        ({"quant_method": "compressed-tensors", **group(INT, None)}, "int8_wo"),
        ({"quant_method": "compressed-tensors", **group(INT, INT)}, "int8"),
        ({"quant_method": "compressed-tensors", **group({**INT, "num_bits": 4}, None)}, "int4_wo"),
        ({"quant_method": "compressed-tensors", **group(FLOAT, TOKEN)}, "fp8_token"),
        ({"quant_method": "compressed-tensors",
          **group(FLOAT, {**TOKEN, "strategy": "tensor", "dynamic": False})}, "fp8"),
        ({"quant_method": "compressed-tensors", **group({**FLOAT, "strategy": "block"}, TOKEN)}, "fp8_block"),
        ({"quant_method": "compressed-tensors", "format": "nvfp4-pack-quantized"}, "nvfp4"),
        ({"quant_method": "exl2", "bits": 4.0}, "exl2_4"),
        ({"quant_method": "quark", "global_quant_config": {"weight": {"dtype": "fp8_e4m3"}}}, "fp8"),
    ],
)  # fmt: skip
def test_weights_have_the_format_that_is_stated(stated: dict, expected: str) -> None:
    assert quantized.stored({"quantization_config": stated}, {}) == ({"stored": expected}, "")


@pytest.mark.parametrize(
    ("stated", "said"),
    [
        ({"quant_method": "aqlm"}, "states aqlm, a format that is not known: weights count as fp16"),
        ({"quant_method": "gptq", "bits": 3}, r"states gptq \(3 bits\), a format"),
        ({"quant_method": "exl3", "bits": 3.5}, r"states exl3 \(3.5 bits\), a format"),
        ({"quant_method": "modelopt", "quant_algo": "W4A8_AWQ"}, r"states modelopt \(W4A8_AWQ\), a format"),
        ({"quant_method": "bitsandbytes"}, "states bitsandbytes, a format"),
        (
            {"quant_method": "compressed-tensors", **group({**INT, "num_bits": 4}, INT)},
            "states compressed_tensors",
        ),
        ({"quant_method": "compressed-tensors", "config_groups": {}}, "states compressed_tensors, a format"),
        ({"bits": 4}, "states no quant_method"),
    ],
)
def test_a_format_that_is_not_known_is_said_and_counts_as_without(stated: dict, said: str) -> None:
    llama = {
        "model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
        "intermediate_size": 128, "vocab_size": 1000, "torch_dtype": "float16",
    }  # fmt: skip
    model = config.architecture({**llama, "quantization_config": stated}, "llama", "config.json")
    assert model.stored == "fp16"
    assert re.search(said, model.said()[0])


def test_without_a_quantisation_weights_are_as_published() -> None:
    assert quantized.stored({}, {"torch_dtype": "float32"}) == ({"stored": "fp32"}, "")
    assert quantized.stored({"quantization_config": {}}, {}) == ({"stored": "bf16"}, "")
    of_experts = quantized.stored({"quantization_config": {"quant_method": "mxfp4"}}, {})
    assert of_experts == ({"stored": "bf16", "expert_stored": "mxfp4"}, "")
