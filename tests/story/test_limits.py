"""A run's time by what limited it: no more of a row than its prediction explains."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from rooflab.story.limits import largest, limits_of
from rooflab.types.limit import Limit
from rooflab.types.prediction import Prediction
from rooflab.types.profile import KernelTime, Observation, Profile, ProfileRow
from rooflab.types.timeline import Timeline
from rooflab.views.profile import sheet, verdict

NONE = Timeline(devices=())


def row(time_s: float, predicted_s: float, bound: str = "compute-bound", binds: str = "fp32 vector") -> ProfileRow:
    """One operation, predicted within a quarter of `predicted_s`."""
    kernels = (KernelTime(name="k", runs=1, time_s=time_s),)
    return ProfileRow(
        name="aten.mm",
        kind="matmul",
        shapes="",
        dtype="",
        executions=1,
        observation=Observation(time_s=time_s, low_s=time_s, high_s=time_s, kernels=kernels),
        prediction=Prediction(
            time_s=predicted_s,
            low_s=0.75 * predicted_s,
            high_s=1.25 * predicted_s,
            floor_s=predicted_s / 2,
            compute_s=predicted_s,
            memory_s={},
            overhead_s=0.0,
            bound=bound,  # pyright: ignore[reportArgumentType]
            binds=binds,
        ),
    )


def test_a_row_within_its_bar_is_explained_whole() -> None:
    assert limits_of((row(1.2e-3, 1e-3),), NONE, None) == (
        Limit(bound="compute-bound", binds="fp32 vector", seconds=1.2e-3),
    )


def test_what_a_row_took_beyond_its_bar_is_not_known() -> None:
    # 1.6 s where 1 ms was predicted, at most 1.25 ms
    slow = row(1.6, 1e-3)
    limits = limits_of((slow, row(1e-3, 1e-3, "memory-bound", "DRAM")), NONE, None)
    assert [(one.bound, one.seconds) for one in limits] == [
        ("memory-bound", 1e-3),
        ("compute-bound", 1.25e-3),
        (None, pytest.approx(1.6 - 1.25e-3)),
    ]
    assert largest(limits) is None


def test_the_headline_says_so() -> None:
    rows = (row(1.6, 1e-3),)
    profile = replace(Profile(name="p", source="test", rows=rows), limits=limits_of(rows, NONE, None))
    assert verdict.headline(profile).startswith("What limited it is not known: 100 % of the time is beyond what")
    assert any(line.startswith("Limited by: not known, ") for line in sheet.sheet_of(profile).sentences)
