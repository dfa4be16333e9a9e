"""A machine file whose words or magnitudes cannot be meant does not load: field, got, expected."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from rooflab.errors import FileError
from rooflab.machines import catalog
from rooflab.machines.meant import doubtful
from rooflab.types import toml
from rooflab.types.machine import Level, Machine, Rate, Source

SOURCE = Source("measured", "here")
READ = Rate(value=30e9, per_s="byte", what="read", basis="attained", source=SOURCE, median=27e9, spread=0.1)
PEAK = Rate(value=1e11, per_s="flop", what="fma", dtype="fp32", basis="attained", engine="vector", source=SOURCE)
CACHE = Level(name="L2", source=SOURCE, capacity_bytes=2**20, latency_s=4e-9)
DRAM = Level(name="DRAM", source=SOURCE, capacity_bytes=8e9, rates=(READ,))
MACHINE = Machine(name="mine", kind="cpu", source=SOURCE, levels=(CACHE, DRAM), peaks=(PEAK,))


def changed(part: str, **fields) -> Machine:
    new = msgspec.structs.replace
    if part == "peak":
        return new(MACHINE, peaks=(new(PEAK, **fields),))
    if part == "read":
        return new(MACHINE, levels=(CACHE, new(DRAM, rates=(new(READ, **fields),))))
    return new(MACHINE, levels=(new(CACHE, **fields), DRAM))


def test_a_sound_machine_leaves_no_doubt() -> None:
    assert doubtful(MACHINE) == ()


@pytest.mark.parametrize(
    ("machine", "sentence"),
    [
        (changed("peak", dtype="float16"), "peaks[0].dtype: got 'float16', expected fp16"),
        (changed("peak", dtype="f32x"), "peaks[0].dtype: got 'f32x', expected a number format: fp64, fp32, tf32"),
        (changed("peak", accumulate="flot32"), "peaks[0].accumulate: got 'flot32', expected a number format"),
        (changed("peak", what="ffma"), "peaks[0].what: got 'ffma', expected 'fma'"),
        (changed("peak", value=2e21), "peaks[0].value: got 2,000 EFLOP/s, expected at most 100.0 EFLOP/s"),
        (changed("peak", clock_hz=3.7e12), "peaks[0].clock_hz: got 3.70 THz, expected at most 100 GHz"),
        (changed("read", what="reads"), "levels[1].rates[0].what: got 'reads', expected 'read'"),
        (
            changed("read", median=0.0),
            "levels[1].rates[0].median: got 0 B/s, expected above zero and at most the be",
        ),
        (
            changed("read", median=31e9),
            "levels[1].rates[0].median: got 31.00 GB/s, expected above zero and at most",
        ),
        (changed("read", spread=0.4), "levels[1].rates[0].spread: got 0.4, expected 0.1, (best − median) / best"),
        (
            changed("read", median=None, spread=7.0),
            "levels[1].rates[0].spread: got 7, expected a share of the best",
        ),
        (
            changed("cache", capacity_bytes=1e10),
            "levels[0].capacity_bytes: got 9.313 GiB, expected at most the 7.4",
        ),
        (changed("cache", capacity_bytes=0.5), "levels[0].capacity_bytes: got 0.5 B, expected 1 B to"),
        (changed("cache", latency_s=4e-15), "levels[0].latency_s: got 4e-15 s, expected at least"),
    ],
)
def test_what_cannot_be_meant_is_named_with_field_got_and_expected(machine: Machine, sentence: str) -> None:
    found = doubtful(machine)
    assert len(found) == 1
    assert found[0].startswith(sentence)


def test_a_file_with_a_misspelt_number_format_does_not_load(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(toml.dumps(changed("peak", dtype="floaty")), encoding="utf-8")
    with pytest.raises(FileError, match=r"mine\.toml: peaks\[0\]\.dtype: got 'floaty', expected a number format"):
        catalog.find(path)


@pytest.mark.parametrize("name", catalog.names())
def test_the_catalogue_means_what_it_says(name: str) -> None:
    assert doubtful(catalog.find(name)) == ()
