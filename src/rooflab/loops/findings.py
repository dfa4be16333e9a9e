"""How the results of one way to run a loop compare with those of another, in sentences."""

from __future__ import annotations

from typing import Any, NamedTuple

from rooflab.loops.compiled.time import verify


class Findings(NamedTuple):
    """Comparisons of results that agreed, and warnings of those that did not."""

    checks: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    def __add__(self, other: Findings) -> Findings:  # type: ignore[override]
        return Findings(self.checks + other.checks, self.warnings + other.warnings)


def compare(name: str, results: tuple[Any, tuple], wanted: tuple[Any, tuple], summed: int = 0) -> Findings:
    """What comparing the results of `name` with those `wanted` found; `summed`: see `verify`."""
    differs = verify(name, results, wanted, summed)
    if differs is None:
        return Findings(checks=(f"{name} gives the counted run's results",))
    return Findings(warnings=(differs,))
