"""The machine that a timed loop has just met: its shared levels are read once more where they bear on the loop."""

from __future__ import annotations

from rooflab.machines import as_now
from rooflab.machines.doubts import is_here
from rooflab.model.loop import crossings, rates
from rooflab.types.loop import LoopReport
from rooflab.types.machine import Machine, Scope, is_main_memory

_BEARS = 0.1  # of a run's time, that its bytes take beyond the nearer caches


def met_by(report: LoopReport, machine: Machine) -> tuple[Machine, tuple[str, ...]]:
    """`machine` with its last cache and its memory as they stream now, and what a reader must know of it.

    As it is where `report` was not timed, `machine` was not measured on this host, or what lies beyond the
    nearer caches takes less than a tenth of the run.
    """
    run = report.run()
    if run is None or machine.source.kind != "measured" or not is_here(machine):
        return machine, ()
    if _beyond_s(report, machine) < _BEARS * run.best_s:
        return machine, ()
    from rooflab.machines.bench.experiments import levels_now

    several = report.run(threads=2)
    found: dict[Scope, tuple[as_now.Reading, ...]] = {
        "core": levels_now.measure(machine, report.footprint_bytes, "core")
    }
    if several is not None:
        found["all"] = levels_now.measure(machine, report.footprint_bytes / several.threads, "all")
    readings: as_now.Readings = {scope: each for scope, each in found.items() if each}
    sentence = as_now.said(machine, readings)
    return as_now.as_now(machine, readings), (sentence,) if sentence else ()


def _beyond_s(report: LoopReport, machine: Machine) -> float:
    """Seconds that the bytes of a warm run take from the last cache and the memory on one core."""
    last = as_now.last_cache(machine)
    seconds = 0.0
    for name, read, written in crossings.of(report)[1:]:
        level = crossings.level(machine, name)
        if level is None or last is None or not (level.name == last.name or is_main_memory(level)):
            continue
        rate = read + written and rates.bytes_per_s(level, "core", written / (read + written), nearest=False)
        seconds += (read + written) / rate if rate else 0.0
    return seconds
