"""What events of CPUs count, as rows: operations by number format, bytes by memory level, known faults.

Names are those of perf and likwid, in small letters with "_" for any other sign (`cpu_events.squashed`). Sources:
the events' descriptions in the kernel (tools/perf/pmu-events/arch), likwid's groups/ARCH/*.txt, Arm DDI 0487 D13.
"""

from __future__ import annotations

from typing import NamedTuple

from rooflab.types.machine import Engine

ANY_FLOAT = "float"  # the number format of a counter that adds all of them up


class FlopEvent(NamedTuple):
    """An event that counts operations.

    Attributes:
        each: FLOP of one count; an FMA is counted twice by all of these.
        instead_of: left out where one of these is in the file, which counts the same operations.
        vector_bits: for Arm's scalable vectors, `each` is of so many bits; 0 for all others.
    """

    event: str
    engine: Engine
    dtype: str
    each: float
    instead_of: tuple[str, ...] = ()
    vector_bits: int = 0


class ByteEvent(NamedTuple):
    """An event that counts bytes at a memory level.

    Attributes:
        way: "read", "write" or "both".
        each: bytes of one count; None for a line of this CPU (`LINE_BYTES`).
        instead_of: left out where one of these is in the file.
    """

    event: str
    level: str
    way: str
    each: float | None = 64
    instead_of: tuple[str, ...] = ()


class Fault(NamedTuple):
    """A counter that is known to be wrong: on which CPUs (a pattern of names and types), how, and who says so."""

    event: str
    cpu: str
    what: str
    source: str


def _intel() -> tuple[FlopEvent, ...]:
    """FP_ARITH_INST_RETIRED: instructions by width; the kernel's own metrics weigh them by elements."""
    stem = "fp_arith_inst_retired_"
    rows: list[FlopEvent] = []
    for dtype, word, size in (("fp64", "double", 8), ("fp32", "single", 4)):
        rows.append(FlopEvent(f"{stem}scalar_{word}", "scalar", dtype, 1))
        rows += [
            FlopEvent(f"{stem}{bits}b_packed_{word}", "vector", dtype, bits / 8 / size) for bits in (128, 256, 512)
        ]
    rows += [
        FlopEvent(
            f"{stem}scalar", "scalar", ANY_FLOAT, 1, tuple(f"{stem}scalar_{word}" for word in ("double", "single"))
        ),
        FlopEvent(
            f"{stem}4_flops", "vector", ANY_FLOAT, 4, (f"{stem}128b_packed_single", f"{stem}256b_packed_double")
        ),
        FlopEvent(
            f"{stem}8_flops", "vector", ANY_FLOAT, 8, (f"{stem}256b_packed_single", f"{stem}512b_packed_double")
        ),
    ]
    stem = "fp_arith_inst_retired2_"
    rows.append(FlopEvent(f"{stem}scalar_half", "scalar", "fp16", 1))
    rows.append(FlopEvent(f"{stem}scalar", "scalar", "fp16", 1, (f"{stem}scalar_half",)))
    rows += [FlopEvent(f"{stem}{bits}b_packed_half", "vector", "fp16", bits / 16) for bits in (128, 256, 512)]
    return tuple(rows)


def _sandy_bridge() -> tuple[FlopEvent, ...]:
    rows: list[FlopEvent] = []
    for dtype, word, packed, wide in (("fp64", "double", 2, 4), ("fp32", "single", 4, 8)):
        for stem in ("fp_comp_ops_exe_sse_fp_", "fp_comp_ops_exe_sse_"):
            rows += [
                FlopEvent(f"{stem}packed_{word}", "vector", dtype, packed),
                FlopEvent(f"{stem}scalar_{word}", "scalar", dtype, 1),
            ]
        rows.append(FlopEvent(f"simd_fp_256_packed_{word}", "vector", dtype, wide))
    return tuple(rows)


