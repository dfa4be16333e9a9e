"""rocprofv3's traces as CSV, built from the documented headings, not written by the tool."""

from __future__ import annotations

from pathlib import Path

import pytest

import rooflab
from rooflab.errors import FileError
from rooflab.observe.importers.traces.rocprofv3_csv import load
from rooflab.types.trace import ANNOTATION, COPY, KERNEL

SAMPLES = Path(__file__).parents[3] / "samples" / "profiles" / "rocprofv3_csv"


def test_kernels_of_two_agents():
    """Grids are given in threads: 1000 × 8 threads in groups of 64 × 2 are 16 × 4 groups."""
    found = load(SAMPLES / "kernel_trace.csv")
    kernels = found.kernels
    assert kernels.kind.tolist() == [KERNEL] * 3
    assert kernels.duration_s.tolist() == pytest.approx([3.565e-6, 1.682e-6, 6.009e-6])
    assert kernels.start_s[1] == pytest.approx(55.882e-6)
    assert (kernels.device.tolist(), kernels.stream.tolist()) == ([4, 4, 5], [0, 0, 3])
    assert kernels.correlation.tolist() == [119662, 119670, 119696]
    shape = found.shapes[kernels.shape[1]]
    assert (shape.grid, shape.block, shape.registers, shape.shared_bytes) == ((16, 4, 1), (64, 2, 1), 4, 1024)
    assert found.names[kernels.name[1]] == "void add<float>(float*, float const*, int)"
    devices = rooflab.load(SAMPLES / "kernel_trace.csv").timeline.devices
    assert [(one.device, one.busy_s) for one in devices] == [
        (4, pytest.approx(5.247e-6)),
        (5, pytest.approx(6.009e-6)),
    ]


def test_copies_belong_to_the_device_and_their_bytes_are_not_known():
    found = load(SAMPLES / "memory_copy_trace.csv")
    kernels = found.kernels
    assert kernels.kind.tolist() == [COPY, COPY]
    assert [found.names[one] for one in kernels.name] == ["Memcpy HtoD", "Memcpy DtoH"]
    assert kernels.device.tolist() == [4, 4]
    assert kernels.duration_s.tolist() == pytest.approx([50e-6, 30e-6])
    assert not (kernels.nbytes >= 0).any()


def test_calls_and_ranges_without_kernels():
    found = load(SAMPLES / "hip_api_trace.csv")
    assert [found.names[one] for one in found.launches.name] == ["hipMemcpyAsync", "hipLaunchKernel"]
    assert [found.names[one] for one in found.calls.name] == ["step 1"]
    assert found.calls.kind.tolist() == [ANNOTATION]
    assert found.threads == (("1688", "1688"),)
    assert any("--kernel-trace" in note for note in found.notes)
    assert rooflab.load(SAMPLES / "hip_api_trace.csv").rows == ()


@pytest.mark.parametrize(
    ("header", "row"),
    [
        (
            "Kind,Agent_Id,Queue_Id,Kernel_Id,Kernel_Name,Correlation_Id,Start_Timestamp,End_Timestamp,"
            "Private_Segment_Size,Group_Segment_Size,Workgroup_Size_X,Workgroup_Size_Y,Workgroup_Size_Z,"
            "Grid_Size_X,Grid_Size_Y,Grid_Size_Z",
            "KERNEL_DISPATCH,1,139690710949888,15,k,0,671599758568,671599825328,0,64,4,4,1,1024,1024,1",
        ),
        (
            "Guid,Kind,Agent_Id,Queue_Id,Stream_Id,Thread_Id,Dispatch_Id,Kernel_Id,Kernel_Name,Correlation_Id,"
            "Start_Timestamp,End_Timestamp,Lds_Block_Size,Scratch_Size,Vgpr_Count,Workgroup_Size_X,"
            "Workgroup_Size_Y,Workgroup_Size_Z,Grid_Size_X,Grid_Size_Y,Grid_Size_Z",
            "0000-00d1,KERNEL_DISPATCH,GPU 1,1,0,7,1,3,k,1,671599758568,671599825328,64,0,8,4,4,1,1024,1024,1",
        ),
    ],
)
def test_headings_over_the_versions(tmp_path, header, row):
    path = tmp_path / "t.csv"
    path.write_text(f"{header}\n{row}\n", encoding="utf-8")
    found = load(path)
    assert found.kernels.duration_s.tolist() == pytest.approx([66.76e-6])
    assert found.kernels.device.tolist() == [1]
    shape = found.shapes[found.kernels.shape[0]]
    assert (shape.grid, shape.block, shape.shared_bytes) == ((256, 256, 1), (4, 4, 1), 64)


def test_lines_that_cannot_be_used_are_counted(tmp_path):
    path = tmp_path / "t.csv"
    lines = (SAMPLES / "kernel_trace.csv").read_text("utf-8").splitlines()
    lines[1] = lines[1].replace("172352210008687", "0")
    lines.insert(2, "only,three,cells,and,more,than,the,table,has" + "," * 30)
    path.write_text("\n".join(lines), encoding="utf-8")
    found = load(path)
    assert len(found.kernels) == 2
    assert [one.count for one in found.dropped] == [1, 1]


def test_no_usable_line(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("Domain,Function,Start_Timestamp,End_Timestamp\nHIP,f,x,y\n", encoding="utf-8")
    with pytest.raises(FileError, match="a start and an end") as caught:
        load(path)
    assert str(caught.value).startswith(str(path))
