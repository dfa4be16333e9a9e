"""Operations of NumPy and of PyTorch on the CPU, as rows: what `rooflab.op` calls each, and how to run it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from rooflab.types.report import Report


class Case(NamedTuple):
    """One operation on operands of given shapes; `shapes` and `dtype` as `rooflab.op` takes them."""

    framework: str
    kind: str
    shapes: tuple[str, ...]
    dtype: str
    attrs: dict[str, Any]

    @property
    def title(self) -> str:
        """What a table calls it."""
        settings = [f"{name}={value}" for name, value in self.attrs.items()]
        return " ".join((self.framework, self.kind, *self.shapes, self.dtype, *settings))


# kind | shapes; shapes; … (operands of one shape have a space between) | number formats | settings
_NUMPY = """
add         | 100 100; 1000 1000; 10000 10000; 100000 100000; 1000000 1000000; 10000000 10000000 | fp32 fp64
add         | 30000 30000; 300000 300000; 3000000 3000000 | int32 fp64
add         | 1000x1000 1000; 1000x1000 1000x1 | fp32
add         | 20000 20000; 2000000 2000000 | int8
sub         | 5000 5000; 500000 500000 | fp64
mul         | 3000 3000; 2000000 2000000 | fp32
div         | 2000 2000; 50000 50000; 5000000 5000000 | fp32 fp64
exp         | 1000; 100000; 4000000 | fp32 fp64
log         | 1000; 100000; 4000000 | fp32 fp64
tanh        | 10000; 1000000 | fp32 fp64
sin         | 10000; 1000000 | fp32 fp64
sqrt        | 1000; 100000; 4000000 | fp32 fp64
abs         | 10000; 1000000 | fp32
gt          | 10000 10000; 1000000 1000000 | fp32 fp64
maximum     | 10000 10000; 1000000 1000000 | fp32
where       | 10000; 1000000 | fp32
cast        | 10000; 1000000 | fp32 | to=fp64
cast        | 10000; 1000000 | fp64 | to=fp32
copy        | 1000; 30000; 300000; 3000000; 30000000 | fp32
transpose   | 100x100; 1000x1000; 3000x3000 | fp32 fp64
sum         | 100; 10000; 100000; 1000000; 10000000 | fp32 fp64
sum         | 1000x1000; 100x100000 | fp32 | dims=0
sum         | 1000x1000; 100x100000; 100000x10 | fp32 | dims=1
mean        | 10000; 1000000 | fp32
cumsum      | 10000; 1000000 | fp32 fp64
matmul      | 16x16 16x16; 64x64 64x64; 128x128 128x128; 256x256 256x256; 512x512 512x512 | fp32 fp64
matmul      | 1024x1024 1024x1024; 2048x64 64x2048; 64x2048 2048x64; 16x1024 1024x1024 | fp32 fp64
matmul      | 100x100 100; 1000x1000 1000; 4000x4000 4000 | fp32 fp64
matmul      | 32x64x64 32x64x64; 8x256x256 8x256x256 | fp32
embedding   | 1000x64 1000; 100000x64 10000; 1000000x16 100000 | fp32
"""
_TORCH = """
add         | 100 100; 1000 1000; 10000 10000; 100000 100000; 1000000 1000000; 10000000 10000000 | fp32
add         | 30000 30000; 300000 300000; 3000000 3000000 | fp64 bf16
add         | 1000x1000 1000 | fp32
mul         | 3000 3000; 2000000 2000000 | fp32
div         | 2000 2000; 50000 50000; 5000000 5000000 | fp32
exp         | 1000; 100000; 4000000 | fp32 fp64
log         | 1000; 100000; 4000000 | fp32
tanh        | 10000; 1000000 | fp32 fp64
sigmoid     | 10000; 1000000 | fp32
gelu        | 10000; 1000000; 8000000 | fp32
silu        | 10000; 1000000 | fp32 bf16
relu        | 10000; 200000; 1000000 | fp32
relu        | 10000; 1000000 | bf16
sqrt        | 1000; 100000; 4000000 | fp32
cast        | 10000; 1000000 | fp32 | to=bf16
copy        | 1000; 30000; 300000; 3000000; 30000000 | fp32
transpose   | 100x100; 1000x1000; 3000x3000 | fp32
sum         | 100; 10000; 100000; 1000000; 10000000 | fp32
sum         | 1000x1000; 100x100000 | fp32 | dims=0
sum         | 1000x1000; 100x100000; 100000x10 | fp32 | dims=1
mean        | 10000; 1000000 | fp32 fp64
cumsum      | 10000; 1000000 | fp32
softmax     | 16x100; 128x1000; 1000x1000; 8x30000; 4096x4096 | fp32
softmax     | 1000x1000 | bf16
layer_norm  | 16x128; 128x768; 2048x768; 4096x4096 | fp32
batch_norm  | 8x64x28x28; 32x64x56x56 | fp32
max_pool2d  | 8x64x28x28; 16x64x56x56 | fp32
avg_pool2d  | 8x64x28x28; 16x64x56x56 | fp32
matmul      | 16x16 16x16; 64x64 64x64; 128x128 128x128; 256x256 256x256; 512x512 512x512 | fp32
matmul      | 1024x1024 1024x1024; 2048x64 64x2048; 64x2048 2048x64; 16x1024 1024x1024 | fp32
matmul      | 256x256 256x256; 1024x1024 1024x1024 | fp64
matmul      | 256x256 256x256; 1024x1024 1024x1024 | bf16
matmul      | 100x100 100; 1000x1000 1000; 4000x4000 4000 | fp32
matmul      | 32x64x64 32x64x64; 8x256x256 8x256x256 | fp32
linear      | 1x768 768x768; 32x768 3072x768; 512x768 768x768 | fp32
conv2d      | 1x3x224x224 64x3x7x7 | fp32 | stride=2
conv2d      | 1x64x56x56 64x64x3x3; 8x64x28x28 128x64x3x3; 8x256x14x14 256x256x3x3 | fp32 | padding=1
conv2d      | 8x256x14x14 1024x256x1x1 | fp32
conv2d      | 8x128x28x28 128x1x3x3 | fp32 | groups=128
embedding   | 1000x64 1000; 100000x64 10000; 1000000x16 100000 | fp32
attention   | 1x8x128x64; 1x12x512x64; 4x8x1024x64 | fp32
"""
# Set aside when the constants of model/data/cpu.toml were chosen: other sizes, and functions not above.
_NUMPY_ASIDE = """
add         | 500 500; 7000 7000; 70000 70000; 800000 800000; 6000000 6000000 | fp32 fp64
mul         | 40000 40000; 1500000 1500000 | fp64 int32
mul         | 2000x500 500 | fp64
div         | 20000 20000; 700000 700000 | fp32
exp         | 5000; 600000 | fp32 fp64
log1p       | 20000 | fp64
expm1       | 50000 | fp64
log         | 30000; 2000000 | fp32
cos         | 50000 | fp32
tanh        | 200000 | fp32
sqrt        | 20000; 900000 | fp64
minimum     | 60000 60000; 3000000 3000000 | fp32
lt          | 200000 200000 | fp32
neg         | 3000; 400000; 8000000 | fp32
square      | 50000; 2500000 | fp64
cast        | 200000 | fp32 | to=fp64
copy        | 6000; 100000; 1000000; 7000000 | fp64
transpose   | 300x300; 2000x1000 | fp32
sum         | 3000; 50000; 3000000 | fp32 fp64
sum         | 2000x300 | fp32 | dims=0
sum         | 300x5000 | fp64 | dims=1
cumsum      | 50000 | fp32
matmul      | 32x32 32x32; 96x96 96x96; 200x200 200x200; 384x384 384x384; 768x768 768x768 | fp32 fp64
matmul      | 1000x200 200x300; 2000x2000 2000 | fp32
embedding   | 5000x128 3000; 50000x32 20000 | fp32
"""
_TORCH_ASIDE = """
add         | 500 500; 7000 7000; 70000 70000; 800000 800000; 6000000 6000000 | fp32 fp64
mul         | 40000 40000; 1500000 1500000 | fp64 bf16
mul         | 2000x500 500 | fp32
exp         | 5000; 600000 | fp32
expm1       | 50000 | fp32
log         | 30000; 2000000 | fp32
sigmoid     | 50000; 3000000 | fp32
gelu        | 100000; 2000000 | fp32
silu        | 300000 | fp32
relu        | 3000; 60000; 5000000 | fp32
sqrt        | 20000; 900000 | fp32
neg         | 3000; 400000; 4000000 | fp32
copy        | 6000; 100000; 1000000; 6000000 | fp32
transpose   | 300x300; 2000x1000 | fp32
sum         | 3000; 50000; 3000000 | fp32
sum         | 2000x300 | fp32 | dims=0
sum         | 300x5000 | fp32 | dims=1
softmax     | 64x500; 500x2000; 2000x2000 | fp32
layer_norm  | 64x512; 1000x1024 | fp32
batch_norm  | 16x32x32x32 | fp32
max_pool2d  | 4x32x64x64 | fp32
matmul      | 32x32 32x32; 96x96 96x96; 200x200 200x200; 384x384 384x384; 768x768 768x768 | fp32
matmul      | 512x512 512x512 | bf16
matmul      | 1000x200 200x300; 2000x2000 2000 | fp32
linear      | 128x1024 1024x1024 | fp32
conv2d      | 4x64x32x32 64x64x3x3 | fp32 | padding=1
conv2d      | 4x128x28x28 256x128x1x1 | fp32
embedding   | 5000x128 3000; 50000x32 20000 | fp32
attention   | 2x8x256x64 | fp32
"""


def cases() -> list[Case]:
    """The rows that constants may be fitted on, NumPy's first."""
    return [*_read("numpy", _NUMPY), *_read("torch", _TORCH)]


