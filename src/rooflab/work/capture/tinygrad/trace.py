"""A function of tinygrad tensors run on empty ones: what it wants computed, and what its tensors are to it."""

from __future__ import annotations

import inspect
import math
import re
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from rooflab.errors import RooflabError
from rooflab.types.work import Graph, Role, TensorSpec
from rooflab.work.capture.tinygrad.kernels import dtype_name, graph
from rooflab.work.capture.tinygrad.library import Library, library

# Names of arguments that hold what is learnt.
_PARAMETERS = re.compile(r"^(params?|parameters|weights?|bias|model|state_dict)$", re.IGNORECASE)


class Exchange(NamedTuple):
    """Tensors that were live before the function ran, and those it wants realized; filled as it runs."""

    live: list[Any]
    realized: list[Any]
    unknown: tuple[str, ...]


class _NeedsData(Exception):
    """Somebody asked for the contents of a tensor."""


def capture(fn: Callable[..., Any], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None) -> Graph:
    """The graph of work of a function of tinygrad tensors: the kernels that its results need.

    Results are the tensors that `fn` returns or realizes, and the gradients that `backward` in it leaves:
    those of the parameters, where there are any. Tensors keep their data, their device and their laziness:
    all of them are exchanged for empty ones of the NULL device while `fn` runs.

    Args:
        fn: a function, a method or a model that can be called (a TinyJit: what it wraps).
        args, kwargs: what it is called with.

    Raises:
        MissingExtraError: tinygrad is not installed.
        RooflabError: `fn` needs real data, fails, or gives no tensor that needs computing.
    """
    lib = library()
    fn = getattr(fn, "fxn", fn) if "TinyJit" in type(fn).__name__ else fn
    kwargs = dict(kwargs or {})
    with lib.context(DEV="NULL", NOOPT=1, BEAM=0, DEBUG=0), _exchanged(lib) as exchange:
        names = _named(lib, fn, args, kwargs)
        # before it runs: an assignment gives a tensor another buffer
        bases = [tensor.uop.base for tensor in exchange.live]
        specs = [_spec(tensor, names) for tensor in exchange.live]
        result = _called(fn, args, kwargs)
        tensors = [tensor for _, tensor in _walk(lib, result, "")]
        wanted = [*tensors, *exchange.realized, *_gradients(exchange.live, names)]
        due = dict.fromkeys(tensor.uop for tensor in wanted)
        due = [uop for uop in due if not uop.is_virtual and not uop.has_buffer_identity()]
        if not due:
            raise RooflabError(f"{_name(fn)} gives no tensor that needs computing; return the tensors you want")
        linear, _ = lib.schedule(lib.call(lib.uop.sink(*due))[0])
        return graph(lib, linear, dict(zip(bases, specs, strict=True)), exchange.unknown)


@contextmanager
def _exchanged(lib: Library) -> Iterator[Exchange]:
    """The live tensors, which inside are empty ones of the NULL device; nothing is realized meanwhile.

    Tensors that shared their computation share it still.
    """
    alive = [tensor for tensor in (reference() for reference in list(lib.live)) if tensor is not None]
    before = [(tensor, tensor.uop, tensor.grad) for tensor in alive if not tensor.uop.is_virtual]
    spread = any(isinstance(uop.device, tuple) for _, uop, _ in before)
    unknown = ("tensors spread over devices: taken whole, on one device",) if spread else ()
    exchange = Exchange([tensor for tensor, _, _ in before], [], unknown)
    empty: dict[Any, Any] = {}
    realize, buffer = lib.tensor.realize, lib.tensor._buffer

    def later(tensor: Any, *more: Any, **settings: Any) -> Any:
        exchange.realized.extend((tensor, *more))
        return tensor

    def refuse(tensor: Any) -> Any:
        raise _NeedsData

    lib.tensor.realize, lib.tensor._buffer = later, refuse
    try:
        for tensor, uop, _ in before:
            if any(not isinstance(size, int) for size in uop.shape):
                raise RooflabError(
                    f"a tensor of shape {uop.shape} has a size that is a variable; give it a number"
                )
            if uop not in empty:
                empty[uop] = lib.tensor.empty(*uop.shape, dtype=uop.dtype, device="NULL").uop
            tensor.uop, tensor.grad = empty[uop], None
        yield exchange
    finally:
        lib.tensor.realize, lib.tensor._buffer = realize, buffer
        for tensor, uop, grad in before:
            tensor.uop, tensor.grad = uop, grad


