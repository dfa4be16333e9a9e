"""The host's vector registers as LLVM types: fixed widths on x86 and NEON, scalable ones for SVE."""

from __future__ import annotations

import platform
from collections.abc import Collection
from dataclasses import dataclass

from rooflab.dtypes import dtype as dtype_of

LLVM_TYPES = {
    "fp64": "double",
    "fp32": "float",
    "fp16": "half",
    "bf16": "bfloat",
    "int64": "i64",
    "int32": "i32",
    "int8": "i8",
}
SCALAR_BITS = 0


@dataclass(frozen=True)
class Simd:
    """One way to hold numbers in a register.

    Attributes:
        name: "AVX-512", "AVX2", "SSE", "NEON", "SVE", "scalar".
        bits: register width; `SCALAR_BITS` for one number at a time.
        registers: how many registers there are.
        scalable: SVE: `bits` is what this host has, the code works for any multiple of 128.
    """

    name: str
    bits: int
    registers: int
    scalable: bool = False

    def lanes(self, dtype: str) -> int:
        """Numbers of `dtype` in one register."""
        return max(1, self.bits // dtype_of(dtype).bits)

    def nbytes(self, dtype: str) -> int:
        """Bytes of one register's worth of `dtype`."""
        return self.lanes(dtype) * dtype_of(dtype).bits // 8

    def vector(self, dtype: str) -> str:
        """The LLVM type of one register of `dtype`."""
        element = LLVM_TYPES[dtype]
        if self.bits == SCALAR_BITS:
            return element
        if self.scalable:
            return f"<vscale x {128 // dtype_of(dtype).bits} x {element}>"
        return f"<{self.lanes(dtype)} x {element}>"

    def mangled(self, dtype: str) -> str:
        """The suffix that LLVM gives intrinsics over `vector(dtype)`, such as "v4f64" or "nxv2f64"."""
        bits = dtype_of(dtype).bits
        element = {"bf16": "bf16"}.get(dtype, f"{'i' if dtype.startswith('int') else 'f'}{bits}")
        if self.bits == SCALAR_BITS:
            return element
        return f"nxv{128 // bits}{element}" if self.scalable else f"v{self.lanes(dtype)}{element}"


def host_simds(
    features: Collection[str], machine: str | None = None, sve_bits: int | None = None
) -> tuple[Simd, ...]:
    """The vector forms of a host, widest first.

    Args:
        features: LLVM's names of the host's features ("avx512f", "avx2", "neon", "sve").
        machine: `platform.machine()`'s word for the architecture.
        sve_bits: the vector length, asked of the host; SVE is left out when it is unknown or no wider
            than NEON.
    """
    machine = (machine or platform.machine()).lower()
    if machine in ("aarch64", "arm64"):
        wide = sve_bits if "sve" in features and sve_bits and sve_bits > 128 else None
        sve = (Simd("SVE", wide, 32, scalable=True),) if wide else ()
        return (*sve, Simd("NEON", 128, 32))
    many = 32 if "avx512vl" in features else 16
    forms = []
    if "avx512f" in features:
        forms.append(Simd("AVX-512", 512, 32))
    if "avx2" in features or "avx" in features:
        forms.append(Simd("AVX2" if "avx2" in features else "AVX", 256, many))
    return (*forms, Simd("SSE", 128, many))


def scalar(simds: Collection[Simd]) -> Simd:
    """One number at a time, in the same register file as the host's vectors."""
    return Simd("scalar", SCALAR_BITS, max(simd.registers for simd in simds))
