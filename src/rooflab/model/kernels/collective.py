"""Collectives between the ranks of a program: see `model.collectives`."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rooflab import dtypes
from rooflab.model import collectives
from rooflab.model.device.device import Device
from rooflab.model.kernels.common import Columns, Features, KernelTimes, Mechanism, Specs
from rooflab.model.peers import peer_all_reduce
from rooflab.types.work import Cost, Op


def features(op: Op, inputs: Specs, outputs: Specs, cost: Cost) -> Features | None:
    """Which function, the message (the larger of what a rank gives and gets), ranks, bits, whether by peers."""
    function = op.attrs.get("function")
    if function not in collectives.FUNCTIONS:
        return None
    message = max(sum(spec.nbytes for spec in inputs), sum(spec.nbytes for spec in outputs))
    bits = min((dtypes.dtype(spec.dtype).bits for spec in inputs), default=32)
    peers = function == "all_reduce" and bool(op.attrs.get("peers"))
    return (collectives.FUNCTIONS.index(function), message, op.attrs.get("ranks") or 1, bits, float(peers))


def time(x: Columns, device: Device) -> KernelTimes:
    """The quickest of the library's algorithms, and what the rank's own memory moves meanwhile."""
    c, machine = device.constants, device.machine
    net = collectives.network(machine, constants=c)
    faster = device.factor["link"]
    net = replace(
        net,
        link_bytes_per_s=net.link_bytes_per_s * faster,
        fabric_bytes_per_s=None if net.fabric_bytes_per_s is None else net.fabric_bytes_per_s * faster,
        memory_bytes_per_s=net.memory_bytes_per_s * device.factor["bandwidth"],
    )
    shape = np.broadcast_shapes(
        x["message_bytes"].shape, np.shape(faster), np.shape(net.memory_bytes_per_s), (1, 1)
    )
    time_s, overhead_s, link_s, copy_s, floor_s = (np.zeros_like(x.flop_floor_s, shape=shape) for _ in range(5))
    for code, peers in np.unique(np.hstack((x["function"], x["peers"])), axis=0):
        ours = (x["function"][:, 0] == code) & (x["peers"][:, 0] == peers)
        message, ranks, wide = x["message_bytes"][ours], x["ranks"][ours], x["bits"][ours] >= _SWITCH_BITS
        if peers:
            seconds = peer_all_reduce(message, ranks, net, adds_in_switch=wide)
        else:
            function = collectives.FUNCTIONS[int(code)]
            seconds = collectives.times(function, message, ranks, net, adds_in_switch=wide)
        time_s[ours], overhead_s[ours] = seconds.time_s, seconds.overhead_s
        link_s[ours], copy_s[ours], floor_s[ours] = seconds.link_s, seconds.copy_s, seconds.floor_s
    launch = c("collective.launch_s") * (device.factor["overhead"] - 1)
    zero = np.zeros(shape)
    return KernelTimes(
        time_s=time_s + launch,
        compute_s=x.flop_floor_s + zero,
        near_s=zero,
        cache_s=zero,
        memory_s=copy_s,
        overhead_s=overhead_s + launch,
        spread=np.where(x["peers"] > 0, c("collective.peer_spread"), c("collective.spread")) + zero,
        kernels=zero + 1,
        link_s=link_s,
        floor_s=floor_s,
    )


_SWITCH_BITS = 16  # NVLink SHARP adds fp16, bf16, fp32 and wider; NCCL sends int8 and fp8 round the ring

MECHANISM = Mechanism(
    "collective", (), ("collective",), ("function", "message_bytes", "ranks", "bits", "peers"), features, time
)
