"""How a picture in a file looks: for a screen, dark, or as wide as a column of a printed page."""

from __future__ import annotations

import re
import struct
import zlib
from typing import NamedTuple

from rooflab.errors import RooflabError, UnknownNameError
from rooflab.views.common.theme import DARK, LIGHT, PAPER, Theme

POINTS_AN_INCH = 72.0
SCALES = (0.25, 16.0)  # what --scale may be: beyond, a PNG is no picture or does not fit in memory


class Style(NamedTuple):
    """A look.

    Attributes:
        theme: colours.
        inches: width of the whole picture as printed; None where it is a screen's.
        pixels: width that it is laid out in. Its smallest type is 11 pixels: printed, that is
            11 × 72 × inches ÷ pixels points, 7.3 of "paper".
        dpi: of a PNG as printed.
    """

    name: str
    theme: Theme = LIGHT
    inches: float | None = None
    pixels: int = 0
    dpi: float = 300.0


# 3.5 in is a column of a page in two columns (IEEE, ACM), 7 in both of them.
STYLES = {
    style.name: style
    for style in (
        Style("screen"),
        Style("dark", DARK),
        Style("paper", PAPER, 3.5, 380),
        Style("paper-wide", PAPER, 7.0, 760),
    )
}
SCREEN = STYLES["screen"]


def find(name: str) -> Style:
    """The style called `name`.

    Raises:
        UnknownNameError: there is none.
    """
    if name not in STYLES:
        raise UnknownNameError("style", name, STYLES)
    return STYLES[name]


def check_scale(scale: float | None) -> float | None:
    """`scale` where a PNG can have it.

    Raises:
        RooflabError: it cannot.
    """
    if scale is not None and not SCALES[0] <= scale <= SCALES[1]:
        raise RooflabError(f"scale {scale:g}: expected a number from {SCALES[0]:g} to {SCALES[1]:g}, such as 3")
    return scale


def size_of(svg: str) -> tuple[float, float]:
    """Width and height in pixels of a picture that Vega wrote."""
    found = re.search(r'<svg[^>]*? width="([\d.]+)"[^>]*? height="([\d.]+)"', svg)
    assert found is not None, "an SVG by Vega states its size"
    return float(found[1]), float(found[2])


def printed(svg: str, width: float, unit: str = "in") -> str:
    """`svg` so that it is `width` wide wherever it is placed."""
    across, down = size_of(svg)
    return re.sub(
        r'(<svg[^>]*?) width="[\d.]+"([^>]*?) height="[\d.]+"',
        rf'\1 width="{width:g}{unit}"\2 height="{width * down / across:.4f}{unit}"',
        svg,
        count=1,
    )


def with_dpi(png: bytes, dpi: float) -> bytes:
    """`png` stating its resolution: programs that place it then know its width in inches (PNG 1.2, pHYs)."""
    head = 8 + 12 + 13  # the signature, and the chunk IHDR, which is first and 13 bytes long
    per_metre = round(dpi / 0.0254)
    body = b"pHYs" + struct.pack(">IIB", per_metre, per_metre, 1)
    chunk = struct.pack(">I", 9) + body + struct.pack(">I", zlib.crc32(body))
    rest = png[head:]
    if rest[4:8] == b"pHYs":  # one is there already: length, name, 9 bytes, checksum
        rest = rest[21:]
    return png[:head] + chunk + rest
