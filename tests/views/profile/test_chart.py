"""The roofline of profiles: where roofs and marks lie, what is left out, that no label lies on another."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

import rooflab
from rooflab.errors import RooflabError
from rooflab.types.counted import Counted
from rooflab.types.machine import Level, Machine, Rate, Source
from rooflab.types.profile import KernelTime, Observation, Profile, ProfileRow
from rooflab.types.work import Flop, Traffic
from rooflab.views.common import labels
from rooflab.views.profile import chart, marks

_SAMPLES = Path(__file__).parents[2] / "samples"
_SOURCE = Source("assumed", "test")


def machine(name="M", bandwidth=100e9, peak=1e12, kind="assumed"):
    """A machine of one memory and one fp32 peak."""
    memory = Rate(value=bandwidth, per_s="byte", what="any", basis="theoretical", source=_SOURCE)
    fp32 = Rate(
        value=peak, per_s="flop", what="fma", basis="theoretical", source=_SOURCE, dtype="fp32", engine="vector"
    )
    return Machine(
        name=name,
        kind="cpu",
        source=Source(kind, "test"),
        levels=(Level(name="DRAM", source=_SOURCE, rates=(memory,)),),
        peaks=(fp32,),
    )


def row(name, flop, nbytes, time_s, level="DRAM", executions=1):
    """A counted operation."""
    counted = Counted(
        name=name,
        time_s=time_s / executions,
        runs=executions,
        flop=None if flop is None else ((Flop("vector", "fp32", flop),) if flop else ()),
        traffic=() if nbytes is None else (Traffic(level, nbytes, 0.0, "counted"),),
    )
    return ProfileRow(
        name=name,
        kind=None,
        shapes="",
        dtype="",
        executions=executions,
        observation=Observation(
            time_s=time_s, low_s=time_s, high_s=time_s, kernels=(KernelTime(name=name, runs=1, time_s=time_s),)
        ),
        counted=counted,
    )


def profile(*rows, name="p", on=None):
    """A profile of `rows`."""
    return Profile(name=name, source="test", rows=rows, machine=on)


def test_a_mark_lies_at_its_intensity_and_speed():
    # 2 executions of 1 GFLOP and 4 GB in 0.1 s together: 0.25 FLOP/byte at 20 GFLOP/s
    drawn = chart.layout(marks.scene("p", [profile(row("k", 1e9, 4e9, 0.1, executions=2), on=machine())]))
    (mark,) = drawn.scene.marks
    assert (mark.intensity, mark.flop_per_s) == (0.25, pytest.approx(20e9))
    assert drawn.plane.data(*drawn.plane.pixel(0.25, 20e9)) == (pytest.approx(0.25), pytest.approx(20e9))
    assert {(roof.name, roof.value, roof.unit) for roof in drawn.scene.roofs} == {
        ("DRAM", 100e9, "B/s"),
        ("fp32", 1e12, "FLOP/s"),
    }


def test_no_flop_keeps_its_place_on_the_bandwidth_axis():
    drawn = chart.layout(marks.scene("p", [profile(row("copy", 0.0, 4e9, 0.1), on=machine())]))
    (mark,) = drawn.scene.marks
    assert mark.intensity is None
    assert mark.bytes_per_s == pytest.approx(40e9)
    assert drawn.strip is not None
    assert drawn.strip.x0 < 40e9 < 100e9 < drawn.strip.x1
    assert [label.text for label in drawn.strip_placed] == ["100 GB/s", "copy"]


def test_what_is_not_known_is_counted_and_not_drawn():
    scene = marks.scene(
        "p", [profile(row("a", 1e9, 1e9, 1.0), row("b", None, 1e9, 1.0), row("c", 1e9, None, 1.0))]
    )
    assert ([mark.name for mark in scene.marks], scene.left) == (["a"], 2)
    assert "2 without known FLOP or bytes not drawn" in chart.subtitle(scene)


def test_bytes_of_another_level_are_said():
    scene = marks.scene("p", [profile(row("k", 1e9, 4e9, 0.1, level="L1"), on=machine())])
    assert scene.marks[0].level == "L1"
    assert "triangles: by bytes of L1" in chart.subtitle(scene)


def test_files_have_colours_and_machines_their_roofs():
    one = profile(row("k", 1e9, 4e9, 0.1), name="one", on=machine("A"))
    two = profile(row("k", 2e9, 4e9, 0.1), name="two", on=machine("B", 200e9, 4e12))
    scene = marks.scene("both", [one, two], [machine("C", 50e9, 5e11)])
    assert scene.groups == ("one", "two")
    assert scene.machines == {"A": ("one",), "B": ("two",), "C": ("C",)}
    assert [roof.machine for roof in scene.roofs if roof.slanted] == ["A", "B", "C"]
    colours = chart.group_colours(scene, chart.LIGHT)
    assert len(set(colours.values())) == 2
    assert chart.group_colours(marks.scene("one", [one]), chart.LIGHT) == {"bound not known": chart.LIGHT.point}


def test_an_attained_roof_is_that_of_a_machine_that_was_measured():
    attained = Rate(value=80e9, per_s="byte", what="read", basis="attained", source=_SOURCE)
    for kind, value in (("datasheet", 100e9), ("reported", 80e9)):
        whole = machine(kind=kind)
        level = whole.levels[0]
        both = Machine.from_dict(whole.to_dict() | {"levels": [level_with(level, attained)]})
        (memory,) = [roof for roof in marks.scene("m", [], [both]).roofs if roof.slanted]
        assert memory.value == value


def level_with(level, rate):
    """`level` with one more rate, as plain values."""
    import msgspec

    return msgspec.to_builtins(msgspec.structs.replace(level, rates=(*level.rates, rate)))


def test_a_machine_without_a_peak_has_its_slanted_roof():
    alone = rooflab.load(_SAMPLES / "profiles" / "stream" / "stream.txt")
    drawn = chart.layout(marks.scene("s", [profile(row("k", 1e9, 4e9, 0.1))], [alone]))
    assert [roof.name for roof in drawn.scene.roofs] == ["DRAM"]


def test_nothing_to_draw_is_one_sentence():
    with pytest.raises(RooflabError, match="no operation with known FLOP, bytes and time"):
        marks.scene("p", [profile(row("a", None, None, 1.0))])


@pytest.fixture(scope="module")
def several():
    """Files of four vendors' tools, with roofs and without."""
    return rooflab.load(
        _SAMPLES / "h200" / "ncu_raw.csv",
        _SAMPLES / "h200" / "trace_ops.json.gz",
        _SAMPLES / "profiles" / "mixbench" / "cuda.txt",
        _SAMPLES / "profiles" / "carm_applications" / "node9_applications.csv",
        _SAMPLES / "profiles" / "carm" / "node9_roofline.csv",
    )


@pytest.mark.parametrize("width", [248, 720, 810])
def test_no_label_lies_on_another_or_outside(several, width):
    scenes = [marks.scene("all", several.profiles, several.machines)]
    scenes += [marks.scene(one.name, [one]) for one in several.profiles]
    for scene in scenes:
        drawn = chart.layout(scene, width)
        for placed, plane in ((drawn.placed, drawn.plane), (drawn.strip_placed, drawn.strip)):
            boxes = [label.box for label in placed]
            assert not any(labels.overlap(a, b) for a, b in itertools.combinations(boxes, 2))
            assert plane is None or all(labels.inside(box, plane.frame()) for box in boxes)
        assert any(label.key.startswith("roof") for label in drawn.placed) or not scene.roofs


@pytest.mark.slow
def test_pictures_and_a_page_are_written(tmp_path):
    found = rooflab.load(_SAMPLES / "h200" / "ncu_raw.csv")
    names = [tmp_path / name for name in ("p.svg", "p.png", "p.html")]
    found.save(*names)
    assert "bf16 matrix" in names[0].read_text()
    assert names[1].read_bytes().startswith(b"\x89PNG")
    page = names[2].read_text()
    assert 'id="roofline"' in page
    assert "vegaEmbed" not in page  # explored without a library
