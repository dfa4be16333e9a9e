"""Why kernels move more than they need, or stand below every roof: what counters say of accesses and occupancy."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from rooflab.types.counted import Access
from rooflab.types.finding import Finding
from rooflab.types.kernel_names import short_name
from rooflab.types.profile import Profile, ProfileRow
from rooflab.units import si

_USED = 0.5  # of a sector's bytes
_CONFLICTS = 0.1  # of the passes through shared memory
_ACTIVE = 0.8  # of a warp's threads
_MORE = 1.5  # bytes moved over bytes asked for
_LESS = 0.7
_FAR = 0.4  # of the nearest roof
_WORTH = 0.01  # of the time
_SPILLED = ("derived__local_spilling_requests", "Local Memory Spilling Requests")


def _rows(profile: Profile) -> Iterator[tuple[ProfileRow, Access]]:
    for row in profile.rows:
        if row.counted is not None and row.counted.access is not None:
            yield row, row.counted.access


def _finding(rule: str, rows: list[ProfileRow], says: str, hint: str, evidence: dict[str, float | str]) -> Finding:
    return Finding(
        rule=rule,
        kind="cause",
        says=says,
        hint=hint,
        evidence=evidence,
        rows=tuple(dict.fromkeys(row.name for row in rows)),
        time_s=sum(row.time_s for row in rows),
    )


def _worst(
    profile: Profile, value: Callable[[ProfileRow, Access], float | None], is_bad: Callable[[float], bool]
) -> tuple[list[ProfileRow], ProfileRow, float] | None:
    """The rows whose value is bad, and the one of them that took the most time, with its value."""
    bad: list[tuple[ProfileRow, float]] = []
    for row, access in _rows(profile):
        one = value(row, access)
        if one is not None and is_bad(one) and row.time_s >= _WORTH * profile.time_s:
            bad.append((row, one))
    if not bad:
        return None
    row, worst = max(bad, key=lambda pair: pair[0].time_s)
    return [one for one, _ in bad], row, worst


def uncoalesced(profile: Profile) -> Iterator[Finding]:
    """Loads or stores of global memory that use less than half of each sector."""
    for kind, what in (("load_use", "loads"), ("store_use", "stores")):
        found = _worst(profile, lambda _, access, kind=kind: getattr(access, kind), lambda share: share < _USED)
        if found is not None:
            rows, row, share = found
            yield _finding(
                "uncoalesced",
                rows,
                f"{short_name(row.name)}: its {what} use {share:.0%} of each 32-byte sector that is moved",
                "let neighbouring threads take neighbouring words: another layout, a tile in shared memory",
                {kind: share},
            )


def conflicts(profile: Profile) -> Iterator[Finding]:
    """Bank conflicts of shared memory."""
    found = _worst(profile, lambda _, access: access.conflict_share, lambda share: share > _CONFLICTS)
    if found is not None:
        rows, row, share = found
        yield _finding(
            "bank conflicts",
            rows,
            f"{short_name(row.name)}: bank conflicts cost {share:.0%} of the passes through shared memory",
            "pad the rows of the tile by one word, or swizzle its columns",
            {"share": share},
        )


def predication(profile: Profile) -> Iterator[Finding]:
    """Threads that were inactive or predicated off."""

    def active(row: ProfileRow, _: Access) -> float | None:
        instruction = None if row.placement is None else row.placement.instruction
        return None if instruction is None else instruction.predication

    found = _worst(profile, active, lambda share: share < _ACTIVE)
    if found is not None:
        rows, row, share = found
        yield _finding(
            "predication",
            rows,
            f"{short_name(row.name)}: {share:.0%} of the threads of a warp do something, on average",
            "branch by warps, not by threads; let blocks be multiples of 32 threads with whole rows of work",
            {"active": share},
        )


def amplification(profile: Profile) -> Iterator[Finding]:
    """Main memory moves more than the operation asks for."""
    found = [
        row
        for row in profile.rows
        if row.amplification is not None and row.amplification > _MORE and row.time_s >= _WORTH * profile.time_s
    ]
    if found:
        row = max(found, key=lambda one: one.time_s)
        yield _finding(
            "amplification",
            found,
            f"{short_name(row.name)}: main memory moved {row.amplification:.2f} times the bytes that it asks for",
            "tile it so that what is read again is still in a cache",
            {"amplification": row.amplification or 0.0},
        )


def resident(profile: Profile) -> Iterator[Finding]:
    """Main memory moved less than the operation asks for: its data lay in a cache."""
    found = [row for row in profile.rows if row.amplification is not None and row.amplification < _LESS]
    if found:
        row = max(found, key=lambda one: one.time_s)
        yield _finding(
            "cache-resident",
            found,
            f"{short_name(row.name)}: main memory moved {row.amplification:.0%} of the bytes that it asks for; "
            "the rest lay in a cache, or is still there to be written",
            "a run that begins with cold caches takes longer; flush them, or say that it is warm",
            {"amplification": row.amplification or 0.0},
        )


def spills(profile: Profile) -> Iterator[Finding]:
    """Registers spilled to local memory."""

    def spilled(row: ProfileRow, _: Access) -> float | None:
        metrics = {} if row.counted is None else row.counted.metrics
        return next((metrics[name] for name in _SPILLED if name in metrics), None)

    found = _worst(profile, spilled, lambda requests: requests > 0)
    if found is not None:
        rows, row, requests = found
        yield _finding(
            "spills",
            rows,
            f"{short_name(row.name)}: registers did not suffice, {si(requests, 'requests')} to local memory",
            "smaller tiles a thread, or fewer threads a block with more registers each",
            {"requests": requests},
        )


def latency(profile: Profile) -> Iterator[Finding]:
    """Kernels that use no roof much, with what their occupancy says."""

    def nearest(row: ProfileRow, _: Access) -> float | None:
        roof = None if row.placement is None or row.placement.bound is None else row.placement.highest
        return None if roof is None else roof.seconds * row.executions / row.time_s

    found = _worst(profile, nearest, lambda share: share < _FAR)
    if found is None or profile.machine is None:
        return
    rows, row, share = found
    assert row.counted is not None
    assert row.placement is not None
    access, name = row.counted.access or Access(), row.placement.binds
    why = []
    units, blocks = profile.machine.compute_units, math.prod(row.counted.grid or (0,))
    evidence: dict[str, float | str] = {"share": share}
    if units and 0 < blocks < 2 * units:
        why.append(f"{blocks} blocks on {units} {profile.machine.compute_unit or 'unit'}s")
        evidence |= {"blocks": blocks, "units": units}
    if access.occupancy is not None:
        limited = "" if access.limited_by is None else f", limited by {access.limited_by}"
        why.append(f"{access.occupancy:.0%} of the warps that fit were there{limited}")
        evidence["occupancy"] = access.occupancy
    yield _finding(
        "far from every roof",
        rows,
        f"{short_name(row.name)} uses {share:.0%} of its nearest roof, {name}: it waits for latency"
        + (f" ({'; '.join(why)})" if why else ""),
        "more independent work in flight: more blocks, more warps, more loads before their use",
        evidence,
    )


def without_flop(profile: Profile) -> Iterator[Finding]:
    """Kernels whose counters saw no FLOP: their place is on the bandwidth axis."""
    rows = [row for row in profile.rows if row.flop == 0]
    seconds = sum(row.time_s for row in rows)
    if rows and seconds >= _WORTH * profile.time_s:
        yield _finding(
            "no FLOP",
            rows,
            f"{len(rows)} rows do no FLOP ({seconds / profile.time_s:.0%} of the time): their bytes place them",
            "",
            {"kernels": float(len(rows))},
        )
