"""Attention to what an indexer picks, borrowed keys, gates, experts of a width of their own: by hand."""

from __future__ import annotations

from typing import Any

import pytest

import rooflab
from rooflab.errors import RooflabError
from rooflab.model.parallel import memory
from rooflab.model.parallel.layout import Layout
from rooflab.model.serving.batch import Batch
from rooflab.model.serving.step import StepModel
from rooflab.work import counting
from rooflab.work.llm import config
from rooflab.work.llm.architecture import Architecture
from rooflab.work.llm.graph import graph
from rooflab.work.llm.precision import precision

# MiniMax-M3's text model as transformers' MiniMaxM3VLTextConfig has it, of four layers: half of them sparse.
GROUPS: dict[str, Any] = {
    "model_type": "minimax_m3_vl_text", "vocab_size": 200064, "hidden_size": 6144, "intermediate_size": 3072,
    "dense_intermediate_size": 12288, "shared_intermediate_size": 3072, "num_hidden_layers": 4,
    "num_attention_heads": 64, "num_key_value_heads": 4, "head_dim": 128, "num_local_experts": 128,
    "num_experts_per_tok": 4, "tie_word_embeddings": False, "moe_layer_freq": [0, 1, 1, 1],
    "sparse_attention_config": {
        "sparse_num_index_heads": 4, "sparse_index_dim": 128, "sparse_block_size": 128, "sparse_topk_blocks": 16,
        "sparse_attention_freq": [0, 0, 1, 1],
    },
}  # fmt: skip
# Latent attention whose later layers see what the first picked, the third by the first's latent vectors.
SHARED: dict[str, Any] = {
    "model_type": "mistral_large4_text", "vocab_size": 204800, "hidden_size": 6144, "intermediate_size": 24576,
    "num_hidden_layers": 3, "num_attention_heads": 64, "kv_lora_rank": 512, "qk_rope_head_dim": 64,
    "qk_nope_head_dim": 64, "v_head_dim": 128, "index_topk": 2048, "index_head_dim": 128, "index_n_heads": 32,
    "indexer_types": ["full", "shared", "shared"], "kv_source_layers": [0, 1, 0], "tie_word_embeddings": False,
}  # fmt: skip
NARROW: dict[str, Any] = {
    "model_type": "muse_spark_text", "vocab_size": 202048, "hidden_size": 8192, "intermediate_size": 16384,
    "num_hidden_layers": 2, "num_attention_heads": 128, "num_key_value_heads": 16, "head_dim": 64,
    "moe_intermediate_size": 4096, "num_local_experts": 256, "num_experts_per_tok": 8, "moe_hidden_size": 4096,
    "mlp_layer_types": ["dense", "sparse"], "sliding_window": None,
}  # fmt: skip


def made(fields: dict[str, Any]) -> Architecture:
    return config.architecture(fields, "model", "config.json")


def kernels(fields: dict[str, Any], batch: Batch, **options: Any) -> list:
    return StepModel(made(fields), rooflab.machine("b200-sxm"), **options).kernels(batch)


def named(found: list, name: str) -> list:
    return [each for each in found if each.name == name]


def test_groups_see_their_best_blocks_alone_however_long_the_context() -> None:
    """After 100,000 tokens: all keys in two layers, 16 blocks of 128 in two; a head of q and v is 128 each."""
    found = named(kernels(GROUPS, Batch(0, 0, 0, 1, 100_000)), "attend (one token each)")
    keys = [(float(each.flop[0]) / (2 * 64 * 256), each.count) for each in found]
    assert sum(count for seen, count in keys if seen == 100_000) == 2
    assert sum(count for seen, count in keys if seen == 2048) == 2
    longer = named(kernels(GROUPS, Batch(0, 0, 0, 1, 200_000)), "attend (one token each)")
    assert min(float(each.flop[0]) for each in longer) == min(float(each.flop[0]) for each in found)
    few = named(kernels(GROUPS, Batch(0, 0, 0, 1, 1000)), "attend (one token each)")
    assert {round(float(each.flop[0]) / (2 * 64 * 256)) for each in few} == {1000}  # fewer than 16 blocks


def test_an_indexer_s_heads_score_all_keys_and_are_divided_among_ranks() -> None:
    """4 heads of 128 over 100,000 keys, and a value that is the score itself; of 4 ranks each has one head."""
    for ways in (1, 4):
        layout = Layout(tensor=ways)
        found = kernels(GROUPS, Batch(0, 0, 0, 1, 100_000), layout=layout)
        (scores,) = named(found, "index: score (one token each)")
        assert scores.count == 2
        assert float(scores.flop[0]) == pytest.approx(2 * (4 / ways) * 100_000 * (128 + 1))
        (project,) = named(found, "index: project q and keys")
        assert float(project.flop[0]) == 2 * 6144 * (4 / ways + 1) * 128


def test_the_indexer_s_keys_are_in_the_cache_of_every_rank() -> None:
    """Of a token: 4 heads of two vectors in 4 layers, divided; the indexer's 128 in 2 layers, not divided."""
    for ways in (1, 4):
        found = memory.cache_bytes_per_token(made(GROUPS), Layout(tensor=ways), precision("bf16"))
        assert found == 2.0 * (4 * 4 / ways * 256 + 2 * 128)


