"""Which library kernel an operation takes, and what it is bound by: by hand, and held to Nsight Compute."""

from __future__ import annotations

from typing import Any

import pytest

import rooflab
from rooflab.model.device.device import device_of
from rooflab.model.kernels.common import Mechanism
from rooflab.model.kernels.gpu import gather, normalization, optimizer, passes, reduction, sort, stream, window
from rooflab.types.work import Op, TensorSpec
from rooflab.work.formulas import cost
from support.model.measured import measured
from support.model.one_op import COLD, WARM, seconds, tensor, timed

Specs = tuple[TensorSpec, ...]


def kernels(
    mechanism: Mechanism, kind: str, inputs: Specs, outputs: Specs, attrs: dict[str, Any], name: str = "aten.x"
) -> list[str]:
    """The library kernels that `mechanism` takes an operation to run, in order."""
    op = Op(name=name, kind=kind, attrs=attrs)
    found = mechanism.features(op, inputs, outputs, cost(kind, inputs, outputs, attrs))
    assert found is not None
    width = len(passes.Pass._fields)
    assert len(found) == len(mechanism.columns)
    codes = [found[place] for place in range(0, len(found), width)]
    return [passes.CODES[int(code)] for code in codes if code >= 0]


X, W, COLUMN, INDEX = tensor(4096, 768), tensor(768), tensor(4096), tensor(4096, of="int64")
IMAGE = tensor(8, 64, 56, 56)


