"""Reports as text, pages, pictures and rows: readable at 80 columns, coverage first, nothing cut silently."""

from __future__ import annotations

import csv
import io

import pytest

import rooflab
from rooflab.errors import FileError
from rooflab.model.roofline.per_operation import bound_on
from rooflab.types.work import Graph, Op, TensorSpec
from rooflab.views.common.labels import inside, overlap
from rooflab.views.common.lines import csv_text
from rooflab.views.report import alike, files, page, roofline, terminal
from rooflab.views.report import tables as tables
from rooflab.work import counting


def transformer(blocks=3, odd=False, machine="h200"):
    """Blocks of a product and a norm each, then a head: made by hand, so that no framework is needed."""
    h, w, out = 512, 2048, 32_000
    specs = [
        TensorSpec((h, w), "bf16", 2.0 * h * w, storage=0),
        TensorSpec((w, w), "bf16", 2.0 * w * w, storage=1, role="parameter", name="w"),
        TensorSpec((h, w), "bf16", 2.0 * h * w, storage=2),
        TensorSpec((w, out), "bf16", 2.0 * w * out, storage=3, role="parameter", name="head"),
        TensorSpec((h, out), "bf16", 2.0 * h * out, storage=4),
    ]
    ops = []
    for i in range(blocks):
        norm = {"function": "rms"}
        ops.append(
            Op(name="aten.rms_norm", kind="norm", inputs=(0,), outputs=(2,), attrs=norm, module=f"blocks.{i}.norm")
        )
        ops.append(
            Op(
                name="aten.mm",
                kind="matmul",
                inputs=(2, 1),
                outputs=(0,),
                attrs={"k": w},
                module=f"blocks.{i}.proj",
            )
        )
        ops.append(Op(name="aten.view", kind="view", inputs=(0,), outputs=(0,), module=f"blocks.{i}"))
    ops.append(Op(name="aten.mm", kind="matmul", inputs=(0, 3), outputs=(4,), attrs={"k": w}, module="head"))
    ops.append(Op(name="aten.copy", kind="copy", inputs=(4,), outputs=(4,), module="head"))
    if odd:
        ops.append(Op(name="my::sampling", inputs=(4,), outputs=(4,), module="head"))
    report = counting.report(Graph(framework="hand", tensors=tuple(specs), ops=tuple(ops)), "small model")
    return report if machine is None else report.on(machine)


def printed(report, width=80, **how):
    from rich.console import Console

    console = Console(width=width, file=io.StringIO(), highlight=False, emoji=False, markup=False)
    for part in terminal.pages(report, width, **how):
        console.print(part)
    return console.file.getvalue()


def test_coverage_is_said_first():
    assert printed(transformer()).splitlines()[1] == "Coverage 100 %: 11 of 11 operations counted."


def test_what_was_not_counted_is_named_before_any_number():
    lines = printed(transformer(odd=True), 120).splitlines()
    assert lines[1].startswith("Coverage 91.7 %: 11 of 12 operations counted, which touch ")
    assert lines[2] == "Not counted, so missing from every total: my::sampling (not in the vocabulary)."
    # A sum with a part missing is a lower bound.
    assert any(line.startswith("  head ") and "> 67.1 GFLOP" in line for line in lines)


def test_where_nothing_was_counted_no_total_is_zero():
    report = counting.report(
        Graph(framework="hand", tensors=(TensorSpec((2,), "fp32", 8.0),), ops=(Op(name="x", inputs=(0,)),)), "odd"
    )
    text = printed(report)
    assert "Coverage 0 %" in text
    assert "unknown: no operation was counted" in text
    assert "0 FLOP" not in text


@pytest.mark.parametrize("group_by", ["module", "kind", "op"])
def test_eighty_columns_are_enough(group_by):
    text = printed(transformer(odd=True), 80, group_by=group_by)
    assert max(map(len, text.splitlines())) <= 80
    # Each table in one part, what binds each line included; what was left out is said.
    assert text.count("─\n") == 2
    assert "compute: bf16 matrix\n" in text
    assert "Wider terminals show " in text


