"""Programs on machines whose recorded prediction is held against the model."""

from __future__ import annotations

import functools
from typing import Any

import pytest

import rooflab
from rooflab.types.report import Report

torch = pytest.importorskip("torch")
nn = torch.nn


class Sundry(nn.Module):
    """Kernels of many mechanisms: convolution, norms, recurrence, attention, sorting, gathering, sums."""

    def __init__(self):
        super().__init__()
        self.first, self.own = nn.Conv2d(3, 64, 7, 2, 3), nn.Conv2d(64, 64, 3, padding=1, groups=64)
        self.batch, self.group = nn.BatchNorm2d(64), nn.GroupNorm(8, 64)
        self.chain, self.table = nn.LSTM(64, 128, batch_first=True), nn.Embedding(1000, 128)
        self.attention = nn.MultiheadAttention(128, 4, batch_first=True)

    def forward(self, image, words):
        x = self.group(self.own(torch.relu(self.batch(self.first(image)))))
        x = nn.functional.max_pool2d(x, 4).flatten(2).transpose(1, 2)
        x, _ = self.chain(x)
        y = self.table(words)
        z, _ = self.attention(y, x, x)
        best = z.sum(-1).topk(8).values.sort().values
        return best.logsumexp(-1).cumsum(0) + nn.functional.softmax(z, -1).mean((1, 2))


@torch.library.custom_op("rooflab_tape::unknown", mutates_args=())
def unknown(x: torch.Tensor) -> torch.Tensor:
    """An operation that no formula knows."""
    return x.clone()


class Uncounted(nn.Module):
    """One row has no formula."""

    def forward(self, x):
        return unknown(torch.relu(x @ x)).tanh()


@functools.cache
def stack(depth: int) -> Report:
    """So many equal blocks on a GPU, eager."""
    layers = (nn.Sequential(nn.Linear(512, 512), nn.GELU(), nn.LayerNorm(512)) for _ in range(depth))
    return _analyzed(nn.Sequential(*layers), (64, 512)).on("h200-sxm")


def _analyzed(model: Any, *shapes: tuple[int, ...]) -> Report:
    inputs = [torch.zeros(shape, device="meta") for shape in shapes]
    return rooflab.analyze(model.to("meta").eval(), *inputs)


@functools.cache
def _captured(name: str) -> Report:
    if name == "mlp":
        return _analyzed(nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 256)), (32, 256))
    if name == "uncounted":
        return rooflab.analyze(Uncounted(), torch.zeros(64, 64))
    if name == "transformer":
        layer = nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True)
        return _analyzed(nn.TransformerEncoder(layer, 12, enable_nested_tensor=False), (16, 256, 512))
    words = torch.zeros(4, 32, dtype=torch.int64, device="meta")
    return rooflab.analyze(Sundry().to("meta"), torch.zeros(4, 3, 128, 128, device="meta"), words)


# name: program, machine, how it runs
_RUNS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "mlp eager": ("mlp", "h200-sxm", {"mode": "eager"}),
    "mlp on a CPU": ("mlp", "ryzen-9-9950x", {"mode": "eager"}),
    "transformer graph": ("transformer", "a100-sxm-80gb", {"mode": "graph", "power": "sustained"}),
    "transformer compiled": ("transformer", "h200-sxm", {"mode": "compiled"}),
    "transformer on an ASIC": ("transformer", "trainium2", {"mode": "graph"}),
    "sundry eager": ("sundry", "h200-sxm", {"mode": "eager"}),
    "sundry cold": ("sundry", "rtx-4090", {"mode": "graph", "cache": "cold"}),
    "sundry on a CPU": ("sundry", "ryzen-9-9950x", {"mode": "eager"}),
    "sundry compiled on a CPU": ("sundry", "ryzen-9-9950x", {"mode": "compiled"}),
    "uncounted": ("uncounted", "h200-sxm", {"mode": "eager"}),
}
NAMES = tuple(_RUNS)


@functools.cache
def report(name: str) -> Report:
    """The predicted program of that name."""
    program, machine, how = _RUNS[name]
    return _captured(program).on(machine, **how)


def furthest(played: dict[str, Any], index: list[int], base: Report, factors: dict[str, float]) -> float:
    """The largest relative difference of what a tape gave from the model; infinite where words differ."""
    assert base.machine is not None
    assert base.setting is not None
    wanted = base.on(base.machine, what_if={**base.setting.what_if, **factors})
    whole = wanted.prediction or wanted.predicted_part
    assert [number for number, row in enumerate(wanted.rows) if row.prediction is not None] == list(index)
    pairs = [(played["program"][name], getattr(whole, name)) for name in played["program"]]
    pairs += [(played["program_levels"][name], seconds) for name, seconds in whole.memory_s.items()]
    for place, number in enumerate(index):
        row = wanted.rows[number].prediction
        pairs += [(column[place], getattr(row, name)) for name, column in played["rows"].items()]
        pairs += [(played["levels"][name][place], seconds) for name, seconds in row.memory_s.items()]
    return max(_apart(found, true) for found, true in pairs)


def _apart(found: Any, true: Any) -> float:
    if isinstance(true, str):
        return 0.0 if found == true else float("inf")
    return abs(found - true) / abs(true) if true else (0.0 if found == true else float("inf"))
