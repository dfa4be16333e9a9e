"""tinygrad functions as kernels, held against tinygrad's own `Estimates`. Nothing is run or compiled."""

from __future__ import annotations

import importlib

import pytest

from rooflab.errors import MissingExtraError, RooflabError
from rooflab.types.work import Graph
from rooflab.work import vocabulary
from rooflab.work.capture.tinygrad import capture
from rooflab.work.costs import costs, uncosted

tinygrad = pytest.importorskip("tinygrad", reason="tinygrad is not installed")
Tensor, Context, dtypes = tinygrad.Tensor, tinygrad.helpers.Context, tinygrad.dtypes


@pytest.fixture(autouse=True)
def null_device():
    """Tensors of the device that computes nothing."""
    with Context(DEV="NULL"):
        yield


def estimates(fn, args, *, plain: bool) -> list[tuple[int, int, int]]:
    """tinygrad's (ops, mem, lds) of each kernel of fn(*args), its loops as written (plain) or optimised."""
    schedule, codegen = importlib.import_module("tinygrad.schedule"), importlib.import_module("tinygrad.codegen")
    tensor, ops = importlib.import_module("tinygrad.tensor"), importlib.import_module("tinygrad.uop.ops")
    with Context(NOOPT=int(plain)):
        linear, _ = schedule.create_linear_with_vars(tensor.transform_to_call(ops.UOp.sink(fn(*args).uop))[0])
        renderer = tinygrad.Device["NULL"].renderer
        found = []
        for call in linear.src:
            one = codegen.to_program(call.src[0], renderer).src[0].arg.estimates.simplify()
            found.append((one.ops, one.mem, one.lds))
    return found


def counted(graph: Graph) -> list[tuple[float, float, float]]:
    """The same three of a graph: operations (integer and logical ones too), compulsory and accessed bytes."""
    rows = []
    for op, cost in zip(graph.ops, costs(graph), strict=True):
        assert cost is not None
        assert cost.accessed is not None
        rows.append((cost.total_flop + op.attrs["other"], cost.compulsory.nbytes, cost.accessed.nbytes))
    return rows


def f32(*shape):
    return Tensor.empty(*shape)


CASES = [
    ("add", lambda: (f32(1024, 1024), f32(1024, 1024)), lambda a, b: a + b),
    ("matmul", lambda: (f32(1024, 1024), f32(1024, 1024)), lambda a, b: a @ b),
    ("softmax(a @ b)", lambda: (f32(1024, 1024), f32(1024, 1024)), lambda a, b: (a @ b).softmax()),
    ("convolution", lambda: (f32(1, 3, 8, 8), f32(4, 3, 3, 3)), lambda x, w: x.conv2d(w)),
    ("half precision", lambda: (Tensor.empty(64, 64, dtype=dtypes.half),), lambda a: a @ a.T),
    ("gelu", lambda: (f32(512),), lambda a: a.gelu()),
    ("layer norm", lambda: (f32(256, 256),), lambda a: a.layernorm()),
    ("rows", lambda: (f32(256, 256),), lambda a: a[2:4] + 1),
]


@pytest.mark.slow
@pytest.mark.parametrize("row", CASES, ids=[row[0] for row in CASES])
def test_operations_and_bytes_are_tinygrads(row):
    _, make, fn = row
    args = make()
    graph = capture(fn, args)
    assert counted(graph) == estimates(fn, args, plain=True)
    # optimised: operations and memory are the same, loads are fewer
    ours, theirs = counted(graph), estimates(fn, args, plain=False)
    assert [row[:2] for row in ours] == [row[:2] for row in theirs]
    assert all(mine[2] >= other[2] for mine, other in zip(ours, theirs, strict=True))


@pytest.mark.slow
def test_where_a_whole_loop_is_unrolled_tinygrad_saves_the_first_addition():
    args = f32(16, 16), f32(16, 16)
    ((ops, *_),) = counted(capture(lambda a, b: a @ b, args))
    assert ops == 2 * 16**3
    ((theirs, *_),) = estimates(lambda a, b: a @ b, args, plain=False)
    assert theirs == 2 * 16**3 - 16**2


