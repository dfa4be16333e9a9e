"""Calls that pick, fold and resample: bytes and FLOP of each, worked out beside it."""

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402

import rooflab  # noqa: E402


def meta(*shape, grad=False, dtype=torch.float32):
    return torch.empty(shape, device="meta", requires_grad=grad, dtype=dtype)


def ids(*shape):
    return meta(*shape, dtype=torch.int64)


IMAGE = meta(2, 3, 12, 12)
FORWARD_ONLY = "aten._embedding_bag_forward_only"
# call → op name, FLOP, bytes read, bytes written
CALLS = [
    ("trace", lambda: torch.trace(meta(7, 9)), "aten.trace", 7, 28, 4),
    # 4 · 9 rows of 6 · 6 windows: each is read, and added
    ("fold", lambda: F.fold(meta(1, 36, 36), (8, 8), 3), "aten.col2im", 36 * 36, 4 * 36 * 36, 4 * 4 * 64),
    # 5 bags of 3 rows of 16: 15 · 16 elements and 15 indices, 5 offsets; one addition for each element
    ("bags", lambda: F.embedding_bag(ids(5, 3), meta(99, 16), mode="sum"), FORWARD_ONLY, 240, 1120, 320),
    # a weight multiplies each: two operations an element; 15 weights
    (
        "weighted bags",
        lambda: F.embedding_bag(ids(5, 3), meta(99, 16), mode="sum", per_sample_weights=meta(5, 3)),
        FORWARD_ONLY,
        480,
        1180,
        320,
    ),
    # grid: 2 · 5 · 5 points of 2 coordinates
    ("nearest", lambda: sampled("nearest"), "aten.grid_sampler_2d", 0, 4 * (150 + 100), 4 * 150),
    # 35 operations a result, as many as there are in five sums of four products; 16 taps are more than the image
    ("bicubic", lambda: sampled("bicubic"), "aten.grid_sampler_2d", 35 * 150, 4 * (864 + 100), 4 * 150),
    # by 4: 8 × 8 taps a result, 8 rows of them; all of the image is read
    ("antialiased", lambda: shrunk(4), "aten._upsample_bilinear2d_aa", 2 * 72 * 54, 4 * 864, 4 * 54),
    ("not zero", lambda: (torch.arange(500) % 100 == 0).nonzero(), "aten.nonzero", 0, 500, 5 * 8),
    ("fill one number", lambda: meta().index_fill(0, ids(1), 2.0), "aten.index_fill", 0, 4 + 8, 4),
    ("unpool", lambda: F.max_unpool2d(meta(1, 2, 4, 4), ids(1, 2, 4, 4), 2), "aten.max_unpool2d", 0, 384, 512),
    (
        "grid",
        lambda: F.affine_grid(meta(2, 2, 3), [2, 3, 8, 8], align_corners=False),
        "aten.affine_grid_generator",
        6 * 256,
        48,
        1024,
    ),
]


def sampled(mode):
    return F.grid_sample(IMAGE, meta(2, 5, 5, 2), mode=mode, align_corners=False)


def shrunk(times):
    return F.interpolate(IMAGE, size=(12 // times, 12 // times), mode="bilinear", antialias=True)


@pytest.mark.parametrize(
    ("call", "name", "flop", "read", "write"), [c[1:] for c in CALLS], ids=[c[0] for c in CALLS]
)
def test_a_call_is_counted_as_worked_out_by_hand(call, name, flop, read, write):
    report = rooflab.analyze(call)
    row = next(one for one in report.rows if one.op.name == name)
    assert report.coverage.complete
    assert (row.cost.total_flop, row.read_bytes, row.write_bytes) == (flop, read, write)


GRADIENTS = [
    # the gradient of an unfolded image is added back: 3 · 4 · 100 elements into 3 · 121
    ("unfold", lambda: F.unfold(meta(1, 3, 11, 11, grad=True), 2), "aten.col2im", 1200, 4800, 4 * 363),
    ("windows", lambda: meta(9, grad=True).unfold(0, 4, 1), "aten.unfold_backward", 24, 96, 36),
    (
        "reflected",
        lambda: F.pad(meta(1, 1, 6, 6, grad=True), (2, 2, 2, 2), "reflect"),
        "aten.reflection_pad2d_backward",
        100,
        400,
        144,
    ),
    # two bags of 5 rows of 8: each row gets the gradient of its bag; 10 indices and 2 · 8 gradients are read
    (
        "bags",
        lambda: F.embedding_bag(ids(2, 5), meta(30, 8, grad=True), mode="sum"),
        "aten._embedding_bag_backward",
        80,
        80 + 64,
        960,
    ),
]


@pytest.mark.parametrize(("call", "name", "flop", "read", "write"), [c[1:] for c in GRADIENTS])
def test_a_gradient_adds_every_element_to_its_place(call, name, flop, read, write):
    row = next(one for one in rooflab.analyze(call, backward=True).rows if one.op.name == name)
    assert (row.cost.total_flop, row.read_bytes, row.write_bytes) == (flop, read, write)
