"""Each kernel's result against NumPy's, once, before it is timed: a kernel that computes nothing is fast."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from rooflab.errors import MeasureError
from rooflab.machines.bench.experiments.bandwidth import StreamForm
from rooflab.machines.bench.experiments.peaks import PeakForm
from rooflab.machines.bench.kernels.emit import interleaved
from rooflab.machines.bench.kernels.expression import FOLDS, Window
from rooflab.machines.bench.kernels.ir import RESULT_OFFSET_BYTES
from rooflab.machines.bench.run.arena import LINE_BYTES, Arena
from rooflab.machines.bench.run.pinned_threads import Job
from rooflab.machines.bench.run.trials import Bench

NUMPY_TYPES: dict[str, type[np.generic]] = {
    "fp64": np.float64,
    "fp32": np.float32,
    "fp16": np.float16,
    "int64": np.int64,
    "int32": np.int32,
    "int8": np.int8,
}
_ITERATIONS = 5
_S, _T = 0.5, 1.0


def verify_stream(bench: Bench, form: StreamForm, arena: Arena, cpu: int) -> None:
    """Run a streaming kernel over random data and compare what it wrote or folded with NumPy.

    Raises:
        MeasureError: the results differ; no figure of this kernel would mean anything.
    """
    kernel, row = bench.kernels[form.symbol], form.row
    nbytes = kernel.emitted.step_bytes * _ITERATIONS
    kind = NUMPY_TYPES[row.dtype]
    # With several places they follow each other, `nbytes` apart: together one window.
    whole, margin = nbytes * form.variant.places, 2 * LINE_BYTES
    count = whole // np.dtype(kind).itemsize
    each = (whole + 4 * margin) // LINE_BYTES * LINE_BYTES
    streams = row.expression.streams
    data = {name: arena.view(kind, k * each, each) for k, name in enumerate(streams)}
    for array in data.values():
        # Small whole numbers: every sum and product is exact, in whatever order it is computed.
        array[:] = bench.rng.integers(-50, 50, array.size).astype(kind)
    start = margin // np.dtype(kind).itemsize
    width = start
    windows: dict[str, object] = {name: Window(array.copy(), start, count) for name, array in data.items()}
    expected = row.expression.evaluate({**windows, "s": kind(_S), "t": kind(_T), "i": 0, "w": width})
    addresses = [arena.address + k * each + margin for k in range(len(streams))] + [arena.address] * 3
    by_name = dict(zip(streams, addresses, strict=False))
    a, b, c = (by_name.get(name, arena.address) for name in "abc")
    if form.variant.places > 1:
        width = nbytes
    job = Job(cpu, kernel, _ITERATIONS, a=a, b=b, c=c, nbytes=nbytes, width=width, s=_S, t=_T)
    bench.pinned.run([job])
    if row.expression.fold:
        lanes = kernel.emitted.results * form.simd.lanes(row.dtype)
        fold = FOLDS[row.expression.fold]
        got, expected = fold(bench.pinned.results(cpu, kind, lanes)), fold(expected)
    else:
        (target,) = row.expression.writes
        got = data[target][start : start + count]
    if not np.array_equal(got, np.broadcast_to(expected, np.shape(got))):
        raise MeasureError(_wrong(form.symbol, got, expected))


def verify_peak(bench: Bench, form: PeakForm, arena: Arena, cpu: int) -> None:
    """Run a computing kernel for a few iterations and compare every chain with NumPy.

    The start values, s and t are small binary fractions, so that every step is exact in every format.

    Raises:
        MeasureError: the results differ.
    """
    row, kernel = form.row, bench.kernels[form.emitted.symbol]
    kind = NUMPY_TYPES[row.accumulate or row.dtype]
    lanes = form.simd.lanes(row.accumulate or row.dtype)
    arena.view(kind, 0, 4 * LINE_BYTES)[:] = 1
    constants = _ones(arena, row.dtype)
    bench.pinned.run([Job(cpu, kernel, _ITERATIONS, a=arena.address, b=constants, s=_S, t=_T)])
    chains = list(interleaved(row, form.simd))
    got = bench.pinned.results(cpu, kind, lanes * len(chains)).reshape(len(chains), lanes)
    for place, expression in enumerate(chains):
        value = kind(1)
        for _ in range(_ITERATIONS * row.repeat):
            names = {
                "x": value,
                "s": kind(_S),
                "t": kind(_T),
                "p": kind(1),
                "q": kind(1),
                "dot": _dot(row.dtype, kind),
            }
            value = kind(expression.evaluate(names))
        if not (got[place] == value).all():
            raise MeasureError(_wrong(f"{form.emitted.symbol} chain {place}", got[place], value))
    arena.touch(0, 8 * LINE_BYTES + RESULT_OFFSET_BYTES)


def verify_clock(bench: Bench, arena: Arena, cpu: int) -> None:
    """Run the clock's chain for a few iterations and compare with plain integers.

    Raises:
        MeasureError: the results differ: the chain was folded, and the clock would be a fantasy.
    """
    kernel, step = bench.kernels["clock"], 0x5DEECE66D
    arena.view(np.int64, 0, LINE_BYTES)[:] = 7
    bench.pinned.run([Job(cpu, kernel, _ITERATIONS, a=arena.address, width=step)])
    value = 7
    for k in range(_ITERATIONS * kernel.emitted.operations):
        value = value ^ step if k % 2 else value + step
    got = int(bench.pinned.results(cpu, np.int64, 1)[0])
    if got != value:
        raise MeasureError(_wrong("clock", got, value))


def verify_all(
    bench: Bench, streams: Iterable[StreamForm], peaks: Iterable[PeakForm], arena: Arena, cpu: int
) -> None:
    """Verify every kernel that will be timed.

    Raises:
        MeasureError: the first one whose result is wrong.
    """
    verify_clock(bench, arena, cpu)
    for form in streams:
        verify_stream(bench, form, arena, cpu)
    for peak in peaks:
        verify_peak(bench, peak, arena, cpu)


def _ones(arena: Arena, dtype: str) -> int:
    """The address of a line's worth of ones of `dtype`, behind the start values."""
    offset = 4 * LINE_BYTES
    if dtype == "bf16":
        arena.view(np.uint16, offset, 4 * LINE_BYTES)[:] = 0x3F80  # 1.0
    else:
        arena.view(NUMPY_TYPES[dtype], offset, 4 * LINE_BYTES)[:] = 1
    return arena.address + offset


def _dot(dtype: str, kind: type[np.generic]) -> object:
    group = np.dtype(kind).itemsize // (2 if dtype == "bf16" else np.dtype(NUMPY_TYPES.get(dtype, kind)).itemsize)

    def dot(total: np.generic, left: np.generic, right: np.generic) -> np.generic:
        return total + kind(group) * left * right  # type: ignore[operator]

    return dot


def _wrong(name: str, got: Any, expected: Any) -> str:
    return (
        f"kernel {name}: wrong result (got {np.ravel(got)[:4]}, expected {np.ravel(expected)[:4]}); "
        "nothing was measured; please report this with the output of `rooflab measure --json` of another machine"
    )
