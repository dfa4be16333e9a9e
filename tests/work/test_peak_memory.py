"""Peak memory by liveness: which bytes are held from where to where, derived by hand."""

from __future__ import annotations

import pytest

import rooflab
from rooflab.types.machine import program_memory_bytes
from rooflab.types.work import Graph, Op, TensorSpec
from rooflab.work.peak_memory import fits, fits_sentence, peak_memory


def spec(nbytes, storage, role="activation", name=None):
    return TensorSpec((int(nbytes),), "int8", nbytes, storage=storage, role=role, name=name)


def graph(tensors, ops):
    made = tuple(Op(name=kind, kind=kind, inputs=ins, outputs=outs, phase=phase) for kind, ins, outs, phase in ops)
    return Graph(framework="hand", tensors=tuple(tensors), ops=made)


def parts(found):
    names = ("parameters", "buffers", "gradients", "optimizer_state", "activations", "kv_cache", "inputs")
    return {name: getattr(found, f"{name}_bytes") for name in names if getattr(found, f"{name}_bytes")}


FORWARD = "forward"


def test_a_chain_holds_two_activations_at_once():
    # x → 100 → 50 → 10: while the second runs, 100 and 50 are held
    tensors = [spec(8, 0, "input"), spec(100, 1), spec(50, 2), spec(10, 3)]
    found = peak_memory(graph(tensors, [("exp", (i,), (i + 1,), FORWARD) for i in range(3)]))
    assert parts(found) == {"inputs": 8, "activations": 150}
    assert (found.most_bytes, found.at) == (158, 1)


def test_what_is_only_looked_through_is_held_until_then():
    # nothing makes the first, nothing reads it: a view of a list of operations without their graph
    tensors = [spec(100, -1), spec(100, -1), spec(20, -1), spec(20, -1)]
    found = peak_memory(graph(tensors, [("view", (0,), (1,), FORWARD), ("exp", (2,), (3,), FORWARD)]))
    assert found.most_bytes == 220  # it, its view, and what the second will read


def test_what_is_saved_for_later_stays():
    # 100 is read again by the last: 100 + 50 + 30 while that runs
    tensors = [spec(100, 0), spec(50, 1), spec(30, 2)]
    ops = [("exp", (), (0,), FORWARD), ("exp", (0,), (1,), FORWARD), ("add", (0, 1), (2,), FORWARD)]
    assert peak_memory(graph(tensors, ops)).most_bytes == 180


def test_a_view_and_an_in_place_result_are_the_storage_they_look_at():
    tensors = [spec(100, 7), spec(40, 7), spec(100, 7)]
    ops = [("exp", (), (0,), FORWARD), ("view", (0,), (1,), FORWARD), ("add", (1,), (2,), FORWARD)]
    assert parts(peak_memory(graph(tensors, ops))) == {"activations": 100}


def test_tied_parameters_are_held_once_and_their_views_too():
    tensors = [spec(100, 1, "parameter", "tok"), spec(100, 1, "parameter", "head"), spec(100, 1)]
    found = peak_memory(graph(tensors, [("view", (0,), (2,), FORWARD)]))
    assert parts(found) == {"parameters": 100}


def test_parameters_that_nothing_uses_are_held_and_unused_activations_are_not():
    assert parts(peak_memory(graph([spec(9, 0, "parameter"), spec(5, 1)], []))) == {"parameters": 9}


def test_a_second_result_that_nobody_reads_is_held_while_it_is_made():
    # 64 with its 16 of statistics, then 64 and 32: not 16 as well
    tensors = [spec(64, 0), spec(16, 1), spec(32, 2)]
    ops = [("norm", (), (0, 1), FORWARD), ("exp", (0,), (2,), FORWARD)]
    found = peak_memory(graph(tensors, ops))
    assert (found.activations_bytes, found.at) == (96, 1)


def test_a_result_that_nobody_reads_is_the_programs_and_stays():
    tensors = [spec(64, 0), spec(32, 1)]
    ops = [("exp", (), (0,), FORWARD), ("exp", (), (1,), FORWARD)]
    assert peak_memory(graph(tensors, ops)).activations_bytes == 96


def test_training_holds_gradients_and_state():
    tensors = [
        spec(100, 0, "parameter"),
        spec(100, 1, "gradient"),
        spec(200, 2, "state"),
        spec(40, 3),  # of the forward pass, read by the backward
        spec(40, 4, "gradient"),  # of an activation: comes and goes
    ]
    ops = [
        ("matmul", (0,), (3,), "forward"),
        ("exp", (3,), (4,), "backward"),
        ("matmul", (3, 4), (1,), "backward"),
        ("optimizer", (0, 1, 2), (0, 2), "optimizer"),
    ]
    found = peak_memory(graph(tensors, ops))
    assert parts(found) == {"parameters": 100, "gradients": 100, "optimizer_state": 200, "activations": 80}
    # 300 throughout, 80 and the gradient of 100 while that is made
    assert (found.most_bytes, found.at) == (480, 2)


