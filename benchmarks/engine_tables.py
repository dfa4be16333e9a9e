"""What serving engines ran for each row of their kernel tables, as graphs of operations written by hand.

A linear layer of an engine is more than its product: activations are scaled and cast first. The kernels of each
number format are named here, by engine; nothing in it is fitted. Graphs are replayed with the weights of several
copies in turn, so that those of a small layer still lie in the cache and those of a large one do not.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from rooflab.dtypes import dtype as number_format
from rooflab.types.report import Report
from rooflab.types.work import Graph, Op, TensorSpec
from rooflab.work import by_hand, counting

COPIES = 6  # of the weights, taken in turn; the tables of block formats and fp4 have one
ONE_COPY = ("fp8_block", "nvfp4")
# Nine replays (ai-dynamo/aiconfigurator, collector/helper.py): too few for power and heat to settle.
GRAPH = {"mode": "graph", "cache": "warm", "power": "burst"}

Sizes = tuple[int, int, int]


class Run(NamedTuple):
    """What a row timed: a program, how often it does what the row's time is of, and how it ran."""

    report: Report
    times: int
    settings: dict[str, Any]


class Program:
    """A graph written operation by operation; tensors of one name share memory."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._tensors: list[TensorSpec] = []
        self._ops: list[Op] = []
        self._storages: dict[str, int] = {}

    def add(
        self, kind: str, inputs: dict[str, Any], out: str, dtype: str, *, to: str | None = None, **attrs: Any
    ) -> None:
        """One operation on `inputs` (names and shapes), its result called `out`, in the format `to` if given."""
        attrs |= {"affine": False} if kind == "rms_norm" else {"to": to} if kind == "cast" else {}
        graph = by_hand.graph(kind, inputs.values(), dtype=dtype, **attrs)
        op = graph.ops[0]
        taken = tuple(self._place(name, graph.tensors[at]) for name, at in zip(inputs, op.inputs, strict=True))
        result = graph.tensors[op.outputs[0]]
        if to is not None:
            nbytes = result.elements * number_format(to).bits / 8
            result = msgspec.structs.replace(result, dtype=number_format(to).name, nbytes=nbytes)
        self._ops.append(msgspec.structs.replace(op, inputs=taken, outputs=(self._place(out, result),)))

    def add_grouped(
        self, rows: tuple[str, int, int, str], weights: tuple[str, int, int, str], out: str, active: int
    ) -> None:
        """Rows (name, how many, k, format), each times one of the matrices (name, how many, n, format)."""
        first, m, k, multiplied = rows
        second, groups, n, stored = weights
        bits = number_format(stored).bits
        specs = (
            (first, TensorSpec((m, k), multiplied, m * k * number_format(multiplied).bits / 8)),
            (second, TensorSpec((groups, k, n), stored, groups * k * n * bits / 8, role="parameter")),
            (out, TensorSpec((m, n), "bf16", m * n * 2.0)),
        )
        a, b, result = (self._place(name, spec) for name, spec in specs)
        attrs = {"active": active, "compute": multiplied, "weight_bits": bits}
        op = Op(name="grouped_matmul", kind="grouped_matmul", inputs=(a, b), outputs=(result,), attrs=attrs)
        self._ops.append(op)

    def add_move(self, source: str, read: tuple[int, int], out: str, written: tuple[int, int]) -> None:
        """A kernel that only moves: it reads all of `source` and writes `out`, both bf16."""
        specs = [TensorSpec(shape, "bf16", 2.0 * shape[0] * shape[1]) for shape in (read, written)]
        taken, made = self._place(source, specs[0]), self._place(out, specs[1])
        self._ops.append(Op(name="copy", kind="copy", inputs=(taken,), outputs=(made,)))

    def _place(self, name: str, spec: TensorSpec) -> int:
        storage = self._storages.setdefault(name, len(self._storages))
        self._tensors.append(msgspec.structs.replace(spec, storage=storage))
        return len(self._tensors) - 1

    def report(self, name: str) -> Report:
        """The costs of all of it."""
        return counting.report(Graph(framework="hand", tensors=tuple(self._tensors), ops=tuple(self._ops)), name)


def linear(engine: str, word: str, sizes: Sizes) -> Run:
    """A linear layer from k to n features of m tokens, as `engine` runs it in the format that `word` names."""
    if word not in _LINEAR:
        raise ValueError(f"gemm_dtype {word!r}: what it multiplies is not known; known: {', '.join(_LINEAR)}")
    copies = 1 if word in ONE_COPY else COPIES
    program = Program()
    for copy in range(copies):
        _LINEAR[word](program, engine, sizes, f"weights {copy}")
    # vLLM's block formats were timed without a graph: the host starts every kernel.
    mode = "eager" if (engine, word) == ("vllm", "fp8_block") else "graph"
    return Run(program.report(f"{word} linear"), copies, {**GRAPH, "mode": mode})


def _half(program: Program, engine: str, sizes: Sizes, weights: str) -> None:
    m, n, k = sizes
    program.add("linear", {"x": (m, k), weights: (n, k)}, "out", "bf16")


def _fp8(program: Program, engine: str, sizes: Sizes, weights: str) -> None:
    """TensorRT-LLM scales a whole tensor with PyTorch's operations; the others each token in one kernel."""
    m, n, k = sizes
    if engine == "trtllm":
        scale_tensor(program, m, k)
        write_scaled(program, m, k)
    else:
        scale_rows(program, m, k, "fp8")
    program.add("linear", {"q": (m, k), weights: (n, k)}, "out", "fp8", to="bf16")


