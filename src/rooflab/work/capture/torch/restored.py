"""What a captured program changes beside its results, put back: its modules, their training, global settings."""

from __future__ import annotations

import contextlib
import itertools
import random
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils._python_dispatch import _disable_current_modes

Undo = Callable[[], object]


@contextlib.contextmanager
def unchanged(modules: Mapping[str, nn.Module], inputs: Iterable[torch.Tensor]) -> Iterator[None]:
    """Put back buffers, gradients, modes of modules and global settings, whatever happens in between."""
    every = list(modules.values())
    leaves = [*itertools.chain.from_iterable(one.parameters() for one in every), *inputs]
    undo = [*_settings(), *map(_buffers, every), *map(_gradient, leaves)]
    undo += [_training(one) for module in every for one in module.modules()]
    try:
        with torch.set_grad_enabled(torch.is_grad_enabled()):
            yield
    finally:
        _run(undo)


@contextlib.contextmanager
def steps(phase: Callable[[bool], None]) -> Iterator[None]:
    """Say when an optimizer that the program holds steps, and undo its steps.

    Args:
        phase: called with whether a step runs from now on.
    """
    undo: dict[Any, Undo] = {}

    def began(optimizer: Any, *_: Any) -> None:
        if optimizer not in undo:
            with _disable_current_modes(), torch.no_grad():
                undo[optimizer] = _before(optimizer)
        phase(True)

    def ended(*_: Any) -> None:
        phase(False)

    handles = [register_optimizer_step_pre_hook(began), register_optimizer_step_post_hook(ended)]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
        _run(undo.values())


def _run(undo: Iterable[Undo]) -> None:
    with torch.no_grad():
        for one in undo:
            one()


def _settings() -> list[Undo]:
    """Random numbers of PyTorch, Python and NumPy; the number format of new tensors."""
    torchs, pythons, dtype = torch.random.get_rng_state(), random.getstate(), torch.get_default_dtype()
    undo: list[Undo] = [
        lambda: torch.random.set_rng_state(torchs),
        lambda: random.setstate(pythons),
        lambda: torch.set_default_dtype(dtype),
    ]
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None:
        numbers = numpy.random.get_state()
        undo.append(lambda: numpy.random.set_state(numbers))
    return undo


def _buffers(module: nn.Module) -> Undo:
    # Batch norm does not raise the version of what it writes: its buffers are copied.
    saved = [(one, one.detach().clone()) for one in module.buffers() if not one.is_meta]
    return lambda: [one.copy_(copy) for one, copy in saved]


def _training(module: nn.Module) -> Undo:
    was = module.training

    def put_back() -> None:
        module.training = was

    return put_back


def _gradient(leaf: torch.Tensor) -> Undo:
    grad = leaf.grad if leaf.is_leaf else None
    copy = _copy(grad)

    def put_back() -> None:
        if grad is not None and copy is not None:
            grad.copy_(copy)
        if leaf.is_leaf:
            leaf.grad = grad

    return put_back


def _copy(tensor: torch.Tensor | None) -> torch.Tensor | None:
    """The values of a tensor; None where it has none to keep."""
    real = tensor is not None and not tensor.is_meta and tensor.layout is torch.strided
    return tensor.detach().clone() if tensor is not None and real else None


def _before(optimizer: Any) -> Undo:
    """Parameters and state of an optimizer before its first step."""
    params = [one for group in optimizer.param_groups for one in group["params"]]
    values = [(one, copy) for one in params if (copy := _copy(one)) is not None]
    state = {
        param: {name: (one.clone() if isinstance(one, torch.Tensor) else one) for name, one in held.items()}
        for param, held in optimizer.state.items()
    }

    def put_back() -> None:
        for param, value in values:
            param.copy_(value)
        optimizer.state.clear()
        optimizer.state.update(state)

    return put_back
