"""Peak memory by liveness: which bytes are held from where to where, derived by hand."""

from __future__ import annotations

import pytest

import rooflab
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
    h200 = rooflab.machine("h200")  # 141 GB
    small = peak_memory(graph([spec(14.1e9, 0, "parameter")], []))
    large = peak_memory(graph([spec(282e9, 0, "parameter")], []))
    assert (fits(small, h200), fits(large, h200)) == (True, False)
    assert fits_sentence(small, h200) == "Fits: 14.1 GB is 10.0 % of the 141 GB of NVIDIA H200 SXM 141GB"
    assert fits_sentence(large, h200) == "Does not fit: 282 GB is 2 × the 141 GB of NVIDIA H200 SXM 141GB"


def test_a_machine_without_a_capacity_says_so():
    here = rooflab.machine("h200")
    unknown = type(here)(name="box", kind="cpu", source=here.source)
    held = peak_memory(graph([spec(10, 0, "parameter")], []))
    assert fits(held, unknown) is None
    assert fits_sentence(held, unknown) == "Needs 10.0 B; the memory capacity of box is not stated"
