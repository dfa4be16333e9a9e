"""What one core does per clock cycle: the theoretical side of a CPU's roofs, from a table with sources.

The table is data/microarchitectures.toml; which row a CPU is, `rooflab.machines.detect` has already
said by name. A microarchitecture that is not in it has no theoretical peak: None, never a neighbour's.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec

from rooflab.dtypes import dtype as dtype_named
from rooflab.errors import FileError, UnknownNameError
from rooflab.machines.detect import Host
from rooflab.machines.detect.host import CoreKind
from rooflab.machines.detect.naming import TABLE, read_table
from rooflab.units import FLOP_PER_FMA

What = Literal["fma", "fma+add", "add", "scalar fma", "scalar fma+add", "scalar add", "dot", "matrix"]

Numbers = int | list[int | tuple[int, int]]


class Match(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Fields of a CPU's identity that must all agree (see `rooflab.machines.detect.naming`)."""

    vendor: str | None = None
    family: Numbers | None = None
    model: Numbers | None = None
    stepping: Numbers | None = None
    implementer: Numbers | None = None
    part: Numbers | None = None
    brand: str | None = None
    kind: CoreKind | None = None


class Narrow(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What differs where only 256-bit instructions may be used."""

    load_bytes: int
    store_bytes: int
    add_pipes: int | None = None
    int8_dot_op: int | None = None


class Microarchitecture(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What one core starts in one clock cycle; None where that is not known.

    Attributes:
        name: as `Host.microarchitecture` has it.
        source: where the numbers come from, except those of the fields in `assumed`.
        vector_bits: width at which the pipes are counted.
        window_slots: instructions begun and not retired at most.
        width_slots: instructions that its front hands on in a cycle.
        missed_branch_cycles: from a branch foretold wrongly to the right instructions, at best.
        scheduler_slots: of those, arithmetic that waits for its operands at most.
        integer_slots: arithmetic on whole numbers that waits for its operands at most, where that has schedulers
            of its own; `integer_queues` of them, of which a multiplication waits in one.
        load_slots, store_slots: loads and stores begun and not retired at most.
        vector_load_more_cycles: by which a load into a vector register takes longer than one into another.
        vector_results: results in vector registers of instructions begun and not retired, at most.
        fma_pipes: FMA instructions of that width that start in a cycle.
        add_pipes: FP adds of that width that start beside all those FMAs.
        adds: FP adds of that width that start in a cycle with no FMA among them.
        fma_latency_cycles, add_latency_cycles: chains needed = latency × pipes.
        multiply_latency_cycles: of a product alone; that of an FMA where None.
        load_bytes, store_bytes: L1 bytes per cycle, each alone.
        l2_bytes, l3_bytes: bytes per cycle from there to the core.
        compress_store_cycles: from one compressing store of a 512-bit vector to the next, where many.
        locked_cycles: from one locked change of a number in L1 to the next.
        fp16: whether there is arithmetic on fp16 vectors.
        bf16_dot_flop, int8_dot_op: per cycle by vector dot products, 2 per multiply-add.
        bf16_matrix_flop, int8_matrix_op: per cycle by matrix instructions (AMX, MMLA).
        at_256: what differs where the hypervisor hides AVX-512.
        assumed: fields that the source was not checked for.
    """

    name: str
    match: tuple[Match, ...]
    source: str
    vector_bits: int
    window_slots: int | None = None
    scheduler_slots: int | None = None
    integer_slots: int | None = None
    integer_queues: int = 1
    load_slots: int | None = None
    store_slots: int | None = None
    vector_results: int | None = None
    vector_load_more_cycles: int | None = None
    width_slots: int | None = None
    missed_branch_cycles: int | None = None
    fma_pipes: int | None = None
    add_pipes: int | None = None
    adds: int | None = None
    fma_latency_cycles: int | None = None
    multiply_latency_cycles: int | None = None
    add_latency_cycles: int | None = None
    load_bytes: int | None = None
    store_bytes: int | None = None
    l2_bytes: int | None = None
    l3_bytes: int | None = None
    compress_store_cycles: int | None = None
    locked_cycles: int | None = None
    fp16: bool = False
    bf16_dot_flop: int | None = None
    int8_dot_op: int | None = None
    bf16_matrix_flop: int | None = None
    int8_matrix_op: int | None = None
    at_256: Narrow | None = None
    assumed: tuple[str, ...] = ()
    note: str | None = None


# A rate counts only where the CPU offers an instruction for it: a hypervisor may hide some.
_NEEDS: tuple[tuple[str, frozenset[str]], ...] = (
    ("bf16_dot_flop", frozenset({"avx512bf16", "bf16"})),
    ("int8_dot_op", frozenset({"avx512vnni", "avxvnni", "dotprod"})),
    ("bf16_matrix_flop", frozenset({"amx-bf16", "bf16"})),
    ("int8_matrix_op", frozenset({"amx-int8", "i8mm"})),
)
_FP16 = frozenset({"avx512fp16", "fullfp16"})


def stated(environment: Mapping[str, object]) -> Microarchitecture | None:
    """The row that a machine's environment names; None where it names none, or one that the table lacks."""
    return next((row for row in table() if row.name == environment.get("microarchitecture")), None)


@cache
def table(path: Path = TABLE) -> tuple[Microarchitecture, ...]:
    """Every row of the table, checked.

    Raises:
        FileError: an unknown or missing field, a value of the wrong type, a name that occurs twice.
    """
    try:
        rows = msgspec.convert(list(read_table(path)), tuple[Microarchitecture, ...])
    except msgspec.ValidationError as error:
        raise FileError(f"{path}: {error}") from None
    fields = set(Microarchitecture.__struct_fields__)
    seen: set[str] = set()
    for row in rows:
        if row.name in seen:
            raise FileError(f"{path}: name {row.name!r} occurs twice, expected each once")
        unknown = set(row.assumed) - fields
        if unknown:
            raise FileError(f"{path}: {row.name}: assumed names {sorted(unknown)[0]!r}, which is not a field")
        seen.add(row.name)
    return rows


def named(name: str) -> Microarchitecture:
    """The row called `name`.

    Raises:
        UnknownNameError: no such row, with near matches.
    """
    for row in table():
        if row.name == name:
            return row
    raise UnknownNameError("microarchitecture", name, [row.name for row in table()])


def find(host: Host, *, cpu: int | None = None, kind: CoreKind | None = None) -> Microarchitecture | None:
    """The microarchitecture of `host`'s P-cores (or of its only kind), narrowed to what its ISA offers.

    Args:
        host: what `detect` returned.
        cpu: of this CPU instead.
        kind: of the cores of this kind instead.

    Returns:
        None where the table doesn't know it: its theoretical peak is then unknown.
    """
    name = host.microarchitecture
    if cpu is not None:
        one = host.cpu(cpu)
        name = one.microarchitecture if one else None
    elif kind is not None:
        name = next((one.microarchitecture for one in host.cpus if one.kind == kind), None)
    return narrowed(named(name), host.isa) if name else None


def narrowed(row: Microarchitecture, isa: tuple[str, ...]) -> Microarchitecture:
    """`row` as far as the extensions in `isa` reach; a rate whose instruction is missing becomes None."""
    offered = frozenset(isa)
    changes: dict[str, Any] = {
        field: None for field, needs in _NEEDS if not offered & needs and getattr(row, field) is not None
    }
    if row.fp16 and not offered & _FP16:
        changes["fp16"] = False
    if row.at_256 is not None and "avx512f" not in offered:
        changes["vector_bits"] = min(row.vector_bits, 256)
        changes["load_bytes"] = row.at_256.load_bytes
        changes["store_bytes"] = row.at_256.store_bytes
        changes.setdefault("int8_dot_op", row.at_256.int8_dot_op)
        if row.at_256.add_pipes is not None:
            changes["add_pipes"] = row.at_256.add_pipes
    if "sse2" in offered and "fma" not in offered:
        # x86 without FMA (hidden, or not on): the pipes then run at most one operation an element.
        changes["fma_pipes"] = None
    return msgspec.structs.replace(row, **changes) if changes else row


def flop_per_cycle(row: Microarchitecture, dtype: str, what: What) -> float | None:
    """FLOP (or integer operations) that one core starts per cycle; None where that is not known.

    With lanes = vector_bits / bits of the dtype (1 for "scalar …"), and a fused multiply-add being 2:

        fma      lanes × 2 × fma_pipes
        fma+add  lanes × (2 × fma_pipes + add_pipes)
        add      lanes × adds
        dot      bf16_dot_flop, int8_dot_op
        matrix   bf16_matrix_flop, int8_matrix_op

    Formula: Dolbeau, "Theoretical peak FLOPS per instruction set: a tutorial", J. Supercomputing 74 (2018).

    Raises:
        UnknownNameError: no such dtype, or no such `what`.

    >>> flop_per_cycle(named("Zen 4"), "fp64", "fma")
    16
    """
    if what not in get_args(What):
        raise UnknownNameError("arithmetic", what, get_args(What))
    number = dtype_named(dtype)
    if what in ("dot", "matrix"):
        unit = {"bf16": "flop", "int8": "op"}.get(number.name)
        return getattr(row, f"{number.name}_{what}_{unit}") if unit else None
    if number.name not in ("fp64", "fp32") and not (number.name == "fp16" and row.fp16):
        return None
    scalar, mix = what.startswith("scalar"), what.removeprefix("scalar ")
    lanes = 1 if scalar else row.vector_bits // number.bits
    if mix == "add":
        return _times(lanes, row.adds)
    fused = _times(FLOP_PER_FMA, row.fma_pipes)
    if mix == "fma":
        return _times(lanes, fused)
    if fused is None or row.add_pipes is None:
        return None
    return lanes * (fused + row.add_pipes)


def _times(factor: int, count: int | None) -> int | None:
    return None if count is None else factor * count
