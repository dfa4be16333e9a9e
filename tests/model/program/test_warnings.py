"""Warnings of a prediction: memory that does not fit, number formats that the machine lacks."""

from __future__ import annotations

import msgspec
import pytest

import rooflab
from rooflab.model.program import warnings
from rooflab.types.work import Graph, Op, TensorSpec
from rooflab.work import counting


def products(dtype: str, size: int = 64) -> Graph:
    nbytes = {"fp8": 1.0, "fp4": 0.5, "bf16": 2.0, "fp64": 8.0}[dtype] * size * size
    specs = tuple(TensorSpec((size, size), dtype, nbytes, storage=number, role="input") for number in range(2))
    out = TensorSpec((size, size), "bf16", 2.0 * size * size, storage=2)
    product = Op(name="mm", kind="matmul", inputs=(0, 1), outputs=(2,), attrs={"k": size})
    relu = Op(name="relu", kind="pointwise", inputs=(2,), outputs=(2,), attrs={"function": "relu"})
    return Graph(framework="hand", tensors=(*specs, out), ops=(product, relu))


def test_what_fits_raises_no_doubt() -> None:
    """A small bf16 product on an H100."""
    assert counting.report(products("bf16"), "fits").on("h100-sxm").warnings == ()


def test_too_much_memory_is_said_by_how_much_and_predicted() -> None:
    """Two operands and a result of 2·250000² bytes are 375 GB; an H100 holds 80."""
    report = counting.report(products("bf16", 250_000), "large").on("h100-sxm")
    (line,) = report.warnings
    assert line.startswith("out of memory: needs 375 GB, NVIDIA H100")
    assert line.endswith("GB short); predicted as if it fit")
    assert report.time_s is not None


def test_more_capacity_is_a_what_if() -> None:
    """The same on one with ten times the memory."""
    report = counting.report(products("bf16", 250_000), "large")
    assert report.on("h100-sxm", what_if="capacity=10x").warnings == ()


@pytest.mark.parametrize(
    ("dtype", "machine", "said"),
    [
        ("fp8", "a100-sxm-80gb", "states no fp8 matrix peak: it would be computed in bf16 after a conversion"),
        ("fp4", "h100-sxm", "states no fp4 matrix peak: it would be computed in fp8 after a conversion"),
    ],
)
def test_a_format_without_a_peak_is_not_predicted(dtype: str, machine: str, said: str) -> None:
    """The row says what it would be emulated by, and so does a warning; the rest is predicted."""
    report = counting.report(products(dtype), dtype).on(machine)
    product, relu = report.rows
    assert product.prediction is None
    assert product.unbound is not None
    assert said in product.unbound
    assert relu.prediction is not None
    (line,) = report.warnings
    assert line.startswith("1 operation without a prediction, left out of the total (mm): ")
    assert said in line
    assert report.time_s is None
    assert report.time_at_least_s == relu.prediction.time_s


def test_what_another_machine_predicted_is_not_kept() -> None:
    """An A100 says nothing of an fp8 product, also where an H100 was asked before."""
    counted = counting.report(products("fp8"), "fp8")
    first = counted.on("h100-sxm")
    assert first.time_s is not None
    again, alone = first.on("a100-sxm-80gb"), counted.on("a100-sxm-80gb")
    assert [row.prediction for row in again.rows] == [row.prediction for row in alone.rows]
    assert again.rows[0].prediction is None
    assert again.time_s is None
    assert len(again.unpredicted) == 1


def test_a_format_that_nothing_stands_in_for_cannot_run() -> None:
    """A machine with no peaks but for bf16 products computes no fp64."""
    h100 = rooflab.machine("h100-sxm")
    narrow = msgspec.structs.replace(h100, peaks=tuple(rate for rate in h100.peaks if rate.dtype == "bf16"))
    row = counting.report(products("fp64"), "fp64").rows[0]
    reason = warnings.why_unpredicted(row, narrow)
    assert reason is not None
    assert reason.endswith("states no fp64 matrix peak, and no fallback format is known; probably unsupported")


def test_elementwise_work_without_a_peak_is_timed_by_its_bytes() -> None:
    """A TPU's entry states peaks of its matrix units alone."""
    report = counting.report(products("bf16"), "tpu").on("tpu-v5e")
    assert [row.prediction is not None for row in report.rows] == [True, True]
    (line,) = report.warnings
    assert line.endswith("vector peak: such work is timed by its bytes alone")
