"""`analyze` and `op` from Python and from the command line, end to end."""

from __future__ import annotations

import json
import re

import pytest

import rooflab
from rooflab.errors import RooflabError
from rooflab.types.report import Report

torch = pytest.importorskip("torch", reason="the torch front end needs torch")


def test_a_module_is_counted_on_meta_tensors():
    with torch.device("meta"):
        layers = torch.nn.Sequential(torch.nn.Linear(1024, 4096), torch.nn.ReLU())
        x = torch.empty(512, 1024)
    found = rooflab.analyze(layers, x, machine="h200")
    assert found.coverage.complete
    assert found.name == "Sequential"
    # 2·512·1024·4096
    assert found.matrix_flop == 4_294_967_296
    assert found.parameters == 1024 * 4096 + 4096
    # weight and bias, x and both activations
    assert found.memory.parameters_bytes == 4 * found.parameters
    assert found.memory.inputs_bytes == 4 * 512 * 1024
    assert found.peak_memory_bytes >= 4 * (found.parameters + 512 * 1024 + 512 * 4096)
    by_kind = {row.op.kind: row for row in found.rows}
    assert by_kind["matmul"].prediction.floor_s == by_kind["matmul"].cost.total_flop / 66.9e12
    assert found.bound is not None
    assert found.environment["torch"] == torch.__version__


def test_a_module_applied_three_times_has_its_parameters_once():
    layer = torch.nn.Linear(100, 100, bias=True)
    found = rooflab.analyze(lambda x: layer(layer(layer(x))), torch.empty(1, 100))
    assert found.parameters == 10_100
    assert found.matrix_flop == 60_000


def test_training_adds_up_by_phase_and_module():
    with torch.device("meta"):
        layers = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.Linear(128, 32, bias=False))
        x = torch.empty(16, 64)
    found = rooflab.analyze(lambda x: layers(x).sum(), x, backward=True)
    forward = sum(group.matrix_flop for group in found.by("kind", "forward"))
    backward = sum(group.matrix_flop for group in found.by("kind", "backward"))
    # 2·16·(64·128 + 128·32), twice for the backward but for the gradient of x, which is not asked for
    assert forward == 393_216
    assert backward == 2 * forward - 2 * 16 * 64 * 128
    assert found.by("module")[0].flop == found.flop
    # fp32 weights and bias
    assert found.memory.gradients_bytes == 4 * (64 * 128 + 128 + 128 * 32)


def test_keywords_go_in_kwargs_and_the_settings_are_keywords():
    found = rooflab.analyze(torch.add, torch.empty(6), kwargs={"other": torch.empty(6)}, name="sum")
    assert (found.name, found.flop, found.nbytes) == ("sum", 6, 72)


def test_grouped_queries_and_unfused_attention():
    q, k = torch.empty(1, 8, 256, 64, device="meta"), torch.empty(1, 2, 256, 64, device="meta")

    def attend(q, k):
        return torch.nn.functional.scaled_dot_product_attention(q, k, k.clone(), enable_gqa=True)

    fused = rooflab.analyze(attend, q, k)
    unfused = rooflab.analyze(attend, q, k, attention="unfused")
    # 4·8·256²·64
    assert fused.matrix_flop == unfused.matrix_flop == 134_217_728
    assert unfused.nbytes > fused.nbytes


def test_a_report_of_torch_comes_back_from_json(tmp_path):
    path = tmp_path / "report.json"
    found = rooflab.analyze(torch.nn.Linear(4, 8), torch.empty(2, 4), machine="h200")
    found.save(str(path))
    assert Report.from_dict(json.loads(path.read_text(encoding="utf-8"))) == found


BAD_CALLS = (
    (lambda x: x.view(7), (torch.empty(6),), "shape '\\[7\\]' is invalid"),
    (lambda x: x @ x, (torch.empty(2, 3),), "mat1 and mat2|cannot be multiplied"),
    (lambda x: torch.nonzero(x) + 1, (torch.empty(6, device="meta"),), "nonzero"),
    (lambda x: x * x.sum().item(), (torch.empty(6, device="meta"),), "item|real data|_local_scalar_dense"),
)


@pytest.mark.parametrize(("function", "args", "said"), BAD_CALLS)
def test_what_cannot_be_captured_is_one_clear_line(function, args, said):
    with pytest.raises(RooflabError, match=said) as caught:
        rooflab.analyze(function, *args)
    assert "\n" not in str(caught.value)


