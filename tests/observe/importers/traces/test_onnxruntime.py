"""Profiles of onnxruntime: recorded ones of two graphs on a CPU, and what other versions and providers write.

The samples were written by onnxruntime 1.32 (CPUExecutionProvider, 2 threads, two runs each) of graphs that were
made for it: a CNN (convolution, depthwise convolution, pools, a product) and a block of attention.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import rooflab
from rooflab.errors import FileError
from rooflab.observe.importers.traces import kineto, onnxruntime
from rooflab.observe.matching.ledger import ledger
from rooflab.observe.timeline import timeline

SAMPLES = Path(__file__).parents[3] / "samples" / "profiles" / "onnxruntime"


def node(name="a", op="Relu", start=10, long=5, provider="CPUExecutionProvider", inputs=None, outputs=None, tid=1):
    args = {"op_name": op, "provider": provider}
    if inputs is not None:
        args["input_type_shape"] = [{"float": list(one)} for one in inputs]
        args["output_type_shape"] = [{"float": list(one)} for one in outputs]
    event = {"cat": "Node", "pid": 7, "tid": tid, "dur": long, "ts": start, "ph": "X", "args": args}
    return event | {"name": f"{name}_kernel_time"}


def profile(folder, *events):
    path = folder / "p.json"
    begin = {"cat": "Session", "pid": 7, "tid": 1, "dur": 3, "ts": 1, "ph": "X", "name": "session_initialization"}
    path.write_text(json.dumps([begin, *events]), encoding="utf-8")
    return onnxruntime.load(path)


def rows_of(trace):
    return {(row.name, row.shapes): row for row in ledger(trace).rows}


def test_a_recorded_block_of_attention():
    """16 tokens of width 64 in 4 heads of 16: counts from the graph that was run."""
    trace = onnxruntime.load(SAMPLES / "attention_cpu.json")
    rows = rows_of(trace)
    assert trace.framework == "onnx"
    # The four projections share a row: 2·16·64·64 each, in each of the two runs, weights packed and so unseen.
    projections = rows["MatMul", "1x16x64 · 64x64"]
    assert (projections.executions, projections.flop) == (8, 8 * 2 * 16 * 64 * 64)
    assert projections.nbytes == 8 * 4 * (16 * 64 + 64 * 64 + 16 * 64)
    assert rows["MatMul", "1x16x64 · 64x256"].flop == 2 * 2 * 16 * 64 * 256
    # Scores: 4 heads of 16x16 · 16x16, by a node that may transpose: all sizes are 16.
    assert rows["FusedMatMul", "1x4x16x16 · 1x4x16x16"].flop == 2 * 4 * 2 * 16**3
    lookup = rows["Gather", "100x64 · 1x16"]
    assert (lookup.flop, lookup.kind) == (0, "gather")
    assert all(row.cost is not None for row in rows.values())
    (device,) = timeline(trace).devices
    assert (device.device, device.kernels) == (-1, 44)
    assert device.busy_s == pytest.approx(device.kernels_s)  # one after the other
    assert [step.name for step in timeline(trace).steps] == ["step 0 of model_run", "step 1 of model_run"]


def test_a_recorded_cnn():
    """Convolutions 3→8 with stride 2 to 16x16, and depthwise over 8; the pool's window is not recorded."""
    rows = {(row.name, row.shapes): row for row in rooflab.load(SAMPLES / "cnn_cpu.json").rows}
    first = rows["Conv", "2x3x32x32 · 8x3x3x3 · 8"]
    outputs = 2 * 8 * 16 * 16
    assert first.flop == 2 * (2 * outputs * 3 * 9 + outputs)  # two runs; a bias each
    assert rows["Conv", "2x8x16x16 · 8x1x3x3 · 8"].flop == 2 * (2 * outputs * 9 + outputs)
    assert rows["Gemm", "2x8 · 8x10 · 10"].flop == 2 * (2 * 2 * 8 * 10 + 2 * 10)
    pool = next(row for (name, _), row in rows.items() if name == "MaxPool")
    assert (pool.kind, pool.cost) == ("pool", None)
    assert "window" in pool.why


def test_a_condition_leaves_its_time_to_the_nodes_within(tmp_path):
    trace = profile(
        tmp_path,
        node("body", "Relu", 12, 4, inputs=[(8,)], outputs=[(8,)]),
        node("if", "If", 10, 10),
        node("after", "Relu", 20, 4, inputs=[(8,)], outputs=[(8,)]),
    )
    assert sum(trace.kernels.duration_s) == pytest.approx(8e-6)
    assert {row.name for row in ledger(trace).rows} == {"Relu"}


