"""A time of the user's own: how it was taken, what it is a share of, and what would explain it."""

from __future__ import annotations

from typing import Literal

import msgspec

Verdict = Literal["inside", "slower", "faster", "below floor", "unknown"]


class Observed(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The measured time of one operation, all its executions together.

    Attributes:
        time_s: the median where it was timed here, else what was given.
        low_s, high_s: the 10th and 90th percentile of single runs, times the executions; None where not known.
        runs: how often it was timed; None where not known.
    """

    time_s: float
    low_s: float | None = None
    high_s: float | None = None
    runs: int | None = None


class Measurement(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the measured times of a report were taken.

    Attributes:
        by: "given" (the user's own numbers) or "timed here".
        notes: what to know of them: threads, caches, other load.
    """

    by: Literal["given", "timed here"]
    notes: tuple[str, ...] = ()


class Suspect(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Something that may be otherwise than was said, with the time that is predicted where it is.

    Attributes:
        rule: its name ("cold caches").
        says: what would be so, in a sentence without a stop.
        hint: how to find out, or what to do.
        time_s, low_s, high_s: predicted with it: best guess and bar.
        holds: whether the measured time lies in that bar: it would explain it.
    """

    rule: str
    says: str
    hint: str
    time_s: float
    low_s: float
    high_s: float
    holds: bool


class OwnTime(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One measured time held against its prediction.

    Attributes:
        name: of what was timed.
        rows: numbers of the report's rows that took `time_s` together; all of them for the program.
        time_s: measured.
        predicted_s, low_s, high_s, floor_s: of the same; None where it has no prediction.
        roof: the nearest roof: the level or unit of which the largest share was reached.
        of_roof: that share, 0 to 1; over 1 the work did not go through that roof, or did not take that time.
        verdict: where the time lies: inside the prediction's bar, slower, faster, or below the floor.
        suspects: what would explain a time outside the bar, those that do first, then the nearest.
    """

    name: str
    rows: tuple[int, ...]
    time_s: float
    predicted_s: float | None = None
    low_s: float | None = None
    high_s: float | None = None
    floor_s: float | None = None
    roof: str | None = None
    of_roof: float | None = None
    verdict: Verdict = "unknown"
    suspects: tuple[Suspect, ...] = ()

    @property
    def of_floor(self) -> float | None:
        """The floor over the measured time: 1 at best, over 1 where it cannot be true; None without a floor."""
        return self.floor_s / self.time_s if self.floor_s else None

    @property
    def of_prediction(self) -> float | None:
        """Measured over predicted; None without a prediction."""
        return self.time_s / self.predicted_s if self.predicted_s else None

    @property
    def explained_by(self) -> tuple[Suspect, ...]:
        """The suspects in whose bars the measured time lies."""
        return tuple(one for one in self.suspects if one.holds)
