"""Nsight Systems' SQLite exports, built from the documented schema, not written by the tool.

Tables and columns: "SQLite Export Schema Reference" of Nsight Systems' user guide (2021.5 to 2026.1).
"""

from __future__ import annotations

import gzip
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import rooflab
from rooflab.errors import FileError
from rooflab.observe.importers import load
from rooflab.types.trace import ANNOTATION, COPY, KERNEL, MEMSET, OPERATOR

SAMPLE = Path(__file__).parents[3] / "samples" / "profiles" / "sqlite_exports" / "nsight_systems.sqlite"

# Process 100 calls GPU 1 its device 0 (CUDA_VISIBLE_DEVICES=1), process 200 GPU 0; both count correlations from 1.
TIDS = {100: 1 << 56 | 100 << 24 | 101, 200: 1 << 56 | 200 << 24 | 202}
PIDS = {pid: 1 << 56 | pid << 24 for pid in TIDS}
STRINGS = {
    1: "gemm",
    2: "void gemm<128, 64>(float*, int)",
    3: "cudaLaunchKernel_v7000",
    4: "cudaStreamSynchronize_v3020",
    5: "step 1",
    6: "cudaMemcpyAsync_v3020",
}
SCHEMA = {
    "StringIds": "id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL",
    "META_DATA_EXPORT": "name TEXT NOT NULL, value TEXT",
    "TARGET_INFO_GPU": "vmId INTEGER, id INTEGER NOT NULL, name TEXT, busLocation TEXT, l2CacheSize INTEGER, "
    "totalMemory INTEGER, memoryBandwidth INTEGER, clockRate INTEGER, smCount INTEGER, uuid TEXT, "
    "threadsPerWarp INTEGER, computeMajor INTEGER, computeMinor INTEGER",
    "TARGET_INFO_CUDA_DEVICE": "gpuId INTEGER NOT NULL, cudaId INTEGER NOT NULL, pid INTEGER NOT NULL, uuid TEXT, "
    "numMultiprocessors INTEGER NOT NULL",
    "CUPTI_ACTIVITY_KIND_KERNEL": "start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, "
    "contextId INTEGER NOT NULL, greenContextId INTEGER, streamId INTEGER NOT NULL, correlationId INTEGER, "
    "globalPid INTEGER, demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL, mangledName INTEGER, "
    "launchType INTEGER, cacheConfig INTEGER, registersPerThread INTEGER NOT NULL, gridX INTEGER NOT NULL, "
    "gridY INTEGER NOT NULL, gridZ INTEGER NOT NULL, blockX INTEGER NOT NULL, blockY INTEGER NOT NULL, "
    "blockZ INTEGER NOT NULL, staticSharedMemory INTEGER NOT NULL, dynamicSharedMemory INTEGER NOT NULL, "
    "graphNodeId INTEGER",
    "CUPTI_ACTIVITY_KIND_MEMCPY": "start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, "
    "contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, "
    "bytes INTEGER NOT NULL, copyKind INTEGER NOT NULL",
    "CUPTI_ACTIVITY_KIND_MEMSET": "start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, "
    "contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, "
    "value INTEGER NOT NULL, bytes INTEGER NOT NULL",
    "CUPTI_ACTIVITY_KIND_RUNTIME": "start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL, "
    "globalTid INTEGER, correlationId INTEGER, nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL",
    "NVTX_EVENTS": "start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, rangeId INTEGER, "
    "category INTEGER, color INTEGER, text TEXT, globalTid INTEGER, endGlobalTid INTEGER, textId INTEGER, "
    "domainId INTEGER",
}


def kernel(pid: int, start: int, end: int, correlation: int, name: int = 2):
    sizes = (32, 8, 1, 1, 256, 1, 1, 1024, 4096)
    return (start, end, 0, 1, None, 7, correlation, PIDS[pid], name, 1, None, 0, 0, *sizes, None)


