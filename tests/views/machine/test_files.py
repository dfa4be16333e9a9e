"""Files: every format, early refusal, and nothing half-written."""

from __future__ import annotations

import json
import os
import stat

import pytest

from rooflab import views
from rooflab.errors import FileError, RooflabError
from rooflab.types import toml
from rooflab.types.machine import Machine, Source
from rooflab.views.common import files

SOURCE = Source(kind="assumed", ref="test")


def check(path):
    views.check_paths([path], "Machine")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("suffix", "starts"),
    [
        ("json", b"{"),
        ("toml", b""),
        ("html", b"<!doctype html>"),
        ("svg", b"<svg"),
        ("png", b"\x89PNG\r\n\x1a\n"),
        ("pdf", b"%PDF-"),
        ("JSON", b"{"),  # a suffix in capitals is the same one
    ],
)
def test_each_suffix_writes_its_format(measured, tmp_path, suffix, starts):
    path = tmp_path / f"out.{suffix}"
    measured.save(path)
    assert path.read_bytes().startswith(starts)
    assert [each.name for each in tmp_path.iterdir()] == [path.name]  # nothing is left beside it


def test_json_and_toml_read_back_equal(measured, tmp_path):
    one, other = tmp_path / "m.json", tmp_path / "m.toml"
    measured.save(one, other)
    assert Machine.from_dict(json.loads(one.read_text())) == measured
    assert toml.loads(other.read_text(), "m.toml") == measured


@pytest.mark.slow
def test_the_png_is_two_pixels_for_one(measured, tmp_path):
    path = tmp_path / "m.png"
    measured.save(path)
    head = path.read_bytes()[16:24]  # width and height in the IHDR chunk
    width = int.from_bytes(head[:4], "big")
    assert width > 2 * 720


def test_the_svg_holds_text_not_outlines(measured, tmp_path):
    path = tmp_path / "m.svg"
    measured.save(path)
    assert "DRAM 38.0 GB/s" in path.read_text()


def test_unknown_suffix_lists_the_known():
    with pytest.raises(
        FileError, match=r"^out\.xlsx: suffix '\.xlsx', expected one of \.json, \.toml, \.csv, \.parquet, \.md"
    ):
        check("out.xlsx")
    with pytest.raises(FileError, match=r"^out: no suffix, expected one of"):
        check("out")


def test_no_folder_a_folder_and_a_file_for_a_folder_are_refused(tmp_path):
    with pytest.raises(FileError, match=r"there is no folder .*missing, create it first"):
        check(tmp_path / "missing" / "m.json")
    (tmp_path / "folder.json").mkdir()
    with pytest.raises(FileError, match="is a folder, expected the name of a file in it"):
        check(tmp_path / "folder.json")
    (tmp_path / "file").touch()
    with pytest.raises(FileError, match="is a file, expected a folder"):
        check(tmp_path / "file" / "m.json")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission_is_refused(tmp_path):
    tmp_path.chmod(stat.S_IRUSR | stat.S_IXUSR)
    with pytest.raises(FileError, match="is not writable"):
        check(tmp_path / "m.json")


def test_a_folder_that_takes_no_file_is_refused_even_to_root(tmp_path, monkeypatch):
    def refuse(**_):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(files.tempfile, "TemporaryFile", refuse)
    with pytest.raises(FileError, match=r"not writable \(Read-only file system\), expected write permission"):
        check(tmp_path / "m.json")


def test_a_read_only_file_is_left_alone(tmp_path, monkeypatch):
    path = tmp_path / "m.json"
    path.write_text("{}")
    monkeypatch.setattr(os, "access", lambda *args: False)
    with pytest.raises(FileError, match="the file is read-only"):
        check(path)


def test_one_bad_path_of_several_writes_none(measured, tmp_path):
    with pytest.raises(FileError, match="no suffix"):
        measured.save(tmp_path / "good.json", tmp_path / "bad")
    assert list(tmp_path.iterdir()) == []


def test_a_machine_without_a_roofline_has_no_picture_but_all_else(tmp_path):
    bare = Machine(name="box", kind="system", source=SOURCE)
    with pytest.raises(RooflabError, match=r"m\.svg not written: box: .*no roofline"):
        bare.save(tmp_path / "m.svg", tmp_path / "m.json")
    # One refused format does not lose the others.
    assert [each.name for each in tmp_path.iterdir()] == ["m.json"]
    bare.save(tmp_path / "m.html")  # its page has what is known
    assert "box" in (tmp_path / "m.html").read_text()


def test_a_failed_write_leaves_the_old_file(measured, tmp_path, monkeypatch):
    path = tmp_path / "m.json"
    path.write_text("old")

    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(RooflabError, match=r"m\.json: cannot be written: No space left on device"):
        measured.save(path)
    assert path.read_text() == "old"
    assert [each.name for each in tmp_path.iterdir()] == ["m.json"]


def test_the_mode_is_that_of_an_ordinary_file(measured, tmp_path):
    path = tmp_path / "m.json"
    measured.save(path)
    (tmp_path / "other").touch()
    assert path.stat().st_mode == (tmp_path / "other").stat().st_mode
    path.chmod(0o640)
    measured.save(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
