"""Per-cycle rates: which row a CPU is, and the FLOP that follow from it."""

from __future__ import annotations

from pathlib import Path

import pytest

from rooflab.errors import FileError, UnknownNameError
from rooflab.machines.detect import Cpu, Host
from rooflab.machines.detect.cpu import Identity
from rooflab.machines.detect.naming import microarchitecture_name
from rooflab.machines.microarchitecture import What, find, flop_per_cycle, named, narrowed, table

AVX512 = ("avx2", "avx512bf16", "avx512f", "avx512fp16", "avx512vnni", "amx-bf16", "amx-int8", "fma", "sse2")
ARM = ("neon", "fullfp16", "dotprod", "bf16", "i8mm")


def amd(family: int, model: int) -> Identity:
    return Identity(vendor="AuthenticAMD", family=family, model=model)


def intel(model: int, stepping: int = 0, name: str = "Intel(R) Xeon(R)") -> Identity:
    return Identity(vendor="GenuineIntel", family=6, model=model, stepping=stepping, name=name)


def arm(implementer: int, part: int) -> Identity:
    return Identity(implementer=implementer, part=part)


@pytest.mark.parametrize(
    ("identity", "name"),
    [
        (amd(0x17, 0x01), "Zen"),  # Naples, Summit Ridge
        (amd(0x17, 0x31), "Zen 2"),  # Rome
        (amd(0x17, 0x71), "Zen 2"),  # Matisse
        (amd(0x19, 0x01), "Zen 3"),  # Milan
        (amd(0x19, 0x21), "Zen 3"),  # Vermeer
        (amd(0x19, 0x50), "Zen 3"),  # Cezanne
        (amd(0x19, 0x11), "Zen 4"),  # Genoa
        (amd(0x19, 0x61), "Zen 4"),  # Raphael
        (amd(0x19, 0xA0), "Zen 4"),  # Bergamo
        (amd(0x1A, 0x02), "Zen 5"),  # Turin
        (amd(0x1A, 0x11), "Zen 5"),  # Turin Dense
        (amd(0x1A, 0x44), "Zen 5"),  # Granite Ridge
        (amd(0x1A, 0x70), "Zen 5"),  # Strix Halo
        (amd(0x1A, 0x24), "Zen 5 (half width)"),  # Strix Point
        (amd(0x1A, 0x60), "Zen 5 (half width)"),  # Krackan Point
        (amd(0x1A, 0x50), None),  # what follows Zen 5
        (amd(0x15, 0x02), None),  # Piledriver
        (intel(0x3F), "Haswell"),
        (intel(0x4F), "Broadwell"),
        (intel(0x9E), "Skylake"),
        (intel(0x55, 4, "Intel(R) Xeon(R) Platinum 8180 CPU @ 2.50GHz"), "Skylake-SP"),
        (intel(0x55, 4, "Intel(R) Xeon(R) Gold 5122 CPU @ 3.60GHz"), "Skylake-SP"),
        (intel(0x55, 4, "Intel(R) Xeon(R) Gold 5118 CPU @ 2.30GHz"), "Skylake-SP (one FMA unit)"),
        (intel(0x55, 4, "Intel(R) Xeon(R) Silver 4110 CPU @ 2.10GHz"), "Skylake-SP (one FMA unit)"),
        (intel(0x55, 7, "Intel(R) Xeon(R) Gold 6248 CPU @ 2.50GHz"), "Cascade Lake"),
        (intel(0x55, 7, "Intel(R) Xeon(R) Gold 5218 CPU @ 2.30GHz"), "Cascade Lake (one FMA unit)"),
        (intel(0x55, 7, "Intel Xeon Processor (Cascadelake)"), "Cascade Lake"),
        (intel(0x7E), "Ice Lake"),
        (intel(0x6A), "Ice Lake-SP"),
        (intel(0x8C), "Tiger Lake"),
        (intel(0x8F), "Sapphire Rapids"),
        (intel(0xCF), "Sapphire Rapids"),  # Emerald Rapids
        (intel(0xAD), "Granite Rapids"),
        (intel(0xAF), "Crestmont"),  # Sierra Forest
        (intel(0xB7), "Golden Cove"),  # no kind seen: a guest on P-cores
        (intel(0xBE), "Gracemont"),  # Alder Lake-N
        (arm(0x41, 0xD08), "Cortex-A72"),
        (arm(0x41, 0xD0B), "Cortex-A76"),
        (arm(0x41, 0xD41), "Cortex-A78"),
        (arm(0x41, 0xD0C), "Neoverse N1"),
        (arm(0x41, 0xD40), "Neoverse V1"),
        (arm(0x41, 0xD49), "Neoverse N2"),
        (arm(0x6D, 0xD49), "Neoverse N2"),  # Cobalt 100
        (arm(0x41, 0xD4F), "Neoverse V2"),
        (arm(0x41, 0xD84), "Neoverse V3"),
        (arm(0xC0, 0xAC3), "Ampere-1"),
        (arm(0x61, 0x23), "Firestorm (M1 P)"),  # Linux on an M1
        (arm(0x61, 0x22), "Icestorm (M1 E)"),
        (arm(0x41, 0xD03), None),  # Cortex-A53
        (Identity(name="Apple M4 Max"), "M4 P"),
        (Identity(name="Apple M10"), None),  # not an M1
        (Identity(), None),
    ],
)
def test_an_identity_gives_its_microarchitecture(identity: Identity, name: str | None) -> None:
    assert microarchitecture_name(identity) == name


