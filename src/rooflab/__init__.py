"""rooflab: what limits this code on this machine, how far is it from the limit, and what would help?"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from rooflab.errors import RooflabError
    from rooflab.story import (
        analyze,
        calibrate,
        loop,
        machine,
        measure,
        miss_curve,
        op,
        simulate,
        simulate_cores,
        sweep_tiles,
        transfer,
    )
    from rooflab.types.loop import LoopReport
    from rooflab.types.machine import Level, Link, Machine, Rate, Source
    from rooflab.types.report import Report
    from rooflab.types.sharing import CoreSimulation
    from rooflab.types.simulation import Cache, Simulation

# Where each public name lives: imported on first use, so that `import rooflab` stays quick.
_HOMES = {
    "Cache": "rooflab.types.simulation",
    "CoreSimulation": "rooflab.types.sharing",
    "Simulation": "rooflab.types.simulation",
    "RooflabError": "rooflab.errors",
    "Machine": "rooflab.types.machine",
    "Level": "rooflab.types.machine",
    "Link": "rooflab.types.machine",
    "Rate": "rooflab.types.machine",
    "Source": "rooflab.types.machine",
    "LoopReport": "rooflab.types.loop",
    "Report": "rooflab.types.report",
    "analyze": "rooflab.story",
    "calibrate": "rooflab.story",
    "loop": "rooflab.story",
    "measure": "rooflab.story",
    "machine": "rooflab.story",
    "miss_curve": "rooflab.story",
    "op": "rooflab.story",
    "simulate": "rooflab.story",
    "simulate_cores": "rooflab.story",
    "sweep_tiles": "rooflab.story",
    "transfer": "rooflab.story",
}

# Modules that are used by name: `rooflab.streams.matmul(256)`.
_MODULES = {"streams": "rooflab.cachesim.streams", "core_streams": "rooflab.cachesim.core_streams"}

__all__ = [
    "Cache",
    "CoreSimulation",
    "Level",
    "Link",
    "LoopReport",
    "Machine",
    "Rate",
    "Report",
    "RooflabError",
    "Simulation",
    "Source",
    "analyze",
    "calibrate",
    "loop",
    "machine",
    "measure",
    "miss_curve",
    "op",
    "simulate",
    "simulate_cores",
    "sweep_tiles",
    "transfer",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(_MODULES[name])
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'rooflab' has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, *_MODULES})
