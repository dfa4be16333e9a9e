"""A time of the user's own beside the prediction: its share of each roof, in terminal, page and file."""

from __future__ import annotations

import pytest

import rooflab
from rooflab.model.roofline.timed import attained

TEN_MILLION = (10_000_000, 10_000_000)


@pytest.fixture(scope="module")
def add():
    return rooflab.op("add", *TEN_MILLION, machine="m1-pro", time="660us")


def test_shares_are_those_by_hand(add):
    memory, arithmetic = attained(add)
    # 120 MB / 660 µs = 181.8 GB/s of 204.8; 10 MFLOP / 660 µs = 15.15 GFLOP/s of 5.3 TFLOP/s
    assert (memory.roof, arithmetic.roof) == ("DRAM", "fp32 vector")
    assert memory.value == pytest.approx(120e6 / 660e-6)
    assert memory.share == pytest.approx(0.8878, abs=1e-4)
    assert arithmetic.share == pytest.approx(0.002859, abs=1e-6)


def test_a_time_above_a_roof_is_doubted():
    from rooflab.views.report.own_times import facts as measured

    # 120 MB in 260 µs is 462 GB/s: 225 % of 204.8
    lines = [value for _, value in measured(rooflab.op("add", *TEN_MILLION, machine="m1-pro", time=260e-6))]
    assert "outside its bar" in lines[0]
    assert "below its floor" in lines[0]
    # The floor of 120 MB at 204.8 GB/s is 586 µs: 586 / 260 = 2.25
    assert lines[3] == "225 % of the speed at its floor, 586 µs"
    assert "225 % of DRAM's 205 GB/s; above a roof" in lines[1]
    assert "above" not in lines[2]


def test_it_is_saved_shown_on_the_page_and_gone_elsewhere(add):
    from rooflab.views.report import html

    again = rooflab.Report.from_dict(add.to_dict())
    assert again.measured_s == 660e-6
    assert "88.8 % of DRAM" in html(again).replace("\N{NO-BREAK SPACE}", " ")
    assert again.on("h200-sxm").measured_s is None  # another machine has not been timed


@pytest.mark.parametrize("seconds", [0.0, -1e-3, float("nan"), float("inf"), True, "0 us", "-3 ms"])
def test_a_time_that_is_none_is_refused(seconds):
    with pytest.raises(rooflab.RooflabError, match="expected a time above zero"):
        rooflab.op("add", *TEN_MILLION, machine="m1-pro", time=seconds)
    with pytest.raises(rooflab.RooflabError, match="expected the machine that it was measured on"):
        rooflab.op("add", *TEN_MILLION, time=1e-3)


@pytest.mark.parametrize(
    "more",
    [
        (),
        ("--machine", "m1-pro,h200-sxm"),
        ("--machine", "m1-pro", "--what-if", "bandwidth=2x"),
    ],
)
def test_the_command_wants_one_machine(command, more):
    code, out, err = command("op", "add", "1000000", "1000000", "--time", "58us", *more)
    assert (code, out) == (2, "")
    assert "one --machine" in err
    assert err.count("\n") == 1


def test_the_command_says_the_shares(command):
    code, out, err = command("op", "add", "10000000", "10000000", "--machine", "m1-pro", "--time", "660us")
    assert (code, err) == (0, "")
    assert "182 GB/s, 88.8 % of DRAM's 205 GB/s" in out
    assert "15.2 GFLOP/s, 0.286 % of fp32 vector's 5.30 TFLOP/s" in out


def test_a_time_without_a_unit_asks_for_one(command):
    code, out, err = command("op", "add", "1000", "1000", "--machine", "m1-pro", "--time", "660")
    assert (code, out) == (2, "")
    assert (
        err == "rooflab: --time: '660' has no unit, expected a time above zero with its unit, such as '660 us'\n"
    )


def test_what_would_explain_it_is_said_everywhere(command, tmp_path):
    # 2 × 4096³ FLOP at 66.9 TFLOP/s of fp32 vector units: 2.05 ms and more
    page, text, table = tmp_path / "a.html", tmp_path / "a.md", tmp_path / "a.csv"
    shapes = ("4096x4096", "4096x4096", "--dtype", "bf16", "--machine", "h200-sxm", "--time", "2.7ms")
    files = [part for path in (page, text, table) for part in ("-o", str(path))]
    code, out, _ = command("op", "matmul", *shapes, *files)
    assert code == 0
    assert "it would be explained if it ran in fp32" in " ".join(out.split())
    assert "What would explain 2.70 ms" in page.read_text(encoding="utf-8")
    assert "it would be explained" not in text.read_text(encoding="utf-8")
    assert "| fp32 instead of bf16 | it ran in fp32: " in text.read_text(encoding="utf-8")
    assert "0.0027" in table.read_text(encoding="utf-8").splitlines()[1].split(",")


def test_a_graph_takes_no_time(command):
    code, _, err = command("analyze", "x.py:f", "--graph", "--machine", "m1-pro", "--time", "1ms")
    assert code == 2
    assert "leave out --time" in err


@pytest.mark.slow
@pytest.mark.parametrize("width", [1440, 390])
def test_the_page_has_the_measured_column_and_fits(browser, tmp_path, width):
    path = tmp_path / "own.html"
    rooflab.op("matmul", "4096x4096", "4096x4096", dtype="bf16", machine="h200-sxm", time="2.7 ms").save(path)
    page = browser.new_page(viewport={"width": width, "height": 900})
    errors = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(path.as_uri())
    assert "measured" in page.inner_text("#operations-table thead")
    assert "2.70 ms" in page.inner_text("#operations-table tbody")
    assert "Measured 2.70 ms: 14.7 × the prediction, outside its bar, slower" in page.inner_text("body")
    page.click("#operations-table tbody button")
    assert "2.70 ms: 15 × the prediction" in page.inner_text("#selected-facts")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert errors == []
    page.close()


def test_the_picture_has_a_cross_where_it_was_measured():
    from rooflab.views.report.roofline import roofline

    # 2 × 4096³ FLOP in 2.7 ms: 50.9 TFLOP/s
    timed = rooflab.op("matmul", "4096x4096", "4096x4096", dtype="bf16", machine="h200-sxm", time="2.7 ms")
    chart = roofline(timed).to_dict()
    rows = [row for row in _values(chart) if "measured" in row]
    assert {round(row["y"]) for row in rows} == {round(2 * 4096**3 / 2.7e-3)}
    assert "crosses: measured" in str(chart["title"])
    plain = roofline(timed.on("h200-sxm")).to_dict()
    assert "crosses" not in str(plain["title"])
    assert not [row for row in _values(plain) if "measured" in row]


def _values(part):
    """The rows of every layer of a chart."""
    found = part.get("data", {}).get("values", [])
    return [*found, *(row for each in part.get("layer", ()) for row in _values(each))]


def test_a_time_that_nothing_explains_says_so_everywhere():
    from rooflab.views.report import html
    from rooflab.views.report.files import markdown

    # The floor of 2 × 4096³ FLOP is 138.9 µs: 54 µs are 38.9 % of it, too long for a launch, too short for fp8.
    timed = rooflab.op("matmul", "4096x4096", "4096x4096", dtype="bf16", machine="h200-sxm", time="54 us")
    assert timed.own_times[0].explained_by == ()
    for text in (html(timed), markdown(timed)):
        assert "In that time no run does more than 38.9 % of this work" in text