def _amd() -> tuple[FlopEvent, ...]:
    """RETIRED_SSE_AVX_FLOPS of likwid, fp_ret_sse_avx_ops of perf: operations, whatever the width."""
    rows: list[FlopEvent] = []
    likwid, perf = "retired_sse_avx_flops_", "fp_ret_sse_avx_ops_"
    for dtype, word, short in (("fp64", "double", "dp"), ("fp32", "single", "sp")):
        rows.append(FlopEvent(f"{likwid}{word}_all", "vector", dtype, 1))
        rows += [
            FlopEvent(f"{likwid}{word}_{part}", "vector", dtype, 1, (f"{likwid}{word}_all",))
            for part in ("add_sub", "mult", "div", "fma")
        ]
        rows += [
            FlopEvent(f"{perf}{short}_{part}_flops", "vector", dtype, 1)
            for part in ("add_sub", "mult", "div", "mult_add")
        ]
        rows.append(FlopEvent(f"{likwid}all_{short}_scalar", "scalar", dtype, 1))
        rows.append(FlopEvent(f"{likwid}all_{short}_packed", "vector", dtype, 1))
    typed = tuple(row.event for row in rows)
    for stem, parts in (
        (likwid, ("add_sub", "mult", "div", "mac", "fma")),
        (perf, ("add_sub_flops", "mult_flops", "div_flops", "mac_flops", "bfloat_mac_flops")),
    ):
        rows.append(FlopEvent(f"{stem}all", "vector", ANY_FLOAT, 1, typed))
        rows += [FlopEvent(f"{stem}{part}", "vector", ANY_FLOAT, 1, (f"{stem}all", *typed)) for part in parts]
    return tuple(rows)


def _arm() -> tuple[FlopEvent, ...]:
    """Speculatively executed; SCALE counts operations of each 128 bits of a vector, inactive lanes too."""
    rows: list[FlopEvent] = []
    for dtype, word in (("fp64", "dp"), ("fp32", "sp"), ("fp16", "hp")):
        rows.append(FlopEvent(f"fp_{word}_fixed_ops_spec", "vector", dtype, 1))
        rows.append(FlopEvent(f"fp_{word}_scale_ops_spec", "vector", dtype, 1, (), 128))
    finer = tuple(row.event for row in rows)
    for kind, bits in (("fixed", 0), ("scale", 128)):
        same = tuple(event for event in finer if f"_{kind}_" in event)
        rows.append(FlopEvent(f"fp_{kind}_ops_spec", "vector", ANY_FLOAT, 1, same, bits))
    return tuple(rows)


FLOP_EVENTS = (*_intel(), *_sandy_bridge(), *_amd(), *_arm())

# Of a family, what counts the rest of the operations: a file without it has counted a part only.
WHOLE_FAMILIES = tuple(
    tuple(f"fp_arith_inst_retired_{width}_{word}" for width in ("scalar", "128b_packed", "256b_packed"))
    for word in ("double", "single")
)

_MEMORY = "DRAM"
BYTE_EVENTS = (
    # Memory controllers: a CAS command moves a burst of 64 bytes.
    *(ByteEvent(event, _MEMORY, "read") for event in ("cas_count_rd", "cas_count_read", "unc_m_cas_count_rd")),
    *(ByteEvent(event, _MEMORY, "write") for event in ("cas_count_wr", "cas_count_write", "unc_m_cas_count_wr")),
    *(ByteEvent(f"unc_m_cas_count_sch{half}_rd", _MEMORY, "read") for half in (0, 1)),
    *(ByteEvent(f"unc_m_cas_count_sch{half}_wr", _MEMORY, "write") for half in (0, 1)),
    ByteEvent(
        "unc_m_cas_count_all", _MEMORY, "both", 64, ("unc_m_cas_count_rd", "unc_m_cas_count_wr", "cas_count_rd")
    ),
    ByteEvent("mc_cas_reads", _MEMORY, "read"),
    ByteEvent("mc_cas_writes", _MEMORY, "write"),
    ByteEvent("dram_reads", _MEMORY, "read"),
    ByteEvent("dram_writes", _MEMORY, "write"),
    ByteEvent("data_reads", _MEMORY, "read"),
    ByteEvent("data_writes", _MEMORY, "write"),
    ByteEvent("data_read", _MEMORY, "read"),
    ByteEvent("data_write", _MEMORY, "write"),
    ByteEvent("ddr_read_bytes", _MEMORY, "read"),
    ByteEvent("ddr_write_bytes", _MEMORY, "write"),
    ByteEvent("llc_misses_mem_read", _MEMORY, "read"),
    ByteEvent("llc_misses_mem_write", _MEMORY, "write"),
    *(ByteEvent(f"unc_mc{number}_rdcas_count_freerun", _MEMORY, "read") for number in (0, 1)),
    *(ByteEvent(f"unc_mc{number}_wrcas_count_freerun", _MEMORY, "write") for number in (0, 1)),
    *(ByteEvent(event, _MEMORY, "read") for event in ("cas_cmd_rd", "umc_cas_cmd_rd")),
    *(ByteEvent(event, _MEMORY, "write") for event in ("cas_cmd_wr", "umc_cas_cmd_wr")),
    ByteEvent("cas_cmd_any", _MEMORY, "both", 64, ("cas_cmd_rd", "cas_cmd_wr")),
    ByteEvent("umc_cas_cmd_all", _MEMORY, "both", 64, ("umc_cas_cmd_rd", "umc_cas_cmd_wr")),
    # Between L1 and L2, data only.
    ByteEvent("l1d_replacement", "L2", "read"),
    ByteEvent("l2_trans_l1d_wb", "L2", "write"),
    ByteEvent("l1d_m_evict", "L2", "write"),
    ByteEvent("l1d_cache_refill", "L2", "read", None),
    ByteEvent("l1d_cache_wb", "L2", "write", None),
    # Between L2 and what is beneath it. Where L3 holds what L2 evicts (Skylake-SP on), lines come past it too.
    ByteEvent("l2_lines_in_all", "L3", "read"),
    ByteEvent("l2_trans_l2_wb", "L3", "write"),
    ByteEvent("l2_lines_out_dirty_all", "L3", "write", 64, ("l2_trans_l2_wb",)),
    ByteEvent("l2d_cache_refill", "L3", "read", None),
    ByteEvent("l2d_cache_wb", "L3", "write", None),
)

