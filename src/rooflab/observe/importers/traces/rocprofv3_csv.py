"""rocprofv3's traces as CSV: of kernels, copies, calls of HIP and HSA, ranges; each is a file of its own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from rooflab.errors import FileError
from rooflab.observe.importers.traces import rocm
from rooflab.observe.reading.activities import Activities, numbered
from rooflab.observe.reading.opened import content
from rooflab.observe.reading.tables import plain_text, tables
from rooflab.observe.reading.text_columns import TextColumns
from rooflab.types.trace import ANNOTATION, COPY, KERNEL, Calls, Dropped, Kernels, Launches, Trace

SOURCE = "rocprofv3"

_TIMES = ("start_timestamp", "end_timestamp")
# What a table is of, by columns that only it has. With "counter_name" it is one of counters.
_OF_KERNELS = ("kind", "kernel_name", *_TIMES)
_OF_COPIES = ("kind", "direction", *_TIMES)
_OF_CALLS = ("domain", "function", *_TIMES)
_HEADERS = (_OF_KERNELS, _OF_COPIES, _OF_CALLS)
_GROUP = ("workgroup_size_x", "workgroup_size_y", "workgroup_size_z")
_GRID = ("grid_size_x", "grid_size_y", "grid_size_z")


def sniff(head: bytes) -> bool:
    """Whether `head`, the first of a file, has the header of such a table."""
    lines = plain_text(head).splitlines()[:200]
    return any(_is_header(line.replace('"', "").split(",")) for line in lines)


def load(path: Path) -> Trace:
    """The trace in the file at `path`.

    Raises:
        FileError: no such table, or no line in it with times that can be true.
    """
    activities, dropped = Activities(), 0
    found = list(tables(plain_text(content(path)), _is_header))
    if not found:
        raise FileError(f"{path}: no table of rocprofv3, expected a trace of kernels, copies or calls as CSV")
    for table in found:
        dropped += table.dropped
        columns = TextColumns(table, lambda name: name.strip().lower())
        if all(name in columns for name in _OF_KERNELS):
            _kernels(columns, activities)
        elif all(name in columns for name in _OF_COPIES):
            _copies(columns, activities)
        else:
            _calls(columns, activities)
    if activities.empty:
        raise FileError(f"{path}: no line of rocprofv3's table has a start and an end that can be true")
    losses = [Dropped(dropped, "lines that are no activity")] if dropped else []
    return rocm.trace(SOURCE, activities, dropped=losses)


def _is_header(cells: Sequence[str]) -> bool:
    names = {cell.strip().lower() for cell in cells}
    return any(names.issuperset(header) for header in _HEADERS) and "counter_name" not in names


def _kernels(columns: TextColumns, to: Activities) -> None:
    sizes = [columns.wholes(name).tolist() for name in (*_GRID, *_GROUP)]
    registers = columns.wholes("vgpr_count").tolist()
    shared = columns.wholes("lds_block_size" if "lds_block_size" in columns else "group_segment_size").tolist()
    shapes = [
        rocm.shape(one[:3], one[3:], each, lds)
        for one, each, lds in zip(zip(*sizes, strict=True), registers, shared, strict=True)
    ]
    to.add(
        Kernels,
        columns.wholes(_TIMES[0]),
        columns.wholes(_TIMES[1]),
        {
            "name": numbered(to.names, columns.texts("kernel_name")),
            "kind": np.full(len(columns), KERNEL, np.int8),
            "device": rocm.whole_column(map(rocm.agent, columns.texts("agent_id"))),
            # Streams are recorded since ROCm 6.4; queues of the hardware before.
            "stream": columns.wholes("stream_id" if "stream_id" in columns else "queue_id"),
            "correlation": columns.wholes("correlation_id"),
            "shape": numbered(to.shapes, shapes),
        },
    )


def _copies(columns: TextColumns, to: Activities) -> None:
    names = [rocm.copy_name(text) for text in columns.texts("direction")]
    ends = zip(columns.texts("source_agent_id"), columns.texts("destination_agent_id"), strict=True)
    devices = [
        rocm.copy_device(name, rocm.agent(source), rocm.agent(target))
        for name, (source, target) in zip(names, ends, strict=True)
    ]
    to.add(
        Kernels,
        columns.wholes(_TIMES[0]),
        columns.wholes(_TIMES[1]),
        {
            "name": numbered(to.names, names),
            "kind": np.full(len(columns), COPY, np.int8),
            "device": rocm.whole_column(devices),
            "stream": columns.wholes("stream_id"),
            "correlation": columns.wholes("correlation_id"),
            "nbytes": columns.numbers("bytes"),
        },
    )


def _calls(columns: TextColumns, to: Activities) -> None:
    threads = list(zip(columns.texts("process_id"), columns.texts("thread_id"), strict=True))
    names, places = columns.texts("function"), numbered(to.threads, threads)
    start, end = columns.wholes(_TIMES[0]), columns.wholes(_TIMES[1])
    named, correlation = numbered(to.names, names), columns.wholes("correlation_id")
    domains = columns.texts("domain")
    ranges = np.array([one.upper().startswith(rocm.MARKERS) for one in domains], np.bool_)
    calls = ~ranges
    common = {"name": named, "thread": places}
    both = common | {"correlation": correlation}
    to.add(Launches, start[calls], end[calls], {name: column[calls] for name, column in both.items()})
    # A mark has no length.
    ranges &= end > start
    kinds = {"kind": np.full(len(names), ANNOTATION, np.int8)}
    taken = {name: column[ranges] for name, column in (common | kinds).items()}
    to.add(Calls, start[ranges], end[ranges], taken)
