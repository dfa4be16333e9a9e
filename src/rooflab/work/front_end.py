"""Which framework a program belongs to, and its capture: decided by what it is given, importing nothing new."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal, NamedTuple

from rooflab.errors import RooflabError, UnknownNameError
from rooflab.types.work import Graph

Framework = Literal["torch", "jax", "onnx", "tinygrad", "numpy", "config"]

_TITLE: dict[Framework, str] = {
    "torch": "PyTorch",
    "jax": "JAX",
    "onnx": "ONNX",
    "tinygrad": "tinygrad",
    "numpy": "NumPy",
    "config": "model configuration",
}
_TAKES: dict[Framework, set[str]] = {
    "torch": {"backward", "optimizer"},
    "jax": {"backward", "trips"},
    "onnx": {"dims"},
    "tinygrad": set(),
    "numpy": set(),
    "config": {"dims"},
}


DEVICES = ("cuda", "cpu")  # the kinds whose operators differ; "cuda" stands for every GPU


class CaptureOptions(NamedTuple):
    """How to capture: see `rooflab.analyze`."""

    backward: bool = False
    optimizer: Any = None
    device: str = "cuda"
    attention: Literal["fused", "unfused"] = "fused"
    dims: Mapping[str, int] | None = None
    trips: Mapping[str, int] | None = None
    recorded: bool = False
    keeper: Any = None  # of PyTorch's calls, where they are to be run again: `work.capture.torch.kept.Keeper`


def capture(target: Any, args: tuple, kwargs: Mapping[str, Any] | None, options: CaptureOptions) -> Graph:
    """The program that `target` is on these inputs.

    Raises:
        RooflabError: no such device, no framework's tensor among the inputs, a setting that the framework
            does not take, or what its front end refuses.
        MissingExtraError: an ONNX file without the library that reads it.
    """
    check_device(options.device)
    framework = choose(target, args, kwargs or {})
    used = {name for name in ("backward", "optimizer", "trips", "dims") if getattr(options, name)}
    unused = sorted(used - _TAKES[framework])
    if unused:
        raise RooflabError(f"{' and '.join(unused)}: not for {_TITLE[framework]} programs, leave it out")
    if framework == "onnx":
        if args or kwargs:
            raise RooflabError(f"{target}: an ONNX file takes no inputs; its symbolic sizes are given by dims")
        from rooflab.work.capture import onnx

        return onnx.capture(os.fspath(target), dict(options.dims or {}))
    if framework == "config":
        if args or kwargs:
            raise RooflabError(f"{target}: a model's configuration takes no inputs; its sizes are given by dims")
        from rooflab.work import llm

        return llm.capture(target, dict(options.dims or {}))
    if framework == "torch":
        from rooflab.work.capture import torch

        return torch.capture(
            target,
            args,
            kwargs,
            backward=options.backward,
            optimizer=_optimizer(options.optimizer),
            device=options.device,
            attention=options.attention,
            keeper=options.keeper,
            recorded=options.recorded,
        )
    if framework == "jax":
        from rooflab.work.capture import jax

        return jax.capture(target, args, kwargs, backward=options.backward, trips=options.trips)
    if framework == "numpy":
        from rooflab.work.capture import numpy

        return numpy.capture(target, args, kwargs)
    from rooflab.work.capture import tinygrad

    return tinygrad.capture(target, args, kwargs or {})


def check_device(device: str) -> None:
    """Return where `device` is one of `DEVICES`.

    Raises:
        RooflabError: it is another.
    """
    if device not in DEVICES:
        raise RooflabError(f"unknown device {device!r}; known: cuda (which stands for every GPU), cpu")


def choose(target: Any, args: tuple, kwargs: Mapping[str, Any]) -> Framework:
    """The framework of `target` and its inputs: of a file, a module, a jitted function, or its tensors.

    A function of NumPy arrays is NumPy's, unless it uses another framework's functions; one without any array or
    tensor is taken as PyTorch's, then JAX's, then tinygrad's, whichever is imported.

    Raises:
        RooflabError: none of them, or tensors of two.
    """
    if isinstance(target, (str, os.PathLike)):
        path = os.fspath(target)
        if path.lower().endswith(".onnx"):
            return "onnx"
        if is_model(path):
            return "config"
        raise RooflabError(f"cannot analyze {path!r}, expected {_EXPECTED}")
    values = (target, *_leaves((args, kwargs)))
    frameworks = frameworks_of(values)
    if not frameworks and callable(target):
        used = _used_by(target)
        if any(map(is_numpy, values)):
            return used or "numpy"
        if used == "numpy":
            return used
    if len(frameworks) > 1:
        names = " and ".join(_TITLE[name] for name in frameworks)
        raise RooflabError(f"tensors of {names} in one program, expected those of one framework")
    if frameworks:
        return frameworks[0]
    if not callable(target):
        raise RooflabError(f"cannot analyze a {type(target).__name__}, expected {_EXPECTED}")
    for name in _OWNERS:
        if name in sys.modules:
            return name
    raise RooflabError(
        f"{name_of(target)} has no tensor among its inputs, and no framework is imported; pass torch tensors (on"
        " the meta device, say), jax.ShapeDtypeStruct, tinygrad tensors or NumPy arrays"
    )


_EXPECTED = (
    "a module, a function, the path of an .onnx file, a model's config.json, GGUF file or safetensors index, or "
    "the name of a shipped model"
)


def is_model(text: str) -> bool:
    """Whether `text` stands for a language model by its configuration: a file of one, or a name of the list."""
    if text.lower().endswith((".json", ".gguf", ".safetensors")):
        return True
    from rooflab.work.llm import models

    return models.is_named(text)


def frameworks_of(values: Iterable[Any]) -> list[Framework]:
    """Whose tensors, modules or functions are among `values`, each once; lists are not looked into."""
    found: list[Framework] = []
    for value in values:
        found.extend(name for name in _owner(value) if name not in found)
    return found


def versions(framework: str) -> dict[str, str]:
    """The version of Python and of the framework, as a report's environment."""
    environment = {"python": ".".join(map(str, sys.version_info[:3]))}
    # "hand" is not a package, and a framework may run from its source tree.
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        environment[framework] = importlib.metadata.version(framework)
    return environment