def test_kernels_of_a_gpu_belong_to_their_node(tmp_path):
    """Built from the fields that onnxruntime's tracer of GPUs writes, not written by it."""
    gpu = {"provider": "CUDAExecutionProvider", "inputs": [(4, 8), (8, 2)], "outputs": [(4, 2)]}
    kernel = {"cat": "Kernel", "pid": 7, "tid": 1, "dur": 30, "ts": 12, "ph": "X", "name": "sgemm_32x32"}
    args = {"stream": "7", "grid_x": "4", "grid_y": "1", "grid_z": "1", "block_x": "128", "block_y": "1"}
    args |= {"block_z": "1", "op_name": "MatMul", "parent_name": "m_kernel_time"}
    trace = profile(tmp_path, node("m", "MatMul", 10, 5, **gpu), kernel | {"args": args})
    (row,) = ledger(trace).rows
    assert (row.name, row.flop, row.time_s) == ("MatMul", 2 * 4 * 8 * 2, pytest.approx(30e-6))
    assert trace.shapes[trace.kernels.shape[0]].grid == (4, 1, 1)
    assert timeline(trace).devices[0].device == 0


def test_launches_are_not_taken_for_kernels(tmp_path):
    trace = profile(tmp_path, node("m", "MatMul", provider="CUDAExecutionProvider", inputs=[], outputs=[]))
    assert not len(trace.kernels)
    assert any("CUDAExecutionProvider" in note and "launching" in note for note in trace.notes)


def test_what_shapes_leave_open_is_not_counted(tmp_path):
    nodes = [
        node("c", "Conv", 10, inputs=[(1, 3, 8, 8), (4,)], outputs=[(1, 4, 8, 8)]),  # weights were packed
        node("g", "Gelu", 20, inputs=[(8,)], outputs=[(8,)]),
        node("p", "Pow", 30, inputs=[(8,), ()], outputs=[(8,)]),
        node("u", "MyOwnOperator", 40, inputs=[(8,)], outputs=[(8,)]),
    ]
    rows = ledger(profile(tmp_path, *nodes)).rows
    assert [row.cost for row in rows] == [None] * 4
    whys = " | ".join(row.why or "" for row in rows)
    assert all(word in whys for word in ("packed", "tanh", "exponent", "not in the vocabulary"))


def test_a_transposed_product_counts_the_side_that_fits(tmp_path):
    """a is 64x16 and the result 16x32: the 64 is contracted, whatever the node says of transposition."""
    trace = profile(tmp_path, node("m", "FusedMatMul", inputs=[(64, 16), (32, 64)], outputs=[(16, 32)]))
    assert ledger(trace).rows[0].flop == 2 * 16 * 32 * 64


def test_groups_and_transposed_convolutions(tmp_path):
    trace = profile(
        tmp_path,
        node("g", "Conv", 10, inputs=[(1, 8, 6, 6), (4, 4, 3, 3)], outputs=[(1, 4, 6, 6)]),
        node("t", "ConvTranspose", 20, inputs=[(1, 8, 6, 6), (8, 4, 2, 2)], outputs=[(1, 4, 12, 12)]),
    )
    flop = {row.name: row.flop for row in ledger(trace).rows}
    assert flop["Conv"] == 2 * (4 * 36) * 4 * 9  # 8 channels in two groups: 4 each
    assert flop["ConvTranspose"] == 2 * (8 * 36) * 4 * 4  # each input spread over 4 channels and 2x2


def test_the_module_path_of_an_exported_model(tmp_path):
    name = "/model/layers.0/q_proj/MatMul"
    trace = profile(tmp_path, node(name, "MatMul", inputs=[(4, 8), (8, 2)], outputs=[(4, 2)]))
    assert ledger(trace).rows[0].module == "model.layers.0.q_proj"


def test_what_cannot_be_true_is_dropped_and_counted(tmp_path):
    bad = [node("a", start=-5), node("b", long="long"), node("c", start=float("nan"))]
    trace = profile(tmp_path, *bad, node("d"))
    assert len(trace.kernels) == 1
    assert [(one.count, one.why) for one in trace.dropped] == [
        (3, "without a start or a duration that can be true")
    ]


def test_a_profile_without_a_run(tmp_path):
    with pytest.raises(FileError, match="no node that ran"):
        profile(tmp_path)


def test_other_tools_lists_are_left_to_them():
    ours = b'[\n{"cat" : "Session","pid" :1,"ph" : "X","name" :"model_loading_uri","args" : {}},'
    theirs = b'[{"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 1, "ts": 1, "dur": 2}]'
    assert (onnxruntime.sniff(ours), kineto.sniff(ours)) == (True, False)
    assert (onnxruntime.sniff(theirs), kineto.sniff(theirs)) == (False, True)


def test_a_machine_predicts_the_nodes_of_a_graph():
    """Nodes that only look at a tensor differently make nothing, and take nothing."""
    profile = rooflab.load(SAMPLES / "attention_cpu.json", machine="epyc-7763")
    rows = {(row.name, row.shapes): row for row in profile.rows}
    product = rows["MatMul", "1x16x64 · 64x256"].prediction
    assert product is not None
    assert product.time_s > 0
    assert rows["Reshape", "1x16x64"].nbytes == 0
