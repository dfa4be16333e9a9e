"""Why kernels move more than they need, or stand below every roof: what counters say of accesses and occupancy."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

from rooflab.types.counted import Access
from rooflab.types.finding import Finding
from rooflab.types.kernel_names import short_name
from rooflab.types.profile import Profile, ProfileRow
from rooflab.units import percent, si

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


class _Sign(NamedTuple):
    """What a number of a kernel's accesses says of it.

    Attributes:
        name: of the number, in the evidence.
        value: of a kernel; None where it was not counted.
        is_bad: whether a value is worth a sentence, which `says` writes.
        hint: what may help.
    """

    name: str
    value: Callable[[ProfileRow, Access], float | None]
    is_bad: Callable[[float], bool]
    says: Callable[[float], str]
    hint: str


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


def _looking(rule: str, *signs: _Sign) -> Callable[[Profile], Iterator[Finding]]:
    """A rule that speaks for each of `signs` that kernels show, of the one that took the most time."""

    def look(profile: Profile) -> Iterator[Finding]:
        for sign in signs:
            found = _worst(profile, sign.value, sign.is_bad)
            if found is not None:
                rows, row, value = found
                says = f"{short_name(row.name)}: {sign.says(value)}"
                yield _finding(rule, rows, says, sign.hint, {sign.name: value})

    return look


def _active(row: ProfileRow, _: Access) -> float | None:
    instruction = None if row.placement is None else row.placement.instruction
    return None if instruction is None else instruction.predication


def _spilled(row: ProfileRow, _: Access) -> float | None:
    metrics = {} if row.counted is None else row.counted.metrics
    return next((metrics[name] for name in _SPILLED if name in metrics), None)


_NEIGHBOURS = "let neighbouring threads take neighbouring words: another layout, a tile in shared memory"

uncoalesced = _looking(
    "uncoalesced",
    _Sign(
        "load_use",
        lambda _, access: access.load_use,
        lambda share: share < _USED,
        lambda share: f"its loads use {percent(share)} of each 32-byte sector that is moved",
        _NEIGHBOURS,
    ),
    _Sign(
        "store_use",
        lambda _, access: access.store_use,
        lambda share: share < _USED,
        lambda share: f"its stores use {percent(share)} of each 32-byte sector that is moved",
        _NEIGHBOURS,
    ),
)
conflicts = _looking(
    "bank conflicts",
    _Sign(
        "share",
        lambda _, access: access.conflict_share,
        lambda share: share > _CONFLICTS,
        lambda share: f"bank conflicts cost {percent(share)} of the passes through shared memory",
        "pad the rows of the tile by one word, or swizzle its columns",
    ),
)
predication = _looking(
    "predication",
    _Sign(
        "active",
        _active,
        lambda share: share < _ACTIVE,
        lambda share: f"{percent(share)} of the threads of a warp do something, on average",
        "branch by warps, not by threads; let blocks be multiples of 32 threads with whole rows of work",
    ),
)
spills = _looking(
    "spills",
    _Sign(
        "requests",
        _spilled,
        lambda requests: requests > 0,
        lambda requests: f"registers did not suffice, {si(requests, 'requests')} to local memory",
        "smaller tiles a thread, or fewer threads a block with more registers each",
    ),
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
            f"{short_name(row.name)}: main memory moved {percent(row.amplification)} of the bytes that it asks "
            "for; "
            "the rest lay in a cache, or is still there to be written",
            "a run that begins with cold caches takes longer; flush them, or say that it is warm",
            {"amplification": row.amplification or 0.0},
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
        why.append(f"{percent(access.occupancy)} of the warps that fit were there{limited}")
        evidence["occupancy"] = access.occupancy
    yield _finding(
        "far from every roof",
        rows,
        f"{short_name(row.name)} uses {percent(share)} of its nearest roof, {name}: it waits for latency"
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
            f"{percent(seconds / profile.time_s)} of the time does no FLOP (rows: {len(rows)}): bytes place it",
            "",
            {"kernels": float(len(rows))},
        )
