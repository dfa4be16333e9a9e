"""The instruction roofline of counted kernels: where its lines and marks stand, and labels that do not meet."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import pytest

import rooflab
from rooflab.views.common import labels
from rooflab.views.profile import html
from rooflab.views.profile.instructions import instruction_roofline, layout

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.fixture(scope="module")
def profile():
    return rooflab.load(EXAMPLES / "h200-kernels.csv.gz")


def test_roofs_walls_and_marks(profile):
    drawn = layout(profile)
    assert drawn is not None
    # 132 SMs x 4 schedulers x 1.98 GHz; HBM 4.8 TB/s in sectors of 32 bytes.
    assert drawn.peak == pytest.approx(132 * 4 * 1.98e9)
    assert drawn.roofs["HBM"] == pytest.approx(4.8e12 / 32)
    assert [wall.intensity for wall in drawn.walls] == [1.0, 0.25, 1 / 32]
    kernels = [row for row in profile.rows if row.placement is not None and row.placement.instruction is not None]
    assert len({mark.inst_per_s for mark in drawn.marks}) == len(kernels)
    assert {mark.level for mark in drawn.marks} == {"L1", "L2", "HBM"}
    for mark in drawn.marks:
        assert mark.inst_per_s <= 1.02 * min(drawn.peak, mark.intensity * drawn.roofs[mark.level])


@pytest.mark.parametrize(("width", "height"), [(720, 440), (810, 460), (248, 330)])
def test_labels_do_not_meet(profile, width, height):
    drawn = layout(profile, width, height)
    assert drawn is not None
    assert len(drawn.placed) >= 5
    for one, other in combinations(drawn.placed, 2):
        assert not labels.overlap(one.box, other.box), (one.text, other.text)


def test_without_instructions_there_is_no_picture():
    trace = rooflab.load(EXAMPLES / "gpt2-h200-trace.json.gz")
    assert instruction_roofline(trace) is None


def test_it_is_on_the_page(profile):
    assert "Instruction roofline" in html(profile)
