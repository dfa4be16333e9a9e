"""Formulas of users' own: registered, evaluated, refused in one line; the formula of what they return."""

import pytest

import rooflab
from rooflab.errors import RooflabError
from rooflab.types.work import Graph, Op, TensorSpec
from rooflab.work import own_formulas
from rooflab.work.costs import costs, uncosted

X, Y = TensorSpec((6, 10), "fp32", 240.0, 0), TensorSpec((6, 6), "fp32", 144.0, 1)


def graph(function, *args):
    attrs = own_formulas.evaluate(function, "the formula of lib.op", args, {}, {"out": Y})
    return Graph(
        framework="torch",
        tensors=(X, Y),
        ops=(Op(name="lib.op", kind="custom", inputs=(0,), outputs=(1,), attrs=attrs),),
    )


@pytest.fixture
def registered():
    """A name to register, taken out again afterwards."""
    yield "lib::op"
    own_formulas.forget("lib::op")


def test_a_formula_is_found_by_either_spelling(registered):
    rooflab.formula(registered)(len)
    assert own_formulas.find("lib.op") is own_formulas.find("lib::op.default") is len


def test_a_number_is_flop_on_matrix_units_and_bytes_are_the_operands():
    (cost,) = costs(graph(lambda x, out: 2 * x.shape[1] * out.elements, X))
    assert cost.total_flop == 2 * 10 * 36
    assert [one.engine for one in cost.flop] == ["matrix"]
    assert (cost.compulsory.read_bytes, cost.compulsory.write_bytes) == (240, 144)
    assert "bytes are those of its operands" in cost.note


def test_a_dictionary_says_units_format_and_bytes():
    said = {"flop": 7, "kind": "vector", "dtype": "float16", "read_bytes": 11}
    (cost,) = costs(graph(lambda x: said, X))
    assert [(one.engine, one.dtype, one.count) for one in cost.flop] == [("vector", "fp16", 7)]
    assert (cost.compulsory.read_bytes, cost.compulsory.write_bytes) == (11, 144)


def test_bytes_alone_are_no_flop():
    (cost,) = costs(graph(lambda x: {"read_bytes": 5}, X))
    assert cost.flop == ()


REFUSED = [
    (lambda x: -3, "returned -3 as flop"),
    (lambda x: "many", "returned 'many' as flop"),
    (lambda x: True, "returned True as flop"),
    (lambda x: None, "returned None as flop"),
    (lambda x: float("inf"), "returned inf as flop"),
    (lambda x: {"flops": 3}, "did you mean 'flop'?"),
    (lambda x: {"read_bytes": -1}, "returned -1 as read_bytes"),
    (lambda x: {"kind": "tensor"}, "expected one of matrix, vector, special"),
    (lambda x: {"flop": 1, "dtype": "fp33"}, "unknown dtype 'fp33'"),
    (lambda x: {"flop": 1, "dtype": "int8", "kind": "vector"}, "which they do not count"),
    (lambda: 1, "too many positional arguments"),
    (lambda x, y: 1, "missing a required argument: 'y'"),
    (lambda x: x.shape[7], "IndexError"),
]


@pytest.mark.parametrize(("function", "words"), REFUSED, ids=[words for _, words in REFUSED])
def test_a_formula_that_gives_nothing_is_named_in_one_line(function, words):
    program = graph(function, X)
    assert costs(program) == (None,)
    reason = uncosted(program)["lib.op"]
    assert reason.startswith("the formula of lib.op: ")
    assert words in reason
    assert "\n" not in reason


@pytest.mark.parametrize("name", ["", "  ", None, 3])
def test_a_name_is_text(name):
    with pytest.raises(RooflabError, match="as a name; expected one such as"):
        rooflab.formula(name)


def test_a_formula_is_a_function():
    with pytest.raises(RooflabError, match="expected a function"):
        rooflab.formula("lib::op")(3)