@pytest.mark.parametrize(
    ("identity", "performance", "efficient"),
    [
        (intel(0x97), "Golden Cove", "Gracemont"),
        (intel(0xAA), "Redwood Cove", "Crestmont"),
        (intel(0xC6), "Lion Cove", "Skymont"),
        (Identity(name="Apple M1 Pro"), "Firestorm (M1 P)", "Icestorm (M1 E)"),
        (Identity(name="Apple M2"), "Avalanche (M2 P)", "Blizzard (M2 E)"),
        (Identity(name="Apple M3 Max"), "M3 P", "M3 E"),
        (Identity(name="Apple M4"), "M4 P", "M4 E"),
    ],
)
def test_name_by_kind(identity: Identity, performance: str, efficient: str) -> None:
    assert microarchitecture_name(identity, "P") == performance
    assert microarchitecture_name(identity, "E") == efficient


@pytest.mark.parametrize(
    ("name", "dtype", "what", "flop"),
    [
        ("Zen 4", "fp64", "fma", 16),  # 256 / 64 lanes × 2 × 2 pipes
        ("Zen 4", "fp32", "fma", 32),
        ("Zen 4", "fp64", "fma+add", 24),  # 4 × (2 × 2 + 2)
        ("Zen 4", "fp64", "add", 8),  # 4 × 2
        ("Zen 4", "fp64", "scalar fma", 4),  # 1 × 2 × 2
        ("Zen 4", "fp64", "scalar fma+add", 6),
        ("Zen 4", "fp64", "scalar add", 2),
        ("Zen 4", "bf16", "dot", 64),
        ("Zen 4", "int8", "dot", 128),
        ("Zen 4", "fp16", "fma", None),  # no fp16 arithmetic
        ("Zen 4", "fp64", "dot", None),
        ("Zen 4", "int8", "fma", None),
        ("Zen 2", "fp64", "fma+add", None),  # not known
        ("Zen 5", "fp64", "fma", 32),
        ("Zen 5", "fp64", "fma+add", 48),
        ("Zen 5 (half width)", "fp64", "fma", 16),
        ("Haswell", "fp64", "fma", 16),
        ("Haswell", "fp64", "add", 4),  # one adder, on port 1
        ("Skylake-SP", "fp64", "fma", 32),
        ("Skylake-SP (one FMA unit)", "fp64", "fma", 16),
        ("Sapphire Rapids", "fp16", "fma", 128),  # 512 / 16 × 2 × 2
        ("Sapphire Rapids", "bf16", "matrix", 1024),
        ("Golden Cove", "fp64", "fma+add", 20),  # 4 × (2 × 2 + 1)
        ("Lion Cove", "fp64", "fma+add", 24),
        ("Gracemont", "fp64", "fma", 8),
        ("Neoverse N1", "fp64", "fma", 8),
        ("Neoverse V1", "fp64", "fma", 16),
        ("Neoverse V2", "fp64", "fma", 16),
        ("Neoverse V2", "fp16", "fma", 64),  # 8 × 2 × 4
        ("Cortex-A72", "fp64", "fma", 4),
        ("Firestorm (M1 P)", "fp64", "fma", 16),
        ("M3 E", "fp64", "fma", None),  # not known
    ],
)
def test_flop_per_cycle(name: str, dtype: str, what: What, flop: int | None) -> None:
    assert flop_per_cycle(named(name), dtype, what) == flop


