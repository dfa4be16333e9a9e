"""The backward pass and the optimizer's step of a captured program, leaving its tensors as they are."""

from __future__ import annotations

import contextlib
import copy
import importlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from rooflab.errors import RooflabError
from rooflab.work.capture.torch.recorder import Recorder
from rooflab.work.capture.torch.tensors import names_of

# The module, where `torch.optim` has no attribute of its name.
_optim: Any = importlib.import_module("torch.optim.optimizer")

Gradients = dict[torch.Tensor, torch.Tensor]


def backward(recorder: Recorder, out: Any, wanted: Sequence[torch.Tensor]) -> Gradients:
    """The gradients of `wanted`, by tensor; `.grad` is left alone.

    Raises:
        RooflabError: nothing in the results has a gradient.
    """
    results = _results(out)
    wanted = list(dict.fromkeys([*wanted, *leaves(results)]))
    if not wanted or not results:
        raise RooflabError(
            f"backward: no gradient to follow; got {len(wanted)} parameters and inputs that require one and"
            f" {len(results)} results that have one; leave no_grad and inference_mode, or set requires_grad"
        )
    starts = [torch.ones_like(one) for one in results]
    for one in starts:
        recorder.table.say(one, "gradient", None)
    with recorder:
        grads = torch.autograd.grad(results, wanted, starts, allow_unused=True)
    return _noted(recorder, wanted, grads)


def backward_into_leaves(recorder: Recorder, out: Any, wanted: Sequence[torch.Tensor]) -> Gradients:
    """As `backward`, for programs that only `Tensor.backward` follows (reentrant checkpoints)."""
    results = _results(out)
    starts = [torch.ones_like(one) for one in results]
    for one in starts:
        recorder.table.say(one, "gradient", None)
    before = [one.grad for one in wanted]
    for one in wanted:
        one.grad = None
    try:
        with recorder:
            torch.autograd.backward(results, starts)
        grads = [one.grad for one in wanted]
    finally:
        for one, grad in zip(wanted, before, strict=True):
            one.grad = grad
    return _noted(recorder, wanted, grads)


def leaves(results: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The tensors that autograd would give a gradient: also those of modules that nobody named."""
    found: list[torch.Tensor] = []
    seen: set[Any] = set()
    open_nodes: list[Any] = [one.grad_fn for one in results]
    while open_nodes:
        node = open_nodes.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        leaf = getattr(node, "variable", None)  # of the nodes that accumulate gradients
        if isinstance(leaf, torch.Tensor):
            found.append(leaf)
        open_nodes.extend(before for before, _ in node.next_functions)
    return found[::-1]


def _noted(recorder: Recorder, wanted: Sequence[torch.Tensor], grads: Sequence[Any]) -> Gradients:
    gradients = {one: grad for one, grad in zip(wanted, grads, strict=True) if grad is not None}
    for grad in gradients.values():
        recorder.table.say(grad, "gradient", None)
    return gradients


def _results(out: Any) -> list[torch.Tensor]:
    """What backward begins at: the loss where a result has one, else every tensor that has a gradient."""
    loss = out.get("loss") if isinstance(out, Mapping) else getattr(out, "loss", None)
    if isinstance(loss, torch.Tensor) and loss.grad_fn is not None:
        return [loss]
    tensors = names_of({"": dict(out) if isinstance(out, Mapping) else out}).values()
    return [one for one in tensors if one.grad_fn is not None]


def step(recorder: Recorder, optimizer: Any, gradients: Gradients) -> None:
    """Record one step of `optimizer` on stand-ins without data for the parameters in `gradients`.

    The step recorded is the second: the first also makes the states.

    Raises:
        RooflabError: `optimizer` is neither an optimizer nor makes one.
    """
    stand_ins = {one: _stand_in(recorder, one, grad) for one, grad in gradients.items()}
    with _on_meta():
        copied = _copied(optimizer, stand_ins)
        with recorder.unheard():
            copied.step()
        for state in copied.state.values():
            for name, one in names_of(state).items():
                recorder.table.say(one, "state", name)
        with recorder:
            copied.step()


def _stand_in(recorder: Recorder, param: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:
    stand_in = torch.empty_strided(
        param.shape, param.stride(), dtype=param.dtype, device="meta", requires_grad=True
    )
    stand_in.grad = torch.empty_strided(grad.shape, grad.stride(), dtype=grad.dtype, device="meta")
    recorder.table.same(stand_in, param)
    recorder.table.same(stand_in.grad, grad)
    return stand_in


def _copied(optimizer: Any, stand_ins: Mapping[torch.Tensor, torch.Tensor]) -> torch.optim.Optimizer:
    """The optimizer with stand-ins for its parameters and no state yet."""
    if not isinstance(optimizer, torch.optim.Optimizer):
        created = optimizer(list(stand_ins.values())) if callable(optimizer) else None
        if not isinstance(created, torch.optim.Optimizer):
            raise RooflabError(
                f"optimizer: got {type(optimizer).__name__}; expected a torch.optim.Optimizer, or a function"
                " that makes one from a list of parameters"
            )
        return created
    copied = copy.copy(optimizer)
    copied.state = defaultdict(dict)
    copied.param_groups = [
        {**group, "params": [stand_ins[one] for one in group["params"] if one in stand_ins]}
        for group in optimizer.param_groups
    ]
    return copied


@contextlib.contextmanager
def _on_meta() -> Iterator[None]:
    """Let PyTorch choose for meta tensors what it would choose for a GPU's: foreach and fused steps."""
    names = ("_get_fused_kernels_supported_devices", "_get_foreach_kernels_supported_devices")
    saved: dict[str, Callable[[], list[str]]] = {name: getattr(_optim, name) for name in names}
    try:
        for name, function in saved.items():
            setattr(_optim, name, lambda function=function: [*function(), "meta"])
        yield
    finally:
        for name, function in saved.items():
            setattr(_optim, name, function)
