"""Which function runs a recorded call again on a CPU: the operator itself, or what a CPU has in its place."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as functional

from rooflab.observe.replay.tensors import CannotReplay
from rooflab.work.capture.torch.kept import KeptCall

_COLLECTIVE = ("c10d", "_c10d_functional", "c10d_functional", "symm_mem")


_aten: Any = torch.ops.aten


def _flash(q: Any, k: Any, v: Any, p: float = 0.0, causal: bool = False, *_: Any, scale: Any = None) -> Any:
    return _aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, p, causal, scale=scale)


def _flash_backward(grad: Any, q: Any, k: Any, v: Any, out: Any, lse: Any, *more: Any, scale: Any = None) -> Any:
    p, causal = more[4], more[5]  # after the bounds of packed sequences
    return _aten._scaled_dot_product_flash_attention_for_cpu_backward(
        grad, q, k, v, out, lse, p, causal, scale=scale
    )


def _efficient(
    q: Any, k: Any, v: Any, bias: Any, lse: bool, p: float = 0.0, causal: bool = False, *, scale: Any = None
) -> Any:
    return _aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, p, causal, attn_mask=bias, scale=scale)


def _efficient_backward(
    grad: Any, q: Any, k: Any, v: Any, bias: Any, out: Any, lse: Any, *more: Any, scale: Any = None
) -> Any:
    p, causal = more[2], more[4] if len(more) > 4 else False  # after the state of the random numbers
    lse = lse[..., : q.shape[-2]]  # a GPU's kernel pads it
    return _aten._scaled_dot_product_flash_attention_for_cpu_backward(
        grad, q, k, v, out, lse, p, causal, attn_mask=bias, scale=scale
    )


def _rms_norm(x: Any, shape: Any, weight: Any = None, eps: Any = None):
    return functional.rms_norm(x, shape, weight, eps)


# GPUs' kernels that captures stand for, by what PyTorch runs on a CPU in their place.
_ON_CPU: dict[str, Callable[..., Any]] = {
    "aten::_scaled_dot_product_flash_attention": _flash,
    "aten::_scaled_dot_product_efficient_attention": _efficient,
    "aten::_scaled_dot_product_flash_attention_backward": _flash_backward,
    "aten::_scaled_dot_product_efficient_attention_backward": _efficient_backward,
    "aten::_fused_rms_norm": _rms_norm,
}


def function_of(call: KeptCall) -> Callable[..., Any]:
    """What runs `call` again.

    Raises:
        CannotReplay: a collective, or something that is no operator.
    """
    func = call.func
    if func is None or not hasattr(func, "_schema"):
        raise CannotReplay("recorded by a rule of its own, not as one operator")
    namespace = func._schema.name.partition("::")[0]
    if namespace in _COLLECTIVE:
        raise CannotReplay("a collective: it needs the other ranks")
    # Without the wrapper's own Python around it.
    return _ON_CPU.get(func._schema.name) or func._op


def detour_s(clock: Callable[[], float]) -> float:
    """What calling an operator alone, by its overload and between two looks at the clock, adds to a plain call."""
    x, y = torch.ones(8), torch.ones(8)
    overload: Any = torch.ops.aten.add.Tensor._op
    alone = []
    for _ in range(_SINGLES):
        start = clock()
        overload(x, y)
        alone.append(clock() - start)
    runs = []
    for _ in range(_RUNS):
        start = clock()
        for _ in range(_SINGLES):
            torch.add(x, y)
        runs.append((clock() - start) / _SINGLES)
    return max(0.0, statistics.median(alone) - statistics.median(runs))


_SINGLES, _RUNS = 400, 5
