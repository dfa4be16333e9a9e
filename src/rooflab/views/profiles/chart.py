"""All vendors on one chart: the roofs of every machine, and the operations of every file in its colour."""

from __future__ import annotations

from typing import Any

from rooflab.types.profiles import Profiles
from rooflab.views.common.theme import LIGHT, Theme
from rooflab.views.profile.chart import draw


def roofline(profiles: Profiles, *, theme: Theme = LIGHT, width: int = 720, height: int = 440) -> Any:
    """The operations and roofs of all files on one plane.

    Raises:
        RooflabError: no operation with a place, and no roof.
    """
    return draw(profiles.name, profiles.profiles, profiles.machines, theme, width, height)
