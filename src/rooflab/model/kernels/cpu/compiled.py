"""A compiler's kernels on a CPU: all cores, one pass, and exponentials that are polynomials of many FLOP."""

from __future__ import annotations

import numpy as np

from rooflab.dtypes import dtype as number_format
from rooflab.model.device.device import Device
from rooflab.model.kernels import generic
from rooflab.model.kernels.common import Columns, Features, KernelTimes, Mechanism, Specs
from rooflab.model.kernels.cpu import core_times, strided
from rooflab.types.work import Cost, Op

COLUMNS = ("special", "double", *strided.COLUMNS)


def features(op: Op, inputs: Specs, outputs: Specs, cost: Cost) -> Features | None:
    """How many special functions are computed, and whether in 64 bits, and lines that plain loops step through.

    None for what no compiler wrote.
    """
    if "members" not in op.attrs:
        return None
    columns = strided.NOTHING if "aten." in op.name else strided.walked(inputs, outputs)  # Inductor goes by tiles
    special = [each for each in cost.flop if each.engine == "special"]
    double = any(number_format(each.dtype).bits >= 64 for each in special)
    return sum(each.count for each in special), float(double), *columns


def time(x: Columns, device: Device) -> KernelTimes:
    """The roofline of any kernel; a special function takes as many FLOP of the vector units as PyTorch's exp.

    A transposed operand is walked down its columns, as by any loop that is not tiled.
    """
    plain = generic.time(x, device)
    cores, c = core_times.cores_of_cpu(device), device.constants
    peak = np.where(x["double"] > 0, cores.flop_per_s["fp64"], cores.flop_per_s["fp32"]) * cores.units
    special = x["special"] * c("torch.exp_flop") / peak
    columns = strided.waits_s(x, device, cores.units + np.zeros_like(plain.memory_s))
    memory = np.maximum(plain.memory_s, columns)
    body = np.maximum(plain.compute_s + special, np.maximum(plain.cache_s, memory))
    spread = np.maximum(plain.spread, np.where(columns >= body, c("numpy.algorithm_spread"), 0.0))
    return plain._replace(
        compute_s=plain.compute_s + special, memory_s=memory, time_s=body + plain.overhead_s, spread=spread
    )


MECHANISM = Mechanism("generic", ("cpu",), generic.COMPILED_KINDS, COLUMNS, features, time)
