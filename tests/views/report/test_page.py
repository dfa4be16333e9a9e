"""The page of a report in a real browser: every control used, its values held against the report."""

from __future__ import annotations

import html
import json
import math
import re
from itertools import pairwise

import msgspec
import numpy as np
import pytest

import rooflab
from rooflab.types.advice import Advice, Advices
from rooflab.types.work import Graph, Op, TensorSpec
from rooflab.units import duration, si
from rooflab.views.common import advice
from rooflab.views.common.console import unbroken
from rooflab.views.report import page, tables, verdict
from rooflab.views.report.embed import embedded
from rooflab.work import counting

# Labels that are written straight, where they are on the screen.
BOXES = """() => [...document.querySelectorAll("#roofline .label")]
  .filter((text) => !text.getAttribute("transform"))
  .map((text) => text.getBoundingClientRect().toJSON())"""
EVIL = "</script><img src=x onerror=alert(1)>"


def program(count=40, odd=False):
    """Products, norms and copies of many sizes in a tree of modules; with `odd`, one that is not counted."""
    specs: list[TensorSpec] = []
    ops: list[Op] = []

    def tensor(*shape):
        elements = 1
        for size in shape:
            elements *= size
        specs.append(TensorSpec(shape, "bf16", 2.0 * elements, storage=len(specs)))
        return len(specs) - 1

    for i in range(count):
        m, k, n = 256 * (1 + i % 37), 64 * (1 + i % 11), 64 + 64 * i
        module, where = f"part{i % 5}.layer{i // 5}.{'x' * (i % 3)}y", f"model.py:{i}"
        a, w, c = tensor(m, k), tensor(k, n), tensor(m, n)
        ops.append(
            Op(
                name="aten.mm",
                kind="matmul",
                inputs=(a, w),
                outputs=(c,),
                attrs={"k": k},
                module=module,
                where=where,
            )
        )
        norm = {"function": "rms"}
        ops.append(
            Op(name=f"norm{i % 7}", kind="norm", inputs=(c,), outputs=(tensor(m, n),), attrs=norm, module=module)
        )
        ops.append(Op(name="aten.copy", kind="copy", inputs=(c,), outputs=(tensor(m, n),), module=module))
    ops.append(
        Op(name=EVIL, kind="copy", inputs=(0,), outputs=(tensor(64, 64),), module=f"<b>{EVIL}", where="'\"><i>")
    )
    if odd:
        ops.append(Op(name="my::sampling", inputs=(0,), outputs=(0,), module="L" * 5000))
        nothing = {"function": "empty"}
        ops.append(Op(name="aten.empty", kind="create", inputs=(), outputs=(tensor(4),), attrs=nothing))
    return counting.report(Graph(framework="hand", tensors=tuple(specs), ops=tuple(ops)), f"mixed & {EVIL}")


def softmax(a):
    e = np.exp(a - a.max())
    return e / e.sum()


def queued():
    """Equal products of a moment each, one after the other, called from a host."""
    shape, elements = (1024, 1024), 1024.0 * 1024
    specs = tuple(TensorSpec(shape, "bf16", 2 * elements, storage=number) for number in range(26))
    ops = tuple(
        Op(name="aten.mm", kind="matmul", inputs=(number, 25), outputs=(number + 1,), attrs={"k": 1024})
        for number in range(24)
    )
    return counting.report(Graph(framework="torch", tensors=specs, ops=ops), "queue").on("h200-sxm", mode="eager")


@pytest.fixture(scope="module")
def mixed():
    return program().on("h200-sxm", mode="graph")


@pytest.fixture(scope="module")
def advised(mixed):
    one = Advice(
        rule="fuse",
        change=f"Fuse {EVIL}",
        evidence=("3 of 40 norms read again what was just written.",),
        rows=(1, 4),
        before_s=mixed.time_s,
        after_s=mixed.time_s * 0.75,
        gain_low_s=-1e-6,
        gain_high_s=mixed.time_s * 0.3,
        effort="line",
        code="model = torch.compile(model)",
        page="remedies.html#fuse",
    )
    others = [msgspec.structs.replace(one, change=f"Other {number}") for number in range(4)]
    half = mixed.time_s / 2
    advices = Advices(each=(one, *others), together=("fuse", "batch"), together_s=half, unasked=("tile: no loop",))
    return msgspec.structs.replace(mixed, advice=advices)


class Opened:
    """A page in the browser, with all that it said and asked for."""

    def __init__(self, browser, path, width=1440, scheme="light"):
        self.page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        self.said, self.asked = [], []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("dialog", lambda dialog: self.said.append(dialog.message) or dialog.dismiss())
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(path.as_uri())
        self.page.wait_for_selector("#operations-table tbody tr")

    def texts(self, selector):
        return self.page.locator(selector).all_text_contents()

    def column(self, name):
        """The cells of that column of the table of operations, top to bottom."""
        keys = self.page.eval_on_selector_all("#operations-table thead th", "all => all.map(th => th.dataset.key)")
        return self.texts(f"#operations-table tbody tr > :nth-child({keys.index(name) + 1})")


