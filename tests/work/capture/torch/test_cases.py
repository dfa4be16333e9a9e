"""Programs that other counters got wrong, from their issue trackers: the number that is right."""

import warnings

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

from rooflab.work.capture.torch import capture  # noqa: E402
from rooflab.work.costs import costs, uncosted  # noqa: E402


def matrix_flop(graph):
    """FLOP of products, everything costed."""
    assert uncosted(graph) == {}
    pairs = zip(costs(graph), graph.ops, strict=True)
    return sum(one.count * op.count for cost, op in pairs for one in cost.flop if one.engine == "matrix")


def read_write(graph):
    known = costs(graph)
    return sum(one.compulsory.read_bytes for one in known), sum(one.compulsory.write_bytes for one in known)


@pytest.fixture(params=["cpu", "meta"])
def device(request):
    return request.param


@pytest.mark.parametrize("target", ["cuda", "cpu"])
def test_attention_on_a_cpu_is_not_zero(target):
    q = torch.randn(1, 12, 64, 64)
    graph = capture(F.scaled_dot_product_attention, (q, q, q), device=target)
    assert matrix_flop(graph) == 12_582_912  # 4·12·64·64·64
    assert [op.kind for op in graph.ops if op.kind != "view"] == ["attention"]  # not its parts beside it
    q = torch.randn(1, 8, 128, 64)
    assert matrix_flop(capture(F.scaled_dot_product_attention, (q, q, q), device=target)) == 33_554_432
    causal = capture(F.scaled_dot_product_attention, (q, q, q), {"is_causal": True}, device=target)
    assert matrix_flop(causal) == 16_908_288  # 4·8·64·128·129/2


def test_attention_counts_once(device):
    q = torch.empty(2, 5, 9, 4, dtype=torch.bfloat16, device=device)
    assert matrix_flop(capture(F.scaled_dot_product_attention, (q, q, q))) == 12_960  # 4·2·5·9·9·4


def test_attention_unfused_is_two_products_and_a_softmax(device):
    q = torch.empty(1, 2, 8, 4, device=device)
    graph = capture(F.scaled_dot_product_attention, (q, q, q), attention="unfused")
    kinds = [op.kind for op in graph.ops if op.kind in ("matmul", "softmax", "attention")]
    assert kinds == ["matmul", "softmax", "matmul"]
    assert matrix_flop(graph) == 4 * 2 * 8 * 8 * 4
    assert "attention: unfused" in graph.conventions


def test_heads_that_share_keys_are_counted_by_queries(device):
    # 8 heads of queries, 2 of keys: 4·8·256·256·64; K and V read once by their own heads
    q, k = (torch.empty(1, heads, 256, 64, dtype=torch.bfloat16, device=device) for heads in (8, 2))
    graph = capture(F.scaled_dot_product_attention, (q, k, k.clone()), {"enable_gqa": True})
    assert matrix_flop(graph) == 134_217_728
    read, _write = read_write(graph)
    assert read == 2 * (8 + 2 + 2) * 256 * 64


@pytest.mark.parametrize("masked", [False, True])
def test_gradients_of_heads_that_share_keys(device, masked):
    q = torch.empty(2, 8, 16, 64, device=device, requires_grad=True)
    k = torch.empty(2, 2, 16, 64, device=device, requires_grad=True)
    mask = torch.ones(16, 16, dtype=torch.bool, device=device) if masked else None

    def attend(q, k):
        return F.scaled_dot_product_attention(q, k, k * 2, mask, enable_gqa=True)

    graph = capture(attend, (q, k), backward=True)
    forward = 4 * 2 * 8 * 16 * 16 * 64
    assert matrix_flop(graph) == forward + forward * 5 // 2  # scores again, and four products for gradients
    assert [op.kind for op in graph.ops].count("attention_backward") == 1


def test_real_attention_gives_real_results():
    torch.manual_seed(0)
    q, k = (torch.randn(2, heads, 6, 4, requires_grad=True) for heads in (4, 2))
    weight = torch.nn.Parameter(torch.ones(4))
    seen = []

    def attend(q, k):
        out = F.scaled_dot_product_attention(q, k, k, is_causal=True, enable_gqa=True)
        seen.append(F.rms_norm(out, (4,), weight))
        return seen[-1]

    capture(attend, (q, k))
    expected = attend(q, k)
    torch.testing.assert_close(seen[0], expected)
    plain = torch.autograd.grad(expected.square().sum(), (q, k, weight))
    caught = []

    def gradients(q, k):
        caught.extend(torch.autograd.grad(attend(q, k).square().sum(), (q, k, weight)))

    capture(gradients, (q, k))
    for one, other in zip(caught, plain, strict=True):
        torch.testing.assert_close(one, other)


