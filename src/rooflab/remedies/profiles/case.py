"""What a rule finds in a profile: a cause of lost time, and the time with that cause taken out."""

from __future__ import annotations

from typing import NamedTuple


class Saving(NamedTuple):
    """Measured seconds that a change saves: best guess, the least and the most."""

    best_s: float
    low_s: float
    high_s: float


class Change(NamedTuple):
    """What a rule found.

    Attributes:
        rule, evidence, rows: as in `Advice`; `WORDS` has what the rule tells to do.
        saving: of the whole run.
    """

    rule: str
    evidence: tuple[str, ...]
    saving: Saving
    rows: tuple[int, ...] = ()


class Unasked(NamedTuple):
    """Why a rule cannot say anything of a profile."""

    rule: str
    reason: str
