"""PyTorch's choice of an attention kernel: cases of its own source, each limit on both of its sides."""

from __future__ import annotations

import pytest

from rooflab.errors import UnknownNameError
from rooflab.model.device.constants import family_names
from rooflab.work import attention_kernels
from rooflab.work.attention_kernels import AttentionCall, AttentionMask, choose

MASK = AttentionMask(dims=4, last_stride=1)


def call(
    size: int = 64, *, queries: int = 256, keys: int = 256, heads: int = 8, shared: int = 8, **more
) -> AttentionCall:
    values = more.pop("values", size)
    shapes = ((2, heads, queries, size), (2, shared, keys, size), (2, shared, keys, values))
    return AttentionCall(shapes=shapes, **{"dtype": "bf16", **more})


@pytest.mark.parametrize(
    ("asked", "architecture", "expected"),
    [
        (call(), "sm90", "cudnn"),
        (call(), "sm100", "cudnn"),
        (call(torch=(2, 10)), "sm90", "flash"),  # its wheels carry a cuDNN that is too old to be preferred
        (call(), "sm80", "flash"),
        (call(), "sm120", "flash"),
        (call(), "rocm", "flash"),
        (call(dtype="fp16"), "sm70", "efficient"),  # flash begins at sm80
        (call(), "sm70", "math"),  # no bf16 there
        (call(mask=MASK), "sm90", "cudnn"),
        (call(mask=MASK), "sm89", "efficient"),  # flash takes no mask
        (call(mask=AttentionMask(4, 12)), "sm90", "math"),  # a transposed bias
        (call(mask=AttentionMask(3, 1)), "sm90", "efficient"),  # cuDNN takes 2 or 4 dimensions
        (call(mask=AttentionMask(4, 1, gradient=True)), "sm90", "efficient"),
        (call(dtype="fp32"), "sm90", "efficient"),
        (call(62, dtype="fp32"), "sm80", "math"),  # 62 is no multiple of 4
        (call(62, dtype="fp32"), "sm70", "efficient"),
        (call(dtype="fp64"), "sm90", "math"),
        (call(dtype=None), "sm90", "math"),
        (call(256), "sm90", "cudnn"),
        (call(256), "sm100", "flash"),  # cuDNN: 128 there
        (call(264), "sm90", "efficient"),
        (call(192, values=128), "sm100", "cudnn"),  # DeepSeek's pair
        (call(192, values=128), "sm80", "efficient"),
        (call(60), "sm90", "flash"),  # cuDNN wants a multiple of 8; flash pads
        (call(60, mask=MASK), "sm90", "math"),
        (call(224, gradient=True), "sm86", "efficient"),
        (call(224), "sm86", "flash"),
        (call(240, gradient=True), "sm86", "flash"),
        (call(240, gradient=True, dropout=0.1), "sm86", "efficient"),
        (call(224, gradient=True), "sm80", "flash"),
        (call(shared=2, gqa=True), "sm90", "cudnn"),
        (call(shared=2, gqa=True, mask=MASK), "rocm", "math"),
        (call(shared=2), "sm90", "math"),
        (call(queries=1, keys=1), "sm90", "flash"),
        (call(dropout=0.1), "sm90", "flash"),  # cuDNN: sixteenths
        (call(dropout=0.125), "sm90", "cudnn"),
        (call(causal=True, queries=64), "sm80", "efficient"),
        (call(causal=True), "sm80", "flash"),
        (call(last_strides=(64, 1, 1)), "sm80", "math"),
        (call(offset_bytes=(8, 0, 0), mask=MASK), "sm80", "math"),
        (call(offset_bytes=(8, 0, 0)), "sm80", "flash"),
        (call(deterministic=True), "sm90", "flash"),
        (call(off=frozenset({"cudnn", "flash"})), "sm90", "efficient"),
        (call(off=frozenset({"flash", "efficient", "math"})), "sm80", "cudnn"),
        (call(off=frozenset({"flash", "efficient", "math", "cudnn"})), "sm80", None),
    ],
)  # fmt: skip
def test_kernel_that_runs(asked: AttentionCall, architecture: str, expected: str | None) -> None:
    assert choose(asked, architecture).name == expected


def test_fused_kernels_take_four_dimensions() -> None:
    flat = AttentionCall(shapes=((8, 32, 64), (8, 32, 64), (8, 32, 64)), dtype="bf16")
    chosen = choose(flat, "sm90")
    assert chosen.name == "math"
    assert dict(chosen.refused)["flash"] == "takes tensors of 4 dimensions, not of 3/3/3"


def test_why_a_kernel_was_passed_over() -> None:
    refused = choose(call(mask=AttentionMask(4, 12)), "sm90").refused
    assert [kernel for kernel, _ in refused] == ["cudnn", "flash", "efficient"]
    assert dict(refused)["efficient"] == "takes a mask whose last dimension has stride 1, not 12"
    assert dict(refused)["flash"] == "takes no mask"


def test_unknown_architecture() -> None:
    with pytest.raises(UnknownNameError, match=r"sm91.*sm90"):
        choose(call(), "sm91")


def test_every_family_named_in_the_table_exists() -> None:
    named = [family for row in attention_kernels._table()["architectures"].values() for family in row["families"]]
    assert set(named) <= set(family_names())
    assert len(named) == len(set(named))


def test_rows_name_a_source() -> None:
    table = attention_kernels._table()
    rows = [*table["orders"], *table["kernels"].values()]
    assert {row["source"] for row in rows} <= set(table["sources"])
