"""A step's time: held against hand counts, and properties that must hold for any batch and layout."""

from __future__ import annotations

import dataclasses

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rooflab
from rooflab.errors import RooflabError
from rooflab.model.device.device import device_of
from rooflab.model.engines.engine import engine, names
from rooflab.model.engines.engine import load as load_engine
from rooflab.model.kernels.gpu import matmul as gpu_matmul
from rooflab.model.parallel.layout import Layout
from rooflab.model.parallel.memory import check_fits
from rooflab.model.serving import row_kernels, timing
from rooflab.model.serving.batch import Batch
from rooflab.model.serving.choose import Wanted, rules_of
from rooflab.model.serving.feed_forward import Routed, expert_kernels, load
from rooflab.model.serving.step import Speculation, StepModel
from rooflab.work.llm import models
from rooflab.work.llm.architecture import Architecture, Block, Experts, Mlp
from rooflab.work.llm.formats import weight_format
from rooflab.work.llm.mixers import Attention
from rooflab.work.llm.precision import precision

LLAMA = Architecture("llama-8b", 4096, 128256, (Block(32, Attention(32, 8, 128, 128), Mlp(14336)),))
SPARSE = Architecture("sparse", 2048, 32000, (Block(8, Attention(16, 4, 128, 128), Experts(64, 4, 1024)),))


def step(model: Architecture = LLAMA, **how) -> StepModel:
    return StepModel(model, rooflab.machine("h100-sxm"), **how)


def test_products_of_a_step_are_two_flop_a_weight_and_token() -> None:
    kernels = step().kernels(Batch(decode_sequences=4.0, decode_context=512.0))
    flop = sum(float(np.sum(each.flop * each.count)) for each in kernels if each.sort == "matmul")
    # All weights but the table of tokens (and norms): 8.03e9 - 128256 x 4096 - 65 x 4096
    assert flop == 2 * 4 * (LLAMA.parameters - 128256 * 4096 - 65 * 4096)


def test_what_only_writes_takes_its_time() -> None:
    # 1 GB of zeros at less than 3.352 TB/s.
    zeros = row_kernels.pointwise("l", "zeros", 1.0, 5e8, reads=0.0, writes=2.0)
    none = row_kernels.pointwise("l", "zeros", 1.0, 0.0, reads=0.0, writes=2.0)
    some, nothing = timing.timed([zeros, none], device_of(rooflab.machine("h100-sxm")), None, 1)
    assert some.seconds[0] > 1e9 / 3.352e12
    assert nothing.seconds[0] == 0.0


def test_generated_products_pad_to_what_a_rank_would_get_of_all_rows() -> None:
    # 1024 tokens, 6 of 256 experts each, over 64 ranks: 6144 rows over 4 experts are 1536 each, cut to 256; of 8
    # tokens 12, the next power of two is 16; of one 1.5, at least 8.
    tokens = np.array([1024.0, 8.0, 1.0])
    routed = Routed(tokens, tokens * 6 / 64, 4.0, 6.0, 256.0, 4096.0, 2048.0, 64.0, library="trtllm_gen_groups")
    made = expert_kernels(engine("tensorrt-llm"), weight_format("mxfp4_mxfp8"), routed, 1.0, gated=True)
    products = [each for each in made if each.sort == "matmul"]
    assert [list(each.columns["tile_rows"]) for each in products] == [[256.0, 16.0, 8.0]] * 2
    assert "activate" not in [each.name for each in made]


@pytest.mark.parametrize(
    ("library", "stored", "copied_bytes", "scaled"),
    [
        # 10 tokens of 512 numbers on 8 experts each, 80 rows: copied as they are multiplied, ...
        ("cutlass_groups", "bf16", 80 * 512 * 4.0, {}),
        ("cutlass_groups", "fp8", 80 * 512 * 2.0, {"scale activations": 10 * 512 * 3.0}),
        # ... with scales of blocks before they are scaled, and what was activated after it;
        ("block_groups", "fp8_block", 80 * 512 * 4.0,
         {"scale activations": 80 * 512 * 3.0, "scale activated": 80 * 256 * 3.0}),
        # Triton's products fetch rows from where they are.
        ("triton_groups", "fp8_block", 0.0, {"scale activations": 10 * 512 * 3.0}),
    ],
)  # fmt: skip
def test_rows_are_copied_to_experts_where_products_do_not_fetch_them(
    library: str, stored: str, copied_bytes: float, scaled: dict[str, float]
) -> None:
    routed = Routed(np.array([10.0]), np.array([80.0]), 16.0, 8.0, 16.0, 512.0, 256.0, 1.0, library=library)
    made = expert_kernels(engine("tensorrt-llm"), weight_format(stored), routed, 1.0, gated=True)
    moved = {each.name: float(np.sum(each.read_bytes + each.write_bytes)) for each in made}
    assert moved.get("copy rows", 0.0) == copied_bytes
    assert {name: moved[name] for name in moved if name.startswith("scale")} == scaled


