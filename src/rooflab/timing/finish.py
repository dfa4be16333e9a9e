"""Results that are there before their work is done: which kind it is, and what waits for it or makes it happen."""

from __future__ import annotations

import asyncio
import collections
import concurrent.futures
import dataclasses
import inspect
import multiprocessing.pool
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from rooflab.errors import RooflabError

_DEEP, _MANY = 3, 64  # how far results in lists and the like are looked into
_CHECKS = 4096  # items of an iterator between two looks at the clock


class Finish(NamedTuple):
    """How a call's work gets done.

    Attributes:
        says: what is waited for, for people.
        wait: takes the result and returns when its work is done.
    """

    says: str
    wait: Callable[[Any], object]


class _Kind(NamedTuple):
    """One kind of late result: the library that it is of, its classes, what finishes one."""

    library: str
    classes: tuple[str, ...]
    says: str
    finish: Callable[[Any], object]


def _jax(value: Any) -> object:
    return sys.modules["jax"].block_until_ready(value)


def _tinygrad(value: Any) -> object:
    devices = value.device if isinstance(value.device, tuple) else (value.device,)
    value.realize()
    library: Any = sys.modules["tinygrad"]
    for device in devices:
        library.Device[device].synchronize()
    return value


def _cupy(value: Any) -> object:
    return sys.modules["cupy"].cuda.get_current_stream().synchronize()


def _mlx(value: Any) -> object:
    return sys.modules["mlx.core"].eval(value)


# By the library that a class comes from; what is not imported has made no result.
_KINDS = (
    _Kind("jax", ("ArrayImpl", "Array"), "JAX returns before its work is done: block_until_ready", _jax),
    _Kind("jaxlib", ("ArrayImpl", "Array"), "JAX returns before its work is done: block_until_ready", _jax),
    _Kind(
        "tinygrad", ("Tensor",), "tinygrad computes nothing until it is asked: realize and synchronize", _tinygrad
    ),
    _Kind(
        "polars", ("LazyFrame",), "polars computes a LazyFrame when it is asked: collect", lambda v: v.collect()
    ),
    _Kind("cupy", ("ndarray",), "CuPy returns before its work is done: synchronize", _cupy),
    _Kind("mlx", ("array",), "MLX computes nothing until it is asked: eval", _mlx),
    _Kind("distributed", ("Future",), "a future of Dask: result", lambda v: v.result()),
)
# Plans whose work nothing here can make happen in the way that the user would.
_PLANS = (
    ("pyspark", ("DataFrame", "RDD"), "count() or collect()"),
    ("duckdb", ("DuckDBPyRelation",), "fetchall() or arrow()"),
    ("_duckdb", ("DuckDBPyRelation",), "fetchall() or arrow()"),
    ("ibis", ("Table", "Column", "Scalar"), "execute()"),
)


def finish(result: Any, name: str, limit_s: float = 60.0) -> Finish | None:
    """What makes the work behind `result` happen, or waits for it; None where the call has done it all.

    The result of the first call is finished on the way.

    Args:
        result: of one call.
        name: of what was called, for errors.
        limit_s: after which an iterator is taken to have no end.

    Raises:
        RooflabError: a coroutine, a plan that only the user can run, a tensor without data, an endless iterator.
    """
    refuse(result, name)
    if _is_iterator(result):
        _exhaust(result, name, limit_s)
        return Finish(
            f"it returns a {type(result).__name__}, which computes as it is read: read to its end",
            collections.deque(maxlen=0).extend,
        )
    found = {kind.says: kind for leaf in leaves(result) if (kind := _kind(leaf)) is not None}
    if not found:
        return None
    if _kind(result) is not None:
        (kind,) = found.values()
        kind.finish(result)
        return Finish(kind.says, kind.finish)

    def wait(value: Any) -> None:
        for leaf in leaves(value):
            kind = _kind(leaf)
            if kind is not None:
                kind.finish(leaf)

    wait(result)
    # JAX waits for a whole tree at once.
    only_jax = all(kind.library.startswith("jax") for kind in found.values())
    return Finish("; ".join(found), _jax if only_jax else wait)


def refuse(result: Any, name: str) -> None:
    """Return unless nothing was computed by a call that returned `result`.

    Raises:
        RooflabError: says what it is instead, and what to do.
    """
    if inspect.iscoroutine(result):
        result.close()
        raise RooflabError(
            f"{name} returned a coroutine: nothing ran yet; time a function that runs it, such as "
            f"lambda: asyncio.run({_last(name)}(…))"
        )
    if inspect.isasyncgen(result) or isinstance(result, asyncio.Future):
        kind = "an async generator" if inspect.isasyncgen(result) else "a future of asyncio"
        raise RooflabError(f"{name} returned {kind}: time a function that awaits it to its end and then returns")
    for leaf in leaves(result):
        for library, classes, does in _PLANS:
            if _is_of(leaf, library, classes):
                raise RooflabError(
                    f"{name} returned a {type(leaf).__name__} of {library.lstrip('_')}, a plan that was not "
                    f"run; end the function with {does}"
                )
        if (why := no_data(leaf)) is not None:
            raise RooflabError(f"{name} returned {why}: nothing was computed; give it tensors with data")


