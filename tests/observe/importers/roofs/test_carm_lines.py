"""carm-roofline's JSON lines. The sample is built from the documented schema (jsonl.py), not by the tool."""

from __future__ import annotations

from pathlib import Path

from rooflab.observe.importers.roofs import carm_lines

SAMPLE = Path(__file__).parents[3] / "samples" / "profiles" / "carm_lines" / "benchmarks.jsonl"


def test_roofs_of_levels_and_arithmetic():
    machine = carm_lines.load(SAMPLE)
    assert machine.name == "node9 (carm-roofline)"
    assert [(level.name, level.rate("triad").value) for level in machine.levels] == [
        ("L1", 1900.5e9),
        ("L2", 900.25e9),
        ("DRAM", 48.75e9),
    ]
    (peak,) = machine.peaks
    assert (peak.value, peak.dtype, peak.what, peak.threads) == (410.5e9, "fp64", "fma", 8)


def test_bad_lines_are_counted(tmp_path):
    path = tmp_path / "bad.jsonl"
    path.write_text(SAMPLE.read_text() + '{"isa": "avx2", "bandwidth_gbps": NaN}\n[1]\n{"cut": \n')
    assert "3 lines could not be used" in carm_lines.load(path).note
