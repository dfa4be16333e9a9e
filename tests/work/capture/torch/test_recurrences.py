"""LSTM, GRU and simple recurrences: one call each on a GPU, wherever the tensors are, forward and backward."""

from __future__ import annotations

import copy

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn.utils.rnn import pack_padded_sequence  # noqa: E402

from rooflab.work.capture.torch import capture  # noqa: E402
from rooflab.work.costs import costs  # noqa: E402

GATES = {nn.LSTM: 4, nn.GRU: 3, nn.RNN: 1}
FORMS = [{}, {"num_layers": 2, "bidirectional": True}, {"batch_first": True}, {"bias": False}]


def kinds(graph):
    return [op.name for op in graph.ops if (op.kind or "").startswith("rnn")]


def matrix_flop(graph, number=0):
    found = [
        sum(one.count for one in cost.flop if one.engine == "matrix")
        for op, cost in zip(graph.ops, costs(graph), strict=True)
        if cost and (op.kind or "").startswith("rnn")
    ]
    return found[number]


@pytest.mark.parametrize("cell", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize("form", FORMS)
def test_values_stay_and_every_device_gives_one_graph(cell, form):
    real = cell(12, 32, **form)
    x = torch.randn(6, 3, 12, requires_grad=True)
    kept = {}

    def program(module, x):
        y, ends = module(x)
        ends = ends if isinstance(ends, tuple) else (ends,)
        loss = y.square().sum() + sum(one.sum() for one in ends)
        gradients = torch.autograd.grad(loss, [x, *module.parameters()])
        kept["values"] = [y.detach().clone(), *(one.detach().clone() for one in ends), *gradients]
        return y

    program(real, x)
    expected = kept["values"]
    on_cpu = capture(lambda x: program(real, x), (x,))
    for ours, theirs in zip(kept["values"], expected, strict=True):
        torch.testing.assert_close(ours, theirs)
    away = copy.deepcopy(real).to("meta")
    on_meta = capture(lambda x: program(away, x), (x.detach().to("meta").requires_grad_(),))
    assert kinds(on_cpu) == kinds(on_meta) == ["aten._cudnn_rnn", "aten._cudnn_rnn_backward"]
    assert matrix_flop(on_cpu) == matrix_flop(on_meta)
    # Per layer: rows × directions × gates·hidden × (width of its input + hidden) multiply-adds, twice backward
    rows, ways = 18, 2 if form.get("bidirectional") else 1
    widths = [12, 32 * ways][: form.get("num_layers", 1)]
    fma = sum(rows * ways * GATES[cell] * 32 * (width + 32) for width in widths)
    assert matrix_flop(on_meta) == 2 * fma
    assert matrix_flop(on_meta, 1) == 4 * fma


def test_projections_and_packed_sequences():
    def flop_of(module, x, lengths=None):
        def program(x):
            return module(x if lengths is None else pack_padded_sequence(x, torch.tensor(lengths)))[0]

        graph = capture(program, (x,))
        assert kinds(graph) == ["aten._cudnn_rnn"]
        return matrix_flop(graph)

    x = torch.zeros(7, 3, 10, device="meta")
    # 21 rows: gates 4·24 × (10 + 8), then 24 to 8
    assert flop_of(nn.LSTM(10, 24, proj_size=8, device="meta"), x) == 2 * 21 * (96 * 18 + 24 * 8)
    # 7 + 5 + 2 steps are there
    assert flop_of(nn.GRU(10, 24, device="meta"), x, [7, 5, 2]) == 2 * 14 * 72 * 34
    assert flop_of(nn.GRU(10, 24), torch.zeros(7, 3, 10), [7, 5, 2]) == 2 * 14 * 72 * 34


def test_gradients_keep_what_they_need_in_training_alone():
    module = nn.LSTM(10, 24, num_layers=2, device="meta")
    x = torch.zeros(7, 3, 10, device="meta")

    def written():
        graph = capture(module, (x,))
        cost = next(c for op, c in zip(graph.ops, costs(graph), strict=True) if c and op.kind == "rnn")
        return cost.compulsory.write_bytes

    results = 4 * (21 * 24 + 2 * 2 * 3 * 24)
    assert written() == results + 4 * 5 * 21 * 24 * 2  # four gates and the cell of each layer
    module.eval()
    assert written() == results
    with torch.inference_mode():
        assert kinds(capture(module, (x,))) == ["aten._cudnn_rnn"]


def test_autocast_and_tf32():
    module = nn.LSTM(8, 16, device="meta")
    x = torch.zeros(5, 2, 8, device="meta")

    def program(x):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            return module(x)[0]

    def format_of(fn):
        graph = capture(fn, (x,))
        cost = next(c for op, c in zip(graph.ops, costs(graph), strict=True) if c and op.kind == "rnn")
        return next(one.dtype for one in cost.flop if one.engine == "matrix")

    assert format_of(program) == "fp16"  # whatever autocast's format: AutocastRNN.cpp
    assert format_of(module) == "tf32"
    with torch.backends.cudnn.flags(allow_tf32=False):
        assert format_of(module) == "fp32"
