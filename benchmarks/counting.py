"""Counting against torch's FlopCounterMode, in pairs: `python benchmarks/counting.py [--pairs 5] [--linear]`.

Both see the same module on meta tensors. rooflab's time is everything: capture with module paths and source
lines, bytes, and the cost of every op; FlopCounterMode counts FLOP of matrix products alone. Printed: median
seconds of each, the median of the paired ratios with its range. Goals: Llama-70B forward <= 0.5, GPT-2 forward
and backward <= 1.5, time per op constant up to 100,000 ops.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from rooflab.work.capture.torch import capture
from rooflab.work.costs import costs


class LlamaBlock(nn.Module):
    """Llama 3.1 70B's layer."""

    def __init__(self, width: int, heads: int, kv: int, ffn: int) -> None:
        super().__init__()
        self.heads, self.kv, self.size = heads, kv, width // heads
        self.n1, self.n2 = nn.RMSNorm(width), nn.RMSNorm(width)
        self.q, self.o = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.k, self.v = (nn.Linear(width, kv * self.size, bias=False) for _ in range(2))
        self.gate, self.up = nn.Linear(width, ffn, bias=False), nn.Linear(width, ffn, bias=False)
        self.down = nn.Linear(ffn, width, bias=False)

    def rope(self, x, cos, sin):
        """`x` turned by the angles of its positions."""
        first, second = x.chunk(2, dim=-1)
        return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)

    def forward(self, x, cos, sin):
        """The result of this layer or model."""
        batch, steps, width = x.shape
        h = self.n1(x)
        q = self.q(h).view(batch, steps, self.heads, self.size).transpose(1, 2)
        k = self.k(h).view(batch, steps, self.kv, self.size).transpose(1, 2)
        v = self.v(h).view(batch, steps, self.kv, self.size).transpose(1, 2)
        q, k = self.rope(q, cos, sin), self.rope(k, cos, sin)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.o(a.transpose(1, 2).reshape(batch, steps, width))
        h = self.n2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Llama(nn.Module):
    """Llama 3.1 70B: 80 layers, width 8192, 64 heads, 8 of keys and values, 28,672 inner, 128,256 tokens."""

    def __init__(self, width=8192, heads=64, kv=8, ffn=28672, layers=80, tokens=128256) -> None:
        super().__init__()
        self.tok = nn.Embedding(tokens, width)
        self.blocks = nn.ModuleList(LlamaBlock(width, heads, kv, ffn) for _ in range(layers))
        self.norm, self.head = nn.RMSNorm(width), nn.Linear(width, tokens, bias=False)
        self.size = width // heads

    def forward(self, ids):
        """The result of this layer or model."""
        x = self.tok(ids)
        angles = torch.ones(ids.shape[1], self.size // 2, device=x.device, dtype=x.dtype)
        cos, sin = angles.cos(), angles.sin()
        for block in self.blocks:
            x = block(x, cos, sin)
        return self.head(self.norm(x))


class GptBlock(nn.Module):
    """GPT-2's layer."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.fc, self.out = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.heads = heads

    def forward(self, x):
        """The result of this layer or model."""
        batch, steps, width = x.shape
        q, k, v = self.qkv(self.ln1(x)).view(batch, steps, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(a.transpose(1, 2).reshape(batch, steps, width))
        return x + self.out(F.gelu(self.fc(self.ln2(x))))


class Gpt(nn.Module):
    """GPT-2 small."""

    def __init__(self, width=768, heads=12, layers=12, tokens=50257, context=1024) -> None:
        super().__init__()
        self.tok, self.pos = nn.Embedding(tokens, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(GptBlock(width, heads) for _ in range(layers))
        self.ln, self.head = nn.LayerNorm(width), nn.Linear(width, tokens, bias=False)

    def forward(self, ids):
        """The result of this layer or model."""
        x = self.tok(ids) + self.pos(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x)
        return self.head(self.ln(x))


def on_meta(make: Callable[[], nn.Module]) -> nn.Module:
    """The module in bf16, without data."""
    torch.set_default_dtype(torch.bfloat16)
    try:
        with torch.device("meta"):
            return make()
    finally:
        torch.set_default_dtype(torch.float32)


def ids(batch: int, steps: int) -> torch.Tensor:
    return torch.empty(batch, steps, dtype=torch.long, device="meta")


def theirs(module: nn.Module, x: torch.Tensor, backward: bool) -> None:
    with FlopCounterMode(display=False), torch.set_grad_enabled(backward):
        out = module(x)
        if backward:
            out.sum().backward()
    for one in module.parameters():
        one.grad = None


def ours(module: nn.Module, x: torch.Tensor, backward: bool) -> int:
    with torch.set_grad_enabled(backward):
        graph = capture(module, (x,), backward=backward)
    found = costs(graph)
    assert all(one is not None for one in found), "an op has no cost"
    return len(found)


def seconds(function: Callable[..., object], *args: object) -> float:
    start = time.perf_counter()
    function(*args)
    return time.perf_counter() - start


def pairs(name: str, module: nn.Module, x: torch.Tensor, backward: bool, count: int, goal: float) -> None:
    ops = ours(module, x, backward)
    theirs(module, x, backward)
    taken = [(seconds(ours, module, x, backward), seconds(theirs, module, x, backward)) for _ in range(count)]
    ratios = [mine / other for mine, other in taken]
    print(
        f"{name}: {ops} ops, rooflab {statistics.median(one for one, _ in taken):.3f} s, FlopCounterMode"
        f" {statistics.median(other for _, other in taken):.3f} s, ratio {statistics.median(ratios):.2f}"
        f" ({min(ratios):.2f} to {max(ratios):.2f}; goal {goal})"
    )


def linear() -> None:
    """Time per op as a model grows."""
    for layers in (25, 250, 2500):
        module = on_meta(lambda layers=layers: Llama(64, 4, 2, 128, layers, 100))
        with torch.no_grad():
            start = time.perf_counter()
            ops = ours(module, ids(1, 8), False)
            taken = time.perf_counter() - start
        print(f"{layers} layers: {ops} ops, {taken:.2f} s, {1e6 * taken / ops:.0f} µs per op")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--linear", action="store_true", help="only the growth with the number of ops")
    chosen = parser.parse_args()
    if not chosen.linear:
        pairs("Llama-70B forward, 2048 tokens", on_meta(Llama), ids(1, 2048), False, chosen.pairs, 0.5)
        pairs("GPT-2 forward and backward, 8 x 1024", on_meta(Gpt), ids(8, 1024), True, chosen.pairs, 1.5)
    linear()


if __name__ == "__main__":
    main()
