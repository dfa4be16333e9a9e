"""What the time of a run went to: waiting, a level of memory, an engine; the parts of a verdict."""

from __future__ import annotations

import msgspec

from rooflab.types.prediction import Bound


class Limit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The time that one thing limited.

    Attributes:
        bound, binds: what limited it; None where that is not known.
        seconds: idle time of one cause, or the measured time of operations that are bound by the same.
    """

    bound: Bound | None
    binds: str | None
    seconds: float