def name_of(target: Any) -> str:
    """What a report of `target` is called: the module's class, the function's name, the file's."""
    if isinstance(target, (str, os.PathLike)):
        return os.path.basename(os.fspath(target))
    named = getattr(target, "__name__", None)
    return named if isinstance(named, str) else type(target).__name__


def _optimizer(optimizer: Any) -> Any:
    """The class of `torch.optim` that a name ("adamw") means; anything else as it is.

    Raises:
        UnknownNameError: no optimizer of that name.
    """
    if not isinstance(optimizer, str):
        return optimizer
    # A program of torch has imported it.
    library: Any = sys.modules["torch"].optim
    classes = {
        name.lower(): value
        for name, value in vars(library).items()
        if isinstance(value, type) and issubclass(value, library.Optimizer) and value is not library.Optimizer
    }
    if optimizer.lower() not in classes:
        raise UnknownNameError("optimizer", optimizer, classes)
    return classes[optimizer.lower()]


def _owner(value: Any) -> Iterator[Framework]:
    for name, is_ours in _OWNERS.items():
        # What is not imported cannot have made the value.
        library = sys.modules.get(name)
        if library is not None and is_ours(library, value):
            yield name


def _is_torch(torch: Any, value: Any) -> bool:
    if isinstance(value, (torch.Tensor, torch.nn.Module)):
        return True
    export = sys.modules.get("torch.export")
    return export is not None and isinstance(value, export.ExportedProgram)


def _is_jax(jax: Any, value: Any) -> bool:
    if isinstance(value, (jax.Array, jax.ShapeDtypeStruct)):
        return True
    # What jax.jit gives has both; neither a torch module nor a plain function has.
    return callable(value) and hasattr(value, "lower") and hasattr(value, "eval_shape")


def _is_tinygrad(tinygrad: Any, value: Any) -> bool:
    return isinstance(value, tinygrad.Tensor)


def is_numpy(value: Any) -> bool:
    """Whether `value` is an array of NumPy."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray)


def _used_by(function: Any) -> Framework | None:
    """The framework whose modules or functions a function of Python names, NumPy last; None without any."""
    code, outside = getattr(function, "__code__", None), getattr(function, "__globals__", {})
    values = [outside[name] for name in getattr(code, "co_names", ()) if name in outside]
    homes = {
        (value.__name__ if isinstance(value, type(sys)) else getattr(value, "__module__", None) or "").split(".")[
            0
        ]
        for value in values
    }
    return next((framework for framework in (*_OWNERS, "numpy") if framework in homes), None)


_OWNERS: dict[Framework, Callable[[Any, Any], bool]] = {
    "torch": _is_torch,
    "jax": _is_jax,
    "tinygrad": _is_tinygrad,
}


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        for each in value.values():
            yield from _leaves(each)
    elif isinstance(value, (tuple, list, set)):
        for each in value:
            yield from _leaves(each)
    else:
        yield value
