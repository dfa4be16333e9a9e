"""Bounds of one kernel on one machine: classic, hierarchical and cache-aware rooflines from the same numbers.

Each gives seconds by engine, by memory level and of overhead; the time is at least the largest of them, and the
`verdict` says which that is. They differ in which bytes they count:

- classic (Williams, Waterman, Patterson 2009): those of main memory alone;
- hierarchical (Yang, Kurth, Williams: "Hierarchical Roofline analysis for GPUs", CCPE 2019): those of each
  level, each against that level's own bandwidth;
- cache-aware (Ilic, Pratas, Sousa 2014): those that the core loads and stores, against the bandwidth of the
  level that they are served from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rooflab.errors import RooflabError
from rooflab.model.roofline.per_operation import compute_terms
from rooflab.model.roofline.roofline import Verdict, verdict
from rooflab.types.machine import Basis, Level, Machine, Rate, Scope, is_main_memory
from rooflab.types.work import Flop


class Terms(NamedTuple):
    """Seconds that each part of the machine needs; they overlap, so that the largest is a bound.

    Attributes:
        flop: all of it, for FLOP/s.
        compute_s: by engine and number format ("bf16 matrix").
        memory_s: by level near to far, and by link.
        overhead_s: start and end.
    """

    flop: float
    compute_s: Mapping[str, float]
    memory_s: Mapping[str, float]
    overhead_s: float = 0.0

    @property
    def time_s(self) -> float:
        """The bound: no engine, level or overhead takes longer."""
        return max(*self.compute_s.values(), *self.memory_s.values(), self.overhead_s, 0.0)

    @property
    def flop_per_s(self) -> float:
        """What is attainable: FLOP / bound; 0 for a kernel that computes nothing."""
        return self.flop / self.time_s if self.time_s else 0.0

    @property
    def verdict(self) -> Verdict:
        """What binds, balanced where two of compute, slowest level and overhead are within a tenth."""
        engine = max(self.compute_s, key=self.compute_s.__getitem__, default="compute")
        return verdict(self.compute_s.get(engine, 0.0), engine, self.memory_s, self.overhead_s)

    def shares(self, time_s: float) -> dict[str, float]:
        """Which share of each roof a run that took `time_s` attained; over 1 is a question, never clipped."""
        if not time_s > 0:
            raise RooflabError(f"a run of {time_s} s, expected a positive time")
        return {name: each / time_s for name, each in (*self.memory_s.items(), *self.compute_s.items())}


def classic(
    machine: Machine, flop: Sequence[Flop], nbytes: float, *, overhead_s: float = 0.0, basis: Basis | None = None
) -> Terms:
    """Arithmetic at its peak against `nbytes` through main memory (see `hierarchical`)."""
    memory = next((level for level in machine.levels if is_main_memory(level)), None)
    if memory is None:
        raise RooflabError(f"{machine.name} has no main memory: add a level called DRAM or HBM to its file")
    return hierarchical(machine, flop, {memory.name: nbytes}, overhead_s=overhead_s, basis=basis)


def hierarchical(
    machine: Machine,
    flop: Sequence[Flop],
    level_bytes: Mapping[str, float],
    *,
    link_bytes: Mapping[str, float] | None = None,
    overhead_s: float = 0.0,
    scope: Scope = "all",
    basis: Basis | None = None,
) -> Terms:
    """Arithmetic at its peak against the bytes of each level through that level.

    Args:
        machine: whose roofs.
        flop: work by engine and number format.
        level_bytes: bytes by name of a level ("memory" for main memory).
        link_bytes: bytes by name of a link, one way.
        overhead_s: start and end.
        scope: "all", or one "core" or "sm".
        basis: "theoretical" or "attained" rates; theoretical, and attained where none is stated, by default.

    Raises:
        UnknownNameError: no such level.
        RooflabError: a level, link or engine whose rate is needed and not stated.
    """
    memory_s = {}
    for name, nbytes in level_bytes.items():
        level = machine.level(name)
        memory_s[level.name] = nbytes / _rate(machine, level, scope, basis).value
    for name, nbytes in (link_bytes or {}).items():
        from rooflab.model.collectives import find_link

        link = find_link(machine, name)
        assert link.each_way_bytes_per_s is not None  # `find_link` gives no other
        memory_s[link.name] = nbytes / link.each_way_bytes_per_s
    return Terms(sum(one.count for one in flop), _compute_s(machine, flop, scope, basis), memory_s, overhead_s)


def cache_aware(
    machine: Machine,
    flop: Sequence[Flop],
    accessed_bytes: float,
    *,
    overhead_s: float = 0.0,
    scope: Scope = "all",
    basis: Basis | None = None,
) -> dict[str, Terms]:
    """For each level that may serve them, arithmetic against all `accessed_bytes` through that level.

    A run between the bounds of two levels is served partly from each.
    """
    compute_s = _compute_s(machine, flop, scope, basis)
    total = sum(one.count for one in flop)
    by_level = {}
    for level in machine.levels:
        rate = _rate_of(level, scope, basis)
        if rate is not None and rate.per_s == "byte":
            by_level[level.name] = Terms(total, compute_s, {level.name: accessed_bytes / rate.value}, overhead_s)
    if not by_level:
        raise RooflabError(f"{machine.name} states no bandwidth of any level for scope {scope!r}")
    return by_level


def _compute_s(machine: Machine, flop: Sequence[Flop], scope: Scope, basis: Basis | None) -> dict[str, float]:
    if scope == "all" and basis is None:
        terms, missing = compute_terms(tuple(flop), machine)
        if missing:
            names = dict.fromkeys(f"{one.dtype} {one.engine}" for one in missing)
            raise RooflabError(f"{machine.name} states no {' and no '.join(names)} peak")
        return {term.name: term.seconds for term in terms}
    seconds: dict[str, float] = {}
    for one in flop:
        peak = machine.peak(one.dtype, engine=one.engine, scope=scope, basis=basis)
        if peak is None:
            raise RooflabError(
                f"{machine.name} states no {basis or ''} {one.dtype} {one.engine} peak of scope {scope!r}"
            )
        name = f"{one.dtype} {one.engine}"
        seconds[name] = seconds.get(name, 0.0) + one.count / peak.value
    return seconds


def _rate(machine: Machine, level: Level, scope: Scope, basis: Basis | None) -> Rate:
    chosen = _rate_of(level, scope, basis)
    if chosen is None:
        stated = ", ".join(f"{rate.what} {rate.scope} {rate.basis}" for rate in level.rates) or "none"
        wanted = f"{basis} " if basis else ""
        raise RooflabError(
            f"{machine.name} states no {wanted}bandwidth of {level.name} for scope {scope!r} (its rates: {stated})"
        )
    return chosen


def _rate_of(level: Level, scope: Scope, basis: Basis | None) -> Rate | None:
    if basis is not None:
        return level.rate(scope=scope, basis=basis)
    return level.rate(scope=scope, basis="theoretical") or level.rate(scope=scope)
