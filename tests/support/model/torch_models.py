"""The PyTorch models whose times and kernels were measured, built on meta tensors: no weights, no memory."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
nn = torch.nn
F = torch.nn.functional


class Mlp(nn.Module):
    def __init__(self, d=4096, h=16384, n=4):
        super().__init__()
        self.layers = nn.ModuleList(nn.Sequential(nn.Linear(d, h), nn.GELU(), nn.Linear(h, d)) for _ in range(n))

    def forward(self, x):
        for layer in self.layers:
            x = x + layer(x)
        return x


class PointwiseChain(nn.Module):
    """linear -> bias -> relu -> dropout -> scale: the fusion example."""

    def forward(self, x, b):
        y = x + b
        y = torch.relu(y)
        y = y * 0.5
        y = torch.sigmoid(y)
        return y + x


class GptBlock(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.proj = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.fc, self.out = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)
        self.heads = heads

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.ln1(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(a.transpose(1, 2).reshape(b, t, d))
        return x + self.out(F.gelu(self.fc(self.ln2(x))))


class Gpt(nn.Module):
    def __init__(self, vocab=50257, ctx=1024, d=768, heads=12, n=12):
        super().__init__()
        self.tok, self.pos = nn.Embedding(vocab, d), nn.Embedding(ctx, d)
        self.blocks = nn.ModuleList(GptBlock(d, heads) for _ in range(n))
        self.ln = nn.LayerNorm(d)
        self.head = nn.Linear(d, vocab, bias=False)

    def forward(self, idx):
        x = self.tok(idx) + self.pos(torch.arange(idx.shape[1], device=idx.device))
        for blk in self.blocks:
            x = blk(x)
        return self.head(self.ln(x))


class NaiveAttention(nn.Module):
    """softmax(q k^T) v with the N x N matrix written out."""

    def forward(self, q, k, v):
        s = (q @ k.transpose(-2, -1)) * (q.shape[-1] ** -0.5)
        return torch.softmax(s, dim=-1) @ v


class LlamaBlock(nn.Module):
    def __init__(self, d=4096, heads=32, kv=8, ffn=14336):
        super().__init__()
        self.heads, self.kv, self.hd = heads, kv, d // heads
        self.n1, self.n2 = nn.RMSNorm(d), nn.RMSNorm(d)
        self.q = nn.Linear(d, d, bias=False)
        self.k = nn.Linear(d, kv * self.hd, bias=False)
        self.v = nn.Linear(d, kv * self.hd, bias=False)
        self.o = nn.Linear(d, d, bias=False)
        self.gate = nn.Linear(d, ffn, bias=False)
        self.up = nn.Linear(d, ffn, bias=False)
        self.down = nn.Linear(ffn, d, bias=False)

    def rope(self, x, cos, sin):
        x1, x2 = x.chunk(2, dim=-1)
        return torch.cat((x1 * cos - x2 * sin, x2 * cos + x1 * sin), dim=-1)

    def forward(self, x, cos, sin, k_cache=None, v_cache=None):
        b, t, d = x.shape
        h = self.n1(x)
        q = self.q(h).view(b, t, self.heads, self.hd).transpose(1, 2)
        k = self.k(h).view(b, t, self.kv, self.hd).transpose(1, 2)
        v = self.v(h).view(b, t, self.kv, self.hd).transpose(1, 2)
        q, k = self.rope(q, cos, sin), self.rope(k, cos, sin)
        if k_cache is not None:  # decode: attend over the whole static cache
            k_cache[:, :, -t:] = k
            v_cache[:, :, -t:] = v
            k, v = k_cache, v_cache
        a = F.scaled_dot_product_attention(q, k, v, is_causal=k_cache is None, enable_gqa=True)
        x = x + self.o(a.transpose(1, 2).reshape(b, t, d))
        h = self.n2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Llama(nn.Module):
    def __init__(self, vocab=128256, d=4096, heads=32, kv=8, ffn=14336, n=32, context=0, batch=1):
        super().__init__()
        self.tok = nn.Embedding(vocab, d)
        self.blocks = nn.ModuleList(LlamaBlock(d, heads, kv, ffn) for _ in range(n))
        self.norm = nn.RMSNorm(d)
        self.head = nn.Linear(d, vocab, bias=False)
        self.hd = d // heads
        self.context = context
        if context:
            for i in range(n):
                self.register_buffer(f"k{i}", torch.zeros(batch, kv, context, self.hd))
                self.register_buffer(f"v{i}", torch.zeros(batch, kv, context, self.hd))

    def forward(self, idx):
        x = self.tok(idx)
        t = idx.shape[1]
        ang = torch.ones(t, self.hd // 2, device=x.device, dtype=x.dtype)
        cos, sin = ang.cos(), ang.sin()
        for i, blk in enumerate(self.blocks):
            if self.context:
                x = blk(x, cos, sin, getattr(self, f"k{i}"), getattr(self, f"v{i}"))
            else:
                x = blk(x, cos, sin)
        return self.head(self.norm(x[:, -1:]))


class Bottleneck(nn.Module):
    def __init__(self, cin, mid, stride):
        super().__init__()
        cout = mid * 4
        self.c1, self.b1 = nn.Conv2d(cin, mid, 1, bias=False), nn.BatchNorm2d(mid)
        self.c2, self.b2 = nn.Conv2d(mid, mid, 3, stride, 1, bias=False), nn.BatchNorm2d(mid)
        self.c3, self.b3 = nn.Conv2d(mid, cout, 1, bias=False), nn.BatchNorm2d(cout)
        self.down = None
        if stride != 1 or cin != cout:
            self.down = nn.Sequential(nn.Conv2d(cin, cout, 1, stride, bias=False), nn.BatchNorm2d(cout))

    def forward(self, x):
        y = torch.relu(self.b1(self.c1(x)))
        y = torch.relu(self.b2(self.c2(y)))
        y = self.b3(self.c3(y))
        return torch.relu(y + (x if self.down is None else self.down(x)))


class ResNet50(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn = nn.BatchNorm2d(64)
        layers, cin = [], 64
        for mid, n, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
            for i in range(n):
                layers.append(Bottleneck(cin, mid, stride if i == 0 else 1))
                cin = mid * 4
        self.layers = nn.Sequential(*layers)
        self.fc = nn.Linear(2048, 1000)

    def forward(self, x):
        x = F.max_pool2d(torch.relu(self.bn(self.stem(x))), 3, 2, 1)
        return self.fc(self.layers(x).mean((2, 3)))


class VitBlock(nn.Module):
    def __init__(self, d=768, heads=12):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.proj = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.fc1, self.fc2, self.heads = nn.Linear(d, 4 * d), nn.Linear(4 * d, d), heads

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.ln1(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, t, d)
        x = x + self.proj(a)
        return x + self.fc2(F.gelu(self.fc1(self.ln2(x))))


class Vit(nn.Module):
    def __init__(self, d=768, heads=12, n=12):
        super().__init__()
        self.patch = nn.Conv2d(3, d, 16, 16)
        self.cls = nn.Parameter(torch.zeros(1, 1, d))
        self.pos = nn.Parameter(torch.zeros(1, 197, d))
        self.blocks = nn.Sequential(*(VitBlock(d, heads) for _ in range(n)))
        self.ln, self.head = nn.LayerNorm(d), nn.Linear(d, 1000)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat((self.cls.expand(x.shape[0], -1, -1), x), 1) + self.pos
        return self.head(self.ln(self.blocks(x))[:, 0])


def build(name: str) -> tuple[Any, tuple[Any, ...]]:
    """The bf16 model called `name` and its inputs; the name carries batch, length, cache ("gpt2-b8-t1024")."""
    kind, *sizes = name.split("-")
    number = {"b": 1, "t": 1, "c": 0} | {size[0]: int(size[1:]) for size in sizes}
    b, t, context = number["b"], number["t"], number["c"]

    def random(*shape: int) -> Any:
        return torch.empty(shape, dtype=torch.bfloat16, device="meta")

    tokens = torch.empty((b, t), dtype=torch.long, device="meta")
    builders = {
        "mlp": (Mlp, lambda: (random(b, 4096),)),
        "pointwise": (PointwiseChain, lambda: (random(b, 4096), random(4096))),
        "naiveattn": (NaiveAttention, lambda: tuple(random(b, 16, t, 64) for _ in range(3))),
        "gpt2": (Gpt, lambda: (tokens,)),
        "llama8b": (lambda: Llama(context=context, batch=b), lambda: (tokens,)),
        "resnet50": (ResNet50, lambda: (random(b, 3, 224, 224),)),
        "vit": (Vit, lambda: (random(b, 3, 224, 224),)),
    }
    make, inputs = builders[kind]
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        with torch.device("meta"):
            return make().eval(), inputs()
    finally:
        torch.set_default_dtype(default)
