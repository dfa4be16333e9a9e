"""Operators outside of the vocabulary: counted by PyTorch's registered formulas, or by rooflab's."""

import pytest

torch = pytest.importorskip("torch")

from torch.utils import flop_counter  # noqa: E402

import rooflab  # noqa: E402
from rooflab.work import own_formulas  # noqa: E402


@torch.library.custom_op("rooflab_tests::gram", mutates_args=())
def gram(x: torch.Tensor, scale: float) -> torch.Tensor:
    """x · xᵀ · scale, opaque to the dispatcher."""
    return x @ x.T * scale


@gram.register_fake
def _(x, scale):
    return x.new_empty(x.shape[0], x.shape[0])


def program(x):
    return torch.relu(torch.ops.rooflab_tests.gram(x, 2.0))


@pytest.fixture
def theirs():
    """PyTorch's registry with a formula for the operator: 2·16·16·64 FLOP for 16 × 64."""
    packet = torch.ops.rooflab_tests.gram
    flop_counter.register_flop_formula(packet)(lambda x, scale, out_shape=None: 2 * x[0] * x[0] * x[1])
    yield
    del flop_counter.flop_registry[packet]


@pytest.fixture
def ours():
    """A place to register a formula of rooflab's, taken out again afterwards."""
    yield rooflab.formula("rooflab_tests::gram")
    own_formulas.forget("rooflab_tests::gram")


def analyzed():
    return rooflab.analyze(program, torch.empty(16, 64, device="meta"))


def test_without_a_formula_it_is_unknown():
    assert analyzed().coverage.uncounted == {"rooflab_tests.gram": 1}


def test_pytorch_s_formula_counts_it(theirs):
    """2·16·16·64 FLOP; 16·64 fp32 read, 16·16 written."""
    report = analyzed()
    cost = report.rows[0].cost
    assert (cost.total_flop, cost.compulsory.nbytes) == (32768, 4096 + 1024)
    assert "PyTorch's flop formula of rooflab_tests.gram" in cost.note
    assert report.coverage.complete


def test_rooflab_s_formula_comes_first(theirs, ours):
    @ours
    def of_gram(x, scale, *, out):
        assert (x.dtype, out.shape) == ("fp32", (16, 16))
        return {"flop": scale * x.elements, "kind": "vector"}

    assert analyzed().rows[0].cost.total_flop == 2 * 16 * 64


def test_a_formula_of_another_signature_leaves_the_rest_counted(ours):
    ours(lambda x: 1)
    report = analyzed()
    assert "was called with (a tensor, 2.0" in report.coverage.reasons["rooflab_tests.gram"]
    assert [row.cost is None for row in report.rows] == [True, False]


def test_an_operator_of_the_vocabulary_keeps_its_formula():
    """PyTorch has a formula of its own for mm, of 2·M·N·K: ours knows the bytes and the number format too."""
    report = rooflab.analyze(torch.mm, torch.empty(3, 4), torch.empty(4, 5))
    assert report.rows[0].op.kind == "matmul"
