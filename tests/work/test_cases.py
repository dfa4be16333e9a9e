"""Reported miscounts and published numbers that a formula alone answers, each with its derivation."""

from __future__ import annotations

import math

import pytest

from rooflab.dtypes import dtype as number_format
from rooflab.types.work import TensorSpec
from rooflab.work.formulas import cost


def spec(text):
    """A tensor from "fp32 2x3": the number format and the shape (none: a scalar)."""
    dtype, _, sizes = text.partition(" ")
    shape = tuple(map(int, sizes.split("x"))) if sizes else ()
    return TensorSpec(shape, dtype, math.prod(shape) * number_format(dtype).nbytes)


def operation(text):
    """(kind, inputs, outputs) of "kind: 2 * fp32 4x4, int8 4 -> fp32 4x4"."""

    def tensors(side):
        for item in side.split(", "):
            count, _, one = item.rpartition(" * ")
            yield from [one] * int(count or 1)

    kind, _, rest = text.partition(": ")
    return kind, *(list(tensors(side)) for side in rest.split(" -> "))


def costed(kind, inputs, outputs, **attrs):
    return cost(kind, tuple(map(spec, inputs)), tuple(map(spec, outputs)), attrs)


def flop(found, *engines):
    return sum(one.count for one in found.flop if one.engine in engines)


def intensity(found):
    return found.total_flop / found.compulsory.nbytes


MEASURES = {
    "matrix": lambda found: flop(found, "matrix"),
    "flop": lambda found: found.total_flop,
    "bytes": lambda found: found.compulsory.nbytes,
    "read": lambda found: found.compulsory.read_bytes,
    "write": lambda found: found.compulsory.write_bytes,
    "intensity": intensity,
}
NVIDIA = "docs.nvidia.com/deeplearning/performance/dl-performance-gpu-background"
LSTM10 = {"cell": "lstm", "input": 10, "hidden": 20, "steps": 5, "batch": 3}
LSTM32 = {"cell": "lstm", "input": 32, "hidden": 64, "steps": 10, "batch": 4}
LSTM300 = {"cell": "lstm", "input": 300, "hidden": 512, "layers": 2, "batch": 1}

