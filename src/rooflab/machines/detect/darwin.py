"""A Mac from the text of `sysctl -a`."""

from __future__ import annotations

from rooflab.errors import MeasureError
from rooflab.machines.detect.files import Tree
from rooflab.machines.detect.host import Host


def detect_darwin(tree: Tree) -> Host:
    """The Mac at `tree`."""
    raise MeasureError(f"macOS is not read yet ({tree.root})")


def from_sysctl(text: str) -> Host:
    """The Mac that `sysctl -a` printed `text` on."""
    raise MeasureError(f"macOS is not read yet ({len(text)} characters)")