@pytest.mark.parametrize(
    ("mechanism", "kind", "inputs", "outputs", "attrs", "expected"),
    [
        (stream, "pointwise", (X, X), (X,), {"function": "add"}, ["vectorized"]),
        (stream, "pointwise", (X, W), (X,), {"function": "add"}, ["strided"]),
        (stream, "pointwise", (X, tensor()), (X,), {"function": "mul"}, ["vectorized"]),
        (stream, "cast", (tensor(64, of="bf16"),), (tensor(64),), {}, ["casting"]),
        (stream, "cast", (tensor(64),), (tensor(64, of="bf16"),), {}, ["vectorized"]),
        (stream, "copy", (X, X), (tensor(8192, 768),), {}, ["copy_batched"]),
        (stream, "copy", (tensor(768, 4096, strides=(1, 768)), X), (tensor(1536, 4096),), {}, ["strided"]),
        (stream, "random", (), (X,), {}, ["dropout"]),
        (stream, "pointwise", (X, W), (X, W), {"function": "mul", "foreach": True}, ["multi_tensor"]),
        (reduction, "reduction", (X,), (COLUMN,), {"function": "sum"}, ["reduce"]),
        (reduction, "reduction", (X,), (tensor(),), {"function": "sum"}, ["reduce"]),
        (reduction, "reduction", (X,), (W,), {"function": "sum"}, ["reduce_columns"]),
        (reduction, "reduction", (X,), (INDEX,), {"function": "argmax"}, ["reduce_index"]),
        # maximum, difference, exp, sum
        (
            reduction,
            "reduction",
            (X,),
            (COLUMN,),
            {"function": "logsumexp"},
            ["reduce", "strided", "vectorized", "reduce"],
        ),
        (reduction, "scan", (X,), (X,), {"function": "cumsum"}, ["scan_rows"]),
        (reduction, "scan", (W,), (W,), {"function": "cumsum"}, ["scan_whole"]),
        (reduction, "loss", (X, X), (tensor(),), {"function": "mse"}, ["vectorized", "reduce"]),
        (normalization, "softmax", (X,), (X,), {}, ["softmax_warp"]),
        (normalization, "softmax", (tensor(8, 2048),), (tensor(8, 2048),), {}, ["softmax_warp_long"]),
        (normalization, "softmax", (tensor(8, 4096),), (tensor(8, 4096),), {}, ["softmax_registers"]),
        (normalization, "softmax", (tensor(8, 50257),), (tensor(8, 50257),), {}, ["softmax_block"]),
        (normalization, "norm", (X, W), (X, COLUMN), {"function": "rms"}, ["rms_norm"]),
        (
            normalization,
            "norm_backward",
            (X, X, COLUMN, COLUMN, W),
            (X, W, W),
            {"function": "layer"},
            ["norm_gradient", "weight_gradient"],
        ),
        (
            normalization,
            "norm",
            (IMAGE,),
            (IMAGE,),
            {"function": "batch"},
            ["batch_statistics", "batch_transform"],
        ),
        (normalization, "norm", (IMAGE,), (IMAGE,), {"function": "group", "groups": 8}, ["moments", "strided"]),
        (gather, "gather", (X, tensor(64, of="int64")), (tensor(64, 768),), {}, ["gather_rows"]),
        (gather, "gather", (W, tensor(64, of="int64")), (tensor(64),), {}, ["gather_scalars"]),
        # Out of place: the base is copied, then added to.
        (gather, "scatter", (X, INDEX, X), (X,), {"accumulate": True}, ["vectorized", "scatter"]),
        (gather, "scatter", (X, INDEX, X), (X,), {"accumulate": True, "in_place": True}, ["scatter"]),
        (window, "pool", (IMAGE,), (IMAGE,), {"function": "max", "window": 9}, ["pool"]),
        # copies and places, digits counted, four digits of 8 bits
        (
            sort,
            "sort",
            (tensor(8192),),
            (tensor(8192), tensor(8192, of="int64")),
            {"function": "sort", "n": 8192},
            ["vectorized", "radix_histogram", "radix_pass"],
        ),
        # One block sorts up to 4096, in one row too (`should_use_small_sort`).
        (sort, "sort", (COLUMN,), (COLUMN, INDEX), {"function": "sort", "n": 4096}, ["sort_rows"]),
        (sort, "sort", (X,), (X, X), {"function": "sort", "n": 768}, ["sort_rows"]),
        # 4096 rows are shared between blocks from 400 elements on; 64 rows from 8000.
        (sort, "sort", (X,), (COLUMN, INDEX), {"function": "topk", "n": 768, "k": 1}, ["digit_count", "select"]),
        (
            sort,
            "sort",
            (tensor(64, 768),),
            (tensor(64), tensor(64, of="int64")),
            {"function": "topk", "n": 768, "k": 1},
            ["select_rows"],
        ),
        (optimizer, "optimizer", (X, X, X, X), (X, X, X), {"function": "adam"}, ["optimizer"]),
    ],
)
def test_an_operation_runs_the_kernels_that_pytorch_takes_for_it(
    mechanism: Any, kind: str, inputs: Specs, outputs: Specs, attrs: dict[str, Any], expected: list[str]
) -> None:
    assert kernels(mechanism.MECHANISM, kind, inputs, outputs, attrs) == expected


def test_a_few_rows_are_looked_up_one_after_the_other() -> None:
    few, more = tensor(16, of="int64"), tensor(17, of="int64")
    run = gather.MECHANISM
    assert kernels(run, "gather", (X, few), (tensor(16, 768),), {}, "aten.embedding") == ["gather_few"]
    assert kernels(run, "gather", (X, more), (tensor(17, 768),), {}, "aten.embedding") == ["gather_rows"]


def test_a_function_that_computes_more_never_takes_less() -> None:
    x = tensor(1 << 26, of="bf16")
    relu, gelu = (seconds("pointwise", (x,), (x,), {"function": name}) for name in ("relu", "gelu"))
    assert gelu > 1.2 * relu  # bf16: instructions bind it
    x = tensor(1 << 26)
    relu, gelu = (seconds("pointwise", (x,), (x,), {"function": name}) for name in ("relu", "gelu"))
    assert relu <= gelu < 1.05 * relu  # fp32: memory binds both


