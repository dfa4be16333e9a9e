"""llama.cpp's graph: its kernels counted by hand, their time against a plain sum."""

from __future__ import annotations

import dataclasses
import math

import msgspec
import numpy as np
import pytest

import rooflab
from rooflab.model.engines.engine import engine
from rooflab.model.serving import feed_forward, ggml, ggml_cores, ggml_products
from rooflab.model.serving.batch import Batch
from rooflab.model.serving.kernels import Kernel
from rooflab.model.serving.step import StepModel
from rooflab.types.machine import is_x86
from rooflab.work.llm.architecture import Architecture, Block, Experts, Mlp
from rooflab.work.llm.mixers import Attention
from rooflab.work.llm.precision import precision as precision_of

LLAMA = Architecture("llama-7b", 4096, 32000, (Block(32, Attention(32, 32, 128, 128), Mlp(11008)),))
SPARSE = Architecture("sparse", 2048, 32000, (Block(8, Attention(16, 4, 128, 128), Experts(64, 4, 1024)),))
TOKEN = Batch(decode_sequences=1.0, decode_context=64.0)
PROMPT = Batch(prefill_sequences=1.0, prefill_tokens=512.0)


def step(model: Architecture = LLAMA, machine: str = "rtx-4090", precision: str = "q4_0", **changes) -> StepModel:
    how = dataclasses.replace(engine("llama.cpp"), **changes)
    return StepModel(model, rooflab.machine(machine), engine=how, precision=precision)


def working(model: StepModel, batch: Batch) -> list[Kernel]:
    """The kernels that this batch gives anything to do."""
    return [k for k in model.kernels(batch) if float(np.max(np.asarray(k.read_bytes))) > 0]


def starts(model: StepModel, batch: Batch) -> float:
    """Kernels of a step."""
    made = [k for k in working(model, batch) if k.sort == "ggml"]
    return float(sum(np.max(np.asarray(k.count * k.columns["starts"])) for k in made))


def test_a_token_takes_the_kernels_that_its_graph_has() -> None:
    # A layer: q, k, v, the result and down each with blocks of their input (5 x 2), gate and up together with
    # theirs (2), positions of q and k (2), values into the cache (1), attention and its join (2), two norms and
    # sums (2 x 2).
    layer = 10 + 2 + 2 + 1 + 2 + 4
    # At the end: a sum and a norm, blocks and the head.
    assert starts(step(), TOKEN) == 32 * layer + 2 + 2
    # Operations by themselves: gate and up apart (2 more), the activation (1), keys into the cache (1).
    assert starts(step(joins_operations=False), TOKEN) == 32 * (layer + 4) + 4


def test_a_layer_that_borrows_keys_makes_none_and_writes_none() -> None:
    borrowing = dataclasses.replace(LLAMA, blocks=(
        Block(1, Attention(32, 32, 128, 128), Mlp(11008)),
        Block(31, Attention(32, 32, 128, 128, borrows=True), Mlp(11008)),
    ))  # fmt: skip
    # Of 19 + 2 starts of a layer: k and v with blocks of their input (4), positions of k (1), the cache (1) fewer.
    assert starts(step(), TOKEN) - starts(step(borrowing), TOKEN) == 31 * 6
    for batch in (TOKEN, PROMPT):
        names = {(k.name, k.count) for k in step(borrowing).kernels(batch)}
        assert {count for name, count in names if name in ("write the cache", "positions of k")} == {1}


def test_weights_are_read_once_a_step() -> None:
    for batch in (TOKEN, PROMPT):
        read = sum(float(np.max(np.asarray(k.weight_bytes * k.count))) for k in working(step(), batch))
        # All but the table of tokens and norms, in 4.5 bits.
        assert read == (LLAMA.parameters - 32000 * 4096 - 65 * 4096) * 4.5 / 8


def test_products_of_a_prompt_are_two_flop_a_weight_and_token() -> None:
    made = [k for k in working(step(), PROMPT) if float(np.max(np.asarray(k.weight_bytes))) > 0]
    flop = sum(float(np.max(np.asarray(k.flop * k.count))) for k in made)
    layers = LLAMA.parameters - 2 * 32000 * 4096 - 65 * 4096
    assert flop == 2.0 * (512 * layers + 32000 * 4096)  # the head sees one token


