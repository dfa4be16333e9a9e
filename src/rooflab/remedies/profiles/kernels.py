"""Rules about kernels: what counters say is wasted taken out, and the kernel put under its roofs again.

With the waste out, what binds may be another roof: the time is that of the highest one then, as near to it as the
kernel was to its highest before. At least, only what the wasted part took at full speed goes; at most, the kernel
follows the mended roof alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from rooflab.remedies.profiles.case import Change, Saving, Unasked
from rooflab.types.counted import Access
from rooflab.types.kernel_names import short_name
from rooflab.types.machine import Machine, is_main_memory
from rooflab.types.profile import Profile, ProfileRow
from rooflab.units import duration, percent, si

Found = Iterator[Change | Unasked]
Mended = Mapping[str, float]  # seconds of an execution by roof, with the waste taken out
_USED = 0.75  # of a sector's bytes: above, there is little to mend
_CONFLICTS = 0.1  # of the passes through shared memory
_MORE = 1.5  # bytes moved ÷ bytes asked for
_PART = 0.005  # of the profile's time: a kernel that takes less is not looked at
_NEAR = 0.8  # of a roof: nearer, a kernel is as it should be
_PASSES = "shared memory's passes"


def coalesce(profile: Profile) -> Found:
    """Neighbouring threads at neighbouring words, where only a part of each sector is used."""

    def mended(row: ProfileRow, access: Access) -> Mended | None:
        assert row.counted is not None
        assert row.placement is not None
        moved = row.counted.at("L2")
        if moved is None or not moved.nbytes:
            return None
        asked = moved.read_bytes * (access.load_use or 1.0) + moved.write_bytes * (access.store_use or 1.0)
        if asked >= _USED * moved.nbytes:
            return None
        changed = {}
        for roof in row.placement.roofs:
            if roof.kind == "level" and roof.amount:
                # Caches may have caught a part of the waste: main memory then moves less than was asked for.
                memory = _is_memory(profile.machine, roof.name)
                less = min(1.0, asked / roof.amount) if memory else asked / moved.nbytes
                changed[roof.name] = roof.seconds * less
        return changed

    yield from _of_rows(
        profile,
        mended,
        rule="coalesce",
        says=lambda row, access: _sectors(row, access),
    )


def _sectors(row: ProfileRow, access: Access) -> str:
    parts = [("loads", access.load_use), ("stores", access.store_use)]
    used = " and ".join(f"its {what} {percent(use)}" for what, use in parts if use is not None and use < _USED)
    many = access.sectors_per_request
    told = "" if many is None else f"; {many:.3g} sectors a request, words of 4 bytes side by side need 4"
    return f"{short_name(row.name)}: {used} of each sector of 32 bytes that is moved{told}"


def bank_conflicts(profile: Profile) -> Found:
    """Padded or swizzled tiles, where banks of shared memory serve one thread after the other."""

    def mended(row: ProfileRow, access: Access) -> Mended | None:
        share, passes_s = access.conflict_share, _passes_s(access, profile.machine)
        if share is None or share < _CONFLICTS or passes_s is None:
            return None
        return {_PASSES: passes_s * (1 - share)}

    yield from _of_rows(
        profile,
        mended,
        rule="bank-conflicts",
        says=lambda row, access: (
            f"{short_name(row.name)}: {percent(access.conflict_share or 0.0)} of shared memory's passes are "
            "conflicts"
        ),
    )


def amplification(profile: Profile) -> Found:
    """Tiles that keep what is read again in a cache, where memory moves more than is asked for."""

    def mended(row: ProfileRow, access: Access) -> Mended | None:
        if row.amplification is None or row.amplification < _MORE or row.placement is None:
            return None
        return {
            roof.name: roof.seconds / row.amplification
            for roof in row.placement.roofs
            if _is_memory(profile.machine, roof.name)
        }

    yield from _of_rows(
        profile,
        mended,
        rule="tile-kernel",
        says=lambda row, _: (
            f"{short_name(row.name)}: memory moves {row.amplification or 0.0:.2f} times the bytes that it asks for"
        ),
    )


def occupancy(profile: Profile) -> Found:
    """More warps in flight, where a kernel is far from every roof and few of those that fit are there.

    By Little's law what is in flight over the latency is the rate, until a roof is reached (Volkov, "Understanding
    Latency Hiding on GPUs", UCB/EECS-2016-143): twice the warps, or all of them, and no faster than the roof.
    """
    found, seconds = [], Saving(0.0, 0.0, 0.0)
    for number, row, access in _counted(profile):
        placement = row.placement
        if access.occupancy is None or placement is None or placement.highest is None or placement.bound is None:
            continue
        each_s, floor_s = row.time_s / row.executions, placement.highest.seconds
        if floor_s >= 0.5 * each_s or access.occupancy >= 0.5 or access.occupancy <= 0:
            continue
        twice, full = (
            max(floor_s, each_s * access.occupancy / to) for to in (min(1.0, 2 * access.occupancy), 1.0)
        )
        found.append((number, row, access))
        seconds = _plus(seconds, Saving(each_s - twice, 0.0, each_s - full), row.executions)
    if found:
        number, row, access = max(found, key=lambda one: one[1].time_s)
        limit = f", limited by {access.limited_by}" if access.limited_by else ""
        yield Change(
            rule="occupancy",
            evidence=(
                f"{short_name(row.name)}: {percent(access.occupancy or 0.0)} of the warps that fit were "
                f"there{limit}; "
                f"{percent(_of_roof(row))} of its highest roof",
                "predicted with twice the warps; at most as if all that fit were there",
            ),
            saving=seconds,
            rows=tuple(number for number, *_ in found),
        )


def tensor_cores(profile: Profile) -> Found:
    """Products on the matrix engines, where they run on the ordinary units."""
    machine, found = profile.machine, []
    saving, evidence = Saving(0.0, 0.0, 0.0), ""
    for number, row in enumerate(profile.rows):
        flop = row.counted.flop if row.counted is not None else None if row.cost is None else row.cost.flop
        if machine is None or flop is None or not _is_product(row) or row.placement is None:
            continue
        vector = {one.dtype: one.count for one in flop if one.engine == "vector" and one.dtype in _MATRIX_OF}
        if not vector or sum(vector.values()) < 0.9 * sum(one.count for one in flop):
            continue
        engines_s = 0.0
        for dtype, count in vector.items():
            peak = machine.peak(_MATRIX_OF[dtype], engine="matrix", basis="attained") or machine.peak(
                _MATRIX_OF[dtype], engine="matrix"
            )
            engines_s += count / peak.value if peak is not None else float("inf")
        engine_roofs = {roof.name: 0.0 for roof in row.placement.roofs if roof.kind in ("engine", "issue")}
        one = _through_roofs(row, {**engine_roofs, "matrix engines": engines_s})
        if one is not None:
            found.append(number)
            saving = _plus(saving, one, row.executions)
            evidence = evidence or (
                f"{short_name(row.name)}: {si(sum(vector.values()), 'FLOP')} of {', '.join(vector)} on the "
                f"ordinary units, {duration(row.time_s / row.executions)}; the matrix engines take "
                f"{duration(engines_s)} for it"
            )
    if found:
        yield Change(
            rule="tensor-cores",
            evidence=(evidence,),
            saving=saving,
            rows=tuple(found),
        )


_MATRIX_OF = {"fp32": "tf32", "fp16": "fp16", "bf16": "bf16"}


def _is_product(row: ProfileRow) -> bool:
    return row.kind in ("matmul", "grouped_matmul", "conv") or "gemm" in row.name.casefold()


def _of_rows(
    profile: Profile,
    mended: Callable[[ProfileRow, Access], Mended | None],
    *,
    says: Callable[[ProfileRow, Access], str],
    rule: str,
) -> Found:
    """One change for all rows that `mended` finds a waste in, with what it saves through the roofs."""
    found, seconds = [], Saving(0.0, 0.0, 0.0)
    for number, row, access in _counted(profile):
        less = mended(row, access)
        one = None if less is None else _through_roofs(row, less, _passes_s(access, profile.machine))
        if one is not None:
            found.append((number, row, access))
            seconds = _plus(seconds, one, row.executions)
    if found:
        _, row, access = max(found, key=lambda one: one[1].time_s)
        more = f"{len(found)} kernels are so" if len(found) > 1 else ""
        yield Change(
            rule=rule,
            evidence=tuple(filter(None, (says(row, access), more))),
            saving=seconds,
            rows=tuple(number for number, *_ in found),
        )


def _through_roofs(row: ProfileRow, mended: Mended, passes_s: float | None = None) -> Saving | None:
    """Seconds of one execution saved with the `mended` roofs; None where the highest roof is not one of them.

    A kernel that is near a roof that is not mended stays as it is.
    """
    assert row.placement is not None
    before = {roof.name: roof.seconds for roof in row.placement.roofs}
    if passes_s is not None:
        before[_PASSES] = passes_s
    after = {**before, **mended}
    high, low = max(before.values(), default=0.0), max(after.values(), default=0.0)
    each_s = row.time_s / row.executions
    if not high or low >= high or not each_s:
        return None
    if any(seconds >= _NEAR * each_s for seconds in after.values()):
        return None
    best = each_s * (1 - low / high)
    alone = max((after[name] / before[name] for name in mended if before.get(name) == high), default=low / high)
    return Saving(best, min(best, high - low), max(best, each_s * (1 - alone)))


def _counted(profile: Profile) -> Iterator[tuple[int, ProfileRow, Access]]:
    least_s = _PART * profile.time_s
    for number, row in enumerate(profile.rows):
        if row.time_s < least_s or row.counted is None or row.counted.device is not None:
            continue
        if row.counted.access is not None and row.placement is not None:
            yield number, row, row.counted.access


def _passes_s(access: Access, machine: Machine | None) -> float | None:
    """What the passes through shared memory take: one a clock and multiprocessor."""
    clock_hz = access.clock_hz or (
        None if machine is None else max((r.value for r in machine.clocks), default=None)
    )
    if access.shared_wavefronts is None or machine is None or not machine.compute_units or not clock_hz:
        return None
    return access.shared_wavefronts / machine.compute_units / clock_hz


def _is_memory(machine: Machine | None, name: str) -> bool:
    return machine is not None and any(level.name == name and is_main_memory(level) for level in machine.levels)


def _of_roof(row: ProfileRow) -> float:
    highest = None if row.placement is None else row.placement.highest
    return 0.0 if highest is None else highest.seconds * row.executions / row.time_s


def _plus(sum_of: Saving, one: Saving, times: int) -> Saving:
    return Saving(*(total + times * each for total, each in zip(sum_of, one, strict=True)))
