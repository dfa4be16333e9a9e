"""The skeleton of all pages: charts in both themes, headings, paper, scripts and styles that end no tag."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

import rooflab.views
from rooflab.views.common import page
from rooflab.views.common.theme import DARK, LIGHT
from rooflab.views.machine import roofline

VIEWS = Path(rooflab.views.__file__).parent


def test_the_dark_theme_is_the_light_one_in_other_colours(measured):
    """Only light charts are stored: the page puts the dark theme's colours at their places."""
    light = json.dumps(roofline.roofline(measured, theme=LIGHT).to_dict())
    dark = json.dumps(roofline.roofline(measured, theme=DARK).to_dict())
    to_dark = page.to_dark()
    assert re.sub("#[0-9a-f]{6}", lambda found: to_dark[found[0]], light) == dark


def test_every_width_has_a_chart(accelerator):
    (drawn,) = page.charts(accelerator, (page.Drawing("Roofline", roofline.roofline, (460, 330)),))
    assert [spec["width"] for spec in drawn["specs"].values()] == [810, 540, 248]
    assert [spec["height"] for spec in drawn["specs"].values()] == [460, 395, 330]


@pytest.mark.parametrize("path", [*VIEWS.rglob("*.js"), *VIEWS.rglob("*.css")], ids=lambda path: path.name)
def test_scripts_and_styles_end_no_tag_and_say_what_they_hold(path):
    text = path.read_text("utf-8")
    assert "</script" not in text
    assert "</style" not in text
    assert text.startswith(("// ", "/* "))
    assert "http" not in text.replace("http://www.w3.org/", "")


@pytest.mark.slow
def test_alternative_text_stays_and_paper_is_light(browser, accelerator, tmp_path):
    path = tmp_path / "machine.html"
    accelerator.save(path)
    shown = browser.new_page(viewport={"width": 768, "height": 900}, color_scheme="dark")
    shown.goto(path.as_uri())
    shown.wait_for_selector(".chart svg")
    assert "numbers are in the tables below" in shown.get_attribute(".chart", "aria-label")
    assert shown.get_attribute(".chart", "role") == "img"
    headings = shown.eval_on_selector_all("h1, h2", "all => all.map(one => one.tagName)")
    assert headings[0] == "H1"
    assert headings.count("H1") == 1
    assert shown.locator("caption h2").count() == shown.locator("table").count() > 0
    assert shown.locator("figure h2").count() >= 1
    # As wide as a tablet allows, not as a phone's.
    assert shown.evaluate("document.querySelector('.chart svg').clientWidth") > 560
    shown.emulate_media(media="print", color_scheme="dark")
    assert shown.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    shown.evaluate("dispatchEvent(new Event('beforeprint'))")
    shown.wait_for_function("/#ffffff|255, 255, 255/.test(document.querySelector('.chart svg').outerHTML)")
    assert shown.evaluate("[...document.querySelectorAll('details')].every(each => each.open)")
    shown.close()


def test_a_missing_pyarrow_is_told_before_the_work(monkeypatch, tmp_path):
    from rooflab.errors import RooflabError
    from rooflab.views.common import files

    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(RooflabError, match="pyarrow"):
        files.check_paths([tmp_path / "rows.parquet"], (".parquet",))
    files.check_paths([tmp_path / "rows.csv"], (".csv",))
