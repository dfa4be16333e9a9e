"""What rules look at, and what they return: a change that can be predicted, alone or with others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from rooflab.model.program.forecast import Forecast, Prepared, Timed, forecast, timed
from rooflab.types.advice import Effort, Price
from rooflab.types.machine import Machine, is_main_memory
from rooflab.types.report import Report, Row
from rooflab.types.setting import Setting
from rooflab.types.work import Graph

# Linear algebra that libraries have in fp32 and fp64 alone, and whose success PyTorch asks on the host
# (`info` of LAPACK's interface, which cuSOLVER and MAGMA keep).
ON_HOST_IN_FP32 = frozenset(
    [
        *("cholesky", "cholesky_inverse", "lu", "ldl", "solve", "qr", "lstsq", "matrix_exp"),
        *("eigh", "eig", "svd", "pinv"),
    ]
)


class Case(NamedTuple):
    """A predicted program, as rules see it.

    Attributes:
        report: with its predictions.
        graph: the program as it was captured, before a compiler fused it.
        machine: that it was predicted on.
        setting: how it runs there.
        at_batch: captures the same program with another size of its batch; None where that cannot be done.
        batch: its size now; None where it is not known.
        prepared: what predictions of it share.
        as_recorded: captures it as it runs while a CUDA graph is recorded of it; None where that cannot be done.
    """

    report: Report
    graph: Graph
    machine: Machine
    setting: Setting
    at_batch: Callable[[int], Report] | None = None
    batch: int | None = None
    prepared: Prepared | None = None
    as_recorded: Callable[[], Report] | None = None

    def forecast(self, report: Report, machine: Machine, setting: Setting) -> Forecast:
        """`report` predicted, by what earlier predictions have prepared."""
        return forecast(report, machine, setting, self.prepared)

    def timed(self, report: Report, machine: Machine, setting: Setting) -> Timed:
        """`report` timed, where its rows' predictions are not asked for."""
        return timed(report, machine, setting, self.prepared)

    @property
    def time_s(self) -> float:
        """Predicted seconds of the rows that could be predicted."""
        return self.report.time_at_least_s or 0.0

    def share(self, rows: Mapping[int, Row]) -> float:
        """The share of the predicted time that `rows` take, their waits for the host included."""
        taken = sum(row.prediction.time_s for row in rows.values() if row.prediction is not None)
        return taken / self.time_s if self.time_s else 0.0

    def asking_host(self) -> tuple[str, ...]:
        """The kinds of `ON_HOST_IN_FP32` that the program has, each once."""
        return tuple(dict.fromkeys(op.kind for op in self.graph.ops if op.kind in ON_HOST_IN_FP32))

    def numbered(self, chosen: Callable[[Row], bool]) -> dict[int, Row]:
        """The predicted rows that are `chosen`, by number."""
        return {n: row for n, row in enumerate(self.report.rows) if row.prediction is not None and chosen(row)}


class Change(NamedTuple):
    """What a rule found, before it is predicted.

    Attributes:
        rule, text, evidence, rows, effort, price, code: as in `Advice` (`text` is its `change`).
        graph: takes the captured graph to the changed one; None where the program stays as it is.
        setting: what else is set, by field of `Setting`.
        machine: another one to predict on.
        program: the changed program, where it is captured anew: it does `times` the work.
        forecast: the program with the change, where the rule has predicted it already (no change is after it).
        times: how often the work of before is done in one run of the changed program.
        keywords: of `analyze`, where they say the change.
        tell: further evidence, from the program as it is predicted with the change.
    """

    rule: str
    text: str
    evidence: tuple[str, ...]
    rows: tuple[int, ...] = ()
    effort: Effort = "line"
    price: Price = "nothing"
    code: str = ""
    graph: Callable[[Graph], Graph] | None = None
    setting: Mapping[str, Any] = {}
    machine: Machine | None = None
    program: Report | None = None
    forecast: Forecast | None = None
    times: float = 1.0
    keywords: Mapping[str, Any] = {}
    tell: Callable[[Report], tuple[str, ...]] | None = None


class Unasked(NamedTuple):
    """Why a rule cannot say anything of a program."""

    rule: str
    reason: str


def memory_capacity(machine: Machine) -> float:
    """Bytes that its memory holds; any number where it states none."""
    memory = next((level for level in machine.levels if is_main_memory(level)), None)
    return float("inf") if memory is None or memory.capacity_bytes is None else memory.capacity_bytes