# Lines of caches of Arm's CPUs, by a pattern of their name or type. Nothing is assumed of others.
LINE_BYTES = (("a64fx", 256), ("neoverse|thunderx2|graviton|ampere|grace", 64))
# Bits of a scalable vector.
VECTOR_BITS = (
    ("a64fx", 512),
    ("neoverse[ -]?v1|graviton ?3", 256),
    ("neoverse[ -]?(?:v2|v3|n2|n3)|grace|graviton ?4", 128),
)
# The A64FX has no L3: what its L2 takes in comes from memory, and another core's request is in the count too.
NO_L3 = "a64fx"

# Memory channels of AMD's CPUs, each an event DRAM_CHANNEL_n of the data fabric (AMD's product pages).
CHANNELS = (
    ("epyc 9", 12),
    ("epyc 8", 6),
    ("epyc 7", 8),
    ("epyc 4", 2),
    ("threadripper pro", 8),
    ("threadripper", 4),
    ("ryzen", 2),
)
CHANNEL_EVENT = r"dram_channel_(?:data_controller_)?(\d+)"

INSTRUCTIONS = (
    "instr_retired_any",
    "retired_instructions",
    "inst_retired_any",
    "inst_retired",
    "instructions",
    "inst_retired_any_p",
    "pm_run_inst_cmpl",
    "ex_ret_instr",
)

FAULTS = (
    Fault(
        "retired_sse_avx_flops_all_dp_packed",
        "zen ?5",
        "is known to count half of the operations on Zen 5; the count is left as it was read",
        "github.com/RRZE-HPC/likwid/issues/767",
    ),
    Fault(
        "fp_comp_ops_exe_sse_.*|simd_fp_256_.*",
        "",
        "counts executions, those repeated after a cache miss too: more than the program's operations",
        "PAPI wiki, SandyFlops",
    ),
    Fault(
        "avx_insts_calc",
        "",
        "counts instructions of all AVX calculations, whatever their elements: no FLOP are taken from it",
        "likwid groups/haswell/FLOPS_AVX.txt",
    ),
    Fault(
        "uops_retired_packed_simd|pm_flop_cmpl",
        "",
        "does not say how wide its operations are: no FLOP are taken from it",
        "likwid groups/knl/FLOPS_DP.txt, groups/power9/FLOPS.txt",
    ),
    Fault(
        "mem_access_(?:rd|wr)",
        "",
        "counts the accesses of loads and stores, not those to memory: no bytes are taken from it",
        "Arm DDI 0487 D13, event 0x0066",
    ),
)
