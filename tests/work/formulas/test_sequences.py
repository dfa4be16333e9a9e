"""Recurrent networks, transforms, sorts, optimisers and collectives against loops."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rooflab.errors import UnknownNameError
from rooflab.work.formulas import cost

size = st.integers(1, 4)


# --- recurrent networks ---


class Gates:
    """Products of one step, counted apart from what is done with them."""

    def __init__(self, by_hand):
        self.products, self.rest = by_hand.Tally(), by_hand.Tally()

    def product(self, rows, columns):
        """`rows` sums of `columns` products."""
        for _ in range(rows):
            total = self.products.number()
            for _ in range(columns):
                total = total + self.products.number() * self.products.number()

    def gate(self, biased):
        """One gate of one unit: the products of input and state added, with the bias of each."""
        n = self.rest.number
        return (n() + n()) + (n() + n()) if biased else n() + n()


def sigmoid(x):
    return 1 / (1 + (-x).exp())


def lstm_cell(gates, biased):
    i, f, g, o = (gates.gate(biased) for _ in range(4))
    c = sigmoid(f) * gates.rest.number() + sigmoid(i) * g.tanh()
    return sigmoid(o) * c.tanh()


def gru_cell(gates, biased):
    n = gates.rest.number
    r, z = sigmoid(gates.gate(biased)), sigmoid(gates.gate(biased))
    inner, state = (n() + n(), n() + n()) if biased else (n(), n())
    new = (inner + r * state).tanh()
    return (1 - z) * new + z * n()


def tanh_cell(gates, biased):
    return gates.gate(biased).tanh()


def relu_cell(gates, biased):
    return gates.gate(biased).larger(0)


CELLS = {"lstm": (4, lstm_cell), "gru": (3, gru_cell), "rnn_tanh": (1, tanh_cell), "rnn_relu": (1, relu_cell)}


@given(
    cell=st.sampled_from(sorted(CELLS)),
    steps=size,
    batch=st.integers(1, 2),
    wide=size,
    hidden=size,
    layers=st.integers(1, 3),
    both=st.booleans(),
    biased=st.booleans(),
    projection=st.integers(0, 2),
)
def test_a_recurrent_network_is_a_loop_over_its_cells(
    by_hand, cell, steps, batch, wide, hidden, layers, both, biased, projection
):
    projection = projection if cell == "lstm" else 0
    gates, (count, step) = Gates(by_hand), CELLS[cell]
    directions = 2 if both else 1
    out = projection or hidden
    for layer in range(layers):
        arrives = wide if layer == 0 else directions * out
        for _ in by_hand.every(directions, steps, batch):
            gates.product(count * hidden, arrives)
            gates.product(count * hidden, out)
            for _ in range(hidden):
                step(gates, biased)
            gates.product(projection, hidden)
    spec = by_hand.spec
    inputs = (spec(steps, batch, wide), spec(count * hidden, wide), spec(count * hidden, out))
    attrs = {
        "cell": cell,
        "steps": steps,
        "batch": batch,
        "input": wide,
        "hidden": hidden,
        "layers": layers,
        "bidirectional": both,
        "bias": biased,
        "projection": projection,
    }
    found = cost("rnn", inputs, (spec(steps, batch, directions * out),), attrs)
    assert by_hand.flop(found, "matrix") == gates.products.vector
    assert by_hand.flop(found, "vector") == gates.rest.vector
    assert by_hand.flop(found, "special") == gates.rest.special
    assert found.compulsory.read_bytes == sum(one.nbytes for one in inputs)  # weights once, not per step
    back = cost("rnn_backward", inputs, inputs, attrs)
    assert by_hand.flop(back, "matrix") == 2 * gates.products.vector
    assert found.accessed.nbytes >= found.compulsory.nbytes
    assert back.accessed.nbytes >= back.compulsory.nbytes


def lstm_gradient(n):
    """Of one unit, from the gates kept and the gradients of h and of the next step's c."""
    dh, dc, i, f, g, o, c, before = (n() for _ in range(8))
    t = c.tanh()
    dh * t * (1 - o) * o  # do: 4
    dc = dc + dh * o * (1 - t * t)  # 5
    dc * g * (1 - i) * i  # 4
    dc * i * (1 - g * g)  # 4
    dc * before * (1 - f) * f  # 4
    dc * f  # 1


