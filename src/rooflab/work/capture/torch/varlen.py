"""Attention over sequences of several lengths: `varlen_attn`, and SDPA of jagged nested tensors.

Both are recorded as PyTorch's varlen operator, and counted by the true lengths. Where the tensors that hold these
have no data, the longest sequences that fit are counted, an upper bound, and it is said.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import _disable_current_modes

from rooflab.errors import RooflabError
from rooflab.work.capture.torch.flex import autograd_on
from rooflab.work.capture.torch.plans import Plan
from rooflab.work.capture.torch.stand_ins import named

_nested: Any = importlib.import_module("torch.nested._internal.ops")
_varlen: Any = importlib.import_module("torch.nn.attention.varlen") if hasattr(torch.nn, "attention") else None

Lengths = tuple[tuple[int, int], ...]


def lengths_of(ends: Any, tokens: int, longest: int) -> tuple[tuple[int, ...], bool]:
    """The length of each sequence, and whether they are known; else as many of the longest as fit."""
    if isinstance(ends, torch.Tensor) and not ends.is_meta and not isinstance(ends, FakeTensor):
        with _disable_current_modes():
            return tuple(int(one) for one in ends.diff().tolist()), True
    count = max(1, ends.shape[0] - 1) if isinstance(ends, torch.Tensor) else 1
    longest = max(1, min(longest, tokens))
    rest = [max(0, min(longest, tokens - longest * at)) for at in range(count)]
    return tuple(rest), False


def _attributes(recorder: Any, one: Mapping[str, Any], fused: bool) -> dict[str, Any]:
    """Lengths and sight of a call, as attributes of attention's formula."""
    if one.get("block_table") is not None or one.get("seqused_k") is not None:
        keys = one["seqused_k"]
        known_k = isinstance(keys, torch.Tensor) and not keys.is_meta
        count = one["cu_seq_q"].shape[0] - 1
        of_k = tuple(int(each) for each in keys.tolist()) if known_k else (one["max_k"],) * count
    else:
        of_k, known_k = lengths_of(one["cu_seq_k"], one["key"].shape[0], one["max_k"])
    of_q, known_q = lengths_of(one["cu_seq_q"], one["query"].shape[0], one["max_q"])
    if not (known_q and known_k):
        word = (
            "attention of several lengths: they are in tensors without data, so the longest that fit are counted,"
            " an upper bound; give the lengths (cu_seq) on a CPU, or make the nested tensor there"
        )
        if word not in recorder.unknown:
            recorder.unknown.append(word)
    attrs: dict[str, Any] = {"layout": "thd", "lengths": tuple(zip(of_q, of_k, strict=True)), "fused": fused}
    left, right = (*(one.get("window_size") or (-1, -1)),)
    if one["is_causal"] or (left < 0 and right == 0):
        attrs |= {"causal": True, "causal_from": "bottom_right"}  # flash-attention's rule since its version 2.1
    elif left >= 0 or right >= 0:
        attrs["causal_from"] = "bottom_right"
        attrs["window"] = left + 1 if left >= 0 else one["max_k"] + one["max_q"]
        attrs["window_right"] = right if right >= 0 else one["max_k"] + one["max_q"]
    return attrs


def _plan(name: str, kind: str, outputs: tuple[int, ...], attrs: dict[str, Any]) -> Plan:
    return Plan(name, kind, None, outputs, (), frozenset(), attrs, (), None, {}, True)


def _has_data(tensor: torch.Tensor) -> bool:
    return not tensor.is_meta and not isinstance(tensor, FakeTensor)


def _plain(query: Any, key: Any, value: Any, attrs: Mapping[str, Any], scale: float | None) -> tuple[Any, Any]:
    """Output and logarithm of softmax's sums of real tensors, a sequence at a time."""
    outs, sums, at_q, at_k = [], [], 0, 0
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    repeat = query.shape[1] // key.shape[1]
    for queries, keys in attrs["lengths"]:
        q = query[at_q : at_q + queries].transpose(0, 1)
        k, v = (one[at_k : at_k + keys].repeat_interleave(repeat, 1).transpose(0, 1) for one in (key, value))
        scores = (q @ k.transpose(1, 2)).float() * scale
        ahead = torch.arange(keys) - torch.arange(queries)[:, None] - (keys - queries)
        right = 0 if attrs.get("causal") else attrs.get("window_right", keys + queries)
        seen = (ahead <= right) & (ahead > -attrs.get("window", keys + queries + 1))
        scores = scores.masked_fill(~seen, float("-inf"))
        outs.append((torch.softmax(scores, -1).nan_to_num().to(v.dtype) @ v).transpose(0, 1))
        sums.append(torch.logsumexp(scores, -1))
        at_q, at_k = at_q + queries, at_k + keys
    return torch.cat(outs), torch.cat(sums, 1)