def test_alike_modules_share_a_line_and_the_tree_adds_up():
    table = tables.groups(transformer(), "module")
    assert [row[0] for row in table.rows] == [
        "small model",
        "  blocks",
        "    0–2",
        "      (itself)",
        "      norm",
        "      proj",
        "  head",
    ]
    assert table.rows[2][1] == "9"


def test_different_neighbours_keep_their_lines():
    report = rooflab.op("relu", "8")
    op = report.rows[0].op
    from msgspec.structs import replace

    rows = tuple(replace(report.rows[0], op=replace(op, module=f"a.{i}", count=1 + (i == 1))) for i in range(3))
    names = [row.op.module for row in alike.merge_alike(rows)]
    assert names == ["a.0", "a.1", "a.2"]


def test_equal_operations_share_a_line_and_views_have_none():
    table = tables.operations(transformer())
    assert table.columns == (
        *("operation", "module", "times", "FLOP", "bytes", "FLOP/byte", "ridge"),
        *("time", "of time", "bound"),
    )
    assert [row[:3] for row in table.rows] == [
        ("aten.mm", "head", "1"),
        ("aten.copy", "head", "1"),
        ("aten.mm", "blocks.0–2.proj", "3"),
        ("aten.rms_norm", "blocks.0–2.norm", "3"),
    ]
    assert {row[-1].partition(": ")[0] for row in table.rows} <= {"compute", "memory", "overhead", "balanced"}
    assert "NVIDIA H200 SXM 141GB" in table.note
    views = sum(row.op.kind == "view" for row in transformer().rows)
    assert views > 0
    assert f"{views} view" in table.note
    assert "not listed" in table.note


ORDERS = (
    ("flop", ["aten.mm", "aten.mm", "aten.rms_norm", "aten.copy"]),
    ("order", ["aten.rms_norm", "aten.mm", "aten.mm", "aten.copy"]),
    # A copy has bytes and no FLOP: intensity 0.
    ("intensity", ["aten.mm", "aten.mm", "aten.rms_norm", "aten.copy"]),
)


@pytest.mark.parametrize(("sort", "names"), ORDERS)
def test_lines_are_sorted_as_asked(sort, names):
    assert [row[0] for row in tables.operations(transformer(), sort).rows] == names


def test_groups_may_keep_the_order_of_the_program():
    table = tables.groups(transformer(), "kind", "order")
    assert [row[0] for row in table.rows] == ["norm", "matmul", "view", "copy"]
    assert tables.groups(transformer(), "kind").rows[0][0] == "matmul"


def test_top_says_what_it_leaves_out():
    table = tables.operations(transformer(), top=1)
    assert len(table.rows) == 1
    assert "3 further lines not shown (--top N shows more)." in table.note


def test_why_there_is_no_bound_is_said_once():
    report = rooflab.op("matmul", "64x64", "64x64", dtype="fp8", machine="a100-sxm-80gb")
    (reason,) = tables.reasons(report)
    assert reason.startswith("No bound for 1 of 1 operation: NVIDIA A100 SXM 80GB states no fp8 matrix peak")
    assert "No bound for" in printed(report, 120)


def test_the_conventions_are_printed():
    text = printed(transformer(), 200)
    for convention in transformer().conventions:
        assert convention in text


def test_csv_has_a_line_for_each_operation():
    rows = list(csv.DictReader(io.StringIO(csv_text(files.lines(transformer(odd=True))))))
    assert len(rows) == 12
    product = next(row for row in rows if row["kind"] == "matmul")
    # 2·512·2048·2048
    assert product["flop"] == "4294967296"
    assert (product["bound"], product["binds"]) == ("compute-bound", "bf16 matrix")
    odd = rows[-1]
    assert (odd["name"], odd["flop"], odd["read_bytes"], odd["intensity"]) == ("my::sampling", "", "", "")


