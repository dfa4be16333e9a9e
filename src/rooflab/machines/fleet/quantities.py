"""What is held against each other of machines: every attained rate and latency by a name, with its theory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from rooflab.types.fleet import Better
from rooflab.types.machine import Level, Machine, Rate, is_main_memory, is_storage

_SCOPES = {"core": "one core", "all": "all cores"}
_STREAMS = ("read", "write", "copy", "triad")
_UNITS = {"byte": "B/s", "flop": "FLOP/s", "op": "OP/s", "cycle": "Hz", "transaction": "IOPS", "inst": "inst/s"}
_UNSURE = 0.25  # median error of a fit of products, from which on its speed is none of the library's


class Value(NamedTuple):
    """One quantity of a machine; `theory` is what its own theory allows, None where that is not known."""

    name: str
    unit: str
    better: Better
    value: float
    theory: float | None = None


def quantities(machine: Machine) -> dict[str, Value]:
    """What `machine` was measured to do, by name, in reading order; of each the best that was attained."""
    found: dict[str, Value] = {}
    for each in (*_levels(machine), *_arithmetic(machine), *_links(machine), *_libraries(machine)):
        found.setdefault(each.name, each)
    return found


def _levels(machine: Machine) -> Iterator[Value]:
    """Bandwidths, of main memory all streams; then latencies. Far levels first: what differs most often."""
    for level in reversed(machine.levels):
        streams = _STREAMS if is_main_memory(level) else ("read", "write") if is_storage(level) else ("read",)
        for scope, where in _SCOPES.items():
            for what in streams:
                best = _best([rate for rate in level.rates if rate.what == what and rate.scope == scope])
                if best is not None:
                    yield _value(f"{level.name} {what}, {where}", best, _theory(level, what, best))
        if level.latency_s is not None:
            yield Value(f"{level.name} latency", "s", "less", level.latency_s)
        if level.loaded_latency_s is not None:
            yield Value(f"{level.name} latency, others busy", "s", "less", level.loaded_latency_s)


def _theory(level: Level, what: str, best: Rate) -> float | None:
    """The theoretical rate of the same streams, else of any."""
    allowed = [
        rate.value
        for rate in level.rates
        if rate.basis == "theoretical" and rate.scope == best.scope and rate.what in (what, "any")
    ]
    return max(allowed, default=None)


def _arithmetic(machine: Machine) -> Iterator[Value]:
    """The peak of each number format, and the clock."""
    kinds = dict.fromkeys(
        (rate.dtype, rate.engine, rate.scope)
        for rate in machine.peaks
        if rate.basis == "attained" and rate.dtype and rate.scope in _SCOPES
    )
    for dtype, engine, scope in kinds:
        alike = [rate for rate in machine.peaks if (rate.dtype, rate.engine, rate.scope) == (dtype, engine, scope)]
        best = _best(alike)
        if best is not None and engine != "scalar":
            theory = max((rate.value for rate in alike if rate.basis == "theoretical"), default=None)
            what = "" if engine in (None, "vector") else f" {engine}"
            yield _value(f"{dtype}{what} peak, {_SCOPES[scope]}", best, theory)
    for clock in machine.clocks:
        if clock.basis == "attained":
            yield _value(clock.what, clock, None)


def _links(machine: Machine) -> Iterator[Value]:
    """Links between cores, nodes of memory, and devices."""
    for link in machine.links:
        if link.source.kind != "measured":
            continue
        for rate, how in (
            (link.each_way_bytes_per_s, ""),
            (link.pinned_bytes_per_s, ", pinned memory"),
            (link.pageable_bytes_per_s, ", pageable memory"),
        ):
            if rate is not None:
                yield Value(f"{link.name}{how}", "B/s", "more", rate)
        if link.latency_s is not None:
            yield Value(f"{link.name}, latency", "s", "less", link.latency_s)


def _libraries(machine: Machine) -> Iterator[Value]:
    """Large products of matrices, and the cost of a call; not what a fit says that misses what was timed."""
    for each in machine.products:
        theory = machine.peak(each.dtype, scope="all", basis="theoretical")
        unsure = each.error is not None and each.error > _UNSURE
        if each.flop_per_s is None or unsure or (theory is not None and each.flop_per_s > theory.value):
            continue
        if each.routine == "product":
            threads = f"{each.threads} thread{'s' if each.threads > 1 else ''}"
            yield Value(f"{each.library} {each.dtype} product, {threads}", "FLOP/s", "more", each.flop_per_s)
    for each in machine.runtimes:
        if each.dispatch_s is not None and each.source.kind == "measured":
            yield Value(f"{each.framework} call", "s", "less", each.dispatch_s)


def _best(rates: list[Rate]) -> Rate | None:
    return max((rate for rate in rates if rate.basis == "attained"), key=lambda rate: rate.value, default=None)


def _value(name: str, rate: Rate, theory: float | None) -> Value:
    return Value(name, _UNITS[rate.per_s], "more", rate.value, theory)
