"""Models whose layers mix tokens in two ways: what a step multiplies, keeps and reads, by hand counts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rooflab
from rooflab.errors import RooflabError
from rooflab.model.parallel import memory
from rooflab.model.parallel.layout import Layout
from rooflab.model.serving.batch import Batch
from rooflab.model.serving.step import StepModel
from rooflab.work.llm import config
from rooflab.work.llm.architecture import Architecture
from rooflab.work.llm.precision import precision

KIMI: dict[str, Any] = {
    "model_type": "kimi_linear", "first_k_dense_replace": 1, "hidden_size": 2304, "intermediate_size": 9216,
    "kv_lora_rank": 512, "moe_intermediate_size": 1024, "num_attention_heads": 32, "num_experts": 256,
    "num_experts_per_token": 8, "num_hidden_layers": 27, "num_key_value_heads": 32, "num_shared_experts": 1,
    "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "tie_word_embeddings": False, "v_head_dim": 128,
    "vocab_size": 163840,
    "linear_attn_config": {
        "full_attn_layers": [4, 8, 12, 16, 20, 24, 27], "head_dim": 128, "num_heads": 32,
        "short_conv_kernel_size": 4,
    },
}  # fmt: skip
MINIMAX: dict[str, Any] = {
    "model_type": "minimax_text_01", "attn_type_list": ([0] * 7 + [1]) * 10, "head_dim": 128, "hidden_size": 6144,
    "intermediate_size": 9216, "num_attention_heads": 64, "num_experts_per_tok": 2, "num_hidden_layers": 80,
    "num_key_value_heads": 8, "num_local_experts": 32, "tie_word_embeddings": False, "vocab_size": 200064,
}  # fmt: skip
LONGCAT: dict[str, Any] = {
    "model_type": "longcat_flash", "expert_ffn_hidden_size": 2048, "ffn_hidden_size": 12288, "hidden_size": 6144,
    "kv_lora_rank": 512, "moe_topk": 12, "n_routed_experts": 512, "num_attention_heads": 64, "num_layers": 28,
    "q_lora_rank": 1536, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "tie_word_embeddings": False,
    "v_head_dim": 128, "vocab_size": 131072, "zero_expert_num": 256, "zero_expert_type": "identity",
}  # fmt: skip
FALCON: dict[str, Any] = {
    "model_type": "falcon_h1", "head_dim": 128, "hidden_size": 5120, "intermediate_size": 21504,
    "mamba_d_ssm": 4096, "mamba_d_state": 256, "mamba_n_groups": 2, "mamba_n_heads": 32, "num_attention_heads": 20,
    "num_hidden_layers": 72, "num_key_value_heads": 4, "tie_word_embeddings": False, "vocab_size": 261120,
}  # fmt: skip


def made(fields: dict[str, Any]) -> Architecture:
    return config.architecture(fields, "model", "config.json")


def kernels(fields: dict[str, Any], batch: Batch, name: str) -> list:
    found = StepModel(made(fields), rooflab.machine("h200-sxm")).kernels(batch)
    return [each for each in found if each.name == name]


DECODE = Batch(0, 0, 0, 16, 1000)


def test_layers_of_kimi_linear_are_those_that_its_file_lists() -> None:
    model = made(KIMI)
    assert [(block.count, type(block.mixer).__name__) for block in model.blocks] == [
        (1, "Delta"), (19, "Delta"), (7, "Latent"),
    ]  # fmt: skip
    assert model.notes() == ()


def test_decays_by_channel_take_two_products_of_low_rank() -> None:
    """32 heads of 128: q, k, v and two inputs of 128, 32 steps; then 128 x 4096 for decays and gate each."""
    first = kernels(KIMI, DECODE, "project to q, k, v, gate")
    assert sum(float(np.sum(each.count * each.flop)) for each in first) == pytest.approx(
        20 * 2 * 16 * 2304 * (3 * 4096 + 2 * 128 + 32)
    )
    for name in ("project to decays", "project to the gate"):
        assert sum(float(np.sum(each.count * each.flop)) for each in kernels(KIMI, DECODE, name)) == pytest.approx(
            20 * 2 * 16 * 128 * 4096
        )


def test_states_of_kimi_linear_beside_its_latent_cache() -> None:
    """20 layers of 32 states of 128 x 128 and the convolution's last 3 inputs of 12288; 7 of 512 + 64 numbers."""
    model = made(KIMI)
    assert memory.state_bytes(model, Layout()) == 20 * 4 * (32 * 128 * 128 + 3 * 3 * 4096)
    assert memory.cache_bytes_per_token(model, Layout(), precision("bf16")) == 7 * 576 * 2


