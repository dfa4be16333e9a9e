"""What a stream of accesses is, and the arena that its arrays lie in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rooflab.cachesim.native.layout import LOAD, STORE, STREAM
from rooflab.cachesim.streams import nests
from rooflab.errors import RooflabError

PAGE_BYTES = 4096


@dataclass(frozen=True)
class Stream:
    """Accesses that are generated while they are simulated, never stored.

    Attributes:
        name: what it is, with its sizes.
        references: the accesses of the source, by number: "A[i, k]", …
        arrays: the array that each reference belongs to.
        spans: first address and the one after the last of each array, in order of address.
        accesses: how many there are.
        accessed_bytes: bytes that they name.
        program: affine loops, or
        irregular: the name of a kernel in `irregular`, and its integers.
        kept: what must stay in memory while it runs: the table may hold its address.
        owners: the arrays that `spans` are of; empty where they have no names.
    """

    name: str
    references: tuple[str, ...]
    arrays: tuple[str, ...]
    spans: tuple[tuple[int, int], ...]
    accesses: int
    accessed_bytes: int
    program: nests.Program | None = None
    irregular: tuple[str, tuple[int, ...]] | None = None
    kept: tuple[object, ...] = ()
    owners: tuple[str, ...] = ()

    @property
    def footprint_bytes(self) -> int:
        """Bytes of all arrays together."""
        return sum(end - first for first, end in self.spans)

    def most_units(self, unit_bytes: int) -> int:
        """The most different units of `unit_bytes` that it can touch: those of its arrays, or of its accesses."""
        return min(
            self.footprint_bytes // unit_bytes + 2 * len(self.spans),
            2 * self.accesses + self.accessed_bytes // unit_bytes,
        )


@dataclass
class Arena:
    """Arrays one after the other, each on a page of its own: compact made-up addresses, the same every time."""

    bases: dict[str, int] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    references: list[tuple[str, str]] = field(default_factory=list)
    end: int = 0
    kept: list[object] = field(default_factory=list)

    def array(self, name: str, nbytes: int) -> int:
        """The address of a new array."""
        base = self.end
        self.bases[name], self.sizes[name] = base, nbytes
        self.end = -(-(base + nbytes) // PAGE_BYTES) * PAGE_BYTES
        return base

    def access(
        self,
        name: str,
        strides: Mapping[str, int],
        *,
        request: int = LOAD,
        nbytes: int = 8,
        offset: int = 0,
    ) -> nests.Access:
        """A new reference "array[…]" whose address is the array's plus `offset` and the strides (in bytes)."""
        number = self.reference(name)
        base = self.bases[name.split("[")[0].strip()] + offset
        return nests.Access(number, base, dict(strides), nbytes, request)

    def reference(self, name: str) -> int:
        """The number of the reference `name`, "array[…]"; a new one unless it was named before."""
        entry = (name, name.split("[")[0].strip())
        if entry not in self.references:
            self.references.append(entry)
        return self.references.index(entry)

    def load(self, name: str, strides: Mapping[str, int], nbytes: int = 8, offset: int = 0) -> nests.Access:
        """`access` that reads."""
        return self.access(name, strides, nbytes=nbytes, offset=offset)

    def store(self, name: str, strides: Mapping[str, int], nbytes: int = 8, offset: int = 0) -> nests.Access:
        """`access` that writes."""
        return self.access(name, strides, request=STORE, nbytes=nbytes, offset=offset)

    def stream_store(self, name: str, strides: Mapping[str, int], nbytes: int = 8) -> nests.Access:
        """`access` that writes past the caches."""
        return self.access(name, strides, request=STREAM, nbytes=nbytes)

    def affine(self, title: str, *loops: nests.Loop) -> Stream:
        """The stream of `loops`, one after the other."""
        accesses, accessed = (sum(nests.count(loop, weight) for loop in loops) for weight in (False, True))
        return self._stream(title, accesses, accessed, nests.Program(loops), None)

    def irregular(
        self, title: str, kernel: str, table: tuple[int, ...], accesses: int, accessed_bytes: int
    ) -> Stream:
        """The stream of a kernel of `irregular`."""
        return self._stream(title, accesses, accessed_bytes, None, (kernel, table))

    def _stream(
        self,
        title: str,
        accesses: int,
        accessed_bytes: int,
        program: nests.Program | None,
        irregular: tuple[str, tuple[int, ...]] | None,
    ) -> Stream:
        return Stream(
            name=title,
            references=tuple(name for name, _ in self.references),
            arrays=tuple(array for _, array in self.references),
            spans=tuple((base, base + self.sizes[name]) for name, base in self.bases.items()),
            accesses=accesses,
            accessed_bytes=accessed_bytes,
            program=program,
            irregular=irregular,
            kept=tuple(self.kept),
            owners=tuple(self.bases),
        )


def positive(what: str, **sizes: int | None) -> None:
    """Raise where one of `sizes` is not a whole number above zero (None passes).

    Raises:
        RooflabError: names the size, what it is and what is expected.
    """
    for name, value in sizes.items():
        if value is None:
            continue
        if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
            raise RooflabError(f"{what}: {name} is {value!r}, expected a whole number above zero")
