"""The memory wall over years: lines recovered exactly, intervals that say when nothing can be told, points."""

from __future__ import annotations

import csv
import io
import json
import math
import random

import pytest

from rooflab import cli, machine
from rooflab.machines import years
from rooflab.views.common import drawing
from rooflab.views.machine import years as view


def test_a_line_is_recovered_exactly():
    # 3 × in two years: 3 ** 0.75 in 18 months.
    found = years.fit([(2015 + n, 7.0 * 3 ** (n / 2)) for n in range(9)])
    assert found.factor == pytest.approx(3**0.75)
    assert (found.low, found.high) == (pytest.approx(3**0.75), pytest.approx(3**0.75))
    assert found.at == pytest.approx(7.0)
    assert found.value(2017) == pytest.approx(21.0)


def test_the_interval_holds_the_truth_about_as_often_as_it_says():
    chance, held = random.Random(4), 0
    for _ in range(400):
        points = [(2010 + n, math.exp(0.3 * n + chance.gauss(0, 0.5))) for n in range(12)]
        found = years.fit(points)
        held += found.low <= math.exp(0.45) <= found.high
    assert 0.92 <= held / 400 <= 0.98


@pytest.mark.parametrize(
    "points", [[(2020 + n, 1.0) for n in range(5)], [(2020, float(n + 1)) for n in range(9)], []]
)
def test_few_machines_or_years_give_no_growth(points):
    assert years.fit(points) is None


def test_the_catalogue_is_read_as_it_stands():
    groups = {group.name: group for group in years.growth_of_catalogue()}
    by_name = {each.name: each for each in groups["accelerators"].machines}
    h100 = by_name["NVIDIA H100 SXM 80GB"]
    # Its file: 989.4 TFLOP/s in bf16, 3.35 TB/s.
    assert (h100.year, h100.dtype, h100.flop_per_s, h100.bytes_per_s) == (2022, "bf16", 989.4e12, 3.35e12)
    assert h100.ridge == pytest.approx(295.3, abs=0.1)
    assert not any("DGX" in name for name in by_name)
    assert all(machine(each.name).kind == "cpu" for each in groups["CPUs"].machines)
    assert groups["accelerators"].ridge.factor == pytest.approx(
        groups["accelerators"].peak.factor / groups["accelerators"].bandwidth.factor
    )


def test_what_cannot_be_told_is_said():
    first, second = years.growth_of_catalogue()
    assert view.sentence(first).endswith("the wall rises.")
    assert view.sentence(second).endswith("cannot be told from these.")
    few = years.group("few", "peak", first.machines[:3])
    assert view.sentence(few) == "few: too few machines or years for a growth."
    assert view.as_dict([few])["groups"][0]["growth"]["ridge"] is None


@pytest.mark.parametrize("width", [view.WIDE, view.NARROW])
def test_every_machine_is_a_point_and_no_words_overlap(width):
    groups = years.growth_of_catalogue()
    drawn = view.drawing_of(groups, width=width)
    tips = [item.tip for item in drawn.items if isinstance(item, drawing.Box) and item.tip]
    # Each in the first plane, the accelerators twice more in the second.
    assert len(tips) == sum(len(group.machines) for group in groups) + 2 * len(groups[0].machines)
    assert "NVIDIA H100 SXM 80GB, 2022: 295 FLOP/byte (bf16)" in tips
    assert drawn.overlaps() == ()
    assert drawing.extent(drawn.items)[0] <= width + 1


def run(*arguments: str) -> int:
    """The exit code of `rooflab machine` with those arguments."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["rooflab", "machine", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
    return int(ended.value.code or 0)


def test_the_command_writes_every_form(tmp_path):
    paths = [tmp_path / f"y{suffix}" for suffix in view.writers()]
    assert run("--years", *(f"-o{path}" for path in paths)) == 0
    rows = list(csv.DictReader(io.StringIO((tmp_path / "y.csv").read_text())))
    raw = json.loads((tmp_path / "y.json").read_text())["groups"]
    assert len(rows) == sum(len(group["machines"]) for group in raw)
    assert "The memory wall" in (tmp_path / "y.html").read_text()


@pytest.mark.parametrize("arguments", [["h200", "--years"], ["--years", "--ladder"], ["--years", "-o", "x.toml"]])
def test_bad_input_is_one_line(arguments, capsys):
    assert run(*arguments) == 2
    assert capsys.readouterr().err.count("\n") == 1
