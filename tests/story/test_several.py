"""Several files at once: in order, machines apart, a bad one said and the others kept, names told apart."""

from __future__ import annotations

from pathlib import Path

import pytest

import rooflab
from rooflab.errors import FileError, UnknownNameError
from rooflab.story.several import names_of
from support.observe.kineto_files import call, file, kernel, launch

EXAMPLES = Path(__file__).parents[2] / "examples"


def trace(folder, name, long_us=10.0):
    folder = folder / name
    folder.mkdir()
    return file(folder, call(-5, 4, "aten::relu"), launch(-3), kernel(0, long_us))


def test_files_come_back_in_the_order_given(tmp_path):
    slow, fast = trace(tmp_path, "slow", 30), trace(tmp_path, "fast", 10)
    found = rooflab.load(slow, fast, machine="a10")
    assert [one.name for one in found.profiles] == ["slow/trace.json", "fast/trace.json"]
    assert [one.time_s for one in found.profiles] == pytest.approx([30e-6, 10e-6])
    assert all(one.machine == rooflab.machine("a10") for one in found.profiles)
    assert found["fast/trace.json"].time_s == pytest.approx(10e-6)
    with pytest.raises(UnknownNameError, match="fast"):
        found["fest/trace.json"]


def test_one_file_alone_stays_what_it_is(tmp_path):
    assert type(rooflab.load(trace(tmp_path, "one"))).__name__ == "Profile"


def test_machines_stand_apart_and_a_bad_file_loses_no_other(tmp_path):
    bad = tmp_path / "notes.txt"
    bad.write_text("nothing of use", encoding="utf-8")
    report = tmp_path / "report.json"
    rooflab.op("relu", 64).save(report)
    saved = tmp_path / "profile.json"
    rooflab.load(trace(tmp_path, "run")).save(saved)
    found = rooflab.load(bad, EXAMPLES / "zen4-guest.toml", report, saved, tmp_path / "gone.csv")
    assert [one.name for one in found.profiles] == ["profile.json"]
    assert found.machines == (rooflab.load(EXAMPLES / "zen4-guest.toml"),)
    assert [sentence.split(":")[0] for sentence in found.failed] == [
        str(bad),
        str(report),
        str(tmp_path / "gone.csv"),
    ]
    assert "a Report, expected profiles" in found.failed[1]
    assert "no such file" in found.failed[2]


def test_of_bad_files_alone_nothing_is_made(tmp_path):
    with pytest.raises(FileError, match=r"a\.json: no such file; .*b\.json: no such file"):
        rooflab.load(tmp_path / "a.json", tmp_path / "b.json")


def test_names_take_folders_until_they_differ():
    assert names_of([Path("x/0/t.json"), Path("x/1/t.json")]) == ["0/t.json", "1/t.json"]
    assert names_of([Path("x/a.json"), Path("x/b.json")]) == ["a.json", "b.json"]
    assert names_of([Path("t.json"), Path("t.json")]) == ["t.json", "t.json"]
