"""Operators of PyTorch recorded on this CPU: what their recorded arguments cost, against what capture counts."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

import rooflab
from rooflab.observe.importers.traces import kineto
from rooflab.observe.matching import match, torch_calls
from rooflab.observe.matching.calls import parents_of
from rooflab.types.trace import OPERATOR
from rooflab.work.costs import costs

TRUTH = Path(__file__).parents[4] / "shared" / "truth"


def t(*shape, dtype=torch.float32, grad=False):
    if dtype.is_floating_point or dtype.is_complex:
        return torch.rand(*shape, dtype=dtype, requires_grad=grad)
    return torch.randint(0, 3, shape, dtype=dtype)


def square(n):
    return torch.eye(n) * n + torch.rand(n, n)


INDEX = torch.tensor([0, 2, 1, 2])

# name of the operator that is compared, and a call that makes it.
CALLS = [
    ("mse_loss", lambda: F.mse_loss(t(4, 6), t(4, 6))),
    ("mse_loss", lambda: F.mse_loss(t(4, 6), t(4, 6), reduction="none")),
    ("mse_loss_backward", lambda: F.mse_loss(t(4, 6, grad=True), t(4, 6)).backward()),
    ("huber_loss", lambda: F.huber_loss(t(4, 6), t(4, 6))),
    ("smooth_l1_loss", lambda: F.smooth_l1_loss(t(4, 6), t(4, 6))),
    ("binary_cross_entropy", lambda: F.binary_cross_entropy(t(4, 6), t(4, 6))),
    ("nll_loss_forward", lambda: F.nll_loss(t(4, 6), INDEX)),
    ("nll_loss_backward", lambda: F.nll_loss(t(4, 6, grad=True), INDEX).backward()),
    ("index_select", lambda: t(5, 6).index_select(0, INDEX)),
    ("gather", lambda: t(5, 6).gather(0, t(2, 6, dtype=torch.long))),
    ("index_add_", lambda: t(5, 6).index_add_(0, INDEX, t(4, 6))),
    ("scatter_add", lambda: t(5, 6).scatter_add(0, t(2, 6, dtype=torch.long), t(2, 6))),
    ("masked_fill", lambda: t(1, 6).expand(4, 6).masked_fill(t(4, 6) > 0.5, 0)),
    ("addmv", lambda: torch.addmv(t(5), t(5, 7), t(7))),
    ("addr", lambda: torch.addr(t(5, 7), t(5), t(7))),
    ("baddbmm", lambda: torch.baddbmm(t(2, 3, 5), t(2, 3, 4), t(2, 4, 5))),
    ("add", lambda: t(5, 6) + 2.5),
    ("add", lambda: t(5, 1) + t(1, 6)),
    ("div", lambda: t(5, 6, dtype=torch.long) / 3),
    ("exp", lambda: t(5, 6, dtype=torch.long).exp()),
    ("where", lambda: torch.where(t(5, 6) > 0.5, t(5, 6), t(6))),
    ("glu", lambda: F.glu(t(4, 6))),
    ("complex", lambda: torch.complex(t(4, 6), t(4, 6))),
    ("cummax", lambda: t(4, 6).cummax(1)),
    ("cumsum", lambda: t(4, 6, dtype=torch.int32).cumsum(1)),
    ("std_mean", lambda: torch.std_mean(t(4, 6), 1)),
    ("aminmax", lambda: t(4, 6).aminmax(dim=1)),
    ("kthvalue", lambda: t(4, 6).kthvalue(2)),
    ("median", lambda: t(4, 6).median(1)),
    ("mode", lambda: t(4, 6).mode(1)),
    ("linalg_vector_norm", lambda: torch.linalg.vector_norm(t(4, 6), float("inf"))),
    ("count_nonzero", lambda: t(4, 6).count_nonzero(1)),
    ("avg_pool2d", lambda: F.avg_pool2d(t(2, 3, 8, 8), 2)),
    ("max_pool2d_with_indices", lambda: F.max_pool2d(t(2, 3, 9, 9, grad=True), 3, 2, 1, ceil_mode=True)),
    ("adaptive_max_pool2d", lambda: F.adaptive_max_pool2d(t(2, 3, 8, 8), (3, 2))),
    ("upsample_bilinear2d", lambda: F.interpolate(t(2, 3, 8, 8), (5, 6), mode="bilinear")),
    ("upsample_nearest2d", lambda: F.interpolate(t(2, 3, 8, 8), scale_factor=2)),
    ("grid_sampler_2d", lambda: F.grid_sample(t(2, 3, 8, 8), t(2, 5, 6, 2), align_corners=False)),
    ("native_batch_norm", lambda: F.batch_norm(t(4, 6, 5), t(6), t(6), t(6), t(6), True)),
    ("native_group_norm", lambda: F.group_norm(t(4, 6, 5), 3)),
    ("constant_pad_nd", lambda: F.pad(t(4, 6), (1, 2, 3, 0))),
    ("reflection_pad2d", lambda: F.pad(t(1, 2, 4, 6), (1, 2, 3, 0), mode="reflect")),
    ("flip", lambda: t(4, 6).flip(0)),
    ("roll", lambda: t(4, 6).roll(1, 0)),
    ("rot90", lambda: t(4, 6).rot90()),
    ("repeat", lambda: t(4, 6).repeat(2, 1, 3)),
    ("pixel_shuffle", lambda: F.pixel_shuffle(t(1, 8, 4, 6), 2)),
    ("im2col", lambda: F.unfold(t(1, 3, 8, 8), 3)),
    ("col2im", lambda: F.fold(t(1, 27, 36), (8, 8), 3)),
    ("diag_embed", lambda: torch.diag_embed(t(4, 6))),
    (
        "convolution_backward",
        lambda: F.conv2d(t(1, 3, 8, 8, grad=True), t(4, 3, 3, 3, grad=True)).sum().backward(),
    ),
    ("linalg_cholesky_ex", lambda: torch.linalg.cholesky_ex(square(5) @ square(5).T)),
    ("linalg_lu_factor_ex", lambda: torch.linalg.lu_factor(square(5))),
    ("linalg_inv_ex", lambda: torch.linalg.inv(square(5))),
    ("_linalg_solve_ex", lambda: torch.linalg.solve(square(5), t(5, 3))),
    ("linalg_solve_triangular", lambda: torch.linalg.solve_triangular(square(5).triu(), t(5, 3), upper=True)),
    ("linalg_qr", lambda: torch.linalg.qr(t(6, 4))),
    ("_linalg_svd", lambda: torch.linalg.svd(t(6, 4), full_matrices=False)),
    ("_linalg_eigh", lambda: torch.linalg.eigh(square(5))),
    ("_fft_c2c", lambda: torch.fft.fft(t(4, 6, dtype=torch.complex64))),
    ("_fft_r2c", lambda: torch.fft.rfft(t(4, 6))),
    ("_fft_c2r", lambda: torch.fft.irfft(t(4, 6, dtype=torch.complex64))),
    ("multinomial", lambda: t(4, 6).multinomial(2)),
    ("bernoulli", lambda: t(4, 6).bernoulli()),
    ("searchsorted", lambda: torch.searchsorted(t(6).sort().values, t(4, 6))),
    ("_foreach_add_", lambda: torch._foreach_add_([t(4, 6), t(5)], 1.0)),
    ("_foreach_mul", lambda: torch._foreach_mul([t(4, 6), t(5)], [t(4, 6), t(5)])),
]


def recorded(make, folder):
    """By name the calls of a run of `make` under PyTorch's profiler: signatures, and the calls within."""
    make()
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, record_shapes=True) as profiler:
        make()
    path = folder / "trace.json"
    profiler.export_chrome_trace(str(path))
    trace = kineto.load(path)
    parents = parents_of(trace)
    found = defaultdict(list)
    for call in range(len(trace.calls)):
        around = int(parents[call])
        nested = around >= 0 and trace.calls.name[around] == trace.calls.name[call]
        if trace.calls.kind[call] == OPERATOR and not nested:
            within = [(name, trace.signatures[one]) for name, one in match.inside(trace, call, parents)]
            signature = trace.signatures[trace.calls.signature[call]]
            found[trace.names[trace.calls.name[call]]].append((signature, within))
    return found


