"""From findings to levels: bandwidth, latency and capacity of every level, theory beside measurement."""

from __future__ import annotations

from collections.abc import Iterator

from rooflab.machines.bench.experiments.bandwidth import StreamCase
from rooflab.machines.bench.experiments.disk import Disk, DiskRate
from rooflab.machines.bench.findings import Findings
from rooflab.machines.bench.kernels.rows import StreamRow
from rooflab.machines.bench.levels.levels import MAIN_MEMORY, MeasuredLevel, latency_size
from rooflab.machines.bench.result.peaks_and_clocks import scopes, theory_clock_hz, theory_source, whole
from rooflab.machines.bench.run.trials import Samples
from rooflab.timing import Series
from rooflab.types.machine import Level, Rate, Scope, Source


def levels(findings: Findings, source: Source) -> tuple[Level, ...]:
    """The memory hierarchy near to far, then the disk."""
    nearer = (None, *findings.levels)
    listed = [
        _level(findings, place, before, source) for place, before in zip(findings.levels, nearer, strict=False)
    ]
    seen = {place.name for place in findings.levels}
    for cache in findings.reported:
        if cache.name not in seen and findings.levels:
            # Reported, but no plateau shows it: its roof is unknown, not the next level's.
            level = Level(
                name=cache.name,
                source=Source("derived", "reported by the operating system; no plateau found", source.date),
                reported_capacity_bytes=cache.capacity_bytes,
                shared_by=cache.shared_by,
                line_bytes=cache.line_bytes,
                ways=cache.ways,
            )
            place = next((k for k, one in enumerate(listed) if one.name > cache.name or one.name == "DRAM"), 0)
            listed.insert(place, level)
    if isinstance(findings.disk, Disk):
        listed.append(_disk_level(findings.disk, source))
    return tuple(listed)


def _level(findings: Findings, place: MeasuredLevel, nearer: MeasuredLevel | None, source: Source) -> Level:
    rates = [_bandwidth(at, samples, source) for at, samples in _fastest(findings.rates, place.name).items()]
    if len(findings.cpus) == 1:
        rates += [whole(rate) for rate in rates]
    cache = place.reported
    main = place.name == MAIN_MEMORY
    host = findings.host
    loads = loads_of(findings, place, nearer)
    loaded = findings.loaded if main and findings.loaded and findings.loaded.values else None
    return Level(
        name=place.name,
        source=source,
        capacity_bytes=host.memory_granted_bytes if main else round(place.plateau.capacity_bytes or 0) or None,
        reported_capacity_bytes=host.memory_bytes if main else cache and cache.capacity_bytes,
        shared_by=cache and cache.shared_by,
        line_bytes=cache and cache.line_bytes,
        ways=cache and cache.ways,
        latency_s=1 / loads.best if loads else None,
        latency_spread=loads.spread if loads else None,
        latency_runs=loads.runs if loads else None,
        loaded_latency_s=1 / loaded.best if loaded else None,
        loaded_latency_spread=loaded.spread if loaded else None,
        latency_source=source,
        rates=(*rates, *_theoretical_bandwidth(findings, place.name, source.date)),
        note=None if main else _found_by(place),
    )


def _fastest(rates: dict[StreamCase, Samples], level: str) -> dict[StreamCase, Samples]:
    """The samples of `level`, those of the fastest way to write the loop where several were tried."""
    best: dict[tuple[StreamRow, Scope], StreamCase] = {}
    for at, samples in rates.items():
        key = (at.row, at.scope)
        if at.level != level or not samples.taken:
            continue
        if key not in best or samples.series.best > rates[best[key]].series.best:
            best[key] = at
    return {at: rates[at] for at in best.values()}


def _found_by(place: MeasuredLevel) -> str:
    """How the capacity came about."""
    if place.plateau.from_latency:
        return "capacity is what the latency sweep found: bandwidth shows no step of its own there"
    return "capacity is what the sweep of bandwidth and latency found"


def loads_of(findings: Findings, place: MeasuredLevel, nearer: MeasuredLevel | None) -> Series | None:
    """Loads per second of the level at `place`: its own runs, those of the sweep at that working set with them."""
    size = latency_size(findings.latency, place, nearer)
    values = findings.latency[size].values if size else ()
    own = findings.level_latency.get(place.name)
    values += own.values if own else ()
    return Series(values) if values else None


def _bandwidth(at: StreamCase, samples: Samples, source: Source) -> Rate:
    series = samples.series
    stores = None
    if at.row.expression.writes:
        stores = "nontemporal" if at.row.nontemporal else "ordinary"
    return Rate(
        value=series.best,
        per_s="byte",
        what=at.row.what,
        basis="attained",
        source=source,
        scope=at.scope,
        threads=len(samples.trial.jobs),
        stores=stores,
        clock_hz=samples.clock_hz,
        median=series.median,
        spread=series.spread,
        runs=series.runs,
        note=at.form,
    )


def _theoretical_bandwidth(findings: Findings, level: str, date: str | None) -> Iterator[Rate]:
    """Bytes per cycle of the microarchitecture × measured clock, where both are known."""
    row, clock = findings.microarchitecture, theory_clock_hz(findings)
    if row is None or clock is None:
        return
    field = {"L1": "load_bytes", "L2": "l2_bytes"}.get(level)
    per_cycle = getattr(row, field) if field else None
    if field is None or per_cycle is None:
        return
    for scope, cores in scopes(findings):
        yield Rate(
            value=cores * per_cycle * clock,
            per_s="byte",
            what="read",
            basis="theoretical",
            source=theory_source(row, field, date),
            scope=scope,
            threads=cores,
            clock_hz=clock,
            units=cores,
            per_unit_per_clock=per_cycle,
        )


def _disk_level(disk: Disk, source: Source) -> Level:
    rates: list[Rate] = []
    for one in disk.rates:
        if one.series.values:
            rates.extend(_disk_rates(one, source))
    single = next((one for one in disk.rates if one.what.startswith("random read") and one.series.values), None)
    note = "; ".join(part for part in (disk.filesystem, disk.note, "queue depth 1") if part)
    return Level(
        name=disk.label,
        source=source,
        capacity_bytes=float(disk.capacity_bytes),
        latency_s=single.block_bytes / single.series.best if single else None,
        rates=tuple(rates),
        note=note,
    )


def _disk_rates(one: DiskRate, source: Source) -> Iterator[Rate]:
    series = one.series
    spread, runs = series.spread, series.runs
    yield Rate(
        value=series.best,
        per_s="byte",
        what=one.what,
        basis="attained",
        source=source,
        threads=1,
        median=series.median,
        spread=spread,
        runs=runs,
    )
    if one.what.startswith("random"):
        yield Rate(
            value=series.best / one.block_bytes,
            per_s="transaction",
            what=one.what,
            basis="attained",
            source=source,
            threads=1,
            median=series.median / one.block_bytes,
            spread=spread,
            runs=runs,
        )
