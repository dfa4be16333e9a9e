"""The answer to "what will limit this?": rows of operations with their cost, on a machine where one is given."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from typing import Any, Unpack

import msgspec

from rooflab.types.advice import Advices
from rooflab.types.groups import Group, GroupBy, grouped
from rooflab.types.machine import Machine
from rooflab.types.own_time import Measurement, OwnTime
from rooflab.types.prediction import Bound, Prediction
from rooflab.types.report_check import check
from rooflab.types.result import Positive, Result, convert
from rooflab.types.row import Row
from rooflab.types.setting import Setting, SettingChanges
from rooflab.types.work import Flop, Graph, Op, Phase
from rooflab.units import duration, si

SCHEMA = 1


class Coverage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much of the program was counted.

    Attributes:
        ops, counted: operations (loop trips not multiplied), and those with a cost.
        bytes_share: the counted operations' share of all tensor bytes; None where no operation has any.
        uncounted: names of the operations without a cost, with how often each occurs.
        reasons: by those names, why.
        unknown: what could not be followed, with the reason.
    """

    ops: int
    counted: int
    bytes_share: float | None
    uncounted: dict[str, int] = {}
    reasons: dict[str, str] = {}
    unknown: tuple[str, ...] = ()

    @property
    def share(self) -> float:
        """Counted operations, 0 to 1; 1 for an empty program."""
        return self.counted / self.ops if self.ops else 1.0

    @property
    def complete(self) -> bool:
        """Whether every operation was counted and everything was followed."""
        return self.counted == self.ops and not self.unknown


