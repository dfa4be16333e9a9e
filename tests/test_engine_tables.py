"""The graphs that stand for rows of serving engines' kernel tables: their kernels and bytes by hand."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))
import engine_tables
import expert_tables


def kinds(engine: str, word: str) -> list[str]:
    run = engine_tables.linear(engine, word, (32, 64, 128))
    rows = run.report.rows
    return [row.op.kind for row in rows[: len(rows) // run.times]]


@pytest.mark.parametrize(
    ("engine", "word", "expected"),
    [
        ("vllm", "bf16", ["matmul"]),
        ("vllm", "fp8", ["norm", "matmul"]),  # one kernel scales each token
        ("trtllm", "fp8", ["pointwise", "reduction", "cast", "pointwise", "copy", "matmul"]),  # |x|, maximum, …
        ("sglang", "fp8_block", ["norm", "matmul"]),
        ("trtllm", "int4_wo", ["matmul"]),
    ],
)
def test_the_kernels_of_a_linear_layer(engine: str, word: str, expected: list[str]) -> None:
    assert kinds(engine, word) == expected


def test_weights_are_taken_in_turn_and_everything_else_is_shared() -> None:
    run = engine_tables.linear("sglang", "fp8", (32, 64, 128))
    assert run.times == 6
    # x, q, out, and six times the weights
    assert len({spec.storage for spec in run.report.graph.tensors}) == 3 + 6
    products = [row for row in run.report.rows if row.op.kind == "matmul"]
    # q and weights in fp8, the result in bf16
    assert {row.cost.compulsory.nbytes for row in products} == {32 * 128 + 64 * 128 + 2 * 32 * 64}
    scaled = run.report.rows[0].cost.compulsory
    assert (scaled.read_bytes, scaled.write_bytes) == (2 * 32 * 128, 32 * 128)


def test_a_small_layer_runs_from_the_cache_and_a_large_one_from_memory() -> None:
    """An L40S holds 96 MiB: six times 12.6 MB of weights stay, six times 201 do not."""
    for sizes, faster in (((1, 1024, 6144), 1.2), ((14, 8192, 12288), 0.0)):
        run = engine_tables.linear("vllm", "bf16", sizes)
        seconds = run.report.on("l40s", **run.settings).prediction.time_s / run.times
        rate = 2 * sizes[1] * sizes[2] / seconds / 864e9
        assert rate > faster
        assert faster or rate < 1


# Single figures of the tables (ai-dynamo/aiconfigurator 095f58a5, Apache-2.0).
MEASURED = [
    ("l40s", "vllm", "bf16", (3072, 3072, 5120), 509.8e-6),
    ("l40s", "sglang", "bf16", (12, 3584, 6144), 66.0e-6),
    ("b200", "trtllm", "fp8", (16384, 12288, 10240), 1504e-6),
    ("h100-sxm", "trtllm", "fp8", (16, 64, 1024), 13.0e-6),
]


@pytest.mark.parametrize(("card", "engine", "word", "sizes", "measured_s"), MEASURED)
def test_layers_take_what_engines_were_measured_to_take(card, engine, word, sizes, measured_s) -> None:
    run = engine_tables.linear(engine, word, sizes)
    assert run.report.on(card, **run.settings).prediction.time_s / run.times == pytest.approx(measured_s, rel=0.25)


def test_an_unknown_number_format_names_the_known_ones() -> None:
    with pytest.raises(ValueError, match="gemm_dtype 'w9a9': what it multiplies is not known; known: bf16, fp8"):
        engine_tables.linear("vllm", "w9a9", (1, 1, 1))


def test_the_load_of_the_busiest_rank() -> None:
    # 96 tokens, 8 of 256 experts each, over 8 ranks: balanced 96 rows for 32 experts
    layer = expert_tables.Layer(96, 4096, 2048, 8, 256, 1, 8, "balanced")
    assert expert_tables.load(layer)[:2] == (96, 32)
    skewed = expert_tables.load(layer._replace(distribution="power_law_1.2"))
    assert skewed[0] > 96
    assert skewed[1] <= 32
    # One rank has every row whatever the draw; two tokens meet at most 16 experts.
    few, met, _ = expert_tables.load(layer._replace(tokens=2, expert_ranks=1, distribution="power_law_1.01"))
    assert few == 16
    assert 8 <= met <= 16


def test_no_expert_gets_more_rows_than_there_are_tokens() -> None:
    # Two of 8 experts for each of 100 tokens, 8 ranks of one expert: a share of 0.8 would be 160 rows.
    layer = expert_tables.Layer(100, 64, 64, 2, 8, 1, 8, "power_law_1.2")
    assert expert_tables.load(layer)[0] <= 100


def test_rows_that_rounding_leaves_over_go_from_rank_to_rank() -> None:
    # Two ranks of three experts, 20 rows for at most 6 tokens: 7 lack, 4 for the first rank, then 3.
    whole = np.array([[[5.0, 0.0, 2.0], [6.0, 0.0, 0.0]]])
    assert expert_tables._in_turn(whole, 20, 6.0).tolist() == [[[5.0, 3.0, 3.0], [6.0, 1.0, 2.0]]]
    # 9 are too many: 5 from the experts with most of the first rank, then 4.
    assert expert_tables._in_turn(whole, 4, 6.0).sum(axis=2).tolist() == [[2.0, 2.0]]
    # What one rank has no room for goes to the other.
    full = np.array([[[6.0], [1.0]]])
    assert expert_tables._in_turn(full, 10, 6.0).tolist() == [[[6.0], [4.0]]]


def test_the_first_form_of_the_tables_gave_few_tokens_to_the_first_experts() -> None:
    # One token, 8 of 384 experts: shares are rounded to none, the 8 rows go to experts 0 to 7; 6 are a rank's.
    layer = expert_tables.Layer(1, 64, 64, 8, 384, 1, 64, "power_law_1.01", early=True)
    assert expert_tables.load(layer)[:2] == (6, 6)
    assert expert_tables.load(layer._replace(early=False))[0] < 4


def test_the_kernels_of_a_layer_of_experts() -> None:
    layer = expert_tables.Layer(64, 512, 256, 2, 8, 2, 4, "balanced")
    run = expert_tables.experts("trtllm", "fp8", layer)
    products = [row for row in run.report.rows if row.op.kind == "grouped_matmul"]
    # 32 rows meet 2 experts of the rank: 512 to 2 x 128, then 128 to 512; a multiply-add is 2 FLOP
    assert [row.flop for row in products] == [2 * 32 * 512 * 256, 2 * 32 * 128 * 512]
    assert products[0].cost.compulsory.read_bytes == 32 * 512 + 2 * 512 * 256
    with pytest.raises(ValueError, match="moe_dtype 'w9a9': what it multiplies is not known; known: bfloat16"):
        expert_tables.experts("vllm", "w9a9", layer)


@pytest.mark.parametrize(
    ("word", "layer", "measured_s"),
    [
        ("fp8", expert_tables.Layer(4096, 5120, 8192, 1, 128, 1, 1, "balanced"), 5.920e-3),
        ("bfloat16", expert_tables.Layer(512, 4096, 2048, 8, 256, 1, 4, "power_law_1.2"), 1.096e-3),
    ],
)
def test_layers_of_experts_take_what_was_measured(word, layer, measured_s) -> None:
    # ai-dynamo/aiconfigurator 095f58a5 (Apache-2.0): TensorRT-LLM, H100
    run = expert_tables.experts("trtllm", word, layer)
    assert run.report.on("h100-sxm", **run.settings).time_s == pytest.approx(measured_s, rel=0.2)


@pytest.mark.parametrize(
    ("sizes", "tokens", "maker", "expected"),
    [
        # E=8,N=1792 is tuned for an A100, E=4 is not.
        (("8", "14336", "8", "1"), "64", ("VLLM", "0.14.0"), (True, False, 0.0)),
        (("8", "14336", "8", "2"), "64", ("VLLM", "0.14.0"), (False, True, 0.0)),
        (("256", "2048", "1", "8"), "600", ("SGLang", "0.5.14"), (False, True, 0.0)),
        (("256", "2048", "1", "8"), "32", ("VLLM", "0.24.0"), (False, False, 16.0)),
        (("256", "2048", "1", "8"), "600", ("VLLM", "0.24.0"), (False, False, 128.0)),
    ],
)
def test_tiles_of_tritons_products_go_by_the_files_that_engines_ship(sizes, tokens, maker, expected) -> None:
    names = ("num_experts", "inter_size", "moe_tp_size", "moe_ep_size")
    row = dict(zip(names, sizes, strict=True)) | {"num_tokens": tokens, "moe_dtype": "bfloat16"}
    row |= {"framework": maker[0], "version": maker[1], "device": "NVIDIA A100-SXM4-80GB"}
    row["kernel_source"] = "triton"
    found = expert_tables.is_tuned(row), expert_tables.default_tiles(row), expert_tables.tile_rows(row)
    assert found == expected
