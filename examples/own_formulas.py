"""An operator of your own and its formula: `rooflab analyze examples/own_formulas.py:model`."""

import torch

import rooflab


@torch.library.custom_op("examples::gram", mutates_args=())
def gram(x: torch.Tensor, scale: float) -> torch.Tensor:
    """Scale · x · xᵀ, as a kernel of your own would compute it: nothing of its inside is to be seen."""
    return scale * (x @ x.T)


@gram.register_fake
def _(x: torch.Tensor, scale: float) -> torch.Tensor:
    return x.new_empty(x.shape[0], x.shape[0])


@rooflab.formula("examples::gram")
def gram_flop(x, scale, *, out):
    """A multiply-add for each element of x, as often as the result has rows; the scale is one more each."""
    return 2 * x.elements * out.shape[0] + out.elements


def model(rows: int = 64) -> torch.Tensor:
    """A program that calls it."""
    x = torch.empty(rows, 1024, device="meta")
    return torch.relu(torch.ops.examples.gram(x, 0.5))


if __name__ == "__main__":
    print(rooflab.analyze(model).flop, "FLOP")
