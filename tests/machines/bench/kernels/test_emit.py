"""The machine code of every row on every kind of processor: what is counted is what is executed.

llvmlite holds both backends, so code for any processor is looked at on any host.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

import pytest

from rooflab.errors import RooflabError
from rooflab.machines.bench.kernels.dot_products import DOTS, Dot
from rooflab.machines.bench.kernels.emit import (
    chase_kernel,
    clock_kernel,
    interleaved,
    peak_kernel,
    ping_pong_kernel,
    stream_kernel,
)
from rooflab.machines.bench.kernels.expression import Expression
from rooflab.machines.bench.kernels.ir import Emitted, Target, module_text
from rooflab.machines.bench.kernels.jit import assembly, parses
from rooflab.machines.bench.kernels.rows import PEAKS, READ, STENCIL, STORES, Chain, PeakRow, StreamRow
from rooflab.machines.bench.kernels.simd import Simd, host_simds, scalar
from support.machines.assembly import Loop, measured_loop

X86, ARM = "x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"


@dataclass(frozen=True)
class Processor:
    """A processor to write code for, one of its register widths, and whether it multiplies and adds at once."""

    name: str
    simd: Simd
    triple: str
    cpu: str
    features: str = ""
    fuses: bool = True

    @property
    def target(self) -> Target:
        return Target("aarch64" if self.triple == ARM else "x86_64")

    def loop(self, kernel: Emitted) -> Loop:
        return measured_loop(self.text(kernel), kernel.symbol)

    def text(self, kernel: Emitted) -> str:
        return assembly([kernel], self.triple, self.cpu, self.features, self.target)


NEON, SVE = Simd("NEON", 128, 32), Simd("SVE", 256, 32, scalable=True)
_NEON_FEATURES, _SVE_FEATURES = "+fp-armv8,+neon,+fullfp16", "+sve,+fp-armv8,+neon,+fullfp16"
PROCESSORS = (
    Processor("AVX-512", Simd("AVX-512", 512, 32), X86, "skylake-avx512"),
    Processor("AVX2, 32 registers", Simd("AVX2", 256, 32), X86, "skylake-avx512"),
    Processor("AVX2, 16 registers", Simd("AVX2", 256, 16), X86, "haswell"),
    Processor("AVX without FMA", Simd("AVX", 256, 16), X86, "sandybridge", fuses=False),
    Processor("SSE", Simd("SSE", 128, 16), X86, "haswell"),
    Processor("SSE2 alone", Simd("SSE", 128, 16), X86, "x86-64", fuses=False),
    Processor("NEON", NEON, ARM, "neoverse-n1", _NEON_FEATURES),
    Processor("SVE", SVE, ARM, "neoverse-v1", _SVE_FEATURES),
)
SCALARS = (
    Processor("x86, 32 registers", Simd("scalar", 0, 32), X86, "skylake-avx512"),
    Processor("x86, 16 registers", Simd("scalar", 0, 16), X86, "haswell"),
    Processor("Arm", Simd("scalar", 0, 32), ARM, "neoverse-n1", _NEON_FEATURES),
)
STREAMS = (READ, *STORES, STENCIL)


def _named(value: object) -> str:
    return str(getattr(value, "name", value)).replace(" ", "-")


def loads(loop: Loop) -> int:
    """Register-widths loaded: on x86 any instruction with a memory operand that is not a store."""
    if loop.count("(ldu?r|ldp|ld1)"):
        return loop.count("(ldu?r|ld1)") + 2 * loop.count("ldp")
    # Sandy Bridge takes a 256-bit load that is not aligned in two halves: the second is not another load.
    memory = [line for line in loop.find(r"\(%") if not line.startswith(("lea", "vinsertf128"))]
    return sum(not _stores(line) for line in memory)


def stores(loop: Loop) -> int:
    """Register-widths stored."""
    arm = loop.count(r"(str|st1|stnt1)") + 2 * loop.count(r"stn?p\s+q") + loop.count(r"stn?p\s+d")
    return arm + sum(_stores(line) for line in loop.find(r"\(%"))


def _stores(line: str) -> bool:
    return line.startswith(("mov", "vmov")) and line.endswith(")")


@pytest.mark.parametrize("row", STREAMS, ids=_named)
@pytest.mark.parametrize("processor", PROCESSORS, ids=_named)
def test_a_stream_loop_loads_and_stores_what_its_row_says(processor: Processor, row: StreamRow) -> None:
    kernel = stream_kernel("kernel", row, processor.simd)
    loop = processor.loop(kernel)
    # One vector load per array element named on the right, one store per target, in each unrolled unit.
    subscripts = sum(isinstance(node, ast.Subscript) for node in ast.walk(row.expression.statement.value))
    assert loads(loop) == row.unroll * subscripts, "\n".join(loop.lines)
    assert stores(loop) == row.unroll * len(row.expression.writes), "\n".join(loop.lines)
    assert kernel.step_bytes == row.unroll * processor.simd.bits // 8
    assert kernel.operations == row.expression.flop * row.unroll * processor.simd.lanes(row.dtype)
    # The loop's own branch is the only one: the wrap at the end of the arrays is a select.
    assert loop.count(r"(j\w+|b\.\w+|cbn?z|tbn?z|b)\b") == 1, "\n".join(loop.lines)
    assert loop.count("(cmov|csel)") == 1
    assert not loop.find(r"\b(callq?|bl|blr)\b"), "a library function inside the loop"
    assert not loop.find(r"\(%rsp|%rsp\)|\[sp"), "a register spilled inside the loop"


@pytest.mark.parametrize("processor", PROCESSORS, ids=_named)
def test_triad_fuses_where_it_can(processor: Processor) -> None:
    (triad,) = [row for row in STORES if row.name == "triad"]
    loop = processor.loop(stream_kernel("kernel", triad, processor.simd))
    assert loop.count("(vfmadd|fmla|fmad)") == (triad.unroll if processor.fuses else 0)
    assert loop.count("v?mulpd") == (0 if processor.fuses else triad.unroll)


@pytest.mark.parametrize("row", [row for row in STORES if row.nontemporal], ids=_named)
@pytest.mark.parametrize("processor", PROCESSORS, ids=_named)
def test_stores_past_the_caches(processor: Processor, row: StreamRow) -> None:
    loop = processor.loop(stream_kernel("kernel", row, processor.simd))
    nontemporal = loop.count(r"(v?movnt|stnt1)") + loop.count(r"stnp\s+d") + 2 * loop.count(r"stnp\s+q")
    assert nontemporal == row.unroll, "\n".join(loop.lines)


@pytest.mark.parametrize("row", [row for row in STORES if not row.nontemporal], ids=_named)
@pytest.mark.parametrize("processor", PROCESSORS, ids=_named)
def test_ordinary_rows_store_through_the_caches(processor: Processor, row: StreamRow) -> None:
    assert not processor.loop(stream_kernel("kernel", row, processor.simd)).find(r"movnt|stnp|stnt")


def _peaks(form: str, processor: Processor) -> list[PeakRow]:
    return [
        row
        for row in PEAKS
        if row.form == form
        and row.what != "dot"
        and (row.dtype != "fp16" or processor.triple == ARM)
        and (processor.fuses or "fma" not in row.what)
    ]


PEAK_CASES = [
    *((processor, row) for processor in PROCESSORS for row in _peaks("vector", processor)),
    *((processor, row) for processor in SCALARS for row in _peaks("scalar", processor)),
]


@pytest.mark.parametrize(("processor", "row"), PEAK_CASES, ids=_named)
def test_a_peak_loop_computes_what_it_counts(processor: Processor, row: PeakRow) -> None:
    kernel = peak_kernel("kernel", row, processor.simd)
    loop = processor.loop(kernel)
    chains = row.chains(processor.simd.registers)
    fused = sum(chain.count for chain in chains if "*" in chain.expression.text)
    added = sum(chain.count for chain in chains if "*" not in chain.expression.text)
    assert loop.count(r"(vfn?madd|fmla|fmad|fmadd)") == fused * row.repeat, "\n".join(loop.lines)
    assert loop.count(r"(v?add[ps][ds]|fadd)\b") == added * row.repeat, "\n".join(loop.lines)
    # Nothing but the arithmetic and the loop's count: at most 3 more (increment, compare, branch).
    assert len(loop.lines) <= (fused + added) * row.repeat + 3, "\n".join(loop.lines)
    # A fused multiply-add is 2 FLOP, an addition 1, in every lane.
    assert kernel.operations == (2 * fused + added) * row.repeat * processor.simd.lanes(row.dtype)
    assert not loop.find(r"\(%|, \["), "memory is touched inside the loop"
    wide = {512: "zmm", 256: "ymm", 128: "xmm", 0: "xmm"}[processor.simd.bits]
    if processor.triple == X86:
        assert len(loop.find(f"%{wide}")) == (fused + added) * row.repeat


@pytest.mark.parametrize("row", [row for row in PEAKS if row.what != "dot"], ids=_named)
@pytest.mark.parametrize("registers", [16, 32])
def test_enough_chains_for_the_latency(row: PeakRow, registers: int) -> None:
    counts = [chain.count for chain in row.chains(registers)]
    # 4 cycles × 2 pipes; 16 on Neoverse V2 and M1, whose cores have 32 registers.
    assert sum(counts) >= (16 if registers == 32 else 8)
    constants = len({name for chain in row.chains(registers) for name in "st" if name in chain.expression.text})
    assert sum(counts) + constants <= registers
    assert len(list(interleaved(row, Simd("any", 128, registers)))) == sum(counts)


def test_interleaving_alternates() -> None:
    row = PeakRow("x", "fp64", (Chain(Expression("x = s * s + x"), 6), Chain(Expression("x = x + s"), 3)), ())
    kinds = ["fma" if "*" in one.text else "add" for one in interleaved(row, NEON)]
    assert kinds.count("fma") == 6
    assert kinds.count("add") == 3
    assert "add add" not in " ".join(kinds)


@pytest.mark.parametrize("dot", DOTS, ids=lambda dot: f"{dot.function}-{dot.operand.replace(' ', '')}")
def test_each_dot_product_is_one_instruction(dot: Dot) -> None:
    arm = "aarch64" in dot.function
    processor = Processor(
        "dot",
        Simd("any", dot.bits, 32),
        ARM if arm else X86,
        "neoverse-n1" if arm else "x86-64-v3" if dot.features == ("avxvnni",) else "x86-64-v4",
        ",".join(f"+{feature}" for feature in ("neon", "fp-armv8", *dot.features) if arm or "-" not in feature)
        if arm
        else ",".join(f"+{feature}" for feature in dot.features),
    )
    if dot.features == ("avxvnni",):
        processor = Processor("dot", Simd("AVX2", 256, 16), X86, "x86-64-v3", "+avxvnni")
    (row,) = [row for row in PEAKS if row.what == "dot" and row.dtype == dot.dtype]
    kernel = peak_kernel("kernel", row, processor.simd, dot)
    if not parses(kernel, processor.target):
        pytest.skip("this LLVM spells the instruction's operands the other way")
    loop = processor.loop(kernel)
    (chain,) = row.chains(processor.simd.registers)
    assert loop.count(r"(\{\w+\} )?(vdpbf16ps|vpdpbusd|bfdot|sdot)") == chain.count * row.repeat, loop.lines
    assert not loop.find(r"\(%rsp|\[sp"), "a register spilled inside the loop"
    # 2 operations per product, one product per narrow number of the register.
    narrow = {"bf16": 16, "int8": 8}[dot.dtype]
    assert kernel.operations == 2 * (dot.bits // narrow) * chain.count * row.repeat


def test_every_dot_has_a_spelling_that_parses() -> None:
    for dtype, bits in (("bf16", 512), ("bf16", 256), ("int8", 512), ("int8", 256), ("bf16", 128), ("int8", 128)):
        (row,) = [row for row in PEAKS if row.what == "dot" and row.dtype == dtype]
        target = Target("aarch64" if bits == 128 else "x86_64")
        spelled = [dot for dot in DOTS if (dot.dtype, dot.bits) == (dtype, bits)]
        kernels = [peak_kernel("kernel", row, Simd("any", bits, 32), dot) for dot in spelled]
        assert any(parses(kernel, target) for kernel in kernels), (dtype, bits)


@pytest.mark.parametrize("processor", [PROCESSORS[0], PROCESSORS[-1]], ids=_named)
def test_clock_chain_is_not_folded(processor: Processor) -> None:
    kernel = clock_kernel("kernel")
    loop = processor.loop(kernel)
    assert kernel.operations == 128
    assert loop.count(r"(xorq|eor)\b") == 64
    dependent = loop.count(r"addq\b") if processor.triple == X86 else loop.count(r"add x\d+, x\d+, x\d+$")
    assert dependent == 64
    assert not loop.find(r"\(%|\["), "memory is touched inside the chain"


@pytest.mark.parametrize("processor", [PROCESSORS[0], PROCESSORS[-1]], ids=_named)
def test_chase_is_one_chain(processor: Processor) -> None:
    kernel = chase_kernel("kernel")
    loop = processor.loop(kernel)
    assert loads(loop) == kernel.operations == 16
    assert stores(loop) == 0


@pytest.mark.parametrize("processor", [PROCESSORS[0], PROCESSORS[-1]], ids=_named)
def test_ping_pong_waits_and_hands_over(processor: Processor) -> None:
    text = processor.text(ping_pong_kernel("kernel"))
    assert "kernel:" in text
    # Arm needs acquire and release; x86 orders plain loads and stores so already.
    if processor.triple == ARM:
        assert any(word in text for word in ("ldar", "ldapr"))
        assert "stlr" in text


def test_other_architectures_are_refused() -> None:
    with pytest.raises(RooflabError, match="cannot measure a riscv64 machine, expected x86-64 or 64-bit Arm"):
        module_text([clock_kernel()], Target("riscv64"))


def test_what_cannot_be_emitted_is_refused() -> None:
    row = PeakRow("x", "fp64", (Chain(Expression("x = a[i] + x"), 1),), ())
    with pytest.raises(RooflabError, match=r"kernel row: cannot emit 'a\[i\]'"):
        peak_kernel("kernel", row, NEON)


@pytest.mark.parametrize(
    ("features", "machine", "sve_bits", "expected"),
    [
        ({"avx512f", "avx512vl", "avx2", "avx"}, "x86_64", None, [("AVX-512", 32), ("AVX2", 32), ("SSE", 32)]),
        # Knights Landing: 512-bit registers alone reach 32
        ({"avx512f", "avx2", "avx"}, "x86_64", None, [("AVX-512", 32), ("AVX2", 16), ("SSE", 16)]),
        ({"avx2", "avx"}, "AMD64", None, [("AVX2", 16), ("SSE", 16)]),
        ({"avx"}, "x86_64", None, [("AVX", 16), ("SSE", 16)]),
        (set(), "x86_64", None, [("SSE", 16)]),
        ({"neon"}, "aarch64", None, [("NEON", 32)]),
        ({"neon"}, "arm64", None, [("NEON", 32)]),
        ({"neon", "sve"}, "aarch64", 256, [("SVE", 32), ("NEON", 32)]),
        ({"neon", "sve"}, "aarch64", 128, [("NEON", 32)]),  # no wider than NEON
        ({"neon", "sve"}, "aarch64", None, [("NEON", 32)]),  # length unknown
    ],
)
def test_register_widths_of_a_host(
    features: set[str], machine: str, sve_bits: int | None, expected: list[tuple[str, int]]
) -> None:
    simds = host_simds(features, machine, sve_bits)
    assert [(simd.name, simd.registers) for simd in simds] == expected
    assert [simd.bits for simd in simds] == sorted((simd.bits for simd in simds), reverse=True)
    assert scalar(simds).registers == max(registers for _, registers in expected)
    assert scalar(simds).lanes("fp32") == 1


@pytest.mark.parametrize(
    ("simd", "dtype", "lanes", "vector", "mangled"),
    [
        (Simd("AVX2", 256, 16), "fp64", 4, "<4 x double>", "v4f64"),
        (Simd("AVX-512", 512, 32), "fp32", 16, "<16 x float>", "v16f32"),
        (NEON, "fp16", 8, "<8 x half>", "v8f16"),
        (NEON, "bf16", 8, "<8 x bfloat>", "v8bf16"),
        (SVE, "fp64", 4, "<vscale x 2 x double>", "nxv2f64"),
        (SVE, "int64", 4, "<vscale x 2 x i64>", "nxv2i64"),
        (Simd("scalar", 0, 32), "fp64", 1, "double", "f64"),
    ],
)
def test_llvm_types_of_registers_of_each_width(
    simd: Simd, dtype: str, lanes: int, vector: str, mangled: str
) -> None:
    assert simd.lanes(dtype) == lanes
    assert simd.vector(dtype) == vector
    assert simd.mangled(dtype) == mangled
