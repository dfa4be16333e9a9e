"""From findings to peaks and clocks, theory beside measurement."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from rooflab.machines.bench.experiments.peaks import PeakForm
from rooflab.machines.bench.findings import Findings
from rooflab.machines.bench.kernels.rows import PeakRow
from rooflab.machines.bench.run.trials import Samples
from rooflab.machines.microarchitecture import Microarchitecture, What, flop_per_cycle
from rooflab.timing import Series
from rooflab.types.machine import Engine, Rate, Scope, Source

_INTEGER = "int8"
# The field of the microarchitecture's row that a theoretical peak rests on.
_FIELDS: dict[tuple[str, str | None], str] = {
    ("fma", None): "fma_pipes",
    ("fma+add", None): "add_pipes",
    ("add", None): "adds",
    ("dot", "bf16"): "bf16_dot_flop",
    ("dot", "int8"): "int8_dot_op",
}


def whole(rate: Rate) -> Rate:
    """`rate` with scope "all": one granted core is all of them."""
    return msgspec.structs.replace(rate, scope="all")


def theory_source(row: Microarchitecture, field: str, date: str | None) -> Source:
    """The source of `field` of the row × the measured clock: "assumed" where the row itself says so."""
    ref = f"units × {row.name}'s rate per clock × highest clock measured under load; {row.source}"
    return Source("assumed" if field in row.assumed else "derived", ref, date)


def scopes(findings: Findings) -> tuple[tuple[Scope, int], ...]:
    """Each scope with its number of cores."""
    return (("core", 1), ("all", len(findings.cpus)))


def theory_clock_hz(findings: Findings) -> float | None:
    """The highest clock measured under load: theory holds at this one."""
    return max(findings.clocks_hz, default=None)


def peaks(findings: Findings, source: Source) -> tuple[Rate, ...]:
    """Arithmetic: for every row and scope the best register width, and theory after it."""
    best: dict[tuple[PeakRow, Scope], tuple[PeakForm, Samples]] = {}
    for (form, scope), samples in findings.peaks.items():
        key = (form.row, scope)
        if key not in best or samples.series.best > best[key][1].series.best:
            best[key] = (form, samples)
    attained = [_peak(form, scope, samples, source) for (_, scope), (form, samples) in best.items()]
    if len(findings.cpus) == 1:
        attained += [whole(rate) for rate in attained]
    rows = list(dict.fromkeys(row for row, _ in best))
    return (*attained, *_theoretical_peaks(findings, rows, source.date), *_sustained(findings, source))


def _unit(row: PeakRow) -> tuple[str, Engine]:
    engine: Engine = "scalar" if row.form == "scalar" else "vector"
    return ("op" if row.dtype == _INTEGER else "flop"), engine


def _peak(form: PeakForm, scope: Scope, samples: Samples, source: Source) -> Rate:
    unit, engine = _unit(form.row)
    series = samples.series
    return Rate(
        value=series.best,
        per_s="op" if unit == "op" else "flop",
        what=form.row.what,
        basis="attained",
        source=source,
        dtype=form.row.dtype,
        accumulate=form.row.accumulate,
        engine=engine,
        scope=scope,
        threads=len(samples.trial.jobs),
        clock_hz=samples.clock_hz,
        median=series.median,
        spread=series.spread,
        runs=series.runs,
        note=form.simd.name,
    )


def _theoretical_peaks(findings: Findings, rows: Iterable[PeakRow], date: str | None) -> Iterator[Rate]:
    """Cores × clock × lanes × FMA × pipes, where the microarchitecture's table has them."""
    uarch, clock = findings.microarchitecture, theory_clock_hz(findings)
    if uarch is None or clock is None:
        return
    for row in rows:
        what = _table_name(row)
        per_cycle = flop_per_cycle(uarch, row.dtype, what)
        if per_cycle is None:
            continue
        unit, engine = _unit(row)
        for scope, cores in scopes(findings):
            yield Rate(
                value=cores * per_cycle * clock,
                per_s="op" if unit == "op" else "flop",
                what=row.what,
                basis="theoretical",
                source=theory_source(uarch, _field(row), date),
                dtype=row.dtype,
                accumulate=row.accumulate,
                engine=engine,
                scope=scope,
                threads=cores,
                clock_hz=clock,
                units=cores,
                per_unit_per_clock=per_cycle,
            )


def _field(row: PeakRow) -> str:
    return _FIELDS[(row.what, row.dtype if row.what == "dot" else None)]


def _table_name(row: PeakRow) -> What:
    """The row's name in the microarchitecture's table."""
    names: dict[tuple[str, str], What] = {
        ("fma", "vector"): "fma",
        ("fma+add", "vector"): "fma+add",
        ("add", "vector"): "add",
        ("dot", "vector"): "dot",
        ("fma", "scalar"): "scalar fma",
    }
    return names[(row.what, row.form)]


def _sustained(findings: Findings, source: Source) -> Iterator[Rate]:
    """The last second of a sustained run: what power and temperature leave of the burst."""
    if not findings.sustained:
        return
    end = findings.sustained[-1][0]
    last = Series(tuple(value for at, value in findings.sustained if at >= end - 1))
    yield Rate(
        value=last.median,
        per_s="flop",
        what="sustained fma",
        basis="attained",
        source=source,
        dtype="fp64",
        engine="vector",
        threads=len(findings.cpus),
        median=last.median,
        spread=last.spread,
        runs=last.runs,
        note=f"median of the last second of {end:.0f} s",
    )


def clocks(findings: Findings, source: Source) -> tuple[Rate, ...]:
    """The clock under load, and the highest that the system reports."""
    readings = findings.clocks_hz
    rates = []
    if readings:
        series = Series(tuple(readings))
        rates.append(
            Rate(
                value=series.best,
                per_s="cycle",
                what="clock under load",
                basis="attained",
                source=source,
                scope="core",
                median=series.median,
                spread=series.spread,
                runs=series.runs,
            )
        )
    if findings.host.reported_max_hz:
        reported = Source("derived", "highest clock that the operating system reports", source.date)
        rates.append(
            Rate(
                value=findings.host.reported_max_hz,
                per_s="cycle",
                what="reported maximum",
                basis="theoretical",
                source=reported,
                scope="core",
            )
        )
    return tuple(rates)
