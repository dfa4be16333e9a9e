"""Pictures in files: their size as printed, their type, fonts and resolution."""

from __future__ import annotations

import itertools
import re
import struct

import pytest

import rooflab
from rooflab.errors import RooflabError, UnknownNameError
from rooflab.views.common import style


@pytest.fixture(scope="module")
def machine():
    return rooflab.machine("h200-sxm")


def points(svg: str, inches: float) -> list[float]:
    """The size of every text in points as printed."""
    pixels = float(re.search(r'viewBox="0 0 ([\d.]+)', svg)[1])
    return [float(size) * inches * 72 / pixels for size in re.findall(r'font-size="([\d.]+)px"', svg)]


@pytest.mark.parametrize(("name", "inches"), [("paper", 3.5), ("paper-wide", 7.0)])
def test_a_printed_picture_has_its_width_and_type_of_seven_points(machine, tmp_path, name, inches):
    path = tmp_path / "a.svg"
    machine.save(path, style=name)
    svg = path.read_text()
    assert f'width="{inches:g}in"' in svg
    sizes = points(svg, inches)
    assert len(sizes) > 10
    assert min(sizes) >= 7.0


def test_a_printed_png_has_300_dots_an_inch_and_a_pdf_its_points_and_fonts(machine, tmp_path):
    png, pdf = tmp_path / "a.png", tmp_path / "a.pdf"
    machine.save(png, pdf, style="paper")
    raw = png.read_bytes()
    width, _ = struct.unpack(">II", raw[16:24])
    assert width == pytest.approx(3.5 * 300, abs=1)
    at = raw.index(b"pHYs") + 4
    assert struct.unpack(">IIB", raw[at : at + 9]) == (11811, 11811, 1)  # 300 / 0.0254
    assert raw.count(b"pHYs") == 1
    assert b"/MediaBox [0 0 252 " in pdf.read_bytes()  # 3.5 in × 72
    assert b"/FontFile2" in pdf.read_bytes()


def test_scale_is_pixels_for_one_of_the_chart(machine, tmp_path):
    one, three = tmp_path / "1.png", tmp_path / "3.png"
    machine.save(one, scale=1)
    machine.save(three, scale=3)
    widths = [struct.unpack(">I", path.read_bytes()[16:20])[0] for path in (one, three)]
    assert widths[1] == 3 * widths[0]


def test_a_wrong_style_or_scale_writes_nothing(machine, tmp_path):
    with pytest.raises(UnknownNameError, match="style 'papr'"):
        machine.save(tmp_path / "a.png", style="papr")
    with pytest.raises(RooflabError, match=r"scale 0: expected a number from 0\.25 to 16"):
        machine.save(tmp_path / "a.png", scale=0)
    assert list(tmp_path.iterdir()) == []


def test_colours_of_print_are_apart_in_grey():
    def grey(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) for i in (1, 3, 5)]
        return sum(weight * part for weight, part in zip((0.299, 0.587, 0.114), parts, strict=True))

    theme = style.PAPER
    greys = sorted(grey(each) for each in theme.caches)
    assert min(b - a for a, b in itertools.pairwise(greys)) > 15
