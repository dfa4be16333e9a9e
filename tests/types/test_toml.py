"""The TOML form of a machine: written and read back equal, and every bad file refused with its field."""

from __future__ import annotations

import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rooflab.errors import FileError
from rooflab.types.core_timing import CoreTiming
from rooflab.types.machine import (
    Check,
    Curve,
    Level,
    Link,
    Machine,
    Part,
    Plateau,
    Point,
    Rate,
    Runtime,
    Source,
)
from rooflab.types.toml import dumps, loads

HEAD = """
name = "Toy"
kind = "gpu"
source = "page"

[sources.page]
kind = "datasheet"
ref = "a page"
"""


def level(body: str) -> str:
    return f'{HEAD}\n[[levels]]\nname = "HBM"\nsource = "page"\n{body}\n'


def rate(body: str) -> str:
    return level(f'[[levels.rates]]\nwhat = "read"\nbasis = "theoretical"\n{body}')


def peak(body: str) -> str:
    return f'{HEAD}\n[[peaks]]\nwhat = "fma"\nbasis = "theoretical"\nsource = "page"\n{body}\n'


# --- what is read


@pytest.mark.parametrize(
    ("written", "expected", "per_s"),
    [
        ('value = "3.35 TB/s"', 3.35e12, "byte"),
        ('value = "400 Gb/s"', 50e9, "byte"),  # bits
        ('value = "989.4 TFLOP/s"', 989.4e12, "flop"),
        ('value = "1979 TOP/s"', 1979e12, "op"),
        ('value = "1830 MHz"', 1.83e9, "cycle"),
        ('value = 3.35e12\nper_s = "byte"', 3.35e12, "byte"),
    ],
)
def test_a_rate_says_what_it_counts_by_its_unit(written: str, expected: float, per_s: str) -> None:
    read = loads(rate(f'{written}\nsource = "page"'), "toy.toml").levels[0].rates[0]
    assert (read.value, read.per_s) == (expected, per_s)


def test_quantities_with_units_and_sources_by_key() -> None:
    body = 'capacity_bytes = "80 GB"\nline_bytes = "128 B"\ntransfers_per_s = "6.4 GT/s"\nlatency_s = "90 ns"'
    machine = loads(level(body), "toy.toml")
    hbm = machine.levels[0]
    assert (hbm.capacity_bytes, hbm.line_bytes, hbm.transfers_per_s) == (80e9, 128, 6.4e9)
    assert hbm.latency_s == pytest.approx(90e-9)
    assert hbm.source == machine.source == Source("datasheet", "a page")


def test_an_unquoted_date_is_a_date() -> None:
    machine = loads(HEAD + "date = 2026-11-27\n", "toy.toml")
    assert machine.source.date == "2026-11-27"


# --- what is refused: (file, what the message says after the path)

VALUE = "levels[0].rates[0].value"
REFUSED = [
    ("year = 1\nname = nope", "not valid TOML: Invalid value (at line 2, column 8)"),
    ("schema = 9\nnews = 1", "schema: got 9, newer than this rooflab reads (1); update rooflab"),
    (HEAD + "[[levels]]\nname = 'HBM'\n", "levels[0]: no source; every number needs one"),
    (rate('value = "3 TB/s"'), "levels[0].rates[0]: no source; every number needs one"),
    (
        rate('value = "3 TB/s"\nsource = "pgae"'),
        "levels[0].rates[0].source: no source 'pgae' in [sources]; did you mean page?",
    ),
    (HEAD + "[[links]]\nname = 'x'\nto = 'y'\n", "links[0]: no source"),
    ("name = 'x'\nkind = 'gpu'\n", "no source; every number needs one"),
    (level('capactiy_bytes = "80 GB"'), "levels[0].capactiy_bytes: unknown key; did you mean capacity_bytes"),
    (level('capacity_bytes = "80"'), "levels[0].capacity_bytes: '80' has no unit, expected a number and a unit"),
    (level('capacity_bytes = "80 GB/s"'), "levels[0].capacity_bytes: '80 GB/s' is in byte/s, expected byte"),
    (
        level("capacity_bytes = 80"),
        "levels[0].capacity_bytes: got 80, which looks like a bare magnitude: write '80 GB'",
    ),
    (level("latency_s = 90"), "levels[0].latency_s: got 90, which looks like a bare magnitude: write '90 ns'"),
    (level("transfers_per_s = 6.4"), "levels[0].transfers_per_s: got 6.4, which looks like a bare magnitude"),
    (level("capacity_bytes = nan"), "levels[0].capacity_bytes: got nan, expected a finite number"),
    (level("capacity_bytes = inf"), "levels[0].capacity_bytes: got inf, expected a finite number"),
    (level("capacity_bytes = -1e9"), "levels[0].capacity_bytes: got -1e+09, expected a positive number"),
    (level("capacity_bytes = 0"), "levels[0].capacity_bytes: got 0, expected a positive number"),
    (level("ways = true"), "levels[0].ways: Expected 'int | null', got 'bool'"),
    (
        rate('value = 3350\nper_s = "byte"\nsource = "page"'),
        f"{VALUE}: got 3350, which looks like a bare magnitude: write '3350 GB/s' or base units",
    ),
    (rate('value = "3350"\nsource = "page"'), f"{VALUE}: '3350' has no unit"),
    (
        rate('value = "3 TB/s"\nper_s = "flop"\nsource = "page"'),
        f"{VALUE}: got '3 TB/s', in byte/s; expected flop per second",
    ),
    (
        rate('value = 3e12\nsource = "page"'),
        f"{VALUE}: got 3000000000000.0, which has no unit: write it with one ('3.35 TB/s'), or add per_s",
    ),
    (
        peak('value = 989.4\nper_s = "flop"'),
        "peaks[0].value: got 989.4, which looks like a bare magnitude: write '989 TFLOP/s'",
    ),
    (peak('value = "989 TFLOP/s"\nengine = "tensor"'), "peaks[0].engine: Invalid enum value 'tensor'"),
    (HEAD.replace('"gpu"', '"GPU"'), "kind: Invalid enum value 'GPU'"),
    (HEAD + "levels = 3\n", "sources.page.levels: unknown key"),
    ("levels = 3\n" + HEAD, "levels: got 3, expected an array of tables ([[levels]])"),
    ("tdp_w = 'high'\n" + HEAD, "tdp_w: 'high' is not a quantity"),
]


