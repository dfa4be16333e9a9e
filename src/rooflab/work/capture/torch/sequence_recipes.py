"""Recipes of what runs along sequences: attention, recurrences, alignments; see `recipes`."""

from __future__ import annotations

import sys
from typing import Any

from rooflab.work.capture.torch.recipe_registry import Attrs, Call, has_data, is_tensor, recipe


@recipe
def ctc_sizes(call: Call, out: Any, attrs: Attrs, name: str) -> Attrs:
    """Lengths of inputs and targets, where their data is there; else the longest that fit."""
    x, targets = call("log_probs"), call("targets")
    batch = x.shape[1] if x.dim() == 3 else 1
    lengths = [_whole_numbers(call(one)) for one in ("input_lengths", "target_lengths")]
    longest = targets.shape[-1] if targets.dim() == 2 else -(-targets.shape[-1] // batch)
    steps = lengths[0] or (x.shape[0],) * batch
    return {"lengths": tuple(zip(steps, lengths[1] or (longest,) * batch, strict=True)), "classes": x.shape[-1]}


def _whole_numbers(value: Any) -> tuple[int, ...] | None:
    """The numbers in a list or in a tensor that has data; None without."""
    if is_tensor(value):
        return None if not has_data(value) else tuple(int(one) for one in value.reshape(-1).tolist())
    return None if value is None else tuple(int(one) for one in value)


@recipe
def sums(call: Call, out: Any, attrs: Attrs, name: str) -> Attrs:
    """The logarithms of softmax's sums are written for the gradient alone (some kernels write them always)."""
    operands = [call(one) for one in ("query", "key", "value", "attn_bias", "attn_mask", "bias")]
    torch = sys.modules.get("torch")
    wanted = torch is not None and torch.is_grad_enabled()
    wanted = wanted and any(getattr(one, "requires_grad", False) for one in operands)
    return {} if wanted else {"first_outputs": 1}


@recipe
def sdpa(call: Call, out: Any, attrs: Attrs, name: str) -> Attrs:
    """The kernel that scaled_dot_product_attention runs on each architecture of GPUs."""
    from rooflab.work.capture.torch.sdpa import call_of, kernels

    derived = sums(call, out, attrs, name) if "backward" not in name else {}
    asked = call_of(
        call("query"), call("key"), call("value"), call("attn_bias"), call("dropout_p") or 0.0, call("is_causal")
    )
    if "backward" in name:  # the choice was made in the forward pass, where a gradient was to come
        asked = asked._replace(gradient=True)
    return {**derived, "kernels": kernels(asked)}


@recipe
def flash(call: Call, out: Any, attrs: Attrs, name: str) -> Attrs:
    """Sequence lengths of packed batches, where their data is there; a sliding window."""
    derived: Attrs = {"layout": "bshd"}
    if "backward" not in name:
        derived |= sums(call, out, attrs, name)
    left = call("window_size_left")
    if left is not None and left >= 0:
        derived["window"] = left + 1  # the key of the query's own position is not among `left`
    ends = [call("cum_seq_q"), call("cum_seq_k")]
    if all(is_tensor(one) and has_data(one) for one in ends):
        lengths = [one.diff().tolist() for one in ends]
        derived["lengths"] = tuple(zip(*lengths, strict=True))
    if attrs.get("causal"):
        derived["causal_from"] = "bottom_right"  # flash-attention's rule since its version 2.1
    return derived


@recipe
def efficient(call: Call, out: Any, attrs: Attrs, name: str) -> Attrs:
    """0: no mask; 1: causal from the top left; 2: from the bottom right."""
    derived: Attrs = {"layout": "bshd", "causal": bool(call("custom_mask_type"))}
    if "backward" not in name:
        derived |= sums(call, out, attrs, name)
    if call("custom_mask_type") == 2:
        derived["causal_from"] = "bottom_right"
    if call("window_size"):
        derived["window"] = call("window_size")
    return derived


@recipe
def rnn_layer(call: Call, out: Any, attrs: Attrs, name: str) -> Attrs:
    """One layer, one direction, as the CPU's library takes it."""
    x, hidden = call("input"), call("hidden_size")
    steps, batch, width = x.shape
    return {
        "cell": {0: "rnn_relu", 1: "rnn_tanh", 2: "lstm", 3: "gru"}[call("mode")],
        "hidden": hidden,
        "layers": 1,
        "bidirectional": False,
        "input": width,
        "steps": steps,
        "batch": batch,
        "projection": 0,
        "bias": bool(call("has_biases")),
    }


@recipe
def cudnn_rnn(call: Call, out: Any, attrs: Attrs, name: str) -> Attrs:
    """A whole recurrence: all layers, directions and steps in one call, steps first."""
    x, packed = call("input"), call("batch_sizes")
    steps = len(packed) if packed else x.shape[0]
    projection, mode = call("proj_size"), call("mode")
    derived: Attrs = {
        "cell": {0: "rnn_relu", 1: "rnn_tanh", 2: "lstm", 3: "gru"}[mode],
        "hidden": call("hidden_size"),
        "layers": call("num_layers"),
        "bidirectional": bool(call("bidirectional")),
        "input": x.shape[-1],
        "steps": steps,
        "batch": packed[0] if packed else x.shape[1],
        "projection": projection,
        "bias": call("weight_stride0") > 3,
    }
    if packed:
        derived["rows"] = sum(packed)
    if "backward" not in name:  # what gradients need is kept in training
        derived["first_outputs"] = 4 if call("train") else 3 if mode == 2 else 2
    return derived


@recipe
def quantized_rnn(call: Call, out: Any, attrs: Attrs, name: str) -> Attrs:
    """Sizes of a recurrent layer whose weights are packed in objects of the library."""
    x, hx = call("input"), call("hx")
    state = hx[0] if isinstance(hx, (list, tuple)) else hx
    directions = 2 if call("bidirectional") else 1
    first, second = x.shape[0], x.shape[1]
    steps, batch = (second, first) if call("batch_first") else (first, second)
    return {
        "cell": "lstm" if "lstm" in name else "gru",
        "hidden": state.shape[-1],
        "layers": state.shape[0] // directions,
        "bidirectional": directions == 2,
        "input": x.shape[-1],
        "steps": steps,
        "batch": batch,
        "projection": 0,
        "bias": bool(call("has_biases")),
    }
