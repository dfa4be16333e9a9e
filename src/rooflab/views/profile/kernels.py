"""Kernels, regions and runs that the hardware counted: under their roofs, their accesses, their instructions."""

from __future__ import annotations

from rooflab import units
from rooflab.types.counted import Access
from rooflab.types.kernel_names import short_name
from rooflab.types.placement import Placement, RoofShare
from rooflab.types.profile import Profile, ProfileRow
from rooflab.views.common.table import UNKNOWN, Table, quantity, without_empty

_SHOWN = 40  # rows; the files hold all


def tables_of(profile: Profile) -> tuple[Table, ...]:
    """The tables of the rows of `profile` that were counted, most time first."""
    rows = [row for row in profile.rows if row.counted is not None][:_SHOWN]
    left = len(profile.rows) - len(rows)
    cores = profile.machine is not None and profile.machine.kind == "cpu"
    note = f"{left} more: the files have all." if left else ""
    return tuple(
        table
        for table in (_roofs(rows, profile.time_s, note, cores), _accesses(rows), _instructions(rows))
        if table.rows
    )


def _roofs(rows: list[ProfileRow], total_s: float, note: str, cores: bool) -> Table:
    """A column for each level and each kind of issue that any of `rows` used, and one for engines."""
    levels, issue = (
        list(dict.fromkeys(roof.name for row in rows for roof in _shares(row) if roof.kind == kind))
        for kind in ("level", "issue")
    )
    lines = []
    for row in rows:
        shares = {roof.name: units.percent(roof.share, 1) for roof in _shares(row)}
        memory = _memory(row.placement)
        lines.append(
            (
                short_name(row.name, 44),
                row.shapes or UNKNOWN,
                row.binds or UNKNOWN,
                f"{row.executions:,}",
                units.duration(row.time_s),
                units.percent(row.time_s / total_s, 1) if total_s else UNKNOWN,
                *(shares.get(name, UNKNOWN) for name in levels),
                _engine(row),
                *(shares.get(name, UNKNOWN) for name in issue),
                quantity(row.flop_per_s, "FLOP/s"),
                quantity(row.bytes_per_s, "B/s"),
                UNKNOWN if memory is None or memory.intensity is None else f"{memory.intensity:.3g}",
            )
        )
    columns = (
        "kernel",
        "launch",
        "bound by",
        "times",
        "measured",
        "of time",
        *levels,
        "engine",
        *issue,
        "FLOP/s",
        "B/s",
        "FLOP/B",
    )
    told = "Under a roof's name: the share of it that was used, theoretical where that is known."
    if cores:
        told = f"{told} Roofs are those of all cores, whichever it ran on."
    return without_empty("Under the roofs", columns, lines, words=3, note=f"{told} {note}".strip())


def _shares(row: ProfileRow) -> tuple[RoofShare, ...]:
    return () if row.placement is None else row.placement.roofs


def _engine(row: ProfileRow) -> str:
    """The engine that was used most, and its share."""
    engines = [roof for roof in _shares(row) if roof.kind == "engine"]
    most = max(engines, key=lambda roof: roof.share, default=None)
    return UNKNOWN if most is None else f"{units.percent(most.share, 1)} {most.name}"


def _memory(placement: Placement | None) -> RoofShare | None:
    """The furthest level that was counted."""
    levels = [] if placement is None else [roof for roof in placement.roofs if roof.kind == "level"]
    return levels[-1] if levels else None


def _accesses(rows: list[ProfileRow]) -> Table:
    lines = []
    for row in rows:
        access = None if row.counted is None else row.counted.access
        cells = () if access is None else _access(access)
        if any(cell != UNKNOWN for cell in cells):
            lines.append((short_name(row.name, 44), *cells))
    columns = (
        "kernel",
        "warps limited by",
        "warps there",
        "of at most",
        "loads use",
        "stores use",
        "sectors a request",
        "bank conflicts",
        "L1 hits",
        "L2 hits",
        "clock",
    )
    note = "Use: share of the bytes of the moved sectors that threads asked for; 100 % is coalesced."
    return without_empty("Accesses and occupancy", columns, lines, words=2, note=note)


def _access(access: Access) -> tuple[str, ...]:
    each = access.sectors_per_request
    return (
        access.limited_by or UNKNOWN,
        _percent(access.occupancy),
        _percent(access.occupancy_limit),
        _percent(access.load_use),
        _percent(access.store_use),
        UNKNOWN if each is None else f"{each:.3g}",
        _percent(access.conflict_share),
        _percent(access.hit_rates.get("L1")),
        _percent(access.hit_rates.get("L2")),
        quantity(access.clock_hz, "Hz"),
    )


def _instructions(rows: list[ProfileRow]) -> Table:
    placed = [(row, row.placement.instruction) for row in rows if row.placement and row.placement.instruction]
    levels = list(dict.fromkeys(level for _, one in placed if one is not None for level in one.intensity))
    lines = []
    for row, one in placed:
        if one is None:
            continue
        lines.append(
            (
                short_name(row.name, 44),
                one.binds,
                one.global_pattern or UNKNOWN,
                f"{one.inst_per_s / 1e9:,.1f} GIPS",
                units.percent(one.inst_per_s / one.peak_inst_per_s, 1),
                *(f"{one.intensity[level]:.3g}" if level in one.intensity else UNKNOWN for level in levels),
                _percent(one.predication),
            )
        )
    columns = (
        "kernel",
        "bound by",
        "global accesses look like",
        "warp instructions",
        "of peak",
        *(f"per {level} transaction" for level in levels),
        "active threads",
    )
    note = "Instruction roofline (Ding and Williams 2019): warp instructions, transactions of 32 bytes."
    return without_empty("Instructions", columns, lines, words=3, note=note)


def _percent(share: float | None) -> str:
    return UNKNOWN if share is None else units.percent(share)
