"""Operations that mostly move bytes, by hand: softmax, norms, pools, gathers, copies, optimizers, collectives."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from rooflab.dtypes import dtype as number_format
from rooflab.errors import RooflabError
from rooflab.work.by_hand.operands import Operand, Operation, at_least, expect, expect_rank, operation


def softmax(operands: tuple[Operand, ...]) -> Operation:
    """exp(x − max) / sum along the last dimension."""
    expect(operands, 1, 1, "x")
    return operation("softmax", [(operands[0], "input")], [operands[0]], {"log": False})


def log_softmax(operands: tuple[Operand, ...]) -> Operation:
    """The logarithm of softmax along the last dimension."""
    expect(operands, 1, 1, "x")
    return operation("softmax", [(operands[0], "input")], [operands[0]], {"log": True})


def layer_norm(operands: tuple[Operand, ...], *, affine: bool = True) -> Operation:
    """Layer normalisation along the last dimension, with weight and bias where `affine`."""
    return _norm(operands, "layer", -1, 2 if affine else 0)


def rms_norm(operands: tuple[Operand, ...], *, affine: bool = True) -> Operation:
    """Root-mean-square normalisation along the last dimension, with a weight where `affine`."""
    return _norm(operands, "rms", -1, 1 if affine else 0)


def batch_norm(operands: tuple[Operand, ...], *, affine: bool = True) -> Operation:
    """Batch normalisation of x (N × C × …) with running statistics, as in inference."""
    # weight and bias where affine; running mean and variance always
    return _norm(operands, "batch", 1, 4 if affine else 2, training=False)


def group_norm(operands: tuple[Operand, ...], *, groups: int, affine: bool = True) -> Operation:
    """Group normalisation of x (N × C × …), C in so many groups."""
    at_least(groups, "groups", 1)
    if operands and len(operands[0].shape) > 1 and operands[0].shape[1] % groups:
        raise RooflabError(f"groups is {groups}, expected a divisor of the {operands[0].shape[1]} channels of x")
    return _norm(operands, "group", 1, 2 if affine else 0, groups=groups)


def _norm(operands: tuple[Operand, ...], function: str, channel: int, vectors: int, **attrs: Any) -> Operation:
    expect(operands, 1, 1, "x")
    x = operands[0]
    expect_rank(x, "x", range(max(channel + 1, 1), 99), "N × C × …" if channel > 0 else "at least one dimension")
    vector = (Operand((x.shape[channel],), x.dtype), "parameter")
    return operation("norm", [(x, "input"), *[vector] * vectors], [x], {"function": function, **attrs})


def max_pool2d(
    operands: tuple[Operand, ...], *, kernel: int = 2, stride: int | None = None, padding: int | str = 0
) -> Operation:
    """The maximum of each kernel × kernel window of x (N × C × H × W); padding may be "same"."""
    return _pool(operands, "max", kernel, stride, padding)


def avg_pool2d(
    operands: tuple[Operand, ...], *, kernel: int = 2, stride: int | None = None, padding: int | str = 0
) -> Operation:
    """The mean of each kernel × kernel window of x (N × C × H × W); padding may be "same"."""
    return _pool(operands, "avg", kernel, stride, padding)


def _pool(
    operands: tuple[Operand, ...], function: str, kernel: int, stride: int | None, padding: int | str
) -> Operation:
    expect(operands, 1, 1, "x (N × C × H × W)")
    x = operands[0]
    expect_rank(x, "x", range(4, 5), "N × C × H × W")
    step = kernel if stride is None else stride
    at_least(kernel, "kernel", 1)
    at_least(step, "stride", 1)
    if padding == "same":
        added = kernel - 1
    elif isinstance(padding, int):
        at_least(padding, "padding", 0)
        if 2 * padding > kernel:
            raise RooflabError(f"padding is {padding}, expected at most half of the kernel, {kernel // 2}")
        added = 2 * padding
    else:
        raise RooflabError(f"padding is {padding!r}, expected a number or 'same'")
    sizes = tuple((size + added - kernel) // step + 1 for size in x.shape[2:])
    if any(size < 1 for size in sizes):
        raise RooflabError(f"x {x.text} is smaller than the window of {kernel}, expected more padding")
    y = x._replace(shape=(*x.shape[:2], *sizes))
    return operation("pool", [(x, "input")], [y], {"function": function, "window": kernel * kernel})


def total(operands: tuple[Operand, ...], *, dims: int | tuple[int, ...] | None = None) -> Operation:
    """The sum along `dims`, all of them by default."""
    return _reduction(operands, "sum", dims)


def mean(operands: tuple[Operand, ...], *, dims: int | tuple[int, ...] | None = None) -> Operation:
    """The mean along `dims`, all of them by default."""
    return _reduction(operands, "mean", dims)


def _reduction(operands: tuple[Operand, ...], function: str, dims: int | tuple[int, ...] | None) -> Operation:
    expect(operands, 1, 1, "x")
    x = operands[0]
    rank = len(x.shape)
    gone = set(range(rank)) if dims is None else {dims} if isinstance(dims, int) else set(dims)
    if any(not -rank <= each < rank for each in gone):
        raise RooflabError(f"dims is {dims!r}, expected dimensions of x {x.text}")
    gone = {each % rank for each in gone}
    y = x._replace(shape=tuple(size for i, size in enumerate(x.shape) if i not in gone))
    return operation("reduction", [(x, "input")], [y], {"function": function, "dims": tuple(sorted(gone))})


def embedding(operands: tuple[Operand, ...]) -> Operation:
    """The rows of a table (rows × width) that int64 indices (any shape) name."""
    expect(operands, 2, 2, "table (rows × width) and indices")
    table, indices = operands
    expect_rank(table, "table", range(2, 3), "rows × width")
    if indices.dtype == table.dtype:
        indices = indices._replace(dtype="int64")
    out = table._replace(shape=(*indices.shape, table.shape[1]))
    return operation("gather", [(table, "parameter"), (indices, "input")], [out], {})


def copy(operands: tuple[Operand, ...]) -> Operation:
    """The operand written anew."""
    expect(operands, 1, 1, "x")
    return operation("copy", [(operands[0], "input")], [operands[0]], {})


def cast(operands: tuple[Operand, ...], *, to: str) -> Operation:
    """The operand in the number format `to`."""
    expect(operands, 1, 1, "x")
    return operation("cast", [(operands[0], "input")], [operands[0]._replace(dtype=number_format(to).name)], {})


def transpose(operands: tuple[Operand, ...]) -> Operation:
    """The operand written with its last two dimensions exchanged."""
    expect(operands, 1, 1, "x")
    x = operands[0]
    expect_rank(x, "x", range(2, 99), "at least two dimensions")
    out = x._replace(shape=(*x.shape[:-2], x.shape[-1], x.shape[-2]))
    return operation("layout", [(x, "input")], [out], {})


def cumsum(operands: tuple[Operand, ...]) -> Operation:
    """The running sum along the last dimension."""
    expect(operands, 1, 1, "x")
    return operation("scan", [(operands[0], "input")], [operands[0]], {"function": "cumsum"})


def dropout(operands: tuple[Operand, ...], *, p: float = 0.5) -> Operation:
    """The operand with a share p of it zeroed; the mask is written too, a byte an element."""
    expect(operands, 1, 1, "x")
    if not 0 <= p <= 1:
        raise RooflabError(f"p is {p:g}, expected a share from 0 to 1")
    x = operands[0]
    return operation("dropout", [(x, "input")], [x, x._replace(dtype="bool")], {"p": p})


def cross_entropy(operands: tuple[Operand, ...]) -> Operation:
    """The mean loss of logits (samples × classes) against int64 classes."""
    expect(operands, 1, 1, "logits (samples × classes)")
    x = operands[0]
    expect_rank(x, "logits", range(2, 3), "samples × classes")
    target = Operand(x.shape[:1], "int64")
    out = x._replace(shape=())
    return operation(
        "loss", [(x, "input"), (target, "input")], [out], {"function": "cross_entropy", "backward": False}
    )


def sgd(operands: tuple[Operand, ...], *, momentum: float = 0.0) -> Operation:
    """One fused step of stochastic gradient descent over parameters of these shapes."""
    return _optimizer(operands, "sgd", 1 if momentum else 0, {"momentum": momentum})


def adam(operands: tuple[Operand, ...], *, amsgrad: bool = False) -> Operation:
    """One fused step of Adam over parameters of these shapes: two moments in the parameters' format."""
    return _optimizer(operands, "adam", 3 if amsgrad else 2, {"amsgrad": amsgrad})


