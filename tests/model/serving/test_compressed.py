"""Compressed attention (DeepSeek-V4's): parameters, cache, the keys that queries see, by plain counting."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rooflab
from rooflab.errors import RooflabError
from rooflab.model.parallel import memory
from rooflab.model.parallel.layout import Layout
from rooflab.model.serving.batch import Batch
from rooflab.model.serving.kernels import attention
from rooflab.model.serving.step import StepModel
from rooflab.work import counting
from rooflab.work.llm import config
from rooflab.work.llm.architecture import Architecture
from rooflab.work.llm.graph import graph
from rooflab.work.llm.precision import precision, stored

# The fields of deepseek-ai/DeepSeek-V4-Flash that transformers' DeepseekV4Config has as its defaults.
FLASH: dict[str, Any] = {
    "model_type": "deepseek_v4", "vocab_size": 129280, "hidden_size": 4096, "moe_intermediate_size": 2048,
    "num_hidden_layers": 43, "num_attention_heads": 64, "num_key_value_heads": 1, "head_dim": 512,
    "q_lora_rank": 1024, "qk_rope_head_dim": 64, "num_experts_per_tok": 6, "n_routed_experts": 256,
    "n_shared_experts": 1, "sliding_window": 128, "o_groups": 8, "o_lora_rank": 1024, "index_n_heads": 64,
    "index_head_dim": 128, "index_topk": 512, "hc_mult": 4, "tie_word_embeddings": False,
}  # fmt: skip


def flash(**fields: Any) -> Architecture:
    return config.architecture({**FLASH, **fields}, "flash", "config.json")


def test_parameters_are_those_of_the_model_in_transformers() -> None:
    assert flash().parameters == 284_325_869_015
    assert flash().notes() == ()
    assert [(block.count, block.mixer.rate) for block in flash().blocks] == [(23, 128), (20, 4)]


def test_kinds_by_a_rate_for_each_layer_are_those_by_name() -> None:
    names = {0: "sliding_attention", 4: "compressed_sparse_attention", 128: "heavily_compressed_attention"}
    rates = [0, 128, *[4, 128] * 20, 4]
    by_name = flash(layer_types=[names[each] for each in rates])
    by_rate = flash(compress_ratios=rates)
    assert dataclasses.replace(by_name, doubts=()) == dataclasses.replace(by_rate, doubts=())
    assert sorted((block.mixer.rate, block.count) for block in by_rate.blocks) == [(0, 1), (4, 21), (128, 21)]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"layer_types": ["full_attention"] * 43}, "layer 0 is of kind 'full_attention', expected sliding_att"),
        ({"compress_ratios": [4] * 9}, "compress_ratios has 9 entries, expected one for each of 43 layers"),
        ({"compress_ratios": [4] * 42 + [7]}, "layer 42 is of kind 'compress_ratios 7'"),
        (
            {"compress_rates": {"heavily_compressed_attention": "8"}},
            "compress_rates: heavily_compressed_attention is",
        ),
    ],
)
def test_kinds_that_there_are_not_are_one_line(fields: dict, said: str) -> None:
    with pytest.raises(RooflabError, match=r"config\.json: ") as caught:
        flash(**fields)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_experts_of_four_bits_beside_a_model_of_eight() -> None:
    eight = {"quant_method": "fp8", "weight_block_size": [128, 128]}
    found = stored(flash(quantization_config=eight, expert_dtype="fp4"))
    assert (found.linear.name, found.experts.name) == ("fp8_block", "mxfp4_mxfp8")


def seen(position: int, window: int, every: int, most: float) -> float:
    """Keys of one query by itself: those of its window, and one for each block of tokens up to it."""
    return (min(position + 1, window) if window else 0) + min((position + 1) / every, most)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 40), st.integers(0, 60), st.integers(0, 16), st.sampled_from([2, 4, 16]), st.integers(0, 5)
)  # fmt: skip
def test_pairs_of_queries_and_keys_are_those_counted_one_by_one(new, before, window, every, most) -> None:
    expected = sum(seen(before + each, window, every, most or np.inf) for each in range(new))
    made = attention(
        "attention", "attend", 1.0, sequences=3.0, new=float(new), before=float(before), heads=4.0, kv_heads=1.0,
        size=32, values=32, window=window, every=every, limit=most, v_in_k=True,
    )  # fmt: skip
    # The mean of a block's fraction over queries whose first ones see less than a block differs by under one key.
    assert made.flop / (2.0 * 3 * 4 * 64) == pytest.approx(expected, abs=new)
    assert made.columns["longest"] == pytest.approx(seen(before + new - 1, window, every, most or np.inf), abs=1.0)
    assert made.columns["shortest"] <= made.columns["longest"]


def test_a_decode_reads_the_window_and_blocks_of_a_long_context() -> None:
    """After 100,000 tokens: 128 keys of the window, and 781 blocks of 128 tokens or the best 512 of 25,000."""
    made = StepModel(flash(), rooflab.machine("b200-sxm")).kernels(Batch(0, 0, 0, 1, 100_000))
    heavy, sparse = [each for each in made if each.name == "attend (one token each)"]
    for each, keys in ((heavy, 128 + 100_000 / 128), (sparse, 128 + 512)):
        assert float(each.flop[0]) == pytest.approx(2 * keys * 64 * 1024, rel=1e-9)
        assert float(each.read_bytes[0]) == pytest.approx(2 * (64 * 512 + keys * 512), rel=1e-9)
    scores = next(each for each in made if each.name == "index: score (one token each)")
    assert float(scores.flop[0]) == pytest.approx(2 * 25_000 * 64 * (128 + 1), rel=1e-9)


def test_the_cache_grows_by_a_key_a_block() -> None:
    """Of a token 512 / 128 elements in 23 layers, (512 + 128 / 2) / 4 in 20, of 2 bytes, on every rank."""
    expected = (23 * 4 + 20 * 144) * 2.0
    for ways in (1, 4):
        found = memory.cache_bytes_per_token(flash(), Layout(tensor=ways), precision("bf16"))
        assert found == pytest.approx(expected)


def test_weights_of_one_device_are_all_parameters() -> None:
    model = flash()
    streams = sum(block.count * block.stream_parameters(model.hidden) for block in model.blocks)
    # Two bytes each, four of what mixes streams.
    held = memory.weight_bytes(model, Layout(), precision("bf16"))
    assert held == pytest.approx(2.0 * model.parameters + 2.0 * streams, rel=1e-9)
    divided = memory.weight_bytes(model, Layout(tensor=8), precision("bf16"))
    assert held / 8 < divided < held / 7  # products that every rank makes are held by each
    with pytest.raises(RooflabError, match="8 heads over 3"):
        StepModel(model, rooflab.machine("b200-sxm"), layout=Layout(tensor=3))


def test_streams_are_read_and_written_around_both_parts_of_a_layer() -> None:
    """4 streams of 4096 numbers: 24 numbers of a token by a product of 16384, before attention and experts."""
    made = StepModel(flash(), rooflab.machine("b200-sxm")).kernels(Batch(0, 0, 0, 16, 1000))
    product = [each for each in made if each.name == "how streams are mixed"]
    assert sum(each.count for each in product) == 2 * 43
    assert all(float(each.flop[0]) == 2.0 * 16 * 24 * 16384 for each in product)


def test_the_graph_counts_products_and_attention() -> None:
    """One token after 999, by hand: each weight of a product twice, and the keys that it sees."""
    model = flash(num_hidden_layers=2, layer_types=["sliding_attention", "compressed_sparse_attention"])
    report = counting.report(graph(model, new=1, before=999), "flash")
    flop = {
        each.op.module: sum(count.count for count in each.cost.flop if count.engine == "matrix")
        for each in report.rows
        if each.cost is not None
    }
    assert flop["layers.0.attention"] == 2 * 128 * 64 * 1024  # its window, in products of q and of values
    assert flop["layers.1.attention.blocks"] == 2 * 250 * 64 * 1024  # 1000 tokens in blocks of 4: fewer than 512
    assert flop["layers.1.attention.index"] == 2 * 250 * 64 * 128
    assert flop["layers.1.attention.q_b"] == 2 * 1024 * 64 * 512
    assert flop["layers.1.attention.out_a"] == 2 * 64 * 512 * 1024
    assert flop["layers.1.attention.out"] == 2 * 8 * 1024 * 4096
    assert report.coverage.complete