def gru_gradient(n):
    """The same, (1 − z) being kept from dz for dn."""
    dh, z, r, new, before, state, arrives = (n() for _ in range(7))
    keep = 1 - z
    dh * (before - new) * z * keep  # dz: 5 with the 1 − z
    dn = dh * keep * (1 - new * new)  # 4
    dn * state * r * (1 - r)  # dr: 4
    dn * r + arrives  # of the recurrent product, added to what comes through z
    dh * z


GRADIENTS = {
    "lstm": lstm_gradient,
    "gru": gru_gradient,
    "rnn_tanh": lambda n: n() * (1 - n() * n()),
    "rnn_relu": lambda n: n().larger(0),
}


@pytest.mark.parametrize("cell", GRADIENTS)
def test_a_cell_s_gradient_does_per_unit_what_its_derivatives_do(by_hand, cell):
    tally = by_hand.Tally()
    GRADIENTS[cell](tally.number)
    x = by_hand.spec(1, 1, 1)
    attrs = {"cell": cell, "steps": 1, "batch": 1, "input": 1, "hidden": 1}
    found = cost("rnn_backward", (x,), (x,), attrs)
    assert (by_hand.flop(found, "vector"), by_hand.flop(found, "special")) == (tally.vector, tally.special)


# --- Fourier transforms ---


