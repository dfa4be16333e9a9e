"""What real arrays of NumPy are asked for while a function runs, each request noted as an operation."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rooflab.work.capture.numpy import recipes
from rooflab.work.capture.numpy.asked import arrays_in, name_of, several
from rooflab.work.capture.numpy.noted import Noted, noted, plain
from rooflab.work.capture.numpy.notes import Found, Notes
from rooflab.work.capture.numpy.steps import STEPS

_as_array = np.asarray  # NumPy's own, which a capture puts another in place of

_REDUCTIONS = {
    "add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min", "fmax": "max", "fmin": "min",
    "logical_and": "all", "logical_or": "any", "bitwise_and": "all", "bitwise_or": "any", "bitwise_xor": "any",
}  # fmt: skip
_SCANS = {"add": "cumsum", "multiply": "cumprod", "maximum": "cummax", "minimum": "cummin"}


class Recorder(Notes):
    """What arrays ask for, run and noted."""

    def ufunc(self, ufunc: np.ufunc, method: str, inputs: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """A universal function run and noted, called (`method` "__call__") or by its own method ("reduce", …)."""
        result = getattr(ufunc, method)(*plain(tuple(inputs)), **plain(dict(kwargs)))
        if result is NotImplemented:
            return result
        out = kwargs.get("out")
        where = (kwargs["where"],) if isinstance(kwargs.get("where"), np.ndarray) else ()
        operands = (*inputs, *where)
        if method == "at":
            touched = int(np.size(plain(inputs[0])[plain(inputs[1])]))
            attrs = {"accumulate": True, "in_place": True, "base": True, "elements": touched}
            self._note(f"numpy.{ufunc.__name__}.at", Found("scatter", attrs), operands, (inputs[0],))
            return None
        given = tuple(one for one in several(out) if isinstance(one, np.ndarray)) if out is not None else ()
        if given:
            result = out[0] if isinstance(out, tuple) and len(out) == 1 else out
        else:
            result = noted(result)
        outputs = given or tuple(several(result))
        if method == "__call__" or method == "outer":
            entry = self._entry(f"numpy.{ufunc.__name__}", inputs, kwargs, outputs)
            name = f"numpy.{ufunc.__name__}" if method == "__call__" else f"numpy.{ufunc.__name__}.outer"
            self._note(name, entry, operands, outputs)
        else:
            self._note(
                f"numpy.{ufunc.__name__}.{method}", _folded(ufunc, method, inputs, kwargs), operands, outputs
            )
        return result

    def function(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """A function of NumPy: followed into, or run on plain arrays and noted as one operation."""
        name = name_of(func)
        entry = self._entries.get(name)
        if name == "numpy.einsum":
            args = recipes.of_diagonals(args)
        if name in STEPS:
            return self._by_steps(name, func, args, kwargs)
        if entry is None or entry.kind not in ("follow", "view", "free"):
            with self.muted():
                result = func(*plain(tuple(args)), **plain(dict(kwargs)))
            return self.called(name, args, kwargs, result, result)
        if entry.kind == "free":
            return func(*plain(tuple(args)), **plain(dict(kwargs)))
        if entry.kind == "view":
            result = func(*plain(tuple(args)), **plain(dict(kwargs)))
            return self.viewed(name, args, result)
        before = len(self.ops)
        result = func._implementation(*args, **kwargs)
        if any(
            isinstance(one, np.ndarray) and one.size > 1 and not self._is_seen(one) for one in several(result)
        ) or (len(self.ops) == before and not any(isinstance(one, np.ndarray) for one in several(result))):
            # Its Python went on with plain arrays, unseen.
            return self.called(name, args, kwargs, result, result, entry=Found(None, {}))
        return result

    def _by_steps(self, name: str, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """A function noted by the steps that it takes; one operation without a cost where they do not hold."""
        with self.muted():
            result = func(*plain(tuple(args)), **plain(dict(kwargs)))
        try:
            inspect.signature(STEPS[name]).bind(*args, **kwargs)
        except TypeError:  # an option that the steps do not know
            return self.called(name, args, kwargs, result, result, entry=Found(None, {}))
        before = len(self.ops)
        found = STEPS[name](
            *(np.asarray(one) if isinstance(one, (list, tuple)) else one for one in args), **kwargs
        )
        if not isinstance(found, np.ndarray) or found.shape != result.shape or found.dtype != result.dtype:
            del self.ops[before:]
            return self.called(name, args, kwargs, result, result, entry=Found(None, {}))
        plain(found)[...] = result
        self._as_it_is(found)
        return found

    def called(
        self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any], seen: Any, result: Any,
        entry: Found | None = None,
    ) -> Any:  # fmt: skip
        """What a call of `name` gave, noted as one operation; `seen` is what it wrote."""
        out = kwargs.get("out")
        new = seen is result and isinstance(result, np.ndarray) and not isinstance(out, np.ndarray)
        if new and any(np.may_share_memory(result, one) for one in arrays_in((*args, *kwargs.values()))):
            return noted(result)  # a view, or the operand itself: `astype(copy=False)`, a diagonal by `einsum`
        result = out if isinstance(out, np.ndarray) else noted(result)
        outputs = tuple(several(seen if isinstance(seen, Noted) else result))
        found = entry or self._entry(name, args, kwargs, outputs)
        if found.into is not None:
            outputs = (found.into,)
        operands = tuple(arrays_in((*args, *(value for key, value in kwargs.items() if key != "out"))))
        operands = operands[: found.takes]
        if found.swapped:
            operands = (*operands[1::-1], *operands[2:])
        self._note(name, found, operands, outputs)
        if result is None:  # it may have changed what it was given
            for one in operands:
                self._as_it_is(one)
        return result

    def viewed(self, name: str, args: Sequence[Any], result: Any) -> Any:
        """A view of an array, or the copy that it had to be."""
        result = noted(result)
        operands = tuple(arrays_in(args))
        copied = [
            one for one in several(result)
            if isinstance(one, np.ndarray) and not any(np.may_share_memory(one, each) for each in operands)
        ]  # fmt: skip
        for one in copied:
            strided = any(not each.flags.c_contiguous for each in operands)
            self._note(name, Found("layout" if strided else "copy", {}), operands, (one,))
        return result

    def picked(self, array: Noted, key: Any, found: Any) -> Any:
        """What an index gave: a number, a view, or rows that were looked up."""
        if not isinstance(found, np.ndarray):
            self._element()
            return found
        result = noted(found)
        if isinstance(result, Noted) and not np.may_share_memory(plain(array), found) and found.size:
            keys = key if isinstance(key, tuple) else (key,)
            indices = self._indices(keys)
            attrs = recipes.masked(array, indices) or recipes.pieces(array, keys, found)
            found_by = Found("gather", attrs)
            self._note("numpy.ndarray[indices]", found_by, (array, *indices), (result,))
        return result

    def put(self, array: Noted, key: Any, value: Any) -> None:
        """A value written into a part of an array."""
        keys = key if isinstance(key, tuple) else (key,)
        indices = self._indices(keys)
        if not indices and all(isinstance(one, (int, np.integer)) for one in keys) and len(keys) == array.ndim:
            self._element()
            self._as_it_is(array)
            return
        if isinstance(value, (list, tuple)):
            value = _as_array(plain(value))
        operand = (value,) if isinstance(value, np.ndarray) and value.ndim else ()
        if indices:
            target = plain(array)[plain(key)]
            attrs = {
                "in_place": True,
                "base": True,
                "elements": int(target.size),
                **recipes.masked(array, indices),
            }
            self._note("numpy.ndarray[indices] =", Found("scatter", attrs), (array, *indices, *operand), (array,))
            return
        part = array.view(np.ndarray)[key].view(Noted)
        same = isinstance(value, np.ndarray) and value.ndim and np.may_share_memory(value, part)
        if same and value.shape == part.shape and value.strides == part.strides:
            self._as_it_is(array)
            return  # a[i] += b puts back what was computed in place
        name = "numpy.ndarray[…] ="
        if operand:
            kind = "copy" if value.dtype == array.dtype else "cast"
            self._note(name, Found(kind, {}), operand, (part,))
        else:
            self._note(name, Found("create", {"function": "full"}), (), (part,))

    def _indices(self, keys: Sequence[Any]) -> tuple[np.ndarray, ...]:
        """The arrays and lists among `keys`: they pick elements, where numbers and slices make views."""
        found = []
        for one in keys:
            if isinstance(one, list):
                found.append(_as_array(plain(one)))
                self.known(found[-1], "constant", None)
            elif isinstance(one, np.ndarray) and (one.ndim or one.dtype == bool):
                found.append(one)
        return tuple(found)

    def given_back(self, result: Any) -> None:
        """Say which arrays of the result were made or changed unseen."""
        for one in arrays_in((result,)):
            self._say_unseen(one, "that is returned")

    def created(self, function: str, result: Any) -> Any:
        """A new array of constants or of numbers counted up."""
        if not isinstance(result, np.ndarray):
            return result
        result = noted(result)
        self._note(f"numpy.{function}", Found("create", {"function": function}), (), (result,))
        return result

    def drawn(self, function: str, result: Any) -> Any:
        """Random numbers."""
        if not isinstance(result, np.ndarray):
            return result
        result = noted(result)
        self._note(f"numpy.random.{function}", Found("random", {}), (), (result,))
        return result

    def drawn_into(self, function: str, array: np.ndarray) -> None:
        """An array put into another order in place."""
        self._note(f"numpy.random.{function}", Found("random", {}), (array,), (array,))

    def converted(self, function: str, source: Any, result: Any) -> Any:
        """What `asarray` and its like made: nothing new, a copy of an array, or an array of what Python holds."""
        if not isinstance(result, np.ndarray):
            return result
        if isinstance(source, np.ndarray):
            if np.may_share_memory(source, result):
                return result if isinstance(result, Noted) else noted(result)
            result = noted(result)
            kind = "copy" if source.dtype == result.dtype else "cast"
            self._note(f"numpy.{function}", Found(kind, {}), (source,), (result,))
            return result
        result = noted(result)
        if result.size > 1 and not self._is_seen(result):  # seen: `as_strided` makes its view so
            self._note(f"numpy.{function}", Found("create", {"function": "array"}), (), (result,))
        return result


def _folded(ufunc: np.ufunc, method: str, inputs: Sequence[Any], kwargs: Mapping[str, Any]) -> Found:
    """A universal function along an axis: reduced, or run on."""
    array = inputs[0]
    if method == "accumulate":
        function = _SCANS.get(ufunc.__name__)
        return Found("scan", {"function": function} if function else {"vector": 1}, 1)
    function = _REDUCTIONS.get(ufunc.__name__)
    if function is None or not isinstance(array, np.ndarray):
        return Found(None, {}, 1)
    axis = inputs[1] if len(inputs) > 1 and method == "reduce" else kwargs.get("axis", 0)
    return Found("reduction", {"function": function, "dims": recipes.axes_of(axis, array.ndim)}, 1)
