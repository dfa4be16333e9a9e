"""Nsight Compute's metrics of accesses and occupancy in rooflab's words: coalescing, conflicts, pipes, clocks.

Names as in Nsight Compute's metrics reference and its sections (MemoryWorkloadAnalysis, Occupancy,
ComputeWorkload).
"""

from __future__ import annotations

import re

from rooflab.observe.importers.counters.ncu_metrics import SECTOR_BYTES, Metrics, summed
from rooflab.types.counted import Access

_REQUESTS = "l1tex__t_requests_pipe_lsu_mem_{}_op_{}"
# What a block needs may leave room for so many blocks of it on a multiprocessor.
_LIMITS = {
    "registers": ("launch__occupancy_limit_registers", "Block Limit Registers"),
    "shared memory": ("launch__occupancy_limit_shared_mem", "Block Limit Shared Mem"),
    "warps": ("launch__occupancy_limit_warps", "Block Limit Warps"),
    "blocks": ("launch__occupancy_limit_blocks", "Block Limit SM"),
    "barriers": ("launch__occupancy_limit_barriers", "Block Limit Barriers"),
}
_PIPE = re.compile(r"sm__inst_executed_pipe_([a-z0-9_]+)\.(?:avg|sum)\.pct_of_peak_sustained_active")
_BUSIEST = ("sm__throughput.avg.pct_of_peak_sustained_elapsed",)
_ISSUE = ("smsp__issue_active.avg.pct_of_peak_sustained_active", "Issue Slots Busy")
_HITS = {"L1": "l1tex__t_sector_hit_rate.pct", "L2": "lts__t_sector_hit_rate.pct"}
_CLOCKS = (
    "smsp__cycles_elapsed.avg.per_second",
    "sm__cycles_elapsed.avg.per_second",
    "gpc__cycles_elapsed.avg.per_second",
)


def access(metrics: Metrics) -> Access | None:
    """What `metrics`, in base units, say of one kernel's accesses; None where they say nothing."""
    found = Access(
        requests=_global_and_local(metrics, _REQUESTS),
        sectors=_global_and_local(metrics, "l1tex__t_sectors_pipe_lsu_mem_{}_op_{}"),
        load_use=_use(metrics, "ld"),
        store_use=_use(metrics, "st"),
        shared_wavefronts=summed(metrics, "l1tex__data_pipe_lsu_wavefronts_mem_shared"),
        shared_conflicts=summed(metrics, "l1tex__data_bank_conflicts_pipe_lsu_mem_shared"),
        load_store_inst=_load_store(metrics),
        occupancy=metrics.get("sm__warps_active.avg.pct_of_peak_sustained_active"),
        occupancy_limit=metrics.get("sm__maximum_warps_per_active_cycle_pct"),
        limited_by=_limited_by(metrics),
        hit_rates={level: metrics[name] for level, name in _HITS.items() if name in metrics},
        pipes=_pipes(metrics),
        clock_hz=next((metrics[name] for name in _CLOCKS if metrics.get(name)), None),
    )
    return None if found == Access() else found


def _global_and_local(metrics: Metrics, form: str) -> float | None:
    """Loads and stores together; None unless both are counted of global memory."""
    loads, stores = (summed(metrics, form.format("global", kind)) for kind in ("ld", "st"))
    if loads is None or stores is None:
        return None
    local = (summed(metrics, form.format("local", kind)) or 0.0 for kind in ("ld", "st"))
    return loads + stores + sum(local)


def _use(metrics: Metrics, kind: str) -> float | None:
    """Share of the touched sectors' bytes that threads asked for."""
    stem = f"smsp__sass_average_data_bytes_per_sector_mem_global_op_{kind}"
    ratio = metrics.get(f"{stem}.ratio")
    if ratio:
        return ratio / SECTOR_BYTES
    percent = metrics.get(f"{stem}.pct")
    return percent or None  # 0 where the kernel has no such access


def _load_store(metrics: Metrics) -> float | None:
    counted = summed(metrics, "sm__inst_executed_pipe_lsu", "smsp__inst_executed_pipe_lsu")
    # Requests are fewer than instructions where the same units serve shared memory too.
    return _global_and_local(metrics, _REQUESTS) if counted is None else counted


def _limited_by(metrics: Metrics) -> str | None:
    found = {
        limit: blocks
        for limit, names in _LIMITS.items()
        if (blocks := next((metrics[name] for name in names if name in metrics), None)) is not None
    }
    return min(found, key=found.__getitem__) if found else None


def _pipes(metrics: Metrics) -> dict[str, float]:
    pipes = {match[1]: value for name, value in metrics.items() if (match := _PIPE.fullmatch(name))}
    for pipe, names in (("issue", _ISSUE), ("busiest", _BUSIEST)):
        share = next((metrics[name] for name in names if name in metrics), None)
        pipes |= {} if share is None else {pipe: share}
    return pipes
