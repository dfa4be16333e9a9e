"""Memory of a run over time: its peak, what was live then, what the allocator kept back."""

from __future__ import annotations

import msgspec


class Live(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Blocks that were live at the peak.

    Attributes:
        operator: that took them; "" where none was open, or none is recorded.
        phase: of training.
        blocks, nbytes: how many, and their sum.
    """

    operator: str
    phase: str
    blocks: int
    nbytes: float


class MemoryUse(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Memory of one device over the recorded time.

    Attributes:
        device: its number; None for the host.
        peak_bytes, at_s: the most that was taken at once, and when.
        live: at the peak, most bytes first.
        earlier_bytes: of the peak, what was taken before the recording began, or of no known address.
        reserved_bytes: what the allocator held at the peak; None where not recorded.
        most_unused_bytes: the most that it held beyond what was taken, at any time; None where not recorded.
        curve_bytes: the most that was taken in equal parts of the time, from `begin_s` to `end_s`.
    """

    device: int | None
    peak_bytes: float
    at_s: float
    live: tuple[Live, ...]
    earlier_bytes: float = 0.0
    reserved_bytes: float | None = None
    most_unused_bytes: float | None = None
    begin_s: float = 0.0
    end_s: float = 0.0
    curve_bytes: tuple[float, ...] = ()

    @property
    def unused_bytes(self) -> float | None:
        """What the allocator held at the peak beyond what was taken: fragments and its cache."""
        return None if self.reserved_bytes is None else max(0.0, self.reserved_bytes - self.peak_bytes)
