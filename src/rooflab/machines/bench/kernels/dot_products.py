"""Dot-product instructions: which feature brings them, what one of them computes, how LLVM names them.

Sources: Intel Intrinsics Guide (VDPBF16PS, VPDPBUSD), Arm Architecture Reference Manual (BFDOT, SDOT),
LLVM's IntrinsicsX86.td and IntrinsicsAArch64.td for the names and operand types.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from rooflab.dtypes import dtype as dtype_of
from rooflab.machines.bench.kernels.ir import Body
from rooflab.machines.bench.kernels.simd import Simd
from rooflab.units import FLOP_PER_FMA


@dataclass(frozen=True)
class Dot:
    """One instruction that adds to each lane the dot product of a small group of narrow numbers.

    Attributes:
        dtype, accumulate: of the operands and of the sum.
        features: LLVM's names of the features it needs, all of them.
        bits: the register width it is listed for.
        function: LLVM's intrinsic.
        operand: LLVM's type of the two narrow operands.
        first: which value goes first: NEON and VNNI take the sum first.
    """

    dtype: str
    accumulate: str
    features: tuple[str, ...]
    bits: int
    function: str
    operand: str

    @property
    def group(self) -> int:
        """Products per lane of the sum: the narrow numbers that fit into a wide one."""
        return dtype_of(self.accumulate).bits // dtype_of(self.dtype).bits

    def operations(self, simd: Simd) -> int:
        """FLOP (or OP) of one instruction: two per product."""
        return simd.lanes(self.accumulate) * self.group * FLOP_PER_FMA

    def operands(self, entry: Body, simd: Simd) -> dict[str, str]:
        """The constant operands p and q, all ones, loaded from behind stream b: name in the row → value."""
        return {name: entry.emit(f"load volatile {self.operand}, ptr %b, align 8") for name in ("p", "q")}

    def call(self, body: Body, simd: Simd, total: str, left: str, right: str) -> str:
        """Append the instruction; returns the new sum."""
        vector = simd.vector(self.accumulate)
        body.declarations.add(f"declare {vector} @{self.function}({vector}, {self.operand}, {self.operand})")
        arguments = f"{vector} {total}, {self.operand} {left}, {self.operand} {right}"
        return body.emit(f"call {vector} @{self.function}({arguments})")


def _x86(dtype: str, accumulate: str, features: tuple[str, ...], bits: int, stem: str, operand: str) -> Dot:
    return Dot(dtype, accumulate, features, bits, f"llvm.x86.{stem}.{bits}", operand)


# LLVM before 21 takes VNNI's bytes as 32-bit lanes: both spellings are listed, the one that parses is used.
DOTS: tuple[Dot, ...] = (
    _x86("bf16", "fp32", ("avx512bf16",), 512, "avx512bf16.dpbf16ps", "<32 x bfloat>"),
    _x86("bf16", "fp32", ("avx512bf16", "avx512vl"), 256, "avx512bf16.dpbf16ps", "<16 x bfloat>"),
    _x86("int8", "int32", ("avx512vnni",), 512, "avx512.vpdpbusd", "<64 x i8>"),
    _x86("int8", "int32", ("avx512vnni",), 512, "avx512.vpdpbusd", "<16 x i32>"),
    _x86("int8", "int32", ("avx512vnni", "avx512vl"), 256, "avx512.vpdpbusd", "<32 x i8>"),
    _x86("int8", "int32", ("avx512vnni", "avx512vl"), 256, "avx512.vpdpbusd", "<8 x i32>"),
    _x86("int8", "int32", ("avxvnni",), 256, "avx512.vpdpbusd", "<32 x i8>"),
    _x86("int8", "int32", ("avxvnni",), 256, "avx512.vpdpbusd", "<8 x i32>"),
    Dot("bf16", "fp32", ("neon", "bf16"), 128, "llvm.aarch64.neon.bfdot.v4f32.v8bf16", "<8 x bfloat>"),
    Dot("int8", "int32", ("neon", "dotprod"), 128, "llvm.aarch64.neon.sdot.v4i32.v16i8", "<16 x i8>"),
)


def dots_for(dtype: str, simd: Simd, features: Collection[str]) -> tuple[Dot, ...]:
    """The instructions that may compute `dtype` dots in `simd` registers, the preferred one first."""
    return tuple(
        dot
        for dot in DOTS
        if dot.dtype == dtype
        and dot.bits == simd.bits
        and not simd.scalable
        and set(dot.features) <= set(features)
    )
