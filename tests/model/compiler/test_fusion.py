"""Fusion: what goes into one kernel, and that bytes never grow."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rooflab
from rooflab.model.compiler import dataflow, fusion
from rooflab.types.report import Report
from rooflab.types.work import Graph, Op, TensorSpec
from rooflab.work import counting

torch = pytest.importorskip("torch")
F = torch.nn.functional


def captured(function: Any, *shapes: tuple[int, ...], dtype: str = "bfloat16") -> Report:
    """The report of a PyTorch function or module on inputs of `shapes`."""
    inputs = [torch.empty(shape, device="meta", dtype=getattr(torch, dtype)) for shape in shapes]
    with torch.no_grad():
        return rooflab.analyze(function, *inputs)


def compiled(report: Report) -> Report:
    """`report` fused."""
    return counting.report(fusion.fused(report.graph), report.name)


def kernels(report: Report) -> list[tuple[str | None, int]]:
    """Kind and number of different operations of each kernel."""
    return [(row.op.kind, len(row.op.attrs.get("members", "?"))) for row in report.rows]


def rope(x: Any, cos: Any, sin: Any) -> Any:
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)


def written_out(q: Any, k: Any, v: Any) -> Any:
    return torch.softmax((q @ k.transpose(-2, -1)) * 0.125, dim=-1) @ v


def masked(q: Any, k: Any, v: Any, mask: Any) -> Any:
    return torch.softmax((q @ k.transpose(-2, -1)) * 0.125 + mask, dim=-1) @ v


def residual(x: Any, y: Any, w: Any) -> Any:
    s = x + y
    return F.layer_norm(s, (64,), w, w), s * 2


X, W = (8, 64), (64,)
CASES = [
    # name, function, shapes, kernels, bytes
    # x and b in, y out: 3 tensors of which b is one row
    (
        "chain",
        lambda x, b: torch.sigmoid(torch.relu(x + b) * 0.5) + x,
        (X, W),
        [("pointwise", 4)],
        2 * (2 * 512 + 64),
    ),
    # x, y, w in; the norm and 2·(x + y) out: 4 × 512 + 64 elements of 2 bytes (w is both weight and bias)
    ("residual and norm", residual, (X, X, W), [("norm", 3)], 2 * (4 * 512 + 64)),
    # a product stays a call of a library; its epilogue is a kernel of its own
    (
        "product",
        lambda x, w: F.relu(x @ w),
        (X, (64, 32)),
        [("matmul", 1), ("pointwise", 1)],
        2 * (512 + 2048 + 256 + 512),
    ),
    # x once (two halves), cos, sin in, the result out
    ("rope", rope, ((2, 4, 8, 64), (8, 32), (8, 32)), [("pointwise", 4)], 2 * (2 * 4096 + 2 * 256)),
    # softmax of a sum with what follows it
    ("softmax", lambda x, y: torch.softmax(x + y, -1) * 3, (X, X), [("softmax", 3)], 2 * 3 * 512),
    # sums along rows and along columns loop differently: two kernels, x + y read again by the second
    (
        "two sums",
        lambda x, y: ((x + y).sum(0), (x + y).sum(1)),
        (X, X),
        [("reduction", 2), ("reduction", 1)],
        None,
    ),
    # q, k, v in, o out
    ("attention", written_out, ((1, 2, 16, 8),) * 3, [("attention", 1)], 2 * 4 * 256),
    ("mask", masked, (*((1, 2, 16, 8),) * 3, (16, 16)), [("attention", 1)], 2 * (4 * 256 + 256)),
    # the same twice is done once
    ("twice", lambda x: torch.exp(x) @ torch.exp(x).T, (X,), [("pointwise", 1), ("matmul", 1)], None),
    # two functions of one tensor, which crosses once
    ("two results", lambda x: (torch.sin(x), torch.cos(x)), (X,), [("pointwise", 2)], 2 * 3 * 512),
    # what fills and ranges hold is computed where it is used
    (
        "constants",
        lambda x: x + torch.ones(64, device="meta", dtype=x.dtype).cos(),
        (X,),
        [("pointwise", 1)],
        2 * 2 * 512,
    ),
    # windows read each element several times: nothing is computed anew inside
    (
        "pool",
        lambda x: F.max_pool2d(torch.relu(x), 2),
        ((1, 2, 8, 8),),
        [("pointwise", 1), ("pointwise", 1)],
        None,
    ),
]


@pytest.mark.parametrize("case", CASES, ids=[case[0] for case in CASES])
def test_what_goes_into_one_kernel(case: tuple) -> None:
    """Kernels and their bytes, each derived above."""
    _, function, shapes, expected, nbytes = case
    report = captured(function, *shapes)
    made = compiled(report)
    assert [(kind, 1 if count == 1 else count) for kind, count in kernels(made)] == expected
    assert made.nbytes <= report.nbytes
    if nbytes is not None:
        assert made.nbytes == nbytes


def test_gathers_and_embeddings_count_rows_not_tables() -> None:
    """GPT's first kernel: rows of two tables and their numbers in, the norm out."""
    tables = torch.nn.Embedding(1000, 64, device="meta"), torch.nn.Embedding(32, 64, device="meta")
    norm = torch.nn.LayerNorm(64, device="meta")

    def first(ids: Any) -> Any:
        x = tables[0](ids) + tables[1](torch.arange(16, device="meta"))
        return norm(x) + x

    made = compiled(rooflab.analyze(first, torch.empty((4, 16), device="meta", dtype=torch.long)))
    (row,) = made.rows
    assert row.op.kind == "norm"
    # 64 rows of the first table, 16 of the second, weight and bias, 64 numbers; out: one tensor
    assert row.read_bytes == 4 * 64 * (64 + 16 + 2) + 8 * 64
    assert row.write_bytes == 4 * 64 * 64


