"""Layers that draft tokens: read from a configuration, or of the shipped list; said where there are none."""

import pytest

import rooflab
from rooflab.work.llm import config, models

SMALL = {
    "model_type": "deepseek_v3", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "q_lora_rank": 16, "kv_lora_rank": 16, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 16,
    "intermediate_size": 128, "moe_intermediate_size": 32, "n_routed_experts": 8, "n_shared_experts": 1,
    "num_experts_per_tok": 2, "first_k_dense_replace": 1, "vocab_size": 100,
}  # fmt: skip


@pytest.mark.parametrize(("more", "layers"), [({}, 0), ({"num_nextn_predict_layers": 1}, 1)])
def test_a_configuration_states_its_layers_for_drafts(more, layers):
    assert config.architecture(SMALL | more, "small", "here").draft_layers == layers


def test_the_shipped_list_knows_which_models_have_some():
    assert models.named("deepseek-r1").draft_layers == 1
    assert models.named("llama-3.1-8b").draft_layers == 0


@pytest.mark.parametrize(("name", "gpus", "said"), [("qwen3-8b", 1, True), ("deepseek-v3", 8, False)])
def test_drafts_of_a_model_without_a_layer_for_them_say_what_is_assumed(name, gpus, said):
    asked = {"isl": 100, "osl": 100, "concurrency": 1, "drafts": 2, "accepted": 1.8, "gpus": gpus}
    notes = " ".join(rooflab.serve(name, "h200", **asked).notes)
    assert (f"{name} states no layer for drafts" in notes) == said