def test_an_unknown_kind_of_arithmetic_is_refused() -> None:
    with pytest.raises(UnknownNameError, match=r"unknown arithmetic 'fmas'; did you mean fma"):
        flop_per_cycle(named("Zen 4"), "fp64", "fmas")  # pyright: ignore[reportArgumentType]


def test_an_unknown_name_is_refused_with_near_ones() -> None:
    with pytest.raises(UnknownNameError, match=r"unknown microarchitecture 'Zen4x'; did you mean Zen 4"):
        named("Zen4x")


@pytest.mark.parametrize("row", table(), ids=lambda row: row.name)
def test_every_row_is_possible(row) -> None:
    assert row.source
    assert row.match
    assert row.vector_bits in (64, 128, 256, 512)
    fma, mixed = flop_per_cycle(row, "fp64", "fma"), flop_per_cycle(row, "fp64", "fma+add")
    assert mixed is None or fma is None or fma <= mixed <= 2 * fma
    if row.load_bytes and row.store_bytes:
        assert row.store_bytes <= row.load_bytes
    if row.at_256 is not None:
        assert row.at_256.load_bytes <= row.load_bytes


def test_hidden_avx512_narrows_the_row() -> None:
    row = narrowed(named("Sapphire Rapids"), ("avx2", "avxvnni", "fma", "sse2"))
    assert (row.vector_bits, row.load_bytes, row.store_bytes) == (256, 96, 64)
    assert flop_per_cycle(row, "fp64", "fma+add") == 20  # as Golden Cove without AVX-512
    assert row.int8_dot_op == 128
    assert (row.fp16, row.bf16_matrix_flop, row.int8_matrix_op) == (False, None, None)


def test_everything_offered_changes_nothing() -> None:
    assert narrowed(named("Sapphire Rapids"), AVX512) == named("Sapphire Rapids")
    assert narrowed(named("Neoverse V2"), ARM) == named("Neoverse V2")


def test_hidden_fma_makes_the_peak_unknown() -> None:
    row = narrowed(named("Haswell"), ("avx", "sse2"))
    assert flop_per_cycle(row, "fp64", "fma") is None
    assert flop_per_cycle(row, "fp64", "add") == 4


def test_find_by_kind_and_cpu() -> None:
    cpus = (
        Cpu(number=0, kind="P", siblings=(0,), microarchitecture="Golden Cove"),
        Cpu(number=1, kind="E", siblings=(1,), microarchitecture="Gracemont"),
    )
    isa = ("avx2", "avxvnni", "fma", "sse2")
    host = Host(name="hybrid", cpus=cpus, allowed_cpus=(0, 1), microarchitecture="Golden Cove", isa=isa)
    assert [getattr(find(host), "name", None), getattr(find(host, kind="E"), "name", None)] == [
        "Golden Cove",
        "Gracemont",
    ]
    assert getattr(find(host, cpu=1), "name", None) == "Gracemont"
    assert find(host, cpu=9) is None


def test_unknown_microarchitecture_has_no_peak() -> None:
    assert find(Host(name="new", cpus=(Cpu(number=0, siblings=(0,)),), allowed_cpus=(0,))) is None


ROW = '[[microarchitecture]]\nname = "X"\nmatch = [{ part = 1 }]\nsource = "s"\nvector_bits = 128\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (ROW.replace("vector_bits = 128\n", ""), "missing required field `vector_bits`"),
        (ROW + "fma_pipe = 2\n", "unknown field `fma_pipe`"),
        (ROW.replace("part", "parts"), "unknown field `parts`"),
        (ROW + 'fma_pipes = "2"\n', r"Expected `int \| null`, got `str`"),
        (ROW + ROW, "name 'X' occurs twice, expected each once"),
        (ROW + 'assumed = ["width"]\n', "X: assumed names 'width', which is not a field"),
    ],
)
def test_bad_table_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "table.toml"
    path.write_text(text)
    with pytest.raises(FileError, match=message):
        table(path)
