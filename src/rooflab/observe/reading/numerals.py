"""Numbers as tools print them: thousands separators, decimal commas, scaled units."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

_PLAIN = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_GROUPS_COMMA = re.compile(r"[-+]?\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_GROUPS_OTHER = re.compile(r"[-+]?\d{1,3}(?:[.\u00a0\u202f' ]\d{3})+(?:,\d+)?")
_GROUPS_DOT = re.compile(r"[-+]?\d{1,3}(?:[\u00a0\u202f' ]\d{3})+\.\d+")  # 1'234.5, as the Swiss write, or 1 234.5
_DECIMAL_COMMA = re.compile(r"[-+]?\d+,\d+")
# What only one of the two ways of writing numbers can mean.
_SURELY_COMMA_DECIMAL = re.compile(
    r"[-+]?(?:\d{1,3}(?:[.\u00a0\u202f' ]\d{3})+,\d+|\d+,(?:\d{1,2}|\d{4,})|0,\d+|\d{4,},\d+)"
)
_SURELY_DOT_DECIMAL = re.compile(r"[-+]?(?:\d{1,3}(?:,\d{3})+\.\d+|\d+\.(?:\d{1,2}|\d{4,})|0\.\d+|\d{4,}\.\d+)")
_THOUSANDS_DOTS = re.compile(r"[-+]?[1-9]\d{0,2}(?:\.\d{3})+")

_PREFIX = {
    "": 1.0,
    "n": 1e-9,
    "u": 1e-6,
    "µ": 1e-6,
    "m": 1e-3,
    "k": 1e3,
    "K": 1e3,
    "M": 1e6,
    "G": 1e9,
    "T": 1e12,
    "P": 1e15,
}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}
_WORDS = ("byte", "bytes", "B", "second", "s", "hz", "Hz", "cycle", "inst", "sector", "warp", "thread", "block")
_LONG = {
    "nsecond": 1e-9,
    "usecond": 1e-6,
    "msecond": 1e-3,
    "nanosecond": 1e-9,
    "microsecond": 1e-6,
    "sec": 1.0,
    "hour": 3600.0,
}
_PERCENT = ("%", "pct")


def decimal_comma(texts: Iterable[str], whole: Iterable[str] = ()) -> bool:
    """Whether numbers among `texts` are written with a comma before their fraction.

    Args:
        texts: the numbers as printed, others among them.
        whole: those of them that count whole things: a dot in "117.344" of these is one between thousands, unless
            another number says that a dot stands before the fraction.
    """
    stripped = [text.strip() for text in texts]
    if any(_SURELY_COMMA_DECIMAL.fullmatch(text) for text in stripped):
        return True
    if any(_SURELY_DOT_DECIMAL.fullmatch(text) for text in stripped):
        return False
    twice = any(text.count(".") > 1 and _THOUSANDS_DOTS.fullmatch(text) for text in stripped)
    return twice or any(_THOUSANDS_DOTS.fullmatch(text.strip()) for text in whole)


def numeral(text: str, comma: bool = False) -> float | None:
    """The number that `text` is, with or without thousands separators; None for what is no finite number.

    Args:
        text: such as "134,221,568" or, with `comma`, "134.221.568,5".
        comma: whether the file writes decimal commas.
    """
    text = text.strip()
    if comma:
        if _GROUPS_OTHER.fullmatch(text) or _DECIMAL_COMMA.fullmatch(text):
            text = re.sub(r"[.\u00a0\u202f' ]", "", text).replace(",", ".")
    elif _GROUPS_COMMA.fullmatch(text):
        text = text.replace(",", "")
    elif _GROUPS_DOT.fullmatch(text) or (_GROUPS_OTHER.fullmatch(text) and not {".", ","} & set(text)):
        text = re.sub(r"[\u00a0\u202f' ]", "", text)
    if not _PLAIN.fullmatch(text):
        return None
    found = float(text)
    return found if math.isfinite(found) else None


def scale(unit: str) -> float | None:
    """What a number in `unit` is multiplied by to be in base units ("Kbyte" → 1000, "%" → 0.01); None if unknown.

    A unit over another is scaled by both: "Gbyte/s", "byte/cycle", "cycle/nsecond".
    """
    over, slash, under = unit.strip().partition("/")
    first = _one(over.strip())
    if not slash:
        return first
    second = _one(under.strip())
    return None if first is None or not second else first / second


def _one(unit: str) -> float | None:
    if unit in ("", *_WORDS):
        return 1.0
    if unit in _PERCENT:
        return 0.01
    if unit in _LONG:
        return _LONG[unit]
    for word in _WORDS:
        if unit.endswith(word):
            prefix = unit[: -len(word)]
            if prefix in _PREFIX:
                return _PREFIX[prefix]
            if prefix in _BINARY:
                return _BINARY[prefix]
    return 1.0 if unit.isalpha() and len(unit) > 2 else None  # a thing that is counted: "request", "node"