def cases_aside() -> list[Case]:
    """Rows of other sizes and functions, to judge by."""
    return [*_read("numpy", _NUMPY_ASIDE), *_read("torch", _TORCH_ASIDE)]


def _read(framework: str, table: str) -> list[Case]:
    made = []
    for line in table.strip().splitlines():
        kind, shapes, dtypes, *settings = (cell.strip() for cell in line.split("|"))
        pairs = (pair.split("=") for pair in (settings or [""])[0].split())
        attrs = {name: int(value) if value.isdecimal() else value for name, value in pairs}
        for shape in shapes.split(";"):
            made += [Case(framework, kind, tuple(shape.split()), dtype, attrs) for dtype in dtypes.split()]
    return made


def call_of(case: Case, seed: int = 0) -> Callable[[], object]:
    """What runs `case` once on operands of random numbers."""
    return (_numpy_call if case.framework == "numpy" else _torch_call)(case, np.random.default_rng(seed))


def report_of(case: Case) -> Report:
    """What `case` asks for: of NumPy by hand, of PyTorch as captured from the call itself."""
    import rooflab

    if case.framework == "numpy":
        return rooflab.op(case.kind, *case.shapes, dtype=case.dtype, **case.attrs)
    call = _torch_call(case, np.random.default_rng(0), meta=True)
    return rooflab.analyze(call, device="cpu", name=case.title)


