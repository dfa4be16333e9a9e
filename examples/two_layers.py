"""A program to analyze: `rooflab analyze examples/two_layers.py:model --batch 64 --machine h200-sxm`."""

import torch
from torch import nn


def model(batch: int = 8) -> tuple[nn.Module, torch.Tensor]:
    """A module and its input, without memory for either: what `analyze` asks of its target."""
    with torch.device("meta"):
        layers = nn.Sequential(nn.Linear(1024, 4096), nn.GELU(), nn.Linear(4096, 1024))
        return layers.to(torch.bfloat16), torch.empty(batch, 1024, dtype=torch.bfloat16)


def softmax_by_hand(rows: int = 1024) -> torch.Tensor:
    """A function that is analyzed itself, as it runs: four passes where one would do."""
    x = torch.empty(rows, 1024, device="meta")
    e = torch.exp(x - x.amax(dim=-1, keepdim=True))
    return e / e.sum(dim=-1, keepdim=True)


if __name__ == "__main__":
    import rooflab

    for batch in (1, 64, 1024, 16384):
        module, x = model(batch)
        report = rooflab.analyze(module, x, machine="h200-sxm")
        replayed = report.on("h200-sxm", mode="graph")
        eager_us, graph_us = (report.time_s or 0) * 1e6, (replayed.time_s or 0) * 1e6
        print(
            f"batch {batch:5}: {report.intensity:6.1f} FLOP/byte, {eager_us:5.0f} µs eager ({report.bound}), "
            f"{graph_us:5.1f} µs as a graph ({replayed.bound})"
        )
