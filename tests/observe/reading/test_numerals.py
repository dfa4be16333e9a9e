"""Numbers and units as tools print them."""

from __future__ import annotations

import pytest

from rooflab.observe.reading.numerals import decimal_comma, numeral, scale


@pytest.mark.parametrize(
    ("text", "comma", "number"),
    [
        ("134,221,568", False, 134_221_568),
        ("1,234.5", False, 1234.5),
        ("12.5", False, 12.5),
        ("1e-3", False, 0.001),
        ("-0.018700", False, -0.0187),
        ("134.221.568", True, 134_221_568),
        ("1.234,5", True, 1234.5),
        ("0,31", True, 0.31),
        ("1\u202f234,5", True, 1234.5),
        ("1'234.5", False, 1234.5),
        ("12 345 678.25", False, 12_345_678.25),
        ("nan", False, None),
        ("inf", False, None),
        ("N/A", False, None),
        ("", False, None),
        ("12,34", False, None),
        ("(256, 1, 1)", False, None),
    ],
)
def test_numerals(text, comma, number):
    assert numeral(text, comma) == number


@pytest.mark.parametrize(
    ("texts", "comma"),
    [
        (["1,234", "5,678,901"], False),  # could be either: taken as tools in English write it
        (["1,234", "0,5"], True),
        (["1.234,56"], True),
        (["12,3456"], True),
        (["1234,567"], True),
        (["1.5", "2,000.25"], False),
    ],
)
def test_decimal_commas_show_in_numbers_that_only_they_explain(texts, comma):
    assert decimal_comma(texts) is comma


@pytest.mark.parametrize(
    ("unit", "factor"),
    [
        ("byte", 1),
        ("Kbyte", 1e3),
        ("Mbyte", 1e6),
        ("MiB", 2**20),
        ("Gbyte/s", 1e9),
        ("Tbyte/second", 1e12),
        ("Kbyte/cycle", 1e3),
        ("Ghz", 1e9),
        ("cycle/nsecond", 1e9),
        ("us", 1e-6),
        ("usecond", 1e-6),
        ("ms", 1e-3),
        ("second", 1),
        ("%", 0.01),
        ("inst/cycle", 1),
        ("register/thread", 1),
        ("", 1),
        ("??", None),
    ],
)
def test_units(unit, factor):
    assert scale(unit) == (None if factor is None else pytest.approx(factor))
