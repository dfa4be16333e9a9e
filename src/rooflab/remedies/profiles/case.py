"""What a rule finds in a profile: a cause of lost time, and the time with that cause taken out."""

from __future__ import annotations

from typing import NamedTuple

from rooflab.types.advice import Effort, Price


class Saving(NamedTuple):
    """Measured seconds that a change saves: best guess, the least and the most."""

    best_s: float
    low_s: float
    high_s: float


class Change(NamedTuple):
    """What a rule found.

    Attributes:
        rule, text, evidence, rows, effort, price, code: as in `Advice` (`text` is its `change`).
        saving: of the whole run.
    """

    rule: str
    text: str
    evidence: tuple[str, ...]
    saving: Saving
    rows: tuple[int, ...] = ()
    effort: Effort = "line"
    price: Price = "nothing"
    code: str = ""


class Unasked(NamedTuple):
    """Why a rule cannot say anything of a profile."""

    rule: str
    reason: str
