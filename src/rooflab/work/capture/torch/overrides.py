"""What a GPU runs as one kernel, recorded as one operator on tensors that are not there.

On meta tensors, and on builds for CPUs, attention, dropout and RMS norm fall apart into many operators. Here
their composite forms are replaced while capturing, forward and backward, by those that a GPU would dispatch.
`torch.library` puts them in where autograd is on; under `inference_mode` the recorder meets the composite
form itself. Real tensors on a CPU get their results by plain arithmetic, unrecorded.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from rooflab.work.capture.torch import decompositions, flex, ranks, recurrences, sdpa, varlen
from rooflab.work.capture.torch.regions import regions
from rooflab.work.capture.torch.stand_ins import STAND_INS

_aten: Any = torch.ops.aten
_below_autograd: Any = torch._C._AutoDispatchBelowAutograd


def attention_on(device: str, unfused: Counter[str]) -> Callable[..., torch.Tensor]:
    """`scaled_dot_product_attention` as PyTorch runs it on `device`: a fused operator, or those of its math form.

    Which of the fused kernels runs depends on the GPU: without a mask it is recorded as the flash kernel, else as
    the memory-efficient one, beside the kernel of each architecture (`sdpa.kernels`).

    Args:
        unfused: gets why calls fall to the math form, with how often.
    """

    def attention(
        query: Any,
        key: Any,
        value: Any,
        attn_mask: Any = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        *,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> torch.Tensor:
        why = None
        if device != "cpu":
            why = sdpa.why_math(sdpa.call_of(query, key, value, attn_mask, dropout_p, is_causal, enable_gqa))
        if why is None:
            return _fused(query, key, value, attn_mask, dropout_p, is_causal, scale)
        unfused[why] += 1
        return _aten._scaled_dot_product_attention_math(
            query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
        )[0]

    return attention


def _fused(
    query: Any, key: Any, value: Any, mask: Any, dropout_p: float, causal: bool, scale: float | None
) -> torch.Tensor:
    if query.dim() != 4:
        lead = query.shape[:-2] if query.dim() > 2 else (1,)
        batch = (1,) * max(0, 2 - len(lead)) + tuple(lead)
        wide: Any = [one.reshape(-1, batch[-1], *one.shape[-2:]) for one in (query, key, value)]
        if mask is not None and mask.dim() > 2:
            mask = mask.reshape(-1, 1, *mask.shape[-2:])
        out = _fused(wide[0], wide[1], wide[2], mask, dropout_p, causal, scale)
        return out.reshape(*query.shape[:-1], value.shape[-1])
    if mask is None and value.shape[-1] == query.shape[-1]:
        return _aten._scaled_dot_product_flash_attention(query, key, value, dropout_p, causal, False, scale=scale)[
            0
        ]
    if mask is not None:
        if mask.dtype is torch.bool:  # as PyTorch does it
            zeros = torch.zeros_like(mask, dtype=query.dtype)
            mask = zeros.masked_fill_(mask.logical_not(), float("-inf"))
        mask = mask.expand(query.shape[0], query.shape[1], query.shape[2], key.shape[2])
    return _aten._scaled_dot_product_efficient_attention(
        query, key, value, mask, torch.is_grad_enabled(), dropout_p, causal, scale=scale
    )[0]


def safe_softmax(x: torch.Tensor, dim: int, dtype: torch.dtype | None = None) -> torch.Tensor:
    """Softmax with zeros for rows that are masked throughout: on a GPU, four kernels."""
    out = torch.softmax(x, dim, dtype=dtype)
    masked = torch.isneginf(x).all(dim, keepdim=True)
    return torch.where(masked, torch.zeros((), dtype=out.dtype, device=out.device), out)


def dropout(input: torch.Tensor, p: float, train: bool) -> torch.Tensor:
    """Dropout as one operator with a saved mask."""
    if not train or p == 0:
        return input
    return _aten.native_dropout(input, p, train)[0]


class _RmsNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, shape: Any, weight: Any, eps: Any) -> torch.Tensor:
        with _below_autograd():
            y, rstd = _aten._fused_rms_norm.default(x, shape, weight, eps)
        ctx.save_for_backward(x, rstd, weight)
        ctx.shape = shape
        return y

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        x, rstd, weight = ctx.saved_tensors
        wanted = [ctx.needs_input_grad[0], ctx.needs_input_grad[2]]
        with _below_autograd():
            grad_x, grad_w = _aten._fused_rms_norm_backward.default(
                grads[0].contiguous(), x, ctx.shape, rstd, weight, wanted
            )
        return grad_x, None, grad_w, None


def rms_norm(input: Any, normalized_shape: Any, weight: Any = None, eps: float | None = None) -> torch.Tensor:
    """RMS norm as one operator that saves the reciprocal root mean square."""
    if torch.is_grad_enabled() and (input.requires_grad or (weight is not None and weight.requires_grad)):
        return _RmsNorm.apply(input, normalized_shape, weight, eps)  # type: ignore[no-any-return]
    with _below_autograd():
        return _aten._fused_rms_norm.default(input, normalized_shape, weight, eps)[0]


@contextlib.contextmanager
def installed(attention: Callable[..., torch.Tensor] | None, like_gpu: bool) -> Iterator[None]:
    """Put the fused forms in for meta tensors and, where they stand for a GPU's, a CPU's; then take them out."""
    library = torch.library.Library("aten", "IMPL")
    try:
        for key in ("AutogradMeta", "AutogradCPU"):
            for name, function in decompositions.COMPOSITES.items():
                library.impl(name, function, key)
        for key in ("AutogradMeta", "AutogradCPU") if like_gpu else ("AutogradMeta",):
            if attention is not None:
                library.impl("scaled_dot_product_attention", attention, key)
            library.impl("dropout", dropout, key)
            library.impl("rms_norm", rms_norm, key)
            if like_gpu:
                for name, form in recurrences.FORMS.items():
                    library.impl(name, form, key)
        with flex.installed(), varlen.installed():
            yield
    finally:
        library._destroy()


def _followed(function: Callable[..., Any]) -> Callable[..., Any]:
    """Follow `function` instead of the composite operator that reached the recorder whole."""

    def run(recorder: Any, func: Any, args: tuple, kwargs: Mapping[str, Any]) -> Any:
        with recorder:
            return function(*args, **kwargs)

    return run


def _asked(recorder: Any, func: Any, args: tuple, kwargs: Mapping[str, Any]) -> Any:
    """The answer to a question about a fake tensor, which is not an operation."""
    return func(*args, **kwargs)


def instead(attention: Callable[..., torch.Tensor] | None, like_gpu: bool = True) -> dict[Any, Callable[..., Any]]:
    """Operator → what the recorder does in its place."""
    stand_ins = {**STAND_INS, **decompositions.STAND_INS, **recurrences.STAND_INS}
    replacements: dict[Any, Callable[..., Any]] = {
        **stand_ins,
        **regions(),
        **varlen.handlers(fused=attention is not None and like_gpu),
    }
    replacements[torch.ops.prim.device.default] = _asked
    if torch.distributed.is_available():
        replacements[torch.ops.c10d.allreduce_.default] = ranks.all_reduced
    replacements[_aten.dropout.default] = _followed(dropout)
    replacements[_aten.rms_norm.default] = _followed(rms_norm)
    replacements[_aten._safe_softmax.default] = _followed(safe_softmax)
    if like_gpu:
        for name, form in recurrences.FORMS.items():
            packet, _, overload = name.partition(".")
            replacements[getattr(getattr(_aten, packet), overload)] = _followed(form)
    if attention is not None:
        replacements[_aten.scaled_dot_product_attention.default] = _followed(attention)
    return replacements
