"""What the terminal and the page say of a sweep of tile sizes, as plain rows of text."""

from __future__ import annotations

from rooflab.types.tile_sweep import Tile, TileSweep
from rooflab.units import iec, si
from rooflab.views.common.table import Table, lasting

SHOWN_TILES = 24


def advice(sweep: TileSweep) -> str:
    """Which sizes to take, and why."""
    best = ", ".join(f"{name} = {size}" for name, size in sweep.best.items())
    return f"Take {best}: {sweep.why}"


def tiles(sweep: TileSweep, most: int = SHOWN_TILES) -> Table:
    """Traffic and times over tile size, by size; where there are many, all measured ones and every few others."""
    timed = [each for each in sweep.tiles if each.measured_s is not None]
    others = [each for each in sweep.tiles if each.measured_s is None]
    step = max(1, -(-len(others) // most))
    names = list(sweep.tiles[0].sizes)
    served = list(sweep.tiles[0].traffic_bytes)
    shown = sorted((*timed, *others[::step]), key=lambda tile: tuple(tile.sizes[name] for name in names))
    rows = tuple(_tile(each, names, served) for each in shown)
    columns = (*names, *(f"{name} bytes" for name in served), "predicted", "measured")
    held = ", ".join(f"{name} {iec(nbytes)}" for name, nbytes in sweep.capacities_bytes.items())
    note = f"Bytes that each level serves, from empty caches. Caches: {held}."
    if step > 1:
        note += f" One in {step} of the {len(others)} that were simulated alone; JSON, CSV and HTML have all."
    return Table("", columns, rows, note=note)


def _tile(tile: Tile, names: list[str], served: list[str]) -> tuple[str, ...]:
    return (
        *(f"{tile.sizes[name]:,}" for name in names),
        *(si(tile.traffic_bytes[name], "B") for name in served),
        lasting(tile.predicted_s),
        lasting(tile.measured_s),
    )
