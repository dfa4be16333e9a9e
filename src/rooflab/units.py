"""SI constants, parsing ("3.35 TB/s") and formatting; the only place where a prefix is written.

GB is 1e9 bytes and GiB is 2**30: the label always says which. A bit is not a byte: "Gb/s" and
"Gbit/s" are bits and are divided by eight. One fused multiply-add is two FLOP.
"""

from __future__ import annotations

import math
import re
from typing import NamedTuple

from rooflab.errors import RooflabError

KILO, MEGA, GIGA, TERA, PETA, EXA = 1e3, 1e6, 1e9, 1e12, 1e15, 1e18
KIB, MIB, GIB, TIB = 2**10, 2**20, 2**30, 2**40
FLOP_PER_FMA = 2

_SI = {"": 1.0, "k": KILO, "K": KILO, "M": MEGA, "G": GIGA, "T": TERA, "P": PETA, "E": EXA}
_BINARY = {"Ki": KIB, "Mi": MIB, "Gi": GIB, "Ti": TIB}
_SMALL = {"": 1.0, "m": 1e-3, "u": 1e-6, "µ": 1e-6, "μ": 1e-6, "n": 1e-9, "p": 1e-12}


class _Symbol(NamedTuple):
    """How a unit's symbol is read: its dimension, its size in base units, the prefixes it takes."""

    dimension: str
    factor: float
    prefixes: dict[str, float]


_LARGE = {**_SI, **_BINARY}
_SYMBOLS = {
    "B": _Symbol("byte", 1, _LARGE),
    "byte": _Symbol("byte", 1, {"": 1.0}),
    "bytes": _Symbol("byte", 1, {"": 1.0}),
    "B/s": _Symbol("byte/s", 1, _LARGE),
    "b/s": _Symbol("byte/s", 1 / 8, _LARGE),
    "bit/s": _Symbol("byte/s", 1 / 8, _LARGE),
    "bps": _Symbol("byte/s", 1 / 8, _SI),
    "FLOP": _Symbol("flop", 1, _SI),
    "FLOP/s": _Symbol("flop/s", 1, _SI),
    "FLOPS": _Symbol("flop/s", 1, _SI),
    "OP/s": _Symbol("op/s", 1, _SI),
    "OPS": _Symbol("op/s", 1, _SI),
    "inst/s": _Symbol("inst/s", 1, _SI),
    "transaction/s": _Symbol("transaction/s", 1, _SI),
    "IOPS": _Symbol("transaction/s", 1, _SI),
    "T/s": _Symbol("transfer/s", 1, _SI),
    "Hz": _Symbol("hertz", 1, _SI),
    "s": _Symbol("s", 1, _SMALL),
    "sec": _Symbol("s", 1, {"": 1.0}),
    "min": _Symbol("s", 60, {"": 1.0}),
    "W": _Symbol("watt", 1, {**_SI, "m": 1e-3}),
}
_EXAMPLES = {
    "byte": "80 GB or 32 KiB",
    "byte/s": "3.35 TB/s",
    "flop": "2 GFLOP",
    "flop/s": "989 TFLOP/s",
    "op/s": "1979 TOP/s",
    "inst/s": "1 Ginst/s",
    "transaction/s": "100 kIOPS",
    "transfer/s": "6.4 GT/s",
    "hertz": "1.98 GHz",
    "s": "90 ns",
    "watt": "700 W",
}
# "Gbps" is a gigabit, "GBps" a gigabyte, per second: both are met in datasheets.
_SYMBOLS["Bps"] = _Symbol("byte/s", 1, _LARGE)

_QUANTITY = re.compile(r"^\s*([+-]?(?:\d[\d_,]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*(\S.*?)?\s*$")
# A decimal comma read as one of thousands would make fifteen of 1,5.
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(?:,\d{3})+(?:\.\d*)?(?:[eE][+-]?\d+)?")


def parse(text: str, dimension: str) -> float:
    """The quantity written in `text`, in base units of `dimension`.

    Args:
        text: a number and its unit, such as "3.35 TB/s", "32 KiB", "1.98 GHz", "90 ns".
        dimension: "byte", "byte/s", "flop", "flop/s", "op/s", "inst/s", "transaction/s",
            "transfer/s", "hertz", "s" or "watt".

    Raises:
        RooflabError: not a number, no unit, or a unit of another dimension.

    >>> parse("32 KiB", "byte")
    32768.0
    >>> parse("400 Gb/s", "byte/s")
    50000000000.0
    """
    value, kind = parse_any(text)
    if kind != dimension:
        raise RooflabError(f"{text!r} is in {kind}, expected {dimension}, such as {_EXAMPLES[dimension]!r}")
    return value


