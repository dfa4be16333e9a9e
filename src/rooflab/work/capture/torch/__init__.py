"""Capture of PyTorch programs: every operator that the dispatcher sees, with tensors, module and line."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from rooflab.errors import MissingExtraError, RooflabError
from rooflab.types.work import Graph

if TYPE_CHECKING:
    from rooflab.work.capture.torch.kept import Keeper


def capture(
    fn: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    backward: bool = False,
    optimizer: Any = None,
    device: str = "cuda",
    attention: Literal["fused", "unfused"] = "fused",
    keeper: Keeper | None = None,
    recorded: bool = False,
) -> Graph:
    """The graph of `fn(*args, **kwargs)`: every operator, its tensors, its module and its source line.

    The program runs where its tensors are: on meta or fake tensors nothing is computed, on real ones everything
    is. Modules keep their buffers, gradients and parameters, and random numbers their state. An op of the
    backward pass has the module and line of the forward op whose gradient it is; gradients that are summed
    have none of their own.

    Args:
        fn: a module, a function (closures over modules included), or an exported program.
        args, kwargs: what it is called with; a single tensor may be given bare.
        backward: also record the backward pass, from the loss that the result holds or from a gradient of
            each result.
        optimizer: also record one step: an optimizer, or what makes one from a list of parameters.
        device: the kind of device whose operators are meant; "cpu" keeps those of a CPU.
        attention: "fused" (one operator), or "unfused" (the scores written to memory).
        keeper: keeps the calls, one for each operation of the graph, so that they can be run again.
        recorded: as it runs while a CUDA graph is recorded of it, for programs that ask whether one is.

    Raises:
        MissingExtraError: PyTorch is not installed.
        RooflabError: the program needs data that its tensors do not have, or failed; with op, module and line.
    """
    try:
        import torch
    except ImportError:
        raise MissingExtraError("torch", "torch", "capturing a PyTorch program") from None
    from rooflab.work.capture.torch.run import run

    if attention not in ("fused", "unfused"):
        raise RooflabError(f"attention: got {attention!r}; expected 'fused' or 'unfused'")
    inputs = (args,) if isinstance(args, torch.Tensor) else tuple(args)
    return run(
        fn,
        inputs,
        dict(kwargs or {}),
        backward=backward or optimizer is not None,
        optimizer=optimizer,
        device=device,
        fused=attention == "fused",
        keeper=keeper,
        recorded=recorded,
    )
