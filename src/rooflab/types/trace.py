"""What a profiler recorded of a run, in columns: kernels of devices, calls on threads, launches between them."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

KERNEL, COPY, MEMSET = 0, 1, 2
OPERATOR, ANNOTATION, MODULE = 0, 1, 2
ON_HOST = -1  # in `Kernels.device`: operations that the host runs itself
NONE = -1  # in a column of whole numbers: not recorded
HOST = -2  # in a column of devices: the host


class Shape(msgspec.Struct, frozen=True, gc=False):
    """How a kernel was launched; None where not recorded.

    Attributes:
        grid, block: thread blocks, and threads a block.
        registers: a thread.
        shared_bytes: shared memory a block.
    """

    grid: tuple[int, ...] | None = None
    block: tuple[int, ...] | None = None
    registers: float | None = None
    shared_bytes: float | None = None


class Signature(msgspec.Struct, frozen=True):
    """The arguments of a call, in order; a list is empty where nothing was recorded.

    Attributes:
        shapes: sizes of a tensor; () for a scalar tensor or another value; lists of them for a list of tensors.
        dtypes: as the profiler calls them ("c10::BFloat16"), "" for what is no tensor.
        strides: like `shapes`.
        values: text of what is no tensor, "" for a tensor.
        results, result_dtypes: shapes and number formats of what it gave, where recorded.
        kind: what the compiler that made it calls its sort ("convolution fusion").
        flop, nbytes: that the compiler states for one execution.
        attrs: of the operation, name and value ("k", the contracted size of a product).
        members: the operations in it, where a compiler fused several into one kernel.
    """

    shapes: tuple[Any, ...] = ()
    dtypes: tuple[str, ...] = ()
    strides: tuple[Any, ...] = ()
    values: tuple[Any, ...] = ()
    results: tuple[Any, ...] = ()
    result_dtypes: tuple[str, ...] = ()
    kind: str = ""
    flop: float | None = None
    nbytes: float | None = None
    attrs: tuple[tuple[str, Any], ...] = ()
    members: tuple[Signature, ...] = ()


class Kernels(msgspec.Struct, frozen=True, kw_only=True):
    """Activities of devices, by start. Columns are of one length; `NONE` is a number that was not recorded.

    Attributes:
        name: numbers in `Trace.names`.
        kind: KERNEL, COPY or MEMSET.
        start_s, duration_s: when.
        device, stream: where.
        correlation: shared with the launch.
        external: of the call that was open at its launch.
        nbytes: of copies and memsets; NaN where not recorded.
        shape: numbers in `Trace.shapes`.
    """

    name: NDArray[np.int32]
    kind: NDArray[np.int8]
    start_s: NDArray[np.float64]
    duration_s: NDArray[np.float64]
    device: NDArray[np.int64]
    stream: NDArray[np.int64]
    correlation: NDArray[np.int64]
    external: NDArray[np.int64]
    nbytes: NDArray[np.float64]
    shape: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.name)


class Calls(msgspec.Struct, frozen=True, kw_only=True):
    """Calls on threads of the host, by thread, start, and longest first.

    Attributes:
        name: numbers in `Trace.names`.
        kind: OPERATOR, ANNOTATION or MODULE.
        start_s, duration_s: when.
        thread: numbers in `Trace.threads`.
        external: that kernels carry.
        sequence: joins a forward operator and its backward.
        signature: numbers in `Trace.signatures`.
    """

    name: NDArray[np.int32]
    kind: NDArray[np.int8]
    start_s: NDArray[np.float64]
    duration_s: NDArray[np.float64]
    thread: NDArray[np.int32]
    external: NDArray[np.int64]
    sequence: NDArray[np.int64]
    signature: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.name)


class Launches(msgspec.Struct, frozen=True, kw_only=True):
    """Calls of a device's runtime (launches, copies, waits), by thread and start; columns as in `Calls`."""

    name: NDArray[np.int32]
    start_s: NDArray[np.float64]
    duration_s: NDArray[np.float64]
    thread: NDArray[np.int32]
    correlation: NDArray[np.int64]
    external: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.name)


class Collective(msgspec.Struct, frozen=True, gc=False):
    """What is recorded of an exchange between ranks; None and "" where not.

    Attributes:
        name: of its kind ("allreduce", "_allgather_base").
        group: of ranks: its name, and their numbers as text.
        size: of the group.
        elements: that the rank gives.
        dtype: as the profiler calls it ("BFloat16").
        sequence: the same on all ranks.
    """

    name: str
    group: str = ""
    size: int | None = None
    elements: int | None = None
    dtype: str = ""
    sequence: int | None = None


class Collectives(msgspec.Struct, frozen=True, kw_only=True):
    """Kernels that exchange data with other ranks, by start, as far as what they exchange is recorded.

    Attributes:
        start_s, duration_s, device: as in `Kernels`.
        which: numbers in `told`.
        told: what is recorded of them.
    """

    start_s: NDArray[np.float64]
    duration_s: NDArray[np.float64]
    device: NDArray[np.int64]
    which: NDArray[np.int32]
    told: tuple[Collective, ...]

    def __len__(self) -> int:
        return len(self.which)


class Allocations(msgspec.Struct, frozen=True, kw_only=True):
    """Memory taken and given back, by time.

    Attributes:
        moment_s: when.
        nbytes: negative where memory is given back.
        address: of the block; `NONE` where not recorded.
        allocated_bytes, reserved_bytes: in all afterwards, as the allocator counts; NaN where not recorded.
        device: its number, `HOST` for the host's memory.
        thread: numbers in `Trace.threads`.
    """

    moment_s: NDArray[np.float64]
    nbytes: NDArray[np.float64]
    address: NDArray[np.int64]
    allocated_bytes: NDArray[np.float64]
    reserved_bytes: NDArray[np.float64]
    device: NDArray[np.int64]
    thread: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.nbytes)


class Device(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A device as the profiler describes it; None where it does not say."""

    number: int
    name: str | None = None
    memory_bytes: float | None = None
    compute_units: int | None = None
    capability: str | None = None
    warp_size: int | None = None


class Dropped(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Events that could not be used: how many, and why."""

    count: int
    why: str


class Trace(msgspec.Struct, frozen=True, kw_only=True):
    """A run as a profiler recorded it, whatever the profiler. Times are seconds after its first event.

    Attributes:
        source: the format that it was read from ("PyTorch profiler").
        names, shapes, signatures: what columns number.
        threads: process and thread.
        devices: that the file describes.
        collectives: None where nothing is recorded of them.
        allocations: None where memory was not recorded.
        framework: whose operators `calls` are ("torch"); None for none.
        rank, ranks: of a distributed run, where recorded.
        dropped: what could not be used.
        notes: what a reader must know ("shapes were not recorded").
    """

    source: str
    kernels: Kernels
    calls: Calls
    launches: Launches
    names: tuple[str, ...]
    shapes: tuple[Shape, ...] = ()
    signatures: tuple[Signature, ...] = ()
    threads: tuple[tuple[str, str], ...] = ()
    devices: tuple[Device, ...] = ()
    collectives: Collectives | None = None
    allocations: Allocations | None = None
    framework: str | None = None
    rank: int | None = None
    ranks: int | None = None
    dropped: tuple[Dropped, ...] = ()
    notes: tuple[str, ...] = ()
