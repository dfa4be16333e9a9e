"""The operations that can be written by hand, each a function from shapes to an operation of the formulas."""

from __future__ import annotations

from collections.abc import Callable

from rooflab.work.by_hand import dense, memory_ops
from rooflab.work.by_hand.operands import Operation
from rooflab.work.by_hand.pointwise import POINTWISE as POINTWISE

BUILDERS: dict[str, Callable[..., Operation]] = {
    "matmul": dense.matmul,
    "bmm": dense.matmul,
    "gemm": dense.matmul,
    "linear": dense.linear,
    "conv1d": dense.conv1d,
    "conv2d": dense.conv2d,
    "conv3d": dense.conv3d,
    "attention": dense.attention,
    "lstm": dense.lstm,
    "gru": dense.gru,
    "softmax": memory_ops.softmax,
    "log_softmax": memory_ops.log_softmax,
    "layer_norm": memory_ops.layer_norm,
    "rms_norm": memory_ops.rms_norm,
    "batch_norm": memory_ops.batch_norm,
    "group_norm": memory_ops.group_norm,
    "max_pool2d": memory_ops.max_pool2d,
    "avg_pool2d": memory_ops.avg_pool2d,
    "sum": memory_ops.total,
    "mean": memory_ops.mean,
    "embedding": memory_ops.embedding,
    "copy": memory_ops.copy,
    "cast": memory_ops.cast,
    "transpose": memory_ops.transpose,
    "cumsum": memory_ops.cumsum,
    "dropout": memory_ops.dropout,
    "cross_entropy": memory_ops.cross_entropy,
    "sgd": memory_ops.sgd,
    "adam": memory_ops.adam,
    "adamw": memory_ops.adamw,
    "all_reduce": memory_ops.all_reduce,
    "all_gather": memory_ops.all_gather,
    "reduce_scatter": memory_ops.reduce_scatter,
    "all_to_all": memory_ops.all_to_all,
    "broadcast": memory_ops.broadcast_ranks,
}