# (source, or "derived" where the derivation above it is all; what is asked; answer; operation, attributes)
CASES = [
    # 4·B·H·S²·D: two products of 64 × 64 × 64 in 12 heads
    ("github.com/pytorch/pytorch/issues/195460", "matrix", 12_582_912,
     "attention: 3 * fp32 1x12x64x64 -> fp32 1x12x64x64", {}),
    ("github.com/pytorch/pytorch/issues/195460", "matrix", 33_554_432,
     "attention: 3 * fp32 1x8x128x64 -> fp32 1x8x128x64", {}),
    # causal: 128·129/2 pairs in place of 128²
    ("github.com/pytorch/pytorch/issues/195460", "matrix", 16_908_288,
     "attention: 3 * fp32 1x8x128x64 -> fp32 1x8x128x64", {"causal": True}),
    # by the 8 query heads, not the 2 of keys and values
    ("github.com/facebookresearch/xformers/pull/1404", "matrix", 134_217_728,
     "attention: bf16 1x8x256x64, 2 * bf16 1x2x256x64 -> bf16 1x8x256x64", {}),
    # 2 bytes × (q and out of 8 heads, k and v of 2)
    ("github.com/facebookresearch/xformers/pull/1404", "bytes", 655_360,
     "attention: bf16 1x8x256x64, 2 * bf16 1x2x256x64 -> bf16 1x8x256x64", {}),
    ("github.com/pytorch/pytorch/issues/134804", "matrix", 12_960,
     "attention: 3 * bf16 2x5x9x4 -> bf16 2x5x9x4", {}),
    # transposed: 32 inputs × 1 channel × 9 taps × 2
    ("github.com/facebookresearch/fvcore/issues/78", "matrix", 576,
     "conv: fp32 1x32x1x1, fp32 32x1x3x3 -> fp32 1x1x3x3", {"transposed": True}),
    # depthwise: 64 · 32² outputs × 9 taps × 2; the gradients twice that: 3 × 1,179,648 in all = 3,538,944
    ("github.com/pytorch/pytorch/pull/183405", "flop", 3_538_944 / 3,
     "conv: fp32 1x64x32x32, fp32 64x1x3x3 -> fp32 1x64x32x32", {"groups": 64}),
    ("github.com/pytorch/pytorch/pull/183405", "flop", 3_538_944 / 3 * 2,
     "conv_backward: 2 * fp32 1x64x32x32, fp32 64x1x3x3"
     " -> fp32 1x64x32x32, fp32 64x1x3x3", {"groups": 64, "bias_grad": False}),
    # 2 · T·B·4H·(I + H)
    ("github.com/facebookresearch/fvcore/issues/98", "matrix", 72_000,
     "rnn: fp32 5x3x10, fp32 80x10 -> fp32 5x3x20", {**LSTM10}),
    ("github.com/facebookresearch/fvcore/issues/98", "matrix", 1_966_080,
     "rnn: fp32 10x4x32, fp32 256x32 -> fp32 10x4x64", {**LSTM32}),
    # two layers: 100·(4·512·(300 + 512) + 4·512·1024) multiply-adds; a tenth for a tenth of the steps
    ("github.com/TylerYep/torchinfo/issues/32", "matrix", 2 * 376_012_800,
     "rnn: fp32 1x100x300, fp32 2048x300 -> fp32 1x100x512", {**LSTM300, "steps": 100}),
    ("github.com/TylerYep/torchinfo/issues/32", "matrix", 2 * 37_601_280,
     "rnn: fp32 1x10x300, fp32 2048x300 -> fp32 1x10x512", {**LSTM300, "steps": 10}),
    # 100 rows of 300 looked up in a table of 20: no multiplication; rows, and 8 bytes per token
    ("github.com/TylerYep/torchinfo/issues/32", "flop", 0,
     "gather: fp32 20x300, int64 1x100 -> fp32 1x100x300", {}),
    ("github.com/TylerYep/torchinfo/issues/32", "read", 100 * 300 * 4 + 800,
     "gather: fp32 20x300, int64 1x100 -> fp32 1x100x300", {}),
    ("github.com/TylerYep/torchinfo/issues/32", "matrix", 2 * 1_024_000,
     "matmul: fp32 100x512, fp32 512x20 -> fp32 100x20", {"k": 512}),
    # n rows: n · 2 · 73 · 256, here 3, and 256 additions per row
    ("github.com/jax-ml/jax/issues/22249", "flop", 3 * (37_376 + 256),
     "matmul: fp32 3x73, fp32 73x256, fp32 256 -> fp32 3x256", {"k": 73, "bias": True}),
    # a step of x + y + z + w on a million: 3 additions; 4 reads and a write of 4 MB
    ("github.com/jax-ml/jax/issues/13956", "flop", 3e6,
     "pointwise: 4 * fp32 1000x1000 -> fp32 1000x1000", {"vector": 3}),
    ("github.com/jax-ml/jax/issues/13956", "bytes", 2e7,
     "pointwise: 4 * fp32 1000x1000 -> fp32 1000x1000", {"vector": 3}),
    # a − b costs what a + b does; 2 reads and a write of 24 bytes
    ("github.com/pytorch/pytorch/issues/82951", "flop", 6,
     "pointwise: 2 * fp32 2x3 -> fp32 2x3", {"function": "add"}),
    ("github.com/pytorch/pytorch/issues/82951", "flop", 6,
     "pointwise: 2 * fp32 2x3 -> fp32 2x3", {"function": "sub"}),
    ("github.com/pytorch/pytorch/issues/82951", "bytes", 72,
     "pointwise: 2 * fp32 2x3 -> fp32 2x3", {"function": "sub"}),
    # forward 4·B·H·N²·d; with the gradient 3 × (scores kept: 824.6 GFLOP) or 3.5 × (computed again: 962.1)
    ("github.com/Dao-AILab/flash-attention/issues/741", "matrix", 274_877_906_944,
     "attention: 3 * fp16 64x16x1024x64 -> fp16 64x16x1024x64", {}),
    ("github.com/Dao-AILab/flash-attention/issues/741", "matrix", 2 * 274_877_906_944,
     "attention_backward: 5 * fp16 64x16x1024x64 -> 3 * fp16 64x16x1024x64", {"fused": False}),
    ("github.com/Dao-AILab/flash-attention/issues/741", "matrix", 2.5 * 274_877_906_944,
     "attention_backward: 5 * fp16 64x16x1024x64 -> 3 * fp16 64x16x1024x64", {}),
    # int8 products are operations: 2 · 32 · 32 · 64 and 2 · 8 · 64 · 64
    ("derived", "matrix", 131_072,
     "matmul: int8 32x64, int8 64x32 -> int32 32x32", {"k": 64}),
    ("derived", "matrix", 65_536,
     "matmul: int8 8x64, int8 64x64 -> fp32 8x64", {"k": 64}),
    # 64³ complex multiply-adds of 8 real operations
    ("derived", "flop", 2_097_152,
     "matmul: 2 * complex64 64x64 -> complex64 64x64", {"k": 64}),
    # three bf16 matrices of 64², whatever the backend widens to
    ("derived", "bytes", 24_576,
     "matmul: 2 * bf16 64x64 -> bf16 64x64", {"k": 64}),
    # prefill writes q's shape, not S²; decoding reads keys and values of 8 heads once
    ("derived", "write", 67_108_864,
     "attention: fp16 1x64x4096x128, 2 * fp16 1x8x4096x128 -> fp16 1x64x4096x128", {"causal": True}),
    ("derived", "read", 16_777_216 + 64 * 128 * 2,
     "attention: fp16 1x64x1x128, 2 * fp16 1x8x4096x128 -> fp16 1x64x1x128", {}),
    # ONNX: 4 heads of 128 × 128 × 16, twice; 4-bit weights of 64 × 64 for 128 rows
    ("derived", "matrix", 2 * 2_097_152,
     "attention: 3 * fp32 1x4x128x16 -> fp32 1x4x128x16", {}),
    ("derived", "matrix", 2 * 524_288,
     "matmul: fp32 128x64, int8 64x32, fp32 64x2 -> fp32 128x64", {"k": 64, "weight_bits": 4}),
    # a linear layer without bias, three calls of 100 × 100
    ("github.com/deepspeedai/DeepSpeed/issues/7256", "flop", 60_000 / 3,
     "matmul: fp32 1x100, fp32 100x100 -> fp32 1x100", {"k": 100}),
    # --- tables that people teach from ---
    # 1 FLOP per 2 reads and 1 write of 4 bytes
    ("derived", "intensity", 1 / 12,
     "pointwise: 2 * fp32 1000 -> fp32 1000", {"function": "add"}),
    # 2n³ / (3·4n²) = n/6
    ("derived", "intensity", 64 / 6,
     "matmul: 2 * fp32 64x64 -> fp32 64x64", {"k": 64}),
    ("derived", "intensity", 256 / 6,
     "matmul: 2 * fp32 256x256 -> fp32 256x256", {"k": 256}),
    ("derived", "intensity", 1024 / 6,
     "matmul: 2 * fp32 1024x1024 -> fp32 1024x1024", {"k": 1024}),
    ("derived", "intensity", 4096 / 6,
     "matmul: 2 * fp32 4096x4096 -> fp32 4096x4096", {"k": 4096}),
    # 2·512·1024·4096 / 2·(512·1024 + 1024·4096 + 512·4096); batch 1: the weight alone
    (NVIDIA, "intensity", 315.077,
     "matmul: fp16 512x1024, fp16 1024x4096 -> fp16 512x4096", {"k": 1024}),
    (NVIDIA, "intensity", 0.99878,
     "matmul: fp16 1x1024, fp16 1024x4096 -> fp16 1x4096", {"k": 1024}),
    (NVIDIA, "intensity", 124.121,
     "matmul: fp16 8192x128, fp16 128x8192 -> fp16 8192x8192", {"k": 128}),
    (NVIDIA, "intensity", 2730.667,
     "matmul: 2 * fp16 8192x8192 -> fp16 8192x8192", {"k": 8192}),
    # 9 comparisons per element read and written in fp16; ReLU 1
    (NVIDIA, "intensity", 2.25,
     "pool: fp16 1x8x64x64 -> fp16 1x8x64x64", {"function": "max", "window": 9}),
    (NVIDIA, "intensity", 0.25,
     "pointwise: fp16 4096 -> fp16 4096", {"function": "relu"}),
    # 3 operations and 2 special ones per 8 bytes
    ("derived", "intensity", 5 / 8,
     "softmax: fp32 128x4096 -> fp32 128x4096", {}),
    # n multiply-adds for 2n elements of 2 bytes
    ("jax-ml.github.io/scaling-book/roofline", "intensity", 0.5,
     "matmul: bf16 1x1048576, bf16 1048576x1 -> bf16 1x1", {"k": 1048576}),
    # a matrix of its own for each example: 2 FLOP per byte of it
    ("jax-ml.github.io/scaling-book/roofline", "intensity", 2.0,
     "matmul: int8 16x1x4096, int8 16x4096x4096 -> int8 16x1x4096", {"k": 4096}),
    # SpMV: 2 FLOP for a value of 8 bytes and a column of 4 (a full matrix, so that vectors vanish)
    ("dl.acm.org/doi/10.1145/1498765.1498785", "intensity", 1 / 6,
     "sparse_matmul: fp64 4000000, int32 2001, int32 4000000, fp64 2000x1"
     " -> fp64 2000x1", {"nnz": 4000000, "n": 1}),
    # a 7-point stencil: 8 FLOP for one read and one write of 8 bytes (no write-allocate)
    ("dl.acm.org/doi/10.1145/1498765.1498785", "intensity", 0.5,
     "pointwise: fp64 64x64x64 -> fp64 64x64x64", {"vector": 8}),
    # 13 FLOP/byte of the card × 8 bytes: where an fp32 function of one operand meets its ridge
    ("horace.io/brrr_intro.html", "intensity", 19.5e12 / 1.5e12,
     "pointwise: fp32 1000 -> fp32 1000", {"vector": 104}),
]  # fmt: skip


