"""Adapters, drafts, pictures, uneven experts, half batches, prefixes on the host: by hand or by plain loops."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import rooflab
from rooflab.errors import RooflabError
from rooflab.model.parallel.layout import Layout
from rooflab.model.serving.batch import Batch
from rooflab.model.serving.beside import ADAPTER
from rooflab.model.serving.extras import Extras
from rooflab.model.serving.feed_forward import load
from rooflab.model.serving.step import PartTime, StepModel, side_by_side
from rooflab.work.llm.architecture import Architecture, Block, Experts, Mlp, Tower
from rooflab.work.llm.graph import graph
from rooflab.work.llm.mixers import Attention

PLAIN = Architecture("plain", 1024, 32000, (Block(4, Attention(16, 4, 64, 64), Mlp(2816)),))
SPARSE = Architecture("sparse", 2048, 32000, (Block(8, Attention(16, 4, 128, 128), Experts(64, 4, 1024)),))
EYE = Tower("image", 512, (Block(2, Attention(8, 8, 64, 64, rotates=False, causal=False), Mlp(2048, False)),),
            patch_inputs=588, merge=4, project=(2048, 1024))  # fmt: skip
SEEING = Architecture("seeing", 1024, 32000, PLAIN.blocks, tower=EYE)
TOKEN = Batch(decode_sequences=8.0, decode_context=512.0)


def step(model: Architecture, prompt: float = 1024.0, layout: Layout | None = None, **extras) -> StepModel:
    how = {"layout": layout, "extras": Extras(**extras), "prompt": prompt}
    return StepModel(model, rooflab.machine("h100-sxm"), **how)


def total(kernels, name: str) -> float:
    return float(sum(np.sum(getattr(each, name) * each.count) for each in kernels))


def test_adapters_hold_what_the_graph_of_the_model_with_them_holds() -> None:
    def parameters(rank: int) -> float:
        return sum(spec.nbytes for spec in graph(PLAIN, adapters=rank).held("parameter"))

    # 2 bytes each of k x r and r x n beside each projection.
    assert step(PLAIN, lora_rank=16).adapter_bytes == parameters(16) - parameters(0)
    assert step(PLAIN, lora_rank=16, loras=5).adapter_bytes == 5 * (parameters(16) - parameters(0))


def test_adapters_cost_two_flop_a_weight_and_token() -> None:
    model = step(PLAIN, lora_rank=16)
    ours = [each for each in model.kernels(TOKEN) if ADAPTER in each.name]
    assert total(ours, "flop") == pytest.approx(2 * 8 * model.adapter_bytes / 2)


def test_as_many_adapters_are_read_as_sequences_meet() -> None:
    held, sequences = 3, 4
    met = np.mean([len(set(each)) for each in itertools.product(range(held), repeat=sequences)])
    model = step(PLAIN, lora_rank=8, loras=held)
    batch = Batch(decode_sequences=float(sequences), decode_context=512.0)
    ours = [each for each in model.kernels(batch) if ADAPTER in each.name]
    assert total(ours, "weight_bytes") == pytest.approx(met * model.adapter_bytes / held)


@pytest.mark.parametrize("engine", ["vllm", "llama-cpp"])
def test_adapters_are_never_free(engine: str) -> None:
    times = [
        StepModel(PLAIN, rooflab.machine("rtx-4090"), engine=engine, extras=Extras(lora_rank=rank))
        .time(TOKEN)
        .seconds[0]
        for rank in (0, 8, 64)
    ]
    assert times == sorted(times)
    assert times[0] < times[1]


def test_pictures_pass_through_their_tower_in_the_steps_of_the_prompt() -> None:
    model = step(SEEING, prompt=600.0, image_tokens=100, images=2)
    kernels = [each for each in model.kernels(Batch(3.0, 600.0)) if each.layer == "image tower"]
    patches = 3 * 100 * 4
    # Of a patch: 588 x 512 in; 2 layers of 4 x 512² and 2 x 512 x 2048; a quarter of 2048 x 1024 out. Attention:
    # all 200 patches of a picture to each other, 4 FLOP a pair and element of its 512.
    products = 2 * patches * (588 * 512 + 2 * (4 * 512**2 + 2 * 512 * 2048) + 2048 * 1024 / 4)
    attention = 2 * 4 * patches * 200 * 512
    assert total(kernels, "flop") == pytest.approx(products + attention)
    # In two chunks of a prompt half of it each.
    halves = [each for each in model.kernels(Batch(3.0, 300.0)) if each.layer == "image tower"]
    assert total(halves, "flop") == pytest.approx((products + attention) / 2)


def test_a_text_encoder_runs_with_every_prompt() -> None:
    text = Tower("text", 512, (Block(2, Attention(8, 8, 64, 64, causal=False), Mlp(2048, False)),))
    model = step(Architecture("both", 1024, 32000, PLAIN.blocks, encoder=text), prompt=256.0)
    kernels = [each for each in model.kernels(Batch(1.0, 256.0)) if each.layer == "text tower"]
    assert total(kernels, "flop") == pytest.approx(
        2 * 256 * 2 * (4 * 512**2 + 2 * 512 * 2048) + 2 * 4 * 256**2 * 512
    )
    assert not any(np.sum(each.flop) for each in model.kernels(TOKEN) if each.layer == "text tower")


def test_layers_attend_to_an_encoder_whose_keys_are_made_once() -> None:
    sound = Tower(
        "sound", 512, (Block(2, Attention(8, 8, 64, 64, causal=False), Mlp(2048, False)),), positions=1500
    )
    across = Attention(8, 8, 64, 64, rotates=False, causal=False, cross=True)
    block = Block(2, Attention(8, 8, 64, 64), Mlp(2048, False), cross=across)
    model = step(Architecture("hears", 512, 32000, (block,), encoder=sound), prompt=4.0)
    single = [each for each in model.kernels(TOKEN) if "encoder" in each.name or "cross" in each.name]
    # 8 tokens: 2 layers x (512² for q, 4 FLOP for each of 1500 keys and 512 elements); no keys are made again.
    assert total(single, "flop") == pytest.approx(2 * (2 * 8 * 512**2 + 4 * 8 * 1500 * 512))
    first = [each for each in model.kernels(Batch(1.0, 4.0)) if each.name.startswith("project to k, v (cross)")]
    assert total(first, "flop") == pytest.approx(2 * 2 * 1500 * 512 * 1024)
    none, one = model.memory(0.0, 0.0), model.memory(0.0, 1.0)
    assert one.states - none.states == 2 * 1500 * 1024 * 2


def in_turns(computing: float, sending: float, turns: int) -> float:
    """Two halves that each compute and send so often, one of both at a time: event by event."""
    free = {"compute": 0.0, "send": 0.0}
    at, done = [0.0, 0.0], [0, 0]
    while min(done) < 2 * turns:
        half = min((n for n in (0, 1) if done[n] < 2 * turns), key=lambda n: (done[n], at[n]))
        what, seconds = ("send", sending / turns) if done[half] % 2 else ("compute", computing / turns)
        at[half] = free[what] = max(at[half], free[what]) + seconds
        done[half] += 1
    return max(at)


@pytest.mark.parametrize(("computing", "sending"), [(3.0, 1.0), (1.0, 3.0), (2.0, 2.0), (5.0, 0.0)])
@pytest.mark.parametrize("turns", [1, 4, 60])
def test_two_half_batches_take_what_they_take_event_by_event(computing: float, sending: float, turns: int) -> None:
    zero = np.zeros(1)
    parts = tuple(
        PartTime(layer, "", np.array([seconds]), *([zero] * 7))
        for layer, seconds in (("mlp", computing), ("communication", sending))
    )
    made = side_by_side(parts, np.array([float(turns)]))
    assert sum(float(each.seconds[0]) for each in made) == pytest.approx(in_turns(computing, sending, turns))


def test_half_batches_hide_what_is_sent_where_it_is_long_and_never_pass_the_floor() -> None:
    batch = Batch(16.0, 4096.0)
    times = [step(PLAIN, layout=Layout(tensor=4), overlap=each).time(batch) for each in (False, True)]
    assert times[1].floor_s[0] <= times[1].seconds[0] < times[0].seconds[0]
    alone = Batch(decode_sequences=1.0, decode_context=64.0)  # nothing to divide
    same = [step(PLAIN, layout=Layout(tensor=4), overlap=each).time(alone).seconds[0] for each in (False, True)]
    assert same[0] == same[1]


def test_imbalance_is_that_of_the_busiest_rank() -> None:
    feed = Experts(64, 4, 1024)
    assert load(feed, 8, 800.0, 1.0)[0] == 800 * 4 / 8
    assert load(feed, 8, 800.0, 1.5)[0] == 1.5 * 800 * 4 / 8
    assert load(feed, 8, 800.0, 100.0)[0] == 800 * 4  # all of them there
    layout = Layout(data=8, experts=8)
    times = [
        step(SPARSE, layout=layout, imbalance=each).time(Batch(8.0, 4096.0)).seconds[0] for each in (1.0, 2.0, 4.0)
    ]
    assert times[0] < times[1] < times[2]


def test_accepted_drafts_share_a_step() -> None:
    asked = {"concurrency": 8, "isl": 256, "osl": 257}
    plain = rooflab.serve("deepseek-v3", "h200-8", **asked)
    once, twice = (rooflab.serve("deepseek-v3", "h200-8", drafts=1, accepted=each, **asked) for each in (1.0, 2.0))
    assert once.tpot.time_s > plain.tpot.time_s  # drafts that nobody accepts cost
    assert twice.tpot.time_s == pytest.approx(once.tpot.time_s / 2, rel=0.1)
    assert twice.tpot.floor_s == pytest.approx(once.tpot.floor_s / 2)
    assert (twice.deployment.drafts, twice.deployment.accepted) == (1, 2.0)


def test_a_stream_gives_as_many_tokens_with_drafts_as_without() -> None:
    asked = {"rate": 2.0, "requests": 50, "isl": 256, "osl": 129}
    plain = rooflab.serve("llama-3.1-8b", "h100-sxm", **asked)
    drafts = rooflab.serve("llama-3.1-8b", "h100-sxm", drafts=3, accepted=2.0, **asked)
    assert drafts.replay.output_tokens == plain.replay.output_tokens == 50 * 129
    assert drafts.replay["TPOT"].mean < plain.replay["TPOT"].mean


def test_cached_tokens_on_the_host_come_over_its_link() -> None:
    asked = {"concurrency": 1, "isl": 8192, "cached": 8000, "osl": 8}
    here, there = (
        rooflab.serve("llama-3.1-8b", "h100-sxm", cached_on=each, **asked) for each in ("device", "host")
    )
    link = next(each for each in rooflab.machine("h100-sxm").links if each.to == "host")
    rate = link.pinned_bytes_per_s or link.each_way_bytes_per_s
    by_hand = 8000 * 32 * 2 * 8 * 128 * 2 / rate  # 32 layers, k and v, 8 heads of 128, bf16
    assert there.ttft.time_s - here.ttft.time_s == pytest.approx(by_hand, rel=1e-6)
    assert there.demand.cached_on_host
    assert any("lie on the host" in each for each in there.notes)


def test_prompts_that_wait_come_in_fuller_steps() -> None:
    asked = {"engine": "tensorrt-llm", "rate": 10.0, "requests": 200, "isl": 512, "osl": 128}
    at_once, later = (rooflab.serve("llama-3.1-8b", "h100-sxm", wait_steps=each, **asked) for each in (0, 50))
    assert later.replay["TTFT"].mean > at_once.replay["TTFT"].mean
    assert later.replay.mixed_steps < at_once.replay.mixed_steps
    assert later.replay.output_tokens == at_once.replay.output_tokens


def test_an_answer_keeps_what_was_asked_beside(tmp_path) -> None:
    found = rooflab.serve("llama-3.1-8b", "h100-sxm", lora_rank=16, loras=4, concurrency=2)
    assert (found.deployment.lora_rank, found.deployment.loras) == (16, 4)
    found.save(tmp_path / "answer.json")
    assert rooflab.load(tmp_path / "answer.json") == found


@pytest.mark.parametrize(
    ("model", "machine", "how", "said"),
    [
        (
            "llama-3.1-8b",
            "h100-sxm",
            {"lora_rank": -1},
            "lora_rank: got -1, expected a whole number of at least 0",
        ),
        (
            "llama-3.1-8b",
            "h100-sxm",
            {"accepted": 2.0},
            "accepted: got 2 tokens a step, expected 1 to 1 with 0 drafts",
        ),
        ("llama-3.1-8b", "h100-sxm", {"drafts": 2, "accepted": 4.0}, "expected 1 to 3 with 2 drafts"),
        ("llama-3.1-8b", "h100-sxm", {"imbalance": 1.5}, "imbalance: llama-3.1-8b has no experts"),
        ("deepseek-v3", "h200-8", {"imbalance": 0.5, "ep": 8, "tp": 8}, "expected 1 (all ranks alike) or more"),
        ("deepseek-v3", "h200-8", {"imbalance": 1.5}, "say over how many ranks (--ep)"),
        ("llama-3.1-8b", "h100-sxm", {"image_tokens": 5}, "llama-3.1-8b has no tower for pictures"),
        ("llama-3.1-8b", "h100-sxm", {"overlap": True, "tp": 1}, "one device sends nothing to others"),
        ("llama-3.1-8b", "h100-sxm", {"cached_on": "host"}, "no tokens of a prompt are cached"),
        ("llama-3.1-8b", "h100-sxm", {"cached_on": "disc"}, "unknown place of cached tokens 'disc'"),
        ("llama-3.1-8b", "m4-max-40-core", {"cached": 9, "cached_on": "host"}, "states no link to its host"),
        ("llama-3.1-8b", "h100-sxm", {"wait_steps": 5}, "a closed loop's steady state has no waiting"),
        ("llama-3.1-8b", "h100-sxm", {"wait_steps": -5, "rate": 1.0}, "expected 0 or more, and a share"),
    ],
)
def test_bad_input_is_one_line(model: str, machine: str, how: dict, said: str) -> None:
    with pytest.raises(RooflabError) as caught:
        rooflab.serve(model, machine, **how)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_plan_says_what_no_layout_can_have() -> None:
    with pytest.raises(RooflabError, match=r"^image_tokens: llama-3\.1-8b has no tower"):
        rooflab.serve_plan("llama-3.1-8b", "h100-sxm", gpus=2, image_tokens=5)


def test_a_plan_takes_them_too() -> None:
    plain, adapted = (rooflab.serve_plan("llama-3.1-8b", "h100-sxm", gpus=1, lora_rank=each) for each in (0, 32))
    assert adapted.best.output_tokens_per_s < plain.best.output_tokens_per_s
    assert any("LoRA" in each for each in adapted.notes)
