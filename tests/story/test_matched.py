"""A profile beside the program that ran: recorded models laid beside their captured graphs, row by row."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
import torch

import rooflab
from rooflab.errors import RooflabError
from rooflab.story.matched import mode_of
from support.model.torch_models import build
from support.observe.kineto_files import call, file, kernel, launch

ROOT = Path(__file__).parents[2]
GPT2 = ROOT / "examples" / "gpt2-h200-trace.json.gz"
TRUTH = ROOT.parent / "shared" / "truth"


def mean_of(module):
    return lambda ids: module(ids).float().mean()


@pytest.fixture(scope="module")
def beside():
    return rooflab.load(GPT2, model=build("gpt2-b1-t128"))


def held_against(profile, report):
    """What must be so of every profile beside its program: all that ran is there, the totals are the report's."""
    one = profile.matching
    assert one.kernels_found >= 0.98 * one.kernels
    assert one.runs == 1
    assert one.ops_found == one.ops == sum(row.takes_time for row in report.rows)
    predicted = sum(row.prediction.time_s for row in profile.rows if row.prediction is not None)
    assert predicted == pytest.approx(report.time_s, rel=1e-9)
    assert one.predicted_s == pytest.approx(report.time_s, rel=1e-9)
    counted = sum(row.flop for row in profile.rows if row.unmatched is None)
    assert counted == pytest.approx(report.flop, rel=1e-12)
    durations = sum(row.time_s for row in profile.rows)
    alone = sum(
        row.time_s for row in rooflab.load(TRUTH / profile.name if profile.name != GPT2.name else GPT2).rows
    )
    assert durations == pytest.approx(alone, rel=1e-9)


def test_every_kernel_of_gpt2_finds_its_operation_and_the_total_is_the_reports_own(beside):
    module, ids = build("gpt2-b1-t128")
    report = rooflab.analyze(module, *ids, machine="h200-sxm", mode="graph")
    held_against(beside, report)
    assert beside.matching.kernels_found == beside.matching.kernels == 151


def test_rows_bear_the_programs_own_modules_and_lines(beside):
    (head,) = [row for row in beside.rows if row.module == "head"]
    assert head.name == "aten.mm"
    assert head.where.partition(":")[0].endswith("torch_models.py")
    products = [row for row in beside.rows if row.module == "blocks.3.fc" and row.time_s]
    assert [row.name for row in products] == ["aten.addmm"]
    # 128 tokens, 768 to 3072: nvjet_..._64x64_..._bias_TNT ran for it, 5.4 µs.
    assert 4e-6 < products[0].time_s < 7e-6


def test_a_kernels_own_time_is_expected_without_the_pause_after_it(beside):
    """151 kernels, 0.68 µs apart in a replayed graph: 0.10 of the 0.64 ms predicted; measured: 0.603 ms."""
    pauses = sum(row.pause_s for row in beside.rows)
    kernels = sum(row.prediction.kernels for row in beside.rows)
    assert pauses == pytest.approx(kernels * 0.68e-6, rel=0.01)
    assert all(row.expected_s >= row.prediction.floor_s for row in beside.rows)
    assert sum(row.expected_s for row in beside.rows) == pytest.approx(0.603e-3, rel=0.12)


shared = pytest.mark.skipif(not TRUTH.is_dir(), reason="the measured truth is not beside the checkout")


@shared
def test_llamas_decoding_step():
    module, ids = build("llama8b-b8-t1-c1024")
    report = rooflab.analyze(module, *ids, machine="h200-sxm", mode="graph")
    profile = rooflab.load(TRUTH / "h200_trace_llama8b-b8-t1-c1024.json.gz", model=(module, ids))
    held_against(profile, report)


@shared
def test_a_training_step_has_its_backward_pass_and_optimizer_without_being_asked():
    module, ids = build("gpt2-b8-t1024")
    adam = partial(torch.optim.Adam, fused=True)
    report = rooflab.analyze(
        mean_of(module), *ids, machine="h200-sxm", mode="graph", backward=True, optimizer=adam
    )
    profile = rooflab.load(TRUTH / "h200_trace_train_gpt2-b8-t1024.json.gz", model=(mean_of(module), ids))
    held_against(profile, report)
    (rest,) = [row for row in profile.rows if row.unmatched]
    assert rest.name == "aten.fill_"  # the loss's own gradient, a one: autograd makes it
    assert {row.phase for row in profile.rows} == {"forward", "backward", "optimizer"}


def layer(start_us, correlation):
    """One run of two layers and what is between, as a profiler has it."""
    shapes = {
        "aten::addmm": [[16], [4, 8], [8, 16]],
        "aten::relu": [[4, 16]],
        "aten::mystery": [[4, 16]],
    }
    events = []
    for number, name in enumerate(("aten::addmm", "aten::relu", "aten::mystery")):
        at, own = start_us + 10 * number, correlation + number
        dims = {"Input Dims": shapes[name], "Input type": ["float"] * len(shapes[name])}
        events += [
            call(at, 8, name, **{"External id": own, **dims}),
            launch(at + 1, correlation=own),
            kernel(at + 2, 5, name=f"k_{name}", correlation=own, **{"External id": own}),
        ]
    return events


def two_layers():
    with torch.device("meta"):
        return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU()), torch.empty(4, 8)