ROWS = {
    "StringIds": list(STRINGS.items()),
    "META_DATA_EXPORT": [("EXPORT_SCHEMA_VERSION", "3.24.14"), ("EXPORT_PRODUCT_VERSION", "2026.1.1.204")],
    "TARGET_INFO_GPU": [
        (0, number, "NVIDIA H200", "0000:04:00.0", 60 * 2**20, 150_754_820_096, 4800, 1980, 132, "", 32, 9, 0)
        for number in (0, 1)
    ],
    "TARGET_INFO_CUDA_DEVICE": [(1, 0, 100, "", 132), (0, 0, 200, "", 132)],
    "CUPTI_ACTIVITY_KIND_KERNEL": [
        kernel(100, 1_000_000_000, 1_000_004_000, 1),
        kernel(200, 1_000_010_000, 1_000_011_000, 1),
        kernel(100, 1_000_020_000, 1_000_019_000, 2),  # ends before it starts
    ],
    "CUPTI_ACTIVITY_KIND_MEMCPY": [(1_000_030_000, 1_000_032_000, 0, 1, 7, 3, PIDS[100], 4_000_000, 1)],
    "CUPTI_ACTIVITY_KIND_MEMSET": [(1_000_033_000, 1_000_034_000, 0, 1, 7, 4, PIDS[100], 0, 65_536)],
    "CUPTI_ACTIVITY_KIND_RUNTIME": [
        (999_990_000, 999_995_000, 0, TIDS[100], 1, 3, 0),
        (1_000_005_000, 1_000_006_000, 0, TIDS[200], 1, 3, 0),
        (1_000_000_500, 1_000_004_500, 0, TIDS[100], 5, 4, 0),
        (1_000_025_000, 1_000_026_000, 0, TIDS[100], 3, 6, 0),
    ],
    "NVTX_EVENTS": [
        (999_980_000, 1_000_035_000, 59, None, None, None, "forward", TIDS[100], None, None, 0),
        (999_985_000, 1_000_034_000, 60, 7, None, None, None, TIDS[100], TIDS[100], 5, 0),
        (999_986_000, None, 34, None, None, None, "a mark", TIDS[100], None, None, 0),
        (999_987_000, None, 59, None, None, None, "still open", TIDS[100], None, None, 0),
        (0, None, 75, None, None, None, "a domain", TIDS[100], None, None, 1),
    ],
}  # fmt: skip


def build(path: Path, schema=SCHEMA, rows=ROWS) -> Path:
    """A database as Nsight Systems exports it; the sample is one of `SCHEMA` and `ROWS`."""
    with closing(sqlite3.connect(path)) as file:
        file.execute("PRAGMA page_size = 1024")
        for table, columns in schema.items():
            file.execute(f"CREATE TABLE {table} ({columns})")
        for table, several in rows.items():
            if several and table in schema:
                file.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(several[0]))})", several)
        file.commit()
    return path


def test_kernels_copies_calls_and_ranges():
    found = load(SAMPLE)
    assert found.source == "Nsight Systems"
    kernels = found.kernels
    assert kernels.kind.tolist() == [KERNEL, KERNEL, COPY, MEMSET]
    assert [found.names[one] for one in kernels.name] == [
        "void gemm<128, 64>(float*, int)",
        "void gemm<128, 64>(float*, int)",
        "Memcpy HtoD",
        "Memset (Device)",
    ]
    # Seconds after the first of all activities, the range at 999.98 ms.
    assert kernels.start_s[:2] == pytest.approx([20e-6, 30e-6])
    assert kernels.duration_s.tolist() == pytest.approx([4e-6, 1e-6, 2e-6, 1e-6])
    assert kernels.nbytes[2:].tolist() == [4e6, 65_536]
    assert kernels.device.tolist() == [1, 0, 1, 1]
    shape = found.shapes[kernels.shape[0]]
    assert (shape.grid, shape.block, shape.registers, shape.shared_bytes) == ((8, 1, 1), (256, 1, 1), 32, 5120)


def test_launches_and_ranges_belong_to_threads_and_kernels_find_their_own():
    """Both processes count correlations from 1: the second's kernel was launched by the second."""
    found = load(SAMPLE)
    assert found.threads[0] == ("100", "101")
    launches, kernels = found.launches, found.kernels
    names = [found.names[one] for one in launches.name]
    assert names == ["cudaLaunchKernel", "cudaStreamSynchronize", "cudaMemcpyAsync", "cudaLaunchKernel"]
    by_correlation = {int(one): place for place, one in enumerate(launches.correlation)}
    assert [by_correlation.get(int(one)) for one in kernels.correlation] == [0, 3, 2, None]
    calls = found.calls
    assert [found.names[one] for one in calls.name] == ["forward", "step 1"]
    assert set(calls.kind.tolist()) == {ANNOTATION}
    assert calls.duration_s.tolist() == pytest.approx([55e-6, 49e-6])