def _blocks(program: Program, engine: str, sizes: Sizes, weights: str) -> None:
    """A kernel scales each row's blocks of 128; the product applies the scales, a hundredth of the bytes."""
    m, n, k = sizes
    scale_rows(program, m, k, "fp8")
    program.add("linear", {"q": (m, k), weights: (n, k)}, "out", "fp8", to="bf16")


def _fp4(program: Program, engine: str, sizes: Sizes, weights: str) -> None:
    m, n, k = sizes
    scale_rows(program, m, k, "fp4")
    program.add("linear", {"q": (m, k), weights: (n, k)}, "out", "fp4", to="bf16")


def _weights_only(bits: int) -> Any:
    def step(program: Program, engine: str, sizes: Sizes, weights: str) -> None:
        m, n, k = sizes
        program.add("linear", {"x": (m, k), weights: f"{n}x{k}:int{bits}"}, "out", "fp16")

    return step


def _smooth(program: Program, engine: str, sizes: Sizes, weights: str) -> None:
    """SmoothQuant: activations arrive as int8, the product scales its result."""
    m, n, k = sizes
    program.add("linear", {"q": (m, k), weights: (n, k)}, "out", "int8", to="fp16")


_LINEAR = {
    "bf16": _half,
    "fp8": _fp8,
    "fp8_block": _blocks,
    "nvfp4": _fp4,
    "int8_wo": _weights_only(8),
    "int4_wo": _weights_only(4),
    "sq": _smooth,
}


def scale_tensor(program: Program, m: int, k: int) -> None:
    """The scale of a whole tensor with PyTorch's operations: |x|, its maximum, and arithmetic on one number."""
    program.add("abs", {"x": (m, k)}, "size", "bf16")
    program.add("sum", {"size": (m, k)}, "most", "bf16")  # a maximum costs what a sum does
    program.add("cast", {"most": (1,)}, "number", "bf16", to="fp32")
    program.add("div", {"number": (1,), "limit": (1,)}, "scale", "fp32")


def write_scaled(program: Program, m: int, k: int) -> None:
    """The tensor in fp8: the engines convert with one instruction, where PyTorch's cast takes many."""
    program.add("copy", {"x": (m, k)}, "q", "bf16", to="fp8")


def scale_rows(program: Program, m: int, k: int, to: str, source: str = "x", out: str = "q") -> None:
    """One kernel that finds each row's scale and writes the row in `to`: what a norm without weights does."""
    program.add("rms_norm", {source: (m, k)}, out, "bf16", to=to)


def quantize(engine: str, m: int, k: int) -> Run:
    """The cast with a scale that is known."""
    program = Program()
    write_scaled(program, m, k)
    return Run(program.report("static quantising"), 1, {**GRAPH, "power": "burst"})


def scale(engine: str, m: int, k: int) -> Run:
    """What finding the scale takes, where operations of its own do it."""
    if engine != "trtllm":
        raise ValueError(f"{engine} has no kernel of its own that finds a scale: its table holds a difference")
    program = Program()
    scale_tensor(program, m, k)
    return Run(program.report("dynamic scale"), 1, {**GRAPH, "power": "burst"})
