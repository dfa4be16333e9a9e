"""The roofline chart: what is drawn, and that no two labels meet."""

from __future__ import annotations

import itertools

import msgspec
import pytest

from rooflab.errors import RooflabError
from rooflab.model.roofline import roofline as model
from rooflab.types.machine import Level, Machine, Rate, Source
from rooflab.views.common import labels
from rooflab.views.common.theme import DARK, LIGHT
from rooflab.views.machine import roofline

SIZES = ((720, 440), (780, 460), (262, 330))


def rows(drawn):
    """All data rows of a chart's specification."""
    return [row for layer in drawn.to_dict()["layer"] for row in layer["data"]["values"]]


def apart(layout):
    """Whether no two labels overlap, nor a label and a point."""
    pairs = itertools.combinations([label.box for label in layout.placed], 2)
    marked = itertools.product(layout.markers, [label.box for label in layout.placed])
    return not any(labels.overlap(a, b) for a, b in (*pairs, *marked))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("which", ["measured", "accelerator"])
def test_labels_are_apart_and_none_that_matters_is_lost(request, which, size):
    found = roofline.layout(request.getfixturevalue(which), "all", *size)
    assert apart(found)
    assert all(labels.inside(label.box, found.plane.frame()) for label in found.placed)
    assert [key for key in found.lost if not key.startswith("ridge")] == []


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES)
def test_labels_of_the_whole_catalogue_are_apart(size):
    from rooflab.machines import catalog

    drawn = 0
    for name in catalog.names():
        machine = catalog.find(name)
        found = model.roofs(machine)
        if not found.bandwidths or not found.peaks:
            continue
        placed = roofline.layout(machine, "all", *size)
        assert apart(placed), name
        assert [key for key in placed.lost if not key.startswith("ridge")] == [], name
        drawn += 1
    assert drawn > 0


def test_levels_of_nearly_one_bandwidth_still_have_apart_labels(measured):
    levels = tuple(
        Level(name=name, source=measured.source, rates=(rate,))
        for name, value in (("L1", 41e9), ("L2", 40.5e9), ("L3", 40e9), ("DRAM", 39e9))
        for rate in [
            Rate(value=value, per_s="byte", what="read", basis="attained", scope="all", source=measured.source)
        ]
    )
    found = roofline.layout(msgspec.structs.replace(measured, levels=levels))
    assert apart(found)
    assert [key for key in found.lost if key.startswith("level")] == []


def test_every_roof_ridge_and_kernel_is_drawn(measured):
    found = rows(roofline.roofline(measured))
    ridges = [row for row in found if "ridge" in row]
    assert len(ridges) == 4 * 4  # L1, L2, L3, DRAM × scalar, fp64, fp32, bf16
    assert {row["kernel"] for row in found if "kernel" in row} == {"triad", "5-point stencil", "NumPy matmul"}
    names = {row["roof"].split()[0] for row in found if "roof" in row}
    assert {"L1", "L2", "L3", "DRAM", "fp64", "fp32", "bf16"} <= names
    assert "disk" not in names
    # matmul: 1.6e10 FLOP in 0.118 s under the fp64 peak of 163 GFLOP/s
    matmul = next(row for row in found if row.get("kernel") == "NumPy matmul")
    assert matmul["attained"] == "136 GFLOP/s at 167 FLOP/byte, 83 % of what fp64 allows"


def test_slanted_labels_lie_along_their_roof(measured):
    found = roofline.layout(measured)
    x0, y0 = found.plane.pixel(1, 1e9)
    x1, y1 = found.plane.pixel(4, 4e9)
    angles = {label.box.angle for label in found.placed if label.key.startswith("level")}
    assert len(angles) == 1
    dx, dy = x1 - x0, y1 - y0
    (angle,) = angles
    assert labels.overlap(labels.Box(0, 0, 100, 1, angle), labels.Box(dx / 8, dy / 8, 1, 1))


def test_plane_pixels_go_there_and_back(measured):
    space = roofline.layout(measured).plane
    assert space.data(*space.pixel(3.5, 7e10)) == pytest.approx((3.5, 7e10))


def test_the_title_says_whose_numbers_they_are(measured, accelerator):
    title = roofline.roofline(measured).to_dict()["title"]
    assert title["text"] == measured.name
    assert " ".join(title["subtitle"]) == (
        "Attained; read bandwidth, all 2 granted cores; GB = 1e9 bytes, one FMA = 2 FLOP"
    )
    title = roofline.roofline(accelerator).to_dict()["title"]
    assert " ".join(title["subtitle"]).startswith("Theoretical; bandwidth, all 132 SMs;")
    assert "one core" in " ".join(roofline.roofline(measured, "core").to_dict()["title"]["subtitle"])


def test_equal_peaks_share_a_line(accelerator):
    flats = roofline.merge(model.roofs(accelerator).peaks)
    assert [flat.text for flat in flats] == [
        "fp64 33.5 TFLOP/s",
        "fp64 matrix, fp32 66.9 TFLOP/s",
        "tf32 matrix 495 TFLOP/s",
        "bf16, fp16 matrix 989 TFLOP/s",
        "fp8 matrix 1.98 PFLOP/s",
    ]


def test_theory_is_drawn_beside_what_was_attained(measured):
    tips = {row["roof"] for row in rows(roofline.roofline(measured)) if "roof" in row}
    assert "L1 theory 461 GB/s" in tips  # 2 cores × 64 B × 3.6 GHz
    assert not any(tip.startswith("L2 theory") for tip in tips)


def test_a_machine_without_roofs_is_refused():
    source = Source(kind="assumed", ref="test")
    with pytest.raises(RooflabError, match=r"^box: no bandwidth of scope 'all', so no roofline"):
        roofline.roofline(Machine(name="box", kind="system", source=source))


def contrast(one, other):
    """WCAG contrast of two colours."""

    def luminance(colour):
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", [LIGHT, DARK])
def test_text_colours_stand_out(theme):
    for colour in (theme.ink, theme.muted, theme.memory, theme.point, *theme.caches):
        assert contrast(colour, theme.background) >= 4.5, colour


def test_an_engine_is_lent_to_no_other_format():
    flat = roofline.Flat(("fp32", "fp64 matrix", "bf16 (dot)", "int8 (dot)"), 1e12, None, "FLOP/s")
    assert flat.short == "fp64 matrix, bf16, int8 (dot), fp32"
