"""A comparison in the terminal, on a page, as Markdown, CSV, JSON and pictures; names that hold markup."""

from __future__ import annotations

import csv
import io
import itertools
import json
import re

import msgspec
import pytest

import rooflab
from rooflab import views
from rooflab.comparing import conditions
from rooflab.types.comparison import Amount
from rooflab.views.common.console import fold
from rooflab.views.common.lines import csv_text
from rooflab.views.comparison import chart, sheet
from rooflab.views.comparison.markdown import escaped, markdown

EVIL = "</script><img src=x onerror=alert(1)>|`*"


@pytest.fixture(scope="module")
def compared():
    reports = [rooflab.op("matmul", f"1024x{n}", f"{n}x1024", machine="h200-sxm") for n in (1024, 2048)]
    return rooflab.compare(*reports, names=["before", "after"], fail_if=["time>+5%", "memory>1TB"])


@pytest.fixture(scope="module")
def evil():
    report = rooflab.op("matmul", "1024x1024", "1024x1024", machine="h200-sxm")
    (row,) = report.rows
    bad = msgspec.structs.replace(row, op=msgspec.structs.replace(row.op, name=EVIL, module=EVIL))
    slower = msgspec.structs.replace(
        bad, prediction=msgspec.structs.replace(row.prediction, time_s=1.0, high_s=2.0)
    )
    whole = msgspec.structs.replace(report.prediction, time_s=1.0, high_s=2.0)
    base = msgspec.structs.replace(report, rows=(bad,))
    return rooflab.compare(
        base, msgspec.structs.replace(report, rows=(slower,), prediction=whole), names=[EVIL, "after"]
    )


def shown(result) -> str:
    file = io.StringIO()
    views.show(result, file)
    return file.getvalue()


def test_the_terminal_says_the_answer_first(compared):
    text = shown(compared)
    lines = text.splitlines()
    assert lines[0] == "before against after"
    assert lines[1] == "Failed: time>+5%: failed"
    time = compared.differences[0].amount("time")
    assert f"{time.relative * 100:.3g} % more time" in text.replace("\n", " ")
    assert re.search(r"memory>1TB +passed", text)
    assert re.search(r"FLOP +\+100 % +more +2\.15 GFLOP +4\.29 GFLOP +\+2\.15 GFLOP", text)
    assert re.search(r"together +\+[\d.]+ (ns|µs) +100 %", text)


def test_operations_fit_a_narrow_terminal(compared):
    (difference,) = compared.differences
    assert len(fold(sheet.operations(difference, cut=16), 80)) == 1


def test_markdown_is_for_a_pull_request(compared):
    text = markdown(compared)
    assert text.startswith("### ❌ before against after\n")
    assert "| time\\>+5% | failed |" in text
    tables = [line for line in text.splitlines() if line.startswith("|")]
    for above, line in itertools.pairwise(tables):
        if set(line) <= set("|-: "):
            assert line.count("|") == above.count("|")
    assert "<details><summary>Operations</summary>" in text
    passed = msgspec.structs.replace(compared, gates=compared.gates[1:])
    assert markdown(passed).startswith("### ✅ ")


def test_markup_in_names_is_escaped(evil):
    for text in (views.room("Comparison").html(evil), markdown(evil)):
        assert "<img src=x" not in text
    assert "\\|" in escaped("a|b")
    assert "\\`" in escaped("`")
    assert "\n" not in escaped("a\nb")
    assert EVIL in shown(evil).replace("\n", "") or "<img" in shown(evil)  # a terminal takes it as letters


def test_csv_has_every_number_and_operation(compared):
    lines = list(csv.DictReader(io.StringIO(csv_text(sheet.lines(compared)))))
    (difference,) = compared.differences
    assert len(lines) == len(difference.amounts) + len(difference.terms) + len(difference.rows)
    flop = next(line for line in lines if line["name"] == "flop")
    assert (flop["base"], flop["other"], flop["unit"]) == (str(2 * 1024**3), str(4 * 1024**3), "FLOP")
    causes = sum(float(line["change"]) for line in lines if line["what"] == "cause")
    assert causes == pytest.approx(difference.rows[0].change_s)