@pytest.fixture(scope="module")
def files(mixed, advised, tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    fp8 = rooflab.op("matmul", "64x64", "64x64", dtype="fp8")
    written = {
        "mixed": mixed,
        "advised": advised,
        "odd": program(odd=True).on("h200-sxm"),
        "bare": program(),
        "variants": rooflab.variants(program(), ["h200-sxm", "a100-sxm-80gb"], ["bandwidth=2x"], mode="graph"),
        "one": rooflab.op("matmul", "512x512", "512x512", machine="h200-sxm"),
        "fp8": rooflab.variants(fp8, ["h100-sxm", "a100-sxm-80gb"], mode="eager"),
        "copies": rooflab.op("copy", "512x512", machine="h200-sxm"),
        "queued": queued(),
        "cpu": rooflab.analyze(softmax, np.ones(1_000_000), machine="xeon-8480plus"),
        "host": rooflab.op("add", "512x512", "512x512", machine="h200-sxm", mode="eager"),
    }
    for name, result in written.items():
        result.save(folder / f"{name}.html")
    return folder


@pytest.fixture
def look(browser, files):
    """A function (name, width, scheme) that opens a page; nothing may be said or asked for meanwhile."""
    seen = []

    def open_it(name, width=1440, scheme="light"):
        seen.append((Opened(browser, files / f"{name}.html", width, scheme), (files / f"{name}.html").as_uri()))
        return seen[-1][0]

    yield open_it
    for opened, address in seen:
        assert opened.said == []
        assert opened.asked == [address]
        opened.page.close()


def close(found, wanted):
    """Whether two columns agree to a millionth, and in what is unknown."""
    if [each is None for each in found] != [each is None for each in wanted]:
        return False
    known = [each for each in wanted if each is not None]
    return [each for each in found if each is not None] == pytest.approx(known, rel=1e-6)


# What stands in the file


def test_names_are_escaped_and_data_cannot_end_the_script(advised):
    text = page.html(advised)
    assert EVIL not in text
    assert "<img src=x" not in text
    assert "<b>" not in text.partition("</style>")[2]
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    held = json.loads(found[1])
    assert EVIL in held["programs"][0]["lines"]["name"]


def test_the_numbers_on_the_page_are_those_of_the_report(mixed):
    held = embedded([("here", mixed)])
    lines, columns = held["programs"][0]["lines"], held["predictions"][0]["columns"]
    # Each row once: sums over the lines are sums over the rows.
    assert sorted(number for rows in lines["rows"] for number in rows) == list(range(len(mixed.rows)))
    assert sum(columns["time_s"]) == pytest.approx(sum(row.prediction.time_s for row in mixed.rows), rel=1e-8)
    assert sum(lines["flop"]) == pytest.approx(mixed.flop, rel=1e-8)
    assert sum(lines["bytes"]) == pytest.approx(mixed.nbytes, rel=1e-8)
    hbm = sum(row.prediction.memory_s["HBM"] for row in mixed.rows)
    assert sum(columns["memory_s"]["HBM"]) == pytest.approx(hbm, rel=1e-8)


def test_a_total_of_what_could_be_followed_is_not_shown_as_whole():
    followed = program().on("h200-sxm")
    coverage = msgspec.structs.replace(followed.coverage, unknown=("the values of ids decide what runs",))
    partial = msgspec.structs.replace(
        followed, coverage=coverage, prediction=None, predicted_part=followed.prediction
    )
    (held,) = embedded([("here", partial)])["predictions"]
    assert held["missing"] == "1 part of it not followed"
    assert verdict.headline(partial) == "What limits it is not known: 1 part of it not followed"
    (time, bound, floor) = tables.times(partial)
    assert time[1].startswith("> ")
    assert bound[1].endswith("(1 part of it not followed)")
    assert floor[1].startswith("> ")


def test_unknown_is_null_and_never_nought():
    held = embedded([("here", program(odd=True).on("h200-sxm"))])
    at = held["programs"][0]["lines"]["name"].index("my::sampling")
    columns = held["predictions"][0]["columns"]
    assert columns["time_s"][at] is None
    assert held["programs"][0]["lines"]["flop"][at] is None
    assert held["predictions"][0]["missing"] == "1 operation without a prediction"


def test_equal_programs_are_stored_once():
    both = rooflab.variants(program(), ["h200-sxm", "a100-sxm-80gb"])
    held = embedded(list(zip(both.names, both.reports, strict=True)))
    assert [len(held["programs"]), len(held["predictions"])] == [1, 2]
    assert [each["program"] for each in held["predictions"]] == [0, 0]


def test_the_verdict_is_of_what_is_known(mixed):
    assert verdict.headline(program()).endswith("what limits it depends on the machine, and none is given")
    odd = program(odd=True).on("h200-sxm")
    assert verdict.headline(odd) == "What limits it is not known: 1 operation without a prediction"
    assert verdict.distance(odd).startswith("More than ")
    assert f"{mixed.time_s / mixed.prediction.floor_s:.2f} × its floor" in verdict.distance(mixed)


def test_the_verdict_of_nothing_is_that_nothing_limits_it():
    nothing = counting.report(Graph(framework="hand", tensors=(), ops=()), "empty").on("h200-sxm")
    assert verdict.headline(nothing) == "Nothing limits it: no operation of it computes or moves anything"


def test_a_thousand_rows_take_less_than_three_megabytes():
    text = page.html(program(334).on("h200-sxm", mode="graph"))
    assert len(text.encode()) < 3e6


# What a browser shows


pytest_slow = pytest.mark.slow  # a browser is opened


@pytest_slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1440, 768, 390])
@pytest.mark.parametrize("name", ["advised", "odd", "bare", "variants", "one", "copies"])
def test_no_page_scrolls_sideways_or_cuts_what_decides(look, name, width, scheme):
    opened = look(name, width, scheme)
    assert opened.page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    deciding = ["operation"] if name == "bare" else ["operation", "time", "share", "bound"]
    for key in deciding:
        box = opened.page.locator(f"#operations-table th[data-key={key}]").bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width
    background = opened.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert background == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(20, 24, 28)")


