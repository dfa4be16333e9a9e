"""Several files at once: in order, machines apart, a bad one said and the others kept, names told apart."""

from __future__ import annotations

from pathlib import Path

import pytest

import rooflab
from rooflab.cli import cli
from rooflab.errors import FileError, RooflabError, UnknownNameError
from rooflab.story import several
from rooflab.story.several import names_of
from support.observe.kineto_files import call, file, kernel, launch
from support.observe.rank_files import run as rank_files

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


def test_a_folder_is_read_whole_by_processes_as_by_one(tmp_path):
    rank_files(tmp_path, [[10.0, 20.0]] * 11 + [[30.0, 20.0]])
    (tmp_path / "notes.txt").write_text("nothing of use", encoding="utf-8")
    (tmp_path / ".hidden").write_text("nothing of use", encoding="utf-8")
    found = rooflab.load(tmp_path, workers=1)
    # Rank 2 before rank 10, and what is no profile is said; it is not an error, as nobody named it.
    assert [one.name for one in found.profiles] == [f"r{n}/trace.json" for n in range(12)]
    assert found.failed == ()
    assert found.notes == (f"no profiles, left out: {tmp_path / 'notes.txt'}",)
    assert found.ranks.straggler.rank == 11
    assert rooflab.load(tmp_path, workers=2) == found


def test_a_broken_file_in_a_folder_is_said_and_loses_no_other(tmp_path):
    rank_files(tmp_path, [[10.0], [20.0]])
    (tmp_path / "broken.json").write_text('{"type": "Machine"', encoding="utf-8")
    found = rooflab.load(tmp_path)
    assert len(found.profiles) == 2
    assert [sentence.split(": ")[0] for sentence in found.failed] == [str(tmp_path / "broken.json")]
    assert cli.main(["load", str(tmp_path), "-q"], standalone_mode=False) == 2


def test_folders_without_profiles_are_one_clear_line(tmp_path):
    with pytest.raises(FileError, match="a folder without files, expected profiles in it"):
        rooflab.load(tmp_path)
    (tmp_path / "notes.txt").write_text("nothing of use", encoding="utf-8")
    with pytest.raises(FileError, match=r"notes\.txt: no profiles, nor results that rooflab saved"):
        rooflab.load(tmp_path)


def test_few_bytes_are_read_here_and_many_by_no_more_processes_than_have_memory(tmp_path, monkeypatch):
    files = [tmp_path / f"{n}.json" for n in range(4)]
    for each in files:
        each.write_bytes(b"x" * 1000)
    assert several._processes(files, None) == 1
    monkeypatch.setattr(several, "_WORTH_BYTES", 3000)
    monkeypatch.setattr(several, "_granted", lambda: (64, 1e9))
    assert several._processes(files, None) == 4  # files
    monkeypatch.setattr(several, "_granted", lambda: (3, 1e9))
    assert several._processes(files, None) == 3  # threads
    # 150 MB and five times a thousand bytes each: two of them in 400 MB.
    monkeypatch.setattr(several, "_granted", lambda: (64, 400e6))
    assert several._processes(files, None) == 2


def test_a_program_does_not_travel(tmp_path):
    with pytest.raises(RooflabError, match="model: a program does not travel to workers"):
        rooflab.load(tmp_path / "a", tmp_path / "b", model=(len, ()), on="tcp://127.0.0.1:1")