def test_a_gradient_nobody_reads_is_a_parameters():
    tensors = [spec(10, 0, "parameter"), spec(10, 1, "gradient")]
    assert parts(peak_memory(graph(tensors, [("matmul", (0,), (1,), "backward")])))["gradients"] == 10


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("layers.0.kv_cache", "buffer"),
        ("k_cache", "buffer"),
        ("past_key_values.0.key", "input"),
        ("past.3", "input"),
    ],
)
def test_caches_are_known_by_their_names(name, role):
    found = peak_memory(graph([spec(10, 0, role, name), spec(4, 1)], [("exp", (0,), (1,), FORWARD)]))
    assert parts(found) == {"kv_cache": 10, "activations": 4}


@pytest.mark.parametrize("name", ["mask", "rope.freqs", "positions"])
def test_other_buffers_are_none(name):
    assert parts(peak_memory(graph([spec(10, 0, "buffer", name)], []))) == {"buffers": 10}


def test_a_buffer_written_beside_attention_is_a_cache():
    tensors = [spec(10, 0, "buffer", "keys"), spec(2, 1, "input", "new"), spec(4, 2)]
    ops = [("scatter", (0, 1), (0,), FORWARD), ("attention", (1, 0), (2,), FORWARD)]
    assert parts(peak_memory(graph(tensors, ops))) == {"kv_cache": 10, "inputs": 2, "activations": 4}


def test_an_empty_program_holds_nothing():
    found = peak_memory(graph([], []))
    assert (parts(found), found.most_bytes, found.at) == ({}, 0, None)


def test_whether_it_fits():
    h200 = rooflab.machine("h200")  # 141 GB on its label, 150 GB by its driver
    small = peak_memory(graph([spec(14.1e9, 0, "parameter")], []))
    large = peak_memory(graph([spec(282e9, 0, "parameter")], []))
    assert (fits(small, h200), fits(large, h200)) == (True, False)
    assert fits_sentence(small, h200) == "Fits: 14.1 GB is 9.4 % of the 150 GB of NVIDIA H200 SXM 141GB"
    assert fits_sentence(large, h200) == "Does not fit: 282 GB is 1.88 × the 150 GB of NVIDIA H200 SXM 141GB"


def test_a_system_holds_what_all_its_parts_do():
    dgx = rooflab.machine("dgx-h100")  # 8 × 80 GB
    large = peak_memory(graph([spec(320e9, 0, "parameter")], []))
    assert fits(large, dgx)
    assert fits_sentence(large, dgx) == "Fits: 320 GB is 50.0 % of the 640 GB of NVIDIA DGX H100"


@pytest.mark.parametrize("name", ["h200", "dgx-h100", "m1-pro", "9950x", "mi300x"])
def test_the_warning_and_the_sentence_mean_the_same_memory(name):
    capacity = program_memory_bytes(rooflab.machine(name))
    for share, said in ((0.999, False), (1.001, True)):
        report = rooflab.op("copy", (int(capacity * share / 2),), dtype="int8", machine=name)
        assert any(line.startswith("out of memory") for line in report.warnings) is said
        assert fits(report.memory, report.machine) is not said


def test_a_machine_without_a_capacity_says_so():
    here = rooflab.machine("h200")
    unknown = type(here)(name="box", kind="cpu", source=here.source)
    held = peak_memory(graph([spec(10, 0, "parameter")], []))
    assert fits(held, unknown) is None
    assert fits_sentence(held, unknown) == "Needs 10.0 B; the memory capacity of box is not stated"


def test_unfused_attention_by_hand_holds_its_scores():
    """2 × 3 heads of 128 × 128 scores in fp16, 196608 B; with their softmax twice that; q, k, v 24576 B each."""
    report = rooflab.op("attention", "2x3x128x16", dtype="fp16", fused=False)
    assert report.memory.activations_bytes == 2 * 196608
    assert report.memory.most_bytes == 2 * 196608 + 3 * 24576


