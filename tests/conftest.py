"""What all tests share: the same examples on every run in CI, and a fresh Python to call."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

# A shared runner stalls for longer than Hypothesis' 200 ms: a deadline there tests the runner.
settings.register_profile("local", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")

ROOT = Path(__file__).resolve().parents[1]

Fresh = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout."""
    return ROOT


@pytest.fixture(scope="session")
def fresh() -> Fresh:
    """A function that calls this Python anew with the given arguments; it fails where that Python fails."""

    def call(*arguments: object, timeout: float = 120, **more: object) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-W", "error", *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False, **more)
        assert done.returncode == 0, f"{command} exited {done.returncode}:\n{done.stdout}\n{done.stderr}"
        return done

    return call