def radix_two(n):
    """Real operations of a complex transform of n elements: halves, then n/2 butterflies."""
    if n == 1:
        return 0
    butterflies = sum(6 + 2 + 2 for _ in range(n // 2))  # a complex product, two complex sums
    return 2 * radix_two(n // 2) + butterflies


@given(st.integers(0, 6), size)
def test_a_transform_has_the_operations_of_its_butterflies(by_hand, stages, batch):
    n = 2**stages
    x, half = by_hand.spec(batch, n, dtype="complex64"), by_hand.spec(batch, n // 2 + 1, dtype="complex64")
    real = by_hand.spec(batch, n)
    expected = batch * radix_two(n)
    assert cost("fft", (x,), (x,), {"n": (n,)}).total_flop == expected
    assert cost("fft", (real,), (half,), {"n": (n,), "real": True}).total_flop == expected / 2
    assert cost("fft", (half,), (real,), {"n": (n,), "real": True, "inverse": True}).total_flop == expected / 2
    found = cost("fft", (real,), (half,), {"n": n, "real": True})
    assert found.compulsory.nbytes == real.nbytes + half.nbytes
    assert found.accessed.nbytes >= found.compulsory.nbytes


def test_a_transform_loads_and_stores_everything_in_each_stage(by_hand):
    x, half, real = by_hand.spec(16, dtype="complex64"), by_hand.spec(9, dtype="complex64"), by_hand.spec(16)
    found = cost("fft", (x,), (x,), {"n": (16,)}).accessed
    assert (found.read_bytes, found.write_bytes) == (4 * 16 * 8, 4 * 16 * 8)
    found = cost("fft", (real,), (half,), {"n": (16,), "real": True}).accessed  # as 8 complex numbers
    assert (found.read_bytes, found.write_bytes) == (4 * 8 * 8, 4 * 8 * 8)


def test_a_transform_of_two_dimensions_is_one_of_each_in_turn(by_hand):
    x = by_hand.spec(3, 8, 16, dtype="complex64")
    both = cost("fft", (x,), (x,), {"n": (8, 16)}).total_flop
    rows = cost("fft", (x,), (x,), {"n": (16,)}).total_flop
    columns = cost("fft", (x,), (x,), {"n": (8,)}).total_flop
    assert both == rows + columns
    assert cost("fft", (x,), (x,), {"n": (8, 16)}).flop[0].dtype == "fp32"


# --- sorting ---


def merge_sort(values, counter):
    """Sorted values; `counter` gets one for each comparison."""
    if len(values) <= 1:
        return values
    half = len(values) // 2
    left, right = merge_sort(values[:half], counter), merge_sort(values[half:], counter)
    merged = []
    while left and right:
        counter.append(1)
        merged.append((left if left[0] <= right[0] else right).pop(0))
    return merged + left + right


@given(st.lists(st.floats(0, 1), min_size=1, max_size=40))
def test_a_sort_is_bounded_by_merging(by_hand, values):
    counter, n = [], len(values)
    assert merge_sort(list(values), counter) == sorted(values)
    outputs = (by_hand.spec(n), by_hand.spec(n, dtype="int64"))
    found = cost("sort", (by_hand.spec(n),), outputs, {"function": "sort", "n": n})
    assert len(counter) <= found.total_flop <= max(n * math.log2(n) + n, 0)
    assert found.compulsory.nbytes == 4 * n + 4 * n + 8 * n


@pytest.mark.parametrize(
    ("attrs", "expected"),
    [
        ({"function": "topk", "n": 64, "k": 8}, 128 * 3),  # a heap of 8 is 3 deep
        ({"function": "topk", "n": 64, "k": 1}, 128),
        ({"function": "median", "n": 64}, 2 * 128),  # n + n/2 + n/4 …
        ({"function": "argsort", "n": 64}, 128 * 6),
        ({"function": "sort", "n": 1}, 0),
    ],
)
def test_comparisons_of_orderings(by_hand, attrs, expected):
    found = cost("sort", (by_hand.spec(2, 64),), (by_hand.spec(2, 8),), attrs)
    assert found.total_flop == expected


@given(st.integers(1, 40), st.integers(0, 41))
def test_a_search_halves(by_hand, n, wanted):
    low, high, comparisons = 0, n, 0
    while low < high:
        comparisons += 1
        middle = (low + high) // 2
        low, high = (middle + 1, high) if middle < wanted else (low, middle)
    inputs = (by_hand.spec(n), by_hand.spec(1))
    found = cost("sort", inputs, (by_hand.spec(1, dtype="int64"),), {"function": "search", "n": n})
    assert comparisons <= found.total_flop <= comparisons + 2


def test_sorting_integers_is_no_flop(by_hand):
    x = by_hand.spec(64, dtype="int64")
    assert cost("sort", (x,), (x,), {"function": "sort", "n": 64}).flop == ()


# --- optimisers ---


def sgd(p, g, momentum=None, nesterov=False, weight_decay=False):
    if weight_decay:
        g = g + 0.01 * p
    if momentum is not None:
        momentum = 0.9 * momentum + g
        g = g + 0.9 * momentum if nesterov else momentum
    return p - 0.1 * g


def adam(p, g, m, v, *, decoupled=False, weight_decay=False, amsgrad=False):
    if weight_decay:
        g = g + 0.01 * p
    if decoupled:
        p = p * 0.99
    m = 0.9 * m + 0.1 * g
    v = 0.9 * v + 0.1 * g * g
    spread = v.larger(v) if amsgrad else v
    return p - 0.1 * m / (spread.sqrt() / 0.9 + 1e-8)


@pytest.mark.parametrize(
    ("attrs", "states", "step"),
    [
        ({"function": "sgd"}, 0, sgd),
        ({"function": "sgd", "momentum": 0.9}, 1, sgd),
        ({"function": "sgd", "momentum": 0.9, "nesterov": True}, 1, lambda *a: sgd(*a, nesterov=True)),
        ({"function": "sgd", "weight_decay": 0.01}, 0, lambda *a: sgd(*a, weight_decay=True)),
        ({"function": "adam"}, 2, adam),
        ({"function": "adam", "amsgrad": True}, 2, lambda *a: adam(*a, amsgrad=True)),
        ({"function": "adam", "weight_decay": 0.01}, 2, lambda *a: adam(*a, weight_decay=True)),
        ({"function": "adamw", "weight_decay": 0.01}, 2, lambda *a: adam(*a, decoupled=True)),
        ({"function": "adagrad"}, 1, lambda p, g, s: p - 0.1 * g / ((s + g * g).sqrt() + 1e-8)),
        ({"function": "rmsprop"}, 1, lambda p, g, v: p - 0.1 * g / ((0.9 * v + 0.1 * g * g).sqrt() + 1e-8)),
        (
            {"function": "adamax"},
            2,
            lambda p, g, m, u: p - 0.1 * (0.9 * m + 0.1 * g) / (0.9 * u).larger(abs(g) + 1e-8),
        ),
    ],
)
def test_a_step_does_per_parameter_what_its_equations_do(by_hand, attrs, states, step):
    tally, n = by_hand.Tally(), 6
    step(*(tally.number() for _ in range(2 + states)))
    specs = [by_hand.spec(n, storage=i) for i in range(2 + states)]
    found = cost("optimizer", tuple(specs), (specs[0], *specs[2:]), attrs)
    assert by_hand.flop(found, "vector") == n * tally.vector
    assert by_hand.flop(found, "special") == n * tally.special
    assert found.compulsory.read_bytes == 4 * n * (2 + states)
    assert found.compulsory.write_bytes == 4 * n * (1 + states)


def test_elements_of_many_parameters_are_given(by_hand):
    x = by_hand.spec(6)
    assert cost("optimizer", (x, x), (x,), {"function": "sgd", "elements": 100}).total_flop == 200


# --- collectives ---


def ring(ranks, bytes_, phases):
    """Bytes that one rank sends when a buffer goes around in `ranks` pieces, `phases` times."""
    return sum(bytes_ / ranks for _ in range(phases) for _ in range(ranks - 1))


@given(st.integers(1, 9), st.integers(1, 9))
def test_bytes_on_the_wire_are_those_of_a_ring(by_hand, ranks, pieces):
    n = ranks * pieces
    full, piece = by_hand.spec(n), by_hand.spec(pieces)

    def wire(name, given_, got):
        return cost("collective", (given_,), (got,), {"function": name, "ranks": ranks}).wire_bytes

    assert wire("all_reduce", full, full) == pytest.approx(ring(ranks, 4 * n, 2))
    assert wire("all_gather", piece, full) == pytest.approx(ring(ranks, 4 * n, 1))
    assert wire("reduce_scatter", full, piece) == pytest.approx(ring(ranks, 4 * n, 1))
    assert wire("all_to_all", full, full) == pytest.approx(sum(4 * pieces for _ in range(ranks - 1)))
    assert wire("recv", full, full) == 0
    assert wire("send", full, full) == (4 * n if ranks > 1 else 0)
    found = cost("collective", (full,), (full,), {"function": "all_reduce", "ranks": ranks})
    assert found.total_flop == pytest.approx(pieces * (ranks - 1))  # its piece, once per other rank
    assert found.compulsory.nbytes == 8 * n


@pytest.mark.parametrize(
    ("kind", "attrs", "message"),
    [
        ("rnn", {"cell": "ltsm"}, "unknown recurrent cell 'ltsm'; did you mean lstm"),
        ("sort", {"function": "srot", "n": 4}, "unknown ordering 'srot'; did you mean sort"),
        ("optimizer", {"function": "adan"}, "unknown optimiser 'adan'; did you mean adam"),
        (
            "collective",
            {"function": "allreduce2", "ranks": 2},
            "unknown collective 'allreduce2'; did you mean all_red",
        ),
    ],
)
def test_unknown_names_are_errors_not_zero(by_hand, kind, attrs, message):
    x = by_hand.spec(4)
    with pytest.raises(UnknownNameError, match=message):
        cost(kind, (x, x), (x,), attrs)
