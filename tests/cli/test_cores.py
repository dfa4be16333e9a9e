"""`rooflab simulate … --cores N` as a user meets it: what is printed, JSON, one line for bad input."""

from __future__ import annotations

import json

import pytest

from rooflab.types.core_simulation import CoreSimulation

SMALL = ("--level", "32KiB/8", "--level", "512KiB/8")

PROGRAMS = """\
import numpy as np
from numba import prange


def histogram(keys, counts):
    for i in prange(keys.shape[0]):
        counts[keys[i]] += 1


def histogram_args(n, bins=8):
    return np.arange(n) % bins, np.zeros(bins, np.int64)


def alone(a):
    for i in range(a.shape[0]):
        a[i] = 1.0


def past_the_end(a):
    for i in prange(a.shape[0]):
        a[i + 1] = 1.0


def args(n):
    return (np.zeros(n),)


def message(cores, value=42):
    send = [("store", "data", 0, value), ("store", "flag", 0, 1)]
    read = [("load", "flag", 0), ("load", "data", 0)]
    return [send] + [read] * (cores - 1)


def nothing(cores):
    return None


def broken(cores):
    return 1 // 0
"""


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    path = tmp_path_factory.mktemp("programs") / "mine.py"
    path.write_text(PROGRAMS, encoding="utf-8")
    return path


@pytest.mark.slow
def test_false_sharing_is_told_by_array_and_line(called):
    said = called("simulate", "counters", 1000, "--cores", 2, *SMALL)
    # Each of 2 × 1,000 stores takes the line; the last loss is never asked for again.
    assert "2,000 invalidations by other cores' stores: 0 true sharing, 1,999 false sharing, 1 never" in said
    assert "core 0: count[0] stored; core 1: count[1] stored" in said


@pytest.mark.slow
def test_padding_takes_it_away(called):
    said = called("simulate", "counters", 1000, "--cores", 2, "--set", "padding_bytes=64", *SMALL)
    assert "0 invalidations by other cores' stores" in said


@pytest.mark.slow
def test_json_is_all_of_stdout_and_is_read_back(called, tmp_path):
    path = tmp_path / "found.json"
    text = called(
        "simulate",
        "producer_consumer",
        64,
        "--set",
        "slots=32",
        "--cores",
        2,
        "--protocol",
        "moesi",
        *SMALL,
        "--json",
        "-o",
        path,
    )
    assert json.loads(path.read_text("utf-8")) == json.loads(text)
    found = CoreSimulation.from_dict(json.loads(text))
    assert (found.protocol, found.accesses, found.downgrades) == ("moesi", 128, 0)


@pytest.mark.slow
def test_turns_and_costs_are_taken(called):
    costs = [part for each in ("L1=1", "L2=10", "memory=200", "transfer=80") for part in ("--cost", each)]
    found = json.loads(
        called(
            "simulate",
            "counters",
            100,
            "--cores",
            2,
            "--set",
            "padding_bytes=64",
            *SMALL,
            *costs,
            "--json",
            "--no-races",
        )
    )
    # One miss from memory, then 199 hits of the first level, alike on both
    assert [core["time"] for core in found["cores"]] == [399, 399]
    assert found["races"] is None
    # In turns of a load and a store each store but the first takes a copy: 199, the last never asked for again.
    paired = json.loads(called("simulate", "counters", 100, "--cores", 2, "--quantum", 2, *SMALL, "--json"))
    assert sum(core["false_sharing"] for core in paired["cores"]) == 198


@pytest.mark.slow
def test_a_race_of_a_file_is_named_with_what_could_be_seen(called, programs):
    said = called("simulate", f"{programs}:message", 7, "--cores", 2, *SMALL)
    (row,) = [line for line in said.splitlines() if line.startswith("data[0]")]
    assert " ".join(row.split()) == "data[0] core 0 stores, core 1 loads core 1 7 initial, 7"


