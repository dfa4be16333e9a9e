"""Times measured on one H200 , and the operators that were timed, on meta tensors."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import rooflab
from rooflab.types.report import Report

SAMPLE = Path(__file__).resolve().parents[2] / "samples" / "h200" / "measured.json"


def measured(part: str) -> Any:
    """The "operators", "models" or "memory_bytes" that were measured."""
    return json.loads(SAMPLE.read_text(encoding="utf-8"))[part]


def operator(case: dict[str, Any]) -> Report:
    """The operator of a case of `measured("operators")` on PyTorch's meta tensors, analyzed."""
    import torch

    exact = torch.backends.cudnn.flags(allow_tf32=False)  # as the times were taken
    with exact, torch.device("meta"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of sparse tensors and the like: not what is tested
        return rooflab.analyze(_call(case))


def _tensor(spec: dict[str, Any]) -> Any:
    import torch

    formats = {"fp64": "float64", "fp32": "float32", "fp16": "float16", "bf16": "bfloat16", "int64": "int64"}
    tensor = torch.empty(spec["shape"], dtype=getattr(torch, formats[spec["dtype"]]), device="meta")
    return tensor.to(memory_format=torch.channels_last) if spec.get("layout") == "nhwc" else tensor


def _call(case: dict[str, Any]) -> Any:
    """The operator as a function without arguments."""
    import torch

    functional = torch.nn.functional
    op, settings = case["op"], case["kwargs"]
    x, y, z = ([_tensor(spec) for spec in case["tensors"]] + [None, None])[:3]
    calls = {
        "add": lambda: x + y,
        "gelu": lambda: functional.gelu(x),
        "transpose_copy": lambda: x.t().contiguous(),
        "strided_copy": lambda: x[:, 0].contiguous(),
        "cat": lambda: torch.cat((x, y)),
        "sum_all": lambda: x.sum(),
        "sum_first": lambda: x.sum(0),
        "argmax": lambda: x.argmax(-1),
        "cumsum": lambda: x.cumsum(-1),
        "logsumexp": lambda: torch.logsumexp(x, -1),
        "softmax": lambda: torch.softmax(x, -1),
        "layer_norm": lambda: functional.layer_norm(x, x.shape[-1:], y, z),
        "rms_norm": lambda: functional.rms_norm(x, x.shape[-1:], y),
        "batch_norm_eval": lambda: functional.batch_norm(x, *(x.new_empty(x.shape[1]) for _ in range(4)), False),
        "group_norm": lambda: functional.group_norm(x, settings["groups"]),
        "avg_pool2d": lambda: functional.avg_pool2d(x, settings["k"], settings["s"], settings["p"]),
        "embedding": lambda: functional.embedding(x, y),
        "gather_scalar": lambda: x[y],
        "index_add": lambda: x.index_add(0, y, z),
        "topk": lambda: torch.topk(x, settings["k"]),
        "sort": lambda: torch.sort(x),
        "matmul": lambda: x @ y,
        "bmm": lambda: torch.bmm(x, y),
        "linear_bias": lambda: functional.linear(x, y, z),
        "conv2d": lambda: functional.conv2d(x, y, None, **settings),
        "sdpa": lambda: functional.scaled_dot_product_attention(
            x, y, z, is_causal=settings["causal"], enable_gqa=x.shape[1] != y.shape[1]
        ),
        "attention_naive": lambda: torch.softmax((x @ y.transpose(-2, -1)) * x.shape[-1] ** -0.5, -1) @ z,
    }
    return calls[op]
