"""The page of a loop in a real browser, and what stands on it."""

from __future__ import annotations

import html
import json
import re

import msgspec
import numpy as np
import pytest

import rooflab
from rooflab.types.loop import LoopReport
from rooflab.types.machine import is_main_memory
from rooflab.types.simulation import Cache
from rooflab.views.common.page import still
from rooflab.views.loop import count_tables, page, tables


@pytest.fixture(scope="module")
def stencil(root):
    """A stencil of 1,024² on the measured guest, as `rooflab loop` saved it, its machine left out."""
    raw = json.loads((root / "tests" / "samples" / "loop" / "stencil.json").read_text("utf-8"))
    machine = rooflab.machine(root / "examples" / "zen4-guest.toml")
    return msgspec.structs.replace(LoopReport.from_dict(raw), machine=machine)


@pytest.fixture(scope="module")
def written(stencil, tmp_path_factory):
    """Its page, written once for all widths and schemes."""
    path = tmp_path_factory.mktemp("loop") / "loop.html"
    stencil.save(path)
    return path


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_draws_without_errors_or_requests(opened, written, scheme, width):
    seen = opened(written, scheme, width, 2)
    assert seen.said == []
    assert seen.asked == [written.as_uri()]
    assert seen.sideways <= 0
    assert seen.wider == 0
    assert seen.overlaps == []


@pytest.mark.slow
def test_no_line_of_the_source_is_cut(browser, written):
    """Long lines are broken; what stands right of the edge is seen by few."""
    page = browser.new_page(viewport={"width": 900, "height": 900})
    page.goto(written.as_uri())
    listing = page.locator(".listing table")
    assert listing.bounding_box()["width"] <= page.locator(".listing").bounding_box()["width"]
    page.close()


@pytest.mark.slow
def test_the_page_says_all_of_it(written):
    text = html.unescape(written.read_text("utf-8").partition("<script>")[0])
    for said in (
        "Memory-bound: DRAM takes 547 µs for 24.9 MB, of 890 µs predicted on one core",
        "L2 (1 MiB): layer condition holds for i",
        "the compiled loop gives the counted run's results",
        "5·m·n − 10·m − 10·n + 20 FLOP",
        "yes, 8 elements an instruction",
        "21: a[i + 1, j]",
        "replacement is taken as LRU",
        "        for j in range(1, m - 1):",  # lines without a count too, indented as they are
    ):
        assert said in text
    assert text.index("Memory-bound") < text.index("<caption>")


def test_bars_are_shares_of_their_column(stencil):
    # The last line does everything: each of its five bars is whole.
    assert [share for _, share in page.listing(stencil)[-1].cells] == [1.0] * 5
    assert {cell for line in page.listing(stencil)[:-1] for cell in line.cells} == {("", 0.0)}


def test_arrays_add_up_to_their_level(stencil):
    for level in stencil.simulation.levels:
        assert sum(each.misses for each in level.arrays) == level.misses


def test_without_a_machine_there_is_a_page_without_charts(stencil):
    bare = msgspec.structs.replace(stencil, machine=None, points=(), predictions=())
    text = page.html(bare)
    assert "<figure>" not in text
    assert "<script>" not in text  # nothing to draw: Vega is left out
    assert "No bound without a machine" in text
    assert "Traffic by level that serves it" in text


@pytest.mark.slow
def test_text_of_the_source_is_escaped(stencil):
    line = (21, "x = '<script>alert(1)</script>'")
    text = page.html(msgspec.structs.replace(stencil, source=(line,), warnings=("<b>no</b>",)))
    assert "<script>alert(1)" not in text
    assert "<b>no" not in text


@pytest.mark.slow
def test_a_notebook_shows_the_page(stencil):
    found = re.fullmatch(
        r'<iframe title="stencil" style="[^"]*" srcdoc="([^"]*)"></iframe>', stencil._repr_html_()
    )
    with still():
        assert html.unescape(found[1]) == page.html(stencil)


def test_the_bound_names_the_longest_term_first(stencil):
    said = tables.bound(stencil)
    memory = next(level.name for level in stencil.machine.levels if is_main_memory(level))
    assert said.index(memory) < said.index("the core")
    made = msgspec.structs.replace(stencil.predictions[0], binds="instructions", bound="compute-bound")
    assert tables.bound(msgspec.structs.replace(stencil, predictions=(made,))).startswith(
        "compute-bound: the core takes"
    )


def test_a_level_slower_than_its_bytes_and_a_point_above_its_roof_are_explained():
    import msgspec

    from rooflab.types.loop import Point
    from rooflab.views.loop import tables

    points = (
        Point(level="L3", read_bytes=1e9, write_bytes=0.0, bytes_per_s=1e11, time_s=0.05, share=0.5),
        Point(level="DRAM", read_bytes=1e9, write_bytes=0.0, bytes_per_s=1e10, time_s=0.1, share=1.76),
    )
    report = msgspec.defstruct("Report", [("points", tuple)])(points=points)
    said = "".join(tables._remarks(report))
    # 1 GB at 100 GB/s is 10 ms of the 50; DRAM's 100 ms are its bytes alone.
    assert "L3: 10.0 ms of its 50.0 ms are bytes ÷ bandwidth" in said
    assert "DRAM: " not in said
    assert "Above the roof (DRAM)" in said


def seldom(a, b):
    for i in range(len(a)):
        if a[i] > 2.0:
            b[i] = a[i] + 1.0
    return a[0]


def test_accesses_that_never_ran_are_left_out_and_counted():
    """None of the numbers is above 2: the store to b and the load beside it did not happen."""
    caches = (Cache(4096, 4, name="L1"),)
    report = rooflab.loop(seldom, np.ones(64), np.ones(64), levels=caches, timed=False)
    table = count_tables.references(report)
    assert [row[0].partition(": ")[2] for row in table.rows] == ["a[i]", "a[0]"]
    assert "Left out: 2 accesses of code that did not run." in table.note
    assert {row[0] for row in count_tables.arrays(report).rows} == {"a"}
