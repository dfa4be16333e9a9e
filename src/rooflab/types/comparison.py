"""What differs between results: totals, operations matched, time by cause, conditions held against it."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from rooflab.types.machine import Machine
from rooflab.types.result import Result, convert
from rooflab.units import duration

SCHEMA = 1

Verdict = Literal["less", "more", "same", "unsure", "unknown"]
Status = Literal["matched", "changed", "fused", "added", "removed"]
Outcome = Literal["passed", "failed", "within error", "unknown"]
Timing = Literal["predicted", "measured", ""]


class Side(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One of the results that are compared.

    Attributes:
        name: what it is called here: its file, or its own name, told apart from the others.
        kind: the type of the result.
        timing: whether its times are "predicted" or "measured"; "" for a result without any.
        machine: that it ran on, or was predicted on.
        mode: that it was predicted in.
        samples: the leading size of the program's inputs, where all have the same; None where unknown.
        formats: engines and number formats of its work: whose roofs are drawn.
    """

    name: str
    kind: str
    timing: Timing = ""
    machine: Machine | None = None
    mode: str = ""
    samples: float | None = None
    formats: tuple[tuple[str, str], ...] = ()


class Value(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A number of one side.

    Attributes:
        value: in the amount's unit.
        low, high: its error bar; None where it has none, or where it is not known.
        least: whether something is left out of it: the whole is this or more.
    """

    value: float
    low: float | None = None
    high: float | None = None
    least: bool = False


class Amount(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One number of both sides.

    Attributes:
        metric: "time", "flop", "bytes", "memory", "HBM read", …
        unit: "s", "FLOP", "B", "J", "FLOP/s", "B/s", "share" (0 to 1), or "" for a count.
        base, other: None where unknown.
        verdict: "less" or "more" of it in the other; "same" where error bars hold the difference; "unsure" where
            they are not known; "unknown" where it cannot be compared, as `why` says.
        low, high: what the difference is in about four of five cases, where error bars are known.
        per_sample: whether both were divided by the samples of their side.
    """

    metric: str
    unit: str
    base: Value | None
    other: Value | None
    verdict: Verdict
    why: str = ""
    low: float | None = None
    high: float | None = None
    per_sample: bool = False

    @property
    def change(self) -> float | None:
        """Other less base; None where either is unknown, or only a lower bound."""
        if self.base is None or self.other is None or self.base.least or self.other.least:
            return None
        return self.other.value - self.base.value

    @property
    def relative(self) -> float | None:
        """The change as a share of the base: 0.05 for 5 % more; None where unknown, or where the base is zero."""
        change = self.change
        return None if change is None or self.base is None or not self.base.value else change / self.base.value


class Measure(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An operation on one side, all its executions together, divided as the difference says.

    Attributes:
        count: executions; `launches` kernels that the device starts for them.
        time_s: with the error bar `low_s` to `high_s`.
        overhead_s: of the time, what is neither moving nor computing; None where it cannot be told apart.
        roof_compute_s, roof_memory_s: seconds of its FLOP and bytes at the machine's theoretical rates.
    """

    count: float = 1
    time_s: float | None = None
    low_s: float | None = None
    high_s: float | None = None
    flop: float | None = None
    nbytes: float | None = None
    launches: float | None = None
    overhead_s: float | None = None
    roof_compute_s: float | None = None
    roof_memory_s: float | None = None
    bound: str | None = None
    binds: str | None = None

    @property
    def intensity(self) -> float | None:
        """FLOP per byte; None where unknown, or where no byte is moved."""
        return self.flop / self.nbytes if self.flop is not None and self.nbytes else None

    @property
    def flop_per_s(self) -> float | None:
        """FLOP over time; None where unknown."""
        return self.flop / self.time_s if self.flop is not None and self.time_s else None


class Term(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A part of the difference in time: seconds that one cause adds, or saves where below zero.

    Attributes:
        cause: "bytes", "FLOP", "roofs" (of the machine, for the number format), "efficiency" (how near the roofs),
            "launches" (how many), "overhead" (of each launch), "added" or "removed" operations, "not told apart".
    """

    cause: str
    seconds: float


class Change(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An operation of the base and what stands in its place on the other side.

    Attributes:
        status: "matched" (the same work), "changed" (other sizes, formats or names), "fused" (several became
            fewer, or the other way round), "added" or "removed".
        name, module, shapes: in the base; of the other where it is not there.
        other_name, other_shapes: where they differ.
        base, other: their numbers; None where it is not there.
        verdict: on its time, as in `Amount`.
        terms: what its difference in time comes from; they add up to it. None where a time is unknown.
    """

    status: Status
    name: str
    module: str = ""
    shapes: str = ""
    other_name: str = ""
    other_shapes: str = ""
    base: Measure | None = None
    other: Measure | None = None
    verdict: Verdict = "unknown"
    low_s: float | None = None
    high_s: float | None = None
    terms: tuple[Term, ...] = ()

    @property
    def change_s(self) -> float | None:
        """Seconds more on the other side; None where a time is unknown."""
        base = 0.0 if self.base is None else self.base.time_s
        other = 0.0 if self.other is None else self.other.time_s
        return None if base is None or other is None else other - base


class Followed(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An advice that the base had, and what became of it in the other result.

    Attributes:
        rule, change: of the advice.
        status: "made" where the other is not advised so any more, "not made" where it still is; "unknown" where
            the other was not asked.
        before_s: the time that the advice was given for.
        predicted_s: what it was to save, `low_s` to `high_s` in about four of five cases; None of several.
        obtained_share: what the whole saved, as a share of the base's time; None where the change was not made, or
            others were made with it: what each of several saved is not known.
        after: rules of the changes that it was predicted after, so that `before_s` is less than the base's time.
    """

    rule: str
    change: str
    status: Literal["made", "not made", "unknown"]
    before_s: float
    predicted_s: float
    low_s: float | None = None
    high_s: float | None = None
    obtained_share: float | None = None
    after: tuple[str, ...] = ()

    @property
    def predicted_share(self) -> float:
        """What it was to save, as a share of the time that it was given for."""
        return self.predicted_s / self.before_s if self.before_s else 0.0


class Difference(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The base held against one other side.

    Attributes:
        other: that side, by its number in `Comparison.sides`.
        amounts: totals and other numbers of the whole.
        terms: what the difference in time comes from, largest first; they add up to the rows' difference.
        idle: of profiles with a timeline, what the devices' wall time has more beside the operations: "idle: …" by
            cause, then "at once" (what ran beside each other); with `terms` they add up to its difference.
        rows: operations, most difference first.
        base_divisor, other_divisor: what the numbers of each side were divided by: samples, or runs.
        divided: by what, in a word: "sample", "run"; "" where nothing was.
        notes: how it was compared, and what could not be.
        followed: advice that the base had, rechecked.
    """

    other: int
    amounts: tuple[Amount, ...]
    terms: tuple[Term, ...] = ()
    idle: tuple[Term, ...] = ()
    rows: tuple[Change, ...] = ()
    base_divisor: float = 1
    other_divisor: float = 1
    divided: str = ""
    notes: tuple[str, ...] = ()
    followed: tuple[Followed, ...] = ()

    def amount(self, metric: str) -> Amount | None:
        """The amount of that metric; None where neither side has it."""
        return next((one for one in self.amounts if one.metric.casefold() == metric.casefold()), None)

    def shared(self) -> tuple[float, float] | None:
        """The shares of both sides' time with a counterpart on the other side; None where unknown."""
        shares = []
        for name in ("base", "other"):
            held = [getattr(row, name) for row in self.rows if getattr(row, name) is not None]
            met = [getattr(row, name) for row in self.rows if row.status not in ("added", "removed")]
            times = [one.time_s for one in held]
            if not times or any(one is None for one in times) or not sum(times):
                return None
            shares.append(sum(one.time_s for one in met if one is not None) / sum(times))
        return shares[0], shares[1]

    def count(self, status: Status) -> int:
        """How many operations have that status."""
        return sum(1 for row in self.rows if row.status == status)


class Gate(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A condition under which a comparison fails, and whether it does.

    Attributes:
        condition: as it was written: "time>+5%".
        against: the other side that it was held against.
        outcome: "failed" where it holds; "within error" where it would, but error bars hold the difference;
            "unknown" where a number that it needs is not known: that is no pass.
        says: the numbers behind it, in a sentence.
    """

    condition: str
    against: str
    outcome: Outcome
    says: str


class Comparison(Result, msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Results held against the first of them.

    Attributes:
        name: which.
        sides: the results; the first is the base.
        differences: the base against each other side, in their order.
        gates: conditions that were given, each held against each other side.
    """

    NEWEST = SCHEMA
    WHAT = "a comparison"

    name: str
    sides: tuple[Side, ...]
    differences: tuple[Difference, ...]
    gates: tuple[Gate, ...] = ()
    schema: int = SCHEMA

    @property
    def ok(self) -> bool:
        """Whether no condition failed; one that could not be told has failed too."""
        return all(gate.outcome in ("passed", "within error") for gate in self.gates)

    def _summary(self) -> str:
        parts = []
        for one in self.differences:
            time = one.amount("time")
            if time is not None and time.relative is not None:
                parts.append(f"{self.sides[one.other].name} {time.relative * 100:+.1f} % time ({time.verdict})")
        time = self.differences[0].amount("time") if self.differences else None
        base = None if time is None else time.base
        begin = self.sides[0].name if base is None else f"{self.sides[0].name} {duration(base.value)}"
        return "; ".join([begin, *parts])

    @classmethod
    def from_dict(cls, raw: dict[str, Any]) -> Comparison:
        """The comparison that `to_dict` was called on (see `Result.from_dict`)."""
        return convert(cls, raw)
