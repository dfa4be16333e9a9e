"""A program that trains, draws numbers, changes modes or fails leaves nothing of that behind."""

import random

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import rooflab  # noqa: E402
from rooflab.errors import RooflabError  # noqa: E402

X = torch.ones(4, 8)


class Model(nn.Module):
    """A layer with statistics and dropout that does something more."""

    def __init__(self, more=lambda model, y: None):
        super().__init__()
        self.layer, self.norm, self.drop = nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Dropout()
        self.more = more

    def forward(self, x):
        y = self.drop(self.norm(self.layer(x)))
        self.more(self, y)
        return y


def fails(model, y):
    raise ValueError("no more")


def state(model):
    tensors = [*model.parameters(), *model.buffers(), *(one.grad for one in model.parameters())]
    return [
        *(one if one is None else one.detach().clone() for one in tensors),
        torch.random.get_rng_state(),
        torch.tensor(np.random.get_state()[1].astype("int64")),  # noqa: NPY002
        str(random.getstate()),
        (torch.get_default_dtype(), torch.is_grad_enabled(), torch.backends.mha.get_fastpath_enabled()),
        torch.backends.cuda.flash_sdp_enabled(),
        torch._C._dispatch_has_kernel_for_dispatch_key("aten::dropout", "AutogradMeta"),
        [one.training for one in model.modules()],
    ]


def same(one, other):
    pairs = zip(one, other, strict=True)
    return all(torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b for a, b in pairs)


CHANGES = [
    ("nothing", lambda model, y: None),
    ("its mode", lambda model, y: model.eval()),
    ("number format", lambda model, y: torch.set_default_dtype(torch.float64)),
    ("grad mode", lambda model, y: torch.set_grad_enabled(False)),
    ("random numbers", lambda model, y: (random.random(), np.random.rand(), torch.rand(2))),  # noqa: NPY002
    ("gradients", lambda model, y: y.sum().backward()),
    ("an error", fails),
]


@pytest.mark.parametrize("kept", [False, True], ids=["no gradients", "gradients"])
@pytest.mark.parametrize(("name", "more"), CHANGES, ids=[name for name, _ in CHANGES])
def test_what_a_program_changes_is_put_back(name, more, kept):
    model = Model()
    if kept:
        model(X).sum().backward()
    model.more = more
    before = state(model)
    if name == "an error":
        with pytest.raises(RooflabError, match="no more"):
            rooflab.analyze(model, X, attention="unfused")
    else:
        assert rooflab.analyze(model, X).matrix_flop >= 512
    assert same(state(model), before)


def test_a_training_step_of_one_s_own_is_counted_and_undone():
    """Forward and the weight's gradient, 2·4·8·8 each; Adam's state is empty again."""
    model = Model()
    optimizer = torch.optim.Adam(model.parameters())

    def step(x):
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()

    before = state(model)
    report = rooflab.analyze(step, X)
    assert report.matrix_flop == 1024
    assert {row.op.phase for row in report.rows} == {"forward", "backward", "optimizer"}
    assert same(state(model), before)
    assert not optimizer.state
