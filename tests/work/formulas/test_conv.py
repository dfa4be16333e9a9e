"""Convolutions and their gradients against loops that count."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rooflab.work.formulas import cost

small = st.integers(1, 3)


@st.composite
def shapes(draw):
    """A convolution of one to three dimensions that leaves something over."""
    dims = draw(st.integers(1, 3))
    kernel = tuple(draw(st.integers(1, 3 if dims < 3 else 2)) for _ in range(dims))
    dilation, stride = draw(st.integers(1, 2)), draw(st.integers(1, 3))
    spatial = tuple(draw(st.integers(1, 3)) + dilation * (size - 1) for size in kernel)
    groups = draw(st.integers(1, 3))
    return {
        "kernel": kernel,
        "dilation": dilation,
        "stride": stride,
        "spatial": spatial,
        "groups": groups,
        "batch": draw(st.integers(1, 2)),
        "in_group": draw(st.integers(1, 2)),
        "out_group": draw(st.integers(1, 2)),
    }


def out_sizes(shape):
    return tuple(
        (size - shape["dilation"] * (k - 1) - 1) // shape["stride"] + 1
        for size, k in zip(shape["spatial"], shape["kernel"], strict=True)
    )


@settings(max_examples=40)
@given(shapes(), st.booleans())
def test_conv_is_what_its_loops_count(by_hand, shape, bias):
    tally, every = by_hand.Tally(), by_hand.every
    groups, out = shape["groups"], out_sizes(shape)
    c_in, c_out = groups * shape["in_group"], groups * shape["out_group"]
    x = tally.array(shape["batch"], c_in, *shape["spatial"])
    w = tally.array(c_out, shape["in_group"], *shape["kernel"])
    y, b = tally.array(shape["batch"], c_out, *out), tally.array(c_out)
    for n, channel, *at in every(shape["batch"], c_out, *out):
        total = tally.number()
        first = channel // shape["out_group"] * shape["in_group"]
        for inner, *tap in every(shape["in_group"], *shape["kernel"]):
            place = (p * shape["stride"] + t * shape["dilation"] for p, t in zip(at, tap, strict=True))
            total = total + x[(n, first + inner, *place)] * w[(channel, inner, *tap)]
        if bias:
            total = total + b[channel]
        y[(n, channel, *at)] = total
    inputs = [by_hand.spec(*x.shape), by_hand.spec(*w.shape)] + [by_hand.spec(c_out)] * bias
    attrs = {"kernel": shape["kernel"], "groups": groups, "bias": bias}
    found = cost("conv", tuple(inputs), (by_hand.spec(*y.shape),), attrs)
    assert found.total_flop == tally.vector
    assert found.accessed.read_bytes == 4 * (x.loads + w.loads + b.loads)
    assert found.accessed.write_bytes == 4 * y.stores
    assert found.compulsory.write_bytes == 4 * len(y.written)
    assert found.compulsory.read_bytes >= 4 * (len(x.read) + len(w.read) + len(b.read))  # x is read whole
    del attrs["kernel"]
    assert cost("conv", tuple(inputs), (by_hand.spec(*y.shape),), attrs) == found  # w has the kernel


@settings(max_examples=40)
@given(shapes())
def test_a_transposed_conv_spreads_each_input(by_hand, shape):
    tally, every = by_hand.Tally(), by_hand.every
    groups, wide = shape["groups"], out_sizes(shape)
    # the transposed one goes from the small sizes to the large ones
    c_in, c_out = groups * shape["in_group"], groups * shape["out_group"]
    x = tally.array(shape["batch"], c_in, *wide)
    w = tally.array(c_in, shape["out_group"], *shape["kernel"])
    y = tally.array(shape["batch"], c_out, *shape["spatial"])
    for n, channel, *at in every(*x.shape):
        first = channel // shape["in_group"] * shape["out_group"]
        for inner, *tap in every(shape["out_group"], *shape["kernel"]):
            place = tuple(p * shape["stride"] + t * shape["dilation"] for p, t in zip(at, tap, strict=True))
            product = x[(n, channel, *at)] * w[(channel, inner, *tap)]
            y[(n, first + inner, *place)] = tally.number() + product  # an accumulator that y begins at 0
    inputs = (by_hand.spec(*x.shape), by_hand.spec(*w.shape))
    attrs = {"kernel": shape["kernel"], "groups": groups, "transposed": True}
    found = cost("conv", inputs, (by_hand.spec(*y.shape),), attrs)
    assert found.total_flop == tally.vector
    assert found.accessed.read_bytes == 4 * (x.loads + w.loads)


@settings(max_examples=40)
@given(shapes(), st.booleans(), st.booleans(), st.booleans())
def test_gradients_are_what_their_loops_count(by_hand, shape, want_x, want_w, want_b):
    tally, every = by_hand.Tally(), by_hand.every
    groups, out = shape["groups"], out_sizes(shape)
    c_in, c_out = groups * shape["in_group"], groups * shape["out_group"]
    x = tally.array(shape["batch"], c_in, *shape["spatial"])
    w = tally.array(c_out, shape["in_group"], *shape["kernel"])
    grad = tally.array(shape["batch"], c_out, *out)
    zero = tally.number()
    for n, channel, *at in every(shape["batch"], c_out, *out):
        first = channel // shape["out_group"] * shape["in_group"]
        for inner, *tap in every(shape["in_group"], *shape["kernel"]):
            place = tuple(p * shape["stride"] + t * shape["dilation"] for p, t in zip(at, tap, strict=True))
            if want_x:
                zero = zero + grad[(n, channel, *at)] * w[(channel, inner, *tap)]
            if want_w:
                zero = zero + grad[(n, channel, *at)] * x[(n, first + inner, *place)]
        if want_b:
            zero = zero + grad[(n, channel, *at)]
    specs = tuple(by_hand.spec(*array.shape) for array in (grad, x, w))
    outputs = [specs[1]] * want_x + [specs[2]] * want_w + [by_hand.spec(c_out)] * want_b
    attrs = {
        "kernel": shape["kernel"],
        "groups": groups,
        "input_grad": want_x,
        "weight_grad": want_w,
        "bias_grad": want_b,
    }
    found = cost("conv_backward", specs, tuple(outputs), attrs)
    assert found.total_flop == tally.vector
    assert found.accessed.read_bytes == 4 * (grad.loads + x.loads + w.loads)
    # only what is needed is read
    read = specs[0].nbytes + want_w * specs[1].nbytes + want_x * specs[2].nbytes
    assert found.compulsory.read_bytes == read


def test_a_batch_may_be_missing(by_hand):
    spec = by_hand.spec
    found = cost("conv", (spec(3, 8, 8), spec(4, 3, 3, 3)), (spec(4, 6, 6),), {"kernel": (3, 3)})
    assert found.total_flop == 2 * 4 * 36 * 27


def test_a_complex_conv_is_four_times_the_real_one(by_hand):
    def found(dtype):
        specs = [by_hand.spec(*shape, dtype=dtype) for shape in ((1, 2, 5), (3, 2, 3), (3,), (1, 3, 3))]
        return cost("conv", tuple(specs[:3]), (specs[3],), {"kernel": (3,), "bias": True})

    real, complex_ = found("fp32"), found("complex64")
    assert by_hand.flop(complex_, "matrix") == 4 * by_hand.flop(real, "matrix")
    assert by_hand.flop(complex_, "vector") == 2 * by_hand.flop(real, "vector")


def test_other_layouts_give_their_multiply_adds(by_hand):
    spec = by_hand.spec
    found = cost("conv", (spec(1, 8, 8, 3), spec(3, 3, 3, 4)), (spec(1, 6, 6, 4),), {"fma": 6 * 6 * 4 * 27})
    assert found.total_flop == 2 * 6 * 6 * 4 * 27


@pytest.mark.parametrize("dtype", ["int8", "bf16"])
def test_products_keep_their_format(by_hand, dtype):
    specs = [by_hand.spec(*shape, dtype=dtype) for shape in ((1, 2, 5), (3, 2, 3), (1, 3, 3))]
    assert cost("conv", tuple(specs[:2]), (specs[2],), {"kernel": (3,)}).flop[0].dtype == dtype
