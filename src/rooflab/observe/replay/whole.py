"""The whole program by a clock, on a CPU: with its own tensors where they have data, else others."""

from __future__ import annotations

import contextlib
import copy
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from rooflab.observe.replay.tensors import Tensors
from rooflab.work.capture.torch.exported import is_exported
from rooflab.work.capture.torch.kept import Ref
from rooflab.work.capture.torch.places import modules_of
from rooflab.work.capture.torch.restored import steps, unchanged
from rooflab.work.capture.torch.training import leaves


class Whole:
    """A program that is run once at each call of `run`, by a clock.

    Attributes:
        seconds: of each run but the first, which warms up.
        why_not: why it cannot be run; None while it can.
    """

    def __init__(
        self,
        program: Any,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        *,
        backward: bool,
        optimizer: bool,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """Takes the program.

        Args:
            program: a module or a function.
            args: its inputs; those on the meta device get tensors of plain numbers.
            kwargs: the same by keyword.
            backward: followed by the gradients of its parameters.
            optimizer: whether the report has an optimizer's step, which is not run here.
            clock: returns seconds.
        """
        self.seconds: list[float] = []
        self.why_not = "a program with an optimizer's step is not run as a whole" if optimizer else None
        self._program, self._inputs, self._backward, self._clock = program, (args, kwargs), backward, clock
        self._graded = backward or torch.is_grad_enabled()  # as the program is called outside
        self._ready: Callable[[], None] | None = None

    @property
    def median_s(self) -> float | None:
        """The middle run; None without any."""
        return statistics.median(self.seconds) if self.seconds and self.why_not is None else None

    def run(self) -> None:
        """One run; the first warms up. Where it fails, `why_not` says how."""
        if self.why_not is not None:
            return
        try:
            if self._ready is None:
                self._ready = self._prepared()
                with _NoMeta():
                    self._ready()
                return
            start = self._clock()
            self._ready()
            self.seconds.append(self._clock() - start)
        except Exception as error:  # noqa: BLE001 — of the program itself, on data that is not its own
            self.why_not = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]:.100}"

    def _prepared(self) -> Callable[[], None]:
        real, tensors = _real(self._program), Tensors([])
        args, kwargs = self._inputs
        inputs, named = _data(tuple(args), tensors), _data(dict(kwargs), tensors)
        backward, graded = self._backward, self._graded

        def call() -> None:
            with torch.set_grad_enabled(graded):
                out = real(*inputs, **named)
                if backward:
                    _gradients(out)

        return call


@contextlib.contextmanager
def as_it_was(program: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[None]:
    """Puts back what runs of `program` change: buffers, gradients, steps of optimizers, random numbers' state."""
    modules = {} if is_exported(program) else modules_of(program)
    with unchanged(modules, _results([*args, *kwargs.values()])), steps(lambda begun: None):
        yield


class _NoMeta(TorchDispatchMode):
    """Refuses tensors without data: an operator on one returns at once, and its time says nothing."""

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if any(one.is_meta for one in _results([out, *args])):
            raise RuntimeError(f"{func} has a tensor on the meta device that is none of its inputs or parameters")
        return out


def _real(program: Any) -> Any:
    """`program`, or where its tensors are on the meta device, a copy of it with data."""
    if is_exported(program):
        program = program.module()
    if not isinstance(program, nn.Module):
        return program
    held = [*program.parameters(), *program.buffers()]
    if not any(one.is_meta for one in held):
        return program
    made = copy.deepcopy(program).to_empty(device="cpu")
    with torch.no_grad():
        for one in [*made.parameters(), *made.buffers()]:
            if one.dtype.is_floating_point:
                one.normal_(0.0, 0.02)
            else:
                one.zero_()
    return made


def _data(value: Any, tensors: Tensors) -> Any:
    if isinstance(value, torch.Tensor):
        if not value.is_meta:
            return value
        ref = Ref(id(value), tuple(value.shape), tuple(value.stride()), value.dtype, 0)
        return tensors.get(ref).requires_grad_(value.requires_grad)
    if isinstance(value, Mapping):
        return {key: _data(one, tensors) for key, one in value.items()}
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return type(value)(_data(one, tensors) for one in value)
    return value


def _gradients(out: Any) -> None:
    loss = out.get("loss") if isinstance(out, Mapping) else getattr(out, "loss", None)
    values = [loss] if isinstance(loss, torch.Tensor) else list(_results(out))
    results = [one for one in values if one.grad_fn is not None]
    starts = [torch.ones_like(one) for one in results]
    torch.autograd.grad(results, leaves(results), starts, allow_unused=True)


def _results(out: Any) -> list[torch.Tensor]:
    if isinstance(out, torch.Tensor):
        return [out]
    if isinstance(out, Mapping):
        out = list(out.values())
    return [one for each in out for one in _results(each)] if isinstance(out, (list, tuple)) else []
