"""LSTM, GRU and simple recurrences as the one call of cuDNN that a GPU makes, wherever their tensors are.

On meta tensors PyTorch writes a recurrence out, step by step; on a CPU another library runs it, layer by layer.
While capturing for a GPU its composite operators are replaced, forward and backward, by `_cudnn_rnn`. Real tensors
get their results from PyTorch's own composite form, unrecorded.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, cast

import torch
from torch.utils._python_dispatch import _disable_current_modes

_aten: Any = torch.ops.aten
_C: Any = torch._C
_MODES = {"rnn_relu": 0, "rnn_tanh": 1, "lstm": 2, "gru": 3}  # cudnnRNNMode_t
# Numbers per hidden unit and step that the gradients need: the gates, and an LSTM's cell.
SAVED = {"rnn_relu": 1, "rnn_tanh": 1, "lstm": 5, "gru": 4}


class _Sizes(NamedTuple):
    """Everything about a recurrence but its tensors, as `_cudnn_rnn` takes it."""

    cell: str
    hidden: int
    projection: int
    layers: int
    dropout: float
    train: bool
    bidirectional: bool
    bias: bool
    batch_sizes: tuple[int, ...]  # of packed sequences: rows of each step

    @property
    def stride(self) -> int:
        """Weights of one layer and direction."""
        return (4 if self.bias else 2) + bool(self.projection)

    def arguments(self) -> tuple[Any, ...]:
        """The arguments of `_cudnn_rnn` from `mode` to `dropout_state`."""
        return (
            *(_MODES[self.cell], self.hidden, self.projection, self.layers, False, self.dropout, self.train),
            *(self.bidirectional, list(self.batch_sizes), None),
        )


class _Recurrence(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, sizes: _Sizes, x: Any, hx: Any, cx: Any, *weights: torch.Tensor) -> Any:
        with _C._AutoDispatchBelowAutograd():
            out = _aten._cudnn_rnn.default(x, list(weights), sizes.stride, None, hx, cx, *sizes.arguments())
        y, hy, cy, reserve, _ = out
        operands = (x, hx, cx, *weights)
        ctx.real = None
        if _real(x):
            given, results = _computed(sizes, operands)
            with _disable_current_modes():
                for one, result in zip((y, hy, cy), results, strict=False):
                    one.data = result.detach().to(one.dtype)
            ctx.real = (given, results)
        ctx.sizes = sizes
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*operands, y, reserve)
        if sizes.cell != "lstm":
            ctx.mark_non_differentiable(cy)
        return y, hy, cy

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        *operands, y, reserve = ctx.saved_tensors
        x, hx, cx, *weights = operands
        sizes = ctx.sizes
        grad_y, grad_hy, grad_cy = grads if sizes.cell == "lstm" else (*grads[:2], None)
        wanted = ctx.needs_input_grad[1:]
        mask = [wanted[0], wanted[1], wanted[2] and cx is not None, any(wanted[3:])]
        with _C._AutoDispatchBelowAutograd():
            dx, dhx, dcx, dweights = _aten._cudnn_rnn_backward.default(
                *(x, weights, sizes.stride, y, hx, cx, y, grad_y, grad_hy, grad_cy, *sizes.arguments()),
                *(reserve, mask),
            )
        out = [dx, dhx, dcx, *(dweights if mask[3] else [None] * len(weights))]
        if ctx.real is not None:
            _fill(out, ctx.real, (grad_y, grad_hy, grad_cy))
        return (None, *(one if wanted[number] else None for number, one in enumerate(out)))


def _real(tensor: torch.Tensor) -> bool:
    return tensor.device.type == "cpu" and type(tensor) in (torch.Tensor, torch.nn.Parameter)


def _computed(sizes: _Sizes, operands: tuple[Any, ...]) -> tuple[list[Any], tuple[torch.Tensor, ...]]:
    """What PyTorch computes on this CPU, with its own graph of gradients: the leaves of it, and the results."""
    with (
        _disable_current_modes(),
        torch.enable_grad(),
        torch.autocast("cpu", enabled=False),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore", UserWarning)  # of the way that this CPU computes it
        wide = torch.float64 if operands[0].dtype is torch.float64 else torch.float32
        given = [None if one is None else one.detach().to(wide).requires_grad_() for one in operands]
        x, hx, cx, *weights = given
        states = [hx, cx] if sizes.cell == "lstm" else hx
        rest = (weights, sizes.bias, sizes.layers, sizes.dropout, sizes.train, sizes.bidirectional)
        packet = getattr(_aten, sizes.cell)
        if sizes.batch_sizes:
            return given, packet.data.decompose(x, torch.tensor(sizes.batch_sizes), states, *rest)
        return given, packet.input.decompose(x, states, *rest, False)


def _fill(out: list[Any], real: Any, grads: tuple[Any, ...]) -> None:
    """Give the gradients in `out` their values."""
    given, results = real
    pairs = [(one, grad) for one, grad in zip(results, grads, strict=False) if grad is not None]
    asked = [number for number, one in enumerate(given) if one is not None and out[number] is not None]
    with _disable_current_modes():
        values = torch.autograd.grad(
            [one for one, _ in pairs],
            [given[number] for number in asked],
            [grad.to(one.dtype) for one, grad in pairs],
            retain_graph=True,
            allow_unused=True,
        )
        for number, value in zip(asked, values, strict=True):
            if value is not None:
                out[number].data = value.to(out[number].dtype)


def _run(sizes: _Sizes, x: Any, hx: Any, cx: Any, weights: Any) -> tuple[Any, ...]:
    if torch.is_autocast_enabled("cuda"):
        # fp16 whatever autocast's own format, weights cast anew in each call: aten/src/ATen/cudnn/AutocastRNN.cpp
        x, hx, cx, *weights = [None if one is None else one.to(torch.float16) for one in (x, hx, cx, *weights)]
    out = _Recurrence.apply(sizes, x.contiguous(), hx.contiguous(), cx, *weights)
    return cast(Any, out) if sizes.cell == "lstm" else cast(Any, out)[:2]


def _followed(cell: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """What stands in the place of `cell`, for padded sequences and for packed ones."""

    def states(hx: Any) -> tuple[Any, Any]:
        return (hx[0], hx[1]) if cell == "lstm" else (hx, None)

    def sizes(hx: Any, cx: Any, bias: bool, rest: tuple[Any, ...], batch_sizes: tuple[int, ...]) -> _Sizes:
        layers, dropout, train, both = rest
        hidden = (hx if cx is None else cx).shape[-1]
        projection = hx.shape[-1] if hx.shape[-1] != hidden else 0
        return _Sizes(cell, hidden, projection, layers, dropout, train, both, bias, batch_sizes)

    def padded(x: Any, hx: Any, params: Any, bias: bool, *rest: Any) -> Any:
        *sizes_given, batch_first = rest
        if not _C._len_torch_dispatch_stack():  # nobody records
            return getattr(_aten, cell).input.decompose(x, hx, params, bias, *rest)
        hx, cx = states(hx)
        x = x.transpose(0, 1) if batch_first else x
        y, *ends = _run(sizes(hx, cx, bias, tuple(sizes_given), ()), x, hx, cx, params)
        return (y.transpose(0, 1) if batch_first else y, *ends)

    def packed(x: Any, batch_sizes: Any, hx: Any, params: Any, bias: bool, *rest: Any) -> Any:
        if not _C._len_torch_dispatch_stack() or batch_sizes.device.type == "meta":
            return getattr(_aten, cell).data.decompose(x, batch_sizes, hx, params, bias, *rest)
        hx, cx = states(hx)
        with _disable_current_modes():
            rows = tuple(batch_sizes.tolist())
        return _run(sizes(hx, cx, bias, tuple(rest), rows), x, hx, cx, params)

    return padded, packed


def _forms() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Composite operators, and what stands in the place of each."""
    for cell in _MODES:
        padded, packed = _followed(cell)
        yield f"{cell}.input", padded
        yield f"{cell}.data", packed


