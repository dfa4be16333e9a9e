"""Compulsory, capacity and conflict misses of a loop, by level, array, access and line, wherever they show."""

from __future__ import annotations

import csv
import io

import numpy as np
import pytest

import rooflab
from rooflab.cachesim.level import hierarchy
from rooflab.cachesim.native.layout import LOAD, STORE
from rooflab.cachesim.run.replay import replay
from rooflab.errors import RooflabError
from rooflab.loops import understanding
from rooflab.loops.lowered import count as lowered_count
from rooflab.machines.cache_levels import given as caches_given
from rooflab.types.simulation import Cache
from rooflab.views.common.lines import csv_text
from rooflab.views.loop import count_tables, files, page

L1 = (Cache(8192, 8, name="L1"),)  # 16 sets of 8 lines


def kinds(row):
    return row.compulsory, row.capacity, row.conflict


def padded(columns):
    """Two arrays of 64 × 64 numbers whose rows lie `columns` numbers apart."""
    return np.ones((64, columns))[:, :64], np.zeros((64, columns))[:, :64]


@pytest.mark.parametrize(
    ("columns", "wanted"),
    [
        # Rows of 512 bytes are 8 lines: a column of b has 64 lines in sets 0 and 8 alone, 32 for 8 ways, so that
        # each of the 64² stores misses. A fully associative cache of 128 lines would keep them (64, and 8 of a's
        # row): but for 64 · 8 first touches all are conflicts. a is read along its lines: 64 · 8 first touches.
        (64, {"a": (512, 0, 0), "b": (512, 0, 64 * 64 - 512)}),
        # Rows 9 lines apart: the column lies in all 16 sets, 4 lines in each, and 1 of a: all stay.
        (72, {"a": (512, 0, 0), "b": (512, 0, 0)}),
    ],
)
def test_padding_takes_the_conflicts_of_a_power_of_two_away(kernels, columns, wanted):
    report = rooflab.loop(kernels.transpose, *padded(columns), levels=L1, timed=False, classify=True)
    (level,) = report.simulation.levels
    assert {each.name: kinds(each) for each in level.arrays} == wanted
    whole = tuple(map(sum, zip(*wanted.values(), strict=True)))
    assert kinds(level) == whole
    (line,) = report.lines
    assert (line.compulsory, line.capacity, line.conflict) == tuple({"L1": n} for n in whole)
    assert any("78 % of its misses are conflict misses, most of b" in each for each in report.warnings) == (
        columns == 64
    )


def test_what_fits_has_only_compulsory_misses_and_a_second_run_none(kernels):
    # 40² numbers are 200 lines each, 600 of 1,024
    a = np.ones((40, 40))
    report = rooflab.loop(
        kernels.matmul, a, a.copy(), a.copy(), levels=[Cache(65536, 8)], timed=False, classify=True
    )
    assert kinds(report.simulation.levels[0]) == (600, 0, 0)
    assert report.warm.levels[0].misses == 0
    assert kinds(report.warm.levels[0]) == (0, 0, 0)


def test_what_overflows_every_cache_has_capacity_misses(kernels):
    # 16 KiB swept three times through 8 KiB: nothing of a or b is there again, and no set has more than its share
    a = np.ones(1024)
    report = rooflab.loop(kernels.change_places, a, a.copy(), levels=L1, timed=False, classify=True)
    assert kinds(report.simulation.levels[0]) == (256, 512, 0)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["transpose", "spmv", "histogram", "decided_by_data", "blocked"])
def test_kinds_are_those_of_the_accesses_that_python_makes(kernels, oracle, small, name):
    fn, args = getattr(kernels, name), kernels.made(name)
    log, _ = oracle.run(fn, *args)
    built = hierarchy.build(small, references=("all",), units=1000)
    columns = [np.array(column, np.int64) for column in zip(*((a, n) for _, a, n, _ in log.accesses), strict=True)]
    requests = np.array([STORE if written else LOAD for *_, written in log.accesses], np.int64)
    replay(built.address, requests, *columns, np.zeros(len(requests), np.int64))
    found = rooflab.simulate(fn, *args, levels=small, classify=True)
    assert [kinds(each) for each in found.levels] == [kinds(each) for each in built.result("python").levels]
    plain = rooflab.simulate(fn, *args, levels=small)
    assert [(each.hits, each.misses) for each in found.levels] == [(e.hits, e.misses) for e in plain.levels]
    assert kinds(plain.levels[0]) == (None, None, None)


@pytest.mark.slow
def test_tables_csv_and_json_show_them_by_level_array_line_and_access(kernels):
    report = rooflab.loop(kernels.transpose, *padded(64), levels=L1, timed=False, classify=True)
    told = {row[0]: row[1:] for row in count_tables.kinds(report).rows}
    line = report.lines[0].line
    assert told["all"] == ("L1", "4.61 k", "1.02 k", "0", "3.58 k")
    assert told["b"] == told[f"{line}: b[j, i] ="] == ("L1", "4.10 k", "512", "0", "3.58 k")
    assert told[f"line {line}"] == told["all"]
    assert "Kinds of misses by line" in page.html(report)
    rows = list(csv.DictReader(io.StringIO(csv_text(files.lines(report)))))
    assert [(row["access"], row["level"], row["conflict"]) for row in rows] == [
        ("a[i, j]", "L1", "0"),
        ("b[j, i] =", "L1", "3584"),
    ]
    raw = report.to_dict()
    assert raw["lines"][0]["conflict"] == {"L1": 3584}
    assert type(report).from_dict(raw) == report


def test_without_it_kinds_are_unknown_and_not_shown(kernels):
    report = rooflab.loop(kernels.transpose, *padded(64), levels=L1, timed=False)
    assert report.lines[0].conflict is None
    assert count_tables.kinds(report).rows == ()
    assert "Kinds of misses" not in page.html(report)
    rows = list(csv.DictReader(io.StringIO(csv_text(files.lines(report)))))
    assert [(row["misses"], row["conflict"]) for row in rows] == [("512", ""), ("4096", "")]


def test_the_command_classifies_and_writes_csv(called, root, tmp_path):
    path = tmp_path / "loop.csv"
    target = f"{root / 'examples' / 'loops.py'}:transpose"
    options = ["--n", "64", "--untimed", "--classify", "--machine", str(root / "examples" / "zen4-guest.toml")]
    assert "Kinds of misses, from empty caches" in called("loop", target, *options, "-o", path)
    # 64² numbers, twice: 1,024 lines; L1 of the guest has 64 sets of 8: a column of 64 lines lies in 8 of them
    rows = [row for row in csv.DictReader(io.StringIO(path.read_text("utf-8"))) if row["level"] == "L1"]
    assert sum(int(row["compulsory"]) for row in rows) == 1024


@pytest.mark.parametrize(
    ("more", "said"), [(("--tile", "t=4"), "--classify is of one loop, --tile of many sizes")]
)
def test_classify_goes_with_one_loop(refused, root, more, said):
    assert said in refused("loop", f"{root / 'examples' / 'loops.py'}:matmul", "--classify", *more)


def test_more_lines_than_can_be_kept_apart_are_refused(kernels):
    loop = understanding.understand(kernels.transpose, padded(64))
    with pytest.raises(RooflabError, match="the arrays have 1,026 units of 64 bytes, expected at most 100"):
        lowered_count.of_loop(loop, caches_given(L1), None, classify=True, most_units=100)
