"""Small calls: what each is recorded as. Kind and attributes come from the call; FLOP from the formula."""

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402

from rooflab.work.capture.torch import capture  # noqa: E402
from rooflab.work.costs import costs, uncosted  # noqa: E402


def meta(*shape, dtype=torch.float32, grad=False):
    return torch.empty(*shape, dtype=dtype, device="meta", requires_grad=grad)


def ids(*shape):
    return meta(*shape, dtype=torch.int64)


def int8(*shape):
    return meta(*shape, dtype=torch.int8)


X, W = meta(4, 8), meta(6, 8)
IMAGE = meta(2, 4, 8, 8)
ROWS = ids(3)

# call → op name, kind, attributes (a part of them), FLOP on the matrix engine
CALLS = [
    # products: 2·m·n·k
    ("mm", lambda: X @ W.t(), "aten.mm", "matmul", {"k": 8}, 2 * 4 * 6 * 8),
    ("linear", lambda: F.linear(X, W, meta(6)), "aten.addmm", "matmul", {"k": 8, "bias": True}, 2 * 4 * 6 * 8),
    ("mv", lambda: torch.mv(X, meta(8)), "aten.mv", "matmul", {"k": 8}, 2 * 4 * 8),
    ("dot", lambda: torch.dot(meta(8), meta(8)), "aten.dot", "matmul", {"k": 8}, 2 * 8),
    ("addmv", lambda: torch.addmv(meta(4), X, meta(8)), "aten.addmv", "matmul", {"k": 8}, 2 * 4 * 8),
    ("bmm", lambda: torch.bmm(meta(3, 4, 8), meta(3, 8, 5)), "aten.bmm", "matmul", {"k": 8}, 2 * 3 * 4 * 5 * 8),
    (
        "addbmm",  # the batch is summed over too
        lambda: torch.addbmm(meta(4, 5), meta(3, 4, 8), meta(3, 8, 5)),
        "aten.addbmm",
        "matmul",
        {"k": 24},
        2 * 3 * 4 * 5 * 8,
    ),
    (
        "baddbmm",
        lambda: torch.baddbmm(meta(3, 4, 5), meta(3, 4, 8), meta(3, 8, 5)),
        "aten.baddbmm",
        "matmul",
        {"k": 8, "bias": True},
        2 * 3 * 4 * 5 * 8,
    ),
    ("einsum", lambda: torch.einsum("bik,kj->bij", meta(3, 4, 8), meta(8, 5)), "aten.bmm", "matmul", {}, 2 * 480),
    ("tensordot", lambda: torch.tensordot(meta(2, 3, 4), meta(3, 4, 5), 2), "aten.mm", "matmul", {"k": 12}, 240),
    ("int8", lambda: torch._int_mm(int8(32, 64), int8(64, 32)), "aten._int_mm", "matmul", {"k": 64}, 131_072),
    ("outer", lambda: torch.outer(meta(4), meta(5)), "aten.mul", "pointwise", {"function": "mul"}, 0),
    (
        "grouped",  # 12 rows in all, whatever their groups
        lambda: torch._grouped_mm(meta(12, 8), meta(3, 8, 16), offs=meta(3, dtype=torch.int32)),
        "aten._grouped_mm",
        "grouped_matmul",
        {"fma": 12 * 8 * 16},
        2 * 12 * 8 * 16,
    ),
    # convolution: 2 × outputs × channels/groups × kernel
    (
        "conv",
        lambda: F.conv2d(IMAGE, meta(6, 2, 3, 3), None, 1, 1, 1, 2),
        "aten.convolution",
        "conv",
        {"kernel": (3, 3), "groups": 2, "transposed": False, "bias": False},
        2 * 2 * 6 * 64 * 2 * 9,
    ),
    ("conv1d", lambda: F.conv1d(meta(1, 4, 8), meta(6, 4, 3)), "aten.convolution", "conv", {}, 2 * 6 * 6 * 4 * 3),
    (
        "transposed",
        lambda: F.conv_transpose2d(meta(1, 32, 1, 1), meta(32, 1, 3, 3)),
        "aten.convolution",
        "conv",
        {"transposed": True},
        576,
    ),
    # element by element
    ("add", lambda: X + X, "aten.add", "pointwise", {"function": "add"}, 0),
    ("scaled", lambda: torch.add(X, X, alpha=2), "aten.add", "pointwise", {"function": "add_scaled"}, 0),
    ("in place", lambda: meta(4).mul_(2), "aten.mul_", "pointwise", {"function": "mul"}, 0),
    ("out", lambda: torch.exp(X, out=meta(4, 8)), "aten.exp", "pointwise", {"function": "exp"}, 0),
    ("square", lambda: X**2, "aten.pow", "pointwise", {"function": "square"}, 0),
    ("pow", lambda: X**2.5, "aten.pow", "pointwise", {"function": "pow"}, 0),
    ("gelu", lambda: F.gelu(X), "aten.gelu", "pointwise", {"function": "gelu"}, 0),
    ("tanh form", lambda: F.gelu(X, approximate="tanh"), "aten.gelu", "pointwise", {"function": "gelu_tanh"}, 0),
    ("foreach", lambda: torch._foreach_add([X, W], 1.0), "aten._foreach_add", "pointwise", {"foreach": True}, 0),
    # rows of threes: subtract, multiply, add, and a root for each pair
    (
        "distances",
        lambda: torch.cdist(meta(4, 3), meta(5, 3)),
        "aten._cdist_forward",
        "pointwise",
        {"vector": 9},
        0,
    ),
    # reductions, norms, pools
    ("sum", lambda: X.sum(-1), "aten.sum", "reduction", {"function": "sum"}, 0),
    ("max", lambda: X.max(-1), "aten.max", "reduction", {"function": "max"}, 0),
    ("norm", lambda: X.norm(), "aten.linalg_vector_norm", "reduction", {"function": "norm"}, 0),
    ("softmax", lambda: X.softmax(-1), "aten._softmax", "softmax", {"log": False}, 0),
    ("layer", lambda: F.layer_norm(X, (8,)), "aten.native_layer_norm", "norm", {"function": "layer"}, 0),
    ("rms", lambda: F.rms_norm(X, (8,)), "aten._fused_rms_norm", "norm", {"function": "rms"}, 0),
    ("group", lambda: F.group_norm(IMAGE, 2), "aten.native_group_norm", "norm", {"groups": 2}, 0),
    ("max pool", lambda: F.max_pool2d(IMAGE, 3, 2), "aten.max_pool2d_with_indices", "pool", {"window": 9}, 0),
    ("avg pool", lambda: F.avg_pool2d(IMAGE, (2, 4)), "aten.avg_pool2d", "pool", {"window": 8}, 0),
    ("adaptive", lambda: F.adaptive_avg_pool2d(IMAGE, 4), "aten._adaptive_avg_pool2d", "pool", {"window": 4}, 0),
    ("resize", lambda: F.interpolate(IMAGE, scale_factor=2), "aten.upsample_nearest2d", "interpolate", {}, 0),
    ("dropout", lambda: F.dropout(X, 0.1), "aten.native_dropout", "dropout", {"p": 0.1}, 0),
    # gathers and scatters
    ("embedding", lambda: F.embedding(ROWS, X), "aten.embedding", "gather", {}, 0),
    ("rows", lambda: X[ROWS], "aten.index", "gather", {}, 0),
    ("select", lambda: X.index_select(0, ROWS), "aten.index_select", "gather", {}, 0),
    ("add rows", lambda: X.index_add(0, ROWS, meta(3, 8)), "aten.index_add", "scatter", {"accumulate": True}, 0),
    # three rows of 8 are reached
    ("put", lambda: meta(4, 8).index_put_((ROWS,), meta(8)), "aten.index_put_", "scatter", {"elements": 24}, 0),
    ("scatter", lambda: X.scatter(1, ids(4, 2), 1.0), "aten.scatter", "scatter", {"elements": 8, "base": True}, 0),
    ("sort", lambda: X.sort(0), "aten.sort", "sort", {"n": 4}, 0),
    ("topk", lambda: X.topk(2), "aten.topk", "sort", {"k": 2, "n": 8}, 0),
    ("cumsum", lambda: X.cumsum(0), "aten.cumsum", "scan", {"function": "cumsum"}, 0),
    ("fft", lambda: torch.fft.fft(meta(4, 8, dtype=torch.complex64)), "aten._fft_c2c", "fft", {"n": (8,)}, 0),
    ("rfft", lambda: torch.fft.rfft(X), "aten._fft_r2c", "fft", {"n": (8,), "real": True}, 0),
    ("irfft", lambda: torch.fft.irfft(meta(4, 5, dtype=torch.complex64)), "aten._fft_c2r", "fft", {"n": (8,)}, 0),
    # copies
    ("clone", lambda: X.clone(), "aten.clone", "copy", {}, 0),
    ("cast", lambda: X.half(), "aten._to_copy", "cast", {}, 0),
    ("transposed copy", lambda: X.t().contiguous(), "aten.clone", "layout", {}, 0),
    ("cat", lambda: torch.cat([X, X]), "aten.cat", "copy", {}, 0),
    ("zeros", lambda: torch.zeros(4, device="meta"), "aten.zeros", "create", {"function": "zeros"}, 0),
    ("empty", lambda: torch.empty(4, device="meta"), "aten.empty", "create", {"function": "empty"}, 0),
    ("random", lambda: torch.randn(4, device="meta"), "aten.randn", "random", {}, 0),
    ("nll", lambda: F.nll_loss(X, ids(4)), "aten.nll_loss_forward", "loss", {"reduction": "mean"}, 0),
    ("mse", lambda: F.mse_loss(X, X, reduction="sum"), "aten.mse_loss", "loss", {"reduction": "sum"}, 0),
    ("cholesky", lambda: torch.linalg.cholesky(meta(4, 4)), "aten.linalg_cholesky_ex", "cholesky", {}, None),
]