def test_logic_is_an_operation_there_and_no_flop_here():
    # padding selects: 4·8·8 outputs of 3·3·3 products, and relu compares
    graph = capture(lambda x, w: x.conv2d(w, padding=1).relu(), (f32(1, 3, 8, 8), f32(4, 3, 3, 3)))
    ((cost, op),) = zip(costs(graph), graph.ops, strict=True)
    assert cost is not None
    assert {flop.engine: flop.count for flop in cost.flop} == {"matrix": 2 * 256 * 27, "vector": 256}
    assert op.attrs["other"] > 0


@pytest.mark.slow
def test_kernels_say_what_they_are():
    graph = capture(lambda a, b: (a @ b).softmax() + 1, (f32(64, 64), f32(64, 64)))
    assert [op.name.split()[0] for op in graph.ops] == ["matmul", "reduction", "reduction", "pointwise"]
    assert uncosted(graph) == {}
    assert [(spec.name, spec.role) for spec in graph.tensors[:2]] == [("a", "input"), ("b", "input")]
    # one tensor given twice crosses once
    (cost,) = costs(capture(lambda a: a @ a.T, (f32(64, 64),)))
    assert cost is not None
    assert cost.compulsory.read_bytes == 64 * 64 * 4


class Linear:
    def __init__(self):
        self.weight = Tensor.ones(4, 8)  # lazy: what computes it is not the model's work
        self.bias = f32(4)

    def __call__(self, x):
        return x.linear(self.weight.T, self.bias)


def test_models_keep_their_tensors_and_their_laziness():
    model = Linear()
    before = model.weight.uop
    graph = capture(model, (f32(2, 8),))
    assert model.weight.uop is before
    assert model.weight.grad is None
    assert [op.attrs["fma"] for op in graph.ops] == [2 * 8 * 4]
    assert sorted(spec.name for spec in graph.held("parameter")) == ["bias", "weight"]


def test_gradients_that_backward_leaves_are_results():
    model = Linear()

    def step(x):
        model(x).square().sum().backward()

    graph = capture(step, (f32(2, 8),))
    # forward, and the gradient of the weights: 2·8·4 each
    assert [op.attrs["fma"] for op in graph.ops if op.attrs["fma"]] == [64, 64]
    assert model.weight.grad is None


def test_what_is_realized_counts_and_is_not_run():
    def fn(x):
        (x + 1).realize()
        return x * 2

    assert len(capture(fn, (f32(8),)).ops) == 2


def needs_data(x):
    return x * x.sum().item()


def test_errors_are_one_line():
    line = needs_data.__code__.co_firstlineno + 1
    with pytest.raises(RooflabError, match=rf"needs_data needs real data at .*test_tinygrad.py:{line}: item"):
        capture(needs_data, (f32(8),))
    with pytest.raises(RooflabError, match="gives no tensor that needs computing"):
        capture(lambda x: x, (f32(8),))
    with pytest.raises(RooflabError, match=r"failed at .*test_tinygrad.py:\d+: "):
        capture(lambda a, b: a @ b, (f32(3, 4), f32(3, 4)))
    # and the tensors are as before
    assert capture(lambda a: a + 1, (f32(8),)).ops


def test_without_tinygrad_one_line_says_what_to_install(monkeypatch):
    def refuse(name):
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", refuse)
    with pytest.raises(MissingExtraError, match=r"needs tinygrad: python -m pip install 'rooflab\[tinygrad\]'"):
        capture(needs_data, ())


def test_the_vocabulary_has_every_arithmetic_operation():
    ops = importlib.import_module("tinygrad.uop.ops")
    assert {op.name for op in ops.GroupOp.ALU} == set(vocabulary.load("tinygrad"))
