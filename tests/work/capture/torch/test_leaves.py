"""Gradients, parameters and results wherever a program keeps them."""

import dataclasses
import functools

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

import rooflab  # noqa: E402

LAYER = nn.Linear(8, 8, bias=False)
WEIGHT = nn.Parameter(torch.ones(8, 8))


@dataclasses.dataclass
class Result:
    """What a program may return."""

    y: torch.Tensor
    rest: object = None


class Holder:
    """A plain object that holds a layer."""

    def __init__(self):
        self.layer = nn.Linear(8, 8, bias=False)

    def __call__(self, x):
        return self.layer(x)

    def method(self, x):
        return self.layer(x)


def through(x, layer=LAYER):
    return layer(x)


HELD = [
    ("a default", through),
    ("a parameter", lambda x: x @ WEIGHT),
    ("in a list", lambda x, held=[LAYER]: held[0](x)),
    ("an object", Holder()),
    ("its method", Holder().method),
    ("bound", functools.partial(through, layer=LAYER)),
    ("inside", lambda x: (lambda y: LAYER(y))(x)),
    ("a dataclass", lambda x: {"out": [Result(LAYER(x))]}),
    ("compiled", torch.compile(lambda x: LAYER(x), backend="eager")),
    ("recomputed", lambda x: checkpoint(lambda y: y @ WEIGHT, x, use_reentrant=False)),
]


@pytest.mark.parametrize(("name", "fn"), HELD, ids=[name for name, _ in HELD])
def test_a_weight_has_its_gradient_wherever_the_program_keeps_it(name, fn):
    """2·4·8·8 forward, and as much for the weight's gradient; the input asks for none."""
    report = rooflab.analyze(fn, torch.ones(4, 8), backward=True)
    assert report.matrix_flop == 2 * 512
    assert report.parameters == 64
    assert LAYER.weight.grad is None
    assert WEIGHT.grad is None
