"""A function run on copies of its arrays while all that NumPy is asked for is noted."""

from __future__ import annotations

import functools
import inspect
import traceback
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import numpy as np

from rooflab.errors import RooflabError
from rooflab.types.work import Graph
from rooflab.work.capture.numpy.noted import Noted, UnderWay, noted, plain
from rooflab.work.capture.numpy.record import Recorder

CONVENTIONS = (
    "NumPy: run once on copies of its arrays; each call goes through memory by itself, an array in between is"
    " written and read again",
    "numbers in Python, elements read one by one, and Python's own time are not counted",
)
_DEPTH = 4  # of objects within objects
_HOLD_NONE = (type, types.ModuleType, str, bytes, int, float)
_CONVERTING = ("array", "asarray", "asanyarray", "ascontiguousarray", "asfortranarray")
_CREATING = ("zeros", "ones", "empty", "full", "arange", "linspace", "eye", "identity", "tri",
             "frombuffer", "fromiter", "indices", "logspace", "geomspace",
             "bartlett", "blackman", "hamming", "hanning", "kaiser")  # fmt: skip


class Place(NamedTuple):
    """Where an array, or a random generator, is kept: how it is put there, and what was there."""

    put: Callable[[Any], None]
    value: Any


def capture(fn: Callable[..., Any], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None) -> Graph:
    """The graph of work of a function of NumPy arrays: the operations of one run of it.

    It runs for real, on copies of its arguments; arrays that it sees from outside (global ones, what it encloses,
    attributes of objects) are its own, and what it changes in them stays changed.

    Args:
        fn: a function, a method or an object that can be called.
        args, kwargs: what it is called with.

    Raises:
        RooflabError: `fn` fails, asks NumPy for nothing, or goes through arrays element by element.
    """
    recorder = Recorder()
    given = _copies(recorder, fn, args, dict(kwargs or {}))
    with _seen(recorder, fn), _patched(recorder), UnderWay(recorder):
        result = _called(fn, *given)
        recorder.given_back(result)
    if not recorder.ops and not recorder.unknown:
        kind = type(result).__module__.partition(".")[0]
        other = f"; it returns a {type(result).__name__} of {kind}" if kind in ("torch", "jax", "jaxlib") else ""
        raise RooflabError(f"{_name(fn)} asks NumPy for no operation on arrays{other}")
    return Graph(
        framework="numpy",
        tensors=tuple(recorder.tensors),
        ops=tuple(recorder.ops),
        unknown=tuple(recorder.unknown),
        conventions=CONVENTIONS,
    )


