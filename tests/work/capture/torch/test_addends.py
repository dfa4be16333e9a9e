"""Operands that a call names but does not use, sparse products, packed sequences."""

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

import rooflab  # noqa: E402

SPARSE = torch.sparse_coo_tensor(
    torch.tensor([[0, 1, 1], [2, 0, 2]]), torch.ones(3), (2, 3), check_invariants=True
)


def r(*shape):
    return torch.ones(shape)


def attention(**more):
    q, k, v = (torch.ones(1, heads, 4, 8, dtype=torch.bfloat16, **more) for heads in (4, 2, 2))
    return lambda *of: F.scaled_dot_product_attention(*of, enable_gqa=True), (q, k, v)


# what, its inputs, FLOP of products, all FLOP, compulsory bytes
CALLS = [
    # 3·5 results of 4 multiply-adds; with a beta of 0 nothing is added: 12 + 20 read, 15 written
    ("beta of 0", lambda a, b, c: torch.addmm(a, b, c, beta=0), (r(3, 5), r(3, 4), r(4, 5)), 120, 120, 188),
    ("beta of 1", torch.addmm, (r(3, 5), r(3, 4), r(4, 5)), 120, 135, 248),
    # in place: the addend read and written: 12 + 20 + 15 + 15
    ("in place", lambda a, b, c: a.addmm_(b, c), (r(3, 5), r(3, 4), r(4, 5)), 120, 135, 248),
    (
        "batches, beta of 0",
        lambda a, b, c: torch.baddbmm(a, b, c, beta=0),
        (r(2, 3, 5), r(2, 3, 4), r(2, 4, 5)),
        *(240, 240, 376),
    ),
]


@pytest.mark.parametrize(("name", "fn", "args", "products", "flop", "moved"), CALLS, ids=[one[0] for one in CALLS])
def test_an_addend(name, fn, args, products, flop, moved):
    report = rooflab.analyze(fn, *args)
    assert (report.matrix_flop, report.flop, report.nbytes) == (products, flop, moved)


@pytest.mark.parametrize("fn", [torch.sparse.mm, torch.mm, lambda a, b: a @ b])
def test_a_sparse_product(fn):
    """3 stored elements times 5 columns, a multiply-add each."""
    report = rooflab.analyze(fn, SPARSE, r(3, 5))
    assert report.flop == 30
    assert report.coverage.complete


def test_a_sparse_product_with_an_addend():
    """As above, and an addition for each of 2·5 results."""
    assert rooflab.analyze(torch.sparse.addmm, r(2, 5), SPARSE, r(3, 5)).flop == 40


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_attention_without_gradients_writes_its_result_alone(device):
    """q and the result of 4 heads, k and v of 2: 2·(2·4 + 2·2)·4·8 bytes (xformers pull 1404)."""
    fn, args = attention()
    report = rooflab.analyze(fn, *args, device=device)
    assert report.nbytes == 768
    fn, args = attention(device="meta")
    with torch.inference_mode():
        assert rooflab.analyze(fn, *args).nbytes == 768


def test_attention_with_gradients_keeps_the_sums_of_softmax():
    """An fp32 number for each of 4·4 queries more."""
    fn, args = attention(device="meta")
    assert rooflab.analyze(fn, *(one.requires_grad_() for one in args)).nbytes == 768 + 64


def test_a_packed_sequence_counts_its_tokens():
    """7 + 4 + 2 tokens · 4·5·(6 + 5) multiply-adds; forward, and twice that backward."""
    lstm = nn.LSTM(6, 5)

    def packed(x):
        return lstm(nn.utils.rnn.pack_padded_sequence(x, [7, 4, 2]))[0].data

    assert rooflab.analyze(packed, r(7, 3, 6)).matrix_flop == 2 * 13 * 20 * 11
    report = rooflab.analyze(packed, r(7, 3, 6).requires_grad_(), backward=True)
    assert report.coverage.complete
    assert report.matrix_flop == 3 * 2 * 13 * 20 * 11
    # On a CPU, step by step: the first state is a constant, its 3 sequences have no gradient of it.
    report = rooflab.analyze(packed, r(7, 3, 6).requires_grad_(), backward=True, device="cpu")
    assert report.matrix_flop == 3 * 2 * 13 * 20 * 11 - 2 * 3 * 20 * 5
