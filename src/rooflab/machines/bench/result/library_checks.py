"""Checks of what was measured of libraries and of translations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from rooflab.machines import products as model
from rooflab.machines.bench.experiments.products import TimedLibrary
from rooflab.machines.bench.experiments.translations import monotone
from rooflab.machines.bench.findings import Findings
from rooflab.machines.bench.result.products_fitted import LEAST_SAMPLES
from rooflab.types.machine import Check, Machine
from rooflab.types.measured import Products
from rooflab.units import iec, percent, si

# The fit of a routine that misses products it had not seen by more than this, at the median, predicts little.
_POOR = 0.25
# A library may overlap what a microbenchmark of one instruction does not.
_ABOVE_PEAK = 1.05
# A fit that is faster than the cores' peak by more than this is noise: a clock is read too low by less.
_IMPOSSIBLE = 1.25


def impossible(machine: Machine) -> tuple[Products, ...]:
    """The fitted products that compute faster than any peak that is known of their cores: noise, fitted."""
    return tuple(
        row
        for row in machine.products
        if row.flop_per_s is not None
        and (most := _most(machine, row)) is not None
        and row.flop_per_s > _IMPOSSIBLE * most
    )


def _most(machine: Machine, row: Products) -> float | None:
    """The FLOP a second of so many cores by the highest peak known; None without a theoretical one.

    One that was only measured may itself have been disturbed, and be too low.
    """
    theory = machine.peak(row.dtype, basis="theoretical", scope="core")
    if theory is None:
        return None
    measured = machine.peak(row.dtype, basis="attained", scope="core")
    return row.threads * max(theory.value, measured.value if measured else 0.0)


def left_out(rows: Sequence[Products]) -> Iterator[Check]:
    """That such products were left out."""
    if rows:
        named = ", ".join(f"{row.library} {row.routine} {row.dtype} on {row.threads}" for row in rows)
        message = (
            f"{named}: what was timed would be faster than the cores' peak, and is left out; predictions of these "
            "products use the peaks. Likely other work beside the timing: measure again on a quieter machine."
        )
        yield Check(name="possible products", ok=False, message=message[:1].upper() + message[1:])


def library_checks(machine: Machine, findings: Findings) -> Iterator[Check]:
    """Whether libraries could be timed, whether the fits hold, whether waits grow with the pages touched."""
    for library in findings.libraries:
        if library.refused is not None:
            message = f"Products in {library.name} were not timed: {library.refused}."
            yield Check(name="products", ok=False, message=message)
        yield from _too_few(library)
    yield from _fits(machine)
    yield from _under_peak(machine)
    for each in findings.translations:
        if each.extra_s and not each.step_bytes:
            ok = monotone(list(each.extra_s.values()))
            pages = f"{iec(each.page_bytes)} pages"
            message = f"A load waits no less as more {pages} are touched."
            if not ok:
                message = (
                    f"With more {pages} touched a load waited less: likely a noisy neighbour or a changing clock; "
                    "how far translations reach is not to be trusted."
                )
            yield Check(name="translations", ok=ok, message=message)


def _too_few(library: TimedLibrary) -> Iterator[Check]:
    """That products of some format, by some number of threads, were too few for a fit."""
    counted = Counter(
        (each.dtype, each.threads)
        for each in library.timed
        if model.routine_of(library.name, each.batch, each.m, each.n) == model.PRODUCT
    )
    few = [(dtype, threads, count) for (dtype, threads), count in counted.items() if count < LEAST_SAMPLES]
    if few:
        named = ", ".join(f"{count} in {dtype} on {threads}" for dtype, threads, count in few)
        message = (
            f"Only {named} thread(s) of {library.name}'s products were timed in the time for them, and "
            f"{LEAST_SAMPLES} make a fit: likely other work beside the timing; predictions of them use the peaks. "
            "Measure again on a quieter machine, or with --library."
        )
        yield Check(name="products", ok=False, message=message)


def _fits(machine: Machine) -> Iterator[Check]:
    """Whether the fitted products predict others."""
    judged = [
        row for row in machine.products if row.error is not None and row.routine in (model.PRODUCT, model.BATCHED)
    ]
    if not judged:
        return
    poor = [row for row in judged if (row.error or 0.0) > _POOR]
    message = f"The fits of {len(judged)} routines of libraries predict products that they had not seen."
    if poor:
        named = ", ".join(
            f"{row.library} {row.routine} {row.dtype} on {row.threads} thread{'s' if row.threads > 1 else ''} "
            f"{percent(row.error)}"
            for row in poor[:4]
        )
        message = (
            f"Products are missed by {named} at the median: likely other work beside the timing; predictions of "
            "products have wide bars. Measure again on a quieter machine, or with --library."
        )
    yield Check(name="products", ok=not poor, message=message)


def _under_peak(machine: Machine) -> Iterator[Check]:
    """Whether large products stay under the peak that was measured for their format."""
    over, compared = [], 0
    for row in machine.products:
        peak = machine.peak(row.dtype, basis="attained", scope="core" if row.threads == 1 else "all")
        if row.flop_per_s is None or row.routine != model.PRODUCT or peak is None:
            continue
        if row.threads not in (1, machine.compute_units):
            continue
        compared += 1
        if row.flop_per_s > peak.value * _ABOVE_PEAK:
            over.append(
                f"{row.library} {row.dtype} on {row.threads} computes {si(row.flop_per_s, 'FLOP/s')}, the peak is "
                f"{si(peak.value, 'FLOP/s')}"
            )
    if not compared:
        return
    message = f"Large products of {compared} fits stay under the measured peaks."
    if over:
        message = f"{'; '.join(over)}: the peak was probably measured under background load."
        message = message[:1].upper() + message[1:]
    yield Check(name="products under peaks", ok=not over, message=message)
