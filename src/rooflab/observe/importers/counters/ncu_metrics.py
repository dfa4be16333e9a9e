"""Nsight Compute's metrics in rooflab's words: time, FLOP by engine and format, bytes by level, instructions.

Names and factors: Nsight Compute's own roofline sections (sections/SpeedOfLight_HierarchicalRooflineChart.section)
and its metrics reference. A metric may stand in a file as a sum, as a rate, or as both.
"""

from __future__ import annotations

from collections.abc import Mapping

from rooflab.types.counted import Counted
from rooflab.types.work import Flop, Traffic
from rooflab.units import FLOP_PER_FMA

Metrics = Mapping[str, float]

SECTOR_BYTES = 32
WAVEFRONT_BYTES = 128  # 32 banks of 4 bytes

# What the details page calls a metric that the raw page has by name.
LABELS = {
    "Duration": "gpu__time_duration.sum",
    "SM Frequency": "smsp__cycles_elapsed.avg.per_second",
    "DRAM Frequency": "dram__cycles_elapsed.avg.per_second",
    "Elapsed Cycles": "gpc__cycles_elapsed.max",
    "Executed Instructions": "smsp__inst_executed.sum",
    "L1/TEX Hit Rate": "l1tex__t_sector_hit_rate.pct",
    "L2 Hit Rate": "lts__t_sector_hit_rate.pct",
    "Avg. Not Predicated Off Threads Per Warp": "smsp__thread_inst_executed_pred_on_per_inst_executed.ratio",
    "Avg. Active Threads Per Warp": "smsp__thread_inst_executed_per_inst_executed.ratio",
    "Achieved Occupancy": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "Theoretical Occupancy": "sm__maximum_warps_per_active_cycle_pct",
    "Registers Per Thread": "launch__registers_per_thread",
    "Waves Per SM": "launch__waves_per_multiprocessor",
    "DRAM Throughput": "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
    "L1/TEX Cache Throughput": "l1tex__throughput.avg.pct_of_peak_sustained_active",
    "L2 Cache Throughput": "lts__throughput.avg.pct_of_peak_sustained_elapsed",
    "Compute (SM) Throughput": "sm__throughput.avg.pct_of_peak_sustained_elapsed",
}

# Two metrics of the details page have the same name: one is a rate, one a share of the peak.
RATES = {"Memory Throughput": "dram__bytes.sum.per_second"}
SHARES = {"Memory Throughput": "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed"}

# Operations of one executed thread instruction. Half precision instructions work on pairs.
_PER_INSTRUCTION = {
    "fp64": {"dadd": 1, "dmul": 1, "dfma": FLOP_PER_FMA},
    "fp32": {"fadd": 1, "fmul": 1, "ffma": FLOP_PER_FMA},
    "fp16": {"hadd": 2, "hmul": 2, "hfma": 2 * FLOP_PER_FMA},
}
# Operations on matrix units by number format of the operands; each list is of alternatives, finest first.
_MATRIX = {
    "fp64": ("fp64",),
    "tf32": ("tf32_dst_fp32",),
    "bf16": ("bf16_dst_fp32",),
    "fp16": ("fp16_dst_fp32", "fp16_dst_fp16", "fp16"),
    "fp8": ("fp8",),
    "fp6": ("fp6",),
    "fp4": ("fp4",),
    "int8": ("int8",),
    "int4": ("int4",),
    "int1": ("int1",),
}


def counted(name: str, metrics: Metrics, grid: tuple[int, ...] | None, block: tuple[int, ...] | None) -> Counted:
    """What `metrics`, in base units, say of one kernel."""
    return Counted(
        name=name,
        time_s=time_s(metrics),
        flop=flop(metrics),
        traffic=tuple(one for one in (_l1(metrics), _shared(metrics), _l2(metrics), _dram(metrics)) if one),
        instructions=summed(metrics, "smsp__inst_executed", "sm__inst_executed"),
        thread_instructions=_thread_instructions(metrics),
        transactions=_transactions(metrics),
        grid=grid,
        block=block,
        metrics=dict(metrics),
    )


def _thread_instructions(metrics: Metrics) -> float | None:
    """Instructions of threads that predication left on; else those of all active threads."""
    for name in ("smsp__thread_inst_executed_pred_on", "smsp__thread_inst_executed", "sm__thread_inst_executed"):
        found = summed(metrics, name)
        if found is not None:
            return found
        ratio = metrics.get(f"{name}_per_inst_executed.ratio")
        instructions = summed(metrics, "smsp__inst_executed", "sm__inst_executed")
        if ratio is not None and instructions is not None:
            return ratio * instructions
    return None


