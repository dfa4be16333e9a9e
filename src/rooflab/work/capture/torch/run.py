"""Runs a program under the recorder: forward, then backward, then the optimizer's step."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from rooflab.errors import RooflabError
from rooflab.types.work import Graph
from rooflab.work.capture.torch import overrides
from rooflab.work.capture.torch.places import ModuleStack, modules_of, paths
from rooflab.work.capture.torch.recorder import Recorder
from rooflab.work.capture.torch.tensors import names_of


def run(
    fn: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    *,
    backward: bool,
    optimizer: Any,
    device: str,
    fused: bool,
) -> Graph:
    """The graph of `fn(*args, **kwargs)`; see `capture`."""
    modules = modules_of(fn)
    stack = ModuleStack(paths(modules))
    recorder = Recorder(stack, overrides.instead(fused))
    _name(recorder, modules, _bound(fn, args, kwargs))
    with _settings(fused, device), _unchanged(modules), stack:
        with recorder:
            out = fn(*args, **kwargs)
        if backward:
            _backward(recorder, out, modules, _bound(fn, args, kwargs))
    return recorder.graph(_conventions(fused, device, backward))


def _name(recorder: Recorder, modules: Mapping[str, nn.Module], inputs: Mapping[str, Any]) -> None:
    """Say which storages are parameters, buffers and inputs."""
    for prefix, module in modules.items():
        lead = f"{prefix}." if prefix else ""
        for name, one in module.named_parameters():
            recorder.table.say(one, "parameter", lead + name)
        for name, one in module.named_buffers():
            recorder.table.say(one, "buffer", lead + name)
    for name, one in names_of(inputs).items():
        recorder.table.say(one, "parameter" if isinstance(one, nn.Parameter) else "input", name)


def _bound(fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments by the names that the function gives them."""
    try:
        signature = inspect.signature(fn.forward if isinstance(fn, nn.Module) else fn)
        return dict(signature.bind(*args, **kwargs).arguments)
    except (TypeError, ValueError):  # a built-in has no signature; a wrong call fails by itself, in words
        return {**{str(number): one for number, one in enumerate(args)}, **kwargs}


@contextlib.contextmanager
def _settings(fused: bool, device: str) -> Iterator[None]:
    """Global settings of PyTorch while capturing; put back afterwards."""
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)  # it hides a whole encoder layer in one operator
    try:
        with contextlib.ExitStack() as stack:
            if not fused:
                stack.enter_context(sdpa_kernel([SDPBackend.MATH]))
            stack.enter_context(overrides.installed(fused, device != "cpu"))
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)


@contextlib.contextmanager
def _unchanged(modules: Mapping[str, nn.Module]) -> Iterator[None]:
    """Put buffers (running statistics, caches) and the state of random numbers back."""
    buffers = [one for module in modules.values() for one in module.buffers() if one.device.type != "meta"]
    saved = [(one, one._version, one.detach().clone()) for one in buffers]
    state = torch.random.get_rng_state()
    try:
        yield
    finally:
        torch.random.set_rng_state(state)
        with torch.no_grad():
            for one, version, copy in saved:
                if one._version != version:
                    one.copy_(copy)


def _backward(recorder: Recorder, out: Any, modules: Mapping[str, nn.Module], inputs: Mapping[str, Any]) -> None:
    wanted: list[torch.Tensor] = []
    for module in modules.values():
        wanted.extend(one for one in module.parameters() if one.requires_grad)
    wanted.extend(one for one in names_of(inputs).values() if one.requires_grad)
    results = _results(out)
    if not wanted or not results:
        raise RooflabError(
            "backward: no result requires a gradient; got "
            f"{len(wanted)} inputs and parameters with requires_grad, {len(results)} such results;"
            " leave no_grad and inference_mode, or set requires_grad"
        )
    starts = [torch.ones_like(one) for one in results]
    for one in starts:
        recorder.table.say(one, "gradient", None)
    with recorder:
        grads = torch.autograd.grad(results, wanted, starts, allow_unused=True)
    for one in grads:
        if one is not None:
            recorder.table.say(one, "gradient", None)


def _results(out: Any) -> list[torch.Tensor]:
    """What backward begins at: the loss where a result has one, else every tensor that has a gradient."""
    loss = out.get("loss") if isinstance(out, Mapping) else getattr(out, "loss", None)
    if isinstance(loss, torch.Tensor) and loss.grad_fn is not None:
        return [loss]
    found = names_of({"": dict(out) if isinstance(out, Mapping) else out}).values()
    return [one for one in found if one.grad_fn is not None]


def _conventions(fused: bool, device: str, backward: bool) -> tuple[str, ...]:
    found = [f"operators: as {device} would run them", f"attention: {'fused' if fused else 'unfused'}"]
    if backward:
        found.append("backward: begins at the loss, or at a given gradient of each result")
    return tuple(found)
