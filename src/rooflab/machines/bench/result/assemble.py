"""From findings to a Machine: what its levels and peaks are, how they were found, what was true meanwhile."""

from __future__ import annotations

import os
import platform
import statistics
from importlib.metadata import PackageNotFoundError, version

import msgspec

from rooflab.machines.bench.experiments.known_kernels import blas_kernels
from rooflab.machines.bench.findings import Findings
from rooflab.machines.bench.levels.plateaus import NamedPlateau
from rooflab.machines.bench.result.checks import checks
from rooflab.machines.bench.result.libraries_and_pages import products, tlbs, translation_curves
from rooflab.machines.bench.result.library_checks import impossible, left_out
from rooflab.machines.bench.result.memory_levels import levels
from rooflab.machines.bench.result.peaks_and_clocks import clocks, peaks
from rooflab.machines.bench.run.trials import Samples
from rooflab.machines.detect import granted_sentence, physical_cores
from rooflab.types.machine import (
    BLAS_VARIABLES,
    Check,
    Curve,
    Link,
    Machine,
    Part,
    Point,
    Runtime,
    Scope,
    Source,
    Value,
)
from rooflab.types.measured import Plateau
from rooflab.units import iec

_SATURATED = 0.95
_PACKAGES = ("rooflab", "numpy", "numba", "llvmlite")


def assemble(findings: Findings, date: str) -> Machine:
    """The machine that `findings` describes, its checks included.

    Args:
        date: ISO date and time of the measurement.
    """
    source = Source("measured", f"rooflab {_version('rooflab') or ''} measure".replace("  ", " "), date)
    host, memory = findings.host, levels(findings, source)
    machine = Machine(
        name=host.name,
        kind="cpu",
        source=msgspec.structs.replace(source, ref=f"{source.ref}; identity as the operating system reports it"),
        vendor=host.vendor,
        compute_unit="core",
        compute_units=len(findings.cpus),
        parts=_parts(findings, date),
        levels=memory,
        peaks=peaks(findings, source),
        clocks=clocks(findings, source),
        links=links(findings, source),
        runtimes=runtimes(findings, source),
        core=None if findings.core is None else msgspec.structs.replace(findings.core, source=source),
        team=None if findings.team is None else msgspec.structs.replace(findings.team, source=source),
        tlbs=tlbs(findings, source),
        products=products(findings, memory, source),
        points=points(findings, source),
        curves=curves(findings, source),
        environment=environment(findings, date),
        incomplete=findings.incomplete,
    )
    noise = impossible(machine)
    machine = msgspec.structs.replace(machine, products=tuple(row for row in machine.products if row not in noise))
    found = (*_completeness(findings), *checks(machine, findings), *left_out(noise))
    return msgspec.structs.replace(machine, checks=found)


def _completeness(findings: Findings) -> tuple[Check, ...]:
    """A failed check where the run was cut short."""
    if findings.incomplete is None:
        return ()
    message = f"The run was {findings.incomplete}; what comes after is missing."
    return (Check(name="complete", ok=False, message=message),)


def _parts(findings: Findings, date: str) -> tuple[Part, ...]:
    """P- and E-cores of a hybrid machine."""
    source = Source("derived", "reported by the operating system", date)
    kinds: dict[str, set[tuple[int, ...]]] = {}
    for cpu in findings.host.cpus:
        if cpu.kind:
            kinds.setdefault(cpu.kind, set()).add(cpu.siblings)
    return tuple(Part(name=f"{kind}-core", count=len(cores), source=source) for kind, cores in kinds.items())


def environment(findings: Findings, date: str) -> dict[str, Value]:
    """What was true when the numbers were taken; what is not known is left out."""
    host = findings.host
    facts: dict[str, Value | None] = {
        "date": date,
        "seconds": round(findings.seconds, 2),
        "system": f"{host.system} {host.kernel or ''}".strip(),
        "python": platform.python_version(),
        **{package: _version(package) for package in _PACKAGES},
        "architecture": host.architecture,
        "microarchitecture": host.microarchitecture,
        "hypervisor": host.hypervisor,
        "cpus": [str(cpu) for cpu in findings.cpus],
        "cores_of_machine": physical_cores(host),
        "granted": granted_sentence(host),
        "quota_cpus": host.quota_cpus,
        "memory_granted_bytes": host.memory_granted_bytes,
        "smt": host.smt,
        "governor": host.governor,
        "huge_pages": host.huge_pages,
        "huge_page_share": findings.huge_share,
        "others_share": None if findings.background_load is None else round(findings.background_load.others, 4),
        "stolen_share": None if findings.background_load is None else round(findings.background_load.stolen, 4),
        "threads_that_saturate_memory": saturating_threads(findings),
        "gpus": [gpu.name for gpu in host.gpus] or None,
        "disk": findings.disk if isinstance(findings.disk, str) else None,
        "notes": list(host.notes) or None,
        "blas": blas_kernels() if findings.known_kernels else None,
        **{name: os.environ.get(name) for name in BLAS_VARIABLES},
    }
    return {name: value for name, value in facts.items() if value is not None}


