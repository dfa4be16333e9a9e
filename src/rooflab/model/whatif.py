"""Settings and what-ifs as users write them: "bandwidth=2x,dtype=fp8,batch=64"."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rooflab.errors import RooflabError
from rooflab.types.prediction import Cache, Mode, Power, Setting
from rooflab.types.report import Report

# How the programs of each front end run by themselves.
_MODES: dict[str, Mode] = {"torch": "eager", "jax": "compiled"}


def setting(
    report: Report,
    *,
    mode: Mode | None = None,
    cache: Cache | None = None,
    power: Power | None = None,
    dispatch_s: float | None = None,
    what_if: Mapping[str, Any] | str | None = None,
) -> Setting:
    """The setting that is asked for; what is None is as in `report`, else the default of its framework."""
    before = report.setting or Setting(mode=_MODES.get(report.graph.framework, "graph"))
    return Setting(
        mode=mode or before.mode,
        cache=cache or before.cache,
        power=power or before.power,
        dispatch_s=before.dispatch_s if dispatch_s is None else dispatch_s,
        what_if=dict(before.what_if) if what_if is None else factors(what_if),
    )


def factors(given: Mapping[str, Any] | str) -> dict[str, float]:
    """The factors written in "bandwidth=2x,clock=0.9" or given as {"bandwidth": 2}.

    Raises:
        RooflabError: a pair that is not NAME=VALUE, or a value that is no number.
    """
    if isinstance(given, str):
        pairs = [pair.partition("=") for pair in given.split(",") if pair.strip()]
        given = {name.strip(): value.strip() for name, _, value in pairs}
    made = {}
    for name, value in given.items():
        try:
            made[name] = float(str(value).removesuffix("x"))
        except ValueError:
            raise RooflabError(f"what-if {name}={value}: expected a factor such as {name}=2x") from None
    return made
