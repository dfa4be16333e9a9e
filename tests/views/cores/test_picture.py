"""The picture of several cores: a row an operation, a state a core, an arrow for each copy that moves or ends."""

from __future__ import annotations

from xml.etree import ElementTree

import msgspec
import pytest

import rooflab
from rooflab import Cache, core_streams
from rooflab.errors import RooflabError
from rooflab.views.common import drawing
from rooflab.views.cores import html, picture

CACHES = [Cache(1024, 2), Cache(4096, 4)]
GUARDED = [("acquire", "lock", 0), ("load", "n", 0), ("store", "n", 0), ("release", "lock", 0), ("barrier",)]


@pytest.fixture(scope="module", params=["counters", "eight", "locks", "moesi"])
def simulated(request):
    streams = {
        "counters": core_streams.counters(2, 100),
        "eight": core_streams.counters(8, 100),
        "locks": [GUARDED * 3] * 2,
        "moesi": [GUARDED * 3] * 3,
    }[request.param]
    return rooflab.simulate_cores(streams, levels=CACHES, protocol="moesi" if request.param == "moesi" else "mesi")


@pytest.mark.parametrize("width", [picture.WIDE, picture.NARROW])
def test_what_is_drawn_is_what_happened(simulated, width):
    drawn = picture.drawing(simulated, width=width)
    steps = simulated.steps[: picture.SHOWN]
    accesses = [step for step in steps if step.line is not None]
    texts = [text.text for text in drawn.texts()]
    for letter in "MOESI":
        assert texts.count(letter) == sum(step.states.count(letter) for step in accesses)
    arrows = [item for item in drawn.items if isinstance(item, drawing.Line) and item.arrow]
    assert sum(arrow.stroke == "point" for arrow in arrows) == sum(len(step.invalidated) for step in steps)
    assert sum(arrow.stroke == "cache1" for arrow in arrows) == sum(step.supplier is not None for step in steps)
    for number, step in enumerate(steps, 1):
        assert f"{number}  {picture.action(step)}" in texts


@pytest.mark.parametrize("width", [picture.WIDE, picture.NARROW])
def test_no_words_overlap_or_leave_the_picture(simulated, width):
    drawn = picture.drawing(simulated, width=width)
    assert drawn.overlaps() == ()
    right, bottom = drawing.extent(drawn.items)
    assert right <= width + 1
    assert bottom <= drawn.height + 1


def test_false_sharing_is_seen():
    found = rooflab.simulate_cores(core_streams.counters(2, 100), levels=CACHES)
    texts = [text.text for text in picture.drawing(found).texts()]
    assert "count[0] core 0" in texts
    assert "count[1] core 1" in texts
    assert "asks for ownership, core 1 loses it, for core 1 it was false sharing" in texts
    apart = rooflab.simulate_cores(core_streams.counters(2, 100, padding_bytes=64), levels=CACHES)
    assert not any("false" in text.text for text in picture.drawing(apart).texts())


def test_a_result_without_steps_has_a_page_and_says_why_it_has_no_picture(simulated, tmp_path):
    old = msgspec.structs.replace(simulated, steps=(), line_bytes=None)
    assert "Operation by operation" not in html(old)
    with pytest.raises(RooflabError, match="holds no operations one by one"):
        old.save(tmp_path / "x.svg")


def test_names_are_escaped(tmp_path):
    nasty = '<script>alert("&")</script>'
    found = rooflab.simulate_cores([[("store", nasty, 0)], [("load", nasty, 0)]], levels=CACHES)
    assert "<script>alert" not in html(found)
    drawn = drawing.svg(picture.drawing(found))
    assert "<script" not in drawn
    assert nasty in "".join(ElementTree.fromstring(drawn).itertext())


def test_it_is_drawn_again_from_a_file(simulated, tmp_path):
    simulated.save(tmp_path / "a.json", tmp_path / "a.svg", tmp_path / "a.html")
    again = rooflab.load(tmp_path / "a.json")
    again.save(tmp_path / "b.svg")
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
