"""A sweep of the lab drawn: what the terminal says, and that no label of a chart lies on another."""

from __future__ import annotations

import io
import itertools
import json

import msgspec
import pytest

from rooflab.errors import FileError
from rooflab.model import lab as model
from rooflab.model.lab import ComputeCore, Memory, StreamingKernel, System, TwoTierMemory
from rooflab.views.common import axes, labels
from rooflab.views.lab import chart, roofline, terminal

CORE = ComputeCore(peak_flop_per_s=10e9)
KERNEL = StreamingKernel(nbytes=10e6)
ONE = System(core=CORE, memory=Memory(bandwidth_bytes_per_s=10e9, latency_s=50e-9))
FAST, SLOW = Memory(bandwidth_bytes_per_s=62.5e9), Memory(bandwidth_bytes_per_s=1.25e9, latency_s=100e-9)
TWO = System(core=CORE, memory=TwoTierMemory(fast=FAST, slow=SLOW, hit_rate=0.5))

SWEEPS = (
    model.sweep(KERNEL, ONE, "bandwidth", (1e9, 3e9, 10e9, 30e9, 100e9)),
    model.sweep(KERNEL, ONE, "intensity", (0.01, 0.1, 1, 10, 100)),
    model.sweep(KERNEL, TWO, "hit-rate", tuple(i / 10 for i in range(11))),
    model.sweep(KERNEL, TWO, "bandwidth", (1e9, 100e9)),
    model.sweep(KERNEL, ONE, "intensity", (0.0, 0.5, 4)),
)


def printed(sweep):
    file = io.StringIO()
    terminal.show(sweep, file)
    return file.getvalue()


def test_the_terminal_says_what_is_fixed_and_where_it_turns():
    text = printed(SWEEPS[0])
    assert "The kernel reads 10.0 MB, 1 FLOP/byte, sequential" in text
    assert "The memory: latency 50.0 ns" in text  # its bandwidth is what varies
    # 10 MB / 1 GB/s + 50 ns; 10 M operations / 10 GFLOP/s
    assert ["1.00", "GB/s", "memory-bound", "10.0", "ms", "1.00", "ms", "11.0", "ms"] in map(
        str.split, text.splitlines()
    )
    # 10 MB / (1 ms − 50 ns) = 10.0005 GB/s
    assert "Memory and arithmetic take the same time at 10.0 GB/s." in text


def test_two_tiers_are_told_apart():
    text = printed(SWEEPS[2])
    assert (
        "The memory: fast tier (62.5 GB/s, latency 0 s), the rest from the slow one (1.25 GB/s, latency 100 ns)"
        in text
    )
    assert "take the same time at a hit rate of 0.893." in text


def test_a_sweep_that_never_turns_says_so():
    found = model.sweep(KERNEL, ONE, "intensity", (0.1, 0.2))
    assert terminal.turning(found) == "It never turns within these values: memory-bound throughout."


def test_each_line_is_named_at_its_end():
    rows = terminal.sketch(SWEEPS[2]).splitlines()
    ends = [
        row.split()[-1] for row in rows if row.split()[-1:] and row.split()[-1] in ("total", "compute", "memory")
    ]
    assert ends == ["total", "compute", "memory"]  # 1.16 ms, 1 ms, 0.16 ms


@pytest.mark.parametrize("unicode", [True, False])
@pytest.mark.parametrize("sweep", SWEEPS)
@pytest.mark.parametrize("width", [50, 76])
def test_a_sketch_fits_its_width(sweep, width, unicode):
    drawn = terminal.sketch(sweep, width, unicode=unicode)
    assert max(map(len, drawn.splitlines())) <= width
    assert drawn.isascii() or unicode or "µ" in drawn


def test_no_room_or_nothing_to_draw_shows_nothing():
    assert terminal.sketch(SWEEPS[0], 30) == ""
    assert terminal.sketch(model.sweep(KERNEL, ONE, "intensity", (1.0,))) == ""


@pytest.mark.parametrize("sweep", SWEEPS)
def test_labels_of_a_chart_lie_on_nothing(sweep):
    space = chart.plane_of(sweep, 720, 380)
    placed = chart.placed(sweep, space)
    assert {each.key for each in placed} >= {"memory", "compute", "total"}
    for a, b in itertools.combinations(placed, 2):
        across = abs(a.box.x - b.box.x) * 2 < a.box.width + b.box.width
        down = abs(a.box.y - b.box.y) * 2 < a.box.height + b.box.height
        assert not (across and down), (a.text, b.text)
    for each in placed:
        assert 0 <= each.box.x - each.box.width / 2 <= each.box.x + each.box.width / 2 <= 720


def test_the_chart_is_one_definition():
    spec = chart.chart(SWEEPS[0]).to_dict()
    assert spec["width"] == 720
    lines = [layer for layer in spec["layer"] if layer["mark"].get("type") == "line"]
    assert [len(layer["data"]["values"]) for layer in lines] == [5, 5, 5]
    rules = [layer for layer in spec["layer"] if layer["mark"].get("type") == "rule"]
    assert rules[0]["data"]["values"][0]["x"] == SWEEPS[0].turns_at
    assert axes.Plane(*chart.plane_of(SWEEPS[2], 720, 380)).log_x is False


@pytest.mark.slow
def test_saved_files_hold_the_numbers(tmp_path):
    SWEEPS[0].save(tmp_path / "lab.json", tmp_path / "lab.svg", tmp_path / "lab.html")
    raw = json.loads((tmp_path / "lab.json").read_text(encoding="utf-8"))
    assert raw["values"] == [1e9, 3e9, 10e9, 30e9, 100e9]
    assert raw["results"][0] == msgspec.to_builtins(SWEEPS[0].results[0])
    assert raw["system"]["memory"]["latency_s"] == 50e-9
    assert "equal at 10.0 GB/s" in (tmp_path / "lab.svg").read_text(encoding="utf-8")
    assert "Lab: a streaming kernel over bandwidth" in (tmp_path / "lab.html").read_text(encoding="utf-8")


def test_another_suffix_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(
        FileError, match=r"suffix '.xlsx', expected one of .json, .csv, .parquet, .html, .md, .svg, .png, .pdf"
    ):
        SWEEPS[0].save(tmp_path / "a.json", tmp_path / "lab.xlsx")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("sweep", SWEEPS)
def test_the_lab_as_a_roofline_has_each_value_where_its_times_put_it(sweep):
    for value, intensity, flop_per_s, _ in roofline.points(sweep):
        each = sweep.results[sweep.values.index(value)]
        flop = intensity * sweep.kernel.nbytes
        assert flop_per_s == pytest.approx(flop / each.total_s)
        assert flop_per_s <= sweep.system.core.peak_flop_per_s
    for width in (720, 250):
        space = roofline.plane_of(sweep, width, 380)
        boxes = [label.box for label in roofline.written(sweep, space)]
        assert not any(labels.overlap(a, b) for a, b in itertools.combinations(boxes, 2))
    assert "As a roofline" in printed(sweep)
