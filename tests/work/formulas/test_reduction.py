"""Reductions, softmax, scans, norms, pooling, losses against loops that count."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rooflab.errors import UnknownNameError
from rooflab.work.formulas import cost

size = st.integers(1, 6)


def fold(tally, values, step):
    """Every value folded into an accumulator that begins at the identity."""
    total = tally.number()
    for value in values:
        total = step(total, value)
    return total


def add(total, value):
    return total + value


def larger(total, value):
    return total.larger(value)


def add_exp(peak):
    return lambda total, value: total + (value - peak).exp()


def variance(tally, row):
    mean = fold(tally, row(), add) * (1 / 3)
    return fold(tally, row(), lambda total, x: total + (lambda d: d * d)(x - mean)) * (1 / 3)


REDUCTIONS = {
    "sum": lambda tally, row: fold(tally, row(), add),
    "mean": lambda tally, row: fold(tally, row(), add) * 0.1,
    "prod": lambda tally, row: fold(tally, row(), lambda total, x: total * x),
    "max": lambda tally, row: fold(tally, row(), larger),
    "argmax": lambda tally, row: fold(tally, row(), larger),
    "norm": lambda tally, row: fold(tally, row(), lambda total, x: total + x * x).sqrt(),
    "norm1": lambda tally, row: fold(tally, row(), lambda total, x: total + abs(x)),
    "sum_of_squares": lambda tally, row: fold(tally, row(), lambda total, x: total + x * x),
    "var": variance,
    "std": lambda tally, row: variance(tally, row).sqrt(),
    "norm_p": lambda tally, row: (
        0.5 * fold(tally, row(), lambda total, x: total + (3 * abs(x).log()).exp()).log()
    ).exp(),
}


def log_sum_exp(tally, row):
    peak = fold(tally, row(), larger)
    return fold(tally, row(), add_exp(peak)).log() + peak


REDUCTIONS["logsumexp"] = log_sum_exp


@pytest.mark.parametrize("name", REDUCTIONS)
@given(rows=size, width=size)
def test_reductions_are_what_their_loops_count(by_hand, name, rows, width):
    tally = by_hand.Tally()
    x, y = tally.array(rows, width), tally.array(rows)
    for row in range(rows):
        y[row] = REDUCTIONS[name](tally, lambda row=row: (x[row, i] for i in range(width)))
    found = cost("reduction", (by_hand.spec(rows, width),), (by_hand.spec(rows),), {"function": name})
    assert by_hand.flop(found, "vector") == tally.vector
    assert by_hand.flop(found, "special") == tally.special
    assert found.accessed.read_bytes == 4 * x.loads
    assert found.accessed.write_bytes == 4 * y.stores
    assert found.compulsory.read_bytes == 4 * len(x.read)


def test_reductions_of_integers_and_logic_are_bytes_alone(by_hand):
    x = by_hand.spec(8, dtype="int64")
    assert cost("reduction", (x,), (by_hand.spec(dtype="int64"),), {"function": "sum"}).flop == ()
    b = by_hand.spec(8, dtype="bool")
    assert cost("reduction", (b,), (by_hand.spec(dtype="bool"),), {"function": "any"}).compulsory.nbytes == 9


def test_indices_are_written_too(by_hand):
    outputs = (by_hand.spec(4), by_hand.spec(4, dtype="int64"))
    found = cost("reduction", (by_hand.spec(4, 8),), outputs, {"function": "max"})
    assert found.compulsory.write_bytes == 16 + 32


@given(size, size, st.booleans())
def test_softmax_is_what_its_loops_count(by_hand, rows, width, log):
    tally = by_hand.Tally()
    x, y = tally.array(rows, width), tally.array(rows, width)
    for row in range(rows):
        peak = fold(tally, (x[row, i] for i in range(width)), larger)
        total = fold(tally, (x[row, i] for i in range(width)), add_exp(peak))
        if log:
            base = total.log()
        for i in range(width):
            # x − peak (log-softmax) and its exponential are counted once, in the pass before
            y[row, i] = x[row, i] - base if log else x[row, i] / total
    found = cost("softmax", (by_hand.spec(rows, width),), (by_hand.spec(rows, width),), {"log": log})
    logarithms = rows if log else 0  # left out, as the rows are not known
    assert by_hand.flop(found, "special") == tally.special - logarithms
    assert by_hand.flop(found, "vector") == tally.vector
    assert found.accessed.read_bytes == 4 * x.loads
    assert found.accessed.write_bytes == 4 * y.stores


@given(size, size, st.booleans())
def test_softmax_s_gradient_is_what_its_loops_count(by_hand, rows, width, log):
    tally = by_hand.Tally()
    g, y, out = (tally.array(rows, width) for _ in range(3))
    for row in range(rows):
        total = tally.number()
        for i in range(width):
            total = total + (g[row, i] if log else g[row, i] * y[row, i])
        for i in range(width):
            if log:
                out[row, i] = g[row, i] - y[row, i].exp() * total
            else:
                out[row, i] = y[row, i] * (g[row, i] - total)
    x = [by_hand.spec(rows, width) for _ in range(3)]
    found = cost("softmax_backward", (x[0], x[1]), (x[2],), {"log": log})
    assert by_hand.flop(found, "vector") == tally.vector
    assert by_hand.flop(found, "special") == tally.special
    assert found.accessed.read_bytes == 4 * (g.loads + y.loads)


@pytest.mark.parametrize(
    ("name", "vector", "special", "inputs"),
    [("cumsum", 1, 0, 1), ("cumprod", 1, 0, 1), ("logcumsumexp", 6, 2, 1), ("associative", 2, 0, 2)],
)
def test_scans_combine_once_per_element(by_hand, name, vector, special, inputs):
    x = by_hand.spec(3, 5)
    found = cost("scan", tuple(by_hand.spec(3, 5) for _ in range(inputs)), (x,), {"function": name})
    assert by_hand.flop(found, "vector") == 15 * vector
    assert by_hand.flop(found, "special") == 15 * special
    assert found.compulsory.nbytes == 60 * (inputs + 1)


# --- norms ---


def normalise(tally, x, y, row, width, weight, bias, root):
    """One row of layer or, with `root`, RMS norm."""
    at = [(row, i) for i in range(width)]
    if root:
        spread = fold(tally, (x[one] for one in at), lambda total, v: total + v * v) * 0.1
        scale = (spread + 1e-5).rsqrt()
    else:
        mean = fold(tally, (x[one] for one in at), add) * 0.1
        spread = fold(tally, (x[one] for one in at), lambda total, v: total + (lambda d: d * d)(v - mean))
        scale = (spread * 0.1 + 1e-5).rsqrt()
    for i, one in enumerate(at):
        value = x[one] * scale if root else (x[one] - mean) * scale
        if weight is not None:
            value = value * weight[i]
        if bias is not None:
            value = value + bias[i]
        y[one] = value


@given(size, size, st.sampled_from(["layer", "rms"]), st.booleans(), st.booleans())
def test_layer_and_rms_norm_are_what_their_loops_count(by_hand, rows, width, name, weighted, biased):
    biased = biased and weighted and name == "layer"
    tally = by_hand.Tally()
    x, y, weight, bias = tally.array(rows, width), tally.array(rows, width), tally.array(width), tally.array(width)
    for row in range(rows):
        normalise(tally, x, y, row, width, weight if weighted else None, bias if biased else None, name == "rms")
    inputs = [by_hand.spec(rows, width)] + [by_hand.spec(width)] * (weighted + biased)
    found = cost("norm", tuple(inputs), (by_hand.spec(rows, width),), {"function": name})
    assert by_hand.flop(found, "vector") == tally.vector
    assert by_hand.flop(found, "special") == tally.special == rows
    assert found.accessed.read_bytes == 4 * (x.loads + weight.loads + bias.loads)
    assert found.accessed.write_bytes == 4 * y.stores
    assert found.compulsory.read_bytes == 4 * (len(x.read) + len(weight.read) + len(bias.read))


@given(size, size, st.integers(1, 2), st.sampled_from(["batch", "group", "instance"]))
def test_other_norms_share_a_mean_over_other_elements(by_hand, batch, group, groups, name):
    channels, pixels = group * groups, 3
    spec = by_hand.spec
    x, affine = spec(batch, channels, pixels), (spec(channels), spec(channels))
    means = {"batch": channels, "group": batch * groups, "instance": batch * channels}[name]
    found = cost("norm", (x, *affine), (spec(batch, channels, pixels),), {"function": name, "groups": groups})
    assert by_hand.flop(found, "special") == means
    updates = 6 * channels if name == "batch" else 0  # (1 − m)·old + m·new of two statistics
    assert by_hand.flop(found, "vector") == 8 * x.elements + 3 * means + updates


def test_batch_norm_with_given_statistics_is_one_pass(by_hand):
    spec = by_hand.spec
    x, channel = spec(2, 3, 5), (spec(3), spec(3), spec(3), spec(3))
    found = cost("norm", (x, *channel), (spec(2, 3, 5),), {"function": "batch", "training": False})
    assert by_hand.flop(found, "vector") == 4 * 30 + 3  # (x − mean)·rstd·weight + bias; eps per channel
    assert by_hand.flop(found, "special") == 3
    assert found.compulsory.nbytes == 4 * (30 + 12 + 30)
    assert found.accessed.read_bytes == 4 * 30 * 5


def test_batch_norm_in_training_writes_its_running_statistics(by_hand):
    spec = by_hand.spec
    inputs = (spec(2, 3, 5), spec(3), spec(3), spec(3), spec(3))
    outputs = (spec(2, 3, 5), spec(3), spec(3))
    found = cost("norm", inputs, outputs, {"function": "batch", "training": True})
    assert found.compulsory.write_bytes == 4 * (30 + 6 + 6)


@given(size, size, st.booleans(), st.booleans())
def test_layer_norm_s_gradient_is_what_its_loops_count(by_hand, rows, width, weighted, biased):
    biased = biased and weighted
    tally = by_hand.Tally()
    n = tally.number
    g, x, out = (tally.array(rows, width) for _ in range(3))
    for row in range(rows):
        mean, rstd, first, second = n(), n(), n(), n()
        kept = []
        for i in range(width):
            grad, hat = g[row, i], (x[row, i] - mean) * rstd
            if weighted:
                n() + grad * hat  # weight's gradient
            if biased:
                n() + grad
            scaled = grad * n() if weighted else grad
            first, second = first + scaled, second + scaled * hat
            kept.append((scaled, hat))
        first, second = first * 0.1, second * 0.1
        for i in range(width):
            g[row, i], x[row, i]
            scaled, hat = kept[i]
            out[row, i] = rstd * (scaled - first - hat * second)
    spec = by_hand.spec
    full, stats, weight = (spec(rows, width) for _ in range(2)), (spec(rows), spec(rows)), (spec(width),)
    outputs = (spec(rows, width), *[spec(width)] * (weighted + biased))
    found = cost("norm_backward", (*full, *stats, *weight), outputs, {"function": "layer"})
    assert found.total_flop == tally.vector
    assert found.accessed.read_bytes == 4 * (g.loads + x.loads + 2 * rows + width)


@pytest.mark.parametrize(
    ("attrs", "outputs", "per_element", "per_row"),
    [
        ({"function": "rms"}, 2, 9, 1),  # x̂ 1, weight's 2, g·w 1, the sum 2, result 3
        ({"function": "rms"}, 1, 6, 1),
        ({"function": "batch"}, 3, 9, 2),  # x̂ 2, sums 3, result 4
        ({"function": "batch", "training": False}, 3, 6, 1),  # x̂ 2, weight's 2, bias's 1, result 1
    ],
)
def test_gradients_of_other_norms(by_hand, attrs, outputs, per_element, per_row):
    spec = by_hand.spec
    x = spec(4, 8)
    rows = 8 if attrs["function"] == "batch" else 4
    found = cost("norm_backward", (x, spec(4, 8), spec(8)), (x, *[spec(8)] * (outputs - 1)), attrs)
    assert found.total_flop == per_element * 32 + per_row * rows


def test_dropout_multiplies_by_mask_and_scale(by_hand):
    found = cost("dropout", (by_hand.spec(8),), (by_hand.spec(8), by_hand.spec(8, dtype="bool")), {"p": 0.1})
    assert found.total_flop == 16
    assert found.compulsory.nbytes == 32 + 32 + 8


# --- pooling and resampling ---


@given(size, st.integers(1, 3), st.integers(1, 3), st.sampled_from(["max", "avg"]))
def test_pooling_is_what_its_loops_count(by_hand, out, kernel, stride, name):
    tally = by_hand.Tally()
    wide = (out - 1) * stride + kernel
    x, y = tally.array(2, wide, wide), tally.array(2, out, out)
    for channel, row, column in by_hand.every(2, out, out):
        total = tally.number()
        for i, j in by_hand.every(kernel, kernel):
            value = x[channel, row * stride + i, column * stride + j]
            total = total + value if name == "avg" else total.larger(value)
        y[channel, row, column] = total * 0.1 if name == "avg" else total
    specs = by_hand.spec(2, wide, wide), by_hand.spec(2, out, out)
    found = cost("pool", specs[:1], specs[1:], {"function": name, "window": kernel**2})
    assert found.total_flop == tally.vector
    assert found.accessed.read_bytes == 4 * x.loads
    back = cost("pool_backward", specs[1:], specs[:1], {"function": "avg", "window": kernel**2})
    assert back.total_flop == 2 * out * out * (kernel**2 + 1)
    assert back.compulsory.nbytes == specs[0].nbytes + specs[1].nbytes


def test_max_pooling_s_gradient_adds_once_and_does_not_read_the_input(by_hand):
    spec = by_hand.spec
    inputs = (spec(2, 4, 4), spec(2, 8, 8), spec(2, 4, 4, dtype="int64"))
    found = cost("pool_backward", inputs, (spec(2, 8, 8),), {"function": "max"})
    assert found.total_flop == 32
    assert found.compulsory.read_bytes == 128 + 256


def test_adaptive_pooling_takes_its_window_from_the_shapes(by_hand):
    found = cost("pool", (by_hand.spec(2, 7, 7),), (by_hand.spec(2, 1, 1),), {"function": "adaptive_avg"})
    assert found.total_flop == 2 * (49 + 1)


@pytest.mark.parametrize(
    ("mode", "per_output"),
    # linear: a + w·(b − a); bilinear: three of them; bicubic: 4 rows and a column of 4 products, 3 sums
    [("nearest", 0), ("linear", 3), ("bilinear", 9), ("trilinear", 21), ("bicubic", 5 * 7)],
)
def test_resampling_combines_its_taps(by_hand, mode, per_output):
    found = cost("interpolate", (by_hand.spec(1, 4, 4),), (by_hand.spec(1, 8, 8),), {"mode": mode})
    assert found.total_flop == per_output * 64
    assert found.compulsory.nbytes == 4 * (16 + 64)


# --- losses ---


@given(size, size)
def test_cross_entropy_is_what_its_loops_count(by_hand, rows, classes):
    tally = by_hand.Tally()
    x, total = tally.array(rows, classes), tally.number()
    for row in range(rows):
        peak = fold(tally, (x[row, i] for i in range(classes)), larger)
        spread = fold(tally, (x[row, i] for i in range(classes)), add_exp(peak))
        total = total - (tally.number() - peak - spread.log())  # of the target's logit
    spec = by_hand.spec
    found = cost(
        "loss", (spec(rows, classes), spec(rows, dtype="int64")), (spec(),), {"function": "cross_entropy"}
    )
    assert by_hand.flop(found, "vector") == tally.vector
    assert by_hand.flop(found, "special") == tally.special
    assert found.compulsory.nbytes == 4 * rows * classes + 8 * rows + 4


def test_nll_touches_one_element_of_each_row(by_hand):
    spec = by_hand.spec
    found = cost("loss", (spec(8, 1000), spec(8, dtype="int64")), (spec(),), {"function": "nll"})
    assert found.compulsory.read_bytes == 8 * 4 + 8 * 8
    inputs = (spec(), spec(8, 1000), spec(8, dtype="int64"))
    back = cost("loss", inputs, (spec(8, 1000),), {"function": "nll", "backward": True})
    assert (back.compulsory.read_bytes, back.compulsory.write_bytes) == (4 + 64, 32000)


@pytest.mark.parametrize(
    ("name", "attrs", "vector", "special"),
    [
        ("mse", {"reduction": "none"}, 2 * 8, 0),  # (x − t)²
        ("mse", {"reduction": "sum"}, 3 * 8, 0),
        ("mse", {}, 3 * 8 + 1, 0),
        ("mse", {"backward": True}, 3 * 8, 0),  # 2·(x − t)·g
        ("l1", {}, 3 * 8 + 1, 0),
        ("bce", {"reduction": "none"}, 6 * 8, 2 * 8),
        ("bce_with_logits", {"backward": True}, 4 * 8, 2 * 8),
    ],
)
def test_losses_of_single_elements(by_hand, name, attrs, vector, special):
    x, grad = (by_hand.spec(8), by_hand.spec(8)), ((by_hand.spec(),) if attrs.get("backward") else ())
    found = cost("loss", (*grad, *x), (by_hand.spec(),), {"function": name, **attrs})
    assert by_hand.flop(found, "vector") == vector
    assert by_hand.flop(found, "special") == special


@pytest.mark.parametrize(
    ("kind", "attrs", "message"),
    [
        ("reduction", {"function": "summ"}, "unknown reduction 'summ'; did you mean sum"),
        ("norm", {"function": "laier"}, "unknown normalisation 'laier'; did you mean layer"),
        ("norm_backward", {"function": "x"}, "unknown normalisation 'x'"),
        ("pool", {"function": "maxx"}, "unknown pooling 'maxx'; did you mean max"),
        ("interpolate", {"mode": "cubic2"}, "unknown interpolation 'cubic2'"),
        ("scan", {"function": "cumsam"}, "unknown scan 'cumsam'; did you mean cumsum"),
        ("loss", {"function": "mes"}, "unknown loss 'mes'"),
    ],
)
def test_unknown_names_are_errors_not_zero(by_hand, kind, attrs, message):
    x = by_hand.spec(4, 4)
    with pytest.raises(UnknownNameError, match=message):
        cost(kind, (x, x), (x,), attrs)


@pytest.mark.parametrize(
    ("kind", "name", "per_element"),
    [
        ("reduction", "sum", 2),
        ("reduction", "prod", 6),  # a complex product
        ("reduction", "sum_of_squares", 4),  # |z|², added
        ("scan", "cumsum", 2),
        ("scan", "cumprod", 6),
        ("scan", "associative", 8),  # a complex multiply-add
    ],
)
def test_complex_numbers_are_counted_in_real_operations(by_hand, kind, name, per_element):
    x = by_hand.spec(7, dtype="complex64")
    y = by_hand.spec(dtype="complex64") if kind == "reduction" else x
    assert cost(kind, (x,), (y,), {"function": name}).total_flop == per_element * 7


def test_complex_numbers_have_no_maximum(by_hand):
    x = by_hand.spec(7, dtype="complex64")
    with pytest.raises(UnknownNameError, match="unknown reduction 'max'"):
        cost("reduction", (x,), (x,), {"function": "max"})
