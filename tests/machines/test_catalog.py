"""The catalogue: every file loads and agrees with itself, every name means one machine, key numbers hold."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import msgspec
import pytest

from rooflab.errors import FileError, RooflabError, UnknownNameError
from rooflab.machines import catalog
from rooflab.machines.consistency import contradictions
from rooflab.types import toml
from rooflab.types.machine import Level, Link, Machine, Rate, Source, is_main_memory

SOURCE = Source("datasheet", "a page")


def memory(machine: Machine) -> Rate:
    rate = machine.level("memory").rate("any", basis="theoretical")
    assert rate is not None
    return rate


# --- every file


def test_there_are_machines_of_every_kind() -> None:
    kinds = {entry.kind for entry in catalog.entries()}
    assert len(catalog.names()) >= 50
    assert kinds == {"cpu", "gpu", "tpu", "asic", "soc", "system"}


@pytest.mark.parametrize("name", catalog.names())
def test_every_file_loads_agrees_with_itself_and_is_written_back_equal(name: str) -> None:
    machine = catalog.find(name)
    assert contradictions(machine) == ()
    assert machine.vendor
    assert machine.year
    assert machine.peaks
    assert memory(machine).per_s == "byte"
    assert toml.loads(toml.dumps(machine), name) == machine


@pytest.mark.parametrize("name", catalog.names())
def test_every_source_names_a_document_and_every_named_source_is_used(name: str) -> None:
    raw = tomllib.loads((catalog.DATA / "catalog" / f"{name}.toml").read_text(encoding="utf-8"))
    used: set[str] = set()

    def collect(item: object) -> None:
        if isinstance(item, dict):
            used.update(str(item[key]) for key in ("source", "latency_source") if key in item)
            for value in item.values():
                collect(value)
        if isinstance(item, list):
            for value in item:
                collect(value)

    sources = raw.pop("sources")
    collect(raw)
    assert used == set(sources)
    assert all(len(source["ref"]) > 15 for source in sources.values())


@pytest.mark.parametrize("name", catalog.names())
def test_the_parts_of_a_system_are_in_the_catalogue(name: str) -> None:
    for part in catalog.find(name).parts:
        assert part.machine is None or part.machine in catalog.names()


def test_no_ambiguous_name_is_a_machine_and_every_variant_is_one() -> None:
    rows = tomllib.loads((catalog.DATA / "ambiguous.toml").read_text(encoding="utf-8"))["ambiguous"]
    for row in rows:
        assert set(row["variants"]) <= set(catalog.names())
        for name in row["names"]:
            with pytest.raises(RooflabError, match="is more than one machine"):
                catalog.find(name)


# --- key numbers

BANDWIDTH = [
    ("h200", 4.8e12),
    ("h100-sxm", 3.35e12),
    ("a100-sxm-80gb", 2.039e12),
    ("b200", 7680 / 8 * 3996e6 * 2),  # bus × memory clock × 2
    ("m1-pro", 6.4e9 * 256 / 8),  # 204.8 GB/s
    ("mi300x", 5.3e12),
    ("rtx-5070", 192 / 8 * 14.001e9 * 2),  # 672.048 GB/s
    ("rtx-4060-ti", 288e9),
    ("tpu-v5e", 819e9),
    ("gb10", 273e9),
    ("epyc-9755", 12 * 8 * 6e9),  # channels × 8 bytes × 6 GT/s
    ("dgx-h100", 8 * 3.35e12),
    ("a100-pcie-40gb", 5120 / 8 * 1.215e9 * 2),  # 1555.2 GB/s, as SXM's 40 GB
    ("v100-sxm2-16gb", 900e9),  # not the 1130 of some lists
    ("v100-pcie-16gb", 900e9),
    ("rtx-6000-ada", 384 / 8 * 20e9),
    ("l40", 384 / 8 * 18e9),
    ("h20", 4e12),
    ("rtx-pro-6000-server", 512 / 8 * 12.48e9 * 2),  # 1597 GB/s, not the Workstation Edition's 1792
    ("rtx-3080", 320 / 8 * 19e9),  # of 10 GB
    ("rtx-4070-ti-super", 256 / 8 * 21e9),  # not the 504 GB/s of the 4070 Ti
    ("rtx-4080", 256 / 8 * 22.4e9),
    ("rtx-5080", 256 / 8 * 30e9),
    ("rtx-5060-ti", 128 / 8 * 28e9),
    ("rtx-a4000", 448e9),
    ("rx-7900-xtx", 384 / 8 * 20e9),  # not the 3.5 TB/s of its Infinity Cache
    ("radeon-ai-pro-r9700", 256 / 8 * 20e9),
    ("m3-ultra-80-core", 6.4e9 * 1024 / 8),
    ("m4-pro-20-core", 8.533e9 * 256 / 8),
    ("m4-max-32-core", 8.533e9 * 384 / 8),  # not 546, of 40 cores
    ("arc-pro-b60", 192 / 8 * 2.375e9 * 8),  # GDDR6 moves eight bits a clock of its command bus
]


@pytest.mark.parametrize(("name", "bytes_per_s"), BANDWIDTH)
def test_memory_bandwidth_is_that_of_the_datasheet(name: str, bytes_per_s: float) -> None:
    assert memory(catalog.find(name)).value == pytest.approx(bytes_per_s, rel=1e-3)


PEAKS = [  # machine, dtype, engine, accumulate, per second
    ("h200", "bf16", "matrix", None, 989.4e12),
    ("h100-sxm", "bf16", "matrix", None, 989.4e12),  # not the 1979 printed, with sparsity
    ("h100-sxm", "fp8", "matrix", None, 1978.9e12),  # not 3958
    ("h100-pcie", "bf16", "matrix", None, 756e12),
    ("a100-sxm-80gb", "bf16", "matrix", None, 312e12),
    ("a100-sxm-80gb", "int8", "matrix", "int32", 624e12),
    ("l4", "fp16", "matrix", None, 121e12),  # not 242
    ("b200", "bf16", "matrix", None, 2250e12),
    ("rtx-4090", "fp16", "matrix", "fp32", 165.2e12),
    ("rtx-4090", "fp16", "matrix", "fp16", 330.3e12),
    ("rtx-4090", "fp16", "matrix", None, 165.2e12),  # what frameworks see: fp32 accumulate
    ("rtx-3070-ti", "bf16", "matrix", "fp32", 43.5e12),
    ("rtx-3070-ti", "bf16", "vector", None, 21.75e12),
    ("rtx-2080-ti", "fp32", "vector", None, 2 * 4352 * 1545e6),  # 13,447.68 GFLOP/s
    ("rtx-5070", "fp32", "vector", None, 48 * 128 * 2 * 2.625e9),  # 32.256 TFLOP/s
    ("rtx-4080", "bf16", "matrix", "fp32", 97.5e12),  # not 195, of fp16 sums
    ("rtx-5080", "fp32", "vector", None, 84 * 128 * 2 * 2.617e9),
    ("rtx-3060", "fp32", "vector", None, 12.74e12),
    ("rx-7900-xtx", "fp16", "matrix", None, 122.8e12),
    ("m3-max-40-core", "fp32", "vector", None, 14.13e12),
    ("m1-pro", "fp32", "vector", None, 5.3e12),
    ("mi300x", "bf16", "matrix", None, 1307.4e12),
    ("tpu-v7", "fp8", "matrix", None, 4614e12),
    ("epyc-9654", "fp64", "vector", None, 96 * 16 * 2.4e9),
    ("v100-pcie-16gb", "fp16", "matrix", None, 80 * 1024 * 1.38e9),  # 113 TFLOP/s, not SXM2's 125
    ("v100-sxm2-16gb", "fp16", "matrix", None, 125e12),
    ("rtx-6000-ada", "fp8", "matrix", None, 1457e12 / 2),  # printed with sparsity
    ("l40", "bf16", "matrix", None, 181.05e12),  # half of L40S, not 362 (with sparsity)
    ("l40s", "bf16", "matrix", None, 362.05e12),
    ("h20", "bf16", "matrix", None, 148e12),
    ("rtx-pro-6000-server", "bf16", "matrix", None, 188 * 1024 * 2.43e9),
    ("rtx-pro-6000-server", "fp4", "matrix", None, 188 * 4096 * 2.43e9),  # not the 4000 with sparsity
    ("arc-pro-b60", "int8", "matrix", "int32", 20 * 4096 * 2.4e9),
]


@pytest.mark.parametrize(("name", "dtype", "engine", "accumulate", "per_s"), PEAKS)
def test_peaks_are_dense_and_name_what_they_accumulate_in(name, dtype, engine, accumulate, per_s) -> None:
    found = catalog.find(name).peak(dtype, engine=engine, accumulate=accumulate, basis="theoretical")
    assert found is not None
    assert found.value == pytest.approx(per_s, rel=1e-3)
    assert found.per_s == ("op" if dtype.startswith("int") else "flop")


def test_links_are_one_way() -> None:
    nvlink = catalog.find("h100-sxm").links[0]
    assert (nvlink.each_way_bytes_per_s, nvlink.duplex) == (450e9, True)  # 900 is both ways added


def test_the_measured_roofs_of_h200_are_attained_never_theoretical() -> None:
    h200 = catalog.find("h200")
    levels = [h200.level(name).rate("read", basis="attained") for name in ("L1", "L2", "HBM")]
    assert [rate and rate.value for rate in levels] == [32.02e12, 8.208e12, 4.299e12]
    assert all(rate is not None and rate.source.kind == "measured" for rate in levels)


def test_the_measured_roofs_are_those_of_the_record() -> None:
    record = Path(__file__).resolve().parents[3] / "shared" / "truth"
    if not record.is_dir():
        pytest.skip("the measurements are not beside this checkout")
    for name, card in (("h200", "h200.json"), ("h100-sxm", "h100.json")):
        roofs = json.loads((record / card).read_text(encoding="utf-8"))["roofs"]
        hbm = catalog.find(name).level("memory")
        for what, value in (
            ("read", roofs["read_GBps_by_bytes"]["2147483648"]),
            ("write", roofs["write_GBps"]),
            ("triad", roofs["triad_GBps"]),
        ):
            rate = hbm.rate(what, basis="attained")
            assert rate is not None
            assert rate.value == pytest.approx(value * 1e9, rel=1e-3)


# --- names


@pytest.mark.parametrize(
    ("printed", "stem"),
    [
        ("NVIDIA H100 80GB HBM3", "h100-sxm"),
        ("NVIDIA H100 PCIe", "h100-pcie"),
        ("NVIDIA H100 NVL", "h100-nvl"),
        ("NVIDIA H200", "h200"),
        ("NVIDIA A100-SXM4-80GB", "a100-sxm-80gb"),
        ("NVIDIA A100-SXM4-40GB", "a100-sxm-40gb"),
        ("NVIDIA A100 80GB PCIe", "a100-pcie-80gb"),
        ("NVIDIA B200", "b200"),
        ("AMD Instinct MI300X VF", "mi300x"),
        ("AMD Instinct MI300X", "mi300x"),
        ("AMD Instinct MI250X", "mi250x-gcd"),  # software shows each die of the module
        ("Tesla V100-SXM2-32GB", "v100-sxm2-32gb"),
        ("Tesla T4", "t4"),
        ("NVIDIA GeForce RTX 4090", "rtx-4090"),
        ("NVIDIA L40S", "l40s"),
        ("NVIDIA GB10", "gb10"),
        ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "rtx-pro-6000-workstation"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "rtx-pro-6000-server"),
        ("NVIDIA RTX 6000 Ada Generation", "rtx-6000-ada"),
        ("NVIDIA L40", "l40"),
        ("NVIDIA H20", "h20"),
        ("NVIDIA A100-PCIE-40GB", "a100-pcie-40gb"),
        ("Tesla V100-SXM2-16GB", "v100-sxm2-16gb"),
        ("Tesla V100-PCIE-16GB", "v100-pcie-16gb"),
        ("Intel(R) Arc(TM) Pro B60 Graphics", "arc-pro-b60"),
        ("m1-pro", "m1-pro"),
        ("nvidia h100 80gb hbm3", "h100-sxm"),  # case and punctuation do not count
        ("TPU v5 lite", "tpu-v5e"),
    ],
)
def test_names_that_profilers_print_mean_one_machine(printed: str, stem: str) -> None:
    assert catalog.find(printed) == catalog.find(stem)


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", "RTX PRO 6000 Blackwell Workstation Edition"),
        ("NVIDIA H800", "H200"),
        ("RTX 3071", "rtx-3070-ti"),
        ("MI300A", "mi300x"),
        ("h100s", "h100-sxm"),
        ("L20", "L40"),
    ],
)
def test_an_unknown_name_is_an_error_with_near_matches_never_a_number(name: str, near: str) -> None:
    with pytest.raises(UnknownNameError) as caught:
        catalog.find(name)
    assert str(caught.value).startswith(f"unknown machine {name!r}; did you mean ")
    assert near.casefold() in str(caught.value).casefold()
    assert "`rooflab machine` lists them all" in str(caught.value)


@pytest.mark.parametrize("path", ["../h200", "./h200", "/h200", "../catalog/h200"])
def test_what_begins_as_a_path_is_no_name(path: str) -> None:
    with pytest.raises(FileError, match=re.escape(f"{Path(path)}: no such file")):
        catalog.find(path)


@pytest.mark.parametrize("name", ["", "zzzzzz", "\0", "x" * 5000])
def test_nonsense_is_an_unknown_name(name: str) -> None:
    with pytest.raises(UnknownNameError, match="unknown machine"):
        catalog.find(name)


def test_a_shared_short_name_lists_its_variants() -> None:
    with pytest.raises(RooflabError, match="name one of h100-sxm, h100-pcie, h100-nvl"):
        catalog.find("H100")
    with pytest.raises(RooflabError, match=r"Max-Q.*name one of rtx-pro-6000-workstation, rtx-pro-6000-server"):
        catalog.find("RTX PRO 6000")


def test_gaudi_3_is_fast_in_bf16_and_fp8_alone() -> None:
    peaks = [catalog.find("gaudi-3").peak(name, engine="matrix") for name in ("bf16", "fp8", "fp16", "tf32")]
    assert [peak and peak.value for peak in peaks] == [1835e12, 1835e12, 458.75e12, 458.75e12]


def test_a_name_that_two_files_claim_is_refused(tmp_path: Path) -> None:
    for stem in ("one", "two"):
        (tmp_path / f"{stem}.toml").write_text(f'name = "{stem}"\nkind = "gpu"\naliases = ["Both"]\n')
    with pytest.raises(FileError, match=r"two\.toml: aliases: 'Both' is a name of one\.toml too"):
        catalog.entries(tmp_path)


def test_a_file_stem_reads_one_file(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    loads = toml.loads
    monkeypatch.setattr(toml, "loads", lambda text, where: read.append(where) or loads(text, where))
    catalog._load.cache_clear()
    catalog.entries.cache_clear()
    catalog.find("h200")
    assert [Path(where).name for where in read] == ["h200.toml"]
    assert catalog.entries.cache_info().currsize == 0


# --- files


def test_a_path_is_read_from_disk_toml_and_json_alike(tmp_path: Path) -> None:
    machine = catalog.find("h200")
    (tmp_path / "mine.toml").write_text(toml.dumps(machine), encoding="utf-8")
    (tmp_path / "mine.json").write_bytes(msgspec.json.encode(machine))
    (tmp_path / "mine").write_bytes(msgspec.json.encode(machine))
    for name in ("mine.toml", "mine.json", "mine"):
        assert catalog.find(tmp_path / name) == machine


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("absent.toml", None, "no such file"),
        ("bad.json", b"{", "not valid JSON: Expecting property name"),
        ("list.json", b"[]", "got a JSON list, expected an object"),
        ("nan.json", b'{"name": NaN}', "got NaN, expected a finite number"),
        ("key.json", b'{"name": "x", "nme": 1}', "not a machine: "),
        ("latin.toml", b'name = "\xe9"', "not UTF-8 text"),
        ("empty.toml", b"", "no name; it is required"),
    ],
)
def test_a_bad_file_is_one_line_that_starts_with_its_path(tmp_path, name, content, message) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(FileError) as caught:
        catalog.find(path)
    assert str(caught.value).startswith(f"{path}: {message}")
    assert "\n" not in str(caught.value)


def test_a_directory_is_no_machine_file(tmp_path: Path) -> None:
    (tmp_path / "x.toml").mkdir()
    with pytest.raises(FileError, match="cannot be read: Is a directory"):
        catalog.find(tmp_path / "x.toml")


def test_a_file_that_contradicts_itself_does_not_load(tmp_path: Path) -> None:
    text = (catalog.DATA / "catalog" / "h200.toml").read_text(encoding="utf-8")
    path = tmp_path / "h200.toml"
    path.write_text(text.replace('value = "4.8 TB/s"', 'value = "9.6 TB/s"'), encoding="utf-8")
    with pytest.raises(FileError) as caught:
        catalog.find(path)
    assert str(caught.value) == (
        f"{path}: contradicts itself: levels[3].rates[0].value: got 9.600 TB/s, "
        "expected 4.814 TB/s = 6.402 GT/s × 6016 bit / 8"
    )


# --- contradictions, one machine a row


def read(value: float, basis: str = "theoretical") -> Rate:
    return Rate(value=value, per_s="byte", what="read", basis=basis, source=SOURCE)  # pyright: ignore[reportArgumentType]


def tensor(dtype: str, value: float, **more: object) -> Rate:
    return Rate(
        value=value,
        per_s="flop",
        what="fma",
        basis="theoretical",
        source=SOURCE,
        dtype=dtype,
        engine="matrix",
        **more,
    )  # pyright: ignore[reportArgumentType]


def at(name: str, capacity: float | None, *rates: Rate) -> Level:
    return Level(name=name, source=SOURCE, capacity_bytes=capacity, rates=rates)


CONTRADICTORY = [
    # 132 × 4096 × 1.83 GHz = 989.4 TFLOP/s, and 1979 is the sparse figure
    (
        {"peaks": (tensor("bf16", 1979e12, units=132, per_unit_per_clock=4096, clock_hz=1.83e9),)},
        "peaks[0].value: got 1.979 PFLOP/s, expected 989.4 TFLOP/s = 132 × 4096 per clock",
    ),
    (
        {"levels": (at("L1", 64e3), at("L2", 32e3))},
        "levels[1].capacity_bytes: got 31.25 KiB, expected no less than the 62.5 KiB of L1",
    ),
    (
        {"levels": (at("L2", None, read(1e12)), at("HBM", None, read(2e12)))},
        "levels[1].rates: got 2.000 TB/s, expected no more than the 1.000 TB/s of L2",
    ),
    (
        {"levels": (at("HBM", None, read(1e12), read(2e12, "attained")),)},
        "levels[0].rates[1].value: got 2.000 TB/s, expected no more than the theoretical 1.000 TB/s",
    ),
    (
        {"peaks": (tensor("tf32", 989e12), tensor("bf16", 989e12))},
        "peaks[0].value: got 989.0 TFLOP/s, expected 494.5 TFLOP/s, half of bf16",
    ),
    (
        {"links": (Link(name="PCIe 5.0 x16", to="host", source=SOURCE, each_way_bytes_per_s=128e9),)},
        "links[0].each_way_bytes_per_s: got 128.0 GB/s, expected 63.02 GB/s one way",
    ),
    ({"levels": (at("L1", None), at("L1", None))}, "levels: got L1 2 times, expected each once"),
    ({"levels": (at("DRAM", None), at("HBM", None))}, "levels: got the main memories DRAM, HBM, expected one"),
    ({"peaks": (tensor("bf16", 9e12), tensor("bf16", 9e12))}, "peaks: got matrix bf16 fma scope all 2 times"),
]


@pytest.mark.parametrize(("fields", "message"), CONTRADICTORY)
def test_each_contradiction_is_named_with_field_got_and_expected(fields: dict, message: str) -> None:
    found = contradictions(Machine(name="toy", kind="gpu", vendor="NVIDIA", source=SOURCE, **fields))
    assert any(sentence.startswith(message) for sentence in found), found


def test_a_measured_machine_may_beat_theory_and_find_a_small_l3() -> None:
    # A guest found 8 MiB of a shared L3 and boosted past its nominal peak: checks say so, the file loads.
    levels = (at("L2", 16e6), at("L3", 8e6, read(1e10), read(2e10, "attained")))
    machine = Machine(name="guest", kind="cpu", source=Source("measured", "rooflab measure"), levels=levels)
    assert contradictions(machine) == ()


def test_datasheet_rounding_is_no_contradiction() -> None:
    # 8192 bit × 6.0 GT/s / 8 = 6.144 TB/s, printed as 6.0: 2.3 % below
    hbm = Level(name="HBM", source=SOURCE, transfers_per_s=6e9, bus_bits=8192, rates=(read(6e12),))
    assert is_main_memory(hbm)
    assert contradictions(Machine(name="toy", kind="gpu", source=SOURCE, levels=(hbm,))) == ()
