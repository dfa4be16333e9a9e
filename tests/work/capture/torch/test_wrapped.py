"""Tensors made of others, and tensors whose parts cannot be seen."""

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.testing._internal.two_tensor import TwoTensor  # noqa: E402

import rooflab  # noqa: E402

LAYER = nn.Linear(4, 6, bias=False)


def jagged():
    parts = [torch.ones(3, 4), torch.ones(2, 4)]
    return torch.nested.nested_tensor(parts, layout=torch.jagged)


def test_a_jagged_tensor_counts_its_rows():
    """3 + 2 rows of 4: 20 products of 8 bytes read and written; 2·5·4·6 FLOP of a layer, as much backward."""
    report = rooflab.analyze(lambda x: x * 2, jagged())
    assert (report.flop, report.nbytes) == (20, 160)
    assert rooflab.analyze(lambda x: LAYER(x).values(), jagged(), backward=True).matrix_flop == 2 * 240


def test_a_tensor_of_two_counts_both():
    """Each of the two is multiplied: 2 · 2·4³."""
    x = TwoTensor(torch.ones(4, 4), torch.ones(4, 4))
    assert rooflab.analyze(lambda x: x @ x, x).matrix_flop == 256


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.ones(4, 4).to_mkldnn(),
        lambda: torch.nested.nested_tensor([torch.ones(3, 4), torch.ones(2, 4)]),
    ],
    ids=["another layout", "nested"],
)
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_what_cannot_be_seen_has_no_cost_and_lowers_coverage(make):
    coverage = rooflab.analyze(lambda x: LAYER(x * 2) if x.is_nested else x * 2, make()).coverage
    assert coverage.uncounted["aten.mul"] == 1
    assert not coverage.complete
