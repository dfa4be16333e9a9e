"""Flex attention: the blocks that its mask keeps, the pairs that pass, and what is said where neither is known."""

import importlib

import pytest

torch = pytest.importorskip("torch")

from torch.nn.attention.flex_attention import create_block_mask, flex_attention  # noqa: E402

from rooflab.work.capture.torch import capture  # noqa: E402
from rooflab.work.capture.torch.flex import CONVENTION  # noqa: E402
from rooflab.work.costs import costs  # noqa: E402


def of_flex(graph):
    """Matrix FLOP and note of each operator of flex attention."""
    return {
        op.name: (sum(each.count for each in cost.flop if each.engine == "matrix"), cost.note or "")
        for op, cost in zip(graph.ops, costs(graph), strict=True)
        if cost is not None and op.name.startswith("flex_attention")
    }


def operands(device, length, heads=2, size=16, batch=1, grad=False):
    return [torch.ones(batch, heads, length, size, device=device, requires_grad=grad) for _ in range(3)]


def windowed(width):
    return lambda batch, head, query, key: (query >= key) & (query - key < width)


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")  # of what torch.compile imports
def test_blocks_kept_are_counted_and_the_pairs_that_pass_are_said(device, compiled):
    mask = create_block_mask(windowed(64), None, None, 512, 512, device=device)
    function = torch.compile(flex_attention) if compiled else flex_attention
    graph = capture(lambda q, k, v: function(q, k, v, block_mask=mask), operands(device, 512))
    # 4 × 4 blocks of 128: those on the diagonal and the 3 beside it. 2 products × 2 FLOP × 16 × 2 heads.
    flop, note = of_flex(graph)["flex_attention"]
    assert flop == 7 * 128 * 128 * 4 * 16 * 2
    # 64 · 65 / 2 + 448 · 64 pairs a head
    assert note.endswith(
        f"7 of 16 blocks are computed; {2 * (64 * 65 // 2 + 448 * 64)} of its {2 * 7 * 128**2} pairs pass the mask"
    )
    assert CONVENTION in graph.conventions
    assert graph.unknown == ()


def test_a_last_block_counts_as_far_as_it_goes():
    mask = create_block_mask(windowed(1 << 20), None, None, 200, 200, device="meta")
    graph = capture(lambda q, k, v: flex_attention(q, k, v, block_mask=mask), operands("meta", 200))
    pairs = 128 * 128 + 72 * 200  # the second row of blocks has 72 queries, and sees all 200 keys
    assert of_flex(graph)["flex_attention"][0] == pairs * 4 * 16 * 2


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_backward_is_five_products_of_the_same_blocks(device):
    mask = create_block_mask(windowed(64), None, None, 256, 256, device=device)
    inputs = operands(device, 256, grad=True)
    graph = capture(lambda q, k, v: flex_attention(q, k, v, block_mask=mask).sum(), inputs, backward=True)
    assert of_flex(graph)["flex_attention_backward"][0] == 3 * 128 * 128 * 10 * 16 * 2  # 3 of 4 blocks
    assert [op.phase for op in graph.ops if op.name == "flex_attention_backward"] == ["backward"]


def test_gradients_on_a_cpu_are_those_of_plain_attention():
    generator = torch.Generator().manual_seed(3)
    inputs = [torch.randn(1, 2, 70, 8, generator=generator, requires_grad=True) for _ in range(3)]
    mask = create_block_mask(windowed(70), None, None, 70, 70, device="cpu")
    found = []

    def program(q, k, v):
        found.extend(torch.autograd.grad(flex_attention(q, k, v, block_mask=mask).square().sum(), (q, k, v)))
        return q

    capture(program, inputs)
    plain = torch.nn.functional.scaled_dot_product_attention(*inputs, is_causal=True).square().sum()
    for got, expected in zip(found, torch.autograd.grad(plain, inputs), strict=True):
        assert expected.abs().max() > 0.1
        torch.testing.assert_close(got, expected)


@pytest.mark.parametrize("score_mod", [None, lambda score, batch, head, query, key: score + query - key])
def test_without_a_mask_the_square_counts(score_mod):
    graph = capture(lambda q, k, v: flex_attention(q, k, v, score_mod=score_mod), operands("meta", 96))
    assert of_flex(graph)["flex_attention"] == (96 * 96 * 4 * 16 * 2, "fused: scores stay on chip")
    assert graph.unknown == ()


def test_a_mask_that_depends_on_data():
    documents = torch.arange(256) // 128
    real = operands("cpu", 256)

    def program(q, k, v):
        here = documents.to(q.device)
        mask = create_block_mask(lambda b, h, i, j: here[i] == here[j], None, None, 256, 256, device=q.device)
        return flex_attention(q, k, v, block_mask=mask)

    known = capture(program, real)
    assert of_flex(known)["flex_attention"][0] == 2 * 128 * 128 * 4 * 16 * 2
    unknown = capture(program, [one.to("meta") for one in real])
    assert of_flex(unknown)["flex_attention"][0] == 4 * 128 * 128 * 4 * 16 * 2
    assert unknown.unknown == (
        "flex_attention: its mask depends on tensors without data; the full square is counted",
    )


def test_heads_that_share_keys_and_a_mask_of_each_head():
    def mask_of(batch, head, query, key):
        return (query >= key) | (head >= 2)  # half of the heads see all

    mask = create_block_mask(mask_of, 1, 4, 256, 256, device="meta")
    q, k, v = operands("meta", 256, heads=4)
    graph = capture(lambda *a: flex_attention(*a, block_mask=mask, enable_gqa=True), (q, k[:, :2], v[:, :2]))
    assert of_flex(graph)["flex_attention"][0] == (2 * 3 + 2 * 4) * 128 * 128 * 4 * 16


def test_two_devices_are_refused_with_a_way_out():
    mask = create_block_mask(windowed(64), None, None, 256, 256, device="cpu")
    with pytest.raises(Exception, match="make the inputs on the mask's device"):
        capture(lambda *a: flex_attention(*a, block_mask=mask), operands("meta", 256))


def test_flex_attention_is_left_as_it_was():
    module = importlib.import_module("torch.nn.attention.flex_attention")
    before = module._validate_device, module.flex_attention_hop
    capture(flex_attention, operands("meta", 32))
    assert (module._validate_device, module.flex_attention_hop) == before


def test_gradients_that_are_not_followed_are_said():
    slope = torch.ones((), device="meta", requires_grad=True)

    def program(q, k, v):
        return flex_attention(q, k, v, score_mod=lambda score, b, h, i, j: score * slope).sum()

    graph = capture(program, operands("meta", 32, grad=True), backward=True)
    assert graph.unknown == ("flex_attention: gradients of tensors that its score_mod captures are not counted",)