def metric(label: str, unit: str) -> str:
    """The raw page's name of what the details page calls `label` in `unit`."""
    return (RATES if unit.strip().endswith(("/s", "/second")) else SHARES).get(label) or LABELS.get(label, label)


def time_s(metrics: Metrics) -> float | None:
    """Duration of the kernel."""
    for name in (
        "gpu__time_duration.sum",
        "gpu__time_duration.avg",
        "gpu__time_duration.max",
        "gpu__time_duration",
    ):
        if metrics.get(name):
            return metrics[name]
    cycles = metrics.get("gpc__cycles_elapsed.max", metrics.get("sm__cycles_elapsed.max"))
    clock = metrics.get("gpc__cycles_elapsed.avg.per_second", metrics.get("sm__cycles_elapsed.avg.per_second"))
    return cycles / clock if cycles and clock else None


def summed(metrics: Metrics, *names: str) -> float | None:
    """The first of `names` that is in the file, as a sum, or made one of its rate."""
    for name in names:
        if f"{name}.sum" in metrics:
            return metrics[f"{name}.sum"]
        if name in metrics:
            return metrics[name]
        per_second, seconds = metrics.get(f"{name}.sum.per_second"), time_s(metrics)
        if per_second is not None and seconds is not None:
            return per_second * seconds
        cycles = _cycles(metrics, name)
        for form in ("per_cycle_elapsed", "per_cycle_active"):
            per_cycle = metrics.get(f"{name}.sum.{form}")
            if per_cycle is not None and cycles is not None:
                return per_cycle * cycles
    return None


def _cycles(metrics: Metrics, name: str) -> float | None:
    """Cycles of the unit that `name` counts on, during the kernel."""
    unit = name.partition("__")[0].removeprefix("derived__")
    for one in (unit, "smsp", "sm", "l1tex", "gpc"):
        # The mean over the units: rates in the file are sums over it.
        for form in (f"{one}__cycles_elapsed.avg", f"{one}__cycles_elapsed.max"):
            if form in metrics:
                return metrics[form]
        clock, seconds = metrics.get(f"{one}__cycles_elapsed.avg.per_second"), time_s(metrics)
        if clock is not None and seconds is not None:
            return clock * seconds
    return None


def flop(metrics: Metrics) -> tuple[Flop, ...] | None:
    """FLOP by engine and number format; None where the file counts none at all."""
    found: list[Flop] = []
    known = False
    for dtype, instructions in _PER_INSTRUCTION.items():
        total = 0.0
        for instruction, operations in instructions.items():
            executed = _executed(metrics, instruction)
            if executed is not None:
                known = True
                total += operations * executed
        if total:
            found.append(Flop("vector", dtype, total))
    for dtype, sources in _MATRIX.items():
        counts = [_matrix(metrics, source) for source in sources]
        counts = [one for one in counts if one is not None]
        if counts:
            known = True
            if sum(counts):
                found.append(Flop("matrix", dtype, sum(counts)))
    return tuple(found) if known else None


def uncounted(metrics: Metrics) -> tuple[str, ...]:
    """What the FLOP of a kernel lack where some are counted: instructions, and engines by number format."""
    missing: list[str] = []
    for dtype, instructions in _PER_INSTRUCTION.items():
        lacks = [one for one in instructions if _executed(metrics, one) is None]
        missing += [f"{dtype} vector"] if len(lacks) == len(instructions) else lacks
    if not any(_matrix(metrics, source) is not None for sources in _MATRIX.values() for source in sources):
        missing.append("matrix")
    return tuple(missing) if flop(metrics) is not None else ()


def _executed(metrics: Metrics, instruction: str) -> float | None:
    stem = f"sass_thread_inst_executed_op_{instruction}_pred_on"
    return summed(metrics, f"smsp__{stem}", f"sm__{stem}")


def _matrix(metrics: Metrics, source: str) -> float | None:
    """Operations on matrix units with operands of `source`, dense and sparse together."""
    stem = f"sm__ops_path_tensor_src_{source}"
    whole = summed(metrics, stem)
    if whole is not None:
        return whole
    parts = [summed(metrics, f"{stem}_sparsity_{state}") for state in ("off", "on")]
    known = [one for one in parts if one is not None]
    return sum(known) if known else None


def _both(
    level: str, metrics: Metrics, read: tuple[str, ...], write: tuple[str, ...], factor: float
) -> Traffic | None:
    reads, writes = summed(metrics, *read), summed(metrics, *write)
    if reads is None or writes is None:
        return None
    return Traffic(level, reads * factor, writes * factor, "counted")