def test_two_gathers_take_rows_of_their_own() -> None:
    """The same table under two lists of 16 numbers: 32 rows of 64, both lists in; one sum out."""
    table = torch.nn.Embedding(1000, 64, device="meta")
    ids = [torch.empty((16,), device="meta", dtype=torch.long) for _ in range(2)]
    (row,) = compiled(rooflab.analyze(lambda a, b: table(a) + table(b), *ids)).rows
    assert row.read_bytes == 4 * 32 * 64 + 2 * 8 * 16
    assert row.write_bytes == 4 * 16 * 64


def test_a_cache_is_written_before_attention_reads_all_of_it() -> None:
    """A slice that is written into a buffer is no substitute for the buffer."""

    class Decode(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("cache", torch.zeros(1, 2, 32, 16, device="meta"))

        def forward(self, q: Any, k: Any) -> Any:
            self.cache[:, :, -1:] = k * 2
            return F.scaled_dot_product_attention(q, self.cache, self.cache)

    q = torch.empty((1, 2, 1, 16), device="meta")
    with torch.no_grad():
        made = compiled(rooflab.analyze(Decode(), q, q))
    assert [kind for kind, _ in kernels(made)] == ["pointwise", "attention"]
    assert made.rows[0].write_bytes == 4 * 32
    assert made.rows[1].read_bytes == 4 * (32 + 1024)  # q, and all of the cache, which is keys and values, once


def test_misaligned_products_are_padded_where_they_compute() -> None:
    """50,257 columns of bf16 become 50,264, and it is said; a product that waits for memory stays."""
    busy = fusion.fused(captured(lambda x, w: x @ w.T, (4096, 768), (50257, 768)).graph)
    assert busy.tensors[busy.ops[0].outputs[0]].shape == (4096, 50264)
    assert any("padded to 16 bytes" in line for line in busy.conventions)
    idle = fusion.fused(captured(lambda x, w: x @ w.T, (1, 768), (50257, 768)).graph)
    assert idle.tensors[idle.ops[0].outputs[0]].shape == (1, 50257)


def test_convolutions_run_channels_last() -> None:
    """Activations of a network of convolutions get their channels innermost; parameters stay."""
    weight = (8, 8, 3, 3)
    report = captured(lambda x, w, v: F.conv2d(torch.relu(F.conv2d(x, w)), v), (2, 8, 16, 16), weight, weight)
    made = fusion.fused(report.graph)
    assert [made.tensors[op.outputs[0]].strides for op in made.ops[:2]] == [(8 * 14 * 14, 1, 14 * 8, 8)] * 2


def test_statistics_that_nobody_reads_are_not_written() -> None:
    """A layer norm alone: x, weight, bias in and y out; mean and rstd are for gradients."""
    report = captured(lambda x, w: F.layer_norm(x, (64,), w, w), X, W)
    assert compiled(report).nbytes == 2 * (2 * 512 + 64) < report.nbytes


def test_phases_and_loops_stay_apart() -> None:
    """Gradients are compiled by themselves: no kernel holds operations of two phases."""
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.LayerNorm(64)).to("meta")
    report = rooflab.analyze(model, torch.empty((8, 64), device="meta"), backward=True)
    made = compiled(report)
    assert {row.op.phase for row in made.rows} == {"forward", "backward"}
    assert made.nbytes < report.nbytes
    assert made.matrix_flop == report.matrix_flop


