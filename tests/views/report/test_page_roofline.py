"""The roofline of a report's page in a real browser: every control of it used."""

from __future__ import annotations

import pytest

from rooflab.views.report import alike
from support.report_pages import BOXES, Opened, program

pytestmark = pytest.mark.slow  # a browser is opened


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


def test_error_bars_are_drawn_when_asked(look):
    opened = look("one")
    assert opened.page.locator("#roofline .bars path").count() == 1
    opened.page.uncheck("#errors")
    assert opened.page.locator("#roofline .bars path").count() == 0


def test_what_computes_nothing_is_on_a_strip_of_its_own(look, mixed):
    opened = look("mixed")
    movers = sum(1 for line in alike.lines_of(mixed) if not line.flop)
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


def test_a_thousand_points_are_all_seen_and_soon(browser, tmp_path):
    report = program(334).on("h200-sxm", mode="graph")
    path = tmp_path / "thousand.html"
    report.save(path)
    opened = Opened(browser, path)
    shown = opened.page
    ready = shown.evaluate("performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd")
    assert ready < 3000  # alone on a machine well below 1000
    assert shown.locator("#roofline .dot").count() == len(alike.lines_of(report)) > 990
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
