"""Matrix products, convolutions, attention and recurrent layers by hand."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

from rooflab.dtypes import dtype as number_format
from rooflab.errors import RooflabError
from rooflab.work.by_hand.operands import (
    Operand,
    Operation,
    at_least,
    broadcast,
    expect,
    expect_rank,
    operation,
    tuple_of,
)
from rooflab.work.formulas.attention import CAUSAL_FROM

# What libraries give a product of narrow numbers in.
_WIDER = {"int8": "int32", "int4": "int32", "fp8": "bf16", "fp6": "bf16", "fp4": "bf16"}


def matmul(operands: tuple[Operand, ...], *, bias: bool = False, out: str | None = None) -> Operation:
    """A · b with NumPy's rules for vectors and batches; `out` is the result's number format."""
    expect(operands, 2, 2, "a (… × m × k) and b (… × k × n)")
    a, b = operands
    for name, each in (("a", a), ("b", b)):
        expect_rank(each, name, range(1, 99), "at least one dimension")
    # A vector on the right has rows only.
    rows, columns = a.shape[-2:-1], b.shape[-1:] if len(b.shape) > 1 else ()
    k, other = a.shape[-1], b.shape[max(len(b.shape) - 2, 0)]
    if k != other:
        raise RooflabError(f"a {a.text} has {k} columns but b {b.text} has {other} rows, expected the same number")
    shape = broadcast([a.shape[:-2], b.shape[:-2]]) + rows + columns
    result = Operand(shape, out or _result(_computed(a, b)))
    return _product(a, b, result, k, bias, columns)


def linear(operands: tuple[Operand, ...], *, bias: bool = False, out: str | None = None) -> Operation:
    """X · wᵀ (+ bias): x is (… × features in), w is (features out × features in), as PyTorch stores it."""
    expect(operands, 2, 2, "x (… × in) and w (out × in)")
    x, w = operands
    expect_rank(w, "w", range(2, 3), "out × in")
    expect_rank(x, "x", range(1, 99), "… × in")
    if x.shape[-1] != w.shape[1]:
        raise RooflabError(f"x {x.text} has {x.shape[-1]} features but w {w.text} takes {w.shape[1]} (out × in)")
    result = Operand((*x.shape[:-1], w.shape[0]), out or _result(_computed(x, w)))
    return _product(x, w, result, w.shape[1], bias, w.shape[:1])


def _product(a: Operand, b: Operand, result: Operand, k: int, bias: bool, width: tuple[int, ...]) -> Operation:
    added = [(Operand(width or (1,), result.dtype), "parameter")] if bias else []
    attrs: dict[str, Any] = {"k": k, "bias": True} if bias else {"k": k}
    if (computed := _computed(a, b)) != a.dtype:
        attrs["compute"] = computed
    if b.dtype in ("int4", "fp4") and a.dtype != b.dtype:
        attrs["weight_bits"] = 4
    return operation("matmul", [(a, "input"), (b, "input"), *added], [result], attrs)


def _computed(a: Operand, b: Operand) -> str:
    """The format of the products of mixed operands: the wider one, a floating one before an integer."""

    def width(one: Operand) -> tuple[bool, int]:
        return one.dtype.startswith(("fp", "bf", "tf", "complex")), number_format(one.dtype).bits

    return b.dtype if width(b) > width(a) else a.dtype


def _result(dtype: str) -> str:
    return _WIDER.get(dtype, dtype)


def conv(
    operands: tuple[Operand, ...],
    *,
    stride: int | tuple[int, ...] = 1,
    padding: int | tuple[int, ...] | str = 0,
    dilation: int | tuple[int, ...] = 1,
    groups: int = 1,
    bias: bool = False,
    transposed: bool = False,
) -> Operation:
    """A convolution of x (N × C × spatial…) with w (Cout × C/groups × kernel…); padding may be "same"."""
    expect(operands, 2, 2, "x (N × C × spatial…) and w (Cout × C/groups × kernel…)")
    x, w = operands
    expect_rank(x, "x", range(3, 6), "N × C and one to three spatial sizes")
    expect_rank(w, "w", range(len(x.shape), len(x.shape) + 1), f"{len(x.shape)} dimensions, as x has")
    spatial, kernel, rank = x.shape[2:], w.shape[2:], len(x.shape) - 2
    strides, dilations = tuple_of(stride, rank, "stride"), tuple_of(dilation, rank, "dilation")
    reach = tuple(d * (k - 1) + 1 for d, k in zip(dilations, kernel, strict=True))
    # What "same" adds in all, both sides together: an even kernel has an odd sum.
    pads = tuple(r - 1 for r in reach) if padding == "same" else _twice(padding, rank)
    _check_groups(x, w, groups, transposed)
    if transposed:
        channels = w.shape[1] * groups
        sizes = tuple((n - 1) * s - p + r for n, s, p, r in zip(spatial, strides, pads, reach, strict=True))
    else:
        channels = w.shape[0]
        sizes = tuple((n + p - r) // s + 1 for n, s, p, r in zip(spatial, strides, pads, reach, strict=True))
    if any(size < 1 for size in sizes):
        raise RooflabError(f"x {x.text} is smaller than the kernel {w.text} reaches, expected more padding")
    y = Operand((x.shape[0], channels, *sizes), _result(x.dtype))
    attrs = {"kernel": kernel, "groups": groups, "transposed": transposed, "bias": bias}
    added = [(Operand((channels,), y.dtype), "parameter")] if bias else []
    return operation("conv", [(x, "input"), (w, "parameter"), *added], [y], attrs)


def _of_rank(rank: int) -> Callable[..., Operation]:
    @functools.wraps(conv)
    def build(operands: tuple[Operand, ...], **settings: Any) -> Operation:
        if operands:
            expect_rank(operands[0], "x", range(rank + 2, rank + 3), f"N × C and {rank} of space")
        return conv(operands, **settings)

    return build


conv1d, conv2d, conv3d = map(_of_rank, (1, 2, 3))


def _twice(padding: int | tuple[int, ...] | str, rank: int) -> tuple[int, ...]:
    if isinstance(padding, str):
        raise RooflabError(f"padding is {padding!r}, expected a number, one for each dimension, or 'same'")
    return tuple(2 * each for each in tuple_of(padding, rank, "padding", least=0))


def _check_groups(x: Operand, w: Operand, groups: int, transposed: bool) -> None:
    if groups < 1 or x.shape[1] % groups:
        raise RooflabError(f"groups is {groups}, expected a divisor of the {x.shape[1]} channels of x")
    wanted, got = (x.shape[1], w.shape[0]) if transposed else (x.shape[1] // groups, w.shape[1])
    if wanted != got:
        layout = "C × Cout/groups × kernel" if transposed else "Cout × C/groups × kernel"
        raise RooflabError(f"w {w.text} takes {got} channels, expected {wanted}: w is {layout}")
    if not transposed and w.shape[0] % groups:
        raise RooflabError(f"groups is {groups}, expected a divisor of the {w.shape[0]} channels of w")


def attention(
    operands: tuple[Operand, ...],
    *,
    causal: bool = False,
    window: int | None = None,
    kv_heads: int | None = None,
    fused: bool = True,
    layout: str = "bhsd",
    causal_from: str = "bottom_right",
) -> Operation:
    """softmax(q · kᵀ) · v: q, k and v are B × H × S × D (bshd: B × S × H × D); k and v are as q if not given.

    Causal from the bottom right: the last query stands at the last key, so that one token that is decoded
    sees all keys of the cache. `causal_from="top_left"` puts the first query at the first key instead.
    `window` is the number of keys that each query sees to its left, its own included; `kv_heads` the heads
    of k and v where only q is given; unfused writes the scores to memory and reads them again.
    """
    expect(operands, 1, 3, "q, or q and k, or q, k and v, each B × H × S × D")
    if layout not in ("bhsd", "bshd"):
        raise RooflabError(f"layout is {layout!r}, expected 'bhsd' or 'bshd'")
    q = operands[0]
    expect_rank(q, "q", range(4, 5), "B × H × S × D")
    at = layout.index("h")
    if len(operands) == 1 and kv_heads is not None:
        k = q._replace(shape=tuple(kv_heads if i == at else size for i, size in enumerate(q.shape)))
    else:
        k = operands[1] if len(operands) > 1 else q
    v = operands[2] if len(operands) == 3 else k
    for name, each in (("k", k), ("v", v)):
        expect_rank(each, name, range(4, 5), "B × H × S × D")
    if k.shape[-1] != q.shape[-1] or k.shape[0] != q.shape[0]:
        raise RooflabError(f"q {q.text} and k {k.text} differ in batch or head size, expected the same")
    if v.shape[:-1] != k.shape[:-1]:
        raise RooflabError(f"k {k.text} and v {v.text} differ before the head size, expected the same")
    if not k.shape[at] or q.shape[at] % k.shape[at]:
        raise RooflabError(f"{q.shape[at]} heads of q over {k.shape[at]} of k and v, expected a multiple")
    if window is not None and window < 1:
        raise RooflabError(f"window is {window}, expected at least 1 key")
    attrs = {"layout": layout, "causal": causal or window is not None, "window": window, "fused": fused}
    if causal_from not in CAUSAL_FROM:
        raise RooflabError(f"causal_from is {causal_from!r}, expected {' or '.join(map(repr, CAUSAL_FROM))}")
    attrs["causal_from"] = causal_from
    pairs = "causal pairs counted exactly" if attrs["causal"] else "all pairs of queries and keys"
    convention = f"attention: {pairs}, {'fused' if fused else 'unfused: scores cross memory'}"
    out = q._replace(shape=(*q.shape[:-1], v.shape[-1]))
    return operation("attention", [(each, "input") for each in (q, k, v)], [out], attrs, (convention,))


def lstm(
    operands: tuple[Operand, ...],
    *,
    hidden: int,
    layers: int = 1,
    bidirectional: bool = False,
    projection: int = 0,
    bias: bool = True,
) -> Operation:
    """An LSTM over x (steps × batch × features)."""
    return _recurrent(operands, "lstm", 4, hidden, layers, bidirectional, projection, bias)


def gru(
    operands: tuple[Operand, ...],
    *,
    hidden: int,
    layers: int = 1,
    bidirectional: bool = False,
    bias: bool = True,
) -> Operation:
    """A GRU over x (steps × batch × features)."""
    return _recurrent(operands, "gru", 3, hidden, layers, bidirectional, 0, bias)


def _recurrent(
    operands: tuple[Operand, ...],
    cell: str,
    gates: int,
    hidden: int,
    layers: int,
    bidirectional: bool,
    projection: int,
    bias: bool,
) -> Operation:
    expect(operands, 1, 1, "x (steps × batch × features)")
    x = operands[0]
    expect_rank(x, "x", range(3, 4), "steps × batch × features")
    at_least(hidden, "hidden", 1)
    at_least(layers, "layers", 1)
    at_least(projection, "projection", 0)
    if projection >= hidden:
        raise RooflabError(f"projection is {projection}, expected fewer than the {hidden} hidden")
    steps, batch, features = x.shape
    ways, out = 2 if bidirectional else 1, projection or hidden
    weights = []
    for layer in range(layers):
        width = features if layer == 0 else out * ways
        shapes = [(gates * hidden, width), (gates * hidden, out)]
        shapes += [(gates * hidden,)] * 2 if bias else []
        shapes += [(projection, hidden)] if projection else []
        weights += shapes * ways
    attrs = {
        "cell": cell,
        "hidden": hidden,
        "layers": layers,
        "bidirectional": bidirectional,
        "input": features,
        "steps": steps,
        "batch": batch,
        "projection": projection,
        "bias": bias,
    }
    state = Operand((layers * ways, batch, out), x.dtype)
    memory = Operand((layers * ways, batch, hidden), x.dtype)
    results = [Operand((steps, batch, out * ways), x.dtype), state, *([memory] if cell == "lstm" else [])]
    inputs = [(x, "input"), *((Operand(shape, x.dtype), "parameter") for shape in weights)]
    if any(math.prod(shape) == 0 for shape in weights):
        raise RooflabError(f"hidden is {hidden} and x has {features} features, expected at least 1 of each")
    return operation("rnn", inputs, results, attrs)
