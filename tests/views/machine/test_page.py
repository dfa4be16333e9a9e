"""The page in a real browser: light and dark, wide and narrow, with no network and no error."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from rooflab.views.machine import page

# A browser is opened.
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def files(measured, accelerator, tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    for name, machine in (("measured", measured), ("accelerator", accelerator)):
        (folder / f"{name}.html").write_text(page.html(machine), encoding="utf-8")
    return folder


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize(("name", "charts"), [("measured", 4), ("accelerator", 1)])
def test_the_page_draws_without_errors_or_requests(opened, files, scheme, width, name, charts):
    seen = opened(files / f"{name}.html", scheme, width, charts)
    assert seen.said == []
    assert seen.asked == [(files / f"{name}.html").as_uri()]
    assert seen.sideways <= 0
    assert seen.wider == 0
    assert seen.overlaps == []
    assert seen.background == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(20, 24, 28)")


def test_changing_the_scheme_redraws(browser, files):
    opened = browser.new_page(color_scheme="light")
    opened.goto((files / "accelerator.html").as_uri())
    opened.wait_for_selector(".chart svg")
    opened.emulate_media(color_scheme="dark")
    opened.wait_for_function("/20, ?24, ?28|14181c/.test(document.querySelector('.chart svg').outerHTML)")
    text = opened.inner_text(".chart")
    opened.close()
    assert "HBM 3.35 TB/s" in text


class Collector(HTMLParser):
    """The tags and text of a page."""

    def __init__(self):
        super().__init__()
        self.tags, self.text = [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text.append(data)


def test_the_page_loads_nothing_from_elsewhere(files):
    read = Collector()
    read.feed((files / "measured.html").read_text(encoding="utf-8"))
    loaded = [attrs[key] for _, attrs in read.tags for key in ("src", "srcset", "data", "action") if key in attrs]
    links = [attrs["href"] for tag, attrs in read.tags if tag == "link"]
    assert loaded == []
    assert links == ["data:,"]


def test_text_from_the_machine_is_escaped(files):
    text = (files / "measured.html").read_text(encoding="utf-8")
    assert "<script>alert(1)</script>" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "<b>escaped" not in text


def test_failed_checks_come_first_and_tables_have_headers(files, measured):
    text = (files / "measured.html").read_text(encoding="utf-8")
    assert "2 of 6 self-checks failed" in text
    assert text.index("11 MiB found where") < text.index("<caption>")
    checks = text.partition('<h2 id="checks">')[2]
    # Those that failed first, the others after them.
    assert [" (failed)" in line for line in checks.splitlines() if "<li" in line][:6] == [True] * 2 + [False] * 4
    body = text.partition("<script>")[0]
    assert len(re.findall(r"<caption>", body)) == len(re.findall(r"<table", body)) > 5
    assert '<th scope="col">' in text
    assert '<th scope="row">DRAM</th>' in text