_NUMPY_TYPES = {"fp32": "float32", "fp64": "float64", "int32": "int32", "int8": "int8"}


def _sizes(case: Case) -> list[tuple[int, ...]]:
    return [tuple(map(int, shape.split("x"))) for shape in case.shapes]


def _array(rng: np.random.Generator, sizes: tuple[int, ...], dtype: str) -> np.ndarray:
    # Off zero, so that no logarithm or division leaves the ordinary path.
    if dtype.startswith("int"):
        return rng.integers(1, 50, sizes, dtype=_NUMPY_TYPES[dtype])
    return rng.random(sizes, np.float32).astype(_NUMPY_TYPES.get(dtype, "float32")) + np.float32(0.5)


def _numpy_call(case: Case, rng: np.random.Generator) -> Callable[[], object]:
    kind, sizes = case.kind, _sizes(case)
    dims = case.attrs.get("dims")
    if kind == "embedding":
        table, index = _array(rng, sizes[0], case.dtype), rng.integers(0, sizes[0][0], sizes[1])
        return lambda: np.take(table, index, axis=0)
    x, *more = [_array(rng, each, case.dtype) for each in sizes]
    y = more[0] if more else x
    if kind == "where":
        mask, y = rng.random(sizes[0]) > 0.5, x.copy()
        return lambda: np.where(mask, x, y)
    to = _NUMPY_TYPES.get(case.attrs.get("to", ""), "float32")
    single: dict[str, Callable[[], object]] = {
        "cast": lambda: x.astype(to),
        "copy": lambda: x.copy(),
        "transpose": lambda: np.ascontiguousarray(x.T),
        "sum": lambda: x.sum(axis=dims),
        "mean": lambda: x.mean(axis=dims),
        "cumsum": lambda: np.cumsum(x),
    }
    if kind in single:
        return single[kind]
    names = {
        "sub": "subtract",
        "mul": "multiply",
        "div": "divide",
        "gt": "greater",
        "lt": "less",
        "neg": "negative",
    }
    function = getattr(np, names.get(kind, kind))
    return (lambda: function(x, y)) if more else (lambda: function(x))


