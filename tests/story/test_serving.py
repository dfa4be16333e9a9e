"""`serve` and `serve_plan` as a user calls them: what they answer, what holds of it, what is refused and how."""

from __future__ import annotations

import functools
import itertools

import pytest

import rooflab
from rooflab.errors import RooflabError, UnknownNameError

MODEL, DEVICE = "llama-3.1-8b", "h100-sxm"


@functools.cache
def closed(**asked):
    return rooflab.serve(MODEL, DEVICE, **asked)


def test_an_answer_adds_up():
    found = closed(concurrency=16)
    decode = next(step for step in found.steps if step.name == "decode")
    assert sum(part.time_s for part in decode.parts) == pytest.approx(decode.time.time_s, rel=1e-6)
    assert found.ttft.floor_s < found.ttft.low_s < found.ttft.time_s < found.ttft.high_s
    assert found.tpot.floor_s < found.tpot.low_s < found.tpot.time_s < found.tpot.high_s
    assert found.output_tokens_per_s == pytest.approx(found.requests_per_s * 1024)
    # 8.03e9 weights of two bytes; 2 x 32 layers x 8 heads x 128 elements of two bytes a token
    assert found.memory.weights == pytest.approx(2 * 8.03e9, rel=0.01)
    assert found.memory.cache == pytest.approx(16 * (1024 + 512) * 2 * 32 * 8 * 128 * 2, rel=0.01)
    assert found.running == pytest.approx(16, rel=0.01)
    held, kept = found.memory.most_running, found.memory.kept_tokens
    assert kept == 1024 + 512  # half of the answer is there in the mean
    alone = rooflab.serve(MODEL, DEVICE, concurrency=1).memory
    full = alone.total + (held - 1) * alone.cache
    assert full == pytest.approx(found.memory.usable, rel=0.01)
    assert "memory" in {part.binds for part in decode.parts if part.layer == "mlp"}
    flow = [each.requests_per_s for each in found.loads]
    assert all(later > 0.97 * before for before, later in itertools.pairwise(flow))  # a tile more costs a little


def test_a_stream_at_a_vanishing_rate_is_a_lonely_client():
    slow = rooflab.serve(MODEL, DEVICE, rate=0.01, requests=20, osl=256)
    alone = rooflab.serve(MODEL, DEVICE, concurrency=1, osl=256)
    assert slow.replay is not None
    assert slow.replay.mean_waiting == 0
    assert slow.ttft.time_s == pytest.approx(alone.ttft.time_s, rel=0.08)
    assert slow.tpot.time_s == pytest.approx(alone.tpot.time_s, rel=0.02)


def test_tokens_made_faster_than_one_process_sends_them_are_said_to_wait_for_it():
    """TensorRT-LLM: 0.105 ms a token. One tensor-parallel copy of 8B on eight devices makes more than that."""
    of = {"engine": "tensorrt-llm", "gpus": 8, "tp": 8, "isl": 1024, "osl": 512}
    many, few = (rooflab.serve(MODEL, DEVICE, concurrency=each, **of) for each in (256, 16))
    assert many.output_tokens_per_s == pytest.approx(1 / 0.105e-3, rel=0.01)
    assert any("sends tokens from one process, 9,524 a second" in each for each in many.warnings)
    assert many.ttft.time_s > 10 * few.ttft.time_s
    assert not any("one process" in each for each in few.warnings)
    apart = rooflab.serve(MODEL, DEVICE, concurrency=256, engine="tensorrt-llm", gpus=8, isl=1024, osl=512)
    assert apart.output_tokens_per_s > 2 * many.output_tokens_per_s  # eight copies have eight processes


@pytest.mark.parametrize(
    ("engine", "precision", "loads"),
    [("vllm", "exl2_4", False), ("exllamav2", "exl2_4", True), ("vllm", "bnb_nf4", True),
     ("tensorrt-llm", "bnb_nf4", False), ("tensorrt-llm", "q4_k_m", False), ("llama-cpp", "q4_k_m", True),
     ("llama-cpp", "bnb_int8", False), ("exllamav2", "q4_0", False), ("vllm", "fp8", True)],
)  # fmt: skip
def test_a_format_that_an_engine_does_not_load_is_said(engine, precision, loads):
    found = rooflab.serve(MODEL, DEVICE, engine=engine, precision=precision, concurrency=1)
    assert any("does not load" in each for each in found.warnings) != loads


