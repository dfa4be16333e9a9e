"""The machine that a timed loop meets: its shared levels are read between runs, where they bear on the loop."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rooflab.machines import as_now
from rooflab.machines.doubts import is_here
from rooflab.model.loop import crossings, rates
from rooflab.types.loop import LoopReport
from rooflab.types.machine import Machine, Scope, is_main_memory

if TYPE_CHECKING:
    from rooflab.machines.bench.experiments.levels_now import Watch

_BEARS = 0.1  # of a run's time, that its bytes take beyond the nearer caches


@contextmanager
def watched(machine: Machine | None, args: Sequence[Any]) -> Iterator[Watch | None]:
    """Within it, loops over `args` are timed with the shared levels of `machine` read between their runs.

    None where that machine was not measured on this host.
    """
    if machine is None or machine.source.kind != "measured" or not is_here(machine):
        yield None
        return
    from rooflab.loops.compiled import stretches
    from rooflab.machines.bench.experiments import levels_now

    with levels_now.Watch(machine, sum(_arrays(args).values())) as watch, stretches.watched(watch):
        yield watch


def _arrays(values: Any) -> dict[int, int]:
    """Bytes of the arrays among values, and in lists and tuples of them, by where they begin."""
    found: dict[int, int] = {}
    for each in values:
        if isinstance(each, (list, tuple)):
            found |= _arrays(each)
        elif (start := getattr(each, "__array_interface__", None)) is not None:
            found[start["data"][0]] = each.nbytes
    return found


def met_by(report: LoopReport, machine: Machine, watch: Watch | None) -> tuple[Machine, tuple[str, ...]]:
    """`machine` with its last cache and its memory as they streamed meanwhile, and what a reader must know of it.

    As it is where `report` was not timed, nothing watched it, or what lies beyond the nearer caches takes less
    than a tenth of the run.
    """
    run = report.run()
    if run is None or watch is None or _beyond_s(report, machine) < _BEARS * run.best_s:
        return machine, ()
    several = report.run(threads=2)
    found: dict[Scope, tuple[as_now.Reading, ...]] = {"core": watch.readings("core", report.footprint_bytes)}
    if several is not None:
        found["all"] = watch.readings("all", report.footprint_bytes / several.threads)
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
