"""Snapshots: a JSON file that maps a path to its text is written out as a tree under tmp_path."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

SNAPSHOTS = Path(__file__).resolve().parents[2] / "samples" / "sysfs"

Snapshot = Callable[..., Path]


@pytest.fixture
def snapshot(tmp_path: Path) -> Snapshot:
    """A function that writes the named snapshot, with some files changed (None: left out), and gives its root."""

    def write(name: str, changes: Mapping[str, str | None] | None = None) -> Path:
        files = {**json.loads((SNAPSHOTS / f"{name}.json").read_text()), **(changes or {})}
        root = tmp_path / name
        for path, text in files.items():
            if text is not None:
                target = root / path
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(text)
        return root

    return write


@pytest.fixture
def recorded() -> Callable[[str], str]:
    """A function that gives the text of a recorded `sysctl -a`."""
    return lambda name: (SNAPSHOTS / f"{name}.sysctl.txt").read_text()