@pytest.mark.parametrize(
    ("how", "refused"),
    [({"tp": 8}, True), ({"tp": 8, "ep": 8}, False), ({"tp": 4, "gpus": 4}, False),
     ({"tp": 8, "engine": "tensorrt-llm"}, False), ({"tp": 8, "precision": "bf16"}, False)],
)  # fmt: skip
def test_that_blocks_of_experts_would_be_cut_is_said(how, refused):
    found = rooflab.serve("minimax-m2.5", "h200-8", concurrency=1, **how)  # 1536 = 12 blocks; 8 x 192
    assert (
        any("blocks of 128 numbers are cut: 1,536 over 8 ranks; --ep 8" in each for each in found.warnings)
        == refused
    )


def test_a_node_is_filled_with_copies_and_a_device_takes_the_fewest():
    node = rooflab.serve("llama-3.1-70b", "dgx-h100", concurrency=64)
    where = node.deployment
    assert (where.node, where.devices, where.copies * where.tensor) == ("NVIDIA DGX H100", 8, 8)
    lone = rooflab.serve("llama-3.1-70b", DEVICE, concurrency=8).deployment
    assert (lone.node, lone.copies) == (None, 1)
    assert lone.devices == lone.tensor > 1


def test_clients_fewer_than_copies_have_the_times_of_lonely_ones():
    few = rooflab.serve(MODEL, DEVICE, gpus=8, tp=1, concurrency=2, osl=256)
    alone = rooflab.serve(MODEL, DEVICE, concurrency=1, osl=256)
    assert few.deployment.copies == 8
    assert few.tpot.time_s == pytest.approx(alone.tpot.time_s)
    assert few.requests_per_s == pytest.approx(2 * alone.requests_per_s)


@pytest.mark.parametrize("node", ["h200-8", "b200-8", "gb200-nvl72", "mi300x-8", "pc-4x-rtx-4090", "dgx-a100"])
def test_every_node_serves_a_model_over_its_links(node):
    found = rooflab.serve(MODEL, node, tp=2, gpus=2, concurrency=4, osl=64)
    links = {link.name for link in rooflab.machine(node).links}
    assert found.deployment.node == rooflab.machine(node).name
    assert any(part.layer == "communication" for part in found.steps[1].parts)
    assert links
    assert found.tpot.floor_s < found.tpot.time_s


def test_a_plan_holds_prefill_and_decode_apart_against_the_rest():
    plan = rooflab.serve_plan(MODEL, DEVICE, tpot="12ms", isl=4096, osl=256, gpus=4, precision=["bf16"])
    apart = next(each for each in plan.options if each.deployment.prefill_copies)
    together = next(each for each in plan.options if not each.deployment.prefill_copies)
    assert apart.meets
    # Prompts of 4,096 tokens hold up others' tokens: 12 ms leave few clients where steps hold both.
    assert apart.tokens_per_s_per_device > together.tokens_per_s_per_device
    assert sum(apart.loses.values()) == pytest.approx(1.0, abs=0.01)
    where = apart.deployment
    same = rooflab.serve(
        *(MODEL, DEVICE),
        isl=4096,
        osl=256,
        concurrency=round(apart.concurrency),
        tp=where.tensor,
        disagg=(where.prefill_copies, where.copies - where.prefill_copies),
        prefill_tp=int(where.prefill_layout.removeprefix("TP")) if "TP" in where.prefill_layout else 1,
    )
    assert same.deployment.devices == where.devices
    assert same.tpot.time_s == pytest.approx(apart.tpot_s, rel=0.03)
    assert same.ttft.time_s == pytest.approx(apart.ttft_s, rel=0.1)


def test_prefill_and_decode_apart_spare_the_decoding_the_prompts():
    asked = {"gpus": 4, "tp": 1, "rate": 12.0, "requests": 300, "isl": 4096, "osl": 128}
    together, apart = (rooflab.serve(MODEL, DEVICE, disagg=each, **asked) for each in (None, "2:2"))
    assert apart.deployment.prefill_copies == 2
    assert apart.replay.output_tokens == together.replay.output_tokens
    assert apart.replay["TPOT"].p99 < together.replay["TPOT"].p99
    assert any("prefill on 2 x 1 device" in line for line in apart.notes)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (
            {"gpus": 2, "tp": 1, "disagg": "2:2", "rate": 1.0},
            "gpus: got 2, and 2 x 1 for prompts with 2 x 1 to decode",
        ),
        (
            {"disagg": "2"},
            "disagg: got '2', expected copies that compute prompts and copies that decode, such as 2:6",
        ),
        ({"disagg": "0:2"}, "disagg: got '0:2'"),
        ({"prefill_tp": 2}, "prefill_tp: only where prefill and decode are apart"),
        ({"disagg": "1:1", "osl": 1}, "an answer of one token is the prefill's"),
    ],
)
def test_apart_needs_copies_for_both_and_a_stream(asked, said):
    with pytest.raises(RooflabError, match=said):
        rooflab.serve(MODEL, DEVICE, **asked)


