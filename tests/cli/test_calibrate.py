"""The command `calibrate`: what it prints and writes, and what it says of input it cannot use."""

from __future__ import annotations

import io
import json

import pytest

import rooflab
from rooflab import views
from rooflab.model.device.constants import constants_of

MACHINE = rooflab.machine("epyc-7763")
SIZES = (10_000, 20_000, 40_000, 80_000, 160_000, 320_000, 640_000, 1_280_000)


@pytest.fixture(scope="module")
def timings(tmp_path_factory):
    """Exponentials that take twice what the family says, a row of nonsense, a negative time."""
    base = constants_of(MACHINE)
    constants = base.replaced({"numpy.exp_flop": 2 * base("numpy.exp_flop")})
    lines = ["kind,shapes,dtype,time", "bogus,8,fp32,1 us", "add,8 8,fp32,-1 us"]
    for size in SIZES:
        found = rooflab.op("exp", size, machine=MACHINE, constants=constants).time_s
        assert found is not None
        lines.append(f"exp,{size},fp32,{found * 1e6:.6f} us")
    path = tmp_path_factory.mktemp("timings") / "exp.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.mark.slow
def test_it_prints_what_changed_and_writes_constants_that_predict(timings, command, tmp_path):
    path = tmp_path / "mine.toml"
    code, out, err = command("calibrate", timings, "--machine", "epyc-7763", "-o", path)
    assert (code, err) == (0, f"rooflab: wrote {path}\n")
    assert "constants of cpu refitted to 8 times" in out
    assert "2 rows left out: line 2: unknown operation 'bogus'" in out
    assert "numpy.exp_flop" in out
    assert "No gain" not in out
    old = rooflab.op("exp", 1_280_000, machine=MACHINE).time_s
    new = rooflab.op("exp", 1_280_000, machine=MACHINE, constants=path).time_s
    assert old
    assert new
    assert new / old == pytest.approx(2, rel=0.07)


@pytest.mark.slow
def test_json_is_all_that_stdout_holds(timings, command):
    code, out, err = command("calibrate", timings, "--machine", "epyc-7763", "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert found["rows"] == len(SIZES)
    assert found["after"]["median"] < 0.1 < found["before"]["median"]
    assert {"numpy.exp_flop"} <= {change["name"] for change in found["changes"]}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["no.csv", "--machine", "h200"], "no.csv: no such file; expected timings"),
        (["FILE", "--machine", "h20000"], "unknown machine 'h20000'"),
        (
            ["FILE", "--machine", "epyc-7763", "-o", "x.csv"],
            "x.csv: suffix '.csv', expected one of .json, .html, .md, .toml",
        ),
        (["FILE", "--machine", "epyc-7763", "--constants", "no.toml"], "no.toml: no such file"),
        (["FEW", "--machine", "epyc-7763"], "1 times that can be used, expected at least 8: add rows"),
        (
            ["NEGATIVE", "--machine", "epyc-7763"],
            "no row can be used: line 2: time is -1 us",
        ),
    ],
)
def test_bad_input_is_one_line(arguments, message, timings, command, tmp_path):
    few, negative = tmp_path / "few.csv", tmp_path / "negative.csv"
    few.write_text("kind,shapes,time\nadd,8,1 us\n", encoding="utf-8")
    negative.write_text("kind,shapes,time\nadd,8,-1 us\n", encoding="utf-8")
    files = {"FILE": timings, "FEW": few, "NEGATIVE": negative}
    code, out, err = command("calibrate", *[files.get(each, each) for each in arguments])
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


def test_constants_need_a_machine(refused):
    assert "--constants is of a prediction, and that needs a --machine" in refused(
        "op", "exp", "9", "--constants", "mine.toml"
    )


def test_no_gain_is_said(tmp_path):
    path = tmp_path / "exact.csv"
    rows = [f"exp,{size},fp32,{rooflab.op('exp', size, machine=MACHINE).time_s}" for size in SIZES]
    path.write_text("\n".join(["kind,shapes,dtype,time_s", *rows]) + "\n", encoding="utf-8")
    file = io.StringIO()
    views.show(rooflab.calibrate(path, MACHINE), file)
    assert "No gain on rows not used in fitting" in file.getvalue()
