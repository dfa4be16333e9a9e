"""Quantities: written, read, and written again."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import rooflab
from rooflab.errors import RooflabError
from rooflab.units import (
    FLOP_PER_FMA,
    GIB,
    KIB,
    MIB,
    TIB,
    duration,
    iec,
    number_or_text,
    parse,
    parse_any,
    percent,
    si,
)

READ = (
    ("3.35 TB/s", "byte/s", 3.35e12),
    ("3350 GB/s", "byte/s", 3.35e12),
    ("3,350 GB/s", "byte/s", 3.35e12),
    ("3_350 GB/s", "byte/s", 3.35e12),
    ("3350GB/s", "byte/s", 3.35e12),
    ("3.35e3 GB/s", "byte/s", 3.35e12),
    ("3667 MiB/s", "byte/s", 3667 * 2**20),
    # 8 bits to the byte: b, bit and bps are bits, B and Bps are bytes.
    ("400 Gb/s", "byte/s", 50e9),
    ("400 Gbit/s", "byte/s", 50e9),
    ("400 Gbps", "byte/s", 50e9),
    ("400 GBps", "byte/s", 400e9),
    ("1 Gib/s", "byte/s", 2**30 / 8),
    ("80 GB", "byte", 80e9),
    ("80 GiB", "byte", 80 * 2**30),
    ("32 KiB", "byte", 32768),
    ("64 bytes", "byte", 64),
    ("989 TFLOP/s", "flop/s", 989e12),
    ("989 TFLOPS", "flop/s", 989e12),
    ("2 GFLOP", "flop", 2e9),
    ("1979 TOP/s", "op/s", 1979e12),
    ("1979 TOPS", "op/s", 1979e12),
    ("100 kIOPS", "transaction/s", 1e5),
    ("6.4 GT/s", "transfer/s", 6.4e9),
    ("1.98 GHz", "hertz", 1.98e9),
    ("1830 MHz", "hertz", 1.83e9),
    ("90 ns", "s", 90e-9),
    ("1.5 µs", "s", 1.5e-6),  # U+00B5, the micro sign
    ("1.5 μs", "s", 1.5e-6),  # U+03BC, the Greek letter
    ("1.5 us", "s", 1.5e-6),
    ("2 min", "s", 120),
    ("700 W", "watt", 700),
    ("350 mW", "watt", 0.35),
)


@pytest.mark.parametrize(("text", "dimension", "value"), READ)
def test_a_quantity_is_read_into_base_units(text, dimension, value):
    assert parse(text, dimension) == pytest.approx(value, rel=1e-15)
    assert parse_any(text) == (pytest.approx(value, rel=1e-15), dimension)


REFUSED = (
    ("3.35", "byte/s", "'3.35' has no unit, expected a number and a unit, such as '3.35 TB/s'"),
    ("fast", "byte/s", "'fast' is not a quantity, expected a number and a unit, such as '3.35 TB/s'"),
    ("", "byte/s", "'' is not a quantity, expected a number and a unit, such as '3.35 TB/s'"),
    ("3.35 TB", "byte/s", "'3.35 TB' is in byte, expected byte/s, such as '3.35 TB/s'"),
    ("989 TFLOP", "flop/s", "'989 TFLOP' is in flop, expected flop/s, such as '989 TFLOP/s'"),
    ("1.98 GHz", "s", "'1.98 GHz' is in hertz, expected s, such as '90 ns'"),
)


@pytest.mark.parametrize(("text", "dimension", "message"), REFUSED)
def test_what_is_no_such_quantity_is_refused(text, dimension, message):
    with pytest.raises(RooflabError) as refused:
        parse(text, dimension)
    assert str(refused.value) == message


# A lower-case prefix that means something else ("mB" would be a thousandth of a byte) is no unit at all.
@pytest.mark.parametrize("unit", ["gb/h", "furlong", "mB/s", "XB/s", "GGB/s", "Kib", "nHz", "GiFLOP/s"])
def test_an_unknown_unit_is_refused_with_the_known_ones(unit):
    with pytest.raises(RooflabError, match=f"unknown unit '{unit}', expected a prefix .* and one of B, B/s, "):
        parse_any(f"1 {unit}")


def test_gb_and_gib_of_one_link_agree():
    # Two tools measured the same link: 3667 MiB/s in one, "3.58 GB/s" in the other, which meant GiB.
    value = parse("3667 MiB/s", "byte/s")
    assert si(value, "B/s", digits=4) == "3.845 GB/s"  # 3667 × 1,048,576 = 3,845,128,192
    assert f"{iec(value)}/s" == "3.581 GiB/s"  # 3667 / 1024
    assert parse("3.58 GB/s", "byte/s") != pytest.approx(value, rel=0.05)
    assert parse("3.581 GiB/s", "byte/s") == pytest.approx(value, rel=1e-4)


WRITTEN = (
    (3.35e12, "B/s", 3, "3.35 TB/s"),
    (999.94e9, "B/s", 4, "999.9 GB/s"),
    (999.96e9, "B/s", 4, "1.000 TB/s"),  # rounding carries into the next prefix
    (999.6e9, "B/s", 3, "1.00 TB/s"),
    (999.4e9, "B/s", 3, "999 GB/s"),
    (12.3456, "FLOP", 3, "12.3 FLOP"),
    (0.0833, "FLOP/byte", 3, "0.0833 FLOP/byte"),
    (9.2e-8, "s", 3, "92.0 ns"),
    (9.9996e-7, "s", 3, "1.00 µs"),
    (2.5e-10, "s", 3, "0.250 ns"),
    (1500, "s", 3, "1,500 s"),  # a kilosecond is nobody's unit
    (0, "B/s", 3, "0 B/s"),
    (math.inf, "B/s", 3, "inf B/s"),
    (None, "B/s", 3, "unknown"),  # never zero
)


@pytest.mark.parametrize(("value", "unit", "digits", "text"), WRITTEN)
def test_si(value, unit, digits, text):
    assert si(value, unit, digits) == text


UNITS = {"B": "byte", "B/s": "byte/s", "FLOP": "flop", "FLOP/s": "flop/s", "OP/s": "op/s", "Hz": "hertz", "s": "s"}


@given(
    exponent=st.floats(-12, 19),
    unit=st.sampled_from(sorted(UNITS)),
    digits=st.integers(3, 9),
)
@example(exponent=math.log10(999.96e9), unit="B/s", digits=4)
@example(exponent=math.log10(9.9996e-7), unit="s", digits=3)
def test_what_is_written_reads_back_to_as_many_digits(exponent, unit, digits):
    value = 10**exponent
    # Half a unit of the last digit, and rounding in binary on top.
    assert parse(si(value, unit, digits), UNITS[unit]) == pytest.approx(value, rel=0.5001 * 10 ** (1 - digits))


@given(st.integers(1, 2**50))
def test_a_capacity_reads_back(nbytes):
    assert parse(iec(nbytes, digits=9), "byte") == pytest.approx(nbytes, rel=1e-8)


CAPACITIES = (
    (32 * KIB, "32 KiB"),
    (13.3 * MIB, "13.3 MiB"),
    (80e9, "74.51 GiB"),
    (2 * TIB, "2 TiB"),
    (GIB - MIB, "1023 MiB"),
    (512, "512 B"),
    (None, "unknown"),
)


@pytest.mark.parametrize(("nbytes", "text"), CAPACITIES)
def test_iec(nbytes, text):
    assert iec(nbytes) == text


DURATIONS = (
    (9e-8, "90.0 ns"),
    (8.0, "8.00 s"),
    (119, "119 s"),
    (120, "2.00 min"),
    (2 * 3600, "2.00 h"),
    (3 * 86400, "3.00 days"),
    (366 * 86400, "1.00 years"),
    (None, "unknown"),
)


@pytest.mark.parametrize(("seconds", "text"), DURATIONS)
def test_duration(seconds, text):
    assert duration(seconds) == text


def test_a_multiply_add_is_two_operations():
    assert FLOP_PER_FMA == 2


@pytest.mark.parametrize(
    ("text", "value"),
    [("3", 3), ("-0.5", -0.5), ("1e3", 1000.0), ("True", True), ("false", False), ("same", "same"), ("", "")],
)
def test_a_text_is_read_as_the_number_or_truth_that_it_is(text, value):
    read = number_or_text(text)
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize("text", ["1,5 ms", "1,50 GB", "12,3456 B", ",5 s", "1,,000 B", "1,000,00 B"])
def test_a_decimal_comma_is_refused_rather_than_read_as_thousands(text):
    with pytest.raises(RooflabError, match=r"decimal point|not a quantity"):
        parse_any(text)


def test_commas_part_thousands():
    assert parse("1,500 ms", "s") == 1.5
    assert parse("12,345,678.5 B", "byte") == 12345678.5


@pytest.mark.parametrize(
    ("share", "decimals", "text"),
    [(0.4869, 1, "48.7 %"), (1.0, 0, "100 %"), (1.0039, 2, "100.39 %"), (-0.1, 0, "−10 %"), (None, 0, "unknown")],
)
def test_a_share_in_percent_stands_before_a_space_and_its_sign(share, decimals, text):
    assert percent(share, decimals) == text


def test_percent_is_written_in_one_place():
    # A format such as {share:.1%} writes no space: `units.percent` writes all, signed changes apart.
    source = Path(rooflab.__file__).parent
    own = {source / "views" / "calibration" / "sheet.py"}
    found = [
        f"{path}:{number}"
        for path in source.rglob("*.py")
        if path not in own
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if re.search(r":[+,]*\.\d%\}", line)
    ]
    assert found == []


@pytest.mark.parametrize(
    ("text", "meant"), [("1,2", (1, 2)), ("0,-1,3", (0, -1, 3)), ("1,", "1,"), ("1,x", "1,x"), ("1.5,2", "1.5,2")]
)
def test_several_whole_numbers_are_read_as_such(text, meant):
    assert number_or_text(text) == meant
