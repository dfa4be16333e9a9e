"""The operations of a profile as lines of numbers, in base units."""

from __future__ import annotations

from rooflab.types.profile import Profile, ProfileRow
from rooflab.views.common.lines import Lines

COLUMNS = (
    "operation",
    "kind",
    "shapes",
    "dtype",
    "module",
    "executions",
    "measured_s",
    "low_s",
    "high_s",
    "predicted_s",
    "expected_s",
    "floor_s",
    "bound",
    "binds",
    "flop",
    "nbytes",
    "flop_per_s",
    "bytes_per_s",
    "nearest_roof",
    "of_nearest_roof",
    "why_uncounted",
    "where",
    "phase",
    "unmatched",
)


def lines(profile: Profile) -> Lines:
    """A line for each row of `profile`; an unknown is empty."""
    return Lines(COLUMNS, [cells(row) for row in profile.rows])


def cells(row: ProfileRow) -> tuple[object, ...]:
    """The numbers of `row` in the order of `COLUMNS`; None is unknown."""
    predicted = row.prediction
    nearest = None if row.placement is None else row.placement.highest
    return (
        row.name,
        row.kind,
        row.shapes,
        row.dtype,
        row.module,
        row.executions,
        row.time_s,
        row.observation.low_s,
        row.observation.high_s,
        None if predicted is None else predicted.time_s,
        row.expected_s,
        None if predicted is None else predicted.floor_s,
        row.bound,
        row.binds,
        row.flop,
        row.nbytes,
        row.flop_per_s,
        row.bytes_per_s,
        None if nearest is None else nearest.name,
        None if nearest is None else nearest.share,
        row.why,
        row.where,
        row.phase,
        row.unmatched,
    )