@pytest.mark.slow
def test_a_loop_of_a_file_over_prange_is_split(called, programs):
    found = json.loads(
        called("simulate", f"{programs}:histogram", 64, "--cores", 2, "--set", "bins=4", *SMALL, "--json")
    )
    # Each trip loads a key and a counter and stores that; half of the trips a core
    assert [(core["loads"], core["stores"]) for core in found["cores"]] == [(64, 32), (64, 32)]
    assert {(race["array"], race["index"]) for race in found["races"]} == {("counts", bin) for bin in range(4)}
    said = called("simulate", f"{programs}:histogram", 64, "--cores", 2, *SMALL)
    assert "Data races: on 8 items." in said
    assert "- trips of a loop over prange: one block a core" in " ".join(said.split())


def test_streams_of_cores_are_listed(called):
    said = called("simulate", "--list")
    assert "counters --cores N (count, padding_bytes, item_bytes)" in said
    assert "matmul (n, " in said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("counters", 8, *SMALL), "counters is a stream of several cores: give --cores 2"),
        (("counters", "--cores", 2), "counters needs count, such as `rooflab simulate counters 256 --cores 2`"),
        (("counterz", 8, "--cores", 2), "unknown stream of several cores 'counterz'; did you mean counters?"),
        (("counters", 8, 9, 10, 11, "--cores", 2), "counters: 4 values, expected at most 1 (count)"),
        (("counters", 8, "--cores", 2, "--set", "pading_bytes=8"), "'pading_bytes'; did you mean padding_bytes"),
        (("counters", 8, "--cores", 2, "--set", "cores=3"), "unknown setting of counters 'cores'"),
        (("producer_consumer", 64, "--cores", 3), "producer_consumer is of 2 cores, got --cores 3"),
        (("counters", 8, "--cores", 0), "0 is not in the range x>=1"),
        (("counters", 8, "--cores", 65), "65 cores, expected 1 to 64"),
        (("counters", 8, "--cores", 2, "--protocol", "msi"), "unknown protocol 'msi'; did you mean mesi, moesi?"),
        (("counters", 8, "--cores", 2, "--quantum", 0), "quantum is 0, expected a whole number above zero"),
        (("counters", 8, "--cores", 2, "--cost", "L1"), "--cost L1: expected NAME=N with a whole number"),
        (("counters", 8, "--cores", 2, *SMALL, "--cost", "L1=1"), "cost of L2 is None, expected a whole number"),
        (("counters", 8, "--cores", 2, *SMALL, "--cost", "L9=1"), "unknown cost 'L9'; did you mean L2, L1?"),
        (("counters", 8, "--cores", 2, "--curve", "--exact"), "--curve and --exact: of one core alone"),
        (
            ("counters", 8, "--cores", 2, *SMALL, "-o", "found.csv"),
            "found.csv: suffix '.csv', expected one of .json, .md, .html",
        ),
        (("matmul", 8, "--protocol", "mesi"), "--protocol: of several cores: give --cores N too"),
        (("none.py:f", "--cores", 2), "none.py: no such file"),
    ],
)
def test_bad_input_is_one_line(refused, arguments, said):
    assert said in refused("simulate", *arguments)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "values", "said"),
    [
        ("mesage", (), "did you mean message?"),
        ("message", ("x",), "value is 'x', expected a whole number"),
        ("alone", (8,), "mine.py:14: alone has no loop over prange, expected one whose trips the cores share"),
        ("past_the_end", (8,), "mine.py:21: past_the_end: a[i + 1] is out of bounds at i = 7: index 8 of axis 0"),
        ("alone", (), "args needs 'n'"),
        ("alone", (8, 9), "2 values, expected one, the n of args(n)"),
        ("nothing", (), "streams is a NoneType, expected a list of operations for each core"),
        ("broken", (), "ZeroDivisionError"),
    ],
)
def test_a_bad_program_is_one_line(refused, programs, name, values, said):
    assert said in refused("simulate", f"{programs}:{name}", *values, "--cores", 2, *SMALL)