def test_experts_run_the_products_that_their_engine_has_on_a_family() -> None:
    half, block, narrow = (weight_format(each) for each in ("bf16", "fp8_block", "nvfp4"))
    assert engine("vllm").experts_kernel("hopper", half) == "triton_groups"
    assert engine("tensorrt-llm").experts_kernel("hopper", block) == "block_groups"
    assert engine("tensorrt-llm").experts_kernel("blackwell", narrow) == ""
    for made_by in map(engine, ("vllm", "vllm-0", "sglang", "tensorrt-llm", "tensorrt-llm-0")):
        named = {each for family in made_by.experts.values() for each in family.values()}
        assert named <= set(gpu_matmul.KERNELS)


@pytest.mark.parametrize("name", ["mxfp4", "int4"])
def test_engines_that_call_the_same_kernels_for_experts_take_as_long(name: str) -> None:
    # OpenAI's triton_kernels and Marlin, on Hopper
    stored = weight_format(name)
    sglang, vllm = engine("sglang"), engine("vllm")
    assert sglang.experts_kernel("hopper", stored) == vllm.experts_kernel("hopper", stored) == ""
    assert sglang.experts_share(stored) == vllm.experts_share(stored)
    assert sglang.sorting_kernels == vllm.sorting_kernels


def test_triton_s_products_that_nobody_tuned_have_small_tiles() -> None:
    # 16 of 64 experts a rank: tiles of 16 rows up to 16 tokens.
    routed = Routed(
        np.array([16.0, 17.0]), 8.0, 4.0, 2.0, 64.0, 512.0, 256.0, 4.0, library="triton_default_groups"
    )
    made = expert_kernels(engine("sglang"), weight_format("bf16"), routed, 1.0, gated=True)
    products = [each for each in made if each.sort == "matmul"]
    assert [list(each.columns["tile_rows"]) for each in products] == [[16.0, 64.0]] * 2


def test_a_token_alone_waits_for_its_weights() -> None:
    made = step().time(Batch(decode_sequences=1.0, decode_context=1.0))
    # 15.01 GB of weights and head without the table of tokens, at 3.352 TB/s
    assert made.floor_s[0] == pytest.approx(4.48e-3, rel=0.01)
    assert made.floor_s[0] < made.low[0] < made.seconds[0] < made.high[0]


def test_many_settings_are_the_same_as_each_alone() -> None:
    model, counts = step(), np.array([1.0, 7.0, 64.0, 300.0])
    batch = Batch(2.0, 128.0 * counts, 64.0, counts, 100.0 * counts)
    together = model.time(batch).seconds
    alone = [model.time(Batch(2.0, 128.0 * n, 64.0, n, 100.0 * n)).seconds[0] for n in counts]
    assert together == pytest.approx(alone, rel=1e-12)


def test_parts_and_host_add_up() -> None:
    made = step(layout=Layout(tensor=4)).time(Batch(1.0, 512.0, 0.0, 16.0, 2048.0))
    assert sum(made.by_layer().values()) == pytest.approx(made.seconds)
    assert sum(made.by_level().values()) == pytest.approx(made.seconds)


@settings(max_examples=15, deadline=None)
@given(
    faster=st.floats(1.0, 8.0), sequences=st.integers(1, 512), context=st.integers(1, 30000),
    chunk=st.integers(0, 4096), tensor=st.sampled_from([1, 2, 4, 8]), sparse=st.booleans(),
)  # fmt: skip
def test_more_bandwidth_is_never_slower_and_no_floor_is_crossed(
    faster, sequences, context, chunk, tensor, sparse
) -> None:
    model = SPARSE if sparse else LLAMA
    tensor = min(tensor, 4) if sparse else tensor
    batch = Batch(1.0, float(chunk), 0.0, float(sequences), float(context))
    plain = step(model, layout=Layout(tensor=tensor)).time(batch)
    wide = step(model, layout=Layout(tensor=tensor), what_if={"bandwidth": faster}).time(batch)
    assert wide.seconds[0] <= plain.seconds[0] * (1 + 1e-9)
    assert plain.floor_s[0] <= plain.low[0] <= plain.seconds[0] <= plain.high[0]


