"""Tile sizes by predicted and measured time: which to run, which to take."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

from rooflab.loops import tiles
from rooflab.machines.cache_levels import Chosen
from rooflab.model.loop import placement
from rooflab.timing import Timing
from rooflab.types.loop import LoopReport
from rooflab.types.machine import Machine
from rooflab.types.tile_sweep import Tile, TileSweep
from rooflab.units import si

TURNS = 3  # that each of the most promising sizes gets


def sweep(
    name: str,
    configurations: Sequence[dict[str, int]],
    reports: Sequence[LoopReport | Exception],
    caches: Chosen,
    machine: Machine | None,
    measure: Callable[[dict[str, int]], Timing],
) -> TileSweep:
    """The sweep over `reports`: the five with the least predicted time (or traffic) run by `measure`, in turns.

    Raises:
        RooflabError: the first error, where no configuration could be simulated.
    """
    counted, failed = [], {}
    for sizes, report in zip(configurations, reports, strict=True):
        if isinstance(report, Exception):
            failed[_text(sizes)] = str(report)
        else:
            counted.append(_tile(sizes, report, machine))
    if not counted:
        raise next(each for each in reports if isinstance(each, Exception))
    promising = sorted(range(len(counted)), key=lambda n: _promise(counted[n]))[: tiles.TIMED]
    # In turns: a busy moment of the machine then spoils no one size.
    turns = [[measure(counted[number].sizes) for number in promising] for _ in range(TURNS)]
    for number, timings in zip(promising, zip(*turns, strict=True), strict=True):
        counted[number] = _with_time(counted[number], timings)
    best = min((counted[n] for n in promising), key=lambda tile: tile.measured_s or 0.0)
    incomplete = [each for each in reports if isinstance(each, LoopReport) and not each.complete]
    warnings = (
        ("some counts were stopped by the time limit and are partial: give smaller arguments",)
        if incomplete
        else ()
    )
    return TileSweep(
        name=name,
        tiles=tuple(counted),
        capacities_bytes={each.name or "": each.capacity_bytes for each in caches.caches},
        best=best.sizes,
        why=_why(best, counted, promising),
        machine=machine,
        failed=failed,
        warnings=warnings,
    )


def _tile(sizes: dict[str, int], report: LoopReport, machine: Machine | None) -> Tile:
    traffic = {each.level: float(each.read_bytes + each.write_bytes) for each in report.traffic}
    prediction = None if machine is None else placement.place_on(report, machine).prediction
    return Tile(sizes=sizes, traffic_bytes=traffic, predicted_s=None if prediction is None else prediction.time_s)


def _with_time(tile: Tile, timings: Sequence[Timing]) -> Tile:
    best, median = min(each.best_s for each in timings), statistics.median(each.median_s for each in timings)
    return Tile(
        sizes=tile.sizes,
        traffic_bytes=tile.traffic_bytes,
        predicted_s=tile.predicted_s,
        measured_s=best,
        runs=sum(each.runs for each in timings),
        spread=(median - best) / median if median else 0.0,
    )


def _promise(tile: Tile) -> tuple[float, ...]:
    """Predicted time; without a machine, the traffic of the furthest level first."""
    traffic = tuple(reversed(tile.traffic_bytes.values()))
    return traffic if tile.predicted_s is None else (tile.predicted_s, *traffic)


def _why(best: Tile, counted: Sequence[Tile], promising: Sequence[int]) -> str:
    memory = list(best.traffic_bytes)[-1]
    most = max(each.traffic_bytes[memory] for each in counted)
    others = len(promising)
    return (
        f"{si(best.measured_s, 's')} on one core, the fastest of the {others} most promising of {len(counted)}"
        f" that were run; {si(best.traffic_bytes[memory], 'B')} of {memory} traffic, at most {si(most, 'B')}"
        " elsewhere"
    )


def _text(sizes: dict[str, int]) -> str:
    return ", ".join(f"{name} = {size}" for name, size in sizes.items())
