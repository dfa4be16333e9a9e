"""What was counted without a time is told, not silently left out."""

from __future__ import annotations

import pytest

import rooflab
from rooflab.types.profile import Profile

# In the layout of rocprof without --timestamp; sizes are in KiB.
TABLE = """Index,KernelName,gpu-id,queue-id,queue-index,pid,tid,grd,wgr,lds,scr,vgpr,sgpr,sig,FETCH_SIZE,WRITE_SIZE
0,"product.kd",0,0,0,12345,12345,524288,256,65536,0,128,48,0x7f,1024,512
1,"product.kd",0,0,0,12345,12345,524288,256,65536,0,128,48,0x7f,1024,512
"""


def test_counters_without_a_time_are_told(tmp_path):
    path = tmp_path / "results.csv"
    path.write_text(TABLE)
    profile = rooflab.load(path)
    assert isinstance(profile, Profile)
    assert profile.rows == ()
    assert sum(one.count for one in profile.dropped) == 2
    told = [note for note in profile.notes if "counted without a time" in note]
    # (1024 + 512) · 1024 B = 1.573 MB, once for both launches
    assert told == [f"counted without a time: product.kd: {1536 * 1024 / 1e6:.2f} MB at DRAM"]


def test_what_has_a_time_is_not_told(tmp_path):
    path = tmp_path / "results.csv"
    lines = TABLE.splitlines()
    path.write_text(f"{lines[0]},BeginNs,EndNs\n{lines[1]},1000,3000\n{lines[2]}\n")
    profile = rooflab.load(path)
    assert isinstance(profile, Profile)
    assert [row.executions for row in profile.rows] == [1]
    assert profile.rows[0].time_s == pytest.approx(2e-6)
    assert sum(one.count for one in profile.dropped) == 1
