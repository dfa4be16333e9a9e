"""An operation of XLA as its profile has it: what the compiler states of it, never a guess from its name."""

from __future__ import annotations

import re

from rooflab.observe.matching.torch_calls import Resolved
from rooflab.types.counted import Counted
from rooflab.types.trace import Signature
from rooflab.types.work import Flop, Traffic

# XLA's names of element types.
DTYPES = {
    "f64": "fp64",
    "f32": "fp32",
    "f16": "fp16",
    "bf16": "bf16",
    "f8e4m3fn": "fp8",
    "f8e5m2": "fp8",
    "s64": "int64",
    "u64": "int64",
    "s32": "int32",
    "u32": "int32",
    "s16": "int16",
    "u16": "int16",
    "s8": "int8",
    "u8": "int8",
    "s4": "int4",
    "u4": "int4",
    "pred": "bool",
    "c64": "complex64",
    "c128": "complex128",
}
_PRODUCT = re.compile(r"convolution|\bdot\b|gemm|matmul", re.IGNORECASE)


def resolve(op: str, signature: Signature) -> Resolved:
    """What the operation called `op` is; its FLOP and bytes stand in `counted`."""
    if signature.flop is None and signature.nbytes is None:
        return Resolved(op, None, (), (), {}, "the profile states neither its FLOP nor its bytes")
    return Resolved(op, None, (), (), {}, "FLOP and bytes are those that the compiler states")


def counted(op: str, signature: Signature, time_s: float, runs: int) -> Counted | None:
    """What the compiler states of one execution; None where it states nothing.

    Args:
        op: its name.
        signature: with what the file states.
        time_s: of all executions.
        runs: how many.
    """
    if signature.flop is None and signature.nbytes is None:
        return None
    matrix = _PRODUCT.search(f"{signature.kind} {op}") is not None
    dtype = next((DTYPES[one] for one in signature.result_dtypes if one in DTYPES), "unknown")
    flop = signature.flop
    return Counted(
        name=op,
        time_s=time_s / runs,
        runs=runs,
        flop=None if flop is None else (Flop("matrix" if matrix else "vector", dtype, flop),) if flop else (),
        # Reads and writes are not told apart.
        traffic=() if signature.nbytes is None else (Traffic("DRAM", signature.nbytes, 0.0, "modelled"),),
    )