@pytest.mark.slow
def test_a_report_is_saved_in_every_format(tmp_path):
    report = transformer()
    paths = [tmp_path / f"report{suffix}" for suffix in (".json", ".csv", ".html", ".svg", ".png", ".pdf")]
    report.save(*map(str, paths))
    starts = (b"{", b"name,", b"<!doctype html>", b"<svg", b"\x89PNG", b"%PDF")
    for path, start in zip(paths, starts, strict=True):
        assert path.read_bytes().startswith(start)


def test_nothing_is_written_where_one_cannot_be(tmp_path):
    with pytest.raises(FileError, match=r"x.docx: suffix '.docx', expected one of .json, .csv, .parquet, .html"):
        transformer().save(str(tmp_path / "a.json"), str(tmp_path / "x.docx"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("machine", ["h200", "epyc-9654", "mi300x", "a100-sxm-80gb", "rtx-4090"])
@pytest.mark.parametrize("size", [(720, 440), (262, 330)])
def test_the_labels_of_the_roofline_are_apart_and_inside(machine, size):
    drawn = roofline.layout(transformer(machine=machine), *size)
    for i, one in enumerate(drawn.placed):
        assert inside(one.box, drawn.plane.frame())
        assert not any(overlap(one.box, other.box) for other in drawn.placed[i + 1 :])
    for mark in drawn.marks:
        x, y = drawn.plane.pixel(mark.x, mark.y)
        assert 0 < x < size[0]
        assert 0 < y < size[1]


def test_a_mark_lies_at_its_predicted_speed_under_the_roofs():
    report = transformer()
    drawn = roofline.layout(report)
    for mark in drawn.marks:
        assert mark.y == pytest.approx(mark.line.flop / mark.line.time_s)


def test_every_mark_lies_on_its_roof_without_predictions():
    drawn = roofline.layout(bound_on(transformer(machine=None), rooflab.machine("h200")))
    bandwidth = drawn.roofs.bandwidth.value
    peaks = dict(drawn.roofs.peaks)
    for mark in drawn.marks:
        if mark.line.row.bound == "memory-bound":
            assert mark.y == pytest.approx(mark.x * bandwidth)
        else:
            assert mark.y == pytest.approx(peaks["bf16 matrix"].value)


@pytest.mark.slow
def test_the_page_says_coverage_first_and_escapes_names():
    html = page.html(transformer(odd=True))
    assert html.index("Coverage 91.7 %") < html.index("Totals")
    assert "my::sampling" in html
    from msgspec.structs import replace

    assert "<script>alert(1)" not in page.html(replace(transformer(), name="<script>alert(1)</script>"))


def test_a_page_without_a_machine_has_its_tables():
    html = page.html(transformer(machine=None))
    assert "By module" in html
    assert 'id="chart-0"' not in html


def test_the_kinds_by_hand_are_listed(capsys):
    kinds = {"matmul": ("a (… × m × k) and b (… × k × n)", {"bias": False}), "relu": ("1 operand", {})}
    terminal.show_kinds(kinds | {"softmax": ("x", {})})
    text = capsys.readouterr().out
    assert "matmul   a (… × m × k) and b (… × k × n)  bias=False" in text
    assert "softmax  x                                –" in text
    assert "Element by element, 1 operand: relu" in text


def test_show_prints_to_the_terminal(capsys):
    transformer().show()
    assert "small model" in capsys.readouterr().out


def test_what_is_bound_by_instructions_says_what_that_means():
    from msgspec.structs import replace

    wide = rooflab.op("softmax", (4096, 4096), machine="a100-sxm-80gb", advice=False)
    if wide.binds != "instructions":
        wide = replace(wide, prediction=replace(wide.prediction, binds="instructions"))
    text = " ".join(value for _, value in tables.facts(wide))
    assert "Instructions: issuing them (addresses, conversions, exponentials beside the FLOP)" in text
    plain = rooflab.op("relu", (4096, 4096), machine="a100-sxm-80gb", advice=False)
    assert "Instructions:" not in " ".join(value for _, value in tables.facts(plain))