def test_layers_that_share_score_nothing_and_see_as_few_keys() -> None:
    found = kernels(SHARED, Batch(0, 0, 0, 1, 50_000))
    assert [each.count for each in named(found, "index: score (one token each)")] == [1.0]
    attended = named(found, "attend (one token each)")
    assert sum(each.count for each in attended) == 3
    # q meets the latent vector, with its 64 positions in layers 0, 1 and 2, of 2048 keys; values are 512 of it.
    assert {float(each.flop[0]) for each in attended} == {2.0 * 2048 * 64 * (576 + 512)}


def test_a_borrowed_latent_vector_is_neither_made_nor_kept() -> None:
    model = made(SHARED)
    first, second, third = [block.mixer for block in model.blocks]
    assert (first.borrows, second.borrows, third.borrows) == (False, False, True)
    assert second.parameters(6144) - third.parameters(6144) == 6144 * 576 + 512  # its product and its norm
    # The indexer's key of a byte each in the first layer alone.
    assert memory.cache_bytes_per_token(model, Layout(), precision("bf16")) == 2.0 * 2 * 576 + 128
    written = named(kernels(SHARED, Batch(0, 0, 0, 8, 1000)), "positions and cache")
    assert len({float(each.write_bytes[0]) for each in written}) == 2


def test_pooled_keys_are_a_sixteenth_of_the_scores_and_of_the_cache() -> None:
    own = {**SHARED, "indexer_types": ["full"] * 3, "kv_source_layers": [0, 1, 2]}
    each, pooled = made(own), made({**own, "index_kpool": 16})
    batch = Batch(0, 0, 0, 1, 64_000)
    all_keys = named(kernels(own, batch), "index: score (one token each)")
    few_keys = named(kernels({**own, "index_kpool": 16}, batch), "index: score (one token each)")
    assert sum(float(k.flop[0]) * k.count for k in few_keys) == pytest.approx(
        sum(float(k.flop[0]) * k.count for k in all_keys) / 16, rel=1e-3
    )
    cached = [memory.cache_bytes_per_token(one, Layout(), precision("bf16")) for one in (each, pooled)]
    assert cached[0] - cached[1] == pytest.approx(3 * 128 * 15 / 16)
    # What weighs a key's tokens: a product as wide as the key, and a number by place for each of its elements.
    assert pooled.parameters - each.parameters == 3 * (6144 * 128 + 16 * 128)


def test_tokens_meet_experts_of_a_width_of_their_own() -> None:
    """8 of 256 experts of 4096 x 4096 x 3, with 8192 x 4096 there and back, for each of 64 tokens."""
    for engine in ("sglang", "llama.cpp"):
        found = kernels(NARROW, Batch(0, 0, 0, 64, 100), engine=engine)
        up, down = named(found, "to the experts' size"), named(found, "to the hidden size")
        for one in (up, down):
            assert sum(float(each.flop[0]) * each.count for each in one) == 2.0 * 64 * 8192 * 4096
    grouped = [each for each in kernels(NARROW, Batch(0, 0, 0, 64, 100)) if each.layer == "experts"]
    products = sum(float(each.flop[0]) for each in grouped if each.name in ("up", "down"))
    assert products == pytest.approx(2.0 * 64 * 8 * 3 * 4096 * 4096)


def test_weights_of_one_device_are_all_parameters() -> None:
    for fields in (GROUPS, SHARED, NARROW):
        model = made(fields)
        assert memory.weight_bytes(model, Layout(), precision("bf16")) == pytest.approx(2.0 * model.parameters)


def test_the_graph_has_the_indexer_gates_and_the_experts_width() -> None:
    report = counting.report(graph(made(NARROW), new=4), "narrow")
    flop = {
        row.op.module: sum(each.count for each in row.cost.flop if each.engine == "matrix")
        for row in report.rows
        if row.cost is not None
    }
    assert flop["layers.1.mlp.to experts"] == 2 * 4 * 8192 * 4096 == flop["layers.1.mlp.from experts"]
    assert flop["layers.0.attention.qkv.3"] == 2 * 4 * 8192 * 128 * 64  # the gate, as wide as the result
    report = counting.report(graph(made(GROUPS), new=1, before=999), "groups")
    scores = [row for row in report.rows if row.op.module == "layers.2.attention.index" and row.op.name == "bmm"]
    assert [sum(each.count for each in row.cost.flop) for row in scores] == [2 * 4 * 1000 * 128]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({**SHARED, "indexer_types": ["full"]}, "indexer_types has 1 entries, expected one for each of 3 layers"),
        ({**SHARED, "kv_source_layers": [0]}, "kv_source_layers has 1 entries, expected one for each of 3 layers"),
        (
            {**SHARED, "indexer_types": None, "index_topk_pattern": "FS"},
            "index_topk_pattern has 2 letters, expected",
        ),
        (
            {**GROUPS, "sparse_attention_config": {"sparse_attention_freq": [0, 0, 1, 1]}},
            "sparse_attention_config: no field sparse_num_index_heads",
        ),
    ],
)
def test_lists_and_sections_that_say_too_little_are_one_line(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(RooflabError, match=said) as caught:
        made(fields)
    assert "\n" not in str(caught.value)