def _dram(metrics: Metrics) -> Traffic | None:
    reads = ("dram__bytes_read", "dram__bytes_op_read")
    writes = ("dram__bytes_write", "dram__bytes_op_write")
    found = _both("DRAM", metrics, reads, writes, 1) or _both(
        "DRAM", metrics, ("dram__sectors_read",), ("dram__sectors_write",), SECTOR_BYTES
    )
    if found is not None:
        return found
    total = summed(metrics, "dram__bytes")
    if total is None:
        return None
    # One direction and the sum give the other; without either the sum stands as read.
    read, write = summed(metrics, *reads), summed(metrics, *writes)
    if read is not None:
        return Traffic("DRAM", min(read, total), max(total - read, 0.0), "counted")
    return Traffic("DRAM", total - (write or 0.0), write or 0.0, "counted")


def _l2(metrics: Metrics) -> Traffic | None:
    """Bytes that multiprocessors asked L2 for.

    The two halves of a large card's L2 ask each other too, which `lts__t_sectors` and `lts__t_bytes` count: they
    stand last. What multiprocessors received is more than what L2 gave where it is multicast.
    """
    from_sms = summed(metrics, "lts__t_sectors_srcunit_tex")
    if from_sms is not None:
        return Traffic("L2", from_sms * SECTOR_BYTES, 0.0, "counted")
    found = _both("L2", metrics, ("lts__t_sectors_op_read",), ("lts__t_sectors_op_write",), SECTOR_BYTES)
    if found is not None:
        more = [summed(metrics, f"lts__t_sectors_op_{kind}") for kind in ("atom", "red")]
        other = sum(one for one in more if one is not None) * SECTOR_BYTES
        return Traffic("L2", found.read_bytes, found.write_bytes + other, "counted")
    total = summed(metrics, "lts__t_bytes")
    if total is None:
        sectors = summed(metrics, "lts__t_sectors")
        total = None if sectors is None else sectors * SECTOR_BYTES
    return None if total is None else Traffic("L2", total, 0.0, "counted")


def _l1(metrics: Metrics) -> Traffic | None:
    loads = _several(metrics, "l1tex__t_sectors_pipe_lsu_mem_{}_op_ld")
    stores = _several(metrics, "l1tex__t_sectors_pipe_lsu_mem_{}_op_st")
    if loads is not None and stores is not None:
        return Traffic("L1", loads * SECTOR_BYTES, stores * SECTOR_BYTES, "counted")
    total = summed(metrics, "l1tex__t_bytes")
    if total is None:
        sectors = summed(metrics, "l1tex__t_sectors")
        total = None if sectors is None else sectors * SECTOR_BYTES
    return None if total is None else Traffic("L1", total, 0.0, "counted")


def _several(metrics: Metrics, form: str) -> float | None:
    """Global and local accesses together; None without the global ones."""
    found = summed(metrics, form.format("global"))
    return None if found is None else found + (summed(metrics, form.format("local")) or 0.0)


def _shared(metrics: Metrics) -> Traffic | None:
    total = summed(metrics, "sm__sass_data_bytes_mem_shared", "smsp__sass_data_bytes_mem_shared")
    if total is not None:
        return Traffic("shared", total, 0.0, "counted")
    waves = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{}"
    return _both("shared", metrics, (waves.format("ld"),), (waves.format("st"),), WAVEFRONT_BYTES)


def _transactions(metrics: Metrics) -> dict[str, float]:
    """Transactions as the instruction roofline counts them (Ding and Williams, PMBS 2019)."""
    found: dict[str, float] = {}
    loads = _several(metrics, "l1tex__t_sectors_pipe_lsu_mem_{}_op_ld")
    stores = _several(metrics, "l1tex__t_sectors_pipe_lsu_mem_{}_op_st")
    shared = summed(metrics, "l1tex__data_pipe_lsu_wavefronts_mem_shared")
    if loads is not None and stores is not None:
        found["L1"] = loads + stores + (shared or 0.0)
    if shared is not None:
        found["shared"] = shared
    sectors = [summed(metrics, f"lts__t_sectors_op_{kind}") for kind in ("read", "write", "atom", "red")]
    if sectors[0] is not None and sectors[1] is not None:
        found["L2"] = sum(one for one in sectors if one is not None)
    elif (from_sms := summed(metrics, "lts__t_sectors_srcunit_tex")) is not None:
        found["L2"] = from_sms
    dram = [summed(metrics, f"dram__sectors_{kind}") for kind in ("read", "write")]
    if dram[0] is not None and dram[1] is not None:
        found["DRAM"] = dram[0] + dram[1]
    return found
