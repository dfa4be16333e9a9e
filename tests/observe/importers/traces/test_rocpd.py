"""rocprofv3's databases, built from the schema in its source (version 3), not written by the tool."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import rooflab
from rooflab.errors import FileError
from rooflab.observe.importers import load
from rooflab.types.counted import Counters
from rooflab.types.trace import ANNOTATION, COPY, KERNEL, Trace

SAMPLES = Path(__file__).parents[3] / "samples" / "profiles" / "sqlite_exports"
RUN = "_00006409_00d1_70d1_a5cb_b5ab88214544"
T0 = 1_678_314_002_000_000
SCHEMA = {
    "string": "id INTEGER NOT NULL PRIMARY KEY, guid TEXT, string TEXT NOT NULL",
    "info_process": "id INTEGER NOT NULL PRIMARY KEY, guid TEXT, nid INTEGER, pid INTEGER NOT NULL, command TEXT",
    "info_thread": "id INTEGER NOT NULL PRIMARY KEY, guid TEXT, nid INTEGER, pid INTEGER, tid INTEGER, name TEXT",
    "info_agent": "id INTEGER NOT NULL PRIMARY KEY, guid TEXT, type TEXT, absolute_index INTEGER, "
    "logical_index INTEGER, type_index INTEGER, name TEXT, model_name TEXT, product_name TEXT, extdata JSONB",
    "info_kernel_symbol": "id INTEGER NOT NULL PRIMARY KEY, guid TEXT, kernel_name TEXT, display_name TEXT",
    "info_pmc": "id INTEGER NOT NULL PRIMARY KEY, guid TEXT, agent_id INTEGER, name TEXT NOT NULL, symbol TEXT",
    "event": "id INTEGER NOT NULL PRIMARY KEY, guid TEXT, category_id INTEGER, stack_id INTEGER, "
    "correlation_id INTEGER, extdata JSONB",
    "kernel_dispatch": "id INTEGER NOT NULL PRIMARY KEY, guid TEXT, nid INTEGER, pid INTEGER, tid INTEGER, "
    "agent_id INTEGER, kernel_id INTEGER, dispatch_id INTEGER, queue_id INTEGER, stream_id INTEGER, "
    "start BIGINT NOT NULL, end BIGINT NOT NULL, group_segment_size INTEGER, workgroup_size_x INTEGER, "
    "workgroup_size_y INTEGER, workgroup_size_z INTEGER, grid_size_x INTEGER, grid_size_y INTEGER, "
    "grid_size_z INTEGER, event_id INTEGER",
    "memory_copy": "id INTEGER NOT NULL PRIMARY KEY, guid TEXT, pid INTEGER, tid INTEGER, start BIGINT, "
    "end BIGINT, name_id INTEGER, dst_agent_id INTEGER, src_agent_id INTEGER, size INTEGER, queue_id INTEGER, "
    "stream_id INTEGER, event_id INTEGER",
    "region": "id INTEGER NOT NULL PRIMARY KEY, guid TEXT, pid INTEGER, tid INTEGER, start BIGINT, end BIGINT, "
    "name_id INTEGER, event_id INTEGER",
    "pmc_event": "id INTEGER NOT NULL PRIMARY KEY, guid TEXT, event_id INTEGER, pmc_id INTEGER, value REAL",
}
ROWS = {
    "string": [
        (1, "", "HIP_RUNTIME_API_EXT"),
        (2, "", "hipLaunchKernel"),
        (3, "", "MARKER_CORE_RANGE_API"),
        (4, "", "roctxThreadRangeA"),
        (5, "", "MEMORY_COPY_DEVICE_TO_HOST"),
        (6, "", "KERNEL_DISPATCH"),
    ],
    "info_process": [(1, "", 1, 4242, "app")],
    "info_thread": [(1, "", 1, 1, 4243, "main")],
    "info_agent": [
        (1, "", "CPU", 0, 0, 0, "AMD EPYC", "", "AMD EPYC", "{}"),
        (2, "", "GPU", 4, 1, 0, "gfx942", "", "AMD Instinct MI300X", '{"cu_count": 304, "wave_front_size": 64}'),
    ],
    "info_kernel_symbol": [(7, "", "_Z3addPf.kd", "add(float*)"), (8, "", "gemm.kd", "")],
    "info_pmc": [],
    "event": [
        (1, "", 1, 11, 0, "{}"),
        (2, "", 6, 11, 0, "{}"),
        (3, "", 3, 12, 0, '{"message": "step 1"}'),
        (4, "", 6, 13, 0, "{}"),
    ],
    "kernel_dispatch": [
        (1, "", 1, 1, 1, 2, 7, 1, 1, 3, T0 + 20_000, T0 + 25_000, 1024, 256, 1, 1, 1000, 1, 1, 2),
        (2, "", 1, 1, 1, 2, 8, 2, 1, 3, T0 + 30_000, T0 + 45_000, 0, 64, 2, 1, 512, 8, 1, 4),
    ],
    "memory_copy": [(1, "", 1, 1, T0 + 46_000, T0 + 47_000, 5, 1, 2, 4096, 1, 3, None)],
    "region": [
        (1, "", 1, 1, T0 + 10_000, T0 + 12_000, 2, 1),
        (2, "", 1, 1, T0, T0 + 50_000, 4, 3),
    ],
    "pmc_event": [],
}
COUNTERS = {
    "info_pmc": [
        (1, "", 2, "SQ_INSTS_VALU_MFMA_MOPS_BF16", "x"),
        (2, "", 2, "TCC_HIT", ""),
        (3, "", 2, "TCC_MISS", ""),
    ],
    "pmc_event": [
        (1, "", 4, 1, 4096.0),
        (2, "", 4, 2, 30.0),
        (3, "", 4, 2, 30.0),
        (4, "", 4, 3, 40.0),
        (5, "", 4, 9, 1.0),
        (6, "", 99, 3, 1.0),
    ],
}


def build(path: Path, rows=ROWS, schema=SCHEMA, runs=(RUN,)) -> Path:
    """A database as rocprofv3 writes it; the samples are of `ROWS`, one with `COUNTERS`."""
    with closing(sqlite3.connect(path)) as file:
        file.execute("PRAGMA page_size = 1024")
        for run in runs:
            for table, columns in schema.items():
                file.execute(f'CREATE TABLE IF NOT EXISTS "rocpd_{table}{run}" ({columns})')
                several = rows[table]
                if several:
                    places = ", ".join("?" * len(several[0]))
                    file.executemany(f'INSERT INTO "rocpd_{table}{run}" VALUES ({places})', several)
                file.execute(f'CREATE VIEW IF NOT EXISTS "rocpd_{table}" AS SELECT * FROM "rocpd_{table}{run}"')
        file.commit()
    return path


def trace(path: Path) -> Trace:
    found = load(path)
    assert isinstance(found, Trace)
    return found


def test_kernels_copies_calls_and_ranges():
    found = trace(SAMPLES / "rocpd_trace.db")
    kernels = found.kernels
    assert kernels.kind.tolist() == [KERNEL, KERNEL, COPY]
    assert [found.names[one] for one in kernels.name] == ["add(float*)", "gemm.kd", "Memcpy DtoH"]
    assert kernels.start_s.tolist() == pytest.approx([20e-6, 30e-6, 46e-6])
    assert kernels.duration_s.tolist() == pytest.approx([5e-6, 15e-6, 1e-6])
    assert (kernels.device.tolist(), kernels.stream.tolist()) == ([1, 1, 1], [3, 3, 3])
    assert kernels.nbytes[2] == 4096
    shape = found.shapes[kernels.shape[0]]
    assert (shape.grid, shape.block, shape.shared_bytes) == ((4, 1, 1), (256, 1, 1), 1024)
    assert [found.names[one] for one in found.launches.name] == ["hipLaunchKernel"]
    assert found.launches.correlation[0] == kernels.correlation[0]
    assert kernels.correlation[1] not in (-1, kernels.correlation[0])
    assert [
        (found.names[one], int(kind)) for one, kind in zip(found.calls.name, found.calls.kind, strict=True)
    ] == [("step 1", ANNOTATION)]
    assert found.threads[0] == ("4242", "4243")


def test_the_device_finds_its_machine():
    profile = rooflab.load(SAMPLES / "rocpd_trace.db")
    assert profile.machine is not None
    assert profile.machine.name == "AMD Instinct MI300X"
    assert profile.device is not None
    assert (profile.device.compute_units, profile.device.capability) == (304, "gfx942")


def test_counters_of_units_are_added():
    """4096 · 512 FLOP in bf16; 60 hits and 40 misses; values of no counter or dispatch are counted as lost."""
    found = load(SAMPLES / "rocpd_counters.db")
    assert isinstance(found, Counters)
    (row,) = found.rows
    assert [(one.engine, one.dtype, one.count) for one in row.flop or ()] == [("matrix", "bf16", 2**21)]
    assert row.access is not None
    assert row.access.hit_rates == {"L2": 0.6}
    assert (row.name, row.time_s, row.grid) == ("gemm.kd", pytest.approx(15e-6), (32,))
    assert [one.count for one in found.dropped] == [2]


def test_several_runs_in_one_file_are_not_mixed(tmp_path):
    found = trace(build(tmp_path / "two.db", runs=(RUN, "_other")))
    assert len(found.kernels) == 6
    assert len(set(found.launches.correlation.tolist())) == 2


def test_a_newer_schema_and_an_empty_one(tmp_path):
    nothing = {table: [] for table in ROWS}
    with pytest.raises(FileError, match="nothing was recorded"):
        load(build(tmp_path / "empty.db", rows=nothing))
    schema = SCHEMA | {
        "kernel_dispatch": "id INTEGER, kernel_id INTEGER, start_id INTEGER",
        "timestamp": "id INTEGER",
    }
    with pytest.raises(FileError, match="newer than 3") as caught:
        load(build(tmp_path / "new.db", rows=nothing | {"timestamp": []}, schema=schema))
    assert str(caught.value).startswith(str(tmp_path))
