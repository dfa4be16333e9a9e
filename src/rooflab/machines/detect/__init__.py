"""What machine is this? Detection on the standard library alone, from a root directory that is an argument."""

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
