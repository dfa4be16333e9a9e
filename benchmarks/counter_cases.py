"""Twenty-five small programs whose FLOP are known: for `counters.py`."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import nn


class Case(NamedTuple):
    """A program with a known count.

    Attributes:
        expected: FLOP of its matrix products.
        how: the derivation, in words.
        make: the program and its inputs, made anew for each counter.
        framework: "torch", "jax" or "onnx" (then `make` writes the file and returns its path).
    """

    name: str
    expected: int
    how: str
    make: Callable[[], tuple[Any, tuple[Any, ...]]]
    framework: str = "torch"
    backward: bool = False
    trips: dict[str, int] | None = None


class Call(nn.Module):
    """A function as a module, for counters that take nothing else."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function
        self.unused = nn.Parameter(torch.zeros(1))  # calflops looks for the device of a parameter

    def forward(self, *args: Any) -> Any:
        """What the function returns."""
        return self.function(*args)


class Tagger(nn.Module):
    """Embedding, two LSTM layers, a linear layer: torchinfo's own test model, fvcore issue 98's kind."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.lstm = nn.Embedding(20, 300), nn.LSTM(300, 512, 2, batch_first=True)
        self.out = nn.Linear(512, 20)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Scores of each token."""
        return self.out(self.lstm(self.table(tokens))[0])


class Tied(nn.Module):
    """One layer applied three times (DeepSpeed issue 7256)."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(100, 100, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The layer, three times."""
        return self.layer(self.layer(self.layer(x)))


