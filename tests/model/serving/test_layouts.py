"""What one rank of each layout runs, against counts by hand; Llama 3.1 8B, 32 layers of 32 and 8 heads of 128."""

from __future__ import annotations

import numpy as np
import pytest

import rooflab
from rooflab.errors import RooflabError
from rooflab.model.collectives import FUNCTIONS
from rooflab.model.parallel.layout import Layout
from rooflab.model.serving.batch import Batch
from rooflab.model.serving.step import StepModel
from rooflab.work.llm import models

LLAMA, HIDDEN, LAYERS = models.model("llama-3.1-8b"), 4096, 32
PROMPT = Batch(1.0, 4096.0, 1024.0)
DECODE = Batch(decode_sequences=16.0, decode_context=4096.0)


def kernels(batch, model=LLAMA, **layout):
    return StepModel(model, rooflab.machine("h200"), layout=Layout(**layout)).kernels(batch)


def flop(made, sort):
    return sum(float(np.sum(each.flop * each.count)) for each in made if each.sort == sort)


def sent(made, name):
    """Times, function and bytes of the collectives called `name`."""
    found = [each for each in made if each.sort == "collective" and each.name == name]
    return [
        (
            float(np.max(each.count)),
            FUNCTIONS[int(np.max(each.columns["function"]))],
            float(np.max(each.columns["message_bytes"])),
        )
        for each in found
    ]


@pytest.mark.parametrize("ways", [2, 4, 8])
def test_ranks_of_a_sequence_share_its_attention_and_its_products(ways):
    whole, part = kernels(PROMPT), kernels(PROMPT, context=ways)
    assert flop(part, "attention") * ways == pytest.approx(flop(whole, "attention"), rel=2e-4)
    # All but the head's product, one row a sequence on each rank.
    head = 2 * HIDDEN * LLAMA.vocabulary
    assert (flop(part, "matmul") - head) * ways == pytest.approx(flop(whole, "matmul") - head)
    # (4096 + 1024) tokens x 8 heads x (128 + 128) x 2 bytes, once a layer
    assert sent(part, "pass keys and values on") == [(LAYERS, "all_gather", 5120 * 8 * 256 * 2)]


def test_ranks_of_a_sequence_share_the_cache_that_a_token_reads():
    def read(made):
        return sum(float(np.sum(each.read_bytes * each.count)) for each in made if each.sort == "attention")

    whole, part = read(kernels(DECODE)), read(kernels(DECODE, context=4))
    queries = LAYERS * 16 * 32 * 128 * 2
    assert (part - queries) * 4 == pytest.approx(whole - queries, rel=1e-3)
    # 16 sequences x 32 heads x 128 in fp32
    (joined,) = sent(kernels(DECODE, context=4), "join parts of attention")
    assert joined == (LAYERS, "all_reduce", 16 * 32 * 128 * 4)


def test_tensor_parallel_ranks_add_up_twice_a_layer_or_scatter_and_gather():
    plain, shared = kernels(PROMPT, tensor=4), kernels(PROMPT, tensor=4, sequence=True)
    nbytes = 4096 * HIDDEN * 2
    assert sent(plain, "sum after attention") == [(LAYERS, "all_reduce", nbytes)]
    assert sent(shared, "scatter sums after mlp") == [(LAYERS, "reduce_scatter", nbytes)]
    assert sent(shared, "gather before mlp") == [(LAYERS, "all_gather", nbytes)]

    def norms(made):
        return sum(float(np.sum(each.read_bytes * each.count)) for each in made if each.layer == "norm")

    assert norms(shared) * 4 == pytest.approx(norms(plain))


def test_stages_send_the_hidden_vectors_on():
    assert sent(kernels(PROMPT, pipeline=4), "send to the next stage") == [(3.0, "send", 4096 * HIDDEN * 2)]


def test_attention_with_sequences_of_its_own_and_experts_of_all():
    mixtral = models.model("mixtral-8x7b")
    made = kernels(DECODE, mixtral, data=4, experts=4)
    attended = next(each for each in made if each.sort == "attention" and np.max(each.columns["sequences"]) > 0)
    assert np.max(attended.columns["sequences"]) == 4  # 16 over 4 groups
    # More ranks than experts that a token meets: each of its 4 tokens to 2 experts and back, in bf16
    assert sent(made, "send tokens to experts") == [(LAYERS, "all_to_all", 4 * 2 * HIDDEN * 2)]
    assert sent(made, "sum what experts give") == [(LAYERS, "all_to_all", 4 * 2 * HIDDEN * 2)]


def test_a_prompt_is_all_one_group_of_ranks():
    """One of eight groups computes the only prompt; the attention of eight prompts takes no longer."""
    deepseek = StepModel(models.named("deepseek-v3"), rooflab.machine("h200"), layout=Layout(data=8, experts=8))
    step = deepseek.time(Batch(prefill_sequences=np.array([1.0, 8.0, 16.0]), prefill_tokens=4096.0))
    one, eight, sixteen = step.by_layer()["attention"]
    assert one == pytest.approx(eight)
    assert sixteen > 1.9 * eight


def test_a_group_of_ranks_has_a_process_of_its_own_for_its_sequences():
    model, machine = models.named("deepseek-v3"), rooflab.machine("h200")
    alone = StepModel(model, machine, engine="tensorrt-llm", layout=Layout(tensor=8, experts=8))
    apart = StepModel(model, machine, engine="tensorrt-llm", layout=Layout(data=8, experts=8))
    few, many = (Batch(decode_sequences=count, decode_context=1000.0) for count in (64.0, 512.0))
    assert apart.time(many).host_s == pytest.approx(alone.time(few).host_s)


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"sp": True, "tp": 1}, "of which is one"),
        ({"cp": 0}, "cp: got 0, expected a whole number above 0"),
        ({"cp": 2, "tp": 1, "model": "qwen3-next-80b-a3b"}, "linear layers go through a sequence in order"),
        ({"tp": 4, "ep": 3, "model": "mixtral-8x7b"}, "3 expert ways over 4 ranks of a stage"),
        ({"ep": 8, "gpus": 4, "model": "mixtral-8x7b"}, "ep=8 on 4 devices: .* up to 4 x 1 x 1: no multiple of 8"),
        ({"dp": 16, "gpus": 8}, "dp=16 x cp=1 x pp=1: 16 devices at least, got 8; say --gpus 16"),
    ],
)
def test_layouts_that_cannot_be(how, said):
    asked = {"model": "llama-3.1-8b", **how}
    with pytest.raises(RooflabError, match=said):
        rooflab.serve(asked.pop("model"), "h200", **asked)


def test_ways_that_experts_are_divided_among_are_found_where_nobody_says_them():
    asked = {"concurrency": 8, "precision": "fp8"}
    for ways, layout in (({"ep": 8}, "TP8 EP8"), ({"ep": 4, "dp": 2}, "TP2 EP4 DP2")):
        assert rooflab.serve("mixtral-8x7b", "h100-sxm", gpus=8, **ways, **asked).deployment.layout == layout


def test_a_long_prompt_is_sooner_read_by_ranks_that_share_it():
    one, four = (
        rooflab.serve("llama-3.1-8b", "h200-8", tp=1, cp=n, gpus=n, isl=32768, osl=64, concurrency=1)
        for n in (1, 4)
    )
    assert four.deployment.layout == "CP4"
    assert four.deployment.context == 4
    assert 1.5 < one.ttft.time_s / four.ttft.time_s < 4
    assert four.memory.cache * 4 == pytest.approx(one.memory.cache)