@settings(max_examples=15, deadline=None)
@given(sequences=st.integers(1, 256), context=st.integers(1, 8192), more=st.integers(1, 64))
def test_more_work_takes_no_less(sequences, context, more) -> None:
    context = float(context)
    batch = Batch(decode_sequences=float(sequences), decode_context=np.array([context, context * (1 + more / 64)]))
    parts = step().time(batch).parts
    attended = next(part for part in parts if part.name == "attend (one token each)").seconds
    assert attended[1] >= attended[0] * 0.97  # splits of keys come in whole numbers


def test_kinds_of_memory_add_up() -> None:
    memory = step(layout=Layout(tensor=2)).memory(tokens=10000.0)
    kinds = memory.weights + memory.cache + memory.states + memory.activations + memory.workspace
    assert memory.total == kinds
    assert memory.weights == pytest.approx(LLAMA.parameters, rel=1e-3)  # 2 bytes each, over 2 ranks
    # 32 layers x (4 + 4 heads of k and v on a rank) x 128 x 2 bytes
    assert memory.cache == 10000 * 32 * 8 * 128 * 2


@pytest.mark.parametrize(
    ("how", "words"),
    [
        (
            {"layout": Layout(tensor=3)},
            "llama-8b: 32 heads over 3 tensor-parallel ranks: 32 is not divisible by 3",
        ),
        ({"layout": Layout(tensor=2, experts=2)}, "llama-8b has no experts: 2 expert-parallel ranks"),
        ({"engine": "vlm"}, "unknown engine 'vlm'; did you mean vllm"),
        ({"precision": "fp9"}, "unknown weight format 'fp9'"),
    ],
)
def test_what_cannot_run_is_said(how, words) -> None:
    with pytest.raises(RooflabError, match=words):
        step(**how)


def test_a_batch_below_nothing_is_refused() -> None:
    with pytest.raises(RooflabError, match="decode_sequences"):
        step().time(Batch(decode_sequences=-1.0, decode_context=5.0))


def test_experts_met_and_the_busiest_rank() -> None:
    feed = Experts(64, 4, 1024)
    # One token meets 4 experts; ever more tokens meet all 64
    rows, met = load(feed, 1, np.array([1.0, 16.0, 1e4]))
    assert np.asarray(rows).tolist() == [4.0, 64.0, 4e4]
    # 64 x (1 - (1 - 4/64)^t): 4, 41.2, 64
    assert met == pytest.approx([4.0, 64 * (1 - 0.9375**16), 64.0])
    # Without a token no expert has a row, however many ranks share them
    assert [float(each[0]) for each in load(feed, 8, np.array([0.0]))] == [0.0, 0.0]
    busiest, here = load(feed, 8, np.array([1000.0]))
    # 4000 rows over 8 ranks, and sqrt(2 ln 8 x 500) more on the busiest
    assert np.asarray(busiest)[0] == pytest.approx(500 + (2 * np.log(8) * 500) ** 0.5)
    assert np.asarray(here)[0] == pytest.approx(8.0)


@pytest.mark.parametrize("name", names())
def test_a_step_without_tokens_runs_no_kernel(name: str) -> None:
    tokens = np.array([0.0, 1.0])
    with np.errstate(all="raise"):
        made = step(SPARSE, engine=engine(name)).time(Batch(decode_sequences=tokens, decode_context=512.0))
    assert {float(part.seconds[0]) for part in made.parts} == {0.0}
    assert sum(float(part.seconds[1]) for part in made.parts) > 0.0


def test_adding_up_reads_the_rows_of_experts_here_alone() -> None:
    # 4 tokens, 6 rows here of 512 numbers, 2 bytes each; nobody knows of the other ranks' rows.
    routed = Routed(np.array([4.0, 0.0]), np.array([6.0, 0.0]), 4.0, 6.0, 64.0, 512.0, 256.0, 4.0)
    added = expert_kernels(engine("tensorrt-llm"), weight_format("bf16"), routed, 1.0, gated=True)[-1]
    assert (added.name, list(added.read_bytes)) == ("add up", [6 * 512 * 2, 0])


def test_heads_that_read_their_keys_alone_take_longer() -> None:
    batch = Batch(decode_sequences=64.0, decode_context=4096.0)
    assert step(engine="vllm-v0").time(batch).kernel_s[0] > 1.2 * step(engine="vllm").time(batch).kernel_s[0]