def test_few_rows_stream_the_weights_and_more_go_to_the_matrix_engine() -> None:
    model = step()
    for sequences, scaled in ((8.0, False), (9.0, True)):
        made = working(model, Batch(decode_sequences=sequences, decode_context=64.0))
        down = [k for k in made if k.name == "down" and float(np.max(np.asarray(k.weight_bytes))) > 0]
        assert [bool(np.max(np.asarray(k.columns["scalings"])) > 0) for k in down] == [scaled]


def test_a_block_product_takes_the_matrix_engine_and_the_lanes_in_turn() -> None:
    model = step()
    part = next(p for p in model.time(PROMPT).parts if p.name == "down" and p.compute_s[0] > 0)
    # 2 x 512 x 4096 x 11008 operations at 660.6 T/s; a scaling for each 32 of them, 4 lane-cycles at 41.3 T/s.
    products = 512 * 4096 * 11008
    by_hand = (2 * products / 660.6e12 + 4 * products / 32 / 41.2875e12) / 0.76
    assert part.compute_s[0] / 32 == pytest.approx(by_hand, rel=1e-3)


def test_a_block_product_waits_for_its_weights_and_multiplies_in_turn() -> None:
    part = next(p for p in step().time(PROMPT).parts if p.name == "down" and p.compute_s[0] > 0)
    waits = 2 * 32 * 4160 / 2.52e9  # two starts in each of 32 layers
    assert part.seconds[0] == pytest.approx(part.compute_s[0] + part.memory_s[0] + waits, rel=1e-3)


def by_tiles(rows: list[int], tokens: int, largest: int) -> int:
    """Rows that are computed for experts with so many rows each, one tile after another."""
    tall = min(8 * math.ceil(math.ceil(tokens / math.ceil(tokens / largest)) / 8), largest)
    return sum(tall * math.ceil(each / tall) for each in rows)


def test_products_of_experts_are_computed_in_whole_tiles() -> None:
    rng = np.random.default_rng(1)
    for tokens, experts, chosen in ((512, 64, 4), (2048, 32, 4), (100, 64, 8), (4096, 8, 2)):
        mean = tokens * chosen / experts
        rows = np.ceil(rng.exponential(mean, size=4000)).astype(int)  # each expert has some
        plain = by_tiles(rows.tolist(), tokens, 128) / 4000
        ours = ggml_products._whole_tiles(np.asarray(mean * experts), experts, chosen, 128.0) / experts
        assert ours == pytest.approx(plain, rel=0.06)


def test_rows_of_a_dense_product_are_padded_to_eight() -> None:
    for rows, padded in ((9, 16), (128, 128), (129, 144), (300, 312), (2048, 2048)):
        assert ggml_products._whole_tiles(np.asarray(float(rows)), 1.0, 1.0, 128.0) == padded


def test_a_layer_with_a_window_is_walked_by_micro_batches() -> None:
    # The cache holds 128 keys before a micro-batch of 512, half of whose keys a query sees in the mean.
    assert ggml._kept_keys(128, np.asarray(2048.0)) == 128 + 256
    assert ggml._kept_keys(128, np.asarray(100.0)) == 128 + 50
    assert ggml._kept_keys(0, np.asarray(2048.0)) == 0


def test_the_host_writes_masks_and_used_to_sort_tokens() -> None:
    def host_s(model: Architecture, batch: Batch, **changes) -> float:
        return float(np.max(step(model, **changes).time(batch).host_s))

    new = host_s(SPARSE, PROMPT, mask_s=0.0, sorting_s=0.0)
    assert host_s(SPARSE, PROMPT, mask_s=1e-9, sorting_s=0.0) - new == pytest.approx(512 * 512 * 1e-9)
    # 8 layers of three products each, 64 experts, 4 choices of each token.
    sorting = 8 * 3 * 64 * 512 * 4 * 1e-9
    assert host_s(SPARSE, PROMPT, mask_s=0.0, sorting_s=1e-9) - new == pytest.approx(sorting)
    assert host_s(SPARSE, TOKEN, mask_s=0.0, sorting_s=1e-9) == host_s(SPARSE, TOKEN, mask_s=0.0, sorting_s=0.0)
    assert host_s(LLAMA, PROMPT, mask_s=0.0, sorting_s=1e-9) == host_s(LLAMA, PROMPT, mask_s=0.0, sorting_s=0.0)


