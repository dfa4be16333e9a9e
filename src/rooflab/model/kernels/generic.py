"""Any kernel that no other model knows: a roofline at the family's usual share of each roof."""

from __future__ import annotations

import numpy as np

from rooflab.model.device.device import Device
from rooflab.model.kernels.common import Columns, Features, KernelTimes, Mechanism, Specs
from rooflab.types.work import Cost, Op


def features(op: Op, inputs: Specs, outputs: Specs, cost: Cost) -> Features:
    """Nothing beyond what every row has."""
    return ()


def time(x: Columns, device: Device) -> KernelTimes:
    """The slowest of arithmetic, cache and memory, each at its usual share of theory, after a launch.

    Of a CPU's, a program of few threads has what these reach.
    """
    c = device.constants
    of_units, of_cache, of_memory = (1.0, 1.0, 1.0) if device.cores is None else device.cores.shares
    compute = x.flop_floor_s / (c("generic.compute_share") * of_units)
    traffic = x.read_bytes + x.write_bytes
    cache = traffic / (device.cache_bytes_per_s * c("generic.cache_share") * of_cache)
    cold = traffic - x.hot_read_bytes - x.hot_write_bytes
    memory = cold / (device.memory_bytes_per_s * c("generic.memory_share") * of_memory)
    launch = c("generic.launch_s") * device.factor["overhead"]
    body = np.maximum(np.maximum(compute, cache), memory)
    zero = np.zeros_like(body)
    return KernelTimes(
        time_s=body + launch,
        compute_s=compute + zero,
        near_s=zero,
        cache_s=cache + zero,
        memory_s=memory + zero,
        overhead_s=launch + zero,
        spread=c("generic.spread") + zero,
        kernels=zero + 1,
    )


MECHANISM = Mechanism("generic", (), (), (), features, time)


# Kinds of operation that compilers write kernels for: sums over rows, and element-wise work.
SUMS = ("norm", "softmax", "reduction", "loss", "norm_backward", "softmax_backward")
COMPILED_KINDS = (*SUMS, "pointwise", "cast", "copy", "layout", "create", "random", "dropout")


def compiled_features(op: Op, inputs: Specs, outputs: Specs, cost: Cost) -> Features | None:
    """Nothing beyond what every row has; None for what no compiler wrote."""
    return () if "members" in op.attrs else None


# A compiler's kernels where nobody has measured them: a roofline at usual shares.
COMPILED = Mechanism("generic", (), COMPILED_KINDS, (), compiled_features, time)