@pytest.mark.parametrize("name", ["deepseek-v3", "qwen3.5-397b-a17b", "nemotron-h-8b", "mamba-2.8b", "gemma-3-4b"])
def test_every_sort_of_layer_is_timed(name: str) -> None:
    model = models.named(name)
    made = StepModel(model, rooflab.machine("h200"), engine="sglang").time(Batch(1.0, 512.0, 0.0, 8.0, 1000.0))
    assert 0 < made.floor_s[0] < made.seconds[0] < 10
    # What it must read at least: the weights that 520 tokens meet
    assert made.floor_s[0] > 0.8 * 2 * min(model.active_parameters, model.parameters) / 4.8e12


def test_a_model_that_does_not_fit_says_by_how_much() -> None:
    model = step(models.named("llama-3.1-70b"))
    with pytest.raises(
        RooflabError, match=r"as 1 device: 1\d\d GiB a device .* too much; --precision fp8, more devices"
    ):
        check_fits(model.model, model.machine, model.layout, model.memory(1000.0), model.precision)


def test_ranks_without_a_link_are_refused() -> None:
    machine = msgspec.structs.replace(rooflab.machine("h100-sxm"), links=())
    with pytest.raises(RooflabError, match="link"):
        StepModel(LLAMA, machine, layout=Layout(tensor=2))


@pytest.mark.parametrize("name", names())
def test_each_number_of_an_engine_has_a_meaning_and_a_source(name: str) -> None:
    for constant in load_engine(name).constants.values():
        assert constant.meaning
        assert constant.source.ref
        assert constant.source.kind != "measured" or constant.fitted


def test_a_layout_that_does_not_divide_is_refused() -> None:
    with pytest.raises(RooflabError, match=r"3 expert ways over 8 ranks of a stage"):
        Layout(tensor=8, experts=3)
    with pytest.raises(RooflabError, match="sparse: 128 expert-parallel ranks for 64 experts: at most 64"):
        step(SPARSE, layout=Layout(tensor=16, data=8, experts=128))


@pytest.mark.parametrize("machine", ["m4-max-40-core", "gb10", "core-i9-14900k", "mi300x", "tpu-v5e"])
def test_machines_whose_kernels_nobody_measured_have_a_roofline_and_wide_bars(machine: str) -> None:
    model = StepModel(LLAMA, rooflab.machine(machine), engine="llama.cpp", precision="q4_0")
    made = model.time(Batch(decode_sequences=1.0, decode_context=512.0))
    # 4.5 bits of 7.5e9 weights and the head of 0.5e9, at the memory's theoretical rate
    least = 8.03e9 * 0.93 * 4.5 / 8 / float(np.max(model.device.memory_bytes_per_s))
    assert least < made.seconds[0] < 4 * least + 5e-3
    assert made.high[0] / made.low[0] > 1.2


def test_memory_is_what_the_driver_reports_and_the_engine_takes():
    """81,079 MiB of an H100, of which vLLM takes 0.92; 24,576 MiB of a 3090, of which llama.cpp takes all."""
    h100 = StepModel(LLAMA, rooflab.machine("h100-sxm"), engine="vllm").memory()
    assert h100.has == pytest.approx(85017493504 * 0.92)
    assert h100.workspace == 2e9
    rtx = StepModel(LLAMA, rooflab.machine("rtx-3090"), engine="llama-cpp", step_tokens=2048).memory()
    assert rtx.has == 24576 * 2**20
    assert rtx.activations == pytest.approx(h100.activations / 4)


@pytest.mark.parametrize(
    ("engine", "device", "tokens", "sequences"),
    [
        ("vllm", "h100-sxm", 8192, 1024),
        ("vllm", "a100-sxm-80gb", 2048, 256),  # arg_utils: not on an A100, whatever its memory
        ("vllm", "l40s", 2048, 256),
        ("sglang", "l40s", 4096, 2048),
        ("sglang", "a100-sxm-40gb", 4096, 2048),
        ("sglang", "h100-sxm", 8192, 2048),
        ("sglang", "mi300x", 16384, 2048),
    ],
)
def test_schedulers_take_the_defaults_of_the_device(engine, device, tokens, sequences):
    rules = rules_of(engine, rooflab.machine(device), Wanted())
    assert (rules.token_budget, rules.most_sequences) == (tokens, sequences)


@pytest.mark.parametrize("engine", names())
def test_every_engine_has_a_scheduler(engine):
    assert rules_of(engine, rooflab.machine("h100-sxm"), Wanted()).token_budget > 0