FORMS = dict(_forms())


def _forward(recorder: Any, func: Any, args: tuple, kwargs: Mapping[str, Any]) -> Any:
    x, _, _, _, hx, cx, mode, hidden, projection, layers, _, _, train, both, _, _ = args
    if x.device.type == "cuda":
        return NotImplemented
    ways = 2 if both else 1
    rows = x.shape[:-1]
    y = x.new_empty((*rows, (projection or hidden) * ways))
    cell = next(name for name, code in _MODES.items() if code == mode)
    kept = rows.numel() * hidden * ways * layers * SAVED[cell] if train else 0
    cy = torch.empty_like(cx) if cx is not None else hx.new_empty(0)
    result = (y, torch.empty_like(hx), cy, x.new_empty(kept), x.new_empty(0))
    recorder.note(recorder.plan(func), args, kwargs, result)
    return result


def _backward(recorder: Any, func: Any, args: tuple, kwargs: Mapping[str, Any]) -> Any:
    x, weights, hx, cx, mask = args[0], args[1], args[4], args[5], args[-1]
    if x.device.type == "cuda":
        return NotImplemented
    gradients = [torch.empty_like(one) if asked else None for one, asked in zip((x, hx, cx), mask, strict=False)]
    result = (*gradients, [torch.empty_like(one) for one in weights] if mask[3] else [])
    recorder.note(recorder.plan(func), args, kwargs, result)
    return result


STAND_INS: dict[Any, Callable[..., Any]] = {
    _aten._cudnn_rnn.default: _forward,
    _aten._cudnn_rnn_backward.default: _backward,
}