def cost_of(name, signature, within=(), dtype=None):
    known = torch_calls.resolve(f"aten::{name}", signature, dtype, within)
    assert known.why is None
    (cost,) = costs(torch_calls.graph([known]))
    return cost


@pytest.mark.parametrize(("name", "make"), CALLS, ids=[f"{at}-{name}" for at, (name, _) in enumerate(CALLS)])
def test_recorded_arguments_cost_what_capture_counts(name, make, tmp_path):
    report = rooflab.analyze(make, device="cpu")
    wanted = [row.cost for row in report.rows if row.op.name == f"aten.{name}"]
    calls = recorded(make, tmp_path)[f"aten::{name}"]
    assert wanted
    assert len(calls) == len(wanted)
    for (signature, within), cost in zip(calls, wanted, strict=True):
        found = cost_of(name, signature, within, "fp32")
        assert found.flop == cost.flop
        assert found.compulsory == cost.compulsory


@pytest.mark.parametrize(
    "make",
    [
        (lambda: t(5, 6)[INDEX]),
        (lambda: t(5, 6)[INDEX, INDEX.clone()]),
        (lambda: t(5, 6, 7)[:, INDEX]),
        (lambda: t(50)[t(3, 4, dtype=torch.long)]),
    ],
)
def test_indexing_is_counted_by_what_it_does_inside(make, tmp_path):
    """The profiler records no indices, but the views that the operator makes of them."""
    report = rooflab.analyze(make, device="cpu")
    (wanted,) = [row.cost for row in report.rows if row.op.name == "aten.index"]
    ((signature, within),) = recorded(make, tmp_path)["aten::index"]
    assert cost_of("index", signature, within).compulsory == wanted.compulsory
    assert torch_calls.resolve("aten::index", signature).why is not None


