"""rooflab: what limits this code on this machine, how far is it from the limit, and what would help?"""

from __future__ import annotations

import importlib as _importlib

__version__ = "0.1.0"

TYPE_CHECKING = False  # typing itself takes 7 ms to import, which `rooflab run` waits for
if TYPE_CHECKING:
    import typing as _typing

    from rooflab.cachesim import streams as streams
    from rooflab.cachesim.coherence import streams as core_streams  # noqa: F401 — by `_MODULES`
    from rooflab.errors import RooflabError
    from rooflab.model import lab as lab
    from rooflab.story import (
        advise,
        analyze,
        calibrate,
        compare,
        doctor,
        fleet_measure,
        hotspots,
        load,
        loop,
        machine,
        measure,
        miss_curve,
        op,
        predict,
        run,
        serve,
        serve_plan,
        simulate,
        simulate_cores,
        sweep_tiles,
        time,
        transfer,
        variants,
    )
    from rooflab.types.advice import Advice, Advices
    from rooflab.types.calibration import Calibration
    from rooflab.types.checkup import Checkup
    from rooflab.types.comparison import Comparison
    from rooflab.types.core_simulation import CoreSimulation
    from rooflab.types.fleet import Fleet
    from rooflab.types.hotspots import Hotspots
    from rooflab.types.lab import Sweep
    from rooflab.types.loop import LoopReport
    from rooflab.types.machine import Level, Link, Machine, Rate
    from rooflab.types.report import Report
    from rooflab.types.run import Run
    from rooflab.types.serving import Serving
    from rooflab.types.serving_plan import ServingPlan
    from rooflab.types.setting import Setting
    from rooflab.types.simulation import Cache, MissCurve, Simulation, tlb
    from rooflab.types.source import Source
    from rooflab.types.tile_sweep import TileSweep
    from rooflab.types.timed_call import TimedCall
    from rooflab.types.transfer import Transfer
    from rooflab.types.variants import Variants
    from rooflab.work.own_formulas import formula

# Where each public name lives: imported on first use, so that `import rooflab` stays quick.
_HOMES = {
    "Advice": "rooflab.types.advice",
    "Advices": "rooflab.types.advice",
    "Cache": "rooflab.types.simulation",
    "Calibration": "rooflab.types.calibration",
    "Checkup": "rooflab.types.checkup",
    "Comparison": "rooflab.types.comparison",
    "CoreSimulation": "rooflab.types.core_simulation",
    "Fleet": "rooflab.types.fleet",
    "Hotspots": "rooflab.types.hotspots",
    "Level": "rooflab.types.machine",
    "Link": "rooflab.types.machine",
    "LoopReport": "rooflab.types.loop",
    "Machine": "rooflab.types.machine",
    "MissCurve": "rooflab.types.simulation",
    "Rate": "rooflab.types.machine",
    "Report": "rooflab.types.report",
    "RooflabError": "rooflab.errors",
    "Run": "rooflab.types.run",
    "Serving": "rooflab.types.serving",
    "ServingPlan": "rooflab.types.serving_plan",
    "Setting": "rooflab.types.setting",
    "Simulation": "rooflab.types.simulation",
    "Source": "rooflab.types.source",
    "Sweep": "rooflab.types.lab",
    "TileSweep": "rooflab.types.tile_sweep",
    "TimedCall": "rooflab.types.timed_call",
    "Transfer": "rooflab.types.transfer",
    "Variants": "rooflab.types.variants",
    "advise": "rooflab.story",
    "analyze": "rooflab.story",
    "calibrate": "rooflab.story",
    "compare": "rooflab.story",
    "doctor": "rooflab.story",
    "fleet_measure": "rooflab.story",
    "formula": "rooflab.work.own_formulas",
    "hotspots": "rooflab.story",
    "load": "rooflab.story",
    "loop": "rooflab.story",
    "machine": "rooflab.story",
    "measure": "rooflab.story",
    "miss_curve": "rooflab.story",
    "op": "rooflab.story",
    "predict": "rooflab.story",
    "run": "rooflab.story",
    "serve": "rooflab.story",
    "serve_plan": "rooflab.story",
    "simulate": "rooflab.story",
    "simulate_cores": "rooflab.story",
    "sweep_tiles": "rooflab.story",
    "time": "rooflab.story",
    "tlb": "rooflab.types.simulation",
    "transfer": "rooflab.story",
    "variants": "rooflab.story",
}

# Modules that are used by name: `rooflab.streams.matmul(256)`, `rooflab.lab.sweep(…)`.
_MODULES = {
    "core_streams": "rooflab.cachesim.coherence.streams",
    "lab": "rooflab.model.lab",
    "streams": "rooflab.cachesim.streams",
}

__all__ = [
    "Advice",
    "Advices",
    "Cache",
    "Calibration",
    "Checkup",
    "Comparison",
    "CoreSimulation",
    "Fleet",
    "Hotspots",
    "Level",
    "Link",
    "LoopReport",
    "Machine",
    "MissCurve",
    "Rate",
    "Report",
    "RooflabError",
    "Run",
    "Serving",
    "ServingPlan",
    "Setting",
    "Simulation",
    "Source",
    "Sweep",
    "TileSweep",
    "TimedCall",
    "Transfer",
    "Variants",
    "advise",
    "analyze",
    "calibrate",
    "compare",
    "doctor",
    "fleet_measure",
    "formula",
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
    "tlb",
    "transfer",
    "variants",
]


def __getattr__(name: str) -> _typing.Any:
    if name in _MODULES:
        return _importlib.import_module(_MODULES[name])
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'rooflab' has no attribute {name!r}")
    value = getattr(_importlib.import_module(home), name)
    globals()[name] = value
    return value


def load_ipython_extension(ipython: _typing.Any) -> None:
    """Make `%rooflab` and `%%rooflab` known: what `%load_ext rooflab` calls."""
    _importlib.import_module("rooflab.notebook").register(ipython)


def __dir__() -> list[str]:
    return sorted({*_HOMES, *_MODULES, "__version__"})