def test_unfused_attention_by_hand_agrees_with_the_captured_one():
    torch = pytest.importorskip("torch")
    q, k, v = (torch.empty(2, 3, 128, 16, dtype=torch.float16, device="meta") for _ in range(3))
    captured = rooflab.analyze(lambda q, k, v: torch.softmax(q @ k.transpose(-1, -2), -1) @ v, q, k, v)
    assert (
        captured.memory.most_bytes
        == rooflab.op("attention", "2x3x128x16", dtype="fp16", fused=False).memory.most_bytes
    )


def test_fewer_scores_than_results_hold_scores_and_results():
    """One head of 8 × 8 scores in fp32, 256 B, and 8 × 64 results, 2048 B: more than the scores twice."""
    report = rooflab.op("attention", "1x1x8x64", fused=False)
    assert report.memory.activations_bytes == 256 + 2048


PROGRAMS = [
    ("attention", "2x3x128x16"),
    ("matmul", "64x96", "96x32"),
    ("linear", "64x96", "32x96"),
    ("conv2d", "2x3x16x16", "8x3x3x3"),
]


def _captured(torch):
    x = torch.empty(64, 96, device="meta")
    layers = torch.nn.Sequential(torch.nn.Linear(96, 48), torch.nn.GELU(), torch.nn.Linear(48, 96)).to("meta")
    q = torch.empty(2, 3, 128, 16, device="meta")
    yield rooflab.analyze(layers, x, backward=True, optimizer="adamw")
    yield rooflab.analyze(lambda q: torch.softmax(q @ q.transpose(-1, -2) * 0.25, -1) @ q, q)
    yield rooflab.analyze(lambda x: x @ (x @ (x.T @ x)).T + (x * 2) @ x.T, x)


@pytest.mark.parametrize("dtype", ["fp16", "fp8", "fp4", "int8"])
def test_a_narrower_format_never_needs_more_memory(dtype):
    torch = pytest.importorskip("torch")
    by_hand = (rooflab.op(kind, *shapes, fused=False) for kind, *shapes in PROGRAMS[:1])
    for report in (*by_hand, *(rooflab.op(kind, *shapes) for kind, *shapes in PROGRAMS), *_captured(torch)):
        narrower = report.on("h200-sxm", what_if={"dtype": dtype}).memory
        before, after = parts(report.memory), parts(narrower)
        assert all(after.get(name, 0) <= before.get(name, 0) for name in {*before, *after}), report.name
        assert narrower.most_bytes <= report.memory.most_bytes


class _Layer:
    def __init__(self, torch, tokens):
        self.keys, self.values = (torch.empty(1, 2, tokens, 8, device="meta") for _ in range(2))


class _Cache:
    """As transformers keep them: layers with keys and values as attributes."""

    def __init__(self, torch, tokens):
        self.layers = [_Layer(torch, tokens) for _ in range(3)]
        self.again = self


@pytest.mark.parametrize("name", ["past_key_values", "cache"])
def test_keys_and_values_in_an_object_are_a_cache(name):
    """3 layers of keys and values of 2 heads, 10 tokens of 8 in fp32."""
    torch = pytest.importorskip("torch")

    def step(x, **kwargs):
        for layer in kwargs[name].layers:
            x = torch.nn.functional.scaled_dot_product_attention(x, layer.keys, layer.values)
        return x

    report = rooflab.analyze(step, torch.empty(1, 2, 1, 8, device="meta"), kwargs={name: _Cache(torch, 10)})
    assert report.memory.kv_cache_bytes == 3 * 2 * (2 * 10 * 8 * 4)


@pytest.mark.parametrize("kind", ["DynamicCache", "StaticCache"])
def test_caches_of_transformers(kind):
    """2 layers, keys and values of 3 sequences, 2 heads, 20 tokens (a static one has room for 50) of 8 in fp32."""
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    config = transformers.LlamaConfig(num_hidden_layers=2, num_attention_heads=2, hidden_size=16)
    meta = torch.device("meta")
    if kind == "StaticCache":
        cache = transformers.StaticCache(config=config, max_cache_len=50)
        cache.early_initialization(3, 2, 8, torch.float32, meta)
    else:
        cache = transformers.DynamicCache(config=config)
        for layer in range(2):
            cache.update(*(torch.empty(3, 2, 20, 8, device=meta) for _ in range(2)), layer)

    def step(q, cache):
        return [q @ one.keys.transpose(-1, -2) @ one.values for one in cache.layers]

    report = rooflab.analyze(step, torch.empty(3, 2, 1, 8, device=meta), cache)
    tokens = 50 if kind == "StaticCache" else 20
    assert report.memory.kv_cache_bytes == pytest.approx(2 * 2 * (3 * 2 * tokens * 8 * 4), abs=64)  # and counters
