"""The picture of a simulation: parts that add up to each level's requests."""

from __future__ import annotations

import pytest

import rooflab
from rooflab.views.simulation.chart import chart


@pytest.mark.parametrize("classify", [False, True])
def test_the_parts_of_a_level_are_its_requests(classify):
    found = rooflab.simulate(
        rooflab.streams.sequential(100_000, passes=2),
        machine="epyc-9654",
        classify=classify,
    )
    spec = chart(found).to_dict()
    rows = spec["vconcat"][0]["layer"][0]["data"]["values"]
    for level in found.levels:
        parts = [row for row in rows if row["row"] == level.name]
        assert sum(row["high"] - row["low"] for row in parts) == level.requests
        assert sum(row["high"] - row["low"] for row in parts if row["group"] == "hits") == level.hits
    kinds = {row["group"] for row in rows}
    assert ("compulsory misses" in kinds) is classify
    assert ("misses" in kinds) is not classify
    moved = spec["vconcat"][1]["layer"][0]["data"]["values"]
    last = [row for row in moved if row["row"] == f"beyond {found.levels[-1].name}"]
    assert sum(row["high"] - row["low"] for row in last) == found.memory_read_bytes + found.memory_write_bytes