def test_one_token_meets_as_many_experts_as_it_chooses() -> None:
    # However alike others choose: the first has nobody to choose as.
    alike = dataclasses.replace(SPARSE.blocks[0].feed, repeated=0.5)
    for tokens, most, least in ((1.0, 4.0, 4.0), (2.0, 8.0, 4.0), (100.0, 64.0, 4.0)):
        met = float(feed_forward.load(alike, 1, np.asarray(tokens))[1])
        assert least - 1e-9 <= met <= most
    assert float(feed_forward.load(alike, 1, np.asarray(1.0))[1]) == pytest.approx(4.0)


def test_on_metal_few_tokens_stream_the_weights_of_each_row() -> None:
    for tokens, rows in ((8.0, 32.0), (31.0, 124.0)):
        made = working(step(SPARSE, "m2-max-38-core"), Batch(decode_sequences=tokens, decode_context=64.0))
        down = [k for k in made if k.layer == "experts" and k.name == "down"]
        read = sum(float(np.max(np.asarray(k.weight_bytes))) for k in down)
        assert read == pytest.approx(rows * 2048 * 1024 * 4.5 / 8)


def test_formats_with_more_scales_take_longer() -> None:
    seconds = [step(precision=name).time(PROMPT).seconds[0] for name in ("q4_0", "q4_k", "q6_k")]
    assert seconds == sorted(seconds)
    assert len(set(seconds)) == 3


def test_without_flash_attention_prompts_take_longer_by_their_scores() -> None:
    fused, apart = (step(flash_attention=each).time(PROMPT).seconds[0] for each in (True, False))
    # 32 heads x 512 x 512 scores of 24 bytes in each of 32 layers at most 1 TB/s, some of them in the cache.
    assert 0 < apart - fused < 32 * 32 * 512 * 512 * 24 / 0.5e12


@pytest.mark.parametrize("machine", ["rtx-3090", "m2-max-38-core", "gb10", "epyc-9654", "mi300x"])
@pytest.mark.parametrize("model", [LLAMA, SPARSE])
def test_it_runs_wherever_llama_cpp_does(machine: str, model: Architecture) -> None:
    for batch in (TOKEN, PROMPT):
        made = step(model, machine).time(batch)
        assert made.floor_s[0] <= made.low[0] < made.seconds[0] < made.high[0]


def test_experts_that_nobody_chose_are_not_read() -> None:
    made = working(step(SPARSE), TOKEN)
    read = sum(float(np.max(np.asarray(k.weight_bytes * k.count))) for k in made if k.layer == "experts")
    router = 8 * 64 * 2048 * step(SPARSE).precision.embedding.nbytes
    assert read - router == pytest.approx(8 * 4 * 3 * 2048 * 1024 * 4.5 / 8, rel=1e-6)


def test_many_settings_are_the_same_as_each_alone() -> None:
    counts = np.array([1.0, 2.0, 8.0, 9.0, 300.0])
    for model in (step(), step(SPARSE), step(SPARSE, joins_operations=False)):
        together = model.time(Batch(decode_sequences=counts, decode_context=100.0)).seconds
        alone = [model.time(Batch(decode_sequences=n, decode_context=100.0)).seconds[0] for n in counts]
        assert together == pytest.approx(alone, rel=1e-12)


def test_a_core_takes_its_clocks_for_each_block() -> None:
    model = step(machine="epyc-9654", precision="q6_k")
    part = next(p for p in model.time(PROMPT).parts if p.name == "down" and p.compute_s[0] > 0)
    # 1.32 clocks for 32 weights and a row, a 512th of what one row by itself takes more; 96 cores at 2.4 GHz.
    blocks = 512 * 4096 * 11008 / 32
    clocks = 1.32 + (3.22 - 1.32) / 512
    assert part.compute_s[0] / 32 == pytest.approx(blocks * clocks / (96 * 2.4e9), rel=1e-3)


