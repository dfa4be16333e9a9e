"""How rows of published serving tables are read: layouts whose columns mislead, formats, what is left out."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))
import serving_rows
from serving_pools import Known, Pools, _run, drafting_below, of_kind
from serving_protocols import as_served, protocol

from rooflab.model.parallel.layout import Layout
from rooflab.work.llm import models


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (("8", "1", "8", "1"), Layout(tensor=8)),
        (("8", "", "1", "8"), Layout(tensor=8, experts=8)),
        (("16", "1", "4", "4"), Layout(tensor=4, experts=4)),  # the same row is there as tp4_ep4
        (("1", "16", "4", "4"), Layout(data=4, experts=4)),
        (("4", "4", "1", "16"), Layout(data=4, experts=4)),
        (("1", "8", "1", "8"), Layout(data=8, experts=8)),
    ],
)
def test_layouts(columns: tuple[str, ...], expected: Layout) -> None:
    names = ("tp_size", "attention_dp_size", "moe_tp_size", "moe_ep_size")
    assert serving_rows._silicon_layout(dict(zip(names, columns, strict=True))) == expected


def test_formats() -> None:
    row = {"precision": "fp4", "gemm_quant_mode": "nvfp4", "moe_quant_mode": "nvfp4", "system": "b200_sxm"}
    assert serving_rows._silicon_formats(row, models.named("deepseek-v3")) == ("nvfp4", "bf16", "nvfp4", "fp8")
    assert serving_rows._silicon_formats(row, models.named("llama-3.1-70b")) == ("nvfp4", "nvfp4", "nvfp4", "fp8")
    assert serving_rows._silicon_formats(row, models.named("gpt-oss-120b"))[2] == "mxfp4_mxfp8"


def _row(**columns: str) -> dict[str, str]:
    usual = {
        "backend": "trtllm", "backend_version": "1.1.0rc2.post2", "model_path": "deepseek-ai/DeepSeek-R1",
        "system": "b200_sxm", "precision": "fp8", "isl": "1024", "osl": "1024", "silicon_data_source": "2025",
    }  # fmt: skip
    return usual | columns


def test_servers_were_told_so_many_tokens_a_step() -> None:
    eight = Layout(tensor=8)
    assert protocol(_row(), eight, 64.0).step_tokens == 64 + 1024 + 64  # one prompt a step
    later = protocol(_row(backend_version="1.2.0rc6.post2"), eight, 64.0)
    assert (later.step_tokens, later.wait_steps, later.wait_share) == (8192, 40, 0.8)
    assert protocol(_row(backend_version="1.2.0rc6.post2", precision="fp4"), eight, 64.0).wait_steps == 0
    drafting = protocol(_row(silicon_data_source="measured=2026-01-14"), eight, 8.0)
    assert drafting.speculation is not None
    # MAX_NUM_TOKENS=$(( ((MTP+1)*MAX_BATCH_SIZE+ISL+64+63)/64*64 ))
    assert drafting.step_tokens == (4 * 8 + 1024 + 64 + 63) // 64 * 64 == 1152
    spread = _row(backend_version="1.2.0rc6.post3", precision="fp4")
    assert (
        protocol(spread, Layout(data=8, experts=8), 256.0).step_tokens
        == (2 * 256 // 4 + 1024 + 64 + 63) // 64 * 64
    )
    assert protocol(_row(model_path="openai/gpt-oss-120b"), eight, 8.0).step_tokens == 20000


def test_prompts_are_replayed_in_pieces_where_servers_were_told_so() -> None:
    drafts, eight = _row(backend_version="1.2.0rc6.post3"), Layout(tensor=8)
    assert [protocol(drafts, eight, n).graphs_prompts for n in (4.0, 8.0, 256.0)] == [False, True, True]
    assert not protocol(drafts, Layout(data=8, experts=8), 64.0).graphs_prompts
    four = drafts | {"precision": "fp4"}
    assert [protocol(four, eight, n).graphs_prompts for n in (16.0, 32.0, 64.0, 128.0)] == [
        False,
        True,
        True,
        True,
    ]
    assert not protocol(four | {"isl": "8192"}, eight, 64.0).graphs_prompts
    plain = _row(backend_version="1.2.0rc6.post2", precision="fp4")
    assert protocol(plain, Layout(tensor=8, experts=8), 64.0).graphs_prompts
    assert not protocol(plain, eight, 64.0).graphs_prompts
    assert not protocol(_row(silicon_data_source="measured=2026-01-14"), eight, 8.0).graphs_prompts


def test_aiconfigurators_own_runs_have_room_for_one_prompt_and_1500_tokens() -> None:
    source = "source_file=aic-auto-gap-analysis/data"
    early = protocol(_row(backend_version="1.0.0rc3", silicon_data_source=source), Layout(), 32.0)
    assert (early.step_tokens, early.rounds, early.share) == (32 + 1024 + 1500, 10, 1.0)
    late = protocol(_row(backend="vllm", backend_version="0.12.0", silicon_data_source=source), Layout(), 32.0)
    assert (late.step_tokens, late.rounds) == (512 + 1024 + 1500, 50)


def test_sglang_was_told_what_its_scripts_say() -> None:
    eight = Layout(tensor=8)
    row = _row(backend="sglang", backend_version="0.5.9")
    plain = protocol(row, eight, 64.0)
    assert (plain.step_tokens, plain.memory_share, plain.poll_steps) == (32768, 0.82, 30)
    assert plain.speculation is None
    assert plain.drafting is not None  # measured with drafts too: a row does not say which it is
    assert plain.drafting.step_tokens == 16384
    above = protocol(row, eight, 128.0)  # without drafts up to 64 clients only
    assert above.speculation is not None
    assert above.drafting is None
    four = protocol(row, Layout(tensor=4), 64.0)
    assert (four.step_tokens, four.poll_steps, four.drafting) == (8192, 10, None)
    glm = protocol(_row(backend="sglang", model_path="zhipuai/GLM-5", system="h200_sxm"), eight, 64.0)
    assert (glm.cache, glm.rounds) == ("bf16", 5)


def test_vllm_and_tensorrt_llm_took_the_memory_that_they_were_told() -> None:
    minimax = {"backend": "vllm", "model_path": "MiniMaxAI/MiniMax-M2.5"}
    assert protocol(_row(**minimax, backend_version="0.17.0"), Layout(tensor=4), 64.0).cache == "bf16"
    later = protocol(_row(**minimax, backend_version="0.19.0"), Layout(tensor=4), 64.0)
    assert (later.cache, later.step_tokens) == ("", 2048)
    data = Layout(data=8, experts=8)
    assert protocol(_row(), data, 64.0).memory_share == 0.7
    assert protocol(_row(precision="fp4"), data, 64.0).memory_share == 0.8
    assert protocol(_row(), data, 64.0).gathers


def test_of_two_runs_of_a_setting_the_faster_is_the_one_with_drafts() -> None:
    def row(tpot_ms: str, concurrency: str = "6") -> dict[str, str]:
        copies = {"decode_tp_size": "16", "decode_num_workers": "", "decode_attention_dp_size": ""}
        source = {"silicon_data_source": f"silicon_concurrency={concurrency}", "mode": "disagg"}
        return _row(silicon_tpot_ms=tpot_ms, **copies, **source)

    eight = Layout(tensor=8)
    plain = Pools(1, eight, 1, eight, None, 0, 8192)
    drafting = plain._replace(drafts=3)
    below = drafting_below([row("7.7"), row("14.0"), row("14.1"), row("20", "9"), row("21", "9")])
    assert of_kind([plain, drafting], row("7.7"), below) == [drafting]
    assert of_kind([plain, drafting], row("14.1"), below) == [plain]
    assert of_kind([plain, drafting], row("20", "9"), below) == [plain, drafting]  # they lie together
    assert of_kind([plain, plain], row("7.7"), below) == [plain, plain]


def test_a_run_that_made_tokens_sooner_with_more_clients_is_not_a_row_s() -> None:
    eight = Layout(tensor=8)
    plain = Pools(1, eight, 4, eight, 128, 0, 8192)
    drafting = plain._replace(drafts=3)
    row = _row(silicon_tpot_ms="10.0")
    told = Known({_run(row, drafting): [(144.0, 7.7)], _run(row, plain): [(128.0, 11.9)]})
    assert told.may_be(row, 64.0, [plain, drafting]) == [plain]  # 144 clients with drafts took 7.7 ms
    assert told.may_be(row | {"silicon_tpot_ms": "6.4"}, 4.0, [plain, drafting]) == [plain, drafting]  # either may
    assert told.may_be(row | {"silicon_tpot_ms": "7.0"}, 256.0, [plain, drafting]) == [plain, drafting]  # neither
    assert told.may_be(row | {"silicon_tpot_ms": "9.0"}, 256.0, [plain, drafting]) == [drafting]


def test_servers_compiled_as_requests_came_before_any_warmed_them_up() -> None:
    def compiles_s(measured: str, **columns: str) -> float:
        row = _row(backend="sglang", silicon_data_source=f"measured={measured}", **columns)
        return protocol(row, Layout(tensor=8), 64.0).compiles_s

    assert compiles_s("2025-11-10") == pytest.approx(57.8)
    assert compiles_s("2026-03-25") == 0.0  # warmed up by two rounds
    assert compiles_s("2025-11-10", system="h200_sxm") == 0.0  # compiled with the engine


def test_experts_whose_blocks_would_be_cut_were_whole() -> None:
    four, eight = Layout(tensor=4), Layout(tensor=8)
    row = _row(backend="vllm", model_path="MiniMaxAI/MiniMax-M2.5", system="h200_sxm", backend_version="0.18.0")
    inner = serving_rows._inner(models.named("minimax-m2.5"))
    assert inner == 1536 == 4 * 3 * 128  # config.json, intermediate_size; 8 x 192
    assert as_served(row, four, inner) == four
    assert as_served(row, eight, inner) == Layout(tensor=8, experts=8)
    assert as_served(row | {"precision": "fp4"}, eight, inner) == eight
    early = row | {"system": "b200_sxm", "backend_version": "0.17.0"}
    assert as_served(early, four, inner) == Layout(tensor=4, experts=4)
    assert protocol(early, four, 64.0).experts == "triton_groups"
    assert protocol(early | {"backend_version": "0.19.0"}, four, 64.0).experts == ""
