"""Graphs made from a configuration against the same model of transformers, captured on the meta device."""

from __future__ import annotations

import importlib.util
import json
import warnings
from pathlib import Path
from typing import Any

import pytest

import rooflab
from rooflab.types.report import Report
from rooflab.work import counting
from rooflab.work.llm import config
from rooflab.work.llm.graph import graph
from rooflab.work.llm.precision import precision

pytestmark = pytest.mark.slow  # importing transformers takes 10 s, each capture half a second
torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

SEQUENCES, TOKENS = 2, 32
ROWS = SEQUENCES * TOKENS
SMALL = {
    "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "intermediate_size": 128, "vocab_size": 1000, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
OLD = {"n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 1000, "bos_token_id": 1, "eos_token_id": 2}
LATENT = {
    "num_key_value_heads": 4, "q_lora_rank": 32, "kv_lora_rank": 16, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8,
    "v_head_dim": 16, "n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32,
    "first_k_dense_replace": 1, "n_group": 2, "topk_group": 1,
}  # fmt: skip
SPARSE = {
    "head_dim": 16,
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "num_shared_experts": 1,
    "moe_intermediate_size": 32,
}
MIXTRAL = {"num_local_experts": 4, "num_experts_per_tok": 2}
DELTA = {
    "head_dim": 16, "num_hidden_layers": 4, "linear_num_key_heads": 2, "linear_num_value_heads": 4,
    "linear_key_head_dim": 16, "linear_value_head_dim": 16, "num_experts": 8, "num_experts_per_tok": 2,
    "moe_intermediate_size": 32, "shared_expert_intermediate_size": 32,
}  # fmt: skip
HYBRID = {"mamba_n_heads": 8, "mamba_d_head": 16, "mamba_d_state": 16, "mamba_n_groups": 2}
T5 = {
    "d_model": 64, "d_kv": 16, "d_ff": 128, "num_layers": 2, "num_decoder_layers": 2, "num_heads": 4,
    "vocab_size": 1000,
}  # fmt: skip

# Bytes that the captured grouped products read beside their operands: int32 ends of the groups, for two products
# in each layer of experts.
ENDS = 2 * 4
# DeepSeek's router in fp32: 2 bytes more for each number of its rows, weights and results, 8 experts.
ROUTER = 2 * (ROWS * 64 + 64 * 8 + ROWS * 8)

GEMMA3N = {
    "head_dim": 16, "sliding_window": 8, "num_hidden_layers": 5, "intermediate_size": [128, 128, 96, 96, 64],
    "hidden_size_per_layer_input": 24, "vocab_size_per_layer_input": 900, "num_kv_shared_layers": 2,
    "laurel_rank": 8, "layer_types": [*["sliding_attention", "full_attention"] * 2, "sliding_attention"],
}  # fmt: skip
GEMMA4 = {
    "head_dim": 16, "global_head_dim": 32, "sliding_window": 8, "num_hidden_layers": 9,
    "hidden_size_per_layer_input": 24, "vocab_size_per_layer_input": 1000,
    "layer_types": ["sliding_attention", "sliding_attention", "full_attention"] * 3,
}  # fmt: skip
COMPRESSED = {
    "head_dim": 32, "q_lora_rank": 16, "qk_rope_head_dim": 8, "sliding_window": 8, "o_groups": 2, "o_lora_rank": 8,
    "index_n_heads": 4, "index_head_dim": 16, "index_topk": 2, "moe_intermediate_size": 32, "n_routed_experts": 8,
    "num_experts_per_tok": 2, "num_hidden_layers": 3,
    "compress_rates": {"compressed_sparse_attention": 4, "heavily_compressed_attention": 8},
    "layer_types": ["sliding_attention", "compressed_sparse_attention", "heavily_compressed_attention"],
}  # fmt: skip
INDEXED = {
    **LATENT,
    "n_group": 1,
    "index_n_heads": 4,
    "index_head_dim": 16,
    "index_topk": 8,
    "num_hidden_layers": 4,
}
KDA = {"linear_head_dim": 16, "linear_num_heads": 4}
GROUPS = {  # one layer of experts behind one that is dense, attention of the first to all keys
    **MIXTRAL, "head_dim": 16, "dense_intermediate_size": 96, "shared_intermediate_size": 32,
    "layer_types": ["full_attention", "minimax_m3_sparse"], "mlp_layer_types": ["dense", "sparse"],
    "index_n_heads": 2, "index_head_dim": 8, "index_topk_blocks": 2, "index_block_size": 4,
}  # fmt: skip
TWO_KINDS = {
    "head_dim": 16, "sliding_window": 8, "moe_intermediate_size": 32, "num_experts_per_tok": 2,
    "layer_types": ["full_attention", "sliding_attention"],
}  # fmt: skip
PATTERNED = {
    "head_dim": 16, "hybrid_override_pattern": "M*E-", "num_hidden_layers": 4, "mamba_num_heads": 8,
    "mamba_head_dim": 16, "n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32,
    "moe_shared_expert_intermediate_size": 48, "moe_latent_size": 40,
}  # fmt: skip
CONVOLVES = ["conv", "full_attention"]
TRANSLATES = {
    "d_model": 64, "encoder_layers": 2, "decoder_layers": 3, "encoder_ffn_dim": 128, "decoder_ffn_dim": 96,
    "encoder_attention_heads": 4, "decoder_attention_heads": 4, "vocab_size": 1000, "decoder_start_token_id": 2,
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip

# model_type, its fields, whether its projections are joined, bytes of products beyond the made graph's.
EVERYTHING: list[tuple[str, dict[str, Any], bool, int]] = [
    ("llama", {}, False, 0),
    ("qwen2", {}, False, 0),
    ("qwen3", {"head_dim": 32}, False, 0),
    ("olmo2", {}, False, 0),
    ("cohere", {}, False, 0),
    ("nemotron", {}, False, 0),
    ("stablelm", {}, False, 0),
    ("starcoder2", {}, False, 0),
    ("phi3", {}, True, 0),
    ("gpt_neox", {}, True, 0),
    ("gpt2", {**OLD, "n_positions": 64}, True, 0),
    ("gptj", {**OLD, "rotary_dim": 8}, False, 0),
    ("opt", {"ffn_dim": 128, "word_embed_proj_dim": 64}, False, 0),
    ("mixtral", MIXTRAL, False, 2 * 4 * ENDS),
    ("minimax_m2", {**MIXTRAL, "head_dim": 16}, False, 2 * 4 * ENDS),
    ("qwen3_moe", {"head_dim": 16, "moe_intermediate_size": 32, "num_experts": 8, "num_experts_per_tok": 2}, False,
     2 * 8 * ENDS),
    ("deepseek_v3", LATENT, False, 8 * ENDS + ROUTER),
    ("qwen2_moe", {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32,
                   "shared_expert_intermediate_size": 64}, False, 2 * 8 * ENDS),
    ("flex_olmo", {"num_experts": 4, "num_experts_per_tok": 2}, False, 2 * 4 * ENDS),
    ("minicpm3", {"q_lora_rank": 32, "kv_lora_rank": 16, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8,
                  "v_head_dim": 16, "num_key_value_heads": 4}, False, 0),
    ("hunyuan_v1_dense", {"head_dim": 16}, False, 0),
    ("ernie4_5", {"head_dim": 16}, False, 0),
    ("arcee", {}, False, 0),
    ("jais2", {"mlp_bias": True, "attention_bias": True, "head_dim": 16}, False, 0),
    ("hyperclovax", {"head_dim": 16, "use_post_norm": True}, False, 0),
    ("lfm3", {"head_dim": 16, "layer_types": ["conv", "full_attention"]}, False, 0),
]  # fmt: skip
# Of these transformers computes attention otherwise (masks over the full square): products alone.
PRODUCTS: list[tuple[str, dict[str, Any]]] = [
    ("mistral", {"sliding_window": 8}),
    ("gemma3_text", {"head_dim": 16, "sliding_window": 8, "num_hidden_layers": 6}),
    ("t5", T5),
    ("gemma4_text", GEMMA4),
    ("gemma4_text", {**GEMMA4, "num_kv_shared_layers": 4, "use_double_wide_mlp": True}),
    ("gemma4_text", {**GEMMA4, "hidden_size_per_layer_input": 0, "attention_k_eq_v": True}),
]
# Of these it unrolls a recurrence, has experts compute all tokens, or attends by products: parameters alone.
PARAMETERS: list[tuple[str, dict[str, Any]]] = [
    ("gemma2", {"head_dim": 16, "sliding_window": 8}),
    ("gpt_oss", {**MIXTRAL, "head_dim": 16, "sliding_window": 8}),
    ("falcon", {}),
    ("bloom", {**OLD, "hidden_size": 64}),
    ("qwen3_next", DELTA),
    ("mamba", {"state_size": 8, "time_step_rank": 4}),
    ("mamba2", {"state_size": 16, "num_heads": 8, "head_dim": 16, "n_groups": 2, "expand": 2}),
    ("granitemoehybrid", HYBRID),
    ("bamba", {**HYBRID, "attn_layer_indices": [1]}),
    ("dots1", {"head_dim": 16, "n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32,
               "first_k_dense_replace": 1, "n_shared_experts": 1}),
    ("hunyuan_v1_moe", {"head_dim": 16, "num_experts": 4, "moe_topk": 2}),
    ("llama4_text", {"head_dim": 16, "intermediate_size_mlp": 96, "num_local_experts": 4, "num_experts_per_tok": 1,
                     "interleave_moe_layer_step": 1}),
    ("hy_v3", {**SPARSE, "mlp_layer_types": ["dense", "sparse"]}),
    ("exaone_moe", {**SPARSE, "mlp_layer_types": ["dense", "sparse"]}),
    ("aria_text", {"head_dim": 16, "moe_num_experts": 4, "moe_topk": 2, "moe_num_shared_experts": 2}),
    ("mellum", {**SPARSE, "num_local_experts": 8, "num_shared_experts": 0, "mlp_layer_types": ["sparse"] * 2}),
    ("lfm2", {"layer_types": ["conv", "full_attention"], "conv_L_cache": 3, "block_multiple_of": 16}),
    ("deepseek_v4", COMPRESSED),
    ("gemma3n_text", GEMMA3N),
    ("kimi_linear", {**LATENT, "q_lora_rank": None, "linear_head_dim": 16, "linear_num_heads": 4,
                     "num_hidden_layers": 5}),
    ("minimax", {**MIXTRAL, "head_dim": 16, "num_hidden_layers": 3}),
    ("falcon_h1", {"mamba_d_ssm": 96, "mamba_n_heads": 8, "mamba_n_groups": 2, "mamba_d_state": 16}),
    ("falcon_h1", {"mamba_d_ssm": None, "mamba_n_heads": 8, "mamba_d_state": 16, "mamba_rms_norm": True}),
    ("lfm2_moe", {**SPARSE, "num_shared_experts": 0, "num_dense_layers": 1, "layer_types": CONVOLVES}),
    ("granitemoeshared", {"num_local_experts": 4, "num_experts_per_tok": 2, "shared_intermediate_size": 96}),
    ("persimmon", {"qk_layernorm": False}),
    ("gpt_neo", {"num_layers": 2, "num_heads": 4, "attention_types": [[["global", "local"], 1]]}),
    ("m2m_100", TRANSLATES),
    ("hy_v4", INDEXED),
    ("glm_moe_dsa", {**INDEXED, "index_topk_freq": 2}),
    ("bailing_hybrid", {**LATENT, "num_hidden_layers": 4, "layer_group_size": 2, "head_dim": 16,
                        "num_local_experts": 8}),
    ("minimax_m3_vl_text", GROUPS),
    ("nemotron_h", PATTERNED),
]  # fmt: skip


def built(word: str, fields: dict[str, Any]) -> tuple[Any, Any]:
    """The model on meta, and its configuration."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    whole = word == "t5" or "n_embd" in fields or "encoder_layers" in fields
    made = CONFIG_MAPPING[word](**(fields if whole else {**SMALL, **fields}))
    both = word == "t5" or "encoder_layers" in fields
    kind = transformers.AutoModelForSeq2SeqLM if both else transformers.AutoModelForCausalLM
    with warnings.catch_warnings(), torch.device("meta"):
        warnings.simplefilter("ignore")
        return kind.from_config(made, dtype=torch.bfloat16).eval(), made


def captured(model: Any, word: str) -> Report:
    ids = torch.zeros((SEQUENCES, TOKENS), dtype=torch.long, device="meta")
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if word == "t5":
            return rooflab.analyze(lambda a, b: model(input_ids=a, decoder_input_ids=b), ids, ids)
        return rooflab.analyze(model, ids)


def sums(report: Report) -> dict[str, float]:
    """FLOP of matrix engines and bytes of products, and of attention."""
    found = {"product flop": 0.0, "product bytes": 0.0, "attention flop": 0.0, "attention bytes": 0.0}
    for row in report.rows:
        kind = {"matmul": "product", "grouped_matmul": "product", "attention": "attention"}.get(row.op.kind or "")
        if kind and row.cost is not None:
            found[f"{kind} flop"] += sum(each.count for each in row.cost.flop if each.engine == "matrix")
            found[f"{kind} bytes"] += row.cost.compulsory.nbytes
    return found


def made(word: str, config_fields: dict[str, Any], joined: bool = False) -> dict[str, float]:
    model = config.architecture(config_fields, word, word)
    whole = graph(
        model, sequences=SEQUENCES, new=TOKENS, precision=precision("bf16"), joined=joined, every_logit=True
    )
    return sums(counting.report(whole, word))


@pytest.mark.parametrize(("word", "fields", "joined", "beside"), EVERYTHING)
def test_flop_and_bytes_of_products_and_attention_are_the_captured_ones(word, fields, joined, beside) -> None:
    model, stated = built(word, fields)
    expected = sums(captured(model, word))
    found = made(word, stated.to_dict(), joined)
    assert found | {"product bytes": found["product bytes"] + beside} == expected
    parameters = sum(each.numel() for each in {id(one): one for one in model.parameters()}.values())
    assert config.architecture(stated.to_dict(), word, word).parameters == parameters


@pytest.mark.parametrize(("word", "fields"), PRODUCTS)
def test_flop_and_bytes_of_products_are_the_captured_ones(word, fields) -> None:
    model, stated = built(word, fields)
    expected, found = sums(captured(model, word)), made(word, stated.to_dict())
    for name in ("product flop", "product bytes"):
        assert found[name] == expected[name]


def test_products_of_gemma_3n_are_the_captured_ones_but_for_the_mixing_of_its_streams() -> None:
    """transformers mixes 4 streams of 64 numbers by a product of 4 x 4 for each token: here that is none."""
    model, stated = built("gemma3n_text", GEMMA3N)
    expected, found = sums(captured(model, "gemma3n_text")), made("gemma3n_text", stated.to_dict())
    mixed = 5 * SEQUENCES * TOKENS * 64 * 4 * 4 * 2
    moved = 5 * SEQUENCES * TOKENS * (2 * 4 * 64 + 4 * 4) * 2
    assert found["product flop"] == expected["product flop"] - mixed
    assert found["product bytes"] == expected["product bytes"] - moved


@pytest.mark.parametrize(("word", "fields"), [*PRODUCTS, *PARAMETERS])
def test_parameters_are_those_of_the_model(word, fields) -> None:
    model, stated = built(word, fields)
    parameters = sum(each.numel() for each in {id(one): one for one in model.parameters()}.values())
    assert config.architecture(stated.to_dict(), word, word).parameters == parameters


# Models with a tower, as their files are saved: each section with what differs from its class. The share of the
# tower is what its numbers may be off by: biases of what joins it to the language model are not counted.
WITH_TOWERS: list[tuple[str, dict[str, Any], float]] = [
    ("llava", {}, 0.002),
    ("llava_onevision", {}, 0.002),
    ("mistral3", {}, 0.002),
    (
        "qwen2_5_vl",
        {
            "vision_config": {
                "depth": 2,
                "hidden_size": 320,
                "intermediate_size": 640,
                "num_heads": 4,
                "out_hidden_size": 512,
            }
        },
        0.06,
    ),
    ("qwen3_vl", {"vision_config": {"out_hidden_size": 512}}, 0.03),
    ("glm4v", {}, 0.002),
    ("internvl", {}, 0.002),
    ("paligemma", {}, 0.01),
]


@pytest.mark.parametrize(("word", "sections", "off"), WITH_TOWERS)
def test_sections_saved_by_what_differs_mean_the_same_model(word, sections, off) -> None:
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    inner = {"num_hidden_layers": 3, "hidden_size": 512, "num_attention_heads": 8, "intermediate_size": 256}
    made = CONFIG_MAPPING[word](text_config=inner, **sections)
    with warnings.catch_warnings(), torch.device("meta"):
        warnings.simplefilter("ignore")
        model = transformers.AutoModelForImageTextToText.from_config(made)
    text = sum(
        each.numel() for name, each in model.named_parameters() if ".layers." in name and "language" in name
    )
    towers = sum(
        each.numel() for name, each in model.named_parameters() if "language" not in name and "lm_head" not in name
    )
    saved = json.loads(made.to_json_string(use_diff=True))
    assert "num_hidden_layers" not in saved or word == "paligemma"  # it stands in a section alone
    found = config.architecture(saved, word, word)
    assert sum(each.count * each.parameters(found.hidden, found.norm_parameters) for each in found.blocks) == text
    assert found.tower is not None
    assert found.tower.parameters() == pytest.approx(towers, rel=off)


# Language models within larger ones, of their text section: numbers of a layer's parameters that are not counted.
WITHIN: list[tuple[str, dict[str, Any], int]] = [
    # Scales of the softmax by head, of the indexer's too, and a norm of two vectors before its queries.
    ("mistral_large4", {**INDEXED, "q_lora_rank": None, "kv_source_layers": [0, 1, 0, 3]}, 2 * 4 + 2 * 4 + 2 * 64),
    ("glm5_next", {**INDEXED, **KDA, "qk_rope_head_dim": 0, "index_kpool": 4}, 0),
    ("step3p7", {**TWO_KINDS, "n_routed_experts": 8, "share_expert_dim": 48, "num_sliding_attention_heads": 8,
                 "moe_layers_enum": "1"}, 0),
    ("muse_glimmer", {"head_dim": 16}, 0),
    ("minimax_m3_vl", GROUPS, 0),
    ("hunyuan_vl", {"head_dim": 16}, 0),
    ("paddleocr_vl", {"head_dim": 16}, 0),
]  # fmt: skip


@pytest.mark.parametrize(("word", "fields", "each"), WITHIN)
def test_layers_of_a_language_model_within_another_are_those_of_the_model(word, fields, each) -> None:
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    stated = CONFIG_MAPPING[word](text_config={**SMALL, **fields})
    if word == "hunyuan_vl":
        stated.vision_config.image_size = 224  # its class has none, its model needs one
    with warnings.catch_warnings(), torch.device("meta"):
        warnings.simplefilter("ignore")
        model = transformers.AutoModelForImageTextToText.from_config(stated)
    text = sum(p.numel() for name, p in model.named_parameters() if ".layers." in name and "language" in name)
    found = config.architecture(json.loads(stated.to_json_string(use_diff=True)), word, word)
    own = sum(block.count * block.parameters(found.hidden, found.norm_parameters) for block in found.blocks)
    assert own == text - found.layers * each
    assert found.doubts == ()


def test_heads_by_layer_are_read_and_the_router_s_bias_alone_is_left_out() -> None:
    fields = {**TWO_KINDS, "num_experts": 8, "shared_expert_intermediate_size": 48}
    model, stated = built("laguna", {**fields, "num_attention_heads_per_layer": [4, 8]})
    parameters = sum(each.numel() for each in model.parameters())
    assert config.architecture(stated.to_dict(), "laguna", "laguna").parameters == parameters - 8


def test_experts_of_images_are_weights_that_no_token_of_text_meets() -> None:
    fields = {
        "model_type": "ernie4_5_vl_moe", "hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4,
        "vocab_size": 100, "intermediate_size": 128, "moe_intermediate_size": [48, 32], "moe_num_experts": 8,
        "moe_k": 2, "mlp_layer_types": ["sparse"],
    }  # fmt: skip
    both = config.architecture(fields, "both", "both")
    text = config.architecture({**fields, "moe_intermediate_size": 48}, "text", "text")
    assert both.parameters - text.parameters == 8 * 3 * 64 * 32 + 8 * 64  # with a router of their own
    assert both.active_parameters == text.active_parameters


@pytest.mark.parametrize("word", ["bart", "marian", "pegasus", "blenderbot", "mvp", "plbart"])
def test_parameters_of_translators_are_those_of_the_model_but_for_the_encoder_s_table_of_positions(word) -> None:
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    made = CONFIG_MAPPING[word]()
    with warnings.catch_warnings(), torch.device("meta"):
        warnings.simplefilter("ignore")
        model = transformers.AutoModelForSeq2SeqLM.from_config(made)
    parameters = sum(each.numel() for each in {id(one): one for one in model.parameters()}.values())
    table = parameters - config.architecture(made.to_dict(), word, word).parameters
    assert 0 <= table <= 1.01 * (made.max_position_embeddings + 2 + 4) * made.d_model


def test_the_table_of_what_classes_fill_in_is_that_of_the_classes() -> None:
    path = Path(__file__).parents[3] / "docs" / "generate_config_defaults.py"
    spec = importlib.util.spec_from_file_location("generate_config_defaults", path)
    assert spec is not None
    assert spec.loader is not None
    writer = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(writer)
    written = writer.TABLE.read_text(encoding="utf-8")
    if f"transformers {transformers.__version__}," not in written:
        pytest.skip(f"the table is of another version of transformers than {transformers.__version__}")
    assert writer.text() == written
