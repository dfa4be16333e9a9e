"""What every output of a benchmark becomes: a machine that is shown, saved, read back and predicted with."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

import rooflab
from rooflab import views
from rooflab.machines.doubts import doubts, doubts_of_timing
from rooflab.observe.importers.roofs import FORMATS

_PROFILES = Path(__file__).parents[3] / "samples" / "profiles"
SAMPLES = [path for name in FORMATS for path in sorted((_PROFILES / name).iterdir())]


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: f"{path.parent.name}: {path.name}")
def test_it_is_shown_saved_and_read_back(path, tmp_path):
    machine = rooflab.load(path)
    out = io.StringIO()
    views.show(machine, out)
    assert machine.name in out.getvalue()
    names = [tmp_path / name for name in ("m.json", "m.toml", "m.html")]
    machine.save(*names)
    assert rooflab.machine(names[0]) == rooflab.machine(names[1]) == rooflab.load(names[0]) == machine
    assert {source.kind for source in machine.sources} <= {"reported", "derived"}
    for said in (doubts(machine), doubts_of_timing(machine)):
        assert all(isinstance(sentence, str) for sentence in said)


@pytest.mark.parametrize("name", ["stream/stream.txt", "babelstream/cuda.txt", "carm/node9_roofline.csv"])
def test_an_operation_is_predicted_on_it(name, tmp_path):
    machine = rooflab.load(_PROFILES / name)
    machine.save(tmp_path / "m.toml")
    memory = next(level for level in machine.levels if level.name in ("DRAM", "HBM"))
    report = rooflab.op("copy", "268435456", machine=tmp_path / "m.toml")
    assert report.rows[0].prediction.binds == memory.name


@pytest.mark.parametrize("name", ["stream/stream.txt", "babelstream/cuda.txt", "likwid_bench/five_kernels.txt"])
def test_marks_of_job_launchers(name, tmp_path):
    """`srun -l` writes the task's number before each line."""
    path = tmp_path / (Path(name).name)
    path.write_text("".join(f"0: {line}\n" for line in (_PROFILES / name).read_text().splitlines()))
    marked, plain = rooflab.load(path), rooflab.load(_PROFILES / name)
    assert (marked.levels, marked.peaks) == (plain.levels, plain.peaks)
