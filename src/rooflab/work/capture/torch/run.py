"""Runs a program under the recorder: forward, then backward, then the optimizer's step."""

from __future__ import annotations

import contextlib
import gc
import inspect
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

import msgspec
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from rooflab.types.work import RECORDING, Graph
from rooflab.work.capture.torch import autocast, failures, outside, overrides, ranks, recording, training
from rooflab.work.capture.torch.exported import followed, is_exported
from rooflab.work.capture.torch.kept import Keeper
from rooflab.work.capture.torch.places import ModuleStack, modules_of, paths
from rooflab.work.capture.torch.recorder import Recorder
from rooflab.work.capture.torch.restored import steps, unchanged
from rooflab.work.capture.torch.tensors import names_of
from rooflab.work.formulas.attention import MASKED


def run(
    fn: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    *,
    backward: bool,
    optimizer: Any,
    device: str,
    fused: bool,
    keeper: Keeper | None = None,
    recorded: bool = False,
) -> Graph:
    """The graph of `fn(*args, **kwargs)`; see `capture`."""
    stack = ModuleStack({})
    if is_exported(fn):
        program = cast(Any, fn).module()
        modules, fn = {"": program}, followed(program, lambda: stack)
    else:
        modules = modules_of(fn)
    inputs = names_of(_bound(fn, args, kwargs), objects=True)
    unfused: Counter[str] = Counter()
    asked: list[str] = []
    left: list[str] = []
    attention = overrides.attention_on(device, unfused) if fused else None
    instead = overrides.instead(attention, device != "cpu")
    names = paths(modules)
    wanted = [one for module in modules.values() for one in module.parameters() if one.requires_grad]
    wanted = list(dict.fromkeys([*wanted, *(one for one in inputs.values() if one.requires_grad)]))

    def record(follow: Callable[..., Any]) -> Recorder:
        nonlocal stack
        stack = ModuleStack(names)
        if keeper is not None:
            keeper.calls.clear()
        recorder = Recorder(stack, instead, like_gpu=device != "cpu", keeper=keeper)
        _name(recorder, modules, inputs)
        unfused.clear()
        asked.clear()
        left.clear()
        leaving = outside.watched(left, recorder.unknown)
        with recorder.modules, steps(recorder.stepping), recording.answered(recorded, asked), leaving:
            try:
                with recorder:
                    out = fn(*args, **kwargs)
                gradients = follow(recorder, out, wanted) if backward else {}
                if optimizer is not None:
                    training.step(recorder, optimizer, gradients)
            except Exception as error:
                raise failures.stopped(fn, recorder.modules.failed, error) from error
        return recorder

    hooks = ranks.hooked(modules)
    if hooks is not None:
        ranks.settle(modules)
    tensors = itertools.chain(inputs.values(), *(module.parameters() for module in modules.values()))
    how = training.backward if hooks is None else training.backward_into_leaves  # hooks of leaves run there alone
    with unchanged(modules, inputs.values()), _settings(attention, device), _no_collection(), _fake(tensors):
        try:
            recorder = record(how)
        except Exception as error:
            # Reentrant checkpoints refuse torch.autograd.grad.
            if "is incompatible with .grad()" not in str(error.__cause__):
                raise
            recorder = record(training.backward_into_leaves)
        told = (
            *_conventions(fused, device, backward),
            *_unfused(unfused),
            *_recording(asked, recorded),
            *outside.told(left),
        )
        graph = recorder.graph(told)
        graph = msgspec.structs.replace(graph, conventions=(*graph.conventions, *_masked(graph)))
        return ranks.told(graph, hooks if backward else None)


def _name(recorder: Recorder, modules: Mapping[str, nn.Module], inputs: Mapping[str, torch.Tensor]) -> None:
    """Say which storages are parameters, buffers and inputs."""
    for prefix, module in modules.items():
        lead = f"{prefix}." if prefix else ""
        for name, one in module.named_parameters():
            recorder.table.say(one, "parameter", lead + name)
        for name, one in module.named_buffers():
            recorder.table.say(one, "buffer", lead + name)
    for name, one in inputs.items():
        recorder.table.say(one, "parameter" if isinstance(one, nn.Parameter) else "input", name)


def _bound(fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments by the names that the function gives them."""
    try:
        signature = inspect.signature(fn.forward if isinstance(fn, nn.Module) else fn)
        return dict(signature.bind(*args, **kwargs).arguments)
    except (TypeError, ValueError):  # a built-in has no signature; a wrong call fails by itself, in words
        return {**{str(number): one for number, one in enumerate(args)}, **kwargs}


@contextlib.contextmanager
def _settings(attention: Callable[..., torch.Tensor] | None, device: str) -> Iterator[None]:
    """Global settings of PyTorch while capturing; put back afterwards."""
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)  # it hides a whole encoder layer in one operator
    try:
        with contextlib.ExitStack() as stack:
            if attention is None:
                stack.enter_context(sdpa_kernel([SDPBackend.MATH]))
            stack.enter_context(overrides.installed(attention, device != "cpu"))
            stack.enter_context(autocast.installed(device))
            stack.enter_context(ranks.one_rank())
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)


def _fake(tensors: Iterable[torch.Tensor]) -> contextlib.AbstractContextManager[object]:
    """The mode that fake tensors among `tensors` were made in, so that those made on the way are fake too."""
    fake = next((one for one in tensors if isinstance(one, FakeTensor)), None)
    return contextlib.nullcontext() if fake is None else fake.fake_mode


@contextlib.contextmanager
def _no_collection() -> Iterator[None]:
    """No garbage collection while many small records are made that all live on."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _recording(asked: Sequence[str], recorded: bool) -> tuple[str, ...]:
    if not asked:
        return ()
    more = f" and {len(asked) - 1} more" if len(asked) > 1 else ""
    return (f"{RECORDING}{'yes' if recorded else 'no'}, as answered to {asked[0]}{more}",)


def _conventions(fused: bool, device: str, backward: bool) -> tuple[str, ...]:
    conventions = [f"operators: as {device} would run them", f"attention: {'fused' if fused else 'unfused'}"]
    if backward:
        conventions.append("backward: begins at the loss, or at a given gradient of each result")
    return tuple(conventions)


def _unfused(unfused: Mapping[str, int]) -> tuple[str, ...]:
    return tuple(
        f"attention: {times} of its calls run PyTorch's math form, kernel by kernel, with the scores in memory "
        f"and half formats taken to fp32, as no fused kernel takes them: {why}"
        for why, times in unfused.items()
    )


def _masked(graph: Graph) -> tuple[str, ...]:
    """What a causal or sliding window given as a mask costs: the formula's kernels skip only what a flag says."""
    times = sum(op.count for op in graph.ops if op.kind == "attention" and op.attrs.get("mask"))
    if not times:
        return ()
    return (f"attention: {times} of its calls take a mask (a sliding window given so, too): {MASKED}",)
