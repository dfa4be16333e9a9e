"""Instruction-set extensions under one set of names: LLVM's, which the code generator takes as they are."""

from __future__ import annotations

from collections.abc import Collection, Iterable

# /proc/cpuinfo's name (Linux arch/x86/include/asm/cpufeatures.h) to LLVM's (llvm/lib/Target/X86/X86.td).
_X86 = {
    "sse": "sse",
    "sse2": "sse2",
    "pni": "sse3",
    "ssse3": "ssse3",
    "sse4_1": "sse4.1",
    "sse4_2": "sse4.2",
    "avx": "avx",
    "f16c": "f16c",
    "fma": "fma",
    "avx2": "avx2",
    "avx_vnni": "avxvnni",
    "avx_vnni_int8": "avxvnniint8",
    "avx_ifma": "avxifma",
    "avx512f": "avx512f",
    "avx512cd": "avx512cd",
    "avx512dq": "avx512dq",
    "avx512bw": "avx512bw",
    "avx512vl": "avx512vl",
    "avx512ifma": "avx512ifma",
    "avx512vbmi": "avx512vbmi",
    "avx512_vbmi2": "avx512vbmi2",
    "avx512_vnni": "avx512vnni",
    "avx512_bf16": "avx512bf16",
    "avx512_fp16": "avx512fp16",
    "avx512_bitalg": "avx512bitalg",
    "avx512_vpopcntdq": "avx512vpopcntdq",
    "amx_tile": "amx-tile",
    "amx_bf16": "amx-bf16",
    "amx_int8": "amx-int8",
    "amx_fp16": "amx-fp16",
    "amx_complex": "amx-complex",
    "clflushopt": "clflushopt",
}

# Linux Documentation/arch/arm64/elf_hwcaps.rst to llvm/lib/Target/AArch64/AArch64Features.td.
_ARM = {
    "asimd": "neon",
    "asimdhp": "fullfp16",
    "asimddp": "dotprod",
    "asimdfhm": "fp16fml",
    "atomics": "lse",
    "bf16": "bf16",
    "i8mm": "i8mm",
    "sve": "sve",
    "sve2": "sve2",
    "sve2p1": "sve2p1",
    "sme": "sme",
    "sme2": "sme2",
    "smei16i64": "sme-i16i64",
    "smef64f64": "sme-f64f64",
}

# macOS: hw.optional.arm.FEAT_* (the architecture's names), and the older hw.optional.*.
_DARWIN = {
    "neon": "neon",
    "AdvSIMD": "neon",
    "neon_fp16": "fullfp16",
    "arm.AdvSIMD": "neon",
    "arm.FEAT_FP16": "fullfp16",
    "arm.FEAT_DotProd": "dotprod",
    "arm.FEAT_FHM": "fp16fml",
    "arm.FEAT_LSE": "lse",
    "arm.FEAT_BF16": "bf16",
    "arm.FEAT_I8MM": "i8mm",
    "arm.FEAT_SME": "sme",
    "arm.FEAT_SME2": "sme2",
}
_DARWIN_X86 = {
    "sse": "sse",
    "sse2": "sse2",
    "sse3": "sse3",
    "supplementalsse3": "ssse3",
    "sse4_1": "sse4.1",
    "sse4_2": "sse4.2",
    "avx1_0": "avx",
    "avx2_0": "avx2",
    "fma": "fma",
    "f16c": "f16c",
    "avx512f": "avx512f",
    "avx512cd": "avx512cd",
    "avx512dq": "avx512dq",
    "avx512bw": "avx512bw",
    "avx512vl": "avx512vl",
    "avx512ifma": "avx512ifma",
    "avx512vbmi": "avx512vbmi",
}


def linux_isa(flags_of_cpus: Iterable[Collection[str]]) -> tuple[str, ...]:
    """The extensions that every CPU has, by LLVM's names, sorted."""
    distinct = {frozenset(flags) for flags in flags_of_cpus}
    common = frozenset.intersection(*distinct) if distinct else frozenset()
    names = {**_X86, **_ARM}
    return tuple(sorted({names[flag] for flag in common if flag in names}))


def darwin_isa(optional: Iterable[str], is_x86: bool) -> tuple[str, ...]:
    """The extensions whose hw.optional key (without that prefix) is 1, by LLVM's names, sorted."""
    names = _DARWIN_X86 if is_x86 else _DARWIN
    return tuple(sorted({names[key] for key in optional if key in names}))