PROGRAM = """
import torch

def model(batch=8):
    with torch.device("meta"):
        return torch.nn.Linear(64, 32), torch.empty(batch, 64)

def itself():
    return torch.relu(torch.empty(1000, device="meta"))

def item():
    return (lambda x: x * x.sum().item()), torch.empty(3, device="meta")

def missing():
    return torch.nn.Linear(64, 32), ()

def wrong_dtype():
    return torch.nn.Linear(64, 32), torch.zeros(2, 64, dtype=torch.float64)

def broken():
    return torch.nn.Linear(64, 32), torch.empty(2, 64).shap
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    path = tmp_path_factory.mktemp("analyze") / "program.py"
    path.write_text(PROGRAM, encoding="utf-8")
    return path


@pytest.mark.slow
def test_the_command_analyzes_a_module_and_writes_files(command, program, tmp_path):
    page, rows = tmp_path / "report.html", tmp_path / "rows.csv"
    done = command("analyze", f"{program}:model", "--batch", 4, "--machine", "h200", "-o", page, "-o", rows)
    assert (done.code, done.err) == (0, f"rooflab: wrote {page}, {rows}\n")
    lines = done.out.splitlines()
    assert lines[:2] == [
        "model",
        f"Coverage 100 %: {lines[1].split()[3]} of {lines[1].split()[5]} operations counted.",
    ]
    # 2·4·64·32, and 4·32 for the bias
    assert "FLOP         16.5 kFLOP (16,512)" in done.out
    assert "overhead: host" in done.out
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert rows.read_text(encoding="utf-8").startswith("name,kind,module,where,phase")


def test_the_command_prints_json_and_nothing_else(command, program):
    done = command("analyze", f"{program}:itself", "--json")
    assert (done.code, done.err) == (0, "")
    assert json.loads(done.out)["totals"]["flop"] == 1000


BAD_COMMANDS = (
    (":item", "item|real data|_local_scalar_dense"),
    (":missing", "input"),
    (":wrong_dtype", "dtype|same type|Double"),
    (":broken", r"AttributeError: 'Tensor' object has no attribute 'shap' \(.*program.py:21\)"),
    (":modle", "unknown name in .*program.py 'modle'; did you mean model"),
)


@pytest.mark.parametrize(("name", "said"), BAD_COMMANDS)
def test_bad_input_is_one_line_and_exit_code_2(command, program, name, said):
    done = command("analyze", f"{program}{name}")
    assert (done.code, done.out) == (2, "")
    assert done.err.count("\n") == 1
    assert re.search(said, done.err), done.err


def test_debug_shows_the_traceback_too(command, program):
    done = command("analyze", f"{program}:broken", "--debug")
    assert done.code == 2
    assert done.err.startswith("Traceback (most recent call last):")


def test_an_output_that_cannot_be_written_is_said_before_the_target_runs(command, program):
    done = command("analyze", f"{program}:broken", "-o", "report.docx")
    known = ".json, .csv, .parquet, .html, .md, .svg, .png, .pdf"
    assert done.err == f"rooflab: report.docx: suffix '.docx', expected one of {known}\n"


OP_COMMANDS = (
    (("matmul", "4096x4096", "4096x4096", "--dtype", "bf16"), "FLOP         137 GFLOP (137,438,953,472)"),
    (("attention", "1x8x128x64", "--causal"), "attention: causal pairs counted exactly, fused"),
    (("attention", "1x8x128x64", "--unfused", "--kv-heads", "2"), "unfused: scores cross memory"),
    (("conv2d", "1x3x8x8", "4x3x3x3", "--padding", "same", "--bias"), "MAC          6.91 kMAC (6,912)"),
    (("lstm", "10x4x32", "--hidden", "64"), "MAC          983 kMAC (983,040)"),
    (("all_reduce", "1000000", "--ranks", "4"), "on the wire  6.00 MB a rank"),
    (("cast", "1000", "--set", "to=bf16"), "bytes        6.00 kB: 4.00 kB read, 2.00 kB written"),
    (("--list",), "attention"),
)


@pytest.mark.parametrize(("arguments", "said"), OP_COMMANDS)
def test_op_counts_by_hand(command, arguments, said):
    done = command("op", *arguments)
    assert (done.code, done.err) == (0, "")
    assert said in done.out


BAD_OPS = (
    (
        ("matmul", "2x3", "4x5"),
        "rooflab: matmul: a 2x3 has 3 columns but b 4x5 has 4 rows, expected the same number\n",
    ),
    (("softmacks", "2x3"), "rooflab: unknown operation 'softmacks'; did you mean softmax"),
    (("cast", "8", "--set", "to"), "rooflab: --set to: expected NAME=VALUE\n"),
    ((), "op needs a KIND and the SHAPES"),
)


@pytest.mark.parametrize(("arguments", "said"), BAD_OPS)
def test_bad_operations_say_what_to_write(command, arguments, said):
    done = command("op", *arguments)
    assert (done.code, done.out) == (2, "")
    assert said in done.err
