"""A calibration as people see it: errors before and after, the constants that moved."""

from __future__ import annotations

from typing import TextIO

from rooflab.types.calibration import Calibration
from rooflab.views.calibration.sheet import sheet_of
from rooflab.views.common import sheet as sheets


def _toml(calibration: Calibration) -> bytes:
    from rooflab.model.device.constants_file import text

    return text(calibration).encode()


# TOML holds the constants that changed, as `constants=` and --constants take them.
WRITERS = {**sheets.writers(sheet_of), ".toml": _toml}


def show(calibration: Calibration, file: TextIO | None = None) -> None:
    """Print `calibration`."""
    sheets.show(sheet_of(calibration), file)


def html(calibration: Calibration) -> str:
    """The page of `calibration`."""
    return sheets.html(sheet_of(calibration))