def _called(fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """What `fn` returns, its errors in one line."""
    try:
        return fn(*args, **kwargs)
    except RooflabError:
        raise
    except Exception as error:
        frames = [
            frame
            for frame in traceback.extract_tb(error.__traceback__)
            if "/tinygrad/" not in frame.filename and frame.filename != __file__
        ]
        place = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
        if isinstance(error, _NeedsData):
            raise RooflabError(
                f"{_name(fn)} needs real data{place}: item, tolist, numpy or data is called, and only shapes are"
                " known; keep the value a tensor, or pass it as a Python number"
            ) from error
        text = " ".join(str(error).split()) or "no message"
        raise RooflabError(f"{_name(fn)} failed{place}: {type(error).__name__}: {text[:300]}") from error


def _named(lib: Library, fn: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[int, tuple[Role, str]]:
    """Role and name of the tensors of the arguments, and of the models that `fn` is or sees, by identity."""
    names: dict[int, tuple[Role, str]] = {}
    try:
        parameters = [*inspect.signature(fn).parameters]
    except (TypeError, ValueError):
        parameters = []
    positional = [(parameters[i] if i < len(parameters) else f"args[{i}]", one) for i, one in enumerate(args)]
    for name, one in (*positional, *kwargs.items()):
        for path, tensor in _walk(lib, one, name):
            learnt = any(_PARAMETERS.match(step) for step in path.split(".")) or (
                callable(one) and one is not tensor
            )
            names.setdefault(id(tensor), ("parameter" if learnt else "input", path))
    models = [("", getattr(fn, "__self__", fn))]
    if inspect.isfunction(fn) or inspect.ismethod(fn):
        seen = inspect.getclosurevars(fn)
        models += [*seen.nonlocals.items(), *seen.globals.items()]
    for name, model in models:
        for path, tensor in _walk(lib, model, name):
            names.setdefault(id(tensor), ("constant" if tensor is model else "parameter", path))
    return names


def _walk(lib: Library, value: Any, path: str, seen: frozenset[int] = frozenset()) -> Iterator[tuple[str, Any]]:
    """The tensors in containers and in the attributes of objects, with their paths."""
    if isinstance(value, lib.tensor):
        yield path, value
        return
    if id(value) in seen or isinstance(value, type) or inspect.ismodule(value) or inspect.isroutine(value):
        return
    seen = seen | {id(value)}
    if isinstance(value, Mapping):
        inside: Any = value.items()
    elif isinstance(value, (list, tuple)):
        inside = enumerate(value)
    else:
        inside = getattr(value, "__dict__", {}).items()
    for key, one in list(inside):
        yield from _walk(lib, one, f"{path}.{key}" if path else str(key), seen)


def _gradients(live: Sequence[Any], names: Mapping[int, tuple[Role, str]]) -> list[Any]:
    """Gradients that `backward` left: of the parameters, or of what else has a name where there are none."""
    derived = [tensor for tensor in live if tensor.grad is not None and id(tensor) in names]
    learnt = [tensor for tensor in derived if names[id(tensor)][0] == "parameter"]
    return [tensor.grad for tensor in learnt or derived]


def _spec(tensor: Any, names: Mapping[int, tuple[Role, str]]) -> TensorSpec:
    role, name = names.get(id(tensor), ("constant", None))
    shape = tuple(int(size) for size in tensor.shape)
    nbytes = math.prod(shape) * tensor.dtype.itemsize
    return TensorSpec(shape, dtype_name(tensor.dtype), nbytes, -1, None, role, name)


def _name(fn: Any) -> str:
    return getattr(fn, "__name__", type(fn).__name__)
