"""PyTorch's loops on a CPU: clocks of an element by hand, who shares them, and bars where data decide."""

from __future__ import annotations

from typing import Any

import pytest

import rooflab
from rooflab.model.device.device import device_of
from rooflab.model.kernels.cpu import fourier
from rooflab.types.prediction import Prediction
from rooflab.types.work import Graph, Op, TensorSpec
from rooflab.work import counting
from support.model.one_op import tensor

MACHINE = rooflab.machine("examples/zen4-guest.toml")  # two cores
CLOCK_S = 1 / device_of(MACHINE).clock_hz
MILLION = 1_000_000
VECTOR = tensor(MILLION)
MATRIX = tensor(1000, 1000)


def predicted(name: str, kind: str, inputs: tuple[TensorSpec, ...], out: TensorSpec, **attrs: Any) -> Prediction:
    """One of PyTorch's calls on the machine, warm."""
    places = tuple(range(len(inputs)))
    op = Op(name=f"aten.{name}", kind=kind, inputs=places, outputs=(len(inputs),), attrs=attrs)
    graph = Graph(framework="torch", tensors=(*inputs, out), ops=(op,))
    found = counting.report(graph, "loops").on(MACHINE).prediction
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("name", "kind", "inputs", "out", "attrs", "clocks"),
    [
        # on two cores
        ("remainder", "pointwise", (VECTOR, VECTOR), VECTOR, {"function": "remainder"}, 5.0 / 2),
        ("isfinite", "pointwise", (VECTOR,), tensor(MILLION, of="bool"), {"function": "isfinite"}, 6.3 / 2),
        ("abs", "pointwise", (tensor(MILLION, of="complex64"),), VECTOR, {"function": "abs"}, 14 / 2),
        ("_to_copy", "cast", (VECTOR,), tensor(MILLION, of="int64"), {}, 2.2 / 2),
        ("var", "reduction", (MATRIX,), tensor(1000), {"function": "var", "dims": (1,)}, 21.4 / 2),
        ("any", "reduction", (MATRIX,), tensor(1000, of="bool"), {"function": "any", "dims": (1,)}, 3.45 / 2),
        ("cumsum", "scan", (MATRIX,), MATRIX, {"function": "cumsum", "dims": (1,)}, 3.5 / 2),
        # columns that an index picks: each element has its place found anew
        ("index", "gather", (MATRIX, tensor(1000, of="int64")), MATRIX, {"dims": (1,)}, 7.9 / 2),
        # every second column of a matrix: no vector is loaded
        ("clone", "layout", (tensor(1000, 1000, strides=(2000, 2)),), MATRIX, {}, 2.1 / 2),
        # on the calling thread alone: n log2 n comparisons, 2n of a selection
        ("sort", "sort", (VECTOR,), VECTOR, {"function": "sort", "n": MILLION}, 18 * 19.93),
        ("median", "sort", (VECTOR,), tensor(), {"function": "sort", "n": MILLION}, 18 * 2),
        ("rand", "random", (), VECTOR, {}, 11),
        ("argmax", "reduction", (VECTOR,), tensor(of="int64"), {"function": "argmax"}, 3.0),
        ("cumsum", "scan", (VECTOR,), VECTOR, {"function": "cumsum"}, 3.5),
    ],
)
def test_a_loop_takes_its_clocks_for_each_element(name, kind, inputs, out, attrs, clocks) -> None:
    found = predicted(name, kind, inputs, out, **attrs)
    assert found.time_s == pytest.approx(MILLION * clocks * CLOCK_S, rel=0.12)


@pytest.mark.parametrize(
    ("name", "kind", "inputs", "attrs", "least", "most"),
    [
        ("where", "pointwise", (tensor(MILLION, of="bool"), VECTOR, VECTOR), {"function": "where"}, 2, 14.5),
        ("masked_select", "gather", (VECTOR, tensor(MILLION, of="bool")), {}, 3.8, 21),
    ],
)
def test_a_branch_that_follows_the_data_has_both_ends_in_its_bars(name, kind, inputs, attrs, least, most) -> None:
    found = predicted(name, kind, inputs, VECTOR, **attrs)
    assert found.low_s < MILLION * least / 2 * CLOCK_S
    assert found.high_s > MILLION * most / 2 * CLOCK_S


def test_flipped_rows_are_copied_like_any_others() -> None:
    plain = predicted("clone", "copy", (MATRIX,), MATRIX).time_s
    assert predicted("flip", "layout", (MATRIX,), MATRIX).time_s < 1.5 * plain


def test_a_transposed_matrix_is_copied_on_one_thread_by_blocks() -> None:
    turned = tensor(1000, 1000, strides=(1, 1000))
    found = predicted("clone", "layout", (turned,), MATRIX).time_s
    assert found > 1.9 * MILLION * CLOCK_S
    rows = predicted("clone", "layout", (tensor(100, 100, 100, strides=(100, 10000, 1)),), tensor(100, 100, 100))
    assert rows.time_s < found / 4  # runs of 100 neighbours


def test_what_has_no_model_has_wide_bars() -> None:
    known = predicted("add", "pointwise", (MATRIX, MATRIX), MATRIX, function="add")
    assert known.high_s / known.low_s < 2
    unknown = predicted("elu_backward", "pointwise", (MATRIX,), MATRIX, function="elu_backward")
    assert unknown.high_s / unknown.low_s > 8


def test_lengths_with_a_large_prime_take_a_chirp() -> None:
    def ratio(n: int) -> float:
        return fourier.beyond_formula(Op(name="fft", kind="fft", inputs=(), outputs=(), attrs={"n": (n,)}))

    assert ratio(4096) == 1
    # 2·5·7·11: 25 instead of 2·log2 770
    assert ratio(770) == pytest.approx(25 / (2 * 9.5887), rel=1e-3)
    # 10007 is prime: three transforms of 32768
    assert ratio(10007) == pytest.approx(3 * 32768 * 15 / (10007 * 13.2887), rel=1e-3)
