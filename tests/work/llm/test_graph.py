"""Graphs made from architectures: decode and prefill counted by hand, formats, adapters, speed of making."""

from __future__ import annotations

import time

import pytest

from rooflab.errors import RooflabError
from rooflab.model.parallel import memory
from rooflab.model.parallel.layout import Layout
from rooflab.work import counting
from rooflab.work.llm import config, models
from rooflab.work.llm.architecture import Architecture, Block, Mlp
from rooflab.work.llm.graph import graph
from rooflab.work.llm.mixers import Attention
from rooflab.work.llm.precision import precision

TINY = Architecture("tiny", 64, 1000, (Block(2, Attention(4, 2, 16, 16), Mlp(128)),))


def of_kind(made, kind: str) -> list:
    return [row for row in counting.report(made, "made").rows if row.op.kind == kind]


def test_a_decode_reads_each_weight_once_and_the_cache() -> None:
    made = graph(TINY, sequences=3, before=99)
    weights = sum(spec.nbytes for spec in made.held("parameter"))
    assert weights == 2 * TINY.parameters
    (first, _) = of_kind(made, "attention")
    # q of 3 x 4 x 16, k and v of 3 x 2 x 100 x 16, all read in 2 bytes; as much as q written
    assert first.cost.compulsory.read_bytes == 2 * (3 * 4 * 16 + 2 * 3 * 2 * 100 * 16)
    # 3 sequences x 4 heads x 100 keys x 16 x 2 products x 2 FLOP
    assert sum(each.count for each in first.cost.flop if each.engine == "matrix") == 3 * 4 * 100 * 16 * 4


@pytest.mark.parametrize(("word", "bits"), [("fp8", 8), ("mxfp4", 4.25), ("nvfp4", 4.5), ("q4_k", 4.5)])
def test_weights_take_the_bytes_of_their_format(word: str, bits: float) -> None:
    made = graph(TINY, precision=precision(word))
    layers = [spec for spec in made.held("parameter") if spec.name and spec.name.startswith("layers") and
              len(spec.shape) == 2]  # fmt: skip
    assert sum(spec.nbytes for spec in layers) == sum(spec.elements for spec in layers) * bits / 8


def test_an_adapter_adds_two_narrow_products_to_each_projection() -> None:
    plain, adapted = (of_kind(graph(TINY, new=8, adapters=rank), "matmul") for rank in (0, 4))
    # 2 layers x (q, k, v, o, gate, up, down) x 2
    assert len(adapted) - len(plain) == 2 * 7 * 2


def test_a_window_bounds_what_a_query_sees() -> None:
    narrow = Architecture("narrow", 64, 1000, (Block(1, Attention(4, 2, 16, 16, window=8), Mlp(128)),))
    (row,) = of_kind(graph(narrow, new=32), "attention")
    # 8 x 9 / 2 + 24 x 8 pairs, 4 heads, 16 x 2 products x 2 FLOP
    assert sum(each.count for each in row.cost.flop if each.engine == "matrix") == (36 + 192) * 4 * 16 * 4


def test_latent_attention_reads_its_latent_vectors_once_in_a_decode() -> None:
    made = graph(models.named("deepseek-v2-lite"), sequences=2, before=1023)
    row = of_kind(made, "attention")[0]
    # 1024 vectors of 512 + 64 a sequence, q of 16 heads, results of 16 heads x 512
    assert row.cost.compulsory.read_bytes == 2 * 2 * (1024 * 576 + 16 * 576)


@pytest.mark.parametrize(
    "name", ["llama-3.1-8b", "deepseek-v3", "gpt-oss-20b", "qwen3-next-80b-a3b", "nemotron-h-8b", "mamba-2.8b"]
)
def test_every_shipped_model_is_counted_whole(name: str) -> None:
    report = counting.report(graph(models.named(name), sequences=2, before=100), name)
    assert not report.coverage.unknown
    assert all(row.cost is not None for row in report.rows)


def test_a_large_model_is_made_in_milliseconds() -> None:
    model = models.named("llama-3.1-405b")
    begun = time.perf_counter()
    graph(model, new=2048)
    assert time.perf_counter() - begun < 0.5  # 20 ms on one core; ten times that where others work


@pytest.mark.parametrize(
    ("how", "words"), [({"sequences": 0}, "batch of sequences is 0"), ({"before": -1}, "in the context is -1")]
)
def test_numbers_without_sense_are_refused(how: dict, words: str) -> None:
    with pytest.raises(RooflabError, match=f"tiny: .*{words}, expected a whole number of at least"):
        graph(TINY, **how)


