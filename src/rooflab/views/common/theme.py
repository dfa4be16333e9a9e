"""The look that all charts share: colours that stay apart for colour-blind eyes, fonts, text widths."""

from __future__ import annotations

from typing import NamedTuple

from rooflab.types.machine import Level, is_main_memory

FONT = "Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif"
FONT_SIZE = 11.5


class Theme(NamedTuple):
    """Colours of one background. `near` and `far` shade the cache levels, nearest first.

    All have a contrast of at least 4.5 to the background, so that text may wear them, and differ in
    lightness or in blue against yellow, the axis that red-green blindness leaves.
    """

    background: str
    ink: str
    muted: str
    grid: str
    caches: tuple[str, ...]
    memory: str
    point: str


LIGHT = Theme(
    background="#ffffff",
    ink="#1d2329",
    muted="#5b6570",
    grid="#e6e9ec",
    caches=("#5b3fa0", "#1765a8", "#0b7a75", "#4f6f1f"),
    memory="#935600",
    point="#b3261e",
)
DARK = Theme(
    background="#14181c",
    ink="#e6e9ec",
    muted="#9aa5b0",
    grid="#2a3138",
    caches=("#b7a1f0", "#6fb4ee", "#4fc3b5", "#a9c96a"),
    memory="#eaa94a",
    point="#ff8a7a",
)
# In print: dark, and apart in lightness too where shapes and names do not say enough, for copies in grey.
PAPER = Theme(
    background="#ffffff",
    ink="#000000",
    muted="#4d4d4d",
    grid="#e3e3e3",
    caches=("#2d1160", "#0b4f96", "#0a7d72", "#7d7a00"),
    memory="#a04a00",
    point="#c2185b",
)


def level_colours(levels: tuple[Level, ...], theme: Theme) -> dict[str, str]:
    """The colour of each level by name: caches in order from near, one colour for the main memory."""
    colours, caches = {}, 0
    for level in levels:
        if is_main_memory(level):
            colours[level.name] = theme.memory
        else:
            colours[level.name] = theme.caches[caches % len(theme.caches)]
            caches += 1
    return colours


def config(theme: Theme) -> dict[str, object]:
    """Vega-Lite's `config` for `theme`."""
    axis = {
        "labelColor": theme.muted,
        "titleColor": theme.ink,
        "gridColor": theme.grid,
        "domainColor": theme.muted,
        "tickColor": theme.muted,
        "labelFontSize": 11,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "titlePadding": 8,
        "tickSize": 4,
        "grid": True,
    }
    return {
        "font": FONT,
        "background": theme.background,
        "padding": 12,
        "view": {"stroke": None},
        "axis": axis,
        "title": {
            "anchor": "start",
            "frame": "bounds",
            "color": theme.ink,
            "fontSize": 16,
            "fontWeight": 600,
            "subtitleColor": theme.muted,
            "subtitleFontSize": 12,
            "subtitlePadding": 5,
            "offset": 14,
        },
        "legend": {"labelColor": theme.ink, "titleColor": theme.muted, "labelFontSize": 11.5, "symbolSize": 120},
    }


# Advance widths in thousandths of an em: of each letter the larger of Helvetica's (Adobe's font metrics) and
# DejaVu Sans's (its table hmtx), the widest of `FONT`: a label fits its box in whichever of them it is written.
_WIDE = {
    **dict.fromkeys("'ijlI", 295),
    **dict.fromkeys(" ,.·", 318),
    **dict.fromkeys("/:;|", 337),
    **dict.fromkeys("f-", 361),
    **dict.fromkeys("()[]t!", 396),
    "r": 411,
    **dict.fromkeys("Jsz", 525),
    **dict.fromkeys('c"*?_`–²³L', 557),
    **dict.fromkeys("kvxy", 592),
    **dict.fromkeys("FToae", 615),
    **dict.fromkeys("EKPSYAVXZB", 686),
    **dict.fromkeys("CRUNH", 752),
    **dict.fromkeys("DG&OQ", 787),
    **dict.fromkeys("w#+<=>~×≥≤÷", 838),
    "M": 863,
    "%": 950,
    **dict.fromkeys("mW", 989),
    **dict.fromkeys("@…", 1000),
}
_OTHER = 636  # digits and most lower-case letters
BOLD = 1.12  # times as wide as regular type: DejaVu Sans Bold, 696 for a digit's 636, letters a little more


def text_width(text: str, size: float = FONT_SIZE) -> float:
    """Pixels that `text` takes at font size `size` in the widest font that it may be written in."""
    return sum(_WIDE.get(char, _OTHER) for char in text) / 1000 * size


def shorten(text: str, width: float, size: float) -> str:
    """`text` cut to `width` pixels, with an ellipsis where it was cut."""
    if text_width(text, size) <= width:
        return text
    while text and text_width(text + "…", size) > width:
        text = text[:-1]
    return text.rstrip() + "…"
