"""The simulated traffic of main memory, from empty caches, against what a pencil says."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import rooflab
from rooflab.types.simulation import Cache

LEVELS = (Cache(32 << 10, 8, name="L1"), Cache(256 << 10, 8, name="L2"), Cache(1 << 20, 16, name="L3"))
WORD = 8


@pytest.fixture(scope="module")
def loops():
    """The loops of the examples, by the file's path: a benchmark bears the same name."""
    import importlib.util

    spec = importlib.util.spec_from_file_location(
        "closed_form_loops", Path(__file__).parents[2] / "examples" / "loops.py"
    )
    made = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = made
    spec.loader.exec_module(made)
    return made


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "n", "read", "written"),
    [
        # b and c, and a before it is written
        ("triad", 1_000_000, 3 * 1_000_000, 1_000_000),
        # Three rows fit: a once, b but for its first and last row.
        ("stencil", 1024, 1024**2 + 1022 * 1024, 1022 * 1024),
        # The 1,000 lines of a column of b (64 KB) fit: a and b once.
        ("transpose", 1000, 2 * 1000**2, 1000**2),
        # Tiles of 64: a and c once; b (1.18 MB) does not fit and is read anew for each of 384/64 rows of tiles.
        ("matmul", 384, (2 + 384 // 64) * 384**2, 384**2),
    ],
)
def test_memory_traffic_is_the_closed_form(loops, name, n, read, written):
    args = loops.args(n, name)
    args = (*args[:3], 64) if name == "matmul" else args
    last = rooflab.loop(getattr(loops, name), *args, levels=LEVELS, timed=False).simulation.levels[-1]
    assert last.read_bytes == read * WORD
    # The stencil's rows end in lines whose first or last element alone stays as it was.
    assert last.write_bytes == pytest.approx(written * WORD, rel=0.01)