@pytest.mark.parametrize(("source", "measure", "expected", "text", "attrs"), CASES)
def test_a_case_comes_out_as_derived(source, measure, expected, text, attrs):
    kind, inputs, outputs = operation(text)
    rough = 1e-2 if "sparse" in kind else 1e-3 if measure == "intensity" else 0
    assert MEASURES[measure](costed(kind, inputs, outputs, **attrs)) == pytest.approx(expected, rel=rough)


def test_layer_norm_is_memory_bound():
    """Under 10 FLOP/byte (docs.nvidia.com/deeplearning/performance, table of operations)."""
    found = costed("norm", ["fp16 512x1024", "fp16 1024", "fp16 1024"], ["fp16 512x1024"], function="layer")
    assert 1 < intensity(found) < 10


def test_unfused_attention_has_the_intensity_of_its_derivation():
    """(4dN² + 3N²)/(8N² + 8Nd) of fp16, N = 4096, d = 128: baseten.co/blog/llm-transformer-inference-guide."""
    found = costed("attention", ["fp16 1x1x4096x128"] * 3, ["fp16 1x1x4096x128"], fused=False)
    assert found.compulsory.nbytes == 8 * 4096**2 + 8 * 4096 * 128
    # the guide counts 3 operations per score for softmax, without exp and division
    assert flop(found, "matrix", "vector") / found.compulsory.nbytes == pytest.approx(62.42, abs=0.005)