def _torch_call(case: Case, rng: np.random.Generator, meta: bool = False) -> Callable[[], object]:
    import torch

    functional = torch.nn.functional
    kind, sizes, attrs = case.kind, _sizes(case), case.attrs
    form = {"fp32": torch.float32, "fp64": torch.float64, "bf16": torch.bfloat16}[case.dtype]

    def tensor(shape: tuple[int, ...]) -> torch.Tensor:
        if meta:
            return torch.empty(shape, dtype=form, device="meta")
        return torch.from_numpy(_array(rng, shape, "fp32")).to(form)

    x, *more = [tensor(each) for each in sizes]
    if kind == "embedding":
        index = torch.from_numpy(rng.integers(0, sizes[0][0], sizes[1]))
        index = index.to("meta") if meta else index
        return lambda: functional.embedding(index, x)
    y = more[0] if more else x
    channels = [tensor(sizes[0][1:2]) for _ in range(4)] if kind == "batch_norm" else []
    last = [tensor(sizes[0][-1:]) for _ in range(2)] if kind == "layer_norm" else []
    dims = attrs.get("dims")
    calls: dict[str, Callable[[], object]] = {
        "cast": lambda: x.to(torch.bfloat16),
        "copy": lambda: x.clone(),
        "transpose": lambda: x.t().contiguous(),
        "sum": lambda: x.sum() if dims is None else x.sum(dims),
        "mean": lambda: x.mean(),
        "cumsum": lambda: torch.cumsum(x, 0),
        "softmax": lambda: torch.softmax(x, -1),
        "layer_norm": lambda: functional.layer_norm(x, sizes[0][-1:], last[0], last[1]),
        "batch_norm": lambda: functional.batch_norm(x, channels[0], channels[1], channels[2], channels[3]),
        "max_pool2d": lambda: functional.max_pool2d(x, 2),
        "avg_pool2d": lambda: functional.avg_pool2d(x, 2),
        "linear": lambda: functional.linear(x, y),
        "conv2d": lambda: functional.conv2d(x, y, **attrs),
        "attention": lambda: functional.scaled_dot_product_attention(x, x, x),
        "gelu": lambda: functional.gelu(x),
        "silu": lambda: functional.silu(x),
        "relu": lambda: torch.relu(x),
    }
    if kind in calls:
        return calls[kind]
    function = getattr(torch, kind)
    return (lambda: function(x, y)) if more else (lambda: function(x))
