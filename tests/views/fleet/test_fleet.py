"""A fleet as people see it: slow nodes marked and named, few or many of them, unknown cells as dashes."""

from __future__ import annotations

import random
from pathlib import Path

import msgspec
import pytest

import rooflab
from rooflab.comparing.fleet import judged
from rooflab.errors import RooflabError
from rooflab.types.fleet import FleetNode
from rooflab.types.machine import is_main_memory
from rooflab.views.fleet.chart import chart
from rooflab.views.fleet.sheet import lines, sheet_of

MEASURED = Path(__file__).parents[3] / "examples" / "zen4-guest.toml"


def fleet(count, slow=()):
    """A fleet of one machine's copies, with half a percent of scatter; memory of the `slow` is at half speed."""
    measured, rng, nodes = rooflab.machine(MEASURED), random.Random(1), []
    for number in range(count):
        factor = 0.5 if number in slow else 1.0
        levels = [
            msgspec.structs.replace(
                level,
                rates=tuple(
                    msgspec.structs.replace(rate, value=rate.value * factor * rng.gauss(1, 0.005))
                    for rate in level.rates
                ),
            )
            if is_main_memory(level)
            else level
            for level in measured.levels
        ]
        one = msgspec.structs.replace(measured, levels=tuple(levels))
        nodes.append(FleetNode(name=f"node{number}", kind=measured.name, machine=one))
    return judged(nodes, "a test", "2026-01-01T00:00:00+00:00")


def test_slow_nodes_are_marked_where_they_stand_apart_alone():
    sheet = sheet_of(fleet(8, slow=(2,)))
    apart, nodes, _ = sheet.tables
    assert {row[0] for row in apart.rows} == {"node2"}
    assert len(apart.rows) == 4
    assert "more lines: the files have all." in apart.note
    marked = [(row[0], cell) for row in nodes.rows for cell in row[1:] if cell.endswith("◂")]
    assert {name for name, _ in marked} == {"node2"}
    assert nodes.note.startswith("◂ stands apart.")
    assert "◂" not in sheet_of(fleet(8)).tables[1].note


def test_files_have_a_line_for_each_node_and_quantity():
    found = fleet(6, slow=(0,))
    table = lines(found)
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    assert len(rows) == sum(len(each.values) for each in found.quantities)
    assert {row["node"] for row in rows if row["slow"]} == {"node0"}
    assert all(row["speed"] == pytest.approx(0.5, abs=0.03) for row in rows if row["slow"])


def test_the_picture_names_those_that_stand_apart_at_every_width():
    for width in (248, 720):
        values = chart(fleet(6, slow=(0,)), width=width).to_dict()["layer"][1]["data"]["values"]
        assert {row["left"] + row["right"] for row in values} == {"", "node0"}
    with pytest.raises(RooflabError, match="no quantity of two nodes, so no picture"):
        chart(fleet(1))


def test_a_node_that_failed_is_a_warning():
    found = fleet(6)
    found = msgspec.structs.replace(found, nodes=(*found.nodes, FleetNode(name="gone", failed="it was lost")))
    assert sheet_of(found).warnings == ("gone: it was lost",)
