"""Drawings of boxes and lines in files: every picture in every look, as wide as printed, in its colours."""

from __future__ import annotations

import re

import pytest

import rooflab
from rooflab import Cache, core_streams, streams
from rooflab.machines.years import growth_of_catalogue
from rooflab.views import cores, graph
from rooflab.views.common import files
from rooflab.views.common.drawing import Box, Drawing, Text, colour, svg
from rooflab.views.common.style import STYLES
from rooflab.views.common.theme import DARK
from rooflab.views.machine import topology, years
from rooflab.views.simulation.files import STEP_WRITERS

CACHES = [Cache(1024, 2), Cache(4096, 4)]
PICTURES = {
    "topology": lambda: (topology.WRITERS, rooflab.machine("h100-sxm")),
    "system": lambda: (topology.WRITERS, rooflab.machine("dgx-h100")),
    "years": lambda: (years.writers(), growth_of_catalogue()),
    "cores": lambda: (cores.WRITERS, rooflab.simulate_cores(core_streams.counters(2, 50), levels=CACHES)),
    "steps": lambda: (STEP_WRITERS, rooflab.simulate(streams.matmul(4), levels=CACHES, steps=True)),
    "graph": lambda: (graph.WRITERS, rooflab.op("matmul", "64x64", "64x64").on("h200-sxm")),
}


@pytest.mark.parametrize("name", PICTURES)
@pytest.mark.parametrize("style", STYLES)
def test_every_picture_is_written_in_every_look(tmp_path, name, style):
    writers, result = PICTURES[name]()
    paths = [tmp_path / f"x{suffix}" for suffix in (".svg", ".png", ".pdf")]
    written = files.write_all(result, paths, writers, STYLES[style])
    assert written.refused == ()
    text = paths[0].read_text()
    inches = STYLES[style].inches
    assert (inches is None) == ('in" height=' not in text)
    if style == "dark":
        assert DARK.background in text
    if inches is not None:
        # Type of at least 7 points once it is as wide as printed.
        across = float(re.search(r'viewBox="0 0 ([\d.]+)', text)[1])
        smallest = min(map(float, re.findall(r'font-size="([\d.]+)"', text)))
        assert smallest * 72 * inches / across >= 7.0


def test_words_that_overlap_are_found():
    drawn = Drawing("two", 100, 40, (Text(0, 20, "one"), Text(5, 22, "two"), Text(60, 20, "three")))
    assert drawn.overlaps() == (("one", "two"),)


def test_a_page_names_colours_by_role_and_a_file_by_value():
    drawn = Drawing("a box", 10, 10, (Box(0, 0, 5, 5, "cache1"),))
    assert "var(--draw-cache1)" in svg(drawn, None, 0)
    assert colour("cache1", DARK) in svg(drawn, DARK)
