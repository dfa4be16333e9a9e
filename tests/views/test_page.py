"""The page in a real browser: light and dark, wide and narrow, with no network and no error."""

from __future__ import annotations

import re
import shutil
from html.parser import HTMLParser

import pytest

from rooflab.views import page

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
QUIET = (
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
# Pairs of texts in one chart whose boxes share more than a pixel each way. A halo lies under its own text.
OVERLAPS = """() => {
  const found = [];
  for (const chart of document.querySelectorAll(".chart svg")) {
    const texts = [...chart.querySelectorAll("text")].filter(t => t.textContent && !t.getAttribute("stroke")
      && t.getAttribute("opacity") !== "0" && !/rotate\\((?!0)/.test(t.getAttribute("transform") || ""));
    const boxes = texts.map(t => [t.textContent, t.getBoundingClientRect()]);
    boxes.forEach(([a, p], i) => boxes.slice(i + 1).forEach(([b, q]) => {
      if (Math.min(p.right, q.right) - Math.max(p.left, q.left) > 1
        && Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top) > 2.5) found.push(a + " / " + b);
    }));
  }
  return found;
}"""


@pytest.fixture(scope="module")
def files(measured, accelerator, tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    for name, machine in (("measured", measured), ("accelerator", accelerator)):
        (folder / f"{name}.html").write_text(page.render(machine), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def browser():
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if BROWSER is None:
        pytest.skip("no chromium, chromium-browser or google-chrome on the path")
    with api.sync_playwright() as play:
        opened = play.chromium.launch(executable_path=BROWSER, args=list(QUIET))
        yield opened
        opened.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize(("name", "charts"), [("measured", 4), ("accelerator", 1)])
def test_the_page_draws_without_errors_or_requests(browser, files, scheme, width, name, charts):
    opened = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    said, asked = [], []
    opened.on("console", lambda message: said.append(message.text))
    opened.on("pageerror", lambda error: said.append(str(error)))
    opened.on("request", lambda request: asked.append(request.url))
    opened.goto((files / f"{name}.html").as_uri())
    opened.wait_for_function(f"document.querySelectorAll('.chart svg').length === {charts}")
    sideways = opened.evaluate("document.documentElement.scrollWidth - innerWidth")
    wider = opened.evaluate(
        "[...document.querySelectorAll('figure')].filter(f => f.scrollWidth > f.clientWidth).length"
    )
    overlaps = opened.evaluate(OVERLAPS)
    background = opened.evaluate("getComputedStyle(document.body).backgroundColor")
    opened.close()
    assert said == []
    assert asked == [(files / f"{name}.html").as_uri()]
    assert sideways <= 0
    assert wider == 0
    assert overlaps == []
    assert background == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(20, 24, 28)")


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
    assert [check.ok for check in page.failed_first(measured.checks)] == [False, False, True, True, True, True]
    body = text.partition("<script>")[0]
    assert len(re.findall(r"<caption>", body)) == len(re.findall(r"<table", body)) > 5
    assert '<th scope="col">' in text
    assert '<th scope="row">DRAM</th>' in text
