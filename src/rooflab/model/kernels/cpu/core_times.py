"""What all kernels on a CPU's cores share: calls, threads, levels of memory, fresh pages.

Named by `Op.name`: PyTorch's operations ("aten.…") run with its threads and allocator; all others stand for
NumPy, which computes element-wise work on one core.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rooflab.model.device.cores import Cores, Tier
from rooflab.model.device.device import Device
from rooflab.model.kernels.common import Columns, Specs
from rooflab.types.work import Op

# Constants that say how many of NumPy's empty calls one call of an operation costs.
CALLS = (
    "numpy.ufunc_calls",
    "numpy.copy_calls",
    "numpy.method_calls",
    "numpy.mean_calls",
    "numpy.matmul_calls",
    "torch.op_calls",
    "torch.composite_calls",
    "torch.library_calls",
)
PAGE_BYTES = 4096


class Traffic(NamedTuple):
    """Seconds of a kernel's bytes in each place; `all` adds up what does not overlap."""

    near_s: np.ndarray
    cache_s: np.ndarray
    memory_s: np.ndarray

    @property
    def all_s(self) -> np.ndarray:
        """A stream waits for one level at a time."""
        return self.near_s + self.cache_s + self.memory_s


def cores_of_cpu(device: Device) -> Cores:
    """The cores of `device`, which is a CPU that states its memory."""
    assert device.cores is not None  # `machines=("cpu",)`, and `device.of` refuses one without memory
    return device.cores


def is_torch(op: Op) -> bool:
    """Whether PyTorch runs it; NumPy otherwise."""
    return op.name.startswith(("aten.", "torch."))


def call_s(calls: np.ndarray, device: Device) -> np.ndarray:
    """Host time of one call, by index into `CALLS`: so many of NumPy's empty calls on this host.

    Where PyTorch's own bare call was measured, its calls scale with that.
    """
    known = cores_of_cpu(device).dispatch_s
    empty = known.get("numpy") or device.constants("cpu.call_s")
    torch = known["torch"] / device.constants("torch.op_calls") if known.get("torch") else empty
    call = np.array([device.constants(name) * (torch if name.startswith("torch.") else empty) for name in CALLS])
    return call[calls.astype(int)] * device.factor["dispatch"]


def threads_of(elements: np.ndarray, device: Device) -> np.ndarray:
    """How many cores PyTorch puts to so many elements: one for each grain of work, up to all."""
    grains = np.ceil(elements / device.constants("torch.grain_elements"))
    return np.clip(grains, 1.0, cores_of_cpu(device).units)


def start_s(threads: np.ndarray, device: Device) -> np.ndarray:
    """Time to start a team of `threads` and to join it."""
    return np.where(threads > 1, device.constants("cpu.team_s"), 0.0) * device.factor["overhead"]


def traffic(x: Columns, device: Device, threads: np.ndarray, past_caches: np.ndarray | float = 0.0) -> Traffic:
    """Seconds that reads and writes take where the working set of a repeated operation lies.

    A level that is private to a core holds a thread's share of the footprint in full while that is below
    "cpu.full" of its capacity, and nothing beyond "cpu.empty". What the last cache holds is known from the
    columns; the rest crosses memory. A store reads its line first: the write rates hold that.

    Args:
        past_caches: 1 where large copies store past the caches, without reading lines first.
    """
    cores = cores_of_cpu(device)
    *caches, memory = cores.tiers
    c = device.constants
    total = x.read_bytes + x.write_bytes
    hot = (x.hot_read_bytes + x.hot_write_bytes) / np.maximum(total, 1.0)
    near_s, cache_s, held = np.zeros_like(hot), np.zeros_like(hot), np.zeros_like(hot)
    for tier in caches:
        if tier.shared_by == 1:
            room = x.footprint_bytes / threads / tier.capacity_bytes
            holds = np.clip((c("cpu.empty") - room) / (c("cpu.empty") - c("cpu.full")), 0.0, 1.0)
            share = np.maximum(np.minimum(holds, hot) - held, 0.0)
            near_s = near_s + share * _tier_s(x, tier, threads, first=tier is caches[0])
            held = held + share
    last = caches[-1] if caches else memory
    cache_s = np.maximum(hot - held, 0.0) * _tier_s(x, last, threads, first=False)
    cold = 1 - np.maximum(hot, held)
    plain = _tier_s(x, memory, threads, first=False)
    copied = total / _limited(memory.core_copy, memory.all_copy, threads)
    past = past_caches * (x.footprint_bytes > cores.cache_bytes)
    return Traffic(near_s, cache_s, cold * np.where(past > 0, np.minimum(copied, plain), plain))


