"""Failures inside a captured program, said in words: the op, its module, its line, and what to do."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

import torch

from rooflab.errors import RooflabError
from rooflab.work.capture.torch.places import inside

_NEEDS_DATA = ("aten._local_scalar_dense", "aten.item", "aten.equal", "aten.is_nonzero", "aten._assert_async")
# Products whose operands must agree; PyTorch checks it on real tensors only.
ONE_DTYPE = frozenset(
    f"aten.{name}"
    for name in (
        *("mm", "addmm", "bmm", "baddbmm", "addbmm", "mv", "addmv", "dot", "vdot", "convolution", "linear"),
    )
)

# Of errors that PyTorch raises outside of an operator: words in them, and what to do.
_NEXT_STEPS = {
    "block_mask to be on the same device": "make the inputs on the mask's device (a CPU, say), or the mask by a"
    " function of positions alone with device='meta'",
}


def check_dtypes(name: str, module: str, where: Callable[[], str | None], args: tuple) -> None:
    """Refuse operands of different number formats.

    Raises:
        RooflabError: two of the tensors among `args` differ.
    """
    dtypes = {one.dtype for one in args if isinstance(one, torch.Tensor) and one.is_meta}
    if len(dtypes) > 1:
        raise RooflabError(
            f"{name}{place(module, where())}: its tensors differ in dtype (got {_shapes(args)}); give the inputs"
            " the module's dtype"
        )


def place(module: str, where: str | None) -> str:
    """Module and line as words that follow a name, as far as known."""
    return (f" in module {module}" if module else "") + (f" at {where}" if where else "")


def failed(name: str, module: str, where: str | None, args: tuple, error: Exception) -> RooflabError:
    """The error of the operator `name`, in one line."""
    if isinstance(error, RooflabError):
        return error
    at = place(module, where)
    meta = any(isinstance(one, torch.Tensor) and one.device.type == "meta" for one in args)
    if meta and name in _NEEDS_DATA:
        return RooflabError(
            f"{name}{at}: needs the value of a tensor ({_shapes(args)}), which a meta tensor does not have;"
            " give a real tensor for what it depends on (a mask, say), or a plain number"
        )
    if meta and ("data-dependent" in str(error) or isinstance(error, NotImplementedError)):
        return RooflabError(
            f"{name}{at}: the shape of its result needs data that meta tensors do not have (got {_shapes(args)});"
            " give real tensors, or use a form with a fixed shape"
        )
    return RooflabError(f"{name}{at}: {_line(error)} (got {_shapes(args)}); check the inputs' shapes and dtypes")


def stopped(fn: Any, module: str, error: Exception) -> RooflabError:
    """The error of a program that failed outside of an operator, in one line."""
    if isinstance(error, RooflabError):
        return error
    name = type(fn).__name__ if isinstance(fn, torch.nn.Module) else getattr(fn, "__qualname__", type(fn).__name__)
    kind, where = type(error).__name__, None
    for frame in traceback.extract_tb(error.__traceback__):
        if not inside(frame.filename):
            where = f"{frame.filename}:{frame.lineno}"
    said = _line(error)
    step = next((step for words, step in _NEXT_STEPS.items() if words in said), "check what it is called with")
    return RooflabError(f"{name}{place(module, where)}: {kind}: {said}; {step}")


def _line(error: Exception) -> str:
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0].rstrip(". ")


def _shapes(args: Any) -> str:
    """The tensors among `args`, shortly: "fp32 [2, 4], int64 [2]"."""
    from rooflab.work.capture.torch.tensors import dtype_name, names_of

    tensors = names_of({"": list(args)}).values()
    return ", ".join(f"{dtype_name(one.dtype)} {list(one.shape)}" for one in tensors) or "no tensors"