@pytest.mark.parametrize(
    ("call", "name", "kind", "attrs", "flop"), [one[1:] for one in CALLS], ids=[c[0] for c in CALLS]
)
def test_each_call_is_counted_by_its_formula(call, name, kind, attrs, flop):
    graph = capture(call)
    op = next(op for op in reversed(graph.ops) if op.name == name)
    assert op.kind == kind
    assert {key: op.attrs.get(key) for key in attrs} == attrs
    assert uncosted(graph) == {}
    if flop is not None:
        assert sum(one.count for cost in costs(graph) for one in cost.flop if one.engine == "matrix") == flop


def test_an_operator_nobody_knows_is_kept_by_name():
    with torch.library._scoped_library("rooflab_test", "DEF") as library:
        library.define("strange(Tensor x) -> Tensor")
        library.impl("strange", lambda x: x.clone(), "CompositeExplicitAutograd")
        graph = capture(torch.ops.rooflab_test.strange, (X,))
    assert [(op.name, op.kind) for op in graph.ops] == [("rooflab_test.strange", None)]
    assert uncosted(graph) == {"rooflab_test.strange": "not in the vocabulary"}


def test_a_view_costs_nothing():
    graph = capture(lambda: X.view(8, 4).t()[1:].unsqueeze(0))
    assert {op.kind for op in graph.ops} == {"view"}
    assert sum(cost.compulsory.nbytes for cost in costs(graph)) == 0
    assert len({graph.tensors[i].storage for op in graph.ops for i in (*op.inputs, *op.outputs)}) == 1


def test_an_expanded_tensor_holds_the_bytes_of_its_storage():
    graph = capture(lambda: meta(1, 8).expand(1000, 8) + 1)
    spec = graph.tensors[graph.ops[-1].inputs[0]]
    assert (spec.shape, spec.nbytes, spec.strides) == ((1000, 8), 32, (0, 1))


def test_a_window_that_overlaps_holds_the_bytes_it_spans():
    graph = capture(lambda: meta(10).unfold(0, 4, 1) + 1)  # 7 windows of 4 over 10 numbers
    spec = graph.tensors[graph.ops[-1].inputs[0]]
    assert (spec.shape, spec.nbytes) == ((7, 4), 40)
