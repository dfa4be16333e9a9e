"""What machine is this? Detection on the standard library alone, from a root directory that is an argument."""

from __future__ import annotations

import importlib as _importlib
import typing as _typing

if _typing.TYPE_CHECKING:
    from rooflab.machines.detect.caches import ReportedCache, reported_cache
    from rooflab.machines.detect.darwin import from_sysctl
    from rooflab.machines.detect.entry import detect
    from rooflab.machines.detect.granted import (
        MINIMUM_MEMORY_BYTES,
        granted_cores,
        granted_sentence,
        granted_threads,
        is_whole,
        mappable_bytes,
        physical_cores,
        require_memory,
    )
    from rooflab.machines.detect.host import CacheInstance, Cpu, Gpu, Host, Node

# The file that each name lives in: imported when it is asked for, so that a command may start before it.
_HOMES = {
    "CacheInstance": "host",
    "Cpu": "host",
    "Gpu": "host",
    "Host": "host",
    "MINIMUM_MEMORY_BYTES": "granted",
    "Node": "host",
    "ReportedCache": "caches",
    "detect": "entry",
    "from_sysctl": "darwin",
    "granted_cores": "granted",
    "granted_sentence": "granted",
    "granted_threads": "granted",
    "is_whole": "granted",
    "mappable_bytes": "granted",
    "physical_cores": "granted",
    "reported_cache": "caches",
    "require_memory": "granted",
}

__all__ = [
    "MINIMUM_MEMORY_BYTES",
    "CacheInstance",
    "Cpu",
    "Gpu",
    "Host",
    "Node",
    "ReportedCache",
    "detect",
    "from_sysctl",
    "granted_cores",
    "granted_sentence",
    "granted_threads",
    "is_whole",
    "mappable_bytes",
    "physical_cores",
    "reported_cache",
    "require_memory",
]


def __getattr__(name: str) -> _typing.Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'rooflab.machines.detect' has no attribute {name!r}")
    value = getattr(_importlib.import_module(f"rooflab.machines.detect.{home}"), name)
    globals()[name] = value
    return value
