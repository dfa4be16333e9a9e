"""Sweeps of tile sizes as pictures, pages and files."""

from __future__ import annotations

import csv
import io
import json

import msgspec
import pytest

from rooflab.errors import RooflabError
from rooflab.types.tile_sweep import Tile, TileSweep
from rooflab.views.common.lines import csv_text
from rooflab.views.tiles import chart, files, tables


@pytest.fixture(scope="module")
def matmul(root):
    """A product of 256² in blocks of 4 to 256, as `rooflab loop --tile` saved it, its machine left out."""
    return TileSweep.from_dict(json.loads((root / "tests" / "samples" / "loop" / "tiles.json").read_text("utf-8")))


@pytest.fixture(scope="module")
def pairs():
    """Blocks of bi × bj without a machine: two were measured."""
    tiles = tuple(
        Tile(
            sizes={"bi": bi, "bj": bj},
            traffic_bytes={"memory": 1e6 * bi * bj},
            measured_s=1e-3 * bi if bj == 4 else None,
            runs=5 if bj == 4 else 0,
        )
        for bi in (4, 8)
        for bj in (4, 8, 16)
    )
    best, held = {"bi": 4, "bj": 4}, {"L1": 32768}
    return TileSweep(name="blocks", tiles=tiles, capacities_bytes=held, best=best, why="it is <fast>")


@pytest.fixture(scope="module")
def files_of(matmul, pairs, tmp_path_factory):
    """The page of each, written once for all widths and schemes."""
    folder = tmp_path_factory.mktemp("tiles")
    for name, sweep in (("matmul", matmul), ("pairs", pairs)):
        sweep.save(folder / f"{name}.html")
    return folder


def test_caches_are_marked_where_their_misses_rise(matmul):
    # L2 serves 44.1 MB with blocks of 8, 152 MB of 16; L3 2.11 MB of 128, 3.37 MB of 192; memory the same always.
    found = chart.passed(matmul, "t")
    assert [each.text for each in found] == ["L1 32 KiB", "L2 1 MiB"]
    assert 8 < found[0].at < 16
    assert 128 < found[1].at < 192


def test_a_rise_of_less_than_a_fifth_marks_nothing(matmul):
    grown = [
        msgspec.structs.replace(tile, traffic_bytes={"L2": 1e6, "L3": 1e6, "memory": 1e6 * 1.1**n})
        for n, tile in enumerate(matmul.tiles)
    ]
    assert chart.passed(msgspec.structs.replace(matmul, tiles=tuple(grown)), "t") == ()


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("name", ["matmul", "pairs"])
def test_the_page_draws_without_errors_or_requests(opened, files_of, scheme, width, name):
    path = files_of / f"{name}.html"
    seen = opened(path, scheme, width, 1)
    assert seen.said == []
    assert seen.asked == [path.as_uri()]
    assert seen.sideways <= 0
    assert seen.wider == 0
    assert seen.overlaps == []


@pytest.mark.slow
def test_the_page_has_every_configuration_and_the_advice_first(matmul, files_of):
    text = (files_of / "matmul.html").read_text("utf-8").partition("<script>")[0]
    assert text.count('<th scope="row">') == len(matmul.tiles)
    assert text.index("Take t = 256") < text.index("<caption>")
    assert "it is &lt;fast&gt;" in (files_of / "pairs.html").read_text("utf-8")


@pytest.mark.slow
def test_pictures_are_pictures(matmul, pairs, tmp_path):
    for sweep in (matmul, pairs):
        sweep.save(str(tmp_path / "t.png"), str(tmp_path / "t.svg"))
        assert (tmp_path / "t.png").read_bytes().startswith(b"\x89PNG")
        assert f"Tile sizes of {sweep.name}" in (tmp_path / "t.svg").read_text("utf-8")


def test_csv_has_a_line_for_each_in_base_units(pairs):
    rows = list(csv.DictReader(io.StringIO(csv_text(files.lines(pairs)))))
    assert len(rows) == 6
    assert rows[0] == {
        "bi": "4",
        "bj": "4",
        "memory_bytes": "16000000",
        "predicted_s": "",
        "measured_s": "0.004",
        "runs": "5",
        "spread": "",
    }
    assert rows[1]["measured_s"] == rows[1]["runs"] == ""


def test_a_sweep_survives_json(matmul):
    assert TileSweep.from_dict(json.loads(json.dumps(matmul.to_dict()))) == matmul


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"schema": 99}, "schema 99 is newer"),
        ({"tiles": 3}, "not a sweep of tile sizes"),
        ({"x": 1}, "not a sweep"),
        ({"best": {"t": 3}}, "best: got {'t': 3}, expected one of its tiles"),
    ],
)
def test_json_that_is_no_sweep(matmul, change, said):
    with pytest.raises(RooflabError, match=said):
        TileSweep.from_dict({**matmul.to_dict(), **change})


def test_many_configurations_are_thinned_in_the_terminal_alone(matmul):
    first = msgspec.structs.replace(matmul.tiles[0], measured_s=None)
    many = msgspec.structs.replace(matmul, tiles=(first,) * 60, best=first.sizes)
    assert "One in 3 of the 60" in tables.tiles(many).note
    assert len(tables.tiles(many, most=60).rows) == 60
