"""Which fp32 products PyTorch hands to tensor cores as TF32: its own flags say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import torch

from rooflab.types.work import Graph, Op

_MATMULS, _CONVOLUTIONS = ("matmul", "grouped_matmul"), ("conv", "conv_backward")


def as_set(graph: Graph) -> Graph:
    """`graph` with its fp32 products computed in TF32 where PyTorch's flags allow it, as on an NVIDIA GPU.

    `torch.backends.cuda.matmul.allow_tf32` is off by default, `torch.backends.cudnn.allow_tf32` on:
    https://docs.pytorch.org/docs/stable/notes/cuda.html (TensorFloat-32 on Ampere and later devices).
    A machine without TF32 computes them in fp32.
    """
    kinds = (_MATMULS if _matmul() else ()) + (_CONVOLUTIONS if torch.backends.cudnn.allow_tf32 else ())
    if not any(_fp32(op, graph, kinds) for op in graph.ops):
        return graph
    changed: dict[int, Mapping[str, Any]] = {}  # ops that agree keep sharing their attributes
    ops = []
    for op in graph.ops:
        if _fp32(op, graph, kinds):
            attrs = changed.setdefault(id(op.attrs), {**op.attrs, "compute": "tf32"})
            op = msgspec.structs.replace(op, attrs=attrs)
        ops.append(op)
    convention = "fp32 products: TF32 where PyTorch's flags allow it (convolutions by default)"
    return msgspec.structs.replace(graph, ops=tuple(ops), conventions=(*graph.conventions, convention))


def _matmul() -> bool:
    return torch.get_float32_matmul_precision() != "highest"


def _fp32(op: Op, graph: Graph, kinds: tuple[str, ...]) -> bool:
    return op.kind in kinds and bool(op.inputs) and graph.tensors[op.inputs[0]].dtype == "fp32"
