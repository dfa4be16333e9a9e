"""What a rule found in a profile: a number to doubt, or a cause of lost time, with its evidence."""

from __future__ import annotations

from typing import Literal

import msgspec


class Finding(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One thing that a rule found.

    Attributes:
        rule: its name ("above roof").
        kind: "doubt": a number that cannot be true, or not of what it says; "cause": where time goes, and why.
        says: in a sentence, with the numbers.
        hint: what to do about it.
        evidence: the numbers behind it, in base units, by name.
        rows: the operations or kernels that it was found at, most time first; () where it is of the whole run.
        time_s: measured, of those.
    """

    rule: str
    kind: Literal["doubt", "cause"]
    says: str
    hint: str = ""
    evidence: dict[str, float | str] = {}
    rows: tuple[str, ...] = ()
    time_s: float = 0.0