def saturating_threads(findings: Findings) -> int | None:
    """The fewest threads that reach 95 % of the best read bandwidth of main memory; None where not swept."""
    if not findings.scaling:
        return None
    best = max(samples.series.best for samples in findings.scaling.values())
    return min(count for count, samples in findings.scaling.items() if samples.series.best >= _SATURATED * best)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def links(findings: Findings, source: Source) -> tuple[Link, ...]:
    """Core to core, and the first core to each memory node."""
    listed = []
    if findings.core_to_core:
        taken = [series for series in findings.core_to_core.values() if series.values]
        times = [1 / series.best for series in taken]
        nearest = max(taken, key=lambda series: series.best)
        listed.append(
            Link(
                name="core to core",
                to="another core",
                source=source,
                latency_s=min(times),
                spread=nearest.spread,
                runs=nearest.runs,
                topology=f"{len(times)} pairs, {min(times) * 1e9:.0f} to {max(times) * 1e9:.0f} ns"
                if len(times) > 1
                else None,
                note="one cache line handed over, one way",
            )
        )
    for remote in findings.remote:
        listed.append(
            Link(
                name=f"node {remote.node} to memory of node {remote.home}",
                to="local memory" if remote.node == remote.home else "remote memory",
                source=source,
                each_way_bytes_per_s=remote.read.best,
                latency_s=1 / remote.loads.best,
                spread=remote.loads.spread,
                runs=remote.loads.runs,
                note=f"one core reading {iec(remote.working_set)}"
                + ("" if remote.beyond_cache else ", which may lie in a cache"),
            )
        )
    return tuple(listed)


def runtimes(findings: Findings, source: Source) -> tuple[Runtime, ...]:
    """What an empty call costs."""
    in_libraries = tuple(
        Runtime(
            framework=library.name,
            source=source,
            version=library.version,
            dispatch_s=min(library.dispatch_s),
            spread=1 - min(library.dispatch_s) / statistics.median(library.dispatch_s),
            runs=len(library.dispatch_s),
            note="torch.neg of one element, called from Python",
        )
        for library in findings.libraries
        if library.dispatch_s
    )
    return in_libraries + tuple(
        Runtime(
            framework=one.framework,
            source=source,
            version=one.version,
            dispatch_s=one.timing.best_s or None,  # lost in the noise of the loop: unknown, not zero
            spread=one.timing.spread,
            runs=one.timing.runs,
            note=one.note,
        )
        for one in findings.call_overheads
    )


def points(findings: Findings, source: Source) -> tuple[Point, ...]:
    """The known kernels."""
    return tuple(
        Point(
            name=one.name,
            flop=float(one.flop),
            bytes=float(one.bytes),
            time_s=1 / one.per_s.best,
            source=source,
            level=one.level,
            dtype="fp64",
            threads=one.threads,
            spread=one.per_s.spread,
            runs=one.per_s.runs,
            note=one.note,
        )
        for one in findings.known_kernels
    )


def curves(findings: Findings, source: Source) -> tuple[Curve, ...]:
    """The sweeps behind the numbers."""
    listed = [_bandwidth_curve(findings, scope, sweep, source) for scope, sweep in findings.sweeps.items()]
    if findings.latency:
        served = [(size, series) for size, series in findings.latency.items() if series.values]
        listed.append(
            Curve(
                name="latency",
                x_unit="byte",
                y_unit="s",
                scope="core",
                x=tuple(float(size) for size, _ in served),
                best=tuple(1 / series.best for _, series in served),
                median=tuple(1 / series.median for _, series in served),
                source=source,
                threads=1,
                runs=served[0][1].runs if served else None,
            )
        )
    if findings.scaling:
        counted = [(float(count), samples.series) for count, samples in findings.scaling.items()]
        listed.append(
            Curve(
                name="thread scaling",
                x_unit="thread",
                y_unit="byte/s",
                scope="all",
                x=tuple(count for count, _ in counted),
                best=tuple(series.best for _, series in counted),
                median=tuple(series.median for _, series in counted),
                source=source,
                runs=counted[0][1].runs,
            )
        )
    listed += [_rows_curve(scope, rows, source) for scope, rows in findings.rows.items() if rows]
    listed += translation_curves(findings, source)
    if findings.sustained:
        listed.append(
            Curve(
                name="sustained fma",
                x_unit="s",
                y_unit="flop/s",
                scope="all",
                x=tuple(at for at, _ in findings.sustained),
                best=tuple(value for _, value in findings.sustained),
                median=tuple(value for _, value in findings.sustained),
                source=source,
                threads=len(findings.cpus),
            )
        )
    return tuple(listed)


def _bandwidth_curve(findings: Findings, scope: Scope, sweep: dict[int, Samples], source: Source) -> Curve:
    flat = [place.plateau for place in findings.levels] if scope == "core" else []
    return Curve(
        name="read bandwidth",
        x_unit="byte",
        y_unit="byte/s",
        scope=scope,
        x=tuple(float(size) for size in sweep),
        best=tuple(samples.series.best for samples in sweep.values()),
        median=tuple(samples.series.median for samples in sweep.values()),
        source=source,
        threads=len(next(iter(sweep.values())).trial.jobs),
        runs=max(samples.series.runs for samples in sweep.values()),
        plateaus=tuple(_plateau(one) for one in flat),
    )


def _rows_curve(scope: Scope, rows: dict[int, Samples], source: Source) -> Curve:
    return Curve(
        name="bandwidth of rows side by side",
        x_unit="byte",
        y_unit="byte/s",
        scope=scope,
        x=tuple(float(size) for size in rows),
        best=tuple(samples.series.best for samples in rows.values()),
        median=tuple(samples.series.median for samples in rows.values()),
        source=source,
        threads=len(next(iter(rows.values())).trial.jobs),
        runs=max(samples.series.runs for samples in rows.values()),
    )


def _plateau(one: NamedPlateau) -> Plateau:
    return Plateau(level=one.level, first=one.first_bytes, last=one.last_bytes, value=one.height)
