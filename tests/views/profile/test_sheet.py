"""What a profile's sheet shows of operations that stand in several modules."""

from __future__ import annotations

import msgspec

import rooflab
from rooflab.model.roofline.counted import place
from rooflab.types.counted import Counted
from rooflab.types.profile import KernelTime, Observation, Profile, ProfileRow
from rooflab.types.work import Cost, Flop, Traffic
from rooflab.views.profile.sheet import sheet_of

H200 = rooflab.machine("h200-sxm")


def row(module: str, time_s: float) -> ProfileRow:
    """A product of 100 GFLOP and 1 GB that took `time_s`."""
    cost = Cost(flop=(Flop("matrix", "bf16", 1e11),), compulsory=Traffic("memory", 1e9, 0.0, "compulsory"))
    work = Counted(name="aten.mm", time_s=time_s, flop=cost.flop, traffic=(cost.compulsory,))
    return ProfileRow(
        name="aten.mm",
        kind="matmul",
        shapes="a · b",
        dtype="bf16",
        executions=1,
        observation=Observation(
            time_s=time_s,
            low_s=time_s,
            high_s=time_s,
            kernels=(KernelTime(name="k", runs=1, time_s=time_s),),
        ),
        cost=cost,
        placement=place(work, H200),
        module=module,
    )


def test_rows_of_several_modules_have_the_share_of_all_together():
    """1 ms and 3 ms: 200 GFLOP in 4 ms are 50 TFLOP/s, 5 % of 989.5; 2 GB are 0.5 TB/s, 10 % of 4.8."""
    profile = Profile(name="p", source="test", rows=(row("0", 1e-3), row("1", 3e-3)), machine=H200)
    table = next(one for one in sheet_of(profile).tables if one.title == "Operations by measured time")
    line = dict(zip(table.columns, table.rows[0], strict=True))
    assert (line["times"], line["FLOP/s"], line["B/s"]) == ("2", "50.0 TFLOP/s (5 %)", "500 GB/s (10 %)")
    alone = msgspec.structs.replace(profile, rows=profile.rows[:1])
    table = next(one for one in sheet_of(alone).tables if one.title == "Operations by measured time")
    assert dict(zip(table.columns, table.rows[0], strict=True))["FLOP/s"] == "100 TFLOP/s (10 %)"
