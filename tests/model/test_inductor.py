"""Fusion beside PyTorch's own compiler: its kernels on whole models, the bytes that it counts on this CPU."""

from __future__ import annotations

import logging
import shutil
import sys
from typing import Any

import pytest

import rooflab
from rooflab.model.compiler import fusion
from rooflab.types.report import Report
from rooflab.work import counting
from support.model.torch_models import build

torch = pytest.importorskip("torch")
F = torch.nn.functional


def compiled(report: Report) -> Report:
    """`report` fused."""
    return counting.report(fusion.fused(report.graph), report.name)


# kernels that PyTorch 2.11's inductor wrote on an H200, measured for this project, of a program's own code
WHOLE = [
    ("mlp-b16", 8),
    ("gpt2-b8-t1024", 38),
    pytest.param("vit-b64", 37, marks=pytest.mark.slow),
    pytest.param("llama8b-b1-t1-c1024", 193, marks=pytest.mark.slow),
    pytest.param("resnet50-b64", 68, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("name", "inductor"), WHOLE)
def test_whole_models_have_as_many_kernels_as_inductor_makes(name: str, inductor: int) -> None:
    """The compiler's own kernels, and fewer bytes; inductor also relays weights of convolutions, and pads."""
    model, inputs = build(name)
    with torch.no_grad():
        report = rooflab.analyze(model, *inputs)
    made = compiled(report)
    own = [row for row in made.rows if "members" in row.op.attrs]
    relaid = 17 + 1 if name.startswith("resnet") else 0  # weights of larger convolutions and the image
    padded = 1 if name.startswith("gpt2") else 0
    assert len(own) + relaid + padded == pytest.approx(inductor, abs=1)
    assert made.nbytes <= report.nbytes
    assert made.matrix_flop == pytest.approx(report.matrix_flop, rel=0.01)


# ── inductor on this CPU ─────────────────────────────────────────────────────────────────────────────────


def written_out(q: Any, k: Any, v: Any) -> Any:
    return torch.softmax((q @ k.transpose(-2, -1)) * 0.125, dim=-1) @ v


class Mlp(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = torch.nn.Linear(64, 256), torch.nn.Linear(256, 64)

    def forward(self, x: Any) -> Any:
        return x + self.down(F.gelu(self.up(x)))


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.mlp = torch.nn.LayerNorm(64), Mlp()

    def forward(self, x: Any, y: Any) -> Any:
        return self.mlp(self.norm(x + y))


def _chain(x: Any, b: Any) -> Any:
    return torch.sigmoid(torch.relu(x + b) * 0.5) + x


# program, shapes, share of inductor's bytes that ours are at least and at most
AGAINST = [
    (lambda: _chain, ((256, 512), (512,)), 1.0, 1.0),
    (lambda: written_out, ((2, 4, 64, 32),) * 3, 1.0, 1.0),
    (Mlp, ((16, 64),), 1.0, 1.0),
    # Inductor's CPU code sums x + y in one kernel and adds them again in the next; ours crosses once.
    (Block, ((64, 64), (64, 64)), 0.8, 1.0),
]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="inductor needs a C++ compiler")
@pytest.mark.skipif(sys.platform != "linux", reason="inductor's CPU code is tried on Linux")
@pytest.mark.parametrize("case", AGAINST, ids=["chain", "attention", "mlp", "block"])
@pytest.mark.filterwarnings("ignore")  # of the compiler's own making
def test_bytes_are_those_that_inductor_counts(case: tuple) -> None:
    """The same programs compiled here: `torch._inductor.metrics.num_bytes_accessed` beside ours."""
    metrics = pytest.importorskip("torch._inductor.metrics")
    make, shapes, least, most = case
    program = make()
    inputs = [torch.randn(shape) for shape in shapes]
    torch._dynamo.reset()
    metrics.reset()
    log = logging.getLogger("torch._inductor.debug")
    torch._logging.set_logs(inductor_metrics=True)  # without it inductor counts no bytes
    try:
        with torch.no_grad(), torch._inductor.config.patch(fx_graph_cache=False):
            torch.compile(program)(*inputs)
    finally:
        torch._logging.set_logs()
        log.handlers.clear()
    counted = metrics.num_bytes_accessed
    assert counted > 0
    meta = program.to("meta") if isinstance(program, torch.nn.Module) else program
    with torch.no_grad():
        report = rooflab.analyze(meta, *(torch.empty(shape, device="meta") for shape in shapes))
    assert least * counted <= compiled(report).nbytes <= most * counted