def test_a_core_of_arm_takes_its_instructions() -> None:
    model = step(machine="m2-max-cpu", precision="q8_0")
    part = next(p for p in model.time(TOKEN).parts if p.name == "down" and p.compute_s[0] > 0)
    # 7 instructions of 16 bytes for 32 weights, four pipes in each of 8 cores at 3.49 GHz, 0.75 of them.
    assert part.compute_s[0] / 32 == pytest.approx(4096 * 11008 / 32 * 7 / (8 * 4 * 3.49e9 * 0.75), rel=1e-3)


def test_rows_that_share_a_block_keep_the_pipes_of_arm_busier() -> None:
    model = step(machine="m2-max-cpu", precision="q4_0", widens_once=True)
    part = next(p for p in model.time(PROMPT).parts if p.name == "down" and p.compute_s[0] > 0)
    # 6.8 instructions for a row alone, which 8 rows share, and 3.3 for each of them, but for that one: 0.75 and
    # 0.95 of four pipes in each of 8 cores.
    slots = (6.8 / 8) / 0.75 + (3.3 - 3.3 / 8) / 0.95
    assert part.compute_s[0] / 32 == pytest.approx(512 * 4096 * 11008 / 32 * slots / (8 * 4 * 3.49e9), rel=1e-3)


def test_products_of_narrow_numbers_have_no_floor_at_the_rate_of_fp32() -> None:
    """A Raspberry Pi 5 states fp32 alone, 153.6 GFLOP/s; its cores' products of bytes are four times as quick."""
    pi, prompt = step(machine="raspberry-pi-5", precision="q4_0"), Batch(prefill_sequences=1, prefill_tokens=100)
    made = pi.time(prompt)
    assert made.floor_s[0] < made.seconds[0] < 2 * 6.5e9 * 100 / 153.6e9


def test_so_many_threads_are_so_many_cores() -> None:
    def down(threads: int) -> float:
        how = {"engine": "llama-cpp", "precision": "q8_0", "threads": threads}
        parts = StepModel(LLAMA, rooflab.machine("m2-max-cpu"), **how).time(PROMPT).parts
        return next(p.compute_s[0] for p in parts if p.name == "down" and p.compute_s[0] > 0)

    assert down(2) == pytest.approx(4 * down(8))


def test_blocks_that_are_widened_for_several_rows_at_once_take_less() -> None:
    def seconds(once: bool, precision: str) -> float:
        return step(machine="epyc-7763", precision=precision, widens_once=once).time(PROMPT).seconds[0]

    for precision in ("q6_k", "iq3_s", "q4_0"):
        assert seconds(True, precision) <= seconds(False, precision)
    assert seconds(True, "iq3_s") < 0.5 * seconds(False, "iq3_s")


def test_several_cards_have_some_of_the_layers_each() -> None:
    asked = {"precision": "q4_k_m", "concurrency": 1, "isl": 512, "osl": 512}
    found = rooflab.serve("llama-3.1-70b", "pc-2x-rtx-3090", engine="llama-cpp", **asked)
    assert (found.deployment.tensor, found.deployment.pipeline) == (1, 2)
    # 16.57 tokens a second: XiongjieDai/GPU-Benchmarks-on-LLM-Inference, May 2024, which set no constant of cards.
    assert found.output_tokens_per_s_per_user == pytest.approx(16.57, rel=0.15)
    other = rooflab.serve("llama-3.1-70b", "pc-2x-rtx-3090", engine="vllm", **asked | {"precision": "int4_wo"})
    assert (other.deployment.tensor, other.deployment.pipeline) == (2, 1)


