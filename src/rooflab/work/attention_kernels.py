"""Which kernel PyTorch runs for a call of scaled_dot_product_attention: flash, cuDNN, memory-efficient or math.

PyTorch asks its kernels in an order that depends on the GPU and its own version, and runs the first that takes
the call. The order and each kernel's limits are rows of `attention_kernels.toml`, with their source; which limit
a call breaks is worded here, so that a report can say why a slow kernel runs.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from rooflab.dtypes import dtype as number_format
from rooflab.errors import UnknownNameError

KERNELS = ("flash", "cudnn", "efficient", "math")


class AttentionMask(NamedTuple):
    """What PyTorch looks at of a mask.

    Attributes:
        dims: number of its dimensions.
        last_stride: of its last dimension, in elements.
        gradient: whether it needs one.
    """

    dims: int
    last_stride: int
    gradient: bool = False


class AttentionCall(NamedTuple):
    """What PyTorch looks at of one call of scaled_dot_product_attention.

    Attributes:
        shapes: of q, k and v: (batch, heads, tokens, head size).
        dtype: of all three, a name of `rooflab.dtypes`; None where they differ.
        last_strides: of the last dimension of q, k and v, in elements.
        offset_bytes: where each begins in its storage.
        gradient: whether any of q, k and v needs one.
        dropout: its probability.
        causal: whether the flag `is_causal` is set.
        gqa: whether keys and values may have fewer heads.
        off: kernels that the user turned off.
        deterministic: whether the user asks for deterministic algorithms.
        torch: PyTorch's version.
    """

    shapes: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
    dtype: str | None
    last_strides: tuple[int, int, int] = (1, 1, 1)
    offset_bytes: tuple[int, int, int] = (0, 0, 0)
    mask: AttentionMask | None = None
    gradient: bool = False
    dropout: float = 0.0
    causal: bool = False
    gqa: bool = False
    off: frozenset[str] = frozenset()
    deterministic: bool = False
    torch: tuple[int, int] = (2, 11)


class AttentionKernel(NamedTuple):
    """The kernel that runs, and why those asked before it do not: (kernel, reason) pairs.

    `name` is None where no kernel that is left on takes the call: PyTorch raises then.
    """

    name: str | None
    refused: tuple[tuple[str, str], ...]


def choose(call: AttentionCall, architecture: str) -> AttentionKernel:
    """The kernel that PyTorch runs for `call` on `architecture` ("sm90", …, "rocm").

    Raises:
        UnknownNameError: an architecture without a row in the table.
    """
    if architecture not in architectures():
        raise UnknownNameError("GPU architecture", architecture, architectures())
    refused = []
    for kernel in _order(call, architecture):
        reason = next(_refusals(kernel, call, architecture), None)
        if reason is None:
            return AttentionKernel(kernel, tuple(refused))
        refused.append((kernel, reason))
    return AttentionKernel(None, tuple(refused))


def architectures() -> tuple[str, ...]:
    """The architectures that have a row, oldest first."""
    return tuple(_table()["architectures"])


def architecture_of(family: str) -> str | None:
    """The architecture of the machines of `family` (a file of `model/data`); None where the table has none."""
    rows = _table()["architectures"].items()
    return next((name for name, row in rows if family in row["families"]), None)


@cache
def _table() -> dict[str, Any]:
    return tomllib.loads((files("rooflab.work") / "attention_kernels.toml").read_text())


def _order(call: AttentionCall, architecture: str) -> list[str]:
    for row in _table()["orders"]:
        major, _, minor = row.get("since", "0.0").partition(".")
        if architecture in row.get("architectures", (architecture,)) and call.torch >= (int(major), int(minor)):
            return row["kernels"]
    raise AssertionError("the last row of orders fits every call")


@cache
def _limits(kernel: str, architecture: str) -> dict[str, Any]:
    row = _table()["kernels"][kernel]
    return {**row, **row.get("on", {}).get(architecture, {})}


def _refusals(kernel: str, call: AttentionCall, architecture: str) -> Iterator[str]:
    """Why `kernel` does not take `call`, in the order that PyTorch asks; nothing where it does."""
    limits = _limits(kernel, architecture)
    if kernel in call.off:
        yield "turned off"
    if architecture not in limits.get("architectures", (architecture,)):
        yield f"does not run on {architecture}"
    if kernel == "math":
        return
    if any(len(shape) != 4 for shape in call.shapes):
        yield f"takes tensors of 4 dimensions, not of {'/'.join(str(len(each)) for each in call.shapes)}"
        return
    if limits.get("deterministic") is False and call.deterministic:
        yield "is not deterministic"
    if call.dtype not in limits["formats"]:
        yield f"takes {', '.join(limits['formats'])}, not {call.dtype or 'mixed number formats'}"
    yield from _refused_shapes(call, limits)
    yield from _refused_head_sizes(call, limits)
    yield from _refused_mask(call, limits)
    yield from _refused_layout(call, limits)
    yield from _refused_kernel(kernel, call, limits)


def _refused_shapes(call: AttentionCall, limits: dict[str, Any]) -> Iterator[str]:
    q, k, v = call.shapes
    if not q[2] or not k[2]:
        yield "takes no empty sequences"
    if not q[0] == k[0] == v[0]:
        yield f"takes one batch size, not {q[0]}, {k[0]} and {v[0]}"
    shared = not q[1] == k[1] == v[1]
    if shared and not (call.gqa and limits.get("shared_heads", True)):
        yield f"takes as many heads of keys as of queries, not {k[1]} of {q[1]}"
    elif shared and (q[1] % k[1] or q[1] % v[1]):
        yield f"takes heads of queries that are a multiple of those of keys, not {q[1]} of {k[1]}"
    if k[2] < limits.get("keys_from", 1):
        yield f"takes {limits['keys_from']} keys or more"


def _refused_head_sizes(call: AttentionCall, limits: dict[str, Any]) -> Iterator[str]:
    q, _, v = call.shapes
    size, values = q[3], v[3]
    most = limits.get("head_size")
    pair = [size, values] in limits.get("head_pairs", [])
    if most is not None and max(size, values) > most and not pair:
        yield f"takes head sizes up to {most}, not {max(size, values)}"
    if "multiple" in limits and call.dtype is not None and call.dtype in limits["formats"]:
        multiple = limits["multiple"].get(str(number_format(call.dtype).bits // 8), 1)
        if size % multiple or values % multiple:
            yield f"takes head sizes that are a multiple of {multiple}, not {size}"


def _refused_mask(call: AttentionCall, limits: dict[str, Any]) -> Iterator[str]:
    if call.mask is None:
        return
    if not limits.get("mask", True):
        yield "takes no mask"
    if call.mask.gradient and not limits.get("mask_gradient", True):
        yield "takes no mask that needs a gradient"
    dims = limits.get("mask_dims", [call.mask.dims])
    if call.mask.dims not in dims:
        yield f"takes masks of {' or '.join(map(str, dims))} dimensions, not of {call.mask.dims}"
    if call.mask.last_stride != 1:
        yield f"takes a mask whose last dimension has stride 1, not {call.mask.last_stride}"


def _refused_layout(call: AttentionCall, limits: dict[str, Any]) -> Iterator[str]:
    if any(stride != 1 for stride in call.last_strides) and call.shapes[0][3] != 1:
        yield f"takes q, k and v whose last dimension has stride 1, not {'/'.join(map(str, call.last_strides))}"
    aligned = limits.get("aligned_bytes", 1)
    if any(offset % aligned for offset in call.offset_bytes):
        yield f"takes q, k and v that begin at a multiple of {aligned} bytes"


def _refused_kernel(kernel: str, call: AttentionCall, limits: dict[str, Any]) -> Iterator[str]:
    """What one kernel alone asks for."""
    q, k, v = call.shapes
    if kernel == "flash":
        if q[3] != v[3]:
            yield f"takes one head size, not {q[3]} and {v[3]}"
        if call.causal and q[2] != k[2]:
            yield f"takes is_causal with as many queries as keys, not {q[2]} and {k[2]}"
        trained = limits.get("backward")
        if trained and call.gradient and q[3] > trained["upto"] and (q[3] < trained["from"] or call.dropout):
            yield f"cannot be trained there with a head size of {q[3]}"
    steps = limits.get("dropout_steps")
    if steps and call.dropout and (call.dropout * steps != round(call.dropout * steps) or q[2] == 1):
        yield f"takes dropout of a multiple of 1/{steps}, with 2 queries or more"
