"""Arrays that note what is asked of them: NumPy's own protocols for subclasses, and its methods in C."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from rooflab.work.capture.numpy.record import Recorder

# The captures under way, the innermost last; without one a noted array is like any other.
_under_way: list[Recorder] = []


class Noted(np.ndarray):
    """An array whose operations go into the capture under way.

    Attributes:
        tensor: its index in that capture's tensors; None until it is met there.
    """

    tensor: int | None = None

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if not _under_way:
            return getattr(ufunc, method)(*plain(inputs), **plain(kwargs))
        return _under_way[-1].ufunc(ufunc, method, inputs, kwargs)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if not _under_way:
            return func(*plain(args), **plain(kwargs))
        return _under_way[-1].function(func, args, kwargs)

    def __getitem__(self, key: Any) -> Any:
        found = plain(self)[plain(key)]
        if not _under_way:
            return found
        return _under_way[-1].picked(self, key, found)

    def __setitem__(self, key: Any, value: Any) -> None:
        plain(self)[plain(key)] = plain(value)
        if _under_way:
            _under_way[-1].put(self, key, value)

    def __reduce__(self) -> Any:
        return plain(self).__reduce__()


def plain(value: Any) -> Any:
    """`value` with the arrays as they were; in tuples, lists and dictionaries too."""
    if isinstance(value, Noted):
        return value.view(np.ndarray)
    if type(value) is tuple or type(value) is list:
        return type(value)(plain(each) for each in value)
    if type(value) is dict:
        return {key: plain(each) for key, each in value.items()}
    return value


def noted(value: Any) -> Any:
    """`value` with its arrays noted; in tuples, lists and named tuples too."""
    if type(value) is np.ndarray:
        return value.view(Noted)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(noted(each) for each in value))
    if type(value) is tuple or type(value) is list:
        return type(value)(noted(each) for each in value)
    return value


class UnderWay:
    """While it lasts, what is asked of noted arrays goes to `recorder`."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder

    def __enter__(self) -> None:
        _under_way.append(self.recorder)

    def __exit__(self, *_: object) -> None:
        _under_way.remove(self.recorder)


# Methods in C that reach neither protocol, and are called as the function that does the same; those in place.
_METHODS = (
    *("argmax", "argmin", "argsort", "argpartition", "astype", "choose", "compress", "copy", "dot", "nonzero"),
    *("put", "repeat", "searchsorted", "take", "mean"),
)
_IN_PLACE = ("sort", "partition", "fill")


def _method(name: str, *, in_place: bool) -> Callable[..., Any]:
    def call(self: Noted, *args: Any, **kwargs: Any) -> Any:
        own = getattr(np.ndarray, name)
        result = own(plain(self), *plain(args), **plain(kwargs))
        if not _under_way:
            return result
        seen = self if in_place else result
        return _under_way[-1].called(f"numpy.{name}", (self, *args), kwargs, seen, result)

    call.__name__ = name
    call.__doc__ = getattr(np.ndarray, name).__doc__
    return call


def _copying(name: str) -> Callable[..., Any]:
    """A method whose result is a copy, at times."""

    def call(self: Noted, *args: Any, **kwargs: Any) -> Any:
        result = getattr(np.ndarray, name)(plain(self), *args, **kwargs)
        return _under_way[-1].viewed("numpy." + name, (self,), result) if _under_way else result

    call.__name__ = name
    return call


for _name in (*_METHODS, *_IN_PLACE):
    setattr(Noted, _name, _method(_name, in_place=_name in _IN_PLACE))
for _name in ("flatten", "ravel", "reshape"):
    setattr(Noted, _name, _copying(_name))