def test_it_is_read_back_and_drawn_again(compared, tmp_path):
    path = tmp_path / "compared.json"
    compared.save(path, tmp_path / "c.svg", tmp_path / "c.md", tmp_path / "c.html", tmp_path / "c.csv")
    again = rooflab.load(path)
    assert again == compared
    assert markdown(again) == (tmp_path / "c.md").read_text(encoding="utf-8")
    raw = json.loads(path.read_text(encoding="utf-8"))
    assert (raw["type"], raw["schema"]) == ("Comparison", 1)


def test_arrows_go_from_the_base_to_the_other_side(compared):
    spec = chart.arrows(compared).to_dict()
    (row,) = compared.differences[0].rows
    values = [value for data in spec["datasets"].values() for value in data] if "datasets" in spec else []
    values += [one for layer in spec["layer"] for one in layer.get("data", {}).get("values", [])]
    heads = [value for value in values if "angle" in value]
    assert [(one["x"], one["y"]) for one in heads] == [(row.other.intensity, row.other.flop_per_s)]
    assert 0 < heads[0]["angle"] < 90  # twice the depth: more FLOP per byte and more FLOP/s, up and right
    assert row.other.intensity > row.base.intensity
    assert any("fp32 vector 66.9" in str(value.get("text", "")) for value in values)


def test_without_operations_there_is_no_picture(tmp_path):
    # Only moves bytes: no place under a roof of FLOP/s.
    copies = [rooflab.op("copy", n, machine="h200-sxm") for n in (4096, 8192)]
    with pytest.raises(rooflab.RooflabError, match="no picture"):
        rooflab.compare(*copies).save(tmp_path / "copies.svg")


def test_machines_are_drawn_by_their_roofs(tmp_path):
    found = rooflab.compare("h200-sxm", "a100-sxm-80gb")
    text = str(chart.arrows(found).to_dict())
    for roof in ("HBM 4.80 TB/s", "HBM 2.04 TB/s", "bf16 matrix 989 TFLOP/s", "bf16 matrix 312 TFLOP/s"):
        assert roof in text
    found.save(tmp_path / "machines.html")
    assert "HBM bandwidth, theoretical" in (tmp_path / "machines.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def written(compared, evil, tmp_path_factory):
    """Two pages, written once for all widths and schemes."""
    folder = tmp_path_factory.mktemp("compared")
    paths = [folder / "compared.html", folder / "evil.html"]
    for path, result in zip(paths, (compared, evil), strict=True):
        result.save(path)
    return paths


@pytest.mark.slow
@pytest.mark.parametrize("width", [390, 768, 1440])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_in_a_browser(written, opened, width, scheme):
    for path in written:
        seen = opened(path, scheme, width, 1)
        assert seen.said == []
        assert [url for url in seen.asked if not url.startswith("file:")] == []
        assert seen.sideways <= 0


def test_a_narrow_terminal_says_what_it_leaves_out(compared, monkeypatch):
    """60 columns: names get all that the numbers leave, 12 letters here, and what was cut is said."""

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setenv("COLUMNS", "60")
    row = compared.differences[0].rows[0]
    longer = msgspec.structs.replace(row, name="a_name_of_an_operation_that_is_long")
    one = msgspec.structs.replace(compared.differences[0], rows=(longer,))
    out = Terminal()
    views.show(msgspec.structs.replace(compared, differences=(one,)), out)
    text = re.sub("\x1b\\[[0-9;]*m", "", out.getvalue())
    assert max(map(len, text.splitlines())) <= 60
    assert "are whole in CSV and JSON" in " ".join(text.split())


@pytest.mark.parametrize(
    ("value", "unit", "said"),
    [
        (12_345.5, "", "12,346"),  # not 1.235e+04
        (1.5, "", "1.5"),
        (3.0, "", "3"),
        (0.125, "share", "12.5 %"),
        (0.002, "s", "2.00 ms"),
    ],
)
def test_a_number_of_a_comparison_reads_alike_in_tables_and_in_conditions(value, unit, said):
    assert sheet._text(Amount(metric="one", unit=unit, base=None, other=None, verdict="unknown"), value) == said
    assert conditions.amount_text(value, unit) == said