def no_data(value: Any) -> str | None:
    """What `value` is, where it stands for a tensor but has no data; None for all else."""
    torch: Any = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        if any(base.__name__ == "FakeTensor" for base in type(value).__mro__):
            return "a fake tensor, which has no data"
        if value.is_meta:
            return "a tensor on the meta device, which has no data"
    held = () if torch is None or not isinstance(value, torch.nn.Module) else (value.parameters(), value.buffers())
    if any(one.is_meta for tensors in held for one in tensors):
        return "a module on the meta device, whose parameters have no data"
    if type(value).__name__ == "ShapeDtypeStruct":
        return "a jax.ShapeDtypeStruct, which has no data"
    return None


def leaves(value: Any, depth: int = _DEEP) -> Iterator[Any]:
    """`value`, or what is in it where it is a list, a tuple, a dictionary or a dataclass; the first 64 of each."""
    if depth and isinstance(value, Mapping) and type(value).__module__.partition(".")[0] != "dask":
        items: Any = list(value.values())[:_MANY]
    elif depth and isinstance(value, (list, tuple, set, frozenset)):
        items = list(value)[:_MANY]
    elif depth and dataclasses.is_dataclass(value) and not isinstance(value, type):
        items = [getattr(value, field.name) for field in dataclasses.fields(value)][:_MANY]
    else:
        yield value
        return
    for item in items:
        yield from leaves(item, depth - 1)


def _kind(value: Any) -> _Kind | None:
    for kind in _KINDS:
        if _is_of(value, kind.library, kind.classes):
            return kind
    if _is_of_dask(value):
        return _DASK
    if isinstance(value, concurrent.futures.Future):
        return _FUTURE
    if isinstance(value, multiprocessing.pool.AsyncResult):
        return _ASYNC
    if _is_of(value, "torch", ("Future",)):
        return _TORCH_FUTURE
    return _accelerator(value)


def _is_of_dask(value: Any) -> bool:
    """Whether it is a collection of Dask, or of xarray over one."""
    library = type(value).__module__.partition(".")[0]
    if library not in ("dask", "dask_expr", "xarray"):
        return False
    graph = getattr(type(value), "__dask_graph__", None)
    return graph is not None and graph(value) is not None


_DASK = _Kind("dask", (), "Dask computes a collection when it is asked: compute", lambda value: value.compute())
_FUTURE = _Kind("concurrent", (), "it returns a future: result", lambda value: value.result())
_ASYNC = _Kind("multiprocessing", (), "it returns a result that is to come: get", lambda value: value.get())
_TORCH_FUTURE = _Kind("torch", (), "it returns a future of PyTorch: wait", lambda value: value.wait())


def _lazy_torch(value: Any) -> None:
    library: Any = sys.modules["torch"]
    library._lazy.mark_step(wait=True)
    library._lazy.wait_device_ops()


def _accelerator(value: Any) -> _Kind | None:
    """What waits for a tensor of PyTorch on another device than the CPU."""
    torch: Any = sys.modules.get("torch")
    if torch is None or not isinstance(value, torch.Tensor) or value.device.type in ("cpu", "meta"):
        return None
    kind = value.device.type
    if kind == "lazy":
        return _Kind("torch", (), "PyTorch's lazy tensors compute when they are asked: mark_step", _lazy_torch)
    module = getattr(torch, kind, None)
    if module is None or not hasattr(module, "synchronize"):
        raise RooflabError(f"a tensor on {value.device}: rooflab knows nothing that waits for that device's work")
    return _Kind("torch", (), f"torch.{kind}.synchronize()", lambda value: module.synchronize())


def _is_of(value: Any, library: str, classes: tuple[str, ...]) -> bool:
    for base in type(value).__mro__:
        if base.__name__ in classes and base.__module__.partition(".")[0] == library:
            return True
    return False


def _is_iterator(value: Any) -> bool:
    """A generator or one of Python's own iterators: what is read from it is gone, so none is shared by calls."""
    home = type(value).__module__
    return inspect.isgenerator(value) or (isinstance(value, Iterator) and home in ("builtins", "itertools"))


def _exhaust(result: Iterator[Any], name: str, limit_s: float) -> None:
    begun = time.perf_counter()
    for number, _ in enumerate(result):
        if number % _CHECKS == 0 and time.perf_counter() - begun > limit_s:
            raise RooflabError(
                f"{name} returned a {type(result).__name__} that gave {number:,} items in {limit_s:g} s and no "
                "end: time a function that takes as many as you want of it"
            )


def _last(name: str) -> str:
    return name.rpartition(":")[2].rpartition(".")[2]
