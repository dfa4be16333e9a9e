"""A whole run uses all CPUs, a file of tests at a time in each; tests marked `alone` have them to themselves.

Some tests that are named on the command line run one after another in one process, without the start of others.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_MOST_LANES = 8
# Locked while open, never written: they are there in every lane.
_GATE, _ROAD = Path(__file__), Path(__file__).with_name("__init__.py")


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """How many processes run tests: none besides this one where some tests are asked for by name."""
    if config.args_source is not pytest.Config.ArgsSource.TESTPATHS:
        return 0
    return min(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1, _MOST_LANES)


@contextmanager
def lane(*, alone: bool, gate: Path = _GATE, road: Path = _ROAD) -> Iterator[None]:
    """Run beside all others, or alone. Who wants to be alone keeps the gate closed while the others finish."""
    with road.open() as on_road:
        with gate.open() as at_gate:
            fcntl.flock(at_gate, fcntl.LOCK_EX)
            fcntl.flock(on_road, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Run a test, with all that it sets up, in its lane."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return (yield)
    with lane(alone=item.get_closest_marker("alone") is not None):
        return (yield)
