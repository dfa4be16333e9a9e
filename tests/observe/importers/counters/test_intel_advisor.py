"""Intel Advisor's reports: samples and inputs are built from the documented schema, not written by the tool.

The layout of the CSV (a mark of the separator, a banner in a quoted cell of two lines) and of the page (JSON with
logarithms in a script) is that of files of Advisor 2023.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

import rooflab
from rooflab.errors import FileError
from rooflab.observe.importers import load

SAMPLES = Path(__file__).parents[3] / "samples" / "profiles"
SURVEY, PAGE = SAMPLES / "intel_advisor" / "survey.csv", SAMPLES / "intel_advisor" / "roofline.html"


def saved(folder, text, name="file"):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_loops_of_a_survey():
    """12.8 GFLOP in 2.15 s elapsed, 4.3 s of two threads; bytes of L1 both ways, those beneath simulated."""
    found = load(SURVEY)
    multiply, scale, find = found.rows
    assert multiply.name == "[loop in multiply at product.cpp:32]"
    assert multiply.time_s == 2.15
    assert [(one.engine, one.dtype, one.count) for one in multiply.flop] == [
        ("scalar", "fp32", pytest.approx(12.8e9))
    ]
    first = multiply.at("L1")
    assert (first.read_bytes, first.write_bytes, first.basis) == (51.2e9, 25.6e9, "counted")
    assert (multiply.at("DRAM").nbytes, multiply.at("DRAM").basis) == (1.28e9, "simulated")
    assert multiply.metrics["self flop/s"] == pytest.approx(5.954e9)
    # The body of a vectorised loop is in the loop's own numbers; of a loop without numbers it stands for it.
    assert scale.total_flop == 2e9
    assert scale.flop[0].dtype == "fp64"  # "Float64; UInt64"
    assert (find.name, find.total_flop) == ("[loop in find at product.cpp:70]", pytest.approx(0.2e9))
    assert any("parts of a loop" in note for note in found.notes)
    assert any("2 functions and loops" in note for note in found.notes)


@pytest.mark.parametrize(("separator", "comma"), [("\t", False), (";", True)])
def test_other_separators_and_decimal_commas(tmp_path, separator, comma):
    lines = [
        ["ID", "Function Call Sites and Loops", "Self Time", "Self GFLOP", "Self Memory GB", "Type"],
        ["1", "[loop in f at a.c:1]", "2.500s", "12.25", "49.0", "Vectorized (Body)"],
    ]
    text = "\n".join(separator.join(line) for line in lines)
    found = load(saved(tmp_path, text.replace("2.500s", "2,500s").replace("12.25", "12,25") if comma else text))
    (row,) = found.rows
    assert (row.time_s, row.total_flop) == (2.5, 12.25e9)
    assert any("CPU time" in note for note in found.notes)  # Self Time, not elapsed


def test_a_survey_without_counts_says_how_to_collect_them(tmp_path):
    path = saved(tmp_path, 'ID,Function Call Sites and Loops,Self Time,Type\n1,[loop in f],"2.1s",Scalar\n')
    with pytest.raises(FileError) as caught:
        load(path)
    assert str(caught.value).startswith(f"{path}: none of the 1 loops")
    assert "--collect=roofline" in str(caught.value)


def test_points_of_a_page_by_level():
    """8 GFLOPS for 0.25 s are 2 GFLOP; at 0.125 FLOP/byte 16 GB of L1, at 0.5 FLOP/byte 4 GB of DRAM."""
    found = load(PAGE)
    scale, dot = found.rows
    assert scale.total_flop == pytest.approx(2e9, rel=1e-5)
    assert {one.level: one.nbytes for one in scale.traffic} == {
        "L1": pytest.approx(16e9, rel=1e-5),
        "L2": pytest.approx(16e9, rel=1e-5),
        "L3": pytest.approx(8e9, rel=1e-5),
        "DRAM": pytest.approx(4e9, rel=1e-5),
    }
    assert (dot.time_s, dot.total_flop) == (0.5, pytest.approx(1e9, rel=1e-5))
    assert found.dropped == ()  # main only calls: it has no place


def test_roofs_of_a_page_are_the_machine():
    """Roofs of one thread are a core's, those of four the machine's, 3.5 times as high."""
    machine = load(PAGE).machine
    assert machine is not None
    assert machine.name == "11th Gen Intel(R) Core(TM) i5-1135G7"
    assert machine.level("DRAM").rate("any", scope="core").value == pytest.approx(25e9, rel=1e-5)
    assert machine.level("DRAM").rate("any").value == pytest.approx(87.5e9, rel=1e-5)
    assert machine.peak("fp64").value == pytest.approx(262.5e9, rel=1e-5)
    assert machine.peak("fp32", scope="core").what == "fma"
    profile = rooflab.load(PAGE)
    assert profile.machine is not None
    assert profile.machine.name == machine.name


def page(**data):
    script = json.dumps({"rooflineData": data})
    return f"<html><title>Intel Advisor</title>roofline<script>f({script})</script></html>"


def test_points_without_a_place_are_dropped_and_others_kept(tmp_path):
    loops = [
        {"name": "a", "x": -1.0, "y": 1.0, "selfTime": 2.0},
        {"name": "b", "x": -1.0, "y": 400.0, "selfTime": 2.0},
        {"name": "c", "x": "nowhere", "y": 1.0, "selfTime": 2.0},
        {"name": "d", "x": -1.0, "y": 1.0, "selfTime": 0},
        "no loop at all",
    ]
    found = load(saved(tmp_path, page(loops=loops)))
    (row,) = found.rows
    assert (row.name, row.total_flop) == ("a", pytest.approx(20e9))
    assert [one.count for one in found.dropped] == [3]
    assert found.machine is None


def test_two_loops_of_one_name_and_time_stay_two(tmp_path):
    loop = {"name": "a", "x": -1.0, "y": 1.0, "selfTime": 2.0}
    assert len(load(saved(tmp_path, page(loops=[loop, loop]))).rows) == 2


def test_integer_operations_are_no_flop(tmp_path):
    found = load(
        saved(tmp_path, page(measureY="GINTOPS", loops=[{"name": "a", "x": -1.0, "y": 1.0, "selfTime": 2.0}]))
    )
    (row,) = found.rows
    assert row.flop is None
    assert row.at("L1").nbytes == pytest.approx(10e9 / 0.1 * 2)
    assert any("no FLOP" in note for note in found.notes)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("<html>roofline of Intel Advisor</html>", "no roofline data"),
        (page(loops=[])[:-30], "are broken"),
        (page(loops=[]), "no point and no roof"),
        ('<html>intel advisor roofline {"rooflineData": ' + "[" * 100_000, "are broken"),
        ('<html>intel advisor roofline {"rooflineData": [1]}', "are no object"),
    ],
)
def test_a_page_that_is_none_says_so(tmp_path, text, said):
    path = saved(tmp_path, text)
    with pytest.raises(FileError) as caught:
        load(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert said in str(caught.value)


def test_a_page_is_no_place_for_code(tmp_path):
    """What follows the object is never read, and names are text."""
    loops = [{"name": "<script>alert(1)</script>", "x": -1.0, "y": 1.0, "selfTime": 2.0, "path": "/etc/passwd"}]
    (row,) = load(saved(tmp_path, page(loops=loops))).rows
    assert row.name == "<script>alert(1)</script>"
    assert math.isfinite(row.total_flop)