def test_a_transposed_convolution_meets_every_input_once(device):
    layer = nn.ConvTranspose2d(32, 1, 3, bias=False, device=device)
    assert matrix_flop(capture(layer, (torch.empty(1, 32, 1, 1, device=device),))) == 576  # 2·32·1·9


def test_depthwise_convolution_with_gradients(device):
    layer = nn.Conv2d(64, 64, 3, padding=1, groups=64, bias=False, device=device)
    x = torch.empty(1, 64, 32, 32, device=device, requires_grad=True)
    assert matrix_flop(capture(layer, (x,), backward=True)) == 3_538_944  # 3·2·64·9·1024


@pytest.mark.parametrize("groups", [1, 24])
def test_a_convolution_of_channels_last_has_its_results_channels_last(groups):
    # As cuDNN's and oneDNN's: what follows in PyTorch's ConvNeXt, a permutation and a norm, copies nothing.
    layer = nn.Conv2d(24, 24, 3, padding=1, groups=groups, device="meta", dtype=torch.bfloat16)

    def strides(x):
        graph = capture(lambda x: layer(x).permute(0, 2, 3, 1).contiguous(), (x,))
        (made,) = [op for op in graph.ops if op.kind == "conv"]
        return graph.tensors[made.outputs[0]].strides, [op.name for op in graph.ops if op.kind == "layout"]

    x = torch.empty(2, 24, 6, 10, device="meta", dtype=torch.bfloat16)
    last, copied = strides(x.to(memory_format=torch.channels_last))
    assert last == (24 * 60, 1, 24 * 10, 24)
    assert copied == []
    assert strides(x)[0] is None
    assert strides(x)[1] == ["aten.clone"]


def test_gradients_of_a_channels_last_convolution_are_channels_last():
    layer = nn.Conv2d(8, 16, 3, device="meta")
    x = torch.empty(2, 8, 9, 9, device="meta").to(memory_format=torch.channels_last).requires_grad_()
    graph = capture(lambda x: layer(x).sum().backward(), (x,))
    (made,) = [op for op in graph.ops if op.kind == "conv_backward"]
    assert graph.tensors[made.outputs[0]].strides == (8 * 81, 1, 8 * 9, 8)


def test_an_lstm_counts_four_gates_a_step(device):
    x = torch.empty(5, 3, 10, device=device)
    assert matrix_flop(capture(nn.LSTM(10, 20, device=device), (x,))) == 72_000  # 2·5·3·4·20·(10 + 20)
    cell = nn.LSTMCell(10, 20, device=device)

    def loop(x):
        state = None
        for one in x:
            state = cell(one, state)
        return state

    assert matrix_flop(capture(loop, (x,))) == 72_000
    x = torch.empty(10, 4, 32, device=device)
    assert matrix_flop(capture(nn.LSTM(32, 64, device=device), (x,))) == 1_966_080