def test_answers_of_one_token_have_no_time_per_token():
    for asked in ({"concurrency": 4}, {"rate": 5.0, "requests": 20}):
        found = rooflab.serve(MODEL, DEVICE, osl=1, **asked)
        assert found.tpot is None
        assert found.output_tokens_per_s_per_user is None
    assert rooflab.serve(MODEL, "dgx-h100", gpus=16, concurrency=32).deployment.node == "2 x NVIDIA DGX H100"


def test_an_overloaded_stream_says_what_can_be_answered():
    found = rooflab.serve(MODEL, DEVICE, rate=500.0, requests=300, osl=128)
    assert any("500 requests/s come" in line and "can be answered" in line for line in found.warnings)


def test_broken_lines_of_a_stream_are_said(tmp_path):
    path = tmp_path / "stream.csv"
    path.write_text("arrival_s,prompt_tokens,answer_tokens\n0,100,20\n1,-1,20\n2,100,20\n", encoding="utf-8")
    found = rooflab.serve(MODEL, DEVICE, stream=path)
    assert (found.replay.requests, found.replay.dropped) == (2, 1)
    assert found.warnings[0].startswith("1 of 3 lines of the file are no requests and were left out: line 3")


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"rate": -1.0}, "rate: got -1, expected a number above 0"),
        ({"concurrency": 0}, "concurrency: got 0, expected a number above 0"),
        ({"isl": -5}, "isl: got -5, expected a whole number of tokens above 0"),
        ({"concurrency": 4, "rate": 1.0}, "concurrency and rate: expected one of them"),
        ({"tp": 0}, "tp: got 0, expected a whole number above 0"),
        ({"gpus": 3, "tp": 2}, "3 devices: expected a multiple of the 2 that a copy takes as TP2"),
        ({"tp": 3}, "32 heads over 3 tensor-parallel ranks"),
        ({"step_tokens": 0}, "step tokens: got 0, expected a whole number above 0"),
        ({"engine": "tensorrt-llm", "isl": 20_000}, "a request of 20,000 does not fit; give more step tokens"),
        ({"isl": 2_000_000, "gpus": 1}, "too much; more devices or fewer tokens"),
    ],
)
def test_settings_that_cannot_be_are_refused(asked, said):
    with pytest.raises(RooflabError) as error:
        rooflab.serve(MODEL, DEVICE, **asked)
    assert said in str(error.value)


def test_unknown_names_list_the_nearest():
    for args, near in ((("llama-3.1-8x", DEVICE), MODEL), ((MODEL, "h100-smx"), DEVICE)):
        with pytest.raises(UnknownNameError) as error:
            rooflab.serve(*args)
        assert near in str(error.value)
    with pytest.raises(UnknownNameError, match="vllm"):
        rooflab.serve(MODEL, DEVICE, engine="vlm")


@functools.cache
def planned():
    return rooflab.serve_plan(
        MODEL, [DEVICE, "l40s"], tpot="20ms", ttft=1.0, gpus=2, price={DEVICE: 2.5, "l40s": 1.0}
    )


def test_a_plan_keeps_its_goal_and_its_front_is_one():
    plan = planned()
    best = plan.best
    assert best.meets
    assert best.tpot_s <= 0.02
    assert best.ttft_s <= 1.0
    prices = [option.price_per_million_tokens for option in plan.options if option.meets]
    assert prices == sorted(prices)
    per_hour = plan.prices[best.deployment.machine] * best.deployment.devices
    assert best.price_per_million_tokens == pytest.approx(per_hour / 3600 / best.output_tokens_per_s * 1e6)
    users = [option.tokens_per_s_per_user for option in plan.front]
    cheap = [option.price_per_million_tokens for option in plan.front]
    assert users == sorted(users, reverse=True)
    assert cheap == sorted(cheap, reverse=True)
    for option in plan.options:
        assert sum(option.loses.values()) == pytest.approx(1.0, abs=0.02)
        assert option.memory_share <= 1.0