def test_few_units_for_doubles_bind() -> None:
    """An RTX 4090 computes fp64 at 1/64 of fp32: GELU there waits for them; an H200 (1/2) waits for memory."""
    x = tensor(1 << 26, of="fp64")
    few, many = (device_of(rooflab.machine(name)) for name in ("rtx-4090", "h200"))
    slow, fast = (timed("pointwise", (x,), (x,), {"function": "gelu"}, device).kernels for device in (few, many))
    assert slow.compute_s[0, 0] > 2 * slow.memory_s[0, 0]
    assert fast.compute_s[0, 0] < fast.memory_s[0, 0]


def test_a_table_in_cache_is_looked_up_faster() -> None:
    tries = tensor(1 << 22, of="int64")
    out = tensor(1 << 22)
    small = seconds("gather", (tensor(1 << 20), tries), (out,))
    large = seconds("gather", (tensor(1 << 26), tries), (out,))
    assert large > 2 * small


def test_batch_norm_of_few_channels_leaves_units_idle() -> None:
    """One block a channel: the same elements in 64 channels take longer than in 1024."""
    few, many = tensor(64, 64, 56, 56), tensor(64, 1024, 14, 14)
    assert few.elements == many.elements
    gradients = [seconds("norm_backward", (x, x), (x,), {"function": "batch"}) for x in (few, many)]
    assert gradients[0] > 2 * gradients[1]


# Kernels that Nsight Compute counted (tests/samples/h200): name, operation, attributes.
PROFILED: list[tuple[str, str, Specs, Specs, dict[str, Any]]] = [
    ("gelu", "pointwise", (tensor(1 << 26, of="bf16"),), (tensor(1 << 26, of="bf16"),), {"function": "gelu"}),
    ("transpose", "layout", (tensor(8192, 8192, strides=(1, 8192)),), (tensor(8192, 8192),), {}),
    ("every 16th", "layout", (tensor(1 << 22, strides=(16,)),), (tensor(1 << 22),), {}),
    ("sum of rows", "reduction", (tensor(16384, 4096),), (tensor(16384),), {"function": "sum"}),
    ("softmax", "softmax", (tensor(16384, 4096, of="bf16"),), (tensor(16384, 4096, of="bf16"),), {}),
    ("gather", "gather", (tensor(1 << 26), tensor(1 << 22, of="int64")), (tensor(1 << 22),), {}),
]


@pytest.mark.parametrize(("name", "kind", "inputs", "outputs", "attrs"), PROFILED)
def test_bytes_of_memory_as_counted(
    name: str, kind: str, inputs: Specs, outputs: Specs, attrs: dict[str, Any]
) -> None:
    """Bytes through main memory within 15 % of Nsight Compute's."""
    counted = measured("memory_bytes")[name]
    # Random places cost more than their bytes: take that out again.
    extra = WARM.constants("passes.random_extra_bytes") * (1 << 22) if kind == "gather" else 0.0
    predicted = timed(kind, inputs, outputs, attrs).kernels.memory_s[0, 0]
    rate = float(WARM.memory_bytes_per_s) * WARM.constants("passes.read_share")
    assert predicted * rate - extra == pytest.approx(counted, rel=0.15)


def test_a_cold_cache_full_of_others_results_delays_a_sum() -> None:
    """Only reads: 29 MB of others' results are written back first. A copy leaves as much behind itself."""
    x = tensor(1 << 26)
    reading = [timed("reduction", (x,), (tensor(),), {"function": "sum"}, device) for device in (WARM, COLD)]
    copying = [timed("copy", (x,), (x,), {}, device) for device in (WARM, COLD)]
    delays = [cold.kernels.memory_s[0, 0] - warm.kernels.memory_s[0, 0] for warm, cold in (reading, copying)]
    assert delays[0] == pytest.approx(7e-6, rel=0.2)
    assert delays[1] == pytest.approx(0.0, abs=1e-9)