def test_lightning_layers_project_four_times_and_keep_a_state_a_head() -> None:
    """70 layers of 64 heads of 128: q, k, v and the gate of 8192 each; states of 128 x 128; 10 layers attend."""
    model = made(MINIMAX)
    assert model.parameters == 456_089_655_296
    (first,) = kernels(MINIMAX, DECODE, "project to q, k, v, gate")
    assert float(np.sum(first.count * first.flop)) == pytest.approx(70 * 2 * 16 * 6144 * 4 * 8192)
    assert memory.state_bytes(model, Layout()) == 70 * 4 * 64 * 128 * 128
    assert memory.cache_bytes_per_token(model, Layout(), precision("bf16")) == 10 * 2 * 8 * 128 * 2
    with pytest.raises(RooflabError, match="64 heads over 48 tensor-parallel ranks"):
        StepModel(model, rooflab.machine("h200-sxm"), layout=Layout(tensor=48))


def test_layers_of_longcat_are_two_of_which_one_has_experts_that_may_do_nothing() -> None:
    """28 layers as 56: 512 experts and 256 that give back, 12 of 768 chosen, so 8 of the 512 in the mean."""
    model = made(LONGCAT)
    assert [(block.count, type(block.feed).__name__) for block in model.blocks] == [(28, "Experts"), (28, "Mlp")]
    assert model.notes() == ()
    latent = 6144 * (1536 + 576) + 1536 + 512 + 1536 * 64 * 192 + 512 * 64 * 256 + 64 * 128 * 6144
    dense, expert = 3 * 6144 * 12288, 3 * 6144 * 2048
    layer = 2 * (latent + dense + 2 * 6144) + 512 * expert + 768 * 6144
    assert model.parameters == 28 * layer + 2 * 131072 * 6144 + 6144
    assert 560e9 < model.parameters < 563e9  # "560B total" of arXiv:2509.01322, and 27B at work in the mean
    assert 26e9 < model.active_parameters < 28.5e9
    (route,) = kernels(LONGCAT, DECODE, "route")
    assert float(np.sum(route.count * route.flop)) == pytest.approx(28 * 2 * 16 * 6144 * 768)
    ups = [
        each for each in StepModel(model, rooflab.machine("h200-sxm")).kernels(DECODE) if each.layer == "experts"
    ]
    flop = sum(float(np.sum(each.count * each.flop)) for each in ups) - float(np.sum(route.count * route.flop))
    assert flop == pytest.approx(28 * 2 * 16 * (8 * expert + dense))


def test_a_list_of_kinds_that_ends_early_is_one_line() -> None:
    with pytest.raises(RooflabError, match="attn_type_list has 3 entries, expected one for each of 80 layers"):
        made(MINIMAX | {"attn_type_list": [0, 0, 1]})


def test_both_mixers_of_a_layer_run_and_are_added() -> None:
    """72 layers: 20 heads that share 4, and 4096 channels of 256 states beside them."""
    model = made(FALCON)
    (attends,) = kernels(FALCON, DECODE, "attend (one token each)")
    (enters,) = kernels(FALCON, DECODE, "project the input")
    (adds,) = kernels(FALCON, DECODE, "add both")
    assert attends.count == enters.count == adds.count == 72
    # Both gates' halves, B and C of two groups, a step of each head.
    assert float(np.sum(enters.flop)) == pytest.approx(2 * 16 * 5120 * (2 * 4096 + 2 * 2 * 256 + 32))
    assert memory.cache_bytes_per_token(model, Layout(), precision("bf16")) == 72 * 2 * 4 * 128 * 2
    assert memory.state_bytes(model, Layout()) == 72 * 4 * (4096 * 256 + 3 * (4096 + 2 * 2 * 256))
    with pytest.raises(RooflabError, match="linear layers go through a sequence in order"):
        StepModel(model, rooflab.machine("h200-sxm"), layout=Layout(context=2))


@pytest.mark.parametrize("fields", [KIMI, MINIMAX, FALCON], ids=["kimi", "minimax", "falcon"])
def test_all_weights_are_held_by_one_device(fields: dict[str, Any]) -> None:
    model = made(fields)
    held = memory.weight_bytes(model, Layout(), precision("bf16"))
    assert held == pytest.approx(2.0 * model.parameters, rel=1e-3)