def handlers(fused: bool) -> dict[Any, Callable[..., Any]]:
    """Operator → what the recorder does in its place. `fused`: scores stay on chip."""
    if _varlen is None:
        return {}

    def forward(recorder: Any, func: Any, args: tuple, kwargs: Mapping[str, Any]) -> Any:
        one = named(func, args, kwargs)
        attrs = _attributes(recorder, one, fused)
        query, key, value = one["query"], one["key"], one["value"]
        if not _has_data(query):
            sums = query.new_empty((query.shape[1], query.shape[0]), dtype=torch.float32)
            out = query.new_empty((*query.shape[:-1], value.shape[-1])), sums
        elif one.get("block_table") is not None:
            raise RooflabError("varlen_attn of paged keys: PyTorch has no CPU kernel; give meta tensors")
        else:
            with _disable_current_modes():
                out = _plain(query, key, value, attrs, one["scale"])
        state = torch.empty((2,), dtype=torch.uint64, device=query.device)
        recorder.note(_plan("torch_attn._varlen_attn", "attention", (0, 1), attrs), (query, key, value), {}, out)
        return *out, state

    def backward(recorder: Any, func: Any, args: tuple, kwargs: Mapping[str, Any]) -> Any:
        one = named(func, args, kwargs)
        attrs = _attributes(recorder, one, fused)
        tensors = [one[name] for name in ("query", "key", "value")]
        if _has_data(tensors[0]):
            with _disable_current_modes(), autograd_on(), torch.enable_grad():
                leaves = [each.detach().requires_grad_() for each in tensors]
                out, _ = _plain(leaves[0], leaves[1], leaves[2], attrs, one["scale"])
                gradients = torch.autograd.grad(out, leaves, one["grad_out"])
        else:
            gradients = tuple(torch.empty_like(each) for each in tensors)
        plan = _plan("torch_attn._varlen_attn_backward", "attention_backward", (0, 1, 2), attrs)
        recorder.note(plan, (one["grad_out"], *tensors, one["out"], one["lse"]), {}, gradients)
        return gradients

    operators = torch.ops.torch_attn
    return {operators._varlen_attn.default: forward, operators._varlen_attn_backward.default: backward}


def _jagged(original: Callable[..., Any]) -> Callable[..., Any]:
    """SDPA of jagged tensors as one operator on their packed values; what it does not take goes to `original`."""

    def attention(
        query: Any,
        key: Any,
        value: Any,
        attn_mask: Any = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Any:
        given = (query, key, value)
        plain = all(isinstance(one, _nested.NestedTensor) and one.dim() == 4 for one in given)
        if not plain or attn_mask is not None or any(one.lengths() is not None for one in given):
            return original(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)
        turned = [one.transpose(1, 2) for one in given]
        packed = [one.values() for one in turned]
        ends = [one.offsets() for one in turned]
        longest = [_longest(each, one.shape[0]) for each, one in zip(ends, packed, strict=True)]
        out, *_ = torch.ops.torch_attn._varlen_attn(
            *packed, ends[0], ends[1], longest[0], longest[1], is_causal, scale, [-1, -1], enable_gqa
        )
        return torch.nested.nested_tensor_from_jagged(out, ends[0]).transpose(1, 2)

    return attention


def _longest(ends: torch.Tensor, tokens: int) -> int:
    lengths, known = lengths_of(ends, tokens, tokens)
    return max(lengths, default=0) if known else tokens


@contextlib.contextmanager
def installed() -> Iterator[None]:
    """Let SDPA of jagged tensors be one operator on any device; then as it was."""
    before = _nested.jagged_scaled_dot_product_attention
    if _varlen is not None:
        _nested.jagged_scaled_dot_product_attention = _jagged(before)
    try:
        yield
    finally:
        _nested.jagged_scaled_dot_product_attention = before