@pytest.mark.parametrize(
    ("vendor", "name", "x86"),
    [
        ("AuthenticAMD", "AMD EPYC", True), ("GenuineIntel", "Xeon", True), ("AMD", "x", True),
        (None, "12th Gen Intel(R) Core(TM) i7-12700", True), (None, "Ryzen 7 9700X", True),
        ("ARM", "Neoverse-V2", False), ("Apple", "M2 Max", False), (None, "Snapdragon X Elite", False),
    ],
)  # fmt: skip
def test_a_cpu_is_x86_by_whatever_word_its_file_has(vendor: str | None, name: str, x86: bool) -> None:
    machine = msgspec.structs.replace(rooflab.machine("epyc-9654"), vendor=vendor, name=name)
    assert is_x86(machine) == x86
    measured = msgspec.structs.replace(machine, environment={"architecture": "x86_64"})
    assert is_x86(measured)


def test_a_measured_cpu_is_answered_as_the_same_one_of_the_catalogue() -> None:
    catalogue = rooflab.machine("epyc-9654")
    measured = msgspec.structs.replace(catalogue, vendor="AuthenticAMD")
    how = {"engine": engine("llama.cpp"), "precision": "q4_0"}
    both = [StepModel(LLAMA, each, **how).time(PROMPT).seconds[0] for each in (catalogue, measured)]
    assert both[0] == both[1]


def test_cores_with_products_of_bytes_take_fewer_clocks_for_prompts() -> None:
    def clocks(machine: str) -> float:
        parts = step(machine=machine, precision="q6_k").time(PROMPT).parts
        seconds = next(p.compute_s[0] for p in parts if p.name == "down" and p.compute_s[0] > 0)
        device = rooflab.machine(machine)
        peak = next(rate for rate in device.peaks if rate.dtype == "fp32" and rate.what == "fma")
        return seconds * peak.value / peak.per_unit_per_clock

    assert clocks("epyc-7763") == pytest.approx(2.25 / 1.32 * clocks("epyc-9654"), rel=0.02)


def test_experts_laid_out_anew_are_met_row_by_row() -> None:
    def ratio(precision: str) -> float:
        """Time of a prompt's experts over that of as many products of one row."""
        model = step(SPARSE, "epyc-9654", precision)
        down = {
            name: next(p.compute_s[0] for p in model.time(batch).parts if p.name == "down" and p.compute_s[0] > 0)
            for name, batch in (("prompt", PROMPT), ("token", TOKEN))
        }
        return down["prompt"] / down["token"] / 512

    assert ratio("q4_k") == pytest.approx(1.0)
    assert ratio("q6_k") < 0.6


def test_tiles_of_a_few_rows_are_made_whole() -> None:
    def clocks(rows: float) -> float:
        how = {"widens_once": True, "experts_by_row": False}
        found = ggml_cores.taken(rows, 32.0, 256.0, precision_of("q6_k").linear, 1.0, **how)["wide_clocks"]
        return float(found) / (32.0 * 256.0 / 32.0)

    # Below 8 rows each by itself at 3.22; then tiles of 16 rows at 1.32, and what unpacking takes more once.
    assert clocks(7) == pytest.approx(7 * 3.22)
    assert clocks(8) == pytest.approx(clocks(16)) == pytest.approx(16 * 1.32 + 3.22 - 1.32)
    assert clocks(17) == pytest.approx(32 * 1.32 + 3.22 - 1.32)


def test_rows_that_lie_together_take_fewer_instructions_that_do_not_wait() -> None:
    def arm(rows: float, together: bool, word: str = "q3_k") -> tuple[float, float]:
        """Instructions of 32 weights: of sums that wait for each other, and of others."""
        how = {"widens_once": True, "experts_by_row": False, "together": together}
        found = ggml_cores.taken(rows, 32.0, 256.0, precision_of(word).linear, 1.0, **how)
        blocks = 32.0 * 256.0 / 32.0
        return float(found["arm_instructions"]) / blocks, float(found["arm_of_many"]) / blocks

    assert arm(1, together=False) == pytest.approx((18.0, 0.0))
    assert arm(1, together=True) == pytest.approx((0.0, 13.5))
    assert arm(64, together=True)[1] == pytest.approx(64 * (4.0 + 9.5 / 8.0))
    assert arm(1, together=True, word="q8_0") == arm(1, together=False, word="q8_0")