def test_a_step_that_verifies_drafts_multiplies_all_of_them_and_makes_new_ones():
    batch = Batch(decode_sequences=8.0, decode_context=512.0)
    plain, drafts = step(), step(speculation=Speculation(drafts=3, accepted=2.3))

    def flop(model):
        return sum(float(np.sum(each.flop * each.count)) for each in model.kernels(batch) if each.sort == "matmul")

    # Four tokens of each sequence through 32 layers and the head, three drafts through one layer and the head.
    head = 4096 * 128256
    layers = flop(plain) - 2 * 8 * head
    assert flop(drafts) == pytest.approx(4 * flop(plain) + 3 * (layers / 32 + 2 * 8 * head))
    # Weights pass once for all of them: far less than four times as long.
    assert plain.time(batch).seconds[0] < drafts.time(batch).seconds[0] < 2 * plain.time(batch).seconds[0]


def test_tokens_that_are_sent_together_take_the_host_less():
    batch = Batch(decode_sequences=100.0, decode_context=512.0)
    alone, ten = (step(engine="tensorrt-llm", stream_interval=each).time(batch) for each in (1.0, 10.0))
    # 35 us for each of 100 tokens, or for each tenth
    assert alone.host_s - ten.host_s == pytest.approx(100 * 35e-6 * 0.9)


def test_sorting_tokens_for_triton_kernels_takes_many_small_ones():
    batch = Batch(decode_sequences=4.0, decode_context=512.0)
    kernels = step(SPARSE, engine="vllm", precision="mxfp4").kernels(batch)
    assert [each.count for each in kernels if each.name == "count and place"] == [8 * 30]
    assert not any(each.name == "count and place" for each in step(SPARSE, engine="vllm").kernels(batch))


def test_the_last_projection_of_attention_may_have_a_format_of_its_own() -> None:
    """61 x 7168 x 16384 numbers: 2 B each, or half a byte and a scale of one for 16 of them."""
    bf16, nvfp4 = precision("bf16"), weight_format("nvfp4")
    model, batch = models.named("deepseek-v3"), Batch(decode_sequences=1.0, decode_context=64.0)
    made = []
    for form in (bf16, dataclasses.replace(bf16, result=nvfp4)):
        of = StepModel(model, rooflab.machine("b200"), engine="sglang", precision=form)
        made.append(
            (
                sum(
                    float(np.max(k.weight_bytes * k.count))
                    for k in of.kernels(batch)
                    if k.name == "project the result"
                ),
                float(np.max(of.memory(0.0, 0.0).weights)),
            )
        )
    (read, held), (narrow, less) = made
    count = 61 * 7168 * 16384
    assert (read, narrow) == (pytest.approx(2 * count), pytest.approx(count * (0.5 + 1 / 16)))
    assert held - less == pytest.approx(read - narrow)


def test_a_layer_of_drafts_may_have_a_format_of_its_own() -> None:
    plain = precision("nvfp4", cache="fp8")
    wide = dataclasses.replace(plain, draft=weight_format("bf16"))
    batch, how = Batch(decode_sequences=8.0, decode_context=512.0), {"speculation": Speculation(1, 1.8)}
    of = [
        StepModel(models.named("deepseek-v3"), rooflab.machine("b200"), engine="trtllm", precision=each, **how)
        for each in (plain, wide)
    ]
    assert of[1].time(batch).seconds > of[0].time(batch).seconds
    assert [k.name for k in of[1].kernels(batch)][:5] == [k.name for k in of[0].kernels(batch)][:5]
    assert wide.drafting.experts.name == "bf16"
    assert plain.drafting is plain


def test_a_step_with_a_prompt_is_launched_kernel_by_kernel() -> None:
    """Its host needs 1 ms a kernel, the device microseconds: of a step that decodes nothing of it is left."""
    engine = dataclasses.replace(load_engine("tensorrt-llm"), launch_s=1e-3)
    step = StepModel(models.named("llama-3.1-8b"), rooflab.machine("h100-sxm"), engine=engine)
    decode = step.time(Batch(decode_sequences=1.0, decode_context=100.0))
    prompt = step.time(Batch(prefill_sequences=1.0, prefill_tokens=100.0))
    assert decode.seconds[0] < 0.02 < 32 * 5 * 1e-3 < prompt.seconds[0]
    replayed = dataclasses.replace(engine, graphs_prompts=True)
    step = StepModel(models.named("llama-3.1-8b"), rooflab.machine("h100-sxm"), engine=replayed)
    assert step.time(Batch(prefill_sequences=1.0, prefill_tokens=100.0)).seconds[0] < 0.02


