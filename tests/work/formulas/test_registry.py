"""The table of formulas, and properties that all of them keep."""

from __future__ import annotations

import pytest

from rooflab.errors import UnknownNameError
from rooflab.work.formulas import cost, formula, kinds
from rooflab.work.formulas.registry import _FORMULAS


def test_a_kind_has_one_formula():
    with pytest.raises(ValueError, match=r"two formulas for kind 'matmul': rooflab\.work\.formulas\.matmul and "):
        formula("matmul")(lambda inputs, outputs, attrs: None)


def test_an_unknown_kind_lists_its_neighbours():
    with pytest.raises(UnknownNameError, match="unknown kind of operation 'matmull'; did you mean matmul"):
        cost("matmull", (), ())


def test_the_kinds_that_captures_may_name_are_there():
    expected = (
        "matmul grouped_matmul sparse_matmul conv conv_backward attention attention_backward pointwise reduction"
        " softmax softmax_backward norm norm_backward pool pool_backward interpolate interpolate_backward dropout"
        " loss gather scatter sort scan fft rnn rnn_backward optimizer copy cast layout view create random"
        " collective"
    )
    assert set(expected.split()) <= set(kinds())
    assert "opaque" not in kinds()  # it has no cost


def test_every_formula_says_what_it_is_the_cost_of():
    for kind, function in _FORMULAS.items():
        assert function.__doc__, kind
        assert function.__doc__.startswith("The cost of "), kind


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize(
    ("kind", "inputs", "outputs", "attrs"),
    [
        # shapes after the batch
        ("matmul", [(4, 5)], [(4, 6)], {"k": 5}),
        ("conv", [(4, 6, 6)], [(2, 4, 4)], {"kernel": (3, 3), "groups": 2}),
        ("attention", [(4, 6, 8), (2, 6, 8), (2, 6, 8)], [(4, 6, 8)], {"causal": True}),
        ("pointwise", [(4, 5), (4, 5)], [(4, 5)], {"function": "silu_mul"}),
        ("reduction", [(4, 5)], [(4,)], {"function": "var"}),
        ("softmax", [(4, 5)], [(4, 5)], {}),
        ("norm", [(4, 5)], [(4, 5)], {"function": "layer"}),
        ("pool", [(4, 4)], [(2, 2)], {"function": "max", "window": 4}),
        ("interpolate", [(4, 4)], [(8, 8)], {"mode": "bilinear"}),
        ("dropout", [(4, 5)], [(4, 5)], {"p": 0.5}),
        ("scan", [(4, 5)], [(4, 5)], {"function": "cumsum"}),
        ("sort", [(4, 5)], [(4, 5)], {"function": "sort", "n": 5}),
        ("copy", [(4, 5)], [(4, 5)], {}),
    ],
)
def test_work_adds_up_over_the_batch(by_hand, kind, inputs, outputs, attrs, batch):
    def found(count):
        def specs(shapes):
            return [by_hand.spec(count, *shape) for shape in shapes]

        given = specs(inputs)
        if kind == "matmul":
            given.append(by_hand.spec(count, 5, 6))
        if kind == "conv":  # the weight does not grow
            given.append(by_hand.spec(2, 2, 3, 3, nbytes=0))
        return cost(kind, tuple(given), tuple(specs(outputs)), attrs)

    one, many = found(1), found(batch)
    assert many.total_flop == pytest.approx(batch * one.total_flop)
    assert many.compulsory.read_bytes == pytest.approx(batch * one.compulsory.read_bytes)
    assert many.compulsory.write_bytes == pytest.approx(batch * one.compulsory.write_bytes)
    assert many.accessed.read_bytes >= many.compulsory.read_bytes >= 0
    assert many.accessed.write_bytes >= many.compulsory.write_bytes >= 0
    assert many.note