def _tier_s(x: Columns, tier: Tier, threads: np.ndarray, first: bool) -> np.ndarray:
    read = x.read_bytes / _limited(tier.core_read, tier.all_read, threads)
    write = x.write_bytes / _limited(tier.core_write, tier.all_write, threads)
    # The first level loads and stores in one clock; the others hand over one line at a time.
    return np.maximum(read, write) if first else read + write


def _limited(core: np.ndarray | float, everyone: np.ndarray | float, threads: np.ndarray) -> np.ndarray:
    return np.minimum(core * threads, everyone)


def fresh_bytes(inputs: Specs, outputs: Specs) -> float:
    """Bytes of the largest result that is allocated: no operand, no memory that the program began with."""
    own = {id(spec) for spec in inputs}
    made = [spec for spec in outputs if id(spec) not in own and spec.role in ("activation", "gradient")]
    return float(max((spec.nbytes for spec in made), default=0.0))


def fresh_s(nbytes: np.ndarray, torch: np.ndarray, device: Device) -> np.ndarray:
    """Time of the page faults of a new result, which is new memory each time where it is large.

    glibc maps an allocation above 32 MiB anew (mallopt(3), M_MMAP_THRESHOLD); smaller ones come again and
    again from the heap. NumPy asks for huge pages of 2 MiB (numpy/_core/src/multiarray/alloc.c), so that
    clearing them is what costs; PyTorch takes the ordinary ones, one fault each.
    """
    c = device.constants
    memory = cores_of_cpu(device).tiers[-1]
    cleared = nbytes / (memory.core_write * c("numpy.clear_share"))
    faults = nbytes / PAGE_BYTES * c("torch.fault_s")
    return np.where(nbytes > c("cpu.fresh_bytes"), np.where(torch > 0, faults, cleared), 0.0)


def allocate_s(nbytes: np.ndarray, torch: np.ndarray, device: Device) -> np.ndarray:
    """Time to allocate a result that NumPy does not keep a block for: above 1 KiB (alloc.c, NBUCKETS)."""
    return np.where((torch == 0) & (nbytes > 1024), device.constants("numpy.allocate_s"), 0.0)


def latency_s(nbytes: np.ndarray, device: Device) -> np.ndarray:
    """Load-to-use time of a random access within so many bytes: as measured over the size, else by level."""
    cores = cores_of_cpu(device)
    sizes, seconds = (np.array(each) for each in zip(*cores.latency, strict=True))
    return np.interp(np.log(np.maximum(nbytes, 1.0)), np.log(sizes), seconds)


def running_s(x: Columns, device: Device) -> np.ndarray:
    """Time to read and write running sums of `sums_bytes` once for each row that is added to them.

    They lie in the nearest cache that holds them; their loads and stores count each byte read of the rows.
    """
    cores = cores_of_cpu(device)
    seconds = np.zeros_like(x.hot_read_bytes)
    for tier in reversed(cores.tiers[:-1]):
        rates = 1 / tier.core_read + 1 / tier.core_write
        seconds = np.where(x["sums_bytes"] <= tier.capacity_bytes, x.read_bytes * rates, seconds)
    return np.where(x["sums_bytes"] > 0, seconds, 0.0)