class PeakMemory(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Bytes that must be held, each kind apart at its own most; tied tensors once.

    Attributes:
        gradients_bytes: of parameters; those of activations count as activations.
        activations_bytes: what operations hand to each other, results included.
        kv_cache_bytes: keys and values kept from one call to the next.
        most_bytes: the most that is held at one moment. The kinds need not peak together, so it can be less
            than their sum.
        at: the operation during which that is, as its number in `Graph.ops`; None without any.
    """

    parameters_bytes: float
    buffers_bytes: float
    gradients_bytes: float
    optimizer_state_bytes: float
    activations_bytes: float
    kv_cache_bytes: float
    inputs_bytes: float
    most_bytes: float
    at: int | None = None


class Report(Result, msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a program asks for, row by row.

    Totals of FLOP and bytes are sums over the counted rows: `coverage` says what is missing from them. A time is
    of the whole program or it is None: then `time_at_least_s` has that of the rows which could be predicted.

    Attributes:
        name: of what was analyzed.
        graph: tensors and operations.
        rows: one per operation, in order.
        conventions: what the numbers mean ("one multiply-add is 2 FLOP", "attention: fused", …).
        machine: the one that bounds and predictions were computed for.
        environment: versions of what captured it.
        setting: how it was taken to run there.
        prediction: of the whole program: its rows together, with what lies between them; None where a row that
            takes time has no prediction.
        predicted_part: of the rows that could be predicted, where some could not.
        warnings: what a reader must know before trusting a number: memory that does not fit, a format that
            the machine lacks.
        captured: the program before it was fused, where `graph` and `rows` are those of a compiler.
        advice: what would help; None where it was not asked.
        measured_s: what the whole program took by a clock; None where that is not known (see `with_times`).
        measurement: how that, and the observations of the rows, were taken; None without any.
        own_times: measured times held against their predictions: the program's, then those of rows.
    """

    NEWEST = SCHEMA
    WHAT = "a report"
    DERIVED = ("totals",)

    name: str
    graph: Graph
    rows: tuple[Row, ...]
    coverage: Coverage
    memory: PeakMemory
    conventions: tuple[str, ...]
    machine: Machine | None = None
    environment: dict[str, str] = {}
    setting: Setting | None = None
    prediction: Prediction | None = None
    predicted_part: Prediction | None = None
    warnings: tuple[str, ...] = ()
    captured: Graph | None = None
    advice: Advices | None = None
    measured_s: Positive | None = None
    measurement: Measurement | None = None
    own_times: tuple[OwnTime, ...] = ()
    schema: int = SCHEMA

    @property
    def time_s(self) -> float | None:
        """Predicted seconds of the whole program; None without a machine, and where a part has no prediction."""
        return None if self.prediction is None else self.prediction.time_s

    @property
    def time_at_least_s(self) -> float | None:
        """Predicted seconds of the rows that could be predicted: all, or those of `predicted_part`."""
        known = self.prediction or self.predicted_part
        return None if known is None else known.time_s

    @property
    def unpredicted(self) -> tuple[Row, ...]:
        """The rows that take time but have no prediction: uncounted, or in a format without a peak there."""
        return tuple(row for row in self.rows if row.takes_time and row.prediction is None)

    @property
    def missing(self) -> str:
        """What a prediction of the whole lacks, in words; empty where there is one, or no machine."""
        if self.predicted_part is None:
            return ""
        rows, turns = len(self.unpredicted), len(self.coverage.unknown)
        if rows:
            return f"{rows:,} operation{'' if rows == 1 else 's'} without a prediction"
        return f"{turns:,} part{'' if turns == 1 else 's'} of it not followed"

    @property
    def low_s(self) -> float | None:
        """Lower end of the error bar of `time_s`."""
        return None if self.prediction is None else self.prediction.low_s

    @property
    def high_s(self) -> float | None:
        """Upper end of the error bar of `time_s`."""
        return None if self.prediction is None else self.prediction.high_s

    @property
    def bound(self) -> Bound | None:
        """What binds the program as a whole; None without a machine."""
        return None if self.prediction is None else self.prediction.bound

    @property
    def binds(self) -> str | None:
        """The level, engine or overhead behind `bound`."""
        return None if self.prediction is None else self.prediction.binds

    @property
    def flop(self) -> float:
        """FLOP of all counted rows, a multiply-add as 2."""
        return _total(row.flop for row in self.rows)

    @property
    def matrix_flop(self) -> float:
        """FLOP of products of matrices, convolution and attention included: what most counters call FLOP."""
        return _total(row.matrix_flop for row in self.rows)

    @property
    def macs(self) -> float:
        """Multiply-adds of products of matrices, convolution and attention included."""
        return _total(row.macs for row in self.rows)

    @property
    def flop_by(self) -> tuple[Flop, ...]:
        """FLOP by engine and number format, most first."""
        counts: dict[tuple[Any, str], float] = {}
        for row in self.rows:
            for one in () if row.cost is None else row.cost.flop:
                key = (one.engine, one.dtype)
                counts[key] = counts.get(key, 0) + one.count * row.op.count
        return tuple(Flop(*key, count) for key, count in sorted(counts.items(), key=lambda item: -item[1]))

    @property
    def read_bytes(self) -> float:
        """Compulsory bytes read: each operation reads each of its tensors once."""
        return _total(row.read_bytes for row in self.rows)

    @property
    def write_bytes(self) -> float:
        """Compulsory bytes written: each operation writes each of its results once."""
        return _total(row.write_bytes for row in self.rows)

    @property
    def nbytes(self) -> float:
        """Compulsory bytes both ways."""
        return self.read_bytes + self.write_bytes

    @property
    def accessed_bytes(self) -> float | None:
        """Bytes of every load and store instruction; None where a counted row's are not known."""
        counted = [row.accessed_bytes for row in self.rows if row.cost is not None]
        return None if any(each is None for each in counted) else _total(counted)

    @property
    def wire_bytes(self) -> float:
        """Bytes that each rank sends in collectives."""
        return _total(row.cost.wire_bytes * row.op.count for row in self.rows if row.cost is not None)

    @property
    def intensity(self) -> float | None:
        """FLOP per compulsory byte; None where no byte is moved."""
        return self.flop / self.nbytes if self.nbytes else None

    @property
    def parameters(self) -> int:
        """Number of elements of all parameters, tied ones once."""
        return sum(spec.elements for spec in self.graph.held("parameter"))

    @property
    def parameter_bytes(self) -> float:
        """Bytes of all parameters, tied ones once."""
        return self.memory.parameters_bytes

    @property
    def peak_memory_bytes(self) -> float:
        """The most that is held at one moment; `memory` has its parts."""
        return self.memory.most_bytes

    def by(self, key: GroupBy, phase: Phase | None = None) -> tuple[Group, ...]:
        """Subtotals that add up to the totals.

        Args:
            key: "module": a tree, each module before those in it (`Group.depth`); "kind" or "op": most
                predicted time first, then FLOP, then bytes.
            phase: only the rows of the forward pass, the backward pass or the optimizer.

        Raises:
            RooflabError: another key.
        """
        return grouped([row for row in self.rows if phase in (None, row.op.phase)], key)

    def on(self, machine: Machine | str | PathLike[str], **changes: Unpack[SettingChanges]) -> Report:
        """This report with each row predicted on `machine` (a `Machine`, or a name or file of one).

        Args:
            machine: to predict on.
            changes: of how it runs (see `SettingChanges`); what is not given is as in this report.
        """
        from rooflab.story import predict

        return predict(self, machine, **changes)

    def with_times(
        self,
        times: str | float | Mapping[int | str, Any] | Sequence[Any],
        *,
        total: str | float | None = None,
        sums: bool = False,
        explain: bool = True,
    ) -> Report:
        """This report with times of your own: each a share of its roof, of its floor, of its prediction.

        Where a time lies outside its bar, `own_times` says what would explain it: each suspect (cold caches,
        another number format, no synchronisation, …) is predicted, and holds where its bar holds the time.

        Args:
            times: one time, of the whole program; or times by row: a mapping from a row's number, an operation's
                name ("aten.addmm") or a module's path, or a sequence with one for each row, None where not known.
                A time is text with its unit ("660 us") or seconds. Where several rows have a name, its value is a
                sequence of as many times, in their order. Each is of all executions of the row (`op.count`).
            total: the time of the whole program beside those of its rows.
            sums: one time for a name of several rows is of all of them together. That of a module always is.
            explain: False leaves out what would explain a time: an answer at once for thousands of rows.

        Raises:
            UnknownNameError: no such operation or module, with near matches.
            RooflabError: a report without a machine, a time that is none or has no unit, one name for several
                rows, more times than rows.
        """
        from rooflab.story import with_times

        return with_times(self, times, total=total, sums=sums, explain=explain)

    @property
    def measured_rows_s(self) -> float | None:
        """The sum of the rows' measured times; None where no row has one."""
        found = [row.observation.time_s for row in self.rows if row.observation is not None]
        return sum(found) if found else None

    @property
    def unmeasured(self) -> tuple[Row, ...]:
        """The rows that take time and have no measured one."""
        return tuple(row for row in self.rows if row.takes_time and row.observation is None)

    def _summary(self) -> str:
        coverage = f"{self.coverage.counted} of {self.coverage.ops} operations counted"
        if self.predicted_part is not None and self.machine is not None:
            least = f"> {duration(self.predicted_part.time_s)}, {self.missing}"
            return f"{self.name} on {self.machine.name}: {least}; {coverage}"
        if self.prediction is None or self.machine is None:
            least = "" if self.coverage.complete else "> "
            return f"{self.name}: {coverage}, {least}{si(self.flop, 'FLOP')}, {least}{si(self.nbytes, 'B')}"
        time = f"{duration(self.prediction.time_s)}, {self.bound} ({self.binds})"
        return f"{self.name} on {self.machine.name}: {time}; {coverage}"

    @property
    def _lower_bounds(self) -> tuple[str, ...]:
        """The totals that leave out what is not counted."""
        return () if self.coverage.complete else _SUMS

    def to_dict(self) -> dict[str, Any]:
        """Plain dictionaries, lists and numbers, as the JSON file holds them; read back by `from_dict`."""
        slim = msgspec.structs.replace(self, graph=msgspec.structs.replace(self.graph, ops=()))
        # Where nothing was counted the totals are unknown: not zero.
        counted = self.coverage.counted or not self.rows
        totals = {name: getattr(self, name) if counted or name in _HELD else None for name in _TOTALS}
        # The operations are in the rows: once is enough.
        return {**Result.to_dict(slim), "totals": {**totals, "lower_bounds": list(self._lower_bounds)}}

    @classmethod
    def from_dict(cls, raw: dict[str, Any]) -> Report:
        """The report that `to_dict` was called on (see `Result.from_dict`)."""
        # The totals are there for other programs: they follow from the rows.
        report = convert(cls, raw)
        check(report)
        replace = msgspec.structs.replace
        # Rows of a repeated block share one cost, as they did: predictions look at each once.
        costs = {row.cost: row.cost for row in report.rows}
        rows = tuple(replace(row, op=_plain(row.op), cost=costs[row.cost]) for row in report.rows)
        graph, captured = replace(report.graph, ops=tuple(row.op for row in rows)), report.captured
        if captured is not None:
            captured = replace(captured, ops=tuple(map(_plain, captured.ops)))
        return replace(report, rows=rows, graph=graph, captured=captured)


_TOTALS = (
    "time_s",
    "time_at_least_s",
    "low_s",
    "high_s",
    "bound",
    "binds",
    "flop",
    "matrix_flop",
    "macs",
    "read_bytes",
    "write_bytes",
    "nbytes",
    "accessed_bytes",
    "wire_bytes",
    "intensity",
    "parameters",
    "parameter_bytes",
    "peak_memory_bytes",
)


# Sums over the counted rows: more where a row is not counted.
_SUMS = ("flop", "matrix_flop", "macs", "read_bytes", "write_bytes", "nbytes", "accessed_bytes", "wire_bytes")
_HELD = ("parameters", "parameter_bytes", "peak_memory_bytes")  # known without a formula


def _total(values: Iterable[float | None]) -> float:
    # Whole numbers stay exact where they are beyond a float's 2**53.
    return sum([value for value in values if value is not None])


def _plain(op: Op) -> Op:
    return msgspec.structs.replace(op, attrs=_hashable(op.attrs))


def _hashable(value: Any) -> Any:
    """`value` with tuples where JSON has lists."""
    if isinstance(value, dict):
        return {key: _hashable(each) for key, each in value.items()}
    return tuple(map(_hashable, value)) if isinstance(value, list) else value
