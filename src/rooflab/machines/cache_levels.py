"""The caches that a loop is simulated on: those of a machine, or of this host as its system reports them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rooflab.errors import RooflabError
from rooflab.machines import cache_designs
from rooflab.machines.detect import detect
from rooflab.machines.detect.caches import reported_cache
from rooflab.types.machine import Level, Machine, is_cache
from rooflab.types.simulation import Cache
from rooflab.units import iec

_LINE_BYTES, _WAYS = 64, 8


class Chosen(NamedTuple):
    """Caches near to far, and what is assumed of them."""

    caches: tuple[Cache, ...]
    assumptions: tuple[str, ...]

    @property
    def text(self) -> str:
        """The caches in words: "L1 32 KiB 8-way, …"."""
        levels = [f"{each.name} {iec(each.capacity_bytes)} {each.set_ways}-way" for each in self.caches]
        return f"{', '.join(levels)}; {self.caches[0].line_bytes} B lines, LRU"


_ASSUMED = (
    "replacement is taken as LRU; levels enforce no inclusion; no prefetcher: it moves lines earlier, not fewer",
    "a store that misses reads its line first (write-allocate), unless the processor streams past it",
)


def choose(machine: Machine | None, levels: Sequence[Cache] | None) -> Chosen:
    """`levels`, else those of `machine`, else those of this host."""
    if levels is not None:
        return given(levels)
    return of_host() if machine is None else of_machine(machine)


def of_machine(machine: Machine) -> Chosen:
    """The caches of one core of `machine`, or of one compute unit of a GPU.

    A private level has the capacity that is reported; a shared one that which was found by measuring:
    neighbours take the rest. Both are cut to a whole number of sets.

    Raises:
        RooflabError: no cache level with a capacity.
    """
    with_capacity = [level for level in machine.levels if is_cache(level) and level.capacity_bytes]
    if not with_capacity:
        raise RooflabError(f"{machine.name}: states no cache with a capacity, expected at least L1")
    assumptions: list[str] = []
    if machine.kind == "gpu":
        return Chosen(tuple(cache_designs.gpu(machine, with_capacity, assumptions)), tuple(assumptions))
    caches: list[Cache] = []
    assumptions += [*_ASSUMED, *cache_designs.cpu(machine)]
    for level in with_capacity:
        caches.append(_cache(level, caches[-1] if caches else None, assumptions))
    return Chosen(tuple(caches), tuple(assumptions))


def of_host() -> Chosen:
    """The data caches of the first core that this process may use.

    Raises:
        RooflabError: the system reports none.
    """
    host = detect(gpus=False)
    caches, assumptions = (
        [],
        [*_ASSUMED, "capacities as the system reports them: a guest may be granted less of L3"],
    )
    for number in (1, 2, 3, 4):
        reported = reported_cache(host, number)
        if reported is None or not reported.capacity_bytes:
            continue
        ways, line = reported.ways or _WAYS, reported.line_bytes or _LINE_BYTES
        caches.append(_whole(f"L{number}", reported.capacity_bytes, ways, line, assumptions))
    if not caches:
        raise RooflabError("this system reports no caches; give machine= one of `rooflab machine`, or a file")
    return Chosen(tuple(caches), tuple(assumptions))


def given(levels: Sequence[Cache]) -> Chosen:
    """`levels` as they are, named L1, L2, … where they have no name; a smaller level behind a larger is said.

    Raises:
        RooflabError: a level that is to include a nearer one, and is smaller.
    """
    import msgspec

    for number, each in enumerate(levels):
        if not isinstance(each, Cache):
            raise RooflabError(f"levels[{number}] is {each!r}, expected such as Cache(32 * 1024, 8)")
    named = [
        each if each.name else msgspec.structs.replace(each, name=f"L{number}")
        for number, each in enumerate(levels, 1)
    ]
    return Chosen(tuple(named), tuple(_smaller(named)))


def _smaller(levels: Sequence[Cache]) -> Iterator[str]:
    """A line for each level that is smaller than the one before: real parts have such, but as victim caches."""
    for near, far in itertools.pairwise(levels):
        if far.capacity_bytes >= near.capacity_bytes:
            continue
        sizes = (
            f"{far.name} has {iec(far.capacity_bytes)}, less than the {iec(near.capacity_bytes)} of {near.name}"
        )
        if far.inclusion == "inclusive":
            raise RooflabError(f"{sizes}, and cannot include it: levels go near to far")
        if far.inclusion != "exclusive":
            yield f"{sizes}: levels go near to far, and it finds hardly anything that {near.name} has not"


def _cache(level: Level, nearer: Cache | None, assumptions: list[str]) -> Cache:
    assert level.capacity_bytes is not None
    capacity = level.capacity_bytes
    if level.reported_capacity_bytes and level.shared_by in (None, 1):
        capacity = level.reported_capacity_bytes
    elif level.reported_capacity_bytes and level.reported_capacity_bytes > 1.05 * capacity:
        assumptions.append(
            f"{level.name}: {iec(capacity)} as found by measuring, of {iec(level.reported_capacity_bytes)}"
            " reported: neighbours take the rest"
        )
    if level.ways is None:
        assumptions.append(f"{level.name}: {_WAYS} ways, assumed")
    line = level.line_bytes or (nearer.line_bytes if nearer else _LINE_BYTES)
    return _whole(level.name, int(capacity), level.ways or _WAYS, line, assumptions)


def _whole(name: str, capacity_bytes: int, ways: int, line_bytes: int, assumptions: list[str]) -> Cache:
    one_set = ways * line_bytes
    whole = max(capacity_bytes // one_set, 1) * one_set
    if whole != capacity_bytes:
        assumptions.append(f"{name}: {iec(whole)}, the largest whole number of sets of {ways} lines")
    return Cache(whole, ways, line_bytes, name=name)
