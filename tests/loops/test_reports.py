"""The whole answer: the report, its JSON, what the terminal and the picture show; tile sizes; the command."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest
from rich.console import Console

import rooflab
from rooflab.errors import RooflabError
from rooflab.loops import tiles
from rooflab.machines import cache_levels
from rooflab.types.loop import LoopReport
from rooflab.types.machine import Level, Source
from rooflab.views.loop import charts, terminal
from rooflab.views.tiles import tables as tile_tables


@pytest.fixture(scope="module")
def report(kernels, guest):
    return rooflab.loop(kernels.stencil, np.ones((40, 60)), np.zeros((40, 60)), machine=guest)


@pytest.mark.slow
def test_the_report_answers_what_limits_the_loop(report):
    # 38 × 58 inner elements: 5 FLOP each
    assert report.flop == 5 * 38 * 58
    assert report.accesses == 6 * 38 * 58
    assert report.bound in ("memory-bound", "compute-bound", "balanced")
    assert report.time_s > 0
    assert [point.level for point in report.points] == ["L1", "L2", "L3", "DRAM"]
    assert report.static.agrees
    assert report.checks[:2] == (
        "the compiled loop gives the counted run's results",
        "plain Python gives the counted run's results",
    )
    assert {run.cache for run in report.runs} == {"warm", "cold"}
    assert all(traffic.basis == "simulated" for traffic in report.traffic)
    # a (40 rows) and b (38) are read, b is written back, in whole lines
    assert report.memory_bytes == pytest.approx(8 * 60 * (40 + 38 + 38), rel=0.02)


def test_a_report_survives_json(report):
    raw = json.loads(json.dumps(report.to_dict()))
    assert raw["totals"]["flop"] == report.flop
    assert LoopReport.from_dict(raw) == report


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"schema": 99}, "schema 99 is newer"),
        ({"colour": 1}, "not a loop report"),
        ({"name": 3}, "not a loop report"),
    ],
)
def test_json_that_is_no_report(report, change, said):
    with pytest.raises(RooflabError, match=said):
        LoopReport.from_dict({**report.to_dict(), **change})


def printed(parts, width):
    out = Console(width=width, file=io.StringIO(), highlight=False, markup=False)
    for part in parts:
        out.print(part)
    return out.file.getvalue()


@pytest.mark.parametrize("width", [80, 120])
def test_the_terminal_says_all_of_it_within_its_width(report, width):
    text = printed(terminal.pages(report, width), width)
    assert max(map(len, text.splitlines())) <= width
    for said in ("stencil", "Work", "Measured", "one core", "Bound", "vectorised", "DRAM", "L1 misses", "5·m·n"):
        assert said in text


def test_the_picture_has_a_point_for_each_level_with_traffic(report):
    drawn = charts.roofline(report).to_dict()
    dots = [row["kernel"] for layer in drawn["layer"] for row in layer["data"]["values"] if "kernel" in row]
    # Levels of one intensity share a point; those that nothing crosses have none.
    assert sorted(", ".join(dots).split(", ")) == sorted(each.level for each in report.points if each.nbytes)


@pytest.mark.slow
def test_no_picture_without_roofs_or_flop(kernels, small, guest):
    plain = rooflab.loop(kernels.triad, *kernels.made("triad"), levels=small)
    with pytest.raises(RooflabError, match="no machine, so no roofs to draw"):
        charts.roofline(plain)
    moved = rooflab.loop(kernels.transpose, *kernels.made("transpose"), machine=guest)
    with pytest.raises(RooflabError, match="no FLOP, so no point"):
        charts.roofline(moved)


def test_without_a_machine_the_hosts_caches_are_simulated(kernels):
    plain = rooflab.loop(kernels.triad, *kernels.made("triad"), timed=False)
    assert plain.bound is None
    assert plain.runs == ()
    assert plain.caches.startswith("L1 ")
    assert "Give machine=" in printed(terminal.pages(plain, 100), 100)


def test_a_shared_cache_counts_as_found_a_private_one_as_reported(guest):
    chosen = cache_levels.of_machine(guest)
    named = {each.name: each for each in chosen.caches}
    assert named["L2"].capacity_bytes == 1 << 20  # reported; 640 KiB were found under noise
    assert named["L3"].capacity_bytes == 15_108_925 // 1024 * 1024  # found; 32 MiB are reported
    assert any("neighbours take the rest" in each for each in chosen.assumptions)


def test_a_machine_without_caches(guest):
    import msgspec

    only = Level(name="DRAM", source=Source("assumed", "here"))
    with pytest.raises(RooflabError, match="states no cache with a capacity"):
        cache_levels.of_machine(msgspec.structs.replace(guest, levels=(only,)))


@pytest.mark.parametrize(
    ("text", "name", "sizes"),
    [("t=8:32:8", "t", (8, 16, 24, 32)), ("bi=4:6", "bi", (4, 5, 6)), ("t=8,16,64", "t", (8, 16, 64))],
)
def test_tile_sizes_are_read(text, name, sizes):
    assert tiles.parse(text) == (name, sizes)


@pytest.mark.parametrize("text", ["t", "t=", "=8", "t=a:b", "t=1:2:3:4", "t=0:8", "t=8:4"])
def test_tile_sizes_that_make_no_sense(text):
    with pytest.raises(RooflabError, match="expected NAME=FIRST:LAST:STEP"):
        tiles.parse(text)


@pytest.mark.slow
def test_a_sweep_recommends_what_ran_fastest(kernels, small):
    a = np.ones((24, 24))
    sweep = rooflab.sweep_tiles(kernels.blocked, {"t": (2, 4, 8, 12, 24, 30)}, a, a.copy(), a.copy(), levels=small)
    assert len(sweep.tiles) == 6
    timed = [tile for tile in sweep.tiles if tile.measured_s is not None]
    assert len(timed) == 5
    assert sweep.best == min(timed, key=lambda tile: tile.measured_s).sizes
    assert sweep.capacities_bytes == {"L1": 256, "L2": 1024, "L3": 2048}
    # The whole of 24³ products has another traffic than blocks of 8
    assert len({tile.traffic_bytes["memory"] for tile in sweep.tiles}) > 1
    text = printed(terminal.drawn_table(tile_tables.tiles(sweep), 100), 100)
    assert "measured" in text


@pytest.mark.slow
def test_a_sweep_counts_as_single_loops_do(kernels, small):
    a = np.ones((12, 12))
    sweep = rooflab.sweep_tiles(kernels.blocked, {"t": (3, 5)}, a, a.copy(), a.copy(), levels=small)
    for tile in sweep.tiles:
        one = rooflab.loop(kernels.blocked, a, a.copy(), a.copy(), tile.sizes["t"], levels=small, timed=False)
        assert tile.traffic_bytes == {each.level: each.nbytes for each in one.traffic}


@pytest.mark.slow
def test_a_sweep_predicts_from_what_the_compiler_left(kernels, guest):
    a = np.ones((64, 64))
    sweep = rooflab.sweep_tiles(kernels.matmul_tiled, {"t": (2, 64)}, a, a.copy(), a.copy(), machine=guest)
    few, whole = (tile.predicted_s for tile in sweep.tiles)
    # 64³ products in tiles of 2 enter the innermost loop 131,072 times, each for at least 6 cycles below 4 GHz.
    assert few - whole > 131_072 * 6 / 4e9 - 4_096 * 6 / 3e9


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        ({"q": (2,)}, "unknown tile size of blocked 'q'"),
        ({"t": range(1, 9999)}, "9,998 configurations, expected at most 4,096"),
        ({"t": ()}, "no tile size given"),
    ],
)
def test_sweeps_that_make_no_sense(kernels, small, sizes, said):
    a = np.ones((4, 4))
    with pytest.raises(RooflabError, match=said):
        rooflab.sweep_tiles(kernels.blocked, sizes, a, a.copy(), a.copy(), levels=small)


def test_what_is_no_whole_number_is_no_tile_size(small):
    def scale(a, x, step):
        for i in range(0, x.shape[0], step):
            x[i] *= a

    def plain(a, x):
        for i in range(x.shape[0]):
            x[i] *= a

    x = np.ones(8)
    for fn, args, name, said in (
        (scale, (2.0, x, 2), "x", "x is given an array, expected a whole number for a tile size"),
        (scale, (2.0, x, 2), "a", "a is given 2.0, expected a whole number for a tile size"),
        (scale, (2.0, x, 2), "stpe", "unknown tile size of scale 'stpe'; did you mean step"),
        (plain, (2.0, x), "t", r"plain has no tile size 't': none of its parameters \(a, x\) is a whole number"),
    ):
        with pytest.raises(RooflabError, match=said):
            rooflab.sweep_tiles(fn, {name: (2,)}, *args, levels=small)


@pytest.mark.slow
def test_the_command_prints_json_and_nothing_else(called, root):
    out = called("loop", root / "examples" / "loops.py:triad", "--n", 500, "--untimed", "--json")
    assert json.loads(out)["totals"]["flop"] == 1000


@pytest.mark.slow
def test_the_command_sweeps_tiles(called, root):
    out = called("loop", root / "examples" / "loops.py:matmul", "--n", 16, "--tile", "t=4,8", "--json")
    assert [tile["sizes"] for tile in json.loads(out)["tiles"]] == [{"t": 4}, {"t": 8}]


def test_the_command_writes_a_file(called, root, tmp_path):
    path = tmp_path / "loop.json"
    called("loop", root / "examples" / "loops.py:spmv", "--n", 50, "--untimed", "-o", path)
    assert LoopReport.from_dict(json.loads(path.read_text("utf-8"))).name == "spmv"


def test_arguments_may_come_from_another_function_or_file(called, tmp_path):
    (tmp_path / "library.py").write_text(
        "def total(x):\n    s = 0.0\n    for v in x:\n        s += v\n    return s\n"
        "def other(n):\n    import numpy as np\n    return (np.ones(2 * n),)\n"
    )
    (tmp_path / "data.py").write_text("import numpy as np\ndef args(n):\n    return (np.ones(3 * n),)\n")
    for given, flop in (("other", 20), (tmp_path / "data.py", 30), (f"{tmp_path / 'data.py'}:args", 30)):
        path = tmp_path / "report.json"
        called("loop", f"{tmp_path / 'library.py'}:total", "--args", given, "--n", 10, "--untimed", "-o", path)
        assert LoopReport.from_dict(json.loads(path.read_text("utf-8"))).flop == flop


@pytest.mark.parametrize(
    ("target", "more", "said"),
    [
        ("loops.py:triat", ("--n", 5), "did you mean triad"),
        ("nowhere.py:triad", ("--n", 5), "no such file"),
        ("loops.py", ("--n", 5), "names no function"),
        ("loops.py:triad", (), "args needs 'n': give --n 4096"),
        ("loops.py:triad", ("--n", 5, "--dim", "m=3"), "args has no parameter 'm'"),
        ("loops.py:triad", ("--n", 5, "--dim", "seed=x"), "expected NAME=N with a whole number"),
        ("loops.py:triad", ("--n", 5, "-o", "x.png"), "x.png: a picture needs --machine"),
        ("loops.py:triad", ("--n", 5, "--untimed", "--machine", "h200", "-o", "x.svg"), "leave out --untimed"),
        (
            "loops.py:matmul",
            ("--n", 5, "--tile", "t=4", "-o", "x.toml"),
            "suffix '.toml', expected one of .json, .csv",
        ),
        ("loops.py:triad", ("--n", 5, "-o", "x.toml"), "suffix '.toml', expected one of .json"),
        ("loops.py:matmul", ("--n", 5, "--tile", "q=4"), "unknown tile size of matmul 'q'; known: t"),
        (
            "loops.py:matmul",
            ("--n", 5, "--tile", "t=1:9999999999999"),
            "9,999,999,999,999 sizes, expected at most",
        ),
        ("loops.py:matmul", ("--n", 5, "--tile", "t=2", "--tile", "t=4"), "t is there already"),
        (
            "loops.py:triad",
            ("--n", 5, "--dim", "n=6"),
            "multiple values for argument 'n': --n is the first argument",
        ),
        ("loops.py:triad", ("--n", 5, "--dim", "seed=-1"), "a whole number from zero on"),
        ("loops.py:triad", ("--n", 10**16), "MemoryError: Unable to allocate"),
        (
            "loops.py:triad",
            ("--n", 5, "--time-limit", "nan"),
            "time_limit_s is nan, expected a positive number",
        ),
        ("loops.py:triad", ("--n", 5, "--threads", 4), "--threads 4 predicts loops over prange from a timed run"),
        ("loops.py:triad", ("--n", 5, "--threads", 0), "not in the range x>=1"),
        ("loops.py:triad", ("--n", 5, "-o", "/nowhere/x.json"), "there is no folder /nowhere"),
        ("loops.py:triad", ("--n", 5, "--cflags", "-O2"), "--cflags -O2 are of functions of C; numba compiles"),
        ("loops.py:triad", ("--n", 5, "--args", "nothing"), "nothing"),
        ("loops.py:triad", ("--n", 5, "--args", "/nowhere.py"), "/nowhere.py: no such file"),
        ("ladder.py:main", ("--n", 5), "no function args, expected one that makes the arguments of main"),
    ],
)
def test_bad_commands_say_what_is_wrong(refused, root, target, more, said):
    assert said in refused("loop", root / "examples" / target, *more)
