"""Models whose classes are not in transformers: the parameters that the index of their published files states."""

import pytest

from rooflab.work.llm import config

_SEVEN = {"hidden_size": 4096, "num_attention_heads": 32, "num_hidden_layers": 32, "tie_word_embeddings": False}
_GLM = {
    "model_type": "chatglm", "add_bias_linear": False, "add_qkv_bias": True, "ffn_hidden_size": 13696,
    "hidden_size": 4096, "kv_channels": 128, "multi_query_attention": True, "multi_query_group_num": 2,
    "num_attention_heads": 32, "original_rope": True, "post_layer_norm": True, "rmsnorm": True,
    "tie_word_embeddings": False,
}  # fmt: skip
_LING = {
    "head_dim": 128, "hidden_size": 2048, "num_attention_heads": 16, "num_key_value_heads": 4, "use_bias": False,
    "use_qkv_bias": False, "tie_word_embeddings": False,
}  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "parameters"),
    [
        pytest.param(_GLM | {"num_layers": 28, "padded_vocab_size": 65024}, 6_243_584_000, id="ChatGLM3-6B"),
        pytest.param(_GLM | {"num_layers": 40, "padded_vocab_size": 151552}, 9_399_951_360, id="GLM-4-9B"),
        pytest.param(
            _SEVEN | {"model_type": "qwen", "intermediate_size": 22016, "kv_channels": 128, "no_bias": True,
                      "vocab_size": 151936}, 7_721_324_544, id="Qwen-7B",
        ),
        pytest.param(
            _SEVEN | {"model_type": "baichuan", "intermediate_size": 11008, "vocab_size": 125696},
            7_505_973_248, id="Baichuan2-7B",
        ),
        pytest.param(
            _SEVEN | {"model_type": "internlm", "bias": True, "intermediate_size": 11008, "vocab_size": 103168},
            7_321_948_160, id="InternLM-7B",
        ),
        pytest.param(
            {"model_type": "deepseek", "first_k_dense_replace": 1, "hidden_size": 2048, "intermediate_size": 10944,
             "moe_intermediate_size": 1408, "moe_layer_freq": 1, "n_routed_experts": 64, "n_shared_experts": 2,
             "num_attention_heads": 16, "num_experts_per_tok": 6, "num_hidden_layers": 28,
             "num_key_value_heads": 16, "tie_word_embeddings": False, "vocab_size": 102400},
            16_375_728_128, id="DeepSeekMoE-16B",
        ),
        pytest.param(
            _LING | {"model_type": "bailing_moe", "intermediate_size": 5632, "moe_intermediate_size": 1408,
                     "num_experts": 64, "num_experts_per_tok": 6, "num_hidden_layers": 28, "num_shared_experts": 2,
                     "vocab_size": 126464}, 16_801_974_272, id="Ling-lite",
        ),
    ],
)  # fmt: skip
def test_parameters_are_those_of_the_published_files(fields: dict, parameters: int) -> None:
    made = config.architecture(fields, "model", "config.json")
    assert made.parameters == parameters
    assert made.notes() == ()


def test_q_and_k_of_ling_2_are_normalised_and_its_shared_expert_has_a_width_of_its_own() -> None:
    fields = _LING | {
        "model_type": "bailing_moe_v2", "first_k_dense_replace": 1, "intermediate_size": 5120,
        "moe_intermediate_size": 512, "moe_shared_expert_intermediate_size": 768, "num_experts": 256,
        "num_experts_per_tok": 8, "num_hidden_layers": 20, "num_shared_experts": 1, "use_qk_norm": True,
        "vocab_size": 157184,
    }  # fmt: skip
    made = config.architecture(fields, "model", "config.json")
    dense, sparse = made.blocks
    assert (dense.count, sparse.count, sparse.feed.shared, sparse.mixer.qk_norm) == (1, 19, 768, "head")


@pytest.mark.parametrize(
    ("fields", "bias", "result"),
    [
        ({"model_type": "llama", "attention_bias": True}, True, True),
        ({"model_type": "glm4_moe", "attention_bias": True}, True, False),  # o_proj: bias=False in its class
        ({"model_type": "internlm", "bias": True}, True, True),
        ({"model_type": "chatglm", "add_qkv_bias": True}, True, False),
        ({"model_type": "internlm2", "bias": False}, False, False),
    ],
)
def test_which_products_of_attention_add_a_bias(fields: dict, bias: bool, result: bool) -> None:
    sizes = {"hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 1, "vocab_size": 100,
             "intermediate_size": 128}  # fmt: skip
    mixer = config.architecture(sizes | fields, "model", "config.json").blocks[0].mixer
    assert (mixer.bias, mixer.out_bias) == (bias, result)
