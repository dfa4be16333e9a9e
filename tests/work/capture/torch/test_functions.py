"""Functions of torch and torch.nn: every op has a cost, forward and backward, on a CPU and without data."""

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402

from rooflab.work.capture.torch import capture  # noqa: E402
from rooflab.work.costs import uncosted  # noqa: E402

FLAT, IMAGE, VOLUME = (4, 8), (1, 4, 4, 4), (1, 2, 4, 4, 4)


def rows(x, *shape):
    return torch.zeros(*shape, dtype=torch.int64, device=x.device)


def module(kind, *sizes, **more):
    """The result of a new module where the input is."""

    def run(x, *rest):
        out = kind(*sizes, device=x.device, **more)(x, *rest)
        return out[0] if isinstance(out, tuple) else out

    return run


ACTIVATIONS = [
    *(F.relu, F.elu, F.selu, F.celu, F.gelu, F.silu, F.mish, F.softplus, F.softsign, F.hardswish, F.hardsigmoid),
    *(F.hardtanh, F.leaky_relu, F.relu6, F.logsigmoid, F.tanhshrink, F.softshrink, F.hardshrink, F.glu, F.rrelu),
    *(F.normalize, torch.sigmoid, torch.tanh, F.gumbel_softmax),
]
LOSSES = [F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss, F.binary_cross_entropy_with_logits, F.kl_div]
MODES = [("nearest", IMAGE), ("bilinear", IMAGE), ("bicubic", IMAGE), ("trilinear", VOLUME), ("linear", (1, 2, 4))]

FUNCTIONS = [
    *((one.__name__, one, FLAT) for one in ACTIVATIONS),
    *((one.__name__, one, FLAT, FLAT) for one in LOSSES),
    *((mode, lambda x, mode=mode: F.interpolate(x, scale_factor=2, mode=mode), size) for mode, size in MODES),
    ("prelu", F.prelu, FLAT, (8,)),
    ("log_softmax", lambda x: F.log_softmax(x, -1), FLAT),
    ("conv3d", F.conv3d, (1, 2, 5, 5, 5), (3, 2, 2, 2, 2)),
    ("transposed", lambda x, w: F.conv_transpose3d(x, w, stride=2, groups=2), VOLUME, (2, 2, 3, 3, 3)),
    ("max_pool1d", lambda x: F.max_pool1d(x, 2), (1, 2, 4)),
    ("max_pool3d", lambda x: F.max_pool3d(x, 2), VOLUME),
    ("adaptive", lambda x: F.adaptive_max_pool2d(x, 2), IMAGE),
    ("lp_pool", lambda x: F.lp_pool2d(x, 2, 2), IMAGE),
    ("grid_sample", F.grid_sample, IMAGE, (1, 3, 3, 2)),
    ("bilinear layer", F.bilinear, (4, 3), (4, 5), (6, 3, 5)),
    ("cdist", torch.cdist, (4, 3), (5, 3)),
    ("cdist of many", torch.cdist, (40, 3), (50, 3)),
    ("reflect", lambda x: F.pad(x, (1, 1, 1, 1), mode="reflect"), IMAGE),
    ("unfold", lambda x: F.unfold(x, 2), IMAGE),
    ("fold", lambda x: F.fold(x, (4, 4), 2), (1, 8, 9)),
    ("shuffle", lambda x: F.pixel_shuffle(x, 2), IMAGE),
    ("classes", lambda x: F.cross_entropy(x, rows(x, 4), label_smoothing=0.1), FLAT),
    ("bags", lambda x: F.embedding_bag(rows(x, 3, 2), x), FLAT),
    ("gather", lambda x: x.gather(1, rows(x, 4, 2)), FLAT),
    ("scatter", lambda x, y: x.scatter_reduce(1, rows(x, 4, 2), y, "sum"), FLAT, (4, 2)),
    ("put", lambda x, y: x.clone().index_put_((rows(x, 2),), y, accumulate=True), FLAT, (2, 8)),
    ("sort", lambda x: x.sort()[0] + x.cumsum(-1) + x.cumprod(-1) + x.cummax(-1)[0], FLAT),
    ("moments", lambda x: x.var(-1) + x.std(-1) + x.amax(-1) + x.logsumexp(-1) + x.prod(), FLAT),
    ("norms", lambda x: x.norm(3) + x.norm() + x.norm(1), FLAT),
    ("spectrum", lambda x: torch.fft.irfft(torch.fft.rfft(x)), FLAT),
    ("stft", lambda x: torch.stft(x, 16, return_complex=True, window=torch.ones_like(x[0, :16])).abs(), (1, 64)),
    ("complex", lambda x: torch.view_as_real(torch.polar(x.exp(), x) * torch.complex(x, x)), FLAT),
    ("kron", torch.kron, (2, 3), (4, 5)),
    ("chain", lambda *all_: torch.linalg.multi_dot(all_), (2, 3), (3, 4), (4, 5)),
    ("layout", lambda x: torch.cat([x.repeat(2, 1), x.flip(0).roll(1, 0).tile(2, 1).tril()]), FLAT),
    (
        "mixed",
        lambda x, y: torch.lerp(x, y, 0.3) + torch.hypot(x, y) + torch.atan2(x, y) + torch.fmod(x, 2),
        FLAT,
        FLAT,
    ),
    ("LayerNorm", module(nn.LayerNorm, 4), IMAGE),
    ("GroupNorm", module(nn.GroupNorm, 2, 4), IMAGE),
    ("BatchNorm", module(nn.BatchNorm2d, 4), IMAGE),
    ("InstanceNorm", module(nn.InstanceNorm2d, 4), IMAGE),
    ("RMSNorm", module(nn.RMSNorm, 4), IMAGE),
    ("GRU", module(nn.GRU, 4, 5), (3, 2, 4)),
    ("RNN", module(nn.RNN, 4, 5), (3, 2, 4)),
    ("LSTM", module(nn.LSTM, 4, 5, 2, bidirectional=True), (3, 2, 4)),
    ("MultiheadAttention", lambda x: module(nn.MultiheadAttention, 8, 2)(x, x, x), (3, 2, 8)),
    ("Transformer", module(nn.Transformer, 8, 2, 1, 1, 16), (3, 2, 8), (3, 2, 8)),
]


@pytest.mark.slow
@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize("case", FUNCTIONS, ids=lambda case: case[0])
@pytest.mark.filterwarnings("ignore")  # PyTorch's own about shapes this small
def test_cost_of_every_op(case, device):
    _name, function, *shapes = case
    inputs = [torch.randn(shape, device=device, requires_grad=True) for shape in shapes]
    graph = capture(function, inputs, backward=True)
    assert uncosted(graph) == {}
    assert {op.phase for op in graph.ops} == {"forward", "backward"}


def test_fake_tensors_give_what_meta_tensors_give():
    def make():
        return nn.Sequential(nn.Linear(8, 8), nn.RMSNorm(8), nn.Dropout(0.1)), torch.randn(2, 8)

    with FakeTensorMode():
        fake = make()
    with torch.device("meta"):
        meta = make()
    graphs = [capture(model, (x,), backward=True) for model, x in (fake, meta)]
    ops = [[(op.name, op.module, op.phase, op.attrs) for op in graph.ops] for graph in graphs]
    assert ops[0] == ops[1]
    assert any(op.kind == "norm_backward" for op in graphs[0].ops)
