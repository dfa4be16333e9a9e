"""AMD's counters in rooflab's words: FLOP by engine and format, bytes by level, instructions, LDS, occupancy.

Names and factors: rocprofiler-compute, src/utils/roofline_calc.py and the "Roofline" panel of each architecture;
rocprofiler-sdk, counter_defs.yaml; "MI300 and MI200 Series performance counters and metrics" and "MI350 Series
performance counters" of ROCm's documentation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from rooflab.types.counted import Access, Counted
from rooflab.types.work import Flop, Traffic
from rooflab.units import FLOP_PER_FMA, KIB

Values = Mapping[str, float]

TRANSACTION_BYTES = 32  # what the instruction roofline calls one
_WAVE_LANES = 64  # of CDNA; these counters are of no other architecture
# Operations of a lane in one vector instruction; an instruction on all 64 lanes is counted, masked ones included.
_VECTOR_DTYPES = {"fp16": "F16", "fp32": "F32", "fp64": "F64"}
_VECTOR = {"ADD": 1, "MUL": 1, "FMA": FLOP_PER_FMA, "TRANS": 1}
# SQ_INSTS_VALU_MFMA_MOPS_* counts multiplications and additions in units of 512. F6F4 counts fp6 and fp4
# together, XF32 is what others call TF32.
_MATRIX_UNIT = 512
_MATRIX = {
    "F64": "fp64",
    "F32": "fp32",
    "XF32": "tf32",
    "BF16": "bf16",
    "F16": "fp16",
    "F8": "fp8",
    "F6F4": "fp4",
    "I8": "int8",
}


class _Term(NamedTuple):
    """Counters whose weighted sum is a number of bytes; all must be there."""

    weights: Mapping[str, float]
    source: str


# Bytes between L2 and memory, the first whose counters are all in the file. Names are without "_sum".
_READS = (
    _Term({"TCC_EA0_RDREQ_DRAM_32B": 32}, "gfx950"),
    # Each request of 128 bytes is also a "bubble": counted as 64 bytes alone it would be half.
    _Term({"TCC_BUBBLE": 128 - 64, "TCC_EA0_RDREQ": 64, "TCC_EA0_RDREQ_32B": 32 - 64}, "gfx942"),
    _Term({"TCC_EA_RDREQ": 64, "TCC_EA_RDREQ_32B": 32 - 64}, "gfx908, gfx90a"),
    _Term({"FETCH_SIZE": KIB}, "derived"),
    _Term({"FetchSize": KIB}, "derived"),
)
_WRITES = (
    _Term({"TCC_EA0_WRREQ_WRITE_DRAM_32B": 32, "TCC_EA0_WRREQ_ATOMIC_DRAM_32B": 32}, "gfx950"),
    _Term({"TCC_EA0_WRREQ_64B": 64 - 32, "TCC_EA0_WRREQ": 32}, "gfx942"),
    _Term({"TCC_EA_WRREQ_64B": 64 - 32, "TCC_EA_WRREQ": 32}, "gfx908, gfx90a"),
    _Term({"WRITE_SIZE": KIB}, "derived"),
    _Term({"WriteSize": KIB}, "derived"),
)
_L2_READS = ("TCP_TCC_READ_REQ",)
_L2_WRITES = ("TCP_TCC_WRITE_REQ", "TCP_TCC_ATOMIC_WITH_RET_REQ", "TCP_TCC_ATOMIC_WITHOUT_RET_REQ")
_L2_SECTORS = ("TCC_READ_SECTORS", "TCC_WRITE_SECTORS")  # gfx950
# Bytes of a request of L1 to L2: a line of L1.
_LINE_BYTES_GFX90A, _LINE_BYTES_GFX942 = 64, 128


def values(counters: Mapping[str, float]) -> dict[str, float]:
    """`counters` by names without "_sum" and without the number of an instance: instances are added."""
    found: dict[str, float] = {}
    instances: dict[str, float] = {}
    for name, value in counters.items():
        stem, bracket, _ = name.partition("[")
        if bracket:
            instances[stem] = instances.get(stem, 0.0) + value
        else:
            found[stem.removesuffix("_sum")] = value
    return {**instances, **found}


def metrics(counters: Mapping[str, float]) -> dict[str, float]:
    """`counters` as the tool names them, the instances of a unit added where their sum is not there."""
    found = {name: value for name, value in counters.items() if "[" not in name}
    plain = values(counters)
    stems = {name.partition("[")[0] for name in counters if "[" in name}
    return found | {stem: plain[stem] for stem in sorted(stems) if f"{stem}_sum" not in found}


def counted(
    name: str,
    counters: Mapping[str, float],
    time_s: float | None,
    grid: tuple[int, ...] | None,
    block: tuple[int, ...] | None,
) -> Counted:
    """What `counters`, as the tool names them, say of one kernel."""
    plain = values(counters)
    traffic = tuple(one for one in (_l2(plain), _memory(plain)) if one is not None)
    return Counted(
        name=name,
        time_s=time_s,
        flop=flop(plain),
        traffic=traffic,
        instructions=plain.get("SQ_INSTS"),
        transactions={one.level: one.nbytes / TRANSACTION_BYTES for one in traffic},
        grid=grid,
        block=block,
        access=_access(plain),
        metrics=metrics(counters),
    )


def flop(plain: Values) -> tuple[Flop, ...] | None:
    """FLOP by engine and number format; None where no format was counted whole."""
    found: list[Flop] = []
    known = False
    for dtype, suffix in _VECTOR_DTYPES.items():
        names = {kind: f"SQ_INSTS_VALU_{kind}_{suffix}" for kind in _VECTOR}
        if any(names[kind] not in plain for kind in ("ADD", "MUL", "FMA")):
            continue
        known = True
        count = sum(each * plain.get(names[kind], 0.0) for kind, each in _VECTOR.items()) * _WAVE_LANES
        found += [Flop("vector", dtype, count)] if count else []
    for suffix, dtype in _MATRIX.items():
        units = plain.get(f"SQ_INSTS_VALU_MFMA_MOPS_{suffix}")
        if units is not None:
            known = True
            found += [Flop("matrix", dtype, units * _MATRIX_UNIT)] if units else []
    return tuple(found) if known else None


def _sum(plain: Values, terms: Iterable[_Term]) -> float | None:
    for term in terms:
        if all(name in plain for name in term.weights):
            return max(sum(weight * plain[name] for name, weight in term.weights.items()), 0.0)
    return None


def _memory(plain: Values) -> Traffic | None:
    reads, writes = _sum(plain, _READS), _sum(plain, _WRITES)
    return None if reads is None or writes is None else Traffic("DRAM", reads, writes, "counted")


def _l2(plain: Values) -> Traffic | None:
    """Bytes between L1 and L2.

    Those at L1 are left out: TCP_TOTAL_CACHE_ACCESSES counts a coalesced line twice on gfx90a.
    """
    if all(name in plain for name in _L2_SECTORS):
        read, write = (plain[name] * 32 for name in _L2_SECTORS)
        return Traffic("L2", read, write, "counted")
    if any(name not in plain for name in (*_L2_READS, *_L2_WRITES)):
        return None
    newer = any(name.startswith(("TCC_EA0_", "TCC_BUBBLE")) for name in plain)
    older = any(name.startswith("TCC_EA_") for name in plain)
    if newer == older:
        return None  # which architecture counted it is not known
    line_bytes = _LINE_BYTES_GFX942 if newer else _LINE_BYTES_GFX90A
    read, write = (sum(plain[name] for name in names) * line_bytes for names in (_L2_READS, _L2_WRITES))
    return Traffic("L2", read, write, "counted")


def _access(plain: Values) -> Access:
    hits, misses = plain.get("TCC_HIT"), plain.get("TCC_MISS")
    rates = {"L2": hits / (hits + misses)} if hits is not None and misses is not None and hits + misses else {}
    if "L2CacheHit" in plain and not rates:
        rates = {"L2": plain["L2CacheHit"] / 100}
    percent = plain.get("OccupancyPercent")
    return Access(
        # Cycles in which the LDS served indexed accesses, and those of them that conflicts cost.
        shared_wavefronts=plain.get("SQ_LDS_IDX_ACTIVE"),
        shared_conflicts=plain.get("SQ_LDS_BANK_CONFLICT"),
        occupancy=None if percent is None else percent / 100,
        hit_rates=rates,
    )


def notes(rows: Iterable[Counted]) -> tuple[str, ...]:
    """What a reader must know of the numbers of `rows`, and how to have those that are missing."""
    names = {name for row in rows for name in values(row.metrics)}
    found = []
    if not any(name.startswith("SQ_INSTS_VALU_MFMA_MOPS_") for name in names) and _some_vector(names):
        found.append("FLOP of matrix instructions were not collected (SQ_INSTS_VALU_MFMA_MOPS_*): not in the FLOP")
    for suffix in _VECTOR_DTYPES.values():
        there = [kind for kind in _VECTOR if f"SQ_INSTS_VALU_{kind}_{suffix}" in names]
        missing = ", ".join(f"SQ_INSTS_VALU_{kind}_{suffix}" for kind in _VECTOR if kind not in there)
        if there and missing:
            left = "are counted as none" if missing.endswith("TRANS_" + suffix) and len(there) == 3 else ""
            found.append(f"{missing} were not collected: {left or f'FLOP of {suffix} are not known'}")
    if _some_vector(names):
        found.append("vector FLOP count all 64 lanes of a wave, those that were masked off too")
    if "TCC_EA0_RDREQ" in names and "TCC_BUBBLE" not in names and "TCC_EA0_RDREQ_DRAM_32B" not in names:
        found.append(
            "reads of memory are not known: requests are of 64 or 128 bytes; collect TCC_BUBBLE_sum, "
            "TCC_EA0_RDREQ_sum and TCC_EA0_RDREQ_32B_sum together (gfx942), or TCC_EA0_RDREQ_DRAM_32B_sum (gfx950)"
        )
    if any(name.startswith("TCC_EA0_") for name in names):
        found.append("bytes of DRAM are those that left L2: the Infinity Cache may have served some")
    return tuple(found)


def _some_vector(names: Iterable[str]) -> bool:
    wanted = {f"SQ_INSTS_VALU_{kind}_{suffix}" for kind in _VECTOR for suffix in _VECTOR_DTYPES.values()}
    return bool(wanted & set(names))


def groups(threads: Iterable[int], of: Iterable[int]) -> tuple[int, ...] | None:
    """Workgroups of a grid that is given in threads, as AMD's tools give it; None where a size cannot be true."""
    pairs = list(zip(threads, of, strict=True))
    if not pairs or any(size < 1 or group < 1 for size, group in pairs):
        return None
    return tuple(-(-size // group) for size, group in pairs)
