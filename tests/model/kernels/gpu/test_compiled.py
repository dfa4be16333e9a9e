"""A compiler's kernels: bytes at the rate of a stream, whatever is fused in or broadcast."""

from __future__ import annotations

from typing import Any

import pytest

import rooflab
from rooflab.model.kernels.gpu import compiled
from rooflab.types.report import Row
from rooflab.types.work import Op

torch = pytest.importorskip("torch")
F = torch.nn.functional


def kernel(function: Any, *shapes: tuple[int, ...], mode: Any = "compiled") -> Row:
    """The only kernel that `function` becomes on an H200."""
    inputs = [torch.empty(shape, device="meta", dtype=torch.bfloat16) for shape in shapes]
    with torch.no_grad():
        report = rooflab.analyze(function, *inputs, machine="h200", mode=mode)
    return report.rows[0]


def seconds(row: Row) -> float:
    assert row.prediction is not None
    return row.prediction.time_s


def test_only_what_a_compiler_wrote() -> None:
    """An operation of a library has no members."""
    row = kernel(torch.relu, (1024, 1024), mode="graph")
    assert row.cost is not None
    assert compiled.features(Op(kind="pointwise", name="relu"), (), (), row.cost) is None


def test_large_kernels_run_at_the_memory_s_rate() -> None:
    """512 MB in and out of a chain of four: between 4.8 TB/s and two thirds of it."""
    row = kernel(lambda x: torch.relu(x * 2 + 1) * x, (16384, 8192))
    assert row.nbytes == 2 * 2 * 16384 * 8192
    assert 4.8e12 * 2 / 3 < row.nbytes / seconds(row) < 4.8e12


def test_broadcast_operands_cost_nothing_beyond_their_bytes() -> None:
    """A row of weights added to every row."""
    plain, broadcast = (kernel(lambda x, w: x + w, (16384, 8192), shape) for shape in ((1, 1), (8192,)))
    assert seconds(broadcast) == pytest.approx(seconds(plain), rel=0.02)


def test_a_norm_with_what_feeds_it_is_one_pass() -> None:
    """x + y and its norm: two tensors in, two out; as long as any kernel that moves as much."""
    norm = kernel(
        lambda x, y, w: (s := x + y, F.rms_norm(s, (4096,), w) + s)[1], (32768, 4096), (32768, 4096), (4096,)
    )
    add = kernel(lambda x, y: x + y, (32768, 4096), (32768, 4096))
    assert norm.op.kind == "norm"
    assert seconds(norm) == pytest.approx(seconds(add), rel=0.15)


def test_rows_of_a_table_are_read_not_the_table() -> None:
    """One token's embedding and its norm: microseconds, though the table has a gigabyte."""
    table = torch.nn.Embedding(128256, 4096, device="meta", dtype=torch.bfloat16)
    weight = torch.empty(4096, device="meta", dtype=torch.bfloat16)
    ids = torch.empty((1, 1), device="meta", dtype=torch.long)
    with torch.no_grad():
        report = rooflab.analyze(
            lambda i: F.rms_norm(table(i), (4096,), weight), ids, machine="h200", mode="compiled"
        )
    (row,) = report.rows
    assert seconds(row) < 5e-6
