"""Recurrences on GPUs (cuDNN): a chain of dependent steps, and the products that are batched over all of them.

Each step needs the state of the one before. Which of three ways a library takes is PyTorch's own rule
(aten/src/ATen/native/cudnn/RNN.cpp, get_algo):
- "small": one kernel stays on the device, a few rows of the batch to a unit, which holds the recurrent weights
  and trades the state through L2. What its registers cannot hold it reads from L2 again at every step.
- "spread": the same with the weights spread over all units, for fp16 and wide states.
- "standard": kernels for each step, a product and the gates.
Layers wait for each other at each step's end: in published times four layers take four times as long as one.
Two directions are taken to run side by side.
"""

from __future__ import annotations

import numpy as np

from rooflab.model.device.device import Device
from rooflab.model.kernels.common import Columns, Features, KernelTimes, Mechanism, Specs
from rooflab.types.work import Cost, Op
from rooflab.work.formulas.cost_terms import item_bytes
from rooflab.work.formulas.rnn import CELLS

KINDS = ("rnn", "rnn_backward")
_GATED = ("lstm", "gru")
# Widest state of the kernels that hold weights in one unit: (with gates, without), forward and backward.
_SMALL_HIDDEN = {"rnn": (192, 384), "rnn_backward": (128, 256)}
_SPREAD_HIDDEN, _SPREAD_MULTIPLE = 1024, 128  # fp16, one layer, one direction
_SPREAD_BATCH, _SPREAD_UNITS = 128, 98
_SUM_BYTES = 4.0  # weights are held in fp32: fp16 was seen to be no faster
_ROWS = 8.0  # of a batch that one unit works on at once

_COLUMNS = ("chain", "batch", "weight_bytes", "item_bytes", "hidden", "small", "spread", "backward")


def features(op: Op, inputs: Specs, outputs: Specs, cost: Cost) -> Features | None:
    """The `_COLUMNS` of one recurrence: dependent steps of all layers, its state, and the ways open to it."""
    attrs, x = op.attrs, inputs[0]
    cell, hidden, batch = attrs["cell"], float(attrs["hidden"]), float(attrs["batch"])
    layers, both = attrs.get("layers", 1), bool(attrs.get("bidirectional"))
    width = float(attrs.get("projection") or hidden)
    fixed = "rows" not in attrs and not attrs.get("projection")  # no packed sequences, no projection
    limit = _SMALL_HIDDEN[op.kind or "rnn"][0 if cell in _GATED else 1]
    small = fixed and x.dtype != "fp64" and hidden <= limit
    spread = (
        fixed
        and x.dtype == "fp16"
        and cell != "gru"
        and layers == 1
        and not both
        and hidden <= _SPREAD_HIDDEN
        and not (hidden % _SPREAD_MULTIPLE or attrs["input"] % _SPREAD_MULTIPLE or batch % _ROWS)
        and batch <= _SPREAD_BATCH
    )
    return (
        float(attrs["steps"] * layers),
        batch,
        CELLS[cell][0] * hidden * width * _SUM_BYTES,
        item_bytes(x),
        hidden,
        float(small),
        float(spread and not small),
        float(op.kind == "rnn_backward"),
    )


def time(x: Columns, device: Device) -> KernelTimes:
    """The chain of steps, and a roofline of everything that is done for all steps at once."""
    c = device.constants
    trips = np.where(x["backward"] > 0, c("rnn.backward_round_trips"), c("rnn.round_trips"))
    sync = trips * device.cache_latency_s
    unit_bytes_per_s = device.cache_bytes_per_s / device.units
    # Held in one unit: what does not fit crosses L2 at each step, for one group of rows after the other where
    # the weights are more than all its registers.
    missing = np.maximum(x["weight_bytes"] - c("rnn.held_bytes"), 0.0)
    groups = np.where(x["weight_bytes"] > c("rnn.register_bytes"), np.ceil(x["batch"] / _ROWS), 1.0)
    small_cache = missing / unit_bytes_per_s * groups
    small_sync = sync * groups
    # Spread over the units: each reads the whole state.
    spread_cache = x["batch"] * x["hidden"] * x["item_bytes"] / unit_bytes_per_s
    # A step of kernels: weights come from L2, by all units.
    kernels = np.where(x["backward"] > 0, c("rnn.backward_step_kernels"), c("rnn.step_kernels"))
    launch = kernels * c("rnn.kernel_s") * device.factor["overhead"]
    step_cache = x["weight_bytes"] / _SUM_BYTES * x["item_bytes"] / device.cache_bytes_per_s
    small = x["small"] > 0
    spread = (x["spread"] > 0) & (device.units >= _SPREAD_UNITS)
    waits = x["chain"] * np.where(small, small_sync, np.where(spread, sync, launch))
    again = x["chain"] * np.where(small, small_cache, np.where(spread, spread_cache, step_cache))

    compute = x.flop_floor_s / c("generic.compute_share")
    traffic = x.read_bytes + x.write_bytes
    cache = traffic / (device.cache_bytes_per_s * c("generic.cache_share"))
    cold = traffic - x.hot_read_bytes - x.hot_write_bytes
    memory = cold / (device.memory_bytes_per_s * c("generic.memory_share"))
    body = np.maximum(np.maximum(compute, cache), memory)
    start = c("generic.launch_s") * device.factor["overhead"]
    zero = np.zeros_like(body + waits)
    return KernelTimes(
        time_s=waits + again + body + start,
        compute_s=compute + zero,
        near_s=zero,
        cache_s=cache + again + zero,
        memory_s=memory + zero,
        overhead_s=waits + start + zero,
        spread=c("rnn.spread") + zero,
        kernels=zero + np.where(small | spread, 1.0, x["chain"] * kernels),
    )


MECHANISM = Mechanism("rnn", ("gpu",), KINDS, _COLUMNS, features, time)