def test_runs_are_counted_and_what_fits_nothing_is_said(tmp_path):
    events = [event for run in range(3) for event in layer(1000 * run, 100 * run + 1)]
    profile = rooflab.load(file(tmp_path, *events), machine="h200-sxm", model=two_layers())
    one = profile.matching
    assert (one.runs, one.ops, one.ops_found, one.kernels, one.kernels_found) == (3, 2, 2, 9, 6)
    by_name = {row.name: row for row in profile.rows}
    assert by_name["aten.addmm"].executions == 3
    assert by_name["aten.addmm"].module == "0"
    assert by_name["aten.mystery"].unmatched == "not an operation of the program"
    assert by_name["aten.mystery"].prediction is None
    report = rooflab.analyze(two_layers()[0], two_layers()[1], machine="h200-sxm", mode="graph")
    predicted = sum(row.prediction.time_s for row in profile.rows if row.prediction is not None)
    assert predicted == pytest.approx(3 * report.time_s, rel=1e-9)


def test_an_operation_without_a_kernel_keeps_its_place_and_the_total(tmp_path):
    events = layer(0, 1) + [event for event in layer(1000, 101) if event["args"].get("External id") != 102]
    kept = [event for event in events if event["args"].get("correlation") != 102]
    profile = rooflab.load(file(tmp_path, *kept), machine="h200-sxm", model=two_layers())
    missing = [row for row in profile.rows if row.unmatched == "no kernel was found for it"]
    assert [(row.name, row.executions, row.time_s) for row in missing] == [("aten.relu", 1, 0.0)]
    report = rooflab.analyze(two_layers()[0], two_layers()[1], machine="h200-sxm", mode="graph")
    predicted = sum(row.prediction.time_s for row in profile.rows if row.prediction is not None)
    assert predicted == pytest.approx(2 * report.time_s, rel=1e-9)


def test_other_sizes_than_the_programs_are_said(tmp_path):
    with torch.device("meta"):
        other = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.ReLU()), torch.empty(64, 8)
    profile = rooflab.load(file(tmp_path, *layer(0, 1)), machine="h200-sxm", model=other)
    assert profile.matching.other_shapes == 2
    assert any("other sizes" in line for line in profile.warnings)


def test_another_program_is_said_not_to_be_it(tmp_path):
    with torch.device("meta"):
        other = torch.nn.Softmax(-1), torch.empty(64, 8)
    profile = rooflab.load(file(tmp_path, *layer(0, 1)), machine="h200-sxm", model=other)
    assert profile.matching.kernels_found == 0
    assert any("is it the program that was profiled?" in line for line in profile.warnings)
    assert sum(row.time_s for row in profile.rows) == pytest.approx(15e-6)


@pytest.mark.parametrize("model", [3, "gpt2", (), (3, 4), (len, [], 5)])
def test_what_is_no_program_is_refused_with_what_is_expected(model):
    with pytest.raises(RooflabError, match=r"model: got .*, expected a Report, or \(function or module, inputs\)"):
        rooflab.load(GPT2, model=model)


def graph_launch(runs):
    """Replays of a CUDA graph: kernels share the one launch, no operator is recorded."""
    names = (
        "Memset (Device)",
        "nvjet_sm90_tst_64x8_64x16_4x1_v_bz_splitK_TNT",
        "void cublasLt::splitKreduce_kernel<32, 16, int, float, float>(…)",
        "void at::native::vectorized_elementwise_kernel<4, at::native::relu_kernel>(…)",
    )
    events = []
    for run in range(runs):
        begin = 100 * run
        events.append(launch(begin, correlation=run + 1, name="cudaGraphLaunch"))
        events += [kernel(begin + 10 + 3 * at, 2, name=name, correlation=run + 1) for at, name in enumerate(names)]
    return events


def test_kernels_of_a_replayed_graph_are_told_by_their_names_and_order(tmp_path):
    profile = rooflab.load(file(tmp_path, *graph_launch(5)), machine="h200-sxm", model=two_layers())
    one = profile.matching
    assert (one.runs, one.ops_found, one.kernels, one.kernels_found) == (5, 2, 20, 20)
    by_name = {row.name: row for row in profile.rows}
    # The memset and the reduction of the split product belong to it.
    assert {kernel.runs for kernel in by_name["aten.addmm"].observation.kernels} == {5}
    assert len(by_name["aten.addmm"].observation.kernels) == 3
    assert by_name["aten.relu"].time_s == pytest.approx(10e-6)


def test_a_compilers_kernels_are_told_by_the_operators_in_their_names(tmp_path):
    def block(x, weight, bias, y):
        return torch.nn.functional.layer_norm(torch.nn.functional.gelu(x) + y, (64,), weight, bias)

    x, w = torch.empty(32, 64, device="meta"), torch.empty(64, device="meta")
    events = [launch(0, correlation=1, name="cuLaunchKernel")]
    events.append(kernel(5, 3, name="triton_per_fused_add_gelu_native_layer_norm_0", correlation=1))
    profile = rooflab.load(file(tmp_path, *events), machine="h200-sxm", model=(block, (x, w, w, x)))
    assert profile.matching.mode == "compiled"
    assert (profile.matching.ops, profile.matching.ops_found, profile.matching.kernels_found) == (1, 1, 1)
    (row,) = profile.rows
    assert row.name.startswith("fused ")


def test_the_mode_is_what_the_trace_shows():
    from rooflab.observe.importers.traces import kineto

    assert mode_of(kineto.load(GPT2)) == "graph"
