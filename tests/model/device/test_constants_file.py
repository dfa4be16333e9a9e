"""A user's own constants: written, read, used; refused where they do not fit."""

from __future__ import annotations

import msgspec
import pytest

import rooflab
from rooflab.errors import FileError, RooflabError
from rooflab.model.calibrate import fit
from rooflab.model.calibrate.timings import Timed
from rooflab.model.device import constants_file
from rooflab.model.device.constants import constants_of
from rooflab.story import calibrate

MACHINE = rooflab.machine("epyc-7763")
GOOD = """
like = "cpu"
kind = "cpu"
[sources.mine]
kind = "measured"
ref = "my machine"
[numpy.exp_flop]
value = 100
meaning = "an exponential"
source = "mine"
"""


@pytest.fixture
def file(tmp_path):
    def write(text):
        path = tmp_path / "mine.toml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


@pytest.fixture(scope="module")
def timings_file(tmp_path_factory):
    lines = ["kind,shapes,dtype,time_s"]
    constants = constants_of(MACHINE).replaced({"numpy.exp_flop": 100.0})
    for size in (10_000, 20_000, 40_000, 80_000, 160_000, 320_000, 640_000, 1_280_000):
        report = rooflab.op("exp", size, machine=MACHINE, constants=constants)
        assert report.prediction is not None
        lines.append(f"exp,{size},fp32,{report.prediction.time_s}")
    path = tmp_path_factory.mktemp("timings") / "exp.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.mark.slow
def test_a_calibration_is_written_read_and_predicts_what_was_timed(timings_file, file):
    found = calibrate(timings_file, MACHINE)
    path = file(constants_file.text(msgspec.structs.replace(found, date="2026-11-28")))
    read = constants_file.read(path)
    assert read("numpy.exp_flop") == pytest.approx(found.constants("numpy.exp_flop"), rel=1e-4)
    source = read.values["numpy.exp_flop"].source
    assert (source.kind, source.date) == ("measured", "2026-11-28")
    assert source.ref.startswith("rooflab calibrate exp.csv: 8 times on ")
    old = rooflab.op("exp", 640_000, machine=MACHINE)
    new = rooflab.op("exp", 640_000, machine=MACHINE, constants=path)
    # 100 in place of the family's FLOP, all of it arithmetic
    assert new.time_s is not None
    assert old.time_s is not None
    assert new.time_s / old.time_s == pytest.approx(100 / constants_of(MACHINE)("numpy.exp_flop"), rel=0.05)
    assert any(line.startswith("constants: cpu's as given") for line in new.conventions)


@pytest.mark.slow
def test_a_second_calibration_keeps_what_the_first_changed(timings_file, file):
    first = calibrate(timings_file, MACHINE, constants=file(GOOD.replace("exp_flop", "log_flop")))
    again = constants_file.read(file(constants_file.text(first)))
    assert again("numpy.log_flop") == 100
    assert again("numpy.exp_flop") == pytest.approx(100, rel=0.06)


@pytest.mark.slow
def test_only_what_differs_from_the_family_is_written():
    ops = [rooflab.op("add", size) for size in range(1000, 9000, 1000)]
    timed = [Timed(each.name, each, (0,), each.on(MACHINE).time_s or 0.0) for each in ops]
    text = constants_file.text(fit.fit(timed, MACHINE))
    assert "[numpy." not in text  # they fit as they are; only the spread narrows


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = ", "not valid TOML"),
        ("a = 1", "like: got None, expected the family that it changes: "),
        (GOOD.replace('like = "cpu"', 'like = "hoper"'), "unknown machine family 'hoper'; did you mean hopper"),
        (GOOD.replace("exp_flop", "expo_flop"), "unknown constant of cpu 'numpy.expo_flop'; did you mean"),
        (GOOD.replace("value = 100", "value = -1"), "numpy.exp_flop is -1.0, expected a number of 0 or more"),
        (GOOD.replace("value = 100", "value = nan"), "numpy.exp_flop is nan, expected a number of 0 or more"),
        (GOOD.replace('meaning = "an exponential"\n', ""), "mine.toml: numpy.exp_flop needs a value, a meaning"),
        (
            GOOD.replace('source = "mine"', 'source = "yours"'),
            "unknown source of mine.toml,",
        ),
        (GOOD.replace('kind = "measured"', 'kind = "heard"'), "Invalid enum value 'heard'"),
        (GOOD.replace("value = 100", 'value = "many"'), "'many' is not a quantity"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_in_one_line(file, text, message):
    path = file(text)
    with pytest.raises(FileError) as caught:
        constants_file.read(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there_is_refused_with_what_writes_one(tmp_path):
    with pytest.raises(FileError, match="no such file; `rooflab calibrate` writes one"):
        constants_file.read(tmp_path / "none.toml")


def test_constants_of_another_kind_of_machine_are_refused(file):
    with pytest.raises(RooflabError, match=r"constants .* are for a cpu, and NVIDIA H200 .* is a gpu"):
        rooflab.op("exp", 1000, machine="h200", constants=file(GOOD))