def test_a_list_that_is_too_long_to_be_recorded_is_said():
    from rooflab.types.trace import Signature

    signature = Signature(((), ()), ("TensorList", "Scalar"), ((), ()), ("", "1"))
    assert "longer than the profiler records" in torch_calls.resolve("aten::_foreach_add_", signature).why


@pytest.mark.skipif(not TRUTH.is_dir(), reason="the measured truth is not beside the checkout")
def test_every_labelled_operator_of_an_h200_costs_what_its_case_does():
    """All but a product with a sparse matrix, whose non-zeros are not recorded."""
    import importlib.util

    spec = importlib.util.spec_from_file_location("truth_ops", TRUTH / "ops.py")
    ops = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(ops)
    cases = {case["id"]: case for case in ops.cases()}
    by_label = defaultdict(list)
    for row in rooflab.load(TRUTH / "h200_trace_ops.json.gz").rows:
        if row.label.startswith("case:"):
            by_label[row.label.removeprefix("case:")].append(row)
    assert len(by_label) == 48
    for label, rows in by_label.items():
        if label.startswith("spmv"):
            assert all("sparse" in row.why for row in rows)
            continue
        report = rooflab.analyze(ops.runner(cases[label], "meta"))
        assert sum(row.flop for row in rows) == report.flop, label
        # One scale stands for both factors of the product in fp8: the trace does not tell that it is one.
        twice = 4 if label.startswith("matmul_fp8") else 0
        assert sum(row.nbytes for row in rows) == report.nbytes + twice, label
