"""A family's fitted constants, refitted to times that a user measured on a machine of it."""

from __future__ import annotations

import msgspec

from rooflab.types.constants import Constants
from rooflab.types.result import Result
from rooflab.units import percent


class Errors(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """|predicted / measured − 1| over rows."""

    median: float
    p90: float


class Change(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A constant that moved; `rows` times bear on it."""

    name: str
    before: float
    after: float
    rows: int
    meaning: str


class Calibration(Result, msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a calibration found.

    Attributes:
        machine, family: whose constants they are.
        timings: name of the file that the times came from, `date` the day of the fit (ISO).
        rows: times used; `dropped` says what was left out and why.
        folds: into how many parts the rows were split.
        before, after: errors on rows not used in fitting: each of the `folds` predicted by a fit on the
            others. `fitted`: errors of the final constants on the rows they were fitted to.
        changes: constants that moved, most first.
        unmoved: fitted constants that the times bear on, and that stay where they were.
        unseen: fitted constants that no time depends on.
        constants: the family with the new values.
    """

    WHAT = "a calibration"

    machine: str
    family: str
    timings: str = "timings"
    date: str | None = None
    rows: int
    folds: int
    dropped: tuple[str, ...]
    before: Errors
    after: Errors
    fitted: Errors
    changes: tuple[Change, ...]
    unmoved: tuple[str, ...]
    unseen: tuple[str, ...]
    constants: Constants
    schema: int = 1

    @property
    def name(self) -> str:
        """What was done."""
        return f"{self.machine}: constants of {self.family} refitted to {self.rows} times"

    @property
    def helps(self) -> bool:
        """Whether rows that were not used in fitting are predicted better than before."""
        return self.after.median < self.before.median

    def _summary(self) -> str:
        before, after = percent(self.before.median, 1), percent(self.after.median, 1)
        return f"{self.name}, median error {before} before, {after} after"