@pytest_slow
@pytest.mark.parametrize("name", ["mixed", "odd", "host", "copies"])
def test_scripts_say_what_python_says(look, files, name):
    """The headline and the distance are written twice: for a reader without scripts, and anew by each choice."""
    written = (files / f"{name}.html").read_text("utf-8")
    opened = look(name)
    for part in ("headline", "distance", "how"):
        ours = html.unescape(re.search(rf'id="{part}">(.*?)</p>', written)[1])
        assert opened.page.text_content(f"#{part}") == ours
        assert len(ours) > 20


@pytest_slow
def test_numbers_are_written_as_python_writes_them(look):
    opened = look("one")
    values = [0, 1, 9.995, 9.994, 999.4, 999.6, 1e3, 123456, 9.9996e11, 1.5e20, 3e-7, 0.5]
    wanted = [si(value, "B/s") for value in values]
    assert opened.page.evaluate("all => all.map(v => si(v, 'B/s'))", values) == wanted
    seconds = [1e-12, 5e-10, 9.2e-8, 9.996e-7, 1e-3, 0.9996, 59, 119, 120, 7200, 1e6, 4e7, 1e9]
    assert opened.page.evaluate("all => all.map(duration)", seconds) == [duration(each) for each in seconds]
    assert opened.page.evaluate("[si(null, 'B'), duration(null), percent(null), ratio(Infinity)]") == ["–"] * 4


@pytest_slow
def test_the_table_sorts_by_every_column_and_says_so(look, mixed):
    opened = look("mixed")
    times = [line.time_s for line in tables.lines_of(mixed)]
    assert opened.column("time")[:3] == [duration(each) for each in sorted(times, reverse=True)[:3]]
    head = opened.page.locator("#operations-table th[data-key=time]")
    assert head.get_attribute("aria-sort") == "descending"
    head.get_by_role("button").click()
    assert head.get_attribute("aria-sort") == "ascending"
    assert opened.column("time")[0] == duration(min(times))
    for key in ("operation", "share", "bound", "floor", "flop", "bytes", "intensity", "ridge", "times"):
        other = opened.page.locator(f"#operations-table th[data-key={key}]")
        other.get_by_role("button").click()
        assert other.get_attribute("aria-sort") == ("ascending" if key in ("operation", "bound") else "descending")
        assert head.get_attribute("aria-sort") == "none"
    opened.page.locator("#operations-table th[data-key=bytes] button").click()
    most = max(line.nbytes for line in tables.lines_of(mixed))
    assert opened.column("bytes")[0] == si(most, "B")


@pytest_slow
def test_filters_leave_what_was_asked_for(look, mixed):
    opened = look("mixed")
    lines = tables.lines_of(mixed)
    opened.page.fill("#filter", "norm3 part3")
    wanted = [line for line in lines if line.name == "norm3" and "part3" in line.module]
    assert opened.page.locator("#operations-table tbody tr").count() == len(wanted) > 0
    assert opened.page.inner_text("#filter-count").startswith(f"{len(wanted)} of {len(lines)} lines, ")
    opened.page.click("#filter-clear")
    assert opened.page.input_value("#filter") == ""
    assert opened.page.inner_text("#filter-count") == f"{len(lines)} lines"
    bounds = [line.row.bound for line in lines]
    rarest = min(bounds, key=bounds.count)
    opened.page.select_option("#filter-bound", rarest)
    bound = bounds.count(rarest)
    assert 0 < bound < len(lines)
    assert opened.page.inner_text("#filter-count").startswith(f"{bound} of {len(lines)} lines")
    opened.page.click("#filter-clear")
    opened.page.fill("#filter", EVIL)
    assert opened.page.locator("#operations-table tbody tr").count() == 1


@pytest_slow
def test_more_lines_are_shown_when_asked(look, mixed):
    opened = look("mixed")
    lines = len(tables.lines_of(mixed))
    assert opened.page.locator("#operations-table tbody tr").count() == 100 < lines
    assert opened.page.inner_text("#more") == f"Show {lines - 100} more of {lines - 100}"
    opened.page.click("#more")
    assert opened.page.locator("#operations-table tbody tr").count() == lines
    assert not opened.page.is_visible("#more")