def test_a_cache_that_takes_a_share_of_what_weights_leave_is_larger() -> None:
    engine = load_engine("tensorrt-llm")
    assert engine.memory_of_rest
    assert engine.memory_share == 0.9
    llama, h100 = models.named("llama-3.1-8b"), rooflab.machine("h100-sxm")
    memory = StepModel(llama, h100, engine=engine).memory()
    has = h100.level("memory").reported_capacity_bytes or 0.0
    taken = memory.weights + memory.activations + memory.workspace
    assert memory.has == pytest.approx(taken + 0.9 * (has - taken))
    whole = StepModel(llama, h100, engine=dataclasses.replace(engine, memory_of_rest=False)).memory()
    assert whole.has == pytest.approx(0.9 * has)


def test_an_engine_decodes_head_by_head_where_a_group_is_larger_than_its_kernel_takes() -> None:
    ours = engine("tensorrt-llm")
    assert ours.shares(32.0)
    assert not ours.shares(64.0)
    assert engine("vllm").shares(64.0)
    assert ours.attention_kernel("hopper", decodes=True, shares=False) == "masked_decode"
    assert ours.attention_kernel("hopper", decodes=False) == "trtllm_prompts"
    assert ours.attention_kernel("cdna", decodes=True) == ""


def test_latent_vectors_are_decoded_by_the_kernels_of_the_engine_where_they_are_known() -> None:
    sglang, trtllm, vllm = engine("sglang"), engine("tensorrt-llm"), engine("vllm")
    assert [each.latent_kernel("hopper", decodes=True) for each in (sglang, trtllm, vllm)] == [
        "fa_latent_decode",
        "trtllm_latent_decode",
        "trtllm_latent_decode",
    ]
    assert sglang.latent_kernel("hopper", decodes=False) == ""  # its FlashAttention expands no keys there
    assert trtllm.latent_kernel("hopper", decodes=False) == "trtllm_latent_prompts"
    assert trtllm.latent_kernel("blackwell", decodes=True) == ""


def test_an_8_bit_latent_cache_is_multiplied_as_it_is_on_blackwell_alone() -> None:
    sglang, trtllm = engine("sglang"), engine("tensorrt-llm")
    assert sglang.latent_format("blackwell", 1.0) == trtllm.latent_format("blackwell", 1.0) == "fp8"
    assert trtllm.latent_format("blackwell", 2.0) == trtllm.latent_format("hopper", 1.0) == "bf16"
    assert engine("transformers").latent_format("blackwell", 1.0) == "bf16"
    assert sglang.latent_format("blackwell", 1.0, chooses=True) == "bf16"
    assert trtllm.latent_format("blackwell", 1.0, chooses=True) == "fp8"


def test_triton_s_products_know_nothing_of_rows_that_are_no_multiple_of_16_elements() -> None:
    # 232 numbers of an expert's share: 464 bytes, which are a multiple of 16, but Triton looks at elements.
    def aligned(library: str, inner: float) -> list[float]:
        routed = Routed(8.0, 16.0, 8.0, 2.0, 64.0, 2688.0, inner, 1.0, library=library)
        made = expert_kernels(engine("vllm"), weight_format("bf16"), routed, 1.0, gated=True)
        return [float(each.columns["aligned_bytes"]) for each in made if each.sort == "matmul"]

    assert aligned("triton_default_groups", 232.0) == [16.0, 2.0]
    assert aligned("triton_default_groups", 256.0) == [16.0, 16.0]
    assert aligned("cutlass_groups", 232.0) == [16.0, 16.0]


def test_ranks_add_up_squares_of_q_and_k_where_all_heads_are_normalised_as_one() -> None:
    """MiniMax-M2: two fp32 numbers of a token in each of 62 layers; head by head (Qwen3) nothing is added up."""
    batch = Batch(0, 0, 0, 32, 1000)

    def named(model: str, ways: int) -> list:
        made = StepModel(models.model(model), rooflab.machine("h200"), layout=Layout(tensor=ways)).kernels(batch)
        return [each for each in made if each.name == "sum squares of q and k"]

    (found,) = named("minimax-m2.5", 4)
    assert found.count == 62
    assert float(np.ravel(found.columns["message_bytes"])[0]) == 32 * 8.0
    assert named("minimax-m2.5", 1) == []
    assert named("qwen3-32b", 4) == []
