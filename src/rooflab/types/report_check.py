"""What a report's file must also hold to be one: operations of tensors that are there, and no negative numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rooflab.errors import RooflabError

if TYPE_CHECKING:
    from rooflab.types.report import Report
    from rooflab.types.work import Op

_SECONDS = ("time_s", "low_s", "high_s", "floor_s", "compute_s", "overhead_s", "host_s", "kernels")


def check(report: Report) -> None:
    """Nothing, for a report that can have been saved.

    Raises:
        RooflabError: a hand has been at it; it says where and what was expected.
    """
    _indexes(tuple(row.op for row in report.rows), len(report.graph.tensors), "rows[{}].op")
    if report.captured is not None:
        _indexes(report.captured.ops, len(report.captured.tensors), "captured.ops[{}]")
    for name in ("prediction", "predicted_part"):
        _not_negative(getattr(report, name), name)
    for number, row in enumerate(report.rows):
        _not_negative(row.prediction, f"rows[{number}].prediction")
        if row.cost is not None and (row.cost.total_flop < 0 or row.cost.compulsory.nbytes < 0):
            raise RooflabError(f"not a report: a negative number in rows[{number}].cost, expected 0 or more")


def _indexes(ops: Sequence[Op], count: int, place: str) -> None:
    for number, op in enumerate(ops):
        for index in (*op.inputs, *op.outputs):
            if not 0 <= index < count:
                where = place.format(number)
                raise RooflabError(f"not a report: {where} is of tensor {index}, expected 0 to {count - 1}")


def _not_negative(prediction: Any, place: str) -> None:
    if prediction is None:
        return
    for name in _SECONDS:
        if getattr(prediction, name) < 0:
            found = getattr(prediction, name)
            raise RooflabError(f"not a report: {place}.{name} is {found:g}, expected 0 or more")
    for level, seconds in prediction.memory_s.items():
        if seconds < 0:
            raise RooflabError(f"not a report: {place}.memory_s[{level!r}] is {seconds:g}, expected 0 or more")
