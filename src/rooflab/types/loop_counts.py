"""What a loop of the source does: counts by line, trips, accesses that step over lines, formulas."""

from __future__ import annotations

from typing import Literal

import msgspec


class LineCounts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one line of the source did, from empty caches.

    Attributes:
        line: its number in the file; `text` what it says.
        flop: of all its executions.
        accesses: loads and stores as written.
        misses: by cache level.
        compulsory, capacity, conflict: kinds of those misses, by cache level; None unless classified.
        decided: of the misses, those of accesses whose place what their loop found decides, by cache level: nobody
            can begin them ahead. None where that is not known.
        gathered, chased: misses of a warm run of the accesses whose place data decide, and of those that wait for
            the one before, by cache level. None where that is not known.
        scattered: of those gathered, those of stores, by cache level. None likewise.
        begun: of those gathered, the share that did not lie beside the one before, as the first line of a row.
    """

    line: int
    text: str
    flop: int
    accesses: int
    misses: dict[str, int]
    compulsory: dict[str, int] | None = None
    capacity: dict[str, int] | None = None
    conflict: dict[str, int] | None = None
    decided: dict[str, int] | None = None
    gathered: dict[str, int] | None = None
    chased: dict[str, int] | None = None
    scattered: dict[str, int] | None = None
    begun: float = 1.0


class Trips(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A loop of the source and how often its body ran; `variable` is "" for while."""

    line: int
    variable: str
    trips: int
    depth: int


class Walk(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An access of a loop that steps over lines by a constant, as down a column of a matrix.

    Attributes:
        line: of the source.
        text: of the access there, as "A[i, j]".
        loop: the innermost loop that it stands in, as the number of one of `loops`; None outside of all.
        stride_bytes: of its steps.
        misses: in the first level, of a warm run.
        kind: what becomes of its lines: "read" only, "changed" after they were read, or "stored" into unread.
        stage: of those of one access whose steps change in the course of a run, which; 0 of all others.
    """

    line: int
    text: str
    loop: int | None
    stride_bytes: int
    misses: int
    kind: Literal["read", "changed", "stored"]
    stage: int = 0


class Static(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What follows from the source alone, where all bounds and indices are affine.

    Attributes:
        flop, accessed_bytes: formulas in the sizes, such as "2·n³".
        conditions: layer conditions: what must fit in a cache for which loop's reuse.
        traffic_bytes: by level that serves them, from the layer conditions at these sizes.
        agrees: whether FLOP and accessed bytes equal what the twin counted.
        stride_bytes: from one trip of the innermost loop to the next, of the accesses that step over lines: that
            whose lines fall into the fewest sets of a cache; 0 where none does.
        reason: why there is no formula; the others are then empty.
    """

    flop: str = ""
    accessed_bytes: str = ""
    conditions: tuple[str, ...] = ()
    traffic_bytes: dict[str, float] = {}
    agrees: bool | None = None
    stride_bytes: int = 0
    reason: str | None = None
