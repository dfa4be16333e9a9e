"""Traces of XLA as Chrome's events: one that JAX recorded on a CPU, and what GPUs and TPUs write.

The sample was written by JAX 0.10.2 on a CPU: three steps of a function with products of 256x256, a convolution, a
sort and a softmax. Lines of GPUs and TPUs are built from the fields that XLA's profiler documents, not written by
it.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from rooflab.errors import FileError
from rooflab.observe.importers.traces import kineto, xla_trace, xla_xplane
from rooflab.observe.matching.ledger import ledger
from rooflab.observe.timeline import timeline
from rooflab.types.trace import COPY

PROFILES = Path(__file__).parents[3] / "samples" / "profiles"
SAMPLE = PROFILES / "xla_trace" / "cpu.trace.json.gz"


def named(kind, pid, name, tid=None):
    event = {"ph": "M", "pid": pid, "name": f"{kind}_name", "args": {"name": name}}
    return event if tid is None else event | {"tid": tid}


def ran(name, ts, dur, pid=1, tid=1, **args):
    return {"ph": "X", "pid": pid, "tid": tid, "ts": ts, "dur": dur, "name": name, "args": args}


def load(folder, *events):
    path = folder / "t.json"
    path.write_text(
        json.dumps({"displayTimeUnit": "ns", "metadata": {"highres-ticks": True}, "traceEvents": [*events, {}]}),
        encoding="utf-8",
    )
    return xla_trace.load(path)


TPU = (
    named("process", 1, "/device:TPU:0"),
    named("thread", 1, "XLA Ops", tid=1),
    named("thread", 1, "Steps", tid=2),
    named("thread", 1, "XLA Modules", tid=3),
)
GPU = (
    named("process", 1, "/device:GPU:0"),
    named("thread", 1, "Stream #20(Compute)", tid=1),
    named("thread", 1, "XLA Ops", tid=2),
)


def test_a_recorded_run_on_a_cpu():
    trace = xla_trace.load(SAMPLE)
    rows = {row.name: row for row in ledger(trace).rows}
    assert trace.framework == "xla"
    assert {rows[name].executions for name in ("convolution", "sort.0")} == {3}
    assert rows["sort.0"].cost is None
    assert rows["sort.0"].module == "jit_f"
    found = timeline(trace)
    assert [step.name for step in found.steps] == [f"step {number} of train" for number in range(3)]
    (device,) = found.devices
    assert device.device == -1
    assert device.kernels == 45
    assert 0 < device.busy_s <= device.kernels_s * (1 + 1e-9)


def test_both_forms_of_the_run_agree():
    one, other = xla_trace.load(SAMPLE), xla_xplane.load(PROFILES / "xla_xplane" / "cpu.xplane.pb")
    assert [one.names[name] for name in one.kernels.name] == [other.names[name] for name in other.kernels.name]
    np.testing.assert_allclose(one.kernels.start_s, other.kernels.start_s, atol=1e-9)
    np.testing.assert_allclose(one.kernels.duration_s, other.kernels.duration_s, atol=1e-9)
    assert len(one.calls) == len(other.calls)


def test_what_the_compiler_states_of_a_tpus_operations(tmp_path):
    long_name = "%fusion.3 = bf16[512,256]{1,0:T(8,128)} fusion(bf16[512,1024]{1,0} %p0, bf16[1024,256]{1,0} %p1)"
    trace = load(
        tmp_path,
        *TPU,
        ran("fusion.3", 10, 5, hlo_category="convolution fusion", long_name=long_name, model_flops="268435456",
            bytes_accessed="1835008", tf_op="jit(step)/model/layer_0/dot_general:"),
        ran("copy.1", 16, 1, hlo_category="copy", bytes_accessed="2048", model_flops="0"),
        ran("jit_step(12)", 9, 10, tid=3),
        ran("7", 9, 10, tid=2),
    )  # fmt: skip
    rows = {row.name: row for row in ledger(trace).rows}
    product = rows["fusion.3"]
    assert product.counted is not None
    assert [(one.engine, one.dtype) for one in product.counted.flop or ()] == [("matrix", "bf16")]
    assert (product.flop, product.nbytes) == (2 * 512 * 1024 * 256, 1835008)
    assert product.module == "step.model.layer_0"
    assert (rows["copy.1"].flop, rows["copy.1"].nbytes) == (0, 2048)
    assert len(trace.kernels) == 2  # neither the module nor the step
    assert timeline(trace).steps[0].name == "step 7 of /device:TPU:0"


def test_a_gpus_streams_are_its_activities(tmp_path):
    details = "regs:32 static_shared:16 dynamic_shared:1024 grid:64,2,1 block:256,1,1 occ_pct:100"
    host = (named("process", 7, "/host:CPU"), named("thread", 7, "python", tid=1))
    trace = load(
        tmp_path,
        *GPU,
        *host,
        ran("cuLaunchKernel", 5, 2, pid=7, correlation_id="31"),
        ran("loop_fusion_kernel", 10, 5, hlo_op="loop_fusion", hlo_module="jit_f", kernel_details=details,
            correlation_id="31"),
        ran("MemcpyH2D", 20, 2, memcpy_details="kind_src:pinned kind_dst:device size:4096 dest:0 async:1"),
        ran("loop_fusion", 10, 5, tid=2),
    )  # fmt: skip
    kernels = trace.kernels
    assert len(kernels) == 2  # the line of operations repeats what the stream has
    assert list(kernels.kind) == [0, COPY]
    assert kernels.nbytes[1] == 4096
    shape = trace.shapes[kernels.shape[0]]
    assert (shape.grid, shape.block, shape.registers, shape.shared_bytes) == ((64, 2, 1), (256, 1, 1), 32, 1040)
    assert trace.launches.correlation[0] == kernels.correlation[0] == 31
    assert ledger(trace).rows[0].name == "loop_fusion"


def test_a_loop_leaves_its_time_to_what_it_runs(tmp_path):
    trace = load(tmp_path, *TPU, ran("while.1", 10, 10), ran("fusion.1", 10, 4), ran("fusion.2", 14, 4))
    assert sum(trace.kernels.duration_s) == pytest.approx(8e-6)


def test_numbers_that_cannot_be_true(tmp_path):
    trace = load(
        tmp_path,
        *TPU,
        ran("a", -1, 5),
        ran("b", "soon", 5),
        ran("c", 10, 5, model_flops="-3", bytes_accessed="many"),
    )
    assert [one.count for one in trace.dropped] == [2]
    assert ledger(trace).rows[0].flop is None


def test_a_trace_of_the_host_alone(tmp_path):
    with pytest.raises(FileError, match="no operation of XLA"):
        load(tmp_path, named("process", 7, "/host:CPU"), ran("PjitFunction(f)", 1, 2, pid=7))


def test_other_tools_events_are_left_to_them():
    ours = b'{"displayTimeUnit":"ns","metadata":{"highres-ticks":true},"traceEvents":[{"ph":"M","pid":701,'
    theirs = b'{"schemaVersion": 1, "displayTimeUnit": "ms", "traceEvents": [{"ph": "X", "cat": "cpu_op"'
    assert (xla_trace.sniff(ours), kineto.sniff(ours)) == (True, False)
    assert (xla_trace.sniff(theirs), kineto.sniff(theirs)) == (False, True)
