"""Programs of `torch.export`: run node by node, so that each keeps the module and line it was written with."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

from rooflab.work.capture.torch.places import ModuleStack, inside

_FRAME = re.compile(r'File "([^"]+)", line (\d+)')


def is_exported(fn: Any) -> bool:
    """Whether `fn` is an exported program."""
    return isinstance(fn, torch.export.ExportedProgram)


def followed(module: fx.GraphModule, modules: Callable[[], ModuleStack]) -> Callable[..., Any]:
    """A function that runs the module of an exported program and keeps `modules()` at each node's place."""

    class Follower(fx.Interpreter):
        def run_node(self, n: fx.Node) -> Any:
            stack = modules()
            before = stack.path, stack.line
            nested = list((n.meta.get("nn_module_stack") or {}).values())
            stack.path = _path(nested[-1][0]) if nested else before[0]
            stack.line = _line(n.stack_trace) or before[1]
            try:
                return super().run_node(n)
            finally:
                stack.path, stack.line = before

    def run(*args: Any, **kwargs: Any) -> Any:
        return Follower(module).run(*pytree.arg_tree_leaves(*args, **kwargs))

    return run


def _path(written: str) -> str:
    """The path as named_modules gives it: "L['self'].layers[0]" is "layers.0"."""
    return re.sub(r"\[(\w+)\]", r".\1", written.removeprefix("L['self']")).lstrip(".")


def _line(trace: str | None) -> str | None:
    """The innermost line of a stack trace that is the program's own."""
    own = [f"{file}:{number}" for file, number in _FRAME.findall(trace or "") if not inside(file)]
    return own[-1] if own else None