def test_the_device_is_described_and_what_is_lost_counted():
    found = load(SAMPLE)
    (first, _) = found.devices
    assert (first.name, first.memory_bytes, first.compute_units, first.capability) == (
        "NVIDIA H200",
        150_754_820_096,
        132,
        "9.0",
    )
    assert [(one.count, one.why.partition(" ")[0]) for one in found.dropped] == [(1, "without"), (1, "NVTX")]


def test_a_profile_says_where_the_time_went():
    """GPU 1 ran 4 + 2 + 1 µs between 1 s and 1.000034 s; its stream was waited for, then nothing was launched."""
    profile = rooflab.load(SAMPLE)
    device = next(one for one in profile.timeline.devices if one.device == 1)
    assert device.busy_s == pytest.approx(7e-6)
    assert device.span_s == pytest.approx(34e-6)
    assert [one.cause for one in device.idle] == ["synchronisation", "unknown"]
    assert profile.machine is not None
    assert profile.machine.name.startswith("NVIDIA H200")


def test_packed_exports_are_read(tmp_path):
    path = tmp_path / "packed"
    path.write_bytes(gzip.compress(SAMPLE.read_bytes()))
    assert len(load(path).kernels) == 4


def test_the_oldest_columns_are_enough(tmp_path):
    schema = {
        "StringIds": "id INTEGER, value TEXT",
        "CUPTI_ACTIVITY_KIND_KERNEL": "start INTEGER, end INTEGER, shortName INTEGER",
        "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": "start INTEGER, end INTEGER, syncType INTEGER",
    }
    rows = {
        "StringIds": [(1, "k")],
        "CUPTI_ACTIVITY_KIND_KERNEL": [(10, 20, 1), (30, 50, 9)],
        "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": [(5, 60, 3), (6, 7, 2)],
    }
    found = load(build(tmp_path / "old.sqlite", schema, rows))
    assert [found.names[one] for one in found.kernels.name] == ["k", "unnamed kernel"]
    assert found.kernels.device.tolist() == [-1, -1]
    assert [found.names[one] for one in found.launches.name] == ["cudaStreamSynchronize"]


def test_graphs_recorded_whole_are_kernels_with_a_note(tmp_path):
    where = (
        "start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER"
    )
    schema = {
        "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": f"{where}, graphId INTEGER",
        "TARGET_INFO_GPU": SCHEMA["TARGET_INFO_GPU"],
    }
    rows = {"CUPTI_ACTIVITY_KIND_GRAPH_TRACE": [(100, 900, 0, 7, 4, PIDS[100], 1)]}
    found = load(build(tmp_path / "graphs.sqlite", schema, rows))
    assert [found.names[one] for one in found.kernels.name] == ["CUDA graph"]
    assert any("--cuda-graph-trace=node" in note for note in found.notes)


def test_text_and_nothing_where_numbers_belong(tmp_path):
    rows = ROWS | {
        "CUPTI_ACTIVITY_KIND_KERNEL": [
            kernel(100, 1000, 2000, 1),
            (None, 3000, *kernel(100, 0, 0, 1)[2:]),
            ("soon", 3000, *kernel(100, 0, 0, 1)[2:]),
            (2500, 3000, "first", *kernel(100, 0, 0, 2)[3:]),
        ],
        "CUPTI_ACTIVITY_KIND_RUNTIME": [],
    }
    schema = {table: columns.replace(" NOT NULL", "") for table, columns in SCHEMA.items()}
    found = load(build(tmp_path / "dirty.sqlite", schema, rows))
    assert found.kernels.duration_s[:2].tolist() == pytest.approx([1e-6, 0.5e-6])
    assert found.kernels.device[1] == -1
    assert found.dropped[0].count == 2


