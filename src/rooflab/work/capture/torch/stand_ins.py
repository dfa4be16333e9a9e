"""Results of fused operators that this build of PyTorch has no kernel for, so that a run can go on.

Each is recorded as the one operator it stands for; how its result comes about is not recorded. On meta tensors
only shapes are made; on real ones the values are computed plainly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from rooflab.work.capture.torch.tensors import dtype_name
from rooflab.work.capture.torch.values import value

_aten: Any = torch.ops.aten


def _real_cpu(tensor: torch.Tensor) -> bool:
    return tensor.device.type == "cpu" and type(tensor) in (torch.Tensor, torch.nn.Parameter)


def _sums(dtype: torch.dtype) -> torch.dtype:
    """The number format that sums of `dtype` are kept in."""
    return torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype


def _rms_norm(
    x: torch.Tensor, shape: Any, weight: Any = None, eps: float | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    dims = tuple(range(-len(shape), 0))
    kept = [*x.shape[: x.dim() - len(shape)], *([1] * len(shape))]
    if not _real_cpu(x):
        return torch.empty_like(x), x.new_empty(kept, dtype=_sums(x.dtype))
    wide = x.to(_sums(x.dtype))
    rstd = (
        wide.square().mean(dims, keepdim=True) + (eps if eps is not None else torch.finfo(x.dtype).eps)
    ).rsqrt()
    y = (wide * rstd).to(x.dtype)
    return (y if weight is None else y * weight), rstd


def _rms_norm_backward(
    grad: torch.Tensor, x: torch.Tensor, shape: Any, rstd: torch.Tensor, weight: Any, wanted: Any
) -> tuple[Any, Any]:
    dims: Any = tuple(range(-len(shape), 0))
    if not _real_cpu(x):
        return (torch.empty_like(x) if wanted[0] else None), (torch.empty_like(weight) if wanted[1] else None)
    wide, g = x.to(rstd.dtype), grad.to(rstd.dtype)
    kept = x.dim() - len(shape)
    normed = wide * rstd
    scaled = g if weight is None else g * weight
    grad_x = (scaled - normed * (scaled * normed).mean(dims, keepdim=True)) * rstd
    grad_w = (g * normed).sum(tuple(range(kept))).to(weight.dtype) if weight is not None and wanted[1] else None
    return (grad_x.to(x.dtype) if wanted[0] else None), grad_w


def _weights(query: Any, key: Any, mask: Any, causal: bool, scale: Any) -> tuple[Any, Any, float]:
    """Softmax of the scores, the keys repeated for the heads that share them, and the scale."""
    scale = scale if scale is not None else query.shape[-1] ** -0.5
    keys = key.repeat_interleave(query.shape[1] // key.shape[1], 1)
    scores = (query @ keys.transpose(-2, -1)) * scale
    if causal:
        scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).tril().logical_not(), float("-inf"))
    if mask is not None:
        scores = scores + mask
    return scores, keys, scale


def _attention(query: Any, key: Any, value: Any, mask: Any, causal: bool, scale: float | None) -> tuple[Any, Any]:
    """Output and logarithm of the softmax's sums; dropout is left out, it changes no shape."""
    scores, _keys, _scale = _weights(query, key, mask, causal, scale)
    values = value.repeat_interleave(query.shape[1] // value.shape[1], 1)
    return torch.softmax(scores, -1) @ values, torch.logsumexp(scores, -1).float()


def _attention_backward(
    grad: Any, query: Any, key: Any, value: Any, mask: Any, causal: bool, scale: float | None
) -> tuple[Any, Any, Any, Any]:
    """Gradients of query, key, value and mask, from Dao et al. 2022, appendix B."""
    scores, keys, scale = _weights(query, key, mask, causal, scale)
    repeat = query.shape[1] // value.shape[1]
    p = torch.softmax(scores, -1)
    dp = grad @ value.repeat_interleave(repeat, 1).transpose(-2, -1)
    ds = p * (dp - (dp * p).sum(-1, keepdim=True))

    def shared(one: torch.Tensor) -> torch.Tensor:
        return one.unflatten(1, (-1, repeat)).sum(2)

    return ds @ keys * scale, shared(ds.transpose(-2, -1) @ query * scale), shared(p.transpose(-2, -1) @ grad), ds


def named(func: Any, args: tuple, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments by name, with defaults."""
    by_name = {}
    for position, one in enumerate(func._schema.arguments):
        default = one.default_value if one.has_default_value() else None
        by_name[one.name] = args[position] if position < len(args) else kwargs.get(one.name, default)
    return by_name


def _flash(recorder: Any, func: Any, args: tuple, kwargs: Mapping[str, Any]) -> Any:
    if not _real_cpu(args[0]):
        return NotImplemented
    one = named(func, args, kwargs)
    out, lse = _attention(one["query"], one["key"], one["value"], None, one["is_causal"], one["scale"])
    none = torch.empty(0, dtype=torch.int64)
    result = (out, lse, none, none, one["query"].shape[2], one["key"].shape[2], none, none, none)
    recorder.note(recorder.plan(func), args, kwargs, result)
    return result


def _efficient(recorder: Any, func: Any, args: tuple, kwargs: Mapping[str, Any]) -> Any:
    if not _real_cpu(args[0]):
        return NotImplemented
    one = named(func, args, kwargs)
    out, lse = _attention(one["query"], one["key"], one["value"], one["attn_bias"], one["is_causal"], one["scale"])
    none = torch.empty(0, dtype=torch.int64)
    result = (out, lse, none, none)
    recorder.note(recorder.plan(func), args, kwargs, result)
    return result


def _backward(recorder: Any, func: Any, args: tuple, kwargs: Mapping[str, Any]) -> Any:
    one = named(func, args, kwargs)
    efficient = "grad_out_" in one
    grad, mask = one["grad_out_" if efficient else "grad_out"], one.get("attn_bias")
    of: Any = [one["query"], one["key"], one["value"], mask]
    if grad.is_meta:
        # PyTorch's own shapes are wrong where heads share keys
        gradients: tuple = tuple(None if tensor is None else torch.empty_like(tensor) for tensor in of)
    elif _real_cpu(grad):
        gradients = _attention_backward(grad, of[0], of[1], of[2], mask, one["is_causal"], one["scale"])
    else:
        return NotImplemented
    asked = one.get("grad_input_mask") or (True, True, True)
    result = (
        (*gradients[:3], gradients[3] if mask is not None and asked[-1] else None) if efficient else gradients[:3]
    )
    recorder.note(recorder.plan(func), args, kwargs, result)
    return result


def _simple(function: Callable[..., Any]) -> Callable[..., Any]:
    def run(recorder: Any, func: Any, args: tuple, kwargs: Mapping[str, Any]) -> Any:
        result = function(*args, **kwargs)
        recorder.note(recorder.plan(func), args, kwargs, result)
        return result

    return run


_MOST_ASSUMED = 300  # answers by ones: a loop that waits for another would never end


def _content(recorder: Any, tensor: torch.Tensor) -> torch.Tensor | None:
    """What a meta tensor holds: made from constants, or from whole numbers and truths given, as if all were ones.

    A mask of ones hides nothing, so that all that may run is counted; what is assumed is noted.
    """
    if not tensor.is_meta:
        return None
    content = value(tensor, recorder.calls)
    if content is not None or recorder.assumed >= _MOST_ASSUMED:
        return content
    ones: list[torch.Tensor] = []
    content = value(tensor, recorder.calls, ones, recorder.table.name)
    if content is None:
        return None
    recorder.assumed += 1
    for one in ones:
        shown = recorder.table.name(one) or "a list"
        word = (
            f"the values of {shown} ({dtype_name(one.dtype)} {list(one.shape)}) decide what runs, and are taken as"
            " ones; for others give real tensors"
        )
        if word not in recorder.unknown:
            recorder.unknown.append(word)
    return content


def _number(recorder: Any, func: Any, args: tuple, kwargs: Mapping[str, Any]) -> Any:
    """The number in a tensor: known on meta where it was made from constants."""
    content = _content(recorder, args[0])
    if content is None:
        return NotImplemented
    recorder.note(recorder.plan(func), args, kwargs, None)
    return content.item()


def _found(recorder: Any, func: Any, args: tuple, kwargs: Mapping[str, Any]) -> Any:
    """A result whose shape depends on data: known on meta where the data was made from constants."""
    content = _content(recorder, args[0])
    if content is None:
        return NotImplemented
    result = func(content, *args[1:], **kwargs).to("meta")
    recorder.note(recorder.plan(func), args, kwargs, result)
    return result


def _picked(recorder: Any, func: Any, args: tuple, kwargs: Mapping[str, Any]) -> Any:
    """Elements that masks pick, where the masks are known."""
    x, indices = args[0], list(args[1])
    masks = (torch.bool, torch.uint8)
    if not x.is_meta or not any(one is not None and one.is_meta and one.dtype in masks for one in indices):
        return NotImplemented
    places: list[Any] = []
    for one in indices:
        if one is None or one.dtype not in masks:
            places.append(one)
            continue
        content = _content(recorder, one) if one.is_meta else one
        if content is None:
            return NotImplemented
        places.extend(each.to("meta") for each in content.nonzero(as_tuple=True))
    with _disable_current_modes():
        result = func(x, places, *args[2:], **kwargs)
    recorder.note(recorder.plan(func), args, kwargs, result)
    return result


def _grouped(recorder: Any, func: Any, args: tuple, kwargs: Mapping[str, Any]) -> Any:
    """Grouped products of formats that PyTorch refuses on meta tensors (it takes bf16 alone)."""
    a, b = args[0], args[1]
    if not a.is_meta or a.dtype is torch.bfloat16:
        return NotImplemented
    groups: Any = args[2] if len(args) > 2 else kwargs.get("offs")
    lead = (groups.shape[0],) if a.dim() == b.dim() == 2 else (a.shape[0],) if a.dim() == b.dim() == 3 else ()
    result = a.new_empty((*lead, a.shape[-2], b.shape[-1]))
    recorder.note(recorder.plan(func), args, kwargs, result)
    return result


# Layouts in which convolutions of that many dimensions have their channels last.
_CHANNELS_LAST = {4: torch.channels_last, 5: torch.channels_last_3d}


def _convolution(recorder: Any, func: Any, args: tuple, kwargs: Mapping[str, Any]) -> Any:
    """A convolution whose results have their channels last where an operand does, as those of devices do.

    PyTorch's own results on meta tensors are contiguous: it does not know which library would run. What follows
    would be read against its layout. (`cudnn_conv_suggest_memory_format` of ATen/native/ConvUtils.h.)
    """
    one = named(func, args, kwargs)
    x, weight = one["input"], one["weight"]
    layout = _CHANNELS_LAST.get(x.dim())
    if not x.is_meta or layout is None or x.dtype is torch.float64:
        return NotImplemented
    operands = [each for each in (x, weight) if not each.is_contiguous()]
    if not any(each.is_contiguous(memory_format=layout) for each in operands):
        return NotImplemented
    made = func(*args, **kwargs)

    def laid(each: Any) -> Any:
        return each if each is None or each.dim() != x.dim() else each.contiguous(memory_format=layout)

    result = tuple(map(laid, made)) if isinstance(made, tuple) else laid(made)
    recorder.note(recorder.plan(func), args, kwargs, result)
    return result


def _ctc(recorder: Any, func: Any, args: tuple, kwargs: Mapping[str, Any]) -> Any:
    """CTC loss with lengths in tensors, whose data PyTorch asks for only to size α: the longest targets do."""
    x, targets = args[0], args[1]
    if not x.is_meta:
        return NotImplemented
    batch = x.shape[1] if x.dim() == 3 else 1
    labels = targets.shape[-1] if targets.dim() == 2 else -(-targets.shape[-1] // batch)
    lead = (batch,) if x.dim() == 3 else ()
    result = x.new_empty(lead), x.new_empty((*lead, x.shape[0], 2 * labels + 1))
    recorder.note(recorder.plan(func), args, kwargs, result)
    return result


def _ctc_backward(recorder: Any, func: Any, args: tuple, kwargs: Mapping[str, Any]) -> Any:
    if not args[1].is_meta:
        return NotImplemented
    result = torch.empty_like(args[1])
    recorder.note(recorder.plan(func), args, kwargs, result)
    return result


def _int4(recorder: Any, func: Any, args: tuple, kwargs: Mapping[str, Any]) -> Any:
    """A product with weights of int4, eight rows to each tile: (n / 8, k / (tiles · 16), 32, tiles / 2)."""
    x, packed = args[0], args[1]
    if not x.is_meta:
        return NotImplemented
    result = x.new_empty((x.shape[0], packed.shape[0] * 8))
    recorder.note(recorder.plan(func), args, kwargs, result)
    return result


def _updated(recorder: Any, func: Any, args: tuple, kwargs: Mapping[str, Any]) -> Any:
    """A fused optimizer's step, which changes no shape."""
    if not args[0][0].is_meta:
        return NotImplemented
    recorder.note(recorder.plan(func), args, kwargs, None)
    return None


STAND_INS: dict[Any, Callable[..., Any]] = {
    _aten._fused_rms_norm.default: _simple(_rms_norm),
    _aten._fused_rms_norm_backward.default: _simple(_rms_norm_backward),
    _aten._scaled_dot_product_flash_attention.default: _flash,
    _aten._scaled_dot_product_efficient_attention.default: _efficient,
    _aten._scaled_dot_product_flash_attention_backward.default: _backward,
    _aten._scaled_dot_product_efficient_attention_backward.default: _backward,
    _aten._local_scalar_dense.default: _number,
    _aten.nonzero.default: _found,
    _aten.index.Tensor: _picked,
    _aten._grouped_mm.default: _grouped,
    _aten._weight_int4pack_mm.default: _int4,
    _aten.convolution.default: _convolution,
    _aten.convolution_backward.default: _convolution,
    _aten._ctc_loss.Tensor: _ctc,
    _aten._ctc_loss_backward.default: _ctc_backward,
    _aten._ctc_loss_backward.Tensor: _ctc_backward,
    **{
        getattr(packet, overload): _updated
        for packet in (_aten._fused_adam_, _aten._fused_adamw_, _aten._fused_sgd_, _aten._fused_adagrad_)
        for overload in packet.overloads()
    },
}
