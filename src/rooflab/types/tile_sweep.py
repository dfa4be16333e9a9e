"""A loop tried at several tile sizes: what each moves at every level and takes."""

from __future__ import annotations

import msgspec

from rooflab.errors import RooflabError
from rooflab.types.machine import Machine
from rooflab.types.result import Result

SCHEMA = 1


class Tile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One configuration of tile sizes.

    Attributes:
        sizes: by name.
        traffic_bytes: by level that serves them, from empty caches.
        predicted_s: None without a machine whose rates are known.
        measured_s: of the configurations that were run, the best run.
        runs, spread: of the measurement.
    """

    sizes: dict[str, int]
    traffic_bytes: dict[str, float]
    predicted_s: float | None = None
    measured_s: float | None = None
    runs: int = 0
    spread: float | None = None


class TileSweep(Result, msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Traffic and time of a loop over its tile sizes.

    Attributes:
        tiles: in the order of their sizes.
        capacities_bytes: of the simulated caches, by level.
        best: sizes that are recommended, with `why`.
        failed: configurations that could not be run, with the reason.
    """

    NEWEST = SCHEMA
    WHAT = "a sweep of tile sizes"

    name: str
    tiles: tuple[Tile, ...]
    capacities_bytes: dict[str, int]
    best: dict[str, int]
    why: str
    machine: Machine | None = None
    failed: dict[str, str] = {}
    warnings: tuple[str, ...] = ()
    schema: int = SCHEMA

    def __post_init__(self) -> None:
        alike = {(frozenset(each.sizes), frozenset(each.traffic_bytes)) for each in self.tiles}
        if len(alike) != 1 or not self.best.keys() <= self.tiles[0].sizes.keys():
            raise RooflabError(
                "a sweep of tile sizes: expected tiles that name the same sizes and the same levels"
            )
        if not any(each.sizes == self.best for each in self.tiles):
            raise RooflabError(f"a sweep of tile sizes: best: got {self.best}, expected one of its tiles")

    def _summary(self) -> str:
        best = ", ".join(f"{name}={size}" for name, size in self.best.items())
        return f"{self.name}: {len(self.tiles)} tile sizes, best {best}"
