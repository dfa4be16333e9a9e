"""Ways to write one streaming loop: which is fastest differs by core and by level, so all are tried."""

from __future__ import annotations

from dataclasses import dataclass

from rooflab.machines.bench.kernels.rows import StreamRow
from rooflab.machines.bench.kernels.simd import Simd
from rooflab.units import iec


@dataclass(frozen=True)
class Variant:
    """One way to write the loop of a row.

    Attributes:
        unroll: register-widths per iteration as a multiple of the row's own.
        grouped: all loads of an iteration first, then all its stores; else each store after its loads.
        prefetch_bytes: how far ahead lines are asked for by instruction; 0 leaves it to the hardware.
        places: how many places of a read stream advance at once, each with prefetchers of its own.
    """

    unroll: float = 1.0
    grouped: bool = False
    prefetch_bytes: int = 0
    places: int = 1

    @property
    def name(self) -> str:
        """What differs from the plain loop: "unrolled ×2, loads first"; "plain" for none."""
        parts = (
            f"unrolled ×{self.unroll:g}" if self.unroll != 1 else "",
            "loads first" if self.grouped else "",
            f"prefetch {iec(self.prefetch_bytes)} ahead" if self.prefetch_bytes else "",
            f"{self.places} places at once" if self.places > 1 else "",
        )
        return ", ".join(part for part in parts if part) or "plain"

    @property
    def symbol(self) -> str:
        """The same as a part of a kernel's name; empty for the plain loop."""
        if self == PLAIN:
            return ""
        return f"_u{round(self.unroll * 8)}g{int(self.grouped)}p{self.prefetch_bytes}w{self.places}"


PLAIN = Variant()
# Prefetching by instruction helps where a hardware prefetcher stops (a page's end) or starts late.
_READS = (PLAIN, Variant(unroll=2), Variant(prefetch_bytes=4096), Variant(places=2), Variant(places=4))
_WRITES = (PLAIN, Variant(unroll=2))
_COPIES = (*_WRITES, Variant(grouped=True), Variant(grouped=True, prefetch_bytes=4096))
_PAST_THE_CACHES = (PLAIN, Variant(grouped=True))


def variants(row: StreamRow, simd: Simd) -> tuple[Variant, ...]:
    """The variants worth trying for `row`, the plain loop first.

    In registers of unknown length a line's share is not known, nor where a place begins.
    """
    loads = set(row.expression.streams) - set(row.expression.writes)
    if row.expression.fold:
        tried = _READS
    else:
        tried = (_PAST_THE_CACHES if row.nontemporal else _COPIES) if loads else _WRITES
    if simd.scalable:
        return tuple(one for one in tried if not one.prefetch_bytes and one.places == 1)
    return tried