def _called(fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """What `fn` returns, its errors in one line."""
    try:
        result = fn(*args, **kwargs)
        if inspect.isgenerator(result):
            result = list(result)
        return result
    except RooflabError:
        raise
    except Exception as error:
        frames = [one for one in traceback.extract_tb(error.__traceback__) if one.filename != __file__]
        place = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
        text = " ".join(str(error).split()) or "no message"
        raise RooflabError(f"{_name(fn)} failed{place}: {type(error).__name__}: {text[:300]}") from error


# ── what it is given ─────────────────────────────────────────────────────────────────────────────────────────


def _copies(
    recorder: Recorder, fn: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments with every array copied, noted, and known as an input; one that comes twice is one copy."""
    copied: dict[int, Any] = {}

    def of(value: Any, name: str) -> Any:
        if isinstance(value, np.ndarray) and type(value) in (np.ndarray, Noted):
            if id(value) not in copied:
                own = plain(value).copy(order="K")
                recorder.known(own, "input", name)
                copied[id(value)] = own.view(Noted)
                copied[id(value)].flags.writeable = value.flags.writeable
            return copied[id(value)]
        if _draws(value):
            return _Generator(recorder, value)
        if isinstance(value, tuple):
            parts = [of(each, f"{name}[{at}]") for at, each in enumerate(value)]
            return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
        if isinstance(value, list):
            return [of(each, f"{name}[{at}]") for at, each in enumerate(value)]
        if isinstance(value, dict):
            return {key: of(each, f"{name}[{key!r}]") for key, each in value.items()}
        return value

    names = _parameters(fn)
    positional = tuple(of(one, names[at] if at < len(names) else f"args[{at}]") for at, one in enumerate(args))
    return positional, {key: of(one, key) for key, one in kwargs.items()}


def _parameters(fn: Any) -> list[str]:
    try:
        found = inspect.signature(fn).parameters.values()
    except (TypeError, ValueError):
        return []
    return [one.name for one in found if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]


# ── what it sees ─────────────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def _seen(recorder: Recorder, fn: Any) -> Iterator[None]:
    """Arrays that `fn` sees from outside are noted ones meanwhile."""
    seen: set[int] = set()
    with ExitStack() as changed:
        for name, owner in _owners(fn):
            for path, place in _places(owner, name, seen, 0):
                value = place.value
                changed.callback(place.put, value)
                if isinstance(value, np.ndarray):
                    recorder.known(value, "constant", path)
                    place.put(noted(value))
                else:
                    place.put(_Generator(recorder, value))
        yield


def _owners(fn: Any) -> Iterator[tuple[str, Any]]:
    """What holds what `fn` sees: its module's names, what it encloses, the object that it is a method of."""
    called = getattr(type(fn), "__call__", None)  # noqa: B004 — the function itself is wanted
    function = fn if inspect.isfunction(fn) else getattr(fn, "__func__", called)
    if inspect.isfunction(function):
        yield "", function.__globals__
        yield from zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    owner = getattr(fn, "__self__", fn)
    if not inspect.isroutine(owner) and not inspect.ismodule(owner):
        yield "self", owner


def _places(owner: Any, path: str, seen: set[int], depth: int) -> Iterator[tuple[str, Place]]:
    """Where arrays and random generators are kept below `owner`."""
    if id(owner) in seen or depth > _DEPTH:
        return
    seen.add(id(owner))
    for name, value, put in list(_held(owner)):
        inner = f"{path}.{name}" if path else str(name)
        if type(value) is np.ndarray or _draws(value):
            yield inner, Place(put, value)
        elif not isinstance(value, _HOLD_NONE) and not inspect.isroutine(value):
            yield from _places(value, inner, seen, depth + 1)


def _held(owner: Any) -> Iterator[tuple[Any, Any, Callable[[Any], None]]]:
    """The names, values and ways to change them of a dictionary, a list, a cell or an object."""
    if isinstance(owner, types.CellType):
        try:
            value = owner.cell_contents
        except ValueError:  # not bound yet
            return
        yield "value", value, lambda new: setattr(owner, "cell_contents", new)
    elif type(owner) is dict:
        for key, value in owner.items():
            yield key, value, lambda new, key=key: owner.__setitem__(key, new)
    elif type(owner) is list and len(owner) <= 1000:
        for at, value in enumerate(owner):
            yield at, value, lambda new, at=at: owner.__setitem__(at, new)
    elif isinstance(getattr(owner, "__dict__", None), dict):
        inside = owner.__dict__
        for key, value in inside.items():
            yield key, value, lambda new, key=key: inside.__setitem__(key, new)


# ── what makes arrays ────────────────────────────────────────────────────────────────────────────────────────


def _draws(value: Any) -> bool:
    return type(value) is not _Generator and isinstance(value, (np.random.Generator, np.random.RandomState))


class _Generator:
    """A random generator whose arrays are noted."""

    def __init__(self, recorder: Recorder, real: Any) -> None:
        self._recorder, self._real = recorder, real

    @property
    def __class__(self) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """That of the generator, which libraries ask for."""
        return type(self._real)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._real, name)
        return _drawing(self._recorder, name, found) if callable(found) else found


def _drawing(recorder: Recorder, name: str, draw: Any) -> Any:
    def call(*args: Any, **kwargs: Any) -> Any:
        with recorder.muted():
            result = draw(*plain(args), **plain(kwargs))
        if result is None and args and isinstance(args[0], np.ndarray):  # shuffled in place
            recorder.drawn_into(name, args[0])
            return None
        return recorder.drawn(name, result)

    return call


@contextmanager
def _patched(recorder: Recorder) -> Iterator[None]:
    """NumPy's functions that make arrays of nothing note what they make meanwhile."""
    random: Any = np.random
    changed = ExitStack()

    def change(owner: Any, name: str, instead: Any) -> None:
        changed.callback(setattr, owner, name, getattr(owner, name))
        setattr(owner, name, instead)

    with changed:
        for name in _CREATING:
            change(np, name, _creating(recorder, name, getattr(np, name)))
        for name in _CONVERTING:
            change(np, name, _converting(recorder, name, getattr(np, name)))
        for name in dir(random):
            one = getattr(random, name)
            if isinstance(getattr(one, "__self__", None), np.random.RandomState):
                change(random, name, _drawing(recorder, name, one))
        make = random.default_rng
        change(random, "default_rng", lambda *args, **kwargs: _seeded(recorder, make, *args, **kwargs))
        change(np, "fromfunction", functools.wraps(np.fromfunction)(_from_function))
        yield


def _seeded(recorder: Recorder, make: Any, seed: Any = None) -> Any:
    """`default_rng`: a generator that is given to it is the one that it returns."""
    return seed if type(seed) is _Generator else _Generator(recorder, make(plain(seed)))


def _from_function(function: Any, shape: Any, *, dtype: Any = float, like: Any = None, **kwargs: Any) -> Any:
    """numpy/_core/numeric.py: the function is called once, with all indices as arrays."""
    return function(*np.indices(shape, dtype=dtype), **kwargs)


def _creating(recorder: Recorder, name: str, make: Any) -> Any:
    @functools.wraps(make)
    def call(*args: Any, **kwargs: Any) -> Any:
        with recorder.muted():
            result = make(*plain(args), **plain(kwargs))
        return recorder.created(name, result)

    return call


def _converting(recorder: Recorder, name: str, make: Any) -> Any:
    @functools.wraps(make)
    def call(source: Any, *args: Any, **kwargs: Any) -> Any:
        with recorder.muted():
            result = make(plain(source), *args, **kwargs)
        return recorder.converted(name, source, result)

    return call


def _name(fn: Any) -> str:
    return getattr(fn, "__name__", type(fn).__name__)
