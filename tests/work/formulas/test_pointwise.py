"""Element-wise functions, copies, gathers and scatters against expressions and loops that count."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rooflab.errors import UnknownNameError
from rooflab.work.formulas import cost
from rooflab.work.formulas.functions import COMPLEX, REAL

size = st.integers(1, 5)


def sigmoid(x):
    return 1 / (1 + (-x).exp())


def normal_cdf(x):
    return 0.5 * (1 + (x * 0.7).erf())


def silu_backward(x, g):
    s = sigmoid(x)
    return g * s * (1 + x * (1 - s))


def gelu_backward(x, g):
    return g * (normal_cdf(x) + x * (0.4 * (-0.5 * (x * x)).exp()))


def gelu_tanh_backward(x, g):
    square = x * x
    t = (0.8 * (x + 0.04 * (square * x))).tanh()
    left, right = 0.5 * x, 1 + t
    slope = 0.8 * (1 + 0.13 * square)
    return g * (0.5 * right + left * (1 - t * t) * slope)


EXPRESSIONS = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "neg": lambda x: -x,
    "abs": lambda x: abs(x),
    "square": lambda x: x * x,
    "cube": lambda x: x * x * x,
    "reciprocal": lambda x: 1 / x,
    "exp": lambda x: x.exp(),
    "sqrt": lambda x: x.sqrt(),
    "rsqrt": lambda x: x.rsqrt(),
    "maximum": lambda x, y: x.larger(y),
    "relu": lambda x: x.larger(0),
    "clamp": lambda x: x.larger(0).larger(1),
    "lerp": lambda a, b, w: a + w * (b - a),
    "addcmul": lambda a, b, c: a + 0.5 * b * c,
    "addcdiv": lambda a, b, c: a + 0.5 * b / c,
    "add_scaled": lambda a, b: a + 2 * b,
    "pow": lambda x, y: (y * x.log()).exp(),
    "hypot": lambda x, y: (x * x + y * y).sqrt(),
    "xlogy": lambda x, y: x * y.log(),
    "sinc": lambda x: (3.14 * x).sin() / x,  # of πx, and its division by the same product
    "logit": lambda x: (x / (1 - x)).log(),
    "logaddexp": lambda x, y: x.larger(y) + (1 + (-abs(x - y)).exp()).log(),
    "sigmoid": sigmoid,
    "silu": lambda x: x / (1 + (-x).exp()),
    "silu_mul": lambda x, y: x / (1 + (-x).exp()) * y,
    "glu": lambda a, b: a * sigmoid(b),
    "gelu": lambda x: 0.5 * x * (1 + (x * 0.7).erf()),
    "gelu_tanh": lambda x: 0.5 * x * (1 + (0.8 * (x + 0.04 * x * x * x)).tanh()),
    "quick_gelu": lambda x: x / (1 + (-(1.7 * x)).exp()),
    "softplus": lambda x: (1 + x.exp()).log(),
    "mish": lambda x: x * (1 + x.exp()).log().tanh(),
    "softsign": lambda x: x / (1 + abs(x)),
    "tanhshrink": lambda x: x - x.tanh(),
    "hardswish": lambda x: x * (x + 3).larger(0).larger(6) * 0.17,
    "hardsigmoid": lambda x: (x + 3).larger(0).larger(6) * 0.17,
    "sigmoid_backward": lambda y, g: g * (1 - y) * y,
    "tanh_backward": lambda y, g: g * (1 - y * y),
    "silu_backward": silu_backward,
    "gelu_tanh_backward": gelu_tanh_backward,
    "softplus_backward": lambda x, g: g * x.exp() / (x.exp().tally.number() + 1),
    "logit_backward": lambda x, g: g / (x * (1 - x)),
}
SHARED = {  # a product or exponential that the expression writes twice and a kernel computes once
    "softplus_backward": (0, -1),
}


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_the_table_counts_what_the_expression_does(by_hand, name):
    tally, expression = by_hand.Tally(), EXPRESSIONS[name]
    operands = expression.__code__.co_argcount
    expression(*(tally.number() for _ in range(operands)))
    vector, special = SHARED.get(name, (0, 0))
    assert REAL[name] == (tally.vector + vector, tally.special + special)


def test_gelu_s_gradient_has_nine_and_two(by_hand):
    tally = by_hand.Tally()
    gelu_backward(tally.number(), tally.number())
    assert (tally.vector, tally.special) == REAL["gelu_backward"] == (9, 2)


class Complex:
    """A complex number of two that count."""

    def __init__(self, real, imag):
        self.real, self.imag = real, imag

    def __add__(self, other):
        return Complex(self.real + other.real, self.imag + other.imag)

    def __mul__(self, other):
        return Complex(
            self.real * other.real - self.imag * other.imag, self.real * other.imag + self.imag * other.real
        )

    def __truediv__(self, other):
        top = self * Complex(other.real, other.imag)
        below = other.real * other.real + other.imag * other.imag
        return Complex(top.real / below, top.imag / below)

    def __abs__(self):
        return (self.real * self.real + self.imag * self.imag).sqrt()

    def exp(self):
        size = self.real.exp()
        return Complex(size * self.imag.sin(), size * self.imag.sin())


@pytest.mark.parametrize(
    ("name", "expression"),
    [
        ("add", lambda x, y: x + y),
        ("mul", lambda x, y: x * y),
        ("div", lambda x, y: x / y),
        ("fma", lambda x, y: x * y + x),
        ("abs", lambda x, _: abs(x)),
        ("exp", lambda x, _: x.exp()),
    ],
)
def test_complex_functions_are_counted_in_real_operations(by_hand, name, expression):
    tally = by_hand.Tally()
    x, y = (Complex(tally.number(), tally.number()) for _ in range(2))
    expression(x, y)
    assert COMPLEX[name] == (tally.vector, tally.special)
    spec = by_hand.spec(7, dtype="complex128")
    found = cost("pointwise", (spec,), (spec,), {"function": name})
    assert by_hand.flop(found, "vector") == 7 * tally.vector
    assert {one.dtype for one in found.flop} == {"fp64"}


@st.composite
def broadcast(draw):
    """(out shape, operand shapes) that broadcast to it."""
    out = tuple(draw(st.lists(size, min_size=1, max_size=3)))
    operands = []
    for _ in range(draw(st.integers(1, 3))):
        keep = draw(st.integers(0, len(out)))
        shape = tuple(1 if draw(st.booleans()) else one for one in out[len(out) - keep :])
        operands.append(shape)
    return out, operands


@given(broadcast())
def test_operands_cross_once_and_load_per_output(by_hand, shapes):
    out, operands = shapes
    tally = by_hand.Tally()
    arrays, y = [tally.array(*shape) for shape in operands], tally.array(*out)
    for index in by_hand.every(*out):
        total = tally.number()
        for array in arrays:
            where = zip(index[len(out) - len(array.shape) :], array.shape, strict=True)
            total = total + array[tuple(0 if n == 1 else i for i, n in where)]
        y[index] = total
    inputs = tuple(by_hand.spec(*shape) for shape in operands)
    found = cost("pointwise", inputs, (by_hand.spec(*out),), {"vector": len(operands)})
    assert found.total_flop == tally.vector
    assert found.accessed.read_bytes == 4 * sum(array.loads for array in arrays)
    assert found.accessed.write_bytes == 4 * y.stores
    assert found.compulsory.read_bytes == 4 * sum(len(array.read) for array in arrays)
    assert found.compulsory.write_bytes == 4 * len(y.written)


def test_in_place_reads_and_writes_and_so_does_out_of_place(by_hand):
    x = by_hand.spec(10, storage=1)
    found = cost("pointwise", (x, by_hand.spec(10, storage=2)), (x,), {"function": "add"})
    assert (found.compulsory.read_bytes, found.compulsory.write_bytes) == (80, 40)


def test_an_operand_given_twice_crosses_once(by_hand):
    x = by_hand.spec(10, storage=1)
    found = cost("pointwise", (x, x), (by_hand.spec(10),), {"function": "mul"})
    assert (found.compulsory.read_bytes, found.accessed.read_bytes) == (40, 80)


def test_an_expanded_operand_costs_its_storage(by_hand):
    found = cost(
        "pointwise", (by_hand.spec(8, 8, nbytes=32), by_hand.spec(8, 8)), (by_hand.spec(8, 8),), {"vector": 1}
    )
    assert found.compulsory.read_bytes == 32 + 256


def test_tensors_apart_are_added_up(by_hand):
    pairs = tuple(by_hand.spec(n) for n in (3, 5, 3, 5))
    found = cost("pointwise", pairs, pairs[:2], {"function": "add", "foreach": True})
    assert found.total_flop == 8
    assert (found.accessed.read_bytes, found.accessed.write_bytes) == (64, 32)
    norms = (by_hand.spec(), by_hand.spec())
    assert cost("reduction", pairs[:2], norms, {"function": "sum"}).total_flop == 8
    assert cost("reduction", pairs[:2], norms, {"function": "sum"}).accessed.nbytes == 32 + 8


@pytest.mark.parametrize(
    ("inputs", "out", "expected"),
    [
        (["fp32", "bf16"], "fp32", "fp32"),  # the widest
        (["bool", "bf16", "bf16"], "bf16", "bf16"),  # where
        (["int64"], "fp32", "fp32"),  # int to float
        (["fp32", "fp32"], "bool", "fp32"),  # a comparison computes in its operands' format
    ],
)
def test_the_format_computed_in(by_hand, inputs, out, expected):
    specs = tuple(by_hand.spec(4, dtype=one) for one in inputs)
    found = cost("pointwise", specs, (by_hand.spec(4, dtype=out),), {"vector": 1})
    assert [one.dtype for one in found.flop] == [expected]


def test_a_scalar_does_not_widen(by_hand):
    inputs = (by_hand.spec(4, dtype="bf16"), by_hand.spec(dtype="fp64"))
    found = cost("pointwise", inputs, (by_hand.spec(4, dtype="bf16"),), {"function": "mul"})
    assert found.flop[0].dtype == "bf16"


def test_integers_move_bytes_and_are_no_flop(by_hand):
    x = by_hand.spec(4, dtype="int64")
    found = cost("pointwise", (x, by_hand.spec(4, dtype="int64")), (x,), {"function": "add"})
    assert found.flop == ()
    assert found.compulsory.nbytes == 96
    assert "integers, so no FLOP" in found.note


@pytest.mark.parametrize("name", ["where", "logical_and", "cast", "masked_fill"])
def test_choosing_is_no_arithmetic_but_bytes(by_hand, name):
    x = by_hand.spec(4)
    found = cost("pointwise", (by_hand.spec(4, dtype="bool"), x), (x,), {"function": name})
    assert found.flop == ()
    assert found.compulsory.nbytes == 4 + 16 + 16


@pytest.mark.parametrize("dtype", ["fp32", "complex64"])
def test_an_unknown_function_is_an_error_not_zero(by_hand, dtype):
    x = by_hand.spec(4, dtype=dtype)
    with pytest.raises(UnknownNameError, match=r"unknown element-wise function of .* numbers 'sqroot'"):
        cost("pointwise", (x,), (x,), {"function": "sqroot"})


def test_every_row_of_the_tables_is_two_counts():
    for table in (REAL, COMPLEX):
        assert all(len(row) == 2 and min(row) >= 0 for row in table.values())
    assert {"add", "gelu", "where", "cast", "lerp", "pow"} <= set(REAL)


# --- copies ---


@pytest.mark.parametrize(
    ("kind", "inputs", "outputs", "attrs", "read", "write"),
    [
        ("copy", [((8,), "fp32")], [((8,), "fp32")], {}, 32, 32),
        ("cast", [((8,), "bf16")], [((8,), "fp32")], {}, 16, 32),
        ("layout", [((2, 4), "fp16")], [((4, 2), "fp16")], {}, 16, 16),
        ("copy", [((8,), "fp32"), ((4,), "fp32")], [((12,), "fp32")], {}, 48, 48),  # concatenation
        ("copy", [((100,), "fp32")], [((8,), "fp32")], {}, 32, 32),  # a slice reads what arrives
        ("copy", [((8,), "fp32")], [((24,), "fp32")], {}, 32, 96),  # a repeat reads what there is
        ("copy", [((8,), "fp32")], [((3,), "fp32"), ((5,), "fp32")], {}, 32, 32),  # split with copies
        ("view", [((8,), "fp32")], [((2, 4), "fp32")], {}, 0, 0),
        ("create", [], [((8,), "bf16")], {"function": "zeros"}, 0, 16),
        ("create", [], [((8,), "bf16")], {"function": "empty"}, 0, 0),
        ("random", [], [((8,), "fp32")], {}, 0, 32),
    ],
)
def test_moves_cost_bytes_alone(by_hand, kind, inputs, outputs, attrs, read, write):
    def specs(shapes):
        return tuple(by_hand.spec(*shape, dtype=dtype) for shape, dtype in shapes)

    found = cost(kind, specs(inputs), specs(outputs), attrs)
    assert found.flop == ()
    assert (found.compulsory.read_bytes, found.compulsory.write_bytes) == (read, write)


# --- gathers and scatters ---


@given(st.integers(1, 50), size, st.integers(1, 20))
def test_a_gather_reads_rows_not_the_table(by_hand, rows, width, count):
    tally = by_hand.Tally()
    table, indices, out = tally.array(rows, width), tally.array(count), tally.array(count, width)
    for place, column in by_hand.every(count, width):
        if column == 0:
            indices[place]
        out[place, column] = table[place * 7 % rows, column]
    spec = by_hand.spec
    found = cost("gather", (spec(rows, width), spec(count, dtype="int64")), (spec(count, width),))
    assert found.flop == ()
    assert found.access == "gather"
    assert found.compulsory.read_bytes == 4 * table.loads + 8 * indices.loads
    assert found.compulsory.write_bytes == 4 * out.stores
    if count <= rows and rows % 7:  # no row twice: the rows' bytes
        assert len(table.read) * 4 == table.loads * 4


@given(st.integers(1, 9), size, st.integers(1, 6), st.booleans(), st.booleans())
def test_a_scatter_touches_its_values_rows(by_hand, rows, width, count, accumulate, in_place):
    count = min(count, rows)  # no row twice
    tally = by_hand.Tally()
    base, values, out = tally.array(rows, width), tally.array(count, width), tally.array(rows, width)
    if in_place:
        out = base
    else:
        for index in by_hand.every(rows, width):
            out[index] = base[index]
    for place, column in by_hand.every(count, width):
        if accumulate:
            out[place, column] = out[place, column] + values[place, column]
        else:
            out[place, column] = values[place, column]
    spec = by_hand.spec
    inputs = (spec(rows, width), spec(count, dtype="int64"), spec(count, width))
    attrs = {"accumulate": accumulate, "in_place": in_place}
    found = cost("scatter", inputs, (spec(rows, width),), attrs)
    assert found.total_flop == tally.vector
    loads = base.loads + values.loads + (0 if in_place else out.loads)
    assert found.accessed.read_bytes == 4 * loads + 8 * count
    assert found.accessed.write_bytes == 4 * out.stores
    assert found.compulsory.read_bytes == 4 * (len(base.read) + len(values.read)) + 8 * count
    assert found.compulsory.write_bytes == 4 * len(out.written)


def test_a_scatter_without_a_base_writes_zeros_first(by_hand):
    spec = by_hand.spec
    found = cost("scatter", (spec(3, dtype="int64"), spec(3, 4)), (spec(100, 4),), {"accumulate": True})
    assert found.compulsory.read_bytes == 24 + 48
    assert found.compulsory.write_bytes == 1600
    assert found.total_flop == 12
