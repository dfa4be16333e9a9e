"""Where a number comes from, and how much of a machine it is of."""

from __future__ import annotations

from typing import Literal

import msgspec

Scope = Literal["core", "sm", "all"]


class Source(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where a number comes from.

    Attributes:
        kind: "datasheet" (a vendor or a review states it), "measured" (on this machine, by rooflab), "reported"
            (another tool measured it, and its output was read), "derived" (computed from stated numbers) or
            "assumed".
        ref: an address, a document and page, the formula, or the measuring command.
        date: ISO date on which it was read or measured.
    """

    kind: Literal["datasheet", "measured", "reported", "derived", "assumed"]
    ref: str
    date: str | None = None