def test_compiled_reports_go_back_to_what_was_captured() -> None:
    """`on` with another mode starts from the captured program again."""
    report = captured(CASES[0][1], X, W)
    once = report.on("h200", mode="compiled")
    assert len(once.rows) == 1
    assert once.captured is report.graph
    assert once.on("h100-sxm").graph is once.graph  # fused already
    again = once.on("h200", mode="graph")
    assert [row.op for row in again.rows] == [row.op for row in report.rows]
    assert (
        Report.from_dict(once.to_dict()).on("a100-sxm-80gb", mode="graph").time_s
        == report.on("a100-sxm-80gb", mode="graph").time_s
    )


# ── properties ───────────────────────────────────────────────────────────────────────────────────────────

ROWS, COLUMNS = 16, 32


class Program:
    """A random program while it grows: tensors of (ROWS, COLUMNS), of a row's sums, and a buffer."""

    def __init__(self) -> None:
        self.tensors: list[TensorSpec] = []
        self.ops: list[Op] = []
        self.square = [self.tensor((ROWS, COLUMNS), role="input") for _ in range(2)]
        self.sums: list[int] = []
        self.weight = self.tensor((COLUMNS, COLUMNS), role="parameter")
        self.buffer = self.tensor((ROWS, COLUMNS), role="buffer")

    def tensor(self, shape: tuple[int, ...], storage: int | None = None, **more: Any) -> int:
        number = len(self.tensors)
        elements = 1
        for size in shape:
            elements *= size
        place = number if storage is None else storage
        self.tensors.append(TensorSpec(shape, "fp32", 4.0 * elements, storage=place, **more))
        return number

    def op(self, kind: str, inputs: list[int], shape: tuple[int, ...], **attrs: Any) -> int:
        out = self.tensor(shape)
        self.ops.append(
            Op(name=attrs.get("function", kind), kind=kind, inputs=tuple(inputs), outputs=(out,), attrs=attrs)
        )
        return out

    def step(self, choice: int, first: int, second: int) -> None:
        a, b = self.square[first % len(self.square)], self.square[second % len(self.square)]
        shape = (ROWS, COLUMNS)
        if choice == 0:
            self.square.append(self.op("pointwise", [a, b], shape, function="add"))
        elif choice == 1:
            self.square.append(self.op("pointwise", [a], shape, function="exp"))
        elif choice == 2:
            self.sums.append(self.op("reduction", [a], (ROWS, 1), function="sum"))
        elif choice == 3 and self.sums:
            self.square.append(
                self.op("pointwise", [a, self.sums[second % len(self.sums)]], shape, function="sub")
            )
        elif choice == 4:
            self.square.append(self.op("matmul", [a, self.weight], shape, k=COLUMNS))
        elif choice == 5:
            self.square.append(self.op("softmax", [a], shape, log=False))
        elif choice == 6:
            view = self.tensor((COLUMNS, ROWS), storage=self.tensors[a].storage, strides=(1, COLUMNS))
            self.ops.append(Op(name="t", kind="view", inputs=(a,), outputs=(view,)))
            self.square.append(self.op("layout", [view], shape))
        elif choice == 7:
            self.ops.append(Op(name="copy_", kind="layout", inputs=(a,), outputs=(self.buffer,)))
            self.square.append(self.buffer)
        elif choice == 8:
            self.square.append(self.op("create", [], shape, function="zeros"))
        elif choice == 9:
            self.ops.append(
                Op(
                    name="add_",
                    kind="pointwise",
                    inputs=(a, b),
                    outputs=(a,),
                    attrs={"function": "add", "in_place": True},
                )
            )
        elif choice == 10:
            half = self.tensor((ROWS // 2, COLUMNS), storage=self.tensors[a].storage)
            self.ops.append(Op(name="slice", kind="view", inputs=(a,), outputs=(half,)))
            self.op("pointwise", [half], (ROWS // 2, COLUMNS), function="relu")


STEPS = st.lists(st.tuples(st.integers(0, 10), st.integers(0, 20), st.integers(0, 20)), min_size=1, max_size=40)


@pytest.mark.slow
@given(STEPS)
@settings(max_examples=300)
def test_fusion_never_adds_bytes_nor_breaks_the_order(steps: list[tuple[int, int, int]]) -> None:
    """Random programs: no more bytes than before, the same matrix FLOP, every operand there before it is read."""
    program = Program()
    for step in steps:
        program.step(*step)
    graph = Graph(framework="hand", tensors=tuple(program.tensors), ops=tuple(program.ops))
    before = counting.report(graph, "random")
    after = counting.report(fusion.fused(graph), "random")
    assert after.coverage.complete
    assert after.nbytes <= before.nbytes
    assert after.matrix_flop <= before.matrix_flop  # the same product twice is done once
    there: set[int] = {program.tensors[index].storage for index in (0, 1, program.weight, program.buffer)}
    spared = {graph.tensors[index].storage for op in graph.ops if op.kind == "create" for index in op.outputs}
    for row in after.rows:
        places = {after.graph.tensors[index].storage for index in row.op.inputs}
        assert places <= there | spared, row.op
        there |= {after.graph.tensors[index].storage for index in row.op.outputs}
    # What nobody reads at the end is a result, and still written.
    flow = dataflow.flow(graph.tensors, graph.ops)
    for place, writers in flow.writers.items():
        if not flow.readers[writers[-1]].get(place):
            assert place in there


def test_the_points_of_a_stencil_are_read_once():
    report = captured(lambda x: x[2:] + x[1:-1] + x[:-2], (1000,), dtype="float32")
    # eager: x but its first in, 999 and 998 of it; a sum of 998 in, x[:-2] in; each 998 out
    assert [row.read_bytes for row in report.rows if row.op.kind != "view"] == [4 * 999, 4 * (998 + 998)]
    fused = compiled(report)
    assert (fused.read_bytes, fused.write_bytes) == (4 * 1000, 4 * 998)
    apart = compiled(captured(lambda x: x[:500] + x[500:], (1000,), dtype="float32"))
    assert (apart.read_bytes, apart.write_bytes) == (4000, 2000)
    gram = captured(lambda x: x @ x.T, (64, 32), dtype="float32")
    assert gram.read_bytes == 4 * 64 * 32