def parse_any(text: str) -> tuple[float, str]:
    """The quantity written in `text` in base units, and its dimension (see `parse`).

    Raises:
        RooflabError: not a number, or no known unit.
    """
    match = _QUANTITY.match(text)
    if match is None:
        raise RooflabError(f"{text!r} is not a quantity, expected a number and a unit, such as '3.35 TB/s'")
    number, unit = match.groups()
    if not unit:
        raise RooflabError(f"{text!r} has no unit, expected a number and a unit, such as '3.35 TB/s'")
    if "," in number and not _THOUSANDS.fullmatch(number):
        raise RooflabError(
            f"{text!r} has a comma that does not part thousands, expected a decimal point, such as '3.35 TB/s'"
        )
    symbol, factor = _resolve(unit)
    value = float(number.replace(",", "").replace("_", "")) * factor
    if not math.isfinite(value):
        raise RooflabError(f"{text!r} is too large a number, expected one such as '3.35 TB/s'")
    # 3.35 * 1e12 is 3350000000000.0004 in binary: the nearest whole number is what was written.
    return (float(round(value)) if abs(value) >= 1 and _nearly_whole(value) else value), symbol.dimension


def _nearly_whole(value: float) -> bool:
    return math.isclose(value, round(value), rel_tol=1e-14)


def _resolve(unit: str) -> tuple[_Symbol, float]:
    """The symbol that `unit` ends in and the unit's size in base units."""
    for name in sorted(_SYMBOLS, key=len, reverse=True):
        if unit.endswith(name):
            symbol, prefix = _SYMBOLS[name], unit[: len(unit) - len(name)]
            if prefix in symbol.prefixes:
                return symbol, symbol.factor * symbol.prefixes[prefix]
    symbols = ", ".join(sorted(_SYMBOLS))
    raise RooflabError(
        f"unknown unit {unit!r}, expected a prefix (k, M, G, T, P, Ki, Mi, Gi) and one of {symbols}"
    )


def si(value: float | None, unit: str, digits: int = 3) -> str:
    """`value` with an SI prefix, `digits` significant digits and `unit`; "unknown" for None.

    >>> si(3.35e12, "B/s")
    '3.35 TB/s'
    >>> si(9.2e-8, "s")
    '92.0 ns'
    """
    if value is None:
        return "unknown"
    if value == 0 or not math.isfinite(value):
        return f"{value:g} {unit}"
    small = (("n", 1e-9), ("µ", 1e-6), ("m", 1e-3))
    large = (("", 1.0), ("k", KILO), ("M", MEGA), ("G", GIGA), ("T", TERA), ("P", PETA), ("E", EXA))
    prefix, scale = "", 1.0
    for name, size in (*small, *large) if unit == "s" else large:
        # Rounding to `digits` may carry into the next prefix: 999.96 GB/s prints as 1.00 TB/s.
        if abs(value) >= size * (1 - 0.5 * 10**-digits) or (unit == "s" and name == "n"):
            prefix, scale = name, size
    if unit == "s" and scale >= KILO:
        prefix, scale = "", 1.0
    return f"{_significant(value / scale, digits)} {prefix}{unit}"


def iec(nbytes: float | None, digits: int = 4) -> str:
    """`nbytes` with a binary prefix ("32 KiB"): for capacities of caches; "unknown" for None."""
    if nbytes is None:
        return "unknown"
    for name, size in (("TiB", TIB), ("GiB", GIB), ("MiB", MIB), ("KiB", KIB)):
        if abs(nbytes) >= size:
            return f"{nbytes / size:.{digits}g} {name}"
    return f"{nbytes:.{digits}g} B"


def duration(seconds: float | None) -> str:
    """`seconds` as people say it, from nanoseconds to years; "unknown" for None."""
    if seconds is None:
        return "unknown"
    for name, size in (("years", 365.25 * 86400), ("days", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size or (name == "years" and seconds >= size):
            return f"{_significant(seconds / size, 3)} {name}"
    return si(seconds, "s")


def percent(share: float | None, decimals: int = 0) -> str:
    """`share` of a whole in percent, with so many `decimals`; "unknown" for None.

    >>> percent(0.4869, 1), percent(1.0)
    ('48.7 %', '100 %')
    """
    # A space before the sign, as before any unit (SI brochure, 9th edition, 5.4.7).
    return "unknown" if share is None else f"{share * 100:.{decimals}f} %".replace("-", "−")


def number_or_text(text: str) -> bool | float | str | tuple[int, ...]:
    """What `text` says: a whole number or several, a number, "true" or "false" as a bool, else the text itself.

    >>> number_or_text("3"), number_or_text("0.5"), number_or_text("True"), number_or_text("same")
    (3, 0.5, True, 'same')
    >>> number_or_text("0,-1")
    (0, -1)
    """
    if re.fullmatch(r"-?\d+(,-?\d+)+", text):
        return tuple(int(one) for one in text.split(","))
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            # not a number of that sort: the next, and in the end the text, is meant
            continue
    return text


def _significant(value: float, digits: int) -> str:
    """`value` rounded to `digits` significant digits, never in scientific notation."""
    whole = max(0, digits - 1 - math.floor(math.log10(abs(value)))) if value else 0
    rounded = round(value, whole)
    if rounded and math.floor(math.log10(abs(rounded))) > math.floor(math.log10(abs(value))):
        whole = max(0, whole - 1)
    return f"{rounded:,.{whole}f}"
