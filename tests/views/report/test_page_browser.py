"""The page of a report in a real browser: its table, filters and tree held against the report."""

from __future__ import annotations

import html
import re
from itertools import pairwise

import pytest

from rooflab.units import duration, si
from rooflab.views.report import alike
from support.report_pages import EVIL

pytestmark = pytest.mark.slow  # a browser is opened


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


@pytest.mark.parametrize("name", ["mixed", "odd", "host", "copies"])
def test_scripts_say_what_python_says(look, files, name):
    """The headline and the distance are written twice: for a reader without scripts, and anew by each choice."""
    written = (files / f"{name}.html").read_text("utf-8")
    opened = look(name)
    for part in ("headline", "distance", "how"):
        ours = html.unescape(re.search(rf'id="{part}">(.*?)</p>', written)[1])
        assert opened.page.text_content(f"#{part}") == ours
        assert len(ours) > 20


def test_numbers_are_written_as_python_writes_them(look):
    opened = look("one")
    values = [0, 1, 9.995, 9.994, 999.4, 999.6, 1e3, 123456, 9.9996e11, 1.5e20, 3e-7, 0.5]
    wanted = [si(value, "B/s") for value in values]
    assert opened.page.evaluate("all => all.map(v => si(v, 'B/s'))", values) == wanted
    seconds = [1e-12, 5e-10, 9.2e-8, 9.996e-7, 1e-3, 0.9996, 59, 119, 120, 7200, 1e6, 4e7, 1e9]
    assert opened.page.evaluate("all => all.map(duration)", seconds) == [duration(each) for each in seconds]
    assert opened.page.evaluate("[si(null, 'B'), duration(null), percent(null), ratio(Infinity)]") == ["–"] * 4


def test_the_table_sorts_by_every_column_and_says_so(look, mixed):
    opened = look("mixed")
    times = [line.time_s for line in alike.lines_of(mixed)]
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
    most = max(line.nbytes for line in alike.lines_of(mixed))
    assert opened.column("bytes")[0] == si(most, "B")


def test_filters_leave_what_was_asked_for(look, mixed):
    opened = look("mixed")
    lines = alike.lines_of(mixed)
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


def test_more_lines_are_shown_when_asked(look, mixed):
    opened = look("mixed")
    lines = len(alike.lines_of(mixed))
    assert opened.page.locator("#operations-table tbody tr").count() == 100 < lines
    assert opened.page.inner_text("#more") == f"Show {lines - 100} more of {lines - 100}"
    opened.page.click("#more")
    assert opened.page.locator("#operations-table tbody tr").count() == lines
    assert not opened.page.is_visible("#more")


def test_a_line_far_down_is_brought_into_the_table(look, mixed):
    opened = look("mixed")
    last = len(alike.lines_of(mixed)) - 1
    opened.page.evaluate("line => { Page.set({ words: 'norm3' }); Page.set({ selected: line }, 'chart'); }", last)
    assert opened.page.get_attribute("#operations-table tbody tr.selected", "data-line") == str(last)


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


def test_what_is_unknown_leads_and_what_takes_no_time_does_not(look):
    """The longest may be the one without a prediction; an empty tensor takes no time anywhere."""
    opened = look("odd")
    shown = opened.column("operation")
    assert shown[0].startswith("my::sampling")
    assert "aten.empty" not in shown[:50]


def test_long_names_are_cut_in_lists_and_whole_where_selected(look):
    opened = look("odd")
    row = opened.page.locator("#operations-table tbody tr", has_text="my::sampling")
    assert row.bounding_box()["height"] < 120
    row.click()
    assert "L" * 5000 in opened.page.inner_text("#selected-facts")
    assert opened.page.locator("#selected").bounding_box()["height"] < 500


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


def test_closed_parts_are_open_on_paper_and_closed_again(look):
    shown = look("advised").page
    closed = "document.querySelectorAll('details.more-cards:not([open]), details.reading:not([open])').length"
    before = shown.evaluate(closed)
    assert before > 0
    shown.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert shown.evaluate(closed) == 0
    shown.evaluate("dispatchEvent(new Event('afterprint'))")
    assert shown.evaluate(closed) == before
