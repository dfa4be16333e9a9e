"""A calibration as people see it: errors before and after, the constants that moved."""

from __future__ import annotations

from rooflab.types.calibration import Calibration
from rooflab.views.calibration.sheet import sheet_of
from rooflab.views.common.sheet import room

show, html, WRITERS = room(sheet_of)


def _toml(calibration: Calibration) -> bytes:
    from rooflab.model.device.constants_file import text

    return text(calibration).encode()


# TOML holds the constants that changed, as `constants=` and --constants take them.
WRITERS[".toml"] = _toml