def test_fusion_removes_the_terms_in_n_squared():
    """FlashAttention (arXiv:2205.14135): quadratic traffic becomes linear, FLOP stay."""

    def traffic(n, fused):
        return costed("attention", [f"fp16 1x1x{n}x64"] * 3, [f"fp16 1x1x{n}x64"], fused=fused).compulsory.nbytes

    assert traffic(2048, True) == 2 * traffic(1024, True) == 8 * 2048 * 64
    # f(2n) − 2·f(n) leaves 2·8n² of f(n) = 8n² + 8nd
    assert traffic(4096, False) - 2 * traffic(2048, False) == 16 * 2048**2


def test_three_passes_cross_six_times_and_one_fused_pass_twice():
    """linear, ReLU, dropout on activations alone: each reads and writes them (weights and masks aside)."""
    x = ["bf16 4096x4096"]
    linear = costed("matmul", [*x, "bf16 4096x4096"], x, k=4096).compulsory.nbytes - spec(x[0]).nbytes
    relu = costed("pointwise", x, x, function="relu").compulsory.nbytes
    dropout = costed("dropout", x, x, p=0.1).compulsory.nbytes
    assert linear + relu + dropout == 6 * spec(x[0]).nbytes
    assert costed("pointwise", x, x, vector=3).compulsory.nbytes == 2 * spec(x[0]).nbytes


