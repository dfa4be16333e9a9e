"""Where an operation ran: the path of its module and the line of the program that asked for it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import CodeType, FrameType, TracebackType
from typing import Any

import torch
from torch import nn
from torch.nn.modules import module as hooks

Site = tuple[CodeType, int]

# Frames of these are not the program's own.
_INSIDE = (*(f"{Path(one).resolve().parent}/" for one in (torch.__file__, __file__)), "<")

_ROOFLAB = f"{Path(__file__).resolve().parents[3]}/"


class ModuleStack:
    """The path of the module that runs now, kept by hooks around every module's forward.

    Attributes:
        path: of the module that runs now.
        failed: of the innermost module that an error left.
        line: the source line, where a program keeps it apart from its frames; else None.
    """

    def __init__(self, names: Mapping[nn.Module, str]) -> None:
        self.path = ""
        self.failed = ""
        self.line: str | None = None
        self._names = dict(names)
        self._stack: list[str] = []
        self._handles: list[Any] = []

    def __enter__(self) -> ModuleStack:
        self._handles = [
            hooks.register_module_forward_pre_hook(self._entered),
            hooks.register_module_forward_hook(self._left, always_call=True),
        ]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for handle in self._handles:
            handle.remove()

    def _entered(self, module: nn.Module, args: tuple) -> None:
        self._stack.append(self.path)
        name = self._names.get(module)
        if name is None:  # not registered with the program's modules: a plain list, a module made on the fly
            name = f"{self.path}.{type(module).__name__}".lstrip(".")
            self._names[module] = name
            for inner, child in module.named_modules():
                self._names.setdefault(child, f"{name}.{inner}" if inner else name)
        self.path = name

    def _left(self, module: nn.Module, args: tuple, result: Any) -> None:
        if sys.exc_info()[1] is not None:
            self.failed = self.failed or self.path
        if self._stack:
            self.path = self._stack.pop()


def modules_of(fn: Callable[..., Any]) -> dict[str, nn.Module]:
    """The modules that `fn` is, belongs to, or refers to by name, by the prefix their paths get."""
    if isinstance(fn, nn.Module):
        return {"": fn}
    owner = getattr(fn, "__self__", None)
    modules: dict[str, nn.Module] = {"": owner} if isinstance(owner, nn.Module) else _held_by(owner)
    plain = getattr(fn, "__func__", fn)
    code = getattr(plain, "__code__", None)
    if code is None:
        inner = getattr(fn, "func", None)  # functools.partial
        return {**modules, **_held_by(fn), **(modules_of(inner) if callable(inner) else {})}
    cells = getattr(plain, "__closure__", None) or ()
    for name, cell in zip(code.co_freevars, cells, strict=True):
        try:
            value = cell.cell_contents
        except ValueError:  # a name that has no value yet
            continue
        if isinstance(value, nn.Module):
            modules.setdefault(name, value)
    for name in code.co_names:
        value = plain.__globals__.get(name)
        if isinstance(value, nn.Module):
            modules.setdefault(name, value)
    return modules


def _held_by(owner: object) -> dict[str, nn.Module]:
    """The modules that are attributes of a plain object."""
    return {name: one for name, one in getattr(owner, "__dict__", {}).items() if isinstance(one, nn.Module)}


def paths(modules: Mapping[str, nn.Module]) -> dict[nn.Module, str]:
    """The path of every module; one that is used in two places has its first."""
    names: dict[nn.Module, str] = {}
    for prefix, module in modules.items():
        for inner, child in module.named_modules():
            names.setdefault(child, ".".join(one for one in (prefix, inner) if one))
    return names


_own: dict[str, bool] = {}


def inside(filename: str) -> bool:
    """Whether a file is PyTorch's or this package's, not the program's."""
    return filename.startswith(_INSIDE)


def site() -> Site | None:
    """The innermost line of the program itself; None where there is none. Read it with `line`."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        code = frame.f_code
        name = code.co_filename
        own = _own.get(name)
        if own is None:
            own = _own[name] = not inside(name)
        if own:
            # The rest of rooflab called the capture: no line of the program lies between.
            return None if name.startswith(_ROOFLAB) else (code, frame.f_lasti)
        frame = frame.f_back
    return None


def line(site: Site | str | None) -> str | None:
    """The file and line of a site: "file.py:12"."""
    if site is None or isinstance(site, str):
        return site
    code, instruction = site
    for number, (start, *_rest) in enumerate(code.co_positions()):
        if number == instruction // 2:
            return f"{code.co_filename}:{start}"
    return code.co_filename