@pytest.mark.parametrize(("text", "message"), REFUSED)
def test_a_bad_file_is_refused_in_one_line_with_its_field(text: str, message: str) -> None:
    with pytest.raises(FileError) as caught:
        loads(text, "toy.toml")
    shown = str(caught.value)
    assert shown.startswith(f"toy.toml: {message}")
    assert "\n" not in shown


# --- round trip

names = st.text(string.printable + "µ×\U0001f40e", min_size=1, max_size=12)
positive = st.floats(min_value=1e7, max_value=1e18)
brief = st.floats(min_value=1e-12, max_value=9.0)
share = st.floats(min_value=0, max_value=1)
count = st.integers(min_value=1, max_value=10**6)
sources = st.builds(
    Source,
    st.sampled_from(["datasheet", "measured", "derived", "assumed"]),
    names,
    st.none() | st.just("2026-11-27"),
)
rates = st.builds(
    Rate,
    value=positive,
    per_s=st.sampled_from(["byte", "flop", "op", "inst", "transaction", "cycle"]),
    what=names,
    basis=st.sampled_from(["theoretical", "attained"]),
    source=sources,
    dtype=st.none() | names,
    engine=st.sampled_from([None, "vector", "matrix"]),
    scope=st.sampled_from(["core", "sm", "all"]),
    threads=st.none() | count,
    clock_hz=st.none() | positive,
    median=st.none() | positive,
    spread=st.none() | share,
    runs=st.none() | count,
)
levels = st.builds(
    Level,
    name=names,
    source=sources,
    capacity_bytes=st.none() | positive,
    shared_by=st.none() | count,
    latency_s=st.none() | brief,
    latency_source=st.none() | sources,
    rates=st.lists(rates, max_size=2).map(tuple),
    note=st.none() | names,
)
series = st.lists(st.floats(min_value=0, max_value=1e18), min_size=0, max_size=20).map(tuple)
curves = st.builds(
    Curve,
    name=names,
    x_unit=st.just("byte"),
    y_unit=st.just("byte/s"),
    scope=st.just("all"),
    x=series,
    best=series,
    median=series,
    source=sources,
    plateaus=st.lists(st.builds(Plateau, level=names, first=share, last=positive, value=positive), max_size=2).map(
        tuple
    ),
)
machines = st.builds(
    Machine,
    name=names,
    kind=st.sampled_from(["cpu", "gpu", "system"]),
    source=sources,
    year=st.none() | st.integers(1990, 2030),
    aliases=st.lists(names, max_size=2).map(tuple),
    parts=st.lists(st.builds(Part, name=names, count=count, source=sources), max_size=1).map(tuple),
    levels=st.lists(levels, max_size=3).map(tuple),
    peaks=st.lists(rates, max_size=2).map(tuple),
    links=st.lists(
        st.builds(Link, name=names, to=names, source=sources, duplex=st.none() | st.booleans()), max_size=1
    ).map(tuple),
    runtimes=st.lists(
        st.builds(Runtime, framework=names, source=sources, dispatch_s=st.none() | brief), max_size=1
    ).map(tuple),
    points=st.lists(
        st.builds(Point, name=names, flop=share, bytes=positive, time_s=brief, source=sources), max_size=1
    ).map(tuple),
    checks=st.lists(st.builds(Check, name=names, ok=st.booleans(), message=names), max_size=1).map(tuple),
    curves=st.lists(curves, max_size=1).map(tuple),
    environment=st.dictionaries(
        names, names | st.integers(-9, 9) | share | st.booleans() | st.lists(names, max_size=2), max_size=3
    ),
)


@settings(max_examples=60, deadline=None)
@given(machines)
def test_what_is_written_is_read_back_equal(machine: Machine) -> None:
    assert loads(dumps(machine), "toy.toml") == machine


def test_equal_sources_are_written_once_and_numbers_in_lines() -> None:
    source = Source("measured", "rooflab measure", "2026-11-27")
    curve = Curve(
        name="read bandwidth",
        x_unit="byte",
        y_unit="byte/s",
        scope="all",
        x=tuple(float(2**power) for power in range(12, 32)),
        best=(1e9,) * 20,
        median=(1e9,) * 20,
        source=source,
    )
    text = dumps(Machine(name="host", kind="cpu", source=source, curves=(curve,)))
    assert text.count("rooflab measure") == 1
    assert len(text.splitlines()) < 40  # 60 numbers, not one a line


def test_operations_of_a_core_come_back():
    # a table of its own, with tables of numbers by kind; nothing at all is a latency too
    core = CoreTiming(
        cycle_s=0.3e-9,
        latency={"fp add": 4.0, "store forward integer": 0.0},
        throughput={"call exp fp64": 13.0},
        missed_branch=17.0,
        source=Source("measured", "rooflab measure"),
    )
    machine = Machine(name="host", kind="cpu", source=Source("measured", "rooflab measure"), core=core)
    assert loads(dumps(machine), "host.toml") == machine