def adamw(operands: tuple[Operand, ...], *, amsgrad: bool = False) -> Operation:
    """One fused step of AdamW over parameters of these shapes: two moments in the parameters' format."""
    return _optimizer(operands, "adamw", 3 if amsgrad else 2, {"amsgrad": amsgrad})


def _optimizer(operands: tuple[Operand, ...], function: str, states: int, attrs: dict[str, Any]) -> Operation:
    expect(operands, 1, 9999, "one for each parameter")
    count = len(operands)
    roles = ["parameter", "gradient", *["state"] * states]
    inputs = [(operand, role) for role in roles for operand in operands]
    # The gradients are read, all else is updated in place.
    outputs = [i for i in range(len(inputs)) if not count <= i < 2 * count]
    elements = sum(math.prod(operand.shape) for operand in operands)
    return operation(
        "optimizer", inputs, outputs, {"function": function, "fused": True, "elements": elements, **attrs}
    )


def _collective(function: str, grow: Callable[[int, int], int]) -> Callable[..., Operation]:
    def build(operands: tuple[Operand, ...], *, ranks: int) -> Operation:
        expect(operands, 1, 1, "what each rank holds before")
        if ranks < 1:
            raise RooflabError(f"ranks is {ranks}, expected at least 1")
        x = operands[0]
        expect_rank(x, "x", range(1, 99), "at least one dimension")
        if function in ("reduce_scatter", "all_to_all") and x.shape[0] % ranks:
            raise RooflabError(f"x {x.text} does not split over {ranks} ranks, expected a multiple in front")
        out = x._replace(shape=(grow(x.shape[0], ranks), *x.shape[1:]))
        return operation("collective", [(x, "input")], [out], {"function": function, "ranks": ranks})

    return build


_library_all_reduce = _collective("all_reduce", lambda size, ranks: size)


def all_reduce(operands: tuple[Operand, ...], *, ranks: int, peers: bool = False) -> Operation:
    """The sum over all ranks; with `peers` by kernels that read their peers' memory, as serving engines have."""
    found = _library_all_reduce(operands, ranks=ranks)
    return found._replace(attrs={**found.attrs, "peers": True}) if peers else found


all_gather = _collective("all_gather", lambda size, ranks: size * ranks)
reduce_scatter = _collective("reduce_scatter", lambda size, ranks: size // ranks)
all_to_all = _collective("all_to_all", lambda size, ranks: size)
broadcast_ranks = _collective("broadcast", lambda size, ranks: size)
