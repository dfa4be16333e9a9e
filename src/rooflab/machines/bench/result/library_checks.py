"""Checks of what was measured of libraries and of translations."""

from __future__ import annotations

from collections.abc import Iterator

from rooflab.machines import products as model
from rooflab.machines.bench.experiments.translations import monotone
from rooflab.machines.bench.findings import Findings
from rooflab.types.machine import Check, Machine
from rooflab.units import iec, si

# The fit of a routine that misses products it had not seen by more than this, at the median, predicts little.
_POOR = 0.25
# A library may overlap what a microbenchmark of one instruction does not.
_ABOVE_PEAK = 1.05


def library_checks(machine: Machine, findings: Findings) -> Iterator[Check]:
    """Whether libraries could be timed, whether the fits hold, whether waits grow with the pages touched."""
    for library in findings.libraries:
        if library.refused is not None:
            message = f"Products in {library.name} were not timed: {library.refused}."
            yield Check(name="products", ok=False, message=message)
    yield from _fits(machine)
    yield from _under_peak(machine)
    for each in findings.translations:
        if each.extra_s:
            ok = monotone(list(each.extra_s.values()))
            pages = f"{iec(each.page_bytes)} pages"
            message = f"A load waits no less as more {pages} are touched."
            if not ok:
                message = (
                    f"With more {pages} touched a load waited less: likely a noisy neighbour or a changing clock; "
                    "how far translations reach is not to be trusted."
                )
            yield Check(name="translations", ok=ok, message=message)


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
            f"{row.error:.0%}"
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