@pytest_slow
def test_a_mark_selects_its_row_and_a_row_its_mark(look):
    opened = look("mixed")
    shown = opened.page
    assert not shown.is_visible("#selected")
    shown.locator("#operations-table tbody tr").nth(2).locator(".pick").click()
    line = shown.get_attribute("#operations-table tbody tr.selected", "data-line")
    assert shown.get_attribute("#roofline .dot.selected", "data-line") == line
    assert shown.locator("#operations-table .pick[aria-pressed=true]").count() == 1
    assert "FLOP" in shown.inner_text("#selected-facts")
    shown.click("#selected-close")
    assert shown.locator("#roofline .dot.selected").count() == 0
    # The largest mark of the plane, at its centre.
    shown.locator("#roofline").scroll_into_view_if_needed()
    box = shown.locator("#roofline .dots .dot").first.bounding_box()
    shown.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    chosen = shown.get_attribute("#roofline .dot.selected", "data-line")
    assert shown.get_attribute("#operations-table tbody tr.selected", "data-line") == chosen
    shown.click("#selected-row")
    assert shown.evaluate("document.activeElement.closest('tr').dataset.line") == chosen


@pytest_slow
def test_a_line_far_down_is_brought_into_the_table(look, mixed):
    opened = look("mixed")
    last = len(tables.lines_of(mixed)) - 1
    opened.page.evaluate("line => { Page.set({ words: 'norm3' }); Page.set({ selected: line }, 'chart'); }", last)
    assert opened.page.get_attribute("#operations-table tbody tr.selected", "data-line") == str(last)


@pytest_slow
def test_hovering_says_everything_of_a_mark(look):
    opened = look("one")
    shown = opened.page
    assert not shown.is_visible("#tip")
    shown.locator("#roofline").scroll_into_view_if_needed()
    box = shown.locator("#roofline .dots .dot").first.bounding_box()
    shown.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    said = shown.inner_text("#tip")
    for part in ("matmul", "time", "floor", "bound", "arithmetic", "bytes", "intensity", "FLOP/s", "HBM alone"):
        assert part in said
    shown.mouse.move(2, 2)
    assert not shown.is_visible("#tip")


@pytest_slow
def test_levels_of_the_roofline_are_switched(look, mixed):
    opened = look("mixed")
    shown = opened.page
    names = [level.name for level in mixed.machine.levels if level.rate() is not None]
    assert len(names) == 3
    texts = " ".join(opened.texts("#roofline .roof-label"))
    assert "HBM 4.80 TB/s" in texts
    assert "L2" not in texts
    classic = shown.locator("#roofline .dot").count()
    shown.select_option("#axis", "accessed")
    assert all(any(name in text for text in opened.texts("#roofline .roof-label")) for name in names)
    assert shown.locator("#roofline .dot").count() == classic
    shown.select_option("#axis", "levels")
    assert shown.locator("#roofline .dot").count() > classic
    # The distance of a mark to its level's roof is the share of the time that the level is busy.
    far = shown.evaluate("""() => {
        const { columns, lines } = Page.shown();
        const i = lines.flop.findIndex((flop, at) => flop && columns.memory_s.HBM[at]);
        return columns.memory_s.HBM[i] / columns.time_s[i];
    }""")
    assert 0 < far <= 1
    shown.select_option("#axis", "memory")
    assert shown.locator("#roofline .dot").count() == classic


@pytest_slow
def test_precisions_are_switched_and_every_roof_is_labelled_apart(look):
    opened = look("mixed")
    shown = opened.page
    assert shown.locator("#peaks input").count() == 7
    used = shown.locator("#roofline .roof.peak").count()
    assert used == shown.locator("#peaks input:checked").count()
    for box in shown.locator("#peaks input").all():
        box.check()
    assert shown.locator("#roofline .roof.peak").count() == 7
    for width in (1440, 768, 390):
        shown.set_viewport_size({"width": width, "height": 900})
        shown.wait_for_function("() => document.querySelector('#roofline').viewBox.baseVal.width <= innerWidth")
        texts = " ".join(opened.texts("#roofline .roof-label"))
        for rate in (
            "33.5 TFLOP/s",
            "66.9 TFLOP/s",
            "495 TFLOP/s",
            "989 TFLOP/s",
            "1.98 PFLOP/s",
            "HBM 4.80 TB/s",
        ):
            # A narrow picture has the unit at its axis alone.
            assert (rate.replace("FLOP/s", "") if width == 390 else rate) in texts
        boxes = shown.evaluate(BOXES)
        for number, a in enumerate(boxes):
            for b in boxes[:number]:
                apart = a["left"] >= b["right"] - 1 or b["left"] >= a["right"] - 1
                assert apart or a["top"] >= b["bottom"] - 2 or b["top"] >= a["bottom"] - 2


