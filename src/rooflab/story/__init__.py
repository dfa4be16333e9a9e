"""The public functions, each short enough to read aloud. Heavy imports happen inside them."""

from __future__ import annotations

import importlib as _importlib
import typing as _typing

if _typing.TYPE_CHECKING:
    from rooflab.story.advice import advise
    from rooflab.story.caches import miss_curve, simulate, simulate_cores
    from rooflab.story.calibrating import calibrate
    from rooflab.story.comparing import compare
    from rooflab.story.environment import doctor
    from rooflab.story.files import load
    from rooflab.story.fleets import fleet_measure
    from rooflab.story.loops import loop, sweep_tiles
    from rooflab.story.machines import machine, measure
    from rooflab.story.own_times import with_times as with_times
    from rooflab.story.programs import analyze, op, predict, variants
    from rooflab.story.running import run
    from rooflab.story.sampling import hotspots
    from rooflab.story.serving import serve, serve_plan
    from rooflab.story.timed import time
    from rooflab.story.transfers import transfer

# The file that each function lives in: imported when it is asked for, so that a command waits for its own alone.
_HOMES = {
    "advise": "advice",
    "analyze": "programs",
    "calibrate": "calibrating",
    "compare": "comparing",
    "doctor": "environment",
    "fleet_measure": "fleets",
    "hotspots": "sampling",
    "load": "files",
    "loop": "loops",
    "machine": "machines",
    "measure": "machines",
    "miss_curve": "caches",
    "op": "programs",
    "predict": "programs",
    "run": "running",
    "serve": "serving",
    "serve_plan": "serving",
    "simulate": "caches",
    "simulate_cores": "caches",
    "sweep_tiles": "loops",
    "time": "timed",
    "transfer": "transfers",
    "variants": "programs",
    "with_times": "own_times",
}

__all__ = [
    "advise",
    "analyze",
    "calibrate",
    "compare",
    "doctor",
    "fleet_measure",
    "hotspots",
    "load",
    "loop",
    "machine",
    "measure",
    "miss_curve",
    "op",
    "predict",
    "run",
    "serve",
    "serve_plan",
    "simulate",
    "simulate_cores",
    "sweep_tiles",
    "time",
    "transfer",
    "variants",
]


def __getattr__(name: str) -> _typing.Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'rooflab.story' has no attribute {name!r}")
    value = getattr(_importlib.import_module(f"rooflab.story.{home}"), name)
    globals()[name] = value
    return value