# Gemma 4's kinds of layers at sizes of nobody: windows of 8, and each third layer sees all with wider heads.
GEMMA4 = {
    "model_type": "gemma4_text", "hidden_size": 64, "num_hidden_layers": 6, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 16, "global_head_dim": 32, "intermediate_size": 128, "vocab_size": 1000,
    "hidden_size_per_layer_input": 24, "vocab_size_per_layer_input": 900, "num_kv_shared_layers": 3,
    "sliding_window": 8, "layer_types": ["sliding_attention", "sliding_attention", "full_attention"] * 2,
}  # fmt: skip


def test_layers_that_borrow_keys_make_and_keep_none():
    model = config.architecture(GEMMA4, "g", "config.json")
    mixers = [(each.count, each.mixer) for each in model.blocks]
    kept = sum(count * mixer.cached_elements() for count, mixer in mixers)
    assert kept == 2 * (2 * 2 * 16) + 1 * (2 * 2 * 32)  # of three layers of six
    own = 64 * 16 * (4 + 2 * 2) + 4 * 16 * 64 + 2 * 16
    borrowed = 64 * 16 * 4 + 4 * 16 * 64 + 16
    sliding = sorted(mixer.parameters(64) for _, mixer in mixers if mixer.window)
    assert sliding == [borrowed, own]
    layout = Layout()
    assert memory.cache_bytes_per_token(model, layout, precision("bf16")) == 2 * kept


def test_each_layer_s_own_embedding_is_a_table_and_two_products_a_layer():
    model = config.architecture(GEMMA4, "g", "config.json")
    without = config.architecture({**GEMMA4, "hidden_size_per_layer_input": 0}, "g", "config.json")
    table, brought, mixed = 900 * 6 * 24, 64 * 6 * 24 + 24, 6 * (2 * 64 * 24 + 64)
    assert model.parameters - without.parameters == table + brought + mixed
    held = memory.weight_bytes(model, Layout(), precision("bf16"))
    assert held == pytest.approx(2 * model.parameters, rel=1e-3)


def test_values_made_of_the_keys_product_are_kept_beside_them():
    one = {**GEMMA4, "attention_k_eq_v": True, "num_global_key_value_heads": 1, "num_kv_shared_layers": 0}
    model = config.architecture(one, "g", "config.json")
    wide = next(each.mixer for each in model.blocks if not each.mixer.window)
    assert wide.parameters(64) == 64 * 32 * (4 + 1) + 4 * 32 * 64 + 2 * 32
    assert wide.cached_elements() == 2 * 32


def test_experts_stand_beside_the_dense_part_that_every_token_passes():
    fields = {"enable_moe_block": True, "num_experts": 8, "top_k_experts": 2, "moe_intermediate_size": 32}
    model = config.architecture({**GEMMA4, **fields, "num_kv_shared_layers": 0}, "g", "config.json")
    feed = model.blocks[0].feed
    assert (feed.count, feed.chosen, feed.inner, feed.shared) == (8, 2, 32, 128)


LFM = {
    "model_type": "lfm2", "hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4,
    "num_key_value_heads": 2, "intermediate_size": 150, "block_multiple_of": 16, "vocab_size": 1000,
    "full_attn_idxs": [2], "conv_L_cache": 3,
}  # fmt: skip


def test_short_convolutions_keep_their_last_inputs_and_no_keys():
    model = config.architecture(LFM, "lfm", "config.json")
    conv, attends = model.blocks
    assert (conv.count, attends.count) == (2, 1)
    assert conv.mixer.parameters(64) == 64 * 3 * 64 + 3 * 64 + 64 * 64
    assert conv.feed.inner == 112  # two thirds of 150, in steps of 16
    published = {**LFM, "block_ff_dim": 150}  # as the makers' own files call it
    del published["intermediate_size"]
    assert config.architecture(published, "lfm", "config.json").blocks[0].feed.inner == 112
    assert memory.cache_bytes_per_token(model, Layout(), precision("bf16")) == 2 * 2 * 2 * 16  # of one layer
    assert memory.state_bytes(model, Layout()) == 4 * 2 * 64 * 2
    made = graph(model, sequences=2, new=5)
    (first, _) = (row for row in counting.report(made, "made").rows if row.op.name == "conv1d")
    assert sum(each.count for each in first.cost.flop) == 2 * (2 * 5) * 64 * 3