@pytest_slow
def test_the_plane_is_zoomed_moved_and_shown_whole_again(look):
    opened = look("mixed")
    shown = opened.page
    at = "document.querySelector('#roofline .dots .dot').getAttribute('d')"
    first = shown.evaluate(at)
    assert shown.is_disabled("#zoom-reset")
    for step in ("zoom-in", "zoom-out"):
        shown.click(f"#{step}")
        assert shown.evaluate(at) != first
        shown.click("#zoom-reset")
        assert shown.evaluate(at) == first
    shown.focus("#roofline")
    for key in ("ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "+", "-"):
        shown.keyboard.press(key)
        assert shown.evaluate(at) != first
        shown.keyboard.press("0")
        assert shown.evaluate(at) == first
    shown.locator("#roofline").scroll_into_view_if_needed()
    box = shown.locator("#roofline .plane").bounding_box()
    shown.mouse.move(box["x"] + 30, box["y"] + 30)
    shown.mouse.down()
    shown.mouse.move(box["x"] + 120, box["y"] + 60, steps=4)
    shown.mouse.up()
    assert shown.evaluate(at) != first
    assert shown.locator("#roofline .dot.selected").count() == 0
    shown.click("#zoom-reset")
    shown.mouse.move(box["x"] + 200, box["y"] + 200)
    shown.keyboard.down("Control")
    shown.mouse.wheel(0, -200)
    shown.keyboard.up("Control")
    shown.wait_for_function(f"first => {at} !== first", arg=first)


@pytest_slow
def test_error_bars_are_drawn_when_asked(look):
    opened = look("one")
    assert opened.page.locator("#roofline .bars path").count() == 1
    opened.page.uncheck("#errors")
    assert opened.page.locator("#roofline .bars path").count() == 0


@pytest_slow
def test_what_computes_nothing_is_on_a_strip_of_its_own(look, mixed):
    opened = look("mixed")
    movers = sum(1 for line in tables.lines_of(mixed) if not line.flop)
    assert movers > 30
    assert "Data movers" in opened.page.text_content("#roofline")
    lowest = opened.page.evaluate(
        "all => { const plane = document.querySelector('#roofline .plane').getBoundingClientRect().bottom;"
        " const tops = [...document.querySelectorAll('#roofline .dot')].map(d => d.getBoundingClientRect().top);"
        " return tops.filter(top => top > plane).length }"
    )
    assert lowest == movers
    bare = look("copies")
    assert "none has a place under a roof" in bare.page.inner_text("#roofline-note")
    assert bare.page.locator("#roofline .dot").count() == 1
    assert not bare.page.is_visible("#axis")


@pytest_slow
def test_bars_and_tree_add_up_and_filter_the_table(look, mixed):
    opened = look("mixed")
    shown = opened.page
    total = sum(row.prediction.time_s for row in mixed.rows)
    matmul = sum(row.prediction.time_s for row in mixed.rows if row.op.kind == "matmul")
    shown.select_option("#bars-by", "kind")
    first = shown.locator("#bars .bar", has_text="matmul").inner_text()
    assert [part for part in first.split("\n") if part.strip()] == [
        "matmul",
        duration(matmul),
        f"{100 * matmul / total:.1f} %",
    ]
    for key, most in (("operation", 13), ("bound", 13), ("phase", 1)):
        shown.select_option("#bars-by", key)
        assert 1 <= shown.locator("#bars .bar").count() <= most
    shown.select_option("#bars-by", "operation")
    shown.locator("#bars button.bar", has_text="aten.mm").click()
    assert shown.input_value("#filter") == "aten.mm"
    shown.click("#filter-clear")
    shown.locator("#tree summary .name", has_text="part2").click()
    part = sum(row.prediction.time_s for row in mixed.rows if row.op.module.startswith("part2"))
    assert duration(part) in shown.locator("#tree summary", has_text="part2").inner_text()
    shown.locator("#tree summary .name", has_text="layer1").first.click()
    shown.locator("#tree details[open] details[open] button.bar").first.click()
    assert shown.input_value("#filter").startswith("part")


@pytest_slow
def test_another_prediction_changes_everything(look):
    opened = look("variants")
    shown = opened.page
    both = rooflab.variants(program(), ["h200-sxm", "a100-sxm-80gb"], ["bandwidth=2x"], mode="graph")
    assert opened.texts("#prediction option") == list(both.names)
    for number, report in enumerate(both.reports):
        shown.select_option("#prediction", str(number))
        assert duration(report.time_s) in shown.inner_text("#facts")
        assert shown.text_content("#distance") == unbroken(verdict.distance(report))
        assert shown.text_content("#headline") == f"{verdict.headline(report)}."
        slowest = max(line.time_s for line in tables.lines_of(report))
        assert opened.column("time")[0] == duration(slowest)
        assert ("bandwidth × 2" in shown.inner_text("#how")) == (number % 2 == 1)
        assert report.machine.name in shown.get_attribute("#roofline", "aria-label")
        rate = (
            next(level for level in report.machine.levels if level.name == "HBM").rate(basis="theoretical").value
        )
        factor = report.setting.what_if.get("bandwidth", 1)
        assert si(rate * factor, "B/s") in " ".join(opened.texts("#roofline .roof-label"))
    assert shown.locator("table", has_text="error bar").count() == 1


@pytest_slow
@pytest.mark.parametrize("name", ["mixed", "host", "odd"])
def test_sliders_predict_again_as_python_does(look, mixed, name):
    """Every row, the total and the roofs, to a millionth of `what_if`."""
    report = {
        "mixed": mixed,
        "odd": program(odd=True).on("h200-sxm"),
        "host": rooflab.op("add", "512x512", "512x512", machine="h200-sxm", mode="eager"),
    }[name]
    opened = look(name)
    shown = opened.page
    assert shown.is_disabled("#reset")
    before = shown.inner_text("#facts")
    knobs = {"bandwidth": 2.0, "compute": 0.5, "cache_bandwidth": 4.0, "overhead": 0.25, "dispatch": 8.0}
    for turned in ({"bandwidth": 2.0}, {"overhead": 0.25}, {"compute": 0.5, "bandwidth": 8.0}, knobs):
        for knob in knobs:
            slider = shown.locator(f"#knob-{knob}")
            if slider.count() and slider.is_enabled():
                slider.fill(str(math.log2(turned.get(knob, 1.0))))
                assert shown.inner_text(f"#knob-{knob}-value") == f"{turned.get(knob, 1.0):g} ×"
        shown.wait_for_function(
            "turned => Object.entries(turned).every(([k, v]) => Page.state.knobs[k] === v)",
            arg={knob: factor for knob, factor in turned.items() if shown.locator(f"#knob-{knob}").count()},
        )
        other = report.on(report.machine, what_if=turned)
        wanted = embedded([("other", other)])["predictions"][0]
        found = shown.evaluate("({...Page.shown().columns, least: Page.shown().unpredicted})")
        for column in ("time_s", "low_s", "high_s", "floor_s", "compute_s", "overhead_s", "host_s", "ridge"):
            assert close(found[column], wanted["columns"][column]), column
            assert (found["total"].get(column, 0)) == pytest.approx(wanted["total"].get(column, 0), rel=1e-6)
        for level, seconds in wanted["columns"]["memory_s"].items():
            assert close(found["memory_s"][level], seconds)
        for column in ("bound", "binds"):
            assert found[column] == wanted["columns"][column]
            assert found["total"][column] == wanted["total"][column]
        assert duration(other.time_at_least_s) in shown.inner_text("#facts")
        assert shown.text_content("#headline") == f"{verdict.headline(other)}."
        assert duration(other.time_at_least_s) in shown.inner_text("#whatif-result")
        rate = si(4.8e12 * turned.get("bandwidth", 1.0), "B/s")
        assert f"HBM {rate}" in " ".join(opened.texts("#roofline .roof-label"))
    assert "what if: bandwidth × 2, " in shown.inner_text("#how")
    shown.click("#reset")
    assert "what if" not in shown.inner_text("#how")
    assert shown.inner_text("#facts") == before
    assert [box.input_value() for box in shown.locator("#whatif input").all()] == ["0"] * shown.locator(
        "#whatif input"
    ).count()


@pytest_slow
def test_a_slider_starts_from_the_prediction_that_is_shown(look):
    """On a variant with twice the bandwidth, twice is four times that of the machine."""
    opened = look("variants")
    opened.page.select_option("#prediction", "1")
    opened.page.fill("#knob-bandwidth", "1")
    opened.page.wait_for_function("() => Page.state.knobs.bandwidth === 2")
    four = program().on("h200-sxm", mode="graph", what_if="bandwidth=4x")
    assert opened.page.evaluate("Page.shown().columns.total.time_s") == pytest.approx(four.time_s, rel=1e-6)


@pytest_slow
def test_a_plain_report_can_be_looked_at_elsewhere(look):
    opened = look("one")
    names = opened.texts("#prediction option")
    assert names == [
        "NVIDIA H200 SXM 141GB",
        "NVIDIA H200 SXM 141GB, dtype=bf16",
        "NVIDIA H200 SXM 141GB, dtype=fp8",
        "NVIDIA A100 SXM 80GB",
        "NVIDIA H100 SXM 80GB",
        "NVIDIA B200 SXM 180GB",
    ]
    other = rooflab.op("matmul", "512x512", "512x512", machine="a100-sxm-80gb")
    opened.page.select_option("#prediction", "3")
    assert duration(other.time_s) in opened.page.inner_text("#facts")
    narrow = rooflab.op("matmul", "512x512", "512x512", machine="h200-sxm", what_if="dtype=bf16")
    opened.page.select_option("#prediction", "1")
    assert duration(narrow.time_s) in opened.page.inner_text("#facts")
    assert si(narrow.nbytes, "B") in opened.page.inner_text("#facts")


@pytest_slow
def test_cards_say_what_a_change_would_save(look, mixed):
    opened = look("advised")
    said = opened.page.locator(".card").first.inner_text().replace("\N{NO-BREAK SPACE}", " ")
    # Three are worth a look at once, the others are a click away.
    assert [card.is_visible() for card in opened.page.locator(".card").all()] == [True] * 3 + [False] * 2
    assert opened.page.is_hidden("#advice-of")
    opened.page.evaluate("Page.set({ knobs: { bandwidth: 2 } }, 'slider')")
    assert opened.page.inner_text("#advice-of").startswith("These savings are of NVIDIA H200")
    opened.page.evaluate("Page.set({ knobs: {} }, 'slider')")
    opened.page.click(".more-cards summary")
    assert opened.page.locator(".card").nth(4).is_visible()
    assert f"saves {duration(mixed.time_s - 0.75 * mixed.time_s)}, 25 %" in said
    assert "it saves −1.00 µs to" in said
    assert "a line of code" in said
    assert "model = torch.compile(model)" in said
    assert "Together (fuse, batch)" in opened.page.inner_text("main")
    assert "Not asked: tile: no loop." in opened.page.inner_text("main")
    opened.page.locator(".card button").first.click()
    assert opened.page.inner_text("#filter-count").startswith("2 of ")


@pytest_slow
def test_what_is_missing_makes_no_whole(look):
    opened = look("odd")
    assert "> " in opened.page.inner_text("#facts")
    assert set(opened.column("share")) == {"–"}
    assert "Not counted" in opened.page.inner_text("#warnings")
    row = opened.page.locator("#operations-table tbody tr", has_text="my::sampling").inner_text()
    assert "0 " not in row.replace("my::sampling", "")


@pytest_slow
def test_what_is_unknown_leads_and_what_takes_no_time_does_not(look):
    """The longest may be the one without a prediction; an empty tensor takes no time anywhere."""
    opened = look("odd")
    shown = opened.column("operation")
    assert shown[0].startswith("my::sampling")
    assert "aten.empty" not in shown[:50]


@pytest_slow
def test_long_names_are_cut_in_lists_and_whole_where_selected(look):
    opened = look("odd")
    row = opened.page.locator("#operations-table tbody tr", has_text="my::sampling")
    assert row.bounding_box()["height"] < 120
    row.click()
    assert "L" * 5000 in opened.page.inner_text("#selected-facts")
    assert opened.page.locator("#selected").bounding_box()["height"] < 500


@pytest_slow
def test_a_machine_that_cannot_run_it_takes_the_words_of_the_first_away(look):
    """An A100 has no fp8: neither the time nor the verdict of the H100 before may stand there."""
    opened = look("fp8")
    assert opened.page.inner_text("#headline").startswith("The host limits it")
    opened.page.select_option("#prediction", "1")
    assert opened.page.inner_text("#headline") == "What limits it is not known: 1 operation without a prediction."
    assert opened.page.inner_text("#distance") == opened.page.inner_text("#how") == ""
    assert "time" not in opened.texts("#facts dt")


@pytest_slow
def test_headings_names_and_paper(look):
    opened = look("advised", 390)
    shown = opened.page
    levels = shown.eval_on_selector_all(
        "h1, h2, h3", "all => all.filter(h => h.offsetParent).map(h => Number(h.tagName[1]))"
    )
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    unnamed = shown.eval_on_selector_all(
        "button, input, select",
        "all => all.filter(e => !(e.textContent.trim() || e.ariaLabel || (e.labels && e.labels.length))).length",
    )
    assert unnamed == 0
    shown.emulate_media(media="print")
    shown.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert shown.evaluate("document.querySelector('#roofline').viewBox.baseVal.width") == 700
    assert not shown.is_visible("#filter")
    shown.evaluate("dispatchEvent(new Event('afterprint'))")
    assert shown.evaluate("document.querySelector('#roofline').viewBox.baseVal.width") <= 390


@pytest_slow
def test_a_thousand_points_are_all_seen_and_soon(browser, tmp_path):
    report = program(334).on("h200-sxm", mode="graph")
    path = tmp_path / "thousand.html"
    report.save(path)
    opened = Opened(browser, path)
    shown = opened.page
    ready = shown.evaluate("performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd")
    assert ready < 3000  # alone on a machine well below 1000
    assert shown.locator("#roofline .dot").count() == len(tables.lines_of(report)) > 990
    # No dot has an outline of the background's colour, which would erase the one below it.
    outline = shown.evaluate("getComputedStyle(document.querySelector('#roofline .dot')).stroke")
    assert outline != "rgb(255, 255, 255)"
    redraw = "Page.set({ knobs: {} }, 'slider')"
    taken = shown.evaluate(
        f"() => {{ const from = performance.now(); {redraw}; return performance.now() - from }}"
    )
    assert taken < 500
    assert opened.said == []
    shown.close()


def test_equal_operations_leave_room_for_other_machines():
    """2,004 rows of 3 distinct operations: other machines can be chosen, and the page stays small."""
    tensors = tuple(TensorSpec((256, 64), "bf16", 32768.0, storage=number) for number in range(2))
    ops = tuple(
        Op(name=name, kind="pointwise", inputs=(0,), outputs=(1,), attrs={"function": name})
        for name in ("relu", "gelu", "silu") * 668
    )
    report = counting.report(Graph(framework="hand", tensors=tensors, ops=ops), "alike")
    report = report.on("h200-sxm", mode="graph")
    assert len(report.rows) == 2004
    names = [name for name, _ in page.elsewhere(report)]
    assert "NVIDIA A100 SXM 80GB" in names
    assert len(page.html(report).encode()) < 3e6


def test_a_page_without_other_machines_says_why():
    """400 products of as many shapes, their norms and copies: above 1,000 distinct operations."""
    report = program(400).on("h200-sxm", mode="graph")
    assert page.elsewhere(report) == []
    assert "No other machine to choose in this file: 1,201 distinct operations on 1,201 rows" in page.html(report)


@pytest_slow
def test_what_twice_as_much_of_each_would_bring_is_said_without_a_slider(look, mixed):
    opened = look("mixed")
    opened.page.wait_for_function("() => document.getElementById('twice').textContent.includes('as fast')")
    said = opened.page.text_content("#twice").replace("\N{NO-BREAK SPACE}", " ")
    for knob, title, factor in (
        ("bandwidth", "memory bandwidth", 2),
        ("compute", "arithmetic peaks", 2),
        ("overhead", "time to start a kernel (half)", 0.5),
    ):
        times = mixed.time_s / mixed.on(mixed.machine, what_if={knob: factor}).time_s
        assert f"{title} {f'{times:.2f} ×' if times >= 1.005 else 'no change'}" in said


@pytest_slow
def test_the_time_is_split_by_what_binds_each_operation(look, mixed):
    """By what binds each row, as the headline is found: its largest part is what the headline names."""
    opened = look("mixed")
    words = {"memory": 0.0, "arithmetic": 0.0, "overhead": 0.0}
    for row in mixed.rows:
        one = row.prediction
        kind = "memory" if one.binds in one.memory_s else "overhead" if one.binds == "launch" else "arithmetic"
        words[kind] += one.time_s
    whole = sum(words.values())
    said = opened.page.text_content("#split")
    for word, seconds in words.items():
        if seconds >= 0.005 * whole:
            assert f"{word} {100 * seconds / whole:.1f} %" in said


@pytest_slow
def test_the_headline_names_the_largest_part_of_the_split_wherever_a_slider_stands(look):
    """Of 24 equal products the first wait for the host and the others do not: bound by row, not by line."""
    opened = look("queued")
    kinds = {"The host": "overhead", "Starting": "overhead", "Overhead": "overhead", "Memory": "memory"}
    kinds |= {"Arithmetic": "arithmetic", "Issuing": "arithmetic"}
    seen = set()
    for eighths in range(-16, 25, 4):
        opened.page.evaluate("factor => Page.set({ knobs: { dispatch: factor } }, 'slider')", 2 ** (eighths / 8))
        headline, split = opened.page.text_content("#headline"), opened.page.text_content("#split")
        bound = opened.page.evaluate("Page.shown().total.bound")
        seen.add(headline)
        if bound != "balanced":
            named = next(kind for word, kind in kinds.items() if headline.startswith(word))
            assert split.startswith(f"By what binds each operation: {named}"), (headline, split)
    assert len(seen) > 1


def test_compiling_and_a_graph_are_said_to_overlap():
    one = Advice(rule="compile", change="c", evidence=(), before_s=4.0, after_s=1.0, effort="line")
    other = msgspec.structs.replace(one, rule="cuda-graph", after_s=2.0)
    said = [card["overlaps"] for card in advice.cards(Advices(each=(one, other))).cards]
    assert [text.partition(":")[0] for text in said] == ["Overlaps with 2", "Overlaps with 1"]
    assert all("Both together: 1.00" in text for text in said)


@pytest_slow
def test_the_share_of_the_nearest_roof_and_the_subject_are_said(look, mixed):
    """Seconds at the roof over seconds predicted: bytes at 4.8 TB/s, bf16 products at 989.4 TFLOP/s."""
    opened = look("mixed")
    memory = mixed.nbytes / 4.8e12
    matrix = mixed.matrix_flop / 989.4e12
    share = max(memory, matrix) / mixed.time_s
    assert f"nearest roof{100 * share:.1f} %of HBM" in opened.page.text_content("#facts")
    opened.page.click("#operations-table tbody .pick >> nth=0")
    assert "nearest roof" in opened.page.text_content("#selected-facts")
    cpu = look("cpu").page
    assert cpu.text_content("#subject") == "NumPy · forward pass · input a 1,000,000 fp64 · test_page.py"
    assert "faster" in cpu.text_content("#whatif")


@pytest_slow
def test_bytes_of_levels_without_a_bandwidth_are_not_offered_and_the_roofline_stays(look):
    """Its datasheet has no bandwidth of L3, where all of it lies: no mark by levels, which is said."""
    opened = look("cpu")
    shown = opened.page
    assert shown.locator("#axis option[value=levels]").get_attribute("disabled") is not None
    note = shown.text_content("#roofline-note")
    assert "Bytes of each level (hierarchical): Intel Xeon Platinum 8480+ states no bandwidth" in note
    assert "L3" in note
    for kind in ("accessed", "memory"):
        shown.select_option("#axis", kind)
        assert shown.is_visible("#roofline")
        assert shown.is_visible("#axis")
        assert shown.locator("#roofline .dot").count() > 0
    for number in range(shown.locator("#prediction option").count()):
        shown.select_option("#prediction", str(number))
        for kind in shown.eval_on_selector_all("#axis option:not([disabled])", "all => all.map(o => o.value)"):
            shown.select_option("#axis", kind)
            assert shown.is_visible("#axis")
            assert shown.locator("#roofline .dot").count() > 0


@pytest_slow
def test_closed_parts_are_open_on_paper_and_closed_again(look):
    shown = look("advised").page
    closed = "document.querySelectorAll('details.more-cards:not([open]), details.reading:not([open])').length"
    before = shown.evaluate(closed)
    assert before > 0
    shown.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert shown.evaluate(closed) == 0
    shown.evaluate("dispatchEvent(new Event('afterprint'))")
    assert shown.evaluate(closed) == before