@pytest.mark.parametrize(
    ("weights", "attrs", "peak", "batch"),
    [
        ("bf16", {}, 1.97e14, 240),  # 1.97e14 / 8.2e11
        ("int8", {"compute": "int8"}, 3.94e14, 243),  # 2 FLOP per byte of weight; 3.94e14 / 8.1e11 / 2
        ("int8", {"weight_bits": 8}, 1.97e14, 120),  # int8 weights, bf16 products
    ],
)
def test_the_batch_from_which_a_layer_is_compute_bound(weights, attrs, peak, batch):
    """jax-ml.github.io/scaling-book/roofline, worked problems: TPU v5e, weights far larger than the batch."""
    bandwidth = 8.1e11 if weights == "int8" and "compute" in attrs else 8.2e11
    wide = 1 << 20
    acts = "int8" if "compute" in attrs else "bf16"

    def bound(rows):
        inputs = [f"{acts} {rows}x{wide}", f"{weights} {wide}x{wide}"]
        return intensity(costed("matmul", inputs, [f"{acts} {rows}x{wide}"], k=wide, **attrs)) > peak / bandwidth

    assert bound(batch + 2)
    assert not bound(batch - 2)


def linear(tokens, inner, outer):
    found = costed(
        "matmul", [f"bf16 {tokens}x{inner}", f"bf16 {inner}x{outer}"], [f"bf16 {tokens}x{outer}"], k=inner
    )
    return found.total_flop


def scores(batch, heads, tokens, size, **attrs):
    x = f"bf16 {batch}x{heads}x{tokens}x{size}"
    return flop(costed("attention", [x] * 3, [x], **attrs), "matrix")


def test_gpt2_small_s_products():
    """291,648,307,200 FLOP forward at T = 1024: karpathy/nanoGPT, transformer_sizing.ipynb."""
    t, c = 1024, 768
    block = (
        linear(t, c, 3 * c) + scores(1, 12, t, 64) + linear(t, c, c) + linear(t, c, 4 * c) + linear(t, 4 * c, c)
    )
    forward = 12 * block + linear(t, c, 50257)
    assert forward == 291_648_307_200
    assert 3 * forward == 874_944_921_600


def test_megatron_s_iteration():
    """96·B·s·l·h²·(1 + s/6h + V/16lh), layers computed again: Narayanan et al., arXiv:2104.04473, appendix."""
    b, s, layers, h, vocabulary = 1536, 2048, 96, 12288, 51200
    layer = linear(b * s, h, 12 * h) + scores(b, 96, s, 128)
    total = 4 * layers * layer + 3 * linear(b * s, h, vocabulary)
    assert total == pytest.approx(4.511e18, rel=1e-3)
    assert total == pytest.approx(96 * b * s * layers * h**2 * (1 + s / (6 * h) + vocabulary / (16 * layers * h)))


def test_a_mixture_s_products_are_those_of_the_active_experts():
    """Qwen3-235B-A22B, one sequence of 196,608, training: 204.0 PFLOP (github.com/NVIDIA-NeMo/RL/pull/2736)."""
    tokens, h, heads, kv, size, experts, active, inner = 196_608, 4096, 64, 4, 128, 128, 8, 1536
    rows = tokens * active
    gate_up = costed(
        "grouped_matmul",
        [f"bf16 {rows}x{h}", f"bf16 {experts}x{h}x{2 * inner}"],
        [f"bf16 {rows}x{2 * inner}"],
    )
    down = costed("grouped_matmul", [f"bf16 {rows}x{inner}", f"bf16 {experts}x{inner}x{h}"], [f"bf16 {rows}x{h}"])
    layer = linear(tokens, h, (heads + 2 * kv) * size) + linear(tokens, heads * size, h)
    layer += linear(tokens, h, experts) + gate_up.total_flop + down.total_flop
    layer += scores(1, heads, tokens, size, causal=True)
    assert 3 * (94 * layer + linear(tokens, h, 151_936)) == pytest.approx(204.0e15, rel=2e-3)
    assert gate_up.compulsory.read_bytes == 2 * (rows * h + experts * h * 2 * inner)  # a large batch touches all


def test_a_checkpointed_stack_s_training_step():
    """24 pairs of 10 → 40 → 10 at batch 8: 6·8·19,200, a forward more with remat (google/flax/issues/3492)."""
    pair = linear(8, 10, 40) + linear(8, 40, 10)
    assert 3 * 24 * pair == 921_600
    assert 24 * pair == 307_200


def test_an_encoder_layer_s_products():
    """TransformerEncoderLayer(64, 4 heads, 256), x of 2 × 16 × 64: 3,276,800 FLOP."""
    rows, c = 32, 64
    products = linear(rows, c, 3 * c) + linear(rows, c, c) + linear(rows, c, 256) + linear(rows, 256, c)
    assert products + scores(2, 4, 16, 16) == 3_276_800