@pytest.mark.slow
def test_lstm_behind_an_embedding(device):
    class Tagger(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(20, 300)
            self.lstm = nn.LSTM(300, 512, 2, batch_first=True)
            self.out = nn.Linear(512, 20)

        def forward(self, tokens):
            return self.out(self.lstm(self.embedding(tokens))[0])

    with torch.device(device):
        model, tokens = Tagger().eval(), torch.zeros(1, 100, dtype=torch.int64)
    graph = capture(model, (tokens,))
    # 100·(4·512·(300 + 512) + 4·512·1024) and 100·512·20 multiply-adds
    assert matrix_flop(graph) == 2 * (376_012_800 + 1_024_000)
    embedding = next(i for i, op in enumerate(graph.ops) if op.kind == "gather")
    found = costs(graph)[embedding]
    assert found.total_flop == 0
    assert found.compulsory.read_bytes == 100 * 300 * 4 + 100 * 8  # the rows and the indices


@pytest.mark.parametrize("mode", [torch.enable_grad, torch.no_grad, torch.inference_mode])
def test_encoder_layer_on_its_fast_path(mode):
    with mode():
        layer = nn.TransformerEncoderLayer(64, 4, 256, batch_first=True).eval()
        graph = capture(layer, (torch.randn(2, 16, 64),))
    assert matrix_flop(graph) == 3_276_800
    assert torch.backends.mha.get_fastpath_enabled()


def test_quantised_linear():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch moves its quantisation elsewhere
        if "x86" not in torch.backends.quantized.supported_engines:
            pytest.skip("this PyTorch has no quantised kernels for x86")
        model = torch.ao.quantization.quantize_dynamic(nn.Sequential(nn.Linear(64, 64)), {nn.Linear})
        graph = capture(model, (torch.randn(8, 64),))
    assert matrix_flop(graph) == 65_536
    assert {one.dtype for cost in costs(graph) for one in cost.flop if one.engine == "matrix"} == {"int8"}


def test_complex_product(device):
    x = torch.empty(64, 64, dtype=torch.complex64, device=device)
    assert matrix_flop(capture(torch.matmul, (x, x))) == 2_097_152


@pytest.mark.parametrize("function", [torch.add, torch.sub])
def test_addition_and_subtraction_alike(function, device):
    a, b = torch.empty(2, 3, device=device), torch.empty(2, 3, device=device)
    graph = capture(function, (a, b))
    assert sum(one.total_flop for one in costs(graph)) == 6
    assert sum(read_write(graph)) == 72  # 2 reads + 1 write of 24 bytes


def test_a_module_used_three_times(device):
    layer = nn.Linear(100, 100, device=device)
    graph = capture(lambda x: layer(layer(layer(x))), (torch.empty(1, 100, device=device),))
    assert matrix_flop(graph) == 60_000
    assert sum(one.elements for one in graph.held("parameter")) == 10_100


def test_tied_weights_are_one_storage(device):
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.head = nn.Embedding(10, 4), nn.Linear(4, 10, bias=False)
            self.head.weight = self.embedding.weight

        def forward(self, ids):
            return self.head(self.embedding(ids))

    with torch.device(device):
        model, ids = Tied(), torch.zeros(2, dtype=torch.int64)
    graph = capture(model, (ids,), backward=True)
    assert [one.name for one in graph.held("parameter")] == ["embedding.weight"]


def test_sparse_product():
    dense = torch.tensor([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch calls its CSR support a beta
        csr = dense.to_sparse_csr()
    for sparse in (csr, dense.to_sparse_coo()):
        graph = capture(torch.mm, (sparse, torch.ones(3, 4)))
        assert [op.kind for op in graph.ops] == ["sparse_matmul"]
        assert sum(one.total_flop for one in costs(graph)) == 2 * 3 * 4  # three non-zeros, four columns
        assert graph.ops[0].attrs == {"nnz": 3, "n": 4}


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_checkpoint_runs_forward_again(reentrant, device):
    block = nn.Sequential(nn.Linear(8, 8, device=device), nn.ReLU())
    x = torch.empty(4, 8, device=device, requires_grad=True)
    graph = capture(lambda x: checkpoint(block, x, use_reentrant=reentrant), (x,), backward=True)
    one = 2 * 4 * 8 * 8
    assert matrix_flop(graph) == 4 * one  # forward, forward again, gradients of input and weight
    again = [op for op in graph.ops if op.name == "aten.addmm"]
    assert [op.phase for op in again] == ["forward", "backward"]
    assert all(one.grad is None for one in (x, *block.parameters()))


def test_a_function_with_its_own_gradient(device):
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, grad):
            return 2 * grad * ctx.saved_tensors[0]

    graph = capture(Square.apply, (torch.empty(3, device=device, requires_grad=True),), backward=True)
    assert [(op.name, op.phase) for op in graph.ops] == [
        ("aten.mul", "forward"),
        ("aten.mul", "backward"),
        ("aten.mul", "backward"),
    ]


def test_transforms_of_functions(device):
    x = torch.empty(3, 4, 4, device=device)
    assert matrix_flop(capture(torch.vmap(lambda a: a @ a), (x,))) == 2 * 3 * 4 * 4 * 4
    gradient = torch.func.grad(lambda a: (a @ a).sum())
    assert matrix_flop(capture(gradient, (x[0],))) == 3 * 2 * 4 * 4 * 4
