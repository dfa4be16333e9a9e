"""The rows of a file of counters: kernels launched alike as one, the mean of what was counted of each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from statistics import fmean

import msgspec
import numpy as np

from rooflab.observe.matching.counted_kernels import flop_of, traffic_of
from rooflab.types.counted import Access, Counted
from rooflab.types.profile import KernelTime, Observation, ProfileRow


def counted_rows(counted: Iterable[Counted]) -> tuple[ProfileRow, ...]:
    """A row for each kernel, region or run that was counted and timed, most time first.

    Kernels of one name with the same grid and block are one row, its counts their means; so is what has no grid
    and did the same work.
    """
    same: dict[tuple[object, ...], list[Counted]] = defaultdict(list)
    for one in counted:
        if one.time_s is not None:
            alike = (one.grid, one.block) if one.grid is not None else (one.flop, one.traffic)
            same[one.name, one.module, *alike].append(one)
    return tuple(sorted((_row(several) for several in same.values()), key=lambda row: -row.time_s))


def _row(several: list[Counted]) -> ProfileRow:
    first = several[0]
    times = np.array([one.time_s for one in several], float)
    runs = np.array([one.runs for one in several])
    low_s, high_s = np.quantile(np.repeat(times, np.minimum(runs, 10_000)), (0.1, 0.9))
    total_s = float((times * runs).sum())
    return ProfileRow(
        name=first.name,
        kind=None,
        shapes=_launch(first),
        dtype="",
        executions=int(runs.sum()),
        observation=Observation(
            time_s=total_s,
            low_s=float(low_s),
            high_s=float(high_s),
            kernels=(KernelTime(name=first.name, runs=int(runs.sum()), time_s=total_s),),
        ),
        counted=first if len(several) == 1 else _mean(several),
        module=first.module,
        why="counted by the hardware; the operation is not recorded",
    )


def _launch(one: Counted) -> str:
    if one.grid is None or one.block is None:
        return ""
    grid, block = ("x".join(map(str, _short(sizes))) for sizes in (one.grid, one.block))
    return f"{grid} blocks of {block}"


def _short(sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Without the ones at the end."""
    while len(sizes) > 1 and sizes[-1] == 1:
        sizes = sizes[:-1]
    return sizes


def _mean(several: list[Counted]) -> Counted:
    """The mean of one execution; what is not known of each is not known."""
    first = several[0]
    return msgspec.structs.replace(
        first,
        time_s=fmean((one.time_s or 0.0 for one in several), [one.runs for one in several]),
        runs=sum(one.runs for one in several),
        flop=flop_of([one.flop for one in several], 1 / len(several)),
        traffic=traffic_of([one.traffic for one in several], 1 / len(several)),
        instructions=_number(one.instructions for one in several),
        thread_instructions=_number(one.thread_instructions for one in several),
        transactions=_numbers([one.transactions for one in several]),
        metrics=_numbers([one.metrics for one in several]),
        access=_access([one.access for one in several]),
    )


def _number(values: Iterable[float | None]) -> float | None:
    found = list(values)
    known = [one for one in found if one is not None]
    return fmean(known) if len(known) == len(found) else None


def _numbers(several: list[dict[str, float]]) -> dict[str, float]:
    shared = set(several[0]).intersection(*several[1:])
    return {name: fmean(one[name] for one in several) for name in several[0] if name in shared}


def _access(several: list[Access | None]) -> Access | None:
    known = [one for one in several if one is not None]
    if len(known) < len(several):
        return None
    means: dict[str, object] = {}
    for name in Access.__struct_fields__:
        values = [getattr(one, name) for one in known]
        if name == "limited_by":
            means[name] = values[0]
        else:
            means[name] = _numbers(values) if isinstance(values[0], dict) else _number(values)
    return msgspec.convert(means, Access)