def test_a_view_in_place_of_a_table_and_a_computed_column_run_nothing(tmp_path):
    """A file may hold SQL of its own: neither an endless query nor a function of it is run."""
    path = tmp_path / "hostile.sqlite"
    with closing(sqlite3.connect(path)) as file:
        file.execute(
            "CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS WITH RECURSIVE n(start) AS "
            "(SELECT 1 UNION ALL SELECT start + 1 FROM n) SELECT start, start AS end FROM n"
        )
        file.execute("CREATE TABLE NVTX_EVENTS (start INTEGER, end AS (length(zeroblob(900000000 + start))))")
        file.execute("INSERT INTO NVTX_EVENTS VALUES (1)")
        file.commit()
    with pytest.raises(FileError, match=r"no kernel, copy, call of CUDA or NVTX range|damaged") as caught:
        load(path)
    assert str(caught.value).startswith(str(path))


def test_a_journal_beside_the_file_is_not_opened(tmp_path):
    path = tmp_path / "t.sqlite"
    path.write_bytes(SAMPLE.read_bytes())
    journal = tmp_path / "t.sqlite-journal"
    journal.write_bytes(b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7" + bytes(1000))
    before = path.read_bytes()
    assert len(load(path).kernels) == 4
    assert journal.exists()
    assert path.read_bytes() == before


def test_any_name_and_a_file_that_was_written_with_a_log_ahead(tmp_path):
    path = tmp_path / "a ?b#c%20d.sqlite"
    path.write_bytes(SAMPLE.read_bytes())
    with closing(sqlite3.connect(path)) as file:
        assert file.execute("PRAGMA journal_mode = WAL").fetchone() == ("wal",)
    assert len(load(path).kernels) == 4
    assert [one.name for one in tmp_path.iterdir()] == [path.name]


def test_the_rows_before_a_missing_end_are_kept(tmp_path):
    rows = ROWS | {
        "CUPTI_ACTIVITY_KIND_KERNEL": [kernel(100, at, at + 500, at) for at in range(1000, 2_000_000, 1000)]
    }
    whole = build(tmp_path / "whole.sqlite", rows=rows)
    path = tmp_path / "cut.sqlite"
    content = whole.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    found = load(path)
    assert 500 < len(found.kernels) < 1999
    assert any("KERNEL is damaged" in one.why for one in found.dropped)


def test_another_database_says_what_it_lacks(tmp_path):
    path = build(tmp_path / "empty.sqlite", {"META_DATA_EXPORT": "name TEXT, value TEXT"}, {})
    with pytest.raises(FileError, match="with the tables META_DATA_EXPORT; expected an export of Nsight Systems"):
        load(path)
    path = build(tmp_path / "no_events.sqlite", rows={})
    with pytest.raises(FileError, match="nsys profile --trace=cuda,nvtx"):
        load(path)


def test_ranges_of_emit_nvtx_are_operators_with_shapes(tmp_path):
    """Number formats are not in the text: the operation is known, its bytes are not."""
    product = "aten::addmm, seq = 12, op_id = 34, sizes = [[8], [4, 2], [2, 8], [], []], input_op_ids = [(33, 0)]"
    rows = ROWS | {
        "NVTX_EVENTS": [
            (
                999_980_000,
                1_000_035_000,
                59,
                None,
                None,
                None,
                "aten::linear, op_id = 3",
                TIDS[100],
                None,
                None,
                0,
            ),
            (999_985_000, 999_999_000, 59, None, None, None, product, TIDS[100], None, None, 0),
            (999_970_000, 1_000_040_000, 59, None, None, None, "lr = 3", TIDS[100], None, None, 0),
        ]
    }
    path = build(tmp_path / "torch.sqlite", rows=rows)
    found = load(path)
    assert found.framework == "torch"
    assert [found.names[one] for one in found.calls.name] == ["lr = 3", "aten::linear", "aten::addmm"]
    assert found.calls.kind.tolist() == [ANNOTATION, OPERATOR, OPERATOR]
    assert found.calls.sequence.tolist() == [-1, -1, 12]
    assert found.signatures[found.calls.signature[2]].shapes == ((8,), (4, 2), (2, 8), (), ())
    row = next(one for one in rooflab.load(path).rows if one.name == "aten.addmm")
    assert row.kind == "matmul"
    assert row.cost is None
    assert row.why is not None
    assert "number formats are not recorded" in row.why


def test_a_newer_schema_is_read_with_a_note(tmp_path):
    rows = ROWS | {"META_DATA_EXPORT": [("EXPORT_SCHEMA_VERSION", "4.1.0")]}
    assert any("schema 4.1.0 is newer" in note for note in load(build(tmp_path / "new.sqlite", rows=rows)).notes)