def r(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Random numbers."""
    return (
        torch.randn(shape).to(dtype)
        if dtype.is_floating_point or dtype.is_complex
        else torch.ones(shape, dtype=dtype)
    )


def function(call: Callable[..., Any], *inputs: Any) -> tuple[Any, tuple[Any, ...]]:
    return Call(call), inputs


def attention(
    heads: int, groups: int, steps: int, size: int, **more: bool
) -> Callable[[], tuple[Any, tuple[Any, ...]]]:
    def make() -> tuple[Any, tuple[Any, ...]]:
        query, key = r(1, heads, steps, size), r(1, groups, steps, size)
        gqa = {"enable_gqa": True} if groups != heads else {}
        return function(
            lambda q, k, v: F.scaled_dot_product_attention(q, k, v, **gqa, **more), query, key, key.clone()
        )

    return make


def self_attention() -> tuple[Any, tuple[Any, ...]]:
    layer, x = nn.MultiheadAttention(64, 4, batch_first=True).eval(), r(2, 16, 64)
    wrapped = Call(lambda x: layer(x, x, x, need_weights=False)[0])
    wrapped.layer = layer
    return wrapped.eval(), (x,)


def grouped() -> tuple[Any, tuple[Any, ...]]:
    ends = torch.arange(8, 65, 8, dtype=torch.int32)
    return function(
        lambda x, w: torch._grouped_mm(x, w, offs=ends),
        r(64, 32, dtype=torch.bfloat16),
        r(8, 32, 48, dtype=torch.bfloat16),
    )


def sparse() -> tuple[Any, tuple[Any, ...]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        matrix = torch.eye(64).to_sparse_csr()
    return function(lambda a, b: a @ b, matrix, r(64, 32))


def jax_scan() -> tuple[Any, tuple[Any, ...]]:
    import jax
    import jax.numpy as jnp

    def layers(x: Any, weights: Any) -> Any:
        return jax.lax.scan(lambda h, w: (h @ w, None), x, weights)[0]

    return layers, (jnp.ones((8, 40)), jnp.ones((24, 40, 40)))


def jax_while() -> tuple[Any, tuple[Any, ...]]:
    import jax
    import jax.numpy as jnp

    def steps(x: Any, w: Any, trips: Any) -> Any:
        return jax.lax.fori_loop(0, trips, lambda _, h: h @ w, x)

    return steps, (jnp.ones((8, 40)), jnp.ones((40, 40)), jnp.asarray(10))


def onnx_file(
    op: str, inputs: dict[str, list[int]], weights: dict[str, tuple[int, ...]], **attrs: Any
) -> Callable[[], tuple[Any, tuple[Any, ...]]]:
    def make() -> tuple[Any, tuple[Any, ...]]:
        import numpy as np
        from onnx import helper, numpy_helper

        domain = attrs.pop("domain", "")
        node = helper.make_node(op, [*inputs, *weights], ["y"], domain=domain, **attrs)
        if domain:
            attrs["domain"] = domain
        arrays = [
            numpy_helper.from_array(np.zeros(shape, np.uint8 if name == "packed" else np.float32), name)
            for name, shape in weights.items()
        ]
        typed = [helper.make_tensor_value_info(name, 1, shape) for name, shape in inputs.items()]
        graph = helper.make_graph([node], op, typed, [helper.make_tensor_value_info("y", 1, None)], arrays)
        imports = [helper.make_opsetid("", 23), helper.make_opsetid("com.microsoft", 1)]
        path = Path(tempfile.mkdtemp()) / f"{op}.onnx"
        path.write_bytes(helper.make_model(graph, opset_imports=imports, ir_version=10).SerializeToString())
        return str(path), ()

    return make


QKV = {name: [1, 4, 128, 16] for name in "qkv"}
CASES = (
    Case("linear layer", 8_388_608, "2·32·512·256", lambda: (nn.Linear(512, 256), (r(32, 512),))),
    Case(
        "batched matrix product",
        1_572_864,
        "2·8·64·32·48",
        lambda: function(lambda a, b: torch.bmm(a, b), r(8, 64, 32), r(8, 32, 48)),
    ),
    Case(
        "matrix times vector",
        65_536,
        "2·256·128",
        lambda: function(lambda a, b: torch.mv(a, b), r(256, 128), r(128)),
    ),
    Case(
        "complex64 product",
        2_097_152,
        "8·64³ real FLOP",
        lambda: function(
            lambda a, b: torch.mm(a, b), r(64, 64, dtype=torch.complex64), r(64, 64, dtype=torch.complex64)
        ),
    ),
    Case(
        "int8 product",
        131_072,
        "2·32·64·32",
        lambda: function(
            lambda a, b: torch._int_mm(a, b), r(32, 64, dtype=torch.int8), r(64, 32, dtype=torch.int8)
        ),
    ),
    Case("grouped product (MoE)", 196_608, "2·64·32·48: each row meets one expert of 8", grouped),
    Case("sparse CSR times dense", 4_096, "2·64 non-zeros·32", sparse),
    Case(
        "convolution",
        18_874_368,
        "2·2·32·32²·16·9",
        lambda: (nn.Conv2d(16, 32, 3, padding=1), (r(2, 16, 32, 32),)),
    ),
    Case(
        "grouped convolution",
        9_437_184,
        "2·64·32²·(32/4)·9",
        lambda: (nn.Conv2d(32, 64, 3, padding=1, groups=4), (r(1, 32, 32, 32),)),
    ),
    Case(
        "depthwise convolution, forward and backward",
        3_538_944,
        "3·2·64·9·32²",
        lambda: (nn.Conv2d(64, 64, 3, padding=1, groups=64, bias=False), (r(1, 64, 32, 32).requires_grad_(),)),
        backward=True,
    ),
    Case(
        "transposed convolution",
        576,
        "2·32·1·9 per input pixel",
        lambda: (nn.ConvTranspose2d(32, 1, 3), (r(1, 32, 1, 1),)),
    ),
    Case("attention (SDPA on a CPU)", 33_554_432, "4·8·128²·64", attention(8, 8, 128, 64)),
    Case("attention, causal", 16_908_288, "4·8·64·128·129/2 pairs", attention(8, 8, 128, 64, is_causal=True)),
    Case("attention, 8 query and 2 key heads", 134_217_728, "4·8·256²·64", attention(8, 2, 256, 64)),
    Case("MultiheadAttention in inference", 1_179_648, "2·32·64·256 + 4·2·4·16²·16", self_attention),
    Case(
        "TransformerEncoderLayer in inference",
        3_276_800,
        "2·32·(4·64² + 2·64·256) + 4·2·4·16²·16",
        lambda: (nn.TransformerEncoderLayer(64, 4, 256, batch_first=True).eval(), (r(2, 16, 64),)),
    ),
    Case("LSTM", 1_966_080, "2·10·4·4·64·(32 + 64)", lambda: (nn.LSTM(32, 64), (r(10, 4, 32),))),
    Case(
        "GRU, both directions",
        2_949_120,
        "2·2·10·4·3·64·(32 + 64)",
        lambda: (nn.GRU(32, 64, bidirectional=True), (r(10, 4, 32),)),
    ),
    Case(
        "embedding, two LSTM layers, linear",
        754_073_600,
        "2·(376,012,800 + 1,024,000); a lookup is no FLOP",
        lambda: (Tagger(), (torch.zeros(1, 100, dtype=torch.int64),)),
    ),
    Case("one layer applied three times", 60_000, "3·2·100²", lambda: (Tied(), (r(1, 100),))),
    Case("JAX: scan over 24 layers", 614_400, "24·2·8·40²", jax_scan, "jax"),
    Case(
        "JAX: loop of 10 trips, known when it runs",
        256_000,
        "10·2·8·40²; rooflab is told the trips",
        jax_while,
        "jax",
        trips={"while 1": 10},
    ),
    Case("ONNX: Attention (opset 23)", 4_194_304, "4·4·128²·16", onnx_file("Attention", QKV, {}), "onnx"),
    Case(
        "ONNX: MatMulNBits (4-bit weights)",
        1_048_576,
        "2·128·64·64",
        onnx_file(
            "MatMulNBits",
            {"x": [128, 64]},
            {"packed": (64, 2, 16), "scales": (128,)},
            domain="com.microsoft",
            K=64,
            N=64,
            bits=4,
            block_size=32,
        ),
        "onnx",
    ),
    Case(
        "ONNX: LSTM",
        1_966_080,
        "2·10·4·4·64·(32 + 64)",
        onnx_file(
            "LSTM", {"x": [10, 4, 32]}, {"w": (1, 256, 32), "r": (1, 256, 64), "b": (1, 512)}, hidden_size=64
        ),
        "onnx",
    ),
)
