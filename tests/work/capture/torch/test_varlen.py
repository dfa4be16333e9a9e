"""Sequences of several lengths: jagged tensors and varlen_attn, by the true lengths or a bound that is said."""

import pytest

torch = pytest.importorskip("torch")
varlen = pytest.importorskip("torch.nn.attention.varlen")

import torch.nn.functional as F  # noqa: E402

from rooflab.work.capture.torch import capture  # noqa: E402
from rooflab.work.costs import costs, uncosted  # noqa: E402

LENGTHS = (6, 11, 2)  # 19 tokens
HEADS, SIZE = 3, 8
FULL = sum(one * one for one in LENGTHS)
CAUSAL = sum(one * (one + 1) // 2 for one in LENGTHS)
PRODUCTS = 4 * HEADS * SIZE  # FLOP of a pair: q·k and p·v


def jagged(device="cpu", width=HEADS * SIZE, grad=False):
    parts = [torch.randn(length, width, device=device) for length in LENGTHS]
    return torch.nested.nested_tensor(parts, layout=torch.jagged, requires_grad=grad)


def sdpa(x, **more):
    heads = x.unflatten(-1, (HEADS, SIZE)).transpose(1, 2)
    return F.scaled_dot_product_attention(heads, heads, heads, **more)


def matrix(graph, name):
    for op, cost in zip(graph.ops, costs(graph), strict=True):
        if op.name == name:
            return sum(one.count for one in cost.flop if one.engine == "matrix")
    raise AssertionError([op.name for op in graph.ops])


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_linear_and_elementwise_operators_count_the_tokens_there_are(device):
    layer = torch.nn.Linear(24, 10, bias=False, device=device)
    graph = capture(lambda x: F.layer_norm(F.relu(layer(x)), (10,)), (jagged(device),))
    assert matrix(graph, "aten.linear") == 2 * 19 * 24 * 10
    assert uncosted(graph) == {}
    assert {
        spec.shape for op in graph.ops if op.name == "aten.relu" for spec in [graph.tensors[op.outputs[0]]]
    } == {(19, 10)}


@pytest.mark.parametrize(("causal", "pairs"), [(False, FULL), (True, CAUSAL)])
def test_attention_of_jagged_tensors(causal, pairs):
    graph = capture(lambda x: sdpa(x, is_causal=causal), (jagged(),))
    assert matrix(graph, "torch_attn._varlen_attn") == PRODUCTS * pairs
    assert graph.unknown == ()


def test_unfused_attention_of_jagged_tensors_writes_each_square():
    fused, unfused = (capture(sdpa, (jagged(),), attention=how) for how in ("fused", "unfused"))
    written = [cost.compulsory.nbytes for graph in (fused, unfused) for cost in costs(graph) if cost.total_flop]
    assert written[1] - written[0] == pytest.approx(4 * FULL * HEADS * 4)  # two crossings, each written and read


def test_gradients_of_jagged_attention():
    x = jagged(grad=True)
    graph = capture(lambda x: sdpa(x).transpose(1, 2).values().square().sum(), (x,), backward=True)
    assert matrix(graph, "torch_attn._varlen_attn_backward") == 2.5 * PRODUCTS * FULL


def test_values_and_gradients_are_those_of_each_sequence_alone():
    x, found = jagged(grad=True), []

    def program(x):
        out = sdpa(x, is_causal=True).transpose(1, 2).values()
        found.extend((out, *torch.autograd.grad(out.square().sum(), x)))
        return out

    capture(program, (x,))
    alone = [one.detach().requires_grad_() for one in x.unbind()]
    outs = [
        F.scaled_dot_product_attention(*[one.view(-1, HEADS, SIZE).transpose(0, 1)] * 3, is_causal=True)
        for one in alone
    ]
    torch.testing.assert_close(found[0], torch.cat([one.transpose(0, 1) for one in outs]))
    gradients = torch.autograd.grad(sum(one.square().sum() for one in outs), alone)
    torch.testing.assert_close(found[1].values(), torch.cat(gradients))


def test_a_jagged_tensor_without_data_is_bounded_and_said():
    graph = capture(sdpa, (jagged("meta"),))
    assert matrix(graph, "torch_attn._varlen_attn") == PRODUCTS * 19 * 19  # all tokens in one sequence
    assert len(graph.unknown) == 1
    assert "an upper bound; give the lengths (cu_seq) on a CPU" in graph.unknown[0]


def packed(device, ends_device, **more):
    q = torch.ones(19, HEADS, SIZE, device=device, dtype=torch.float16, **more)
    return q, torch.tensor([0, 6, 17, 19], dtype=torch.int32, device=ends_device)


# A window of 3 keys back, and each query's own.
WINDOWED = sum(sum(min(4, at + 1) for at in range(length)) for length in LENGTHS)


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize(("window", "pairs"), [((-1, -1), FULL), ((-1, 0), CAUSAL), ((3, 0), WINDOWED)])
def test_varlen_attn_by_its_lengths(device, window, pairs):
    q, ends = packed(device, "cpu")
    graph = capture(lambda q: varlen.varlen_attn(q, q, q, ends, ends, 11, 11, window_size=window), (q,))
    assert matrix(graph, "torch_attn._varlen_attn") == PRODUCTS * pairs
    assert graph.unknown == ()


def test_varlen_attn_without_data_is_bounded_by_its_longest():
    q, ends = packed("meta", "meta")
    graph = capture(lambda q, ends: varlen.varlen_attn(q, q, q, ends, ends, 11, 11), (q, ends))
    assert matrix(graph, "torch_attn._varlen_attn") == PRODUCTS * (11 * 11 + 8 * 8)  # 19 tokens: 11, 8 and none
    assert len(graph.unknown) == 1


def test_varlen_attn_backward():
    q, ends = packed("meta", "cpu", requires_grad=True)
    graph = capture(lambda q: varlen.varlen_attn(q, q, q, ends, ends, 11, 11).sum(), (q,), backward=True)
    assert matrix(graph, "torch_attn._varlen_attn_backward") == 2.5 * PRODUCTS * FULL