def test_an_option_of_a_plan_is_what_serve_answers():
    best = planned().best
    where = best.deployment
    card = DEVICE if "H100" in where.machine else "l40s"
    alone = rooflab.serve(
        MODEL,
        card,
        tp=where.tensor,
        precision=where.weights,
        concurrency=round(best.concurrency),
        gpus=where.devices,
    )
    assert alone.tpot.time_s == pytest.approx(best.tpot_s, rel=0.03)
    assert alone.ttft.time_s == pytest.approx(best.ttft_s, rel=0.05)


def test_a_rate_takes_as_many_copies_as_it_needs():
    plan = rooflab.serve_plan(MODEL, DEVICE, tpot="20ms", rate=40.0, gpus=1, precision=["bf16"])
    best = plan.best
    assert best.requests_per_s >= 40.0
    assert best.deployment.copies == best.deployment.devices
    assert (best.deployment.copies - 1) * best.requests_per_s / best.deployment.copies < 40.0


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"tpot": "0.1ms"}, "tpot=100 µs is below the floor of every layout: "),
        ({"ttft": "0.01ms"}, "ttft=10.0 µs is below the floor of every layout: "),
        ({"tpot": -1.0}, "tpot: got -1, expected a number above 0"),
        ({"rate": 0.0}, "rate: got 0, expected a number above 0"),
        ({"price": {"h200": 1.0}}, "unknown machine with a price"),
        ({"price": {DEVICE: -1.0}}, "price of h100-sxm: got -1.0, expected a number above 0"),
        ({"isl": 3_000_000}, "fits in none of"),
    ],
)
def test_plans_that_cannot_be_are_refused(asked, said):
    with pytest.raises(RooflabError) as error:
        rooflab.serve_plan(MODEL, DEVICE, gpus=1, precision=["bf16"], **asked)
    assert said in str(error.value)


def test_a_goal_that_nothing_keeps_names_the_nearest():
    plan = rooflab.serve_plan(MODEL, "l40s", tpot="19ms", ttft="300ms", gpus=1, precision=["bf16"], isl=4096)
    assert plan.best is None
    assert plan.warnings[0].startswith("No setting keeps the goal. Nearest: 1 x NVIDIA L40S")
    first = plan.options[0]
    for name, took, goal in (("TTFT", first.ttft_s, 0.3), ("TPOT", first.tpot_s, 0.019)):
        assert (f"{took / goal:.3g} times" in plan.warnings[0]) == (took > goal), name
    misses = [max(each.ttft_s / 0.3, each.tpot_s / 0.019) for each in plan.options]
    assert misses == sorted(misses)
    assert misses[0] > 1


def test_a_client_alone_waits_for_the_steps_of_its_own_tokens_alone():
    found = rooflab.serve(MODEL, "h100-sxm", concurrency=1, isl=64, osl=4)
    assert found.tpot.time_s == pytest.approx(found.steps[1].time.time_s, rel=1e-3)


def test_the_line_of_this_load_lies_in_its_picture() -> None:
    from rooflab.views.serving.chart import over_load

    asked = {"precision": "q4_k_m", "concurrency": 1, "isl": 256, "osl": 64, "engine": "llama-cpp"}
    found = rooflab.serve("llama-3.1-8b", "pc-2x-rtx-3090", pp=2, **asked)
    assert found.loads[0].concurrency > 1
    low, high = over_load(found).to_dict()["vconcat"][0]["layer"][0]["encoding"]["x"]["scale"]["domain"]
    assert low <= 1 <= high


def test_more_devices_than_the_one_named_are_said():
    asked = {"engine": "llama-cpp", "precision": "q4_k_m", "concurrency": 1}
    found = rooflab.serve("llama-3.1-70b", "rtx-3090", **asked)
    assert found.deployment.devices == 2
    assert found.warnings[0].startswith("NVIDIA GeForce RTX 3090: 2 of them, the fewest with room for 4")
    assert not any(
        "of them" in said for said in rooflab.serve("llama-3.1-70b", "rtx-3090", gpus=2, **asked).warnings
    )


def test_the_floor_of_a_long_prompt_counts_all_that_its_tokens_attend_to():
    found = rooflab.serve(MODEL, "h100-sxm", gpus=1, concurrency=1, isl=100_000, osl=2)
    # 32 layers of 32 heads of 128: half of the square, q with k and scores with v; products of 7.5e9 weights.
    flop = 2 * 7.5e9 * 100_000 + 32 * 2 * 32 * 128 * 100_000**2
    assert found.ttft.floor_s == pytest.approx(flop / 989.4e12, rel=0.05)
