"""The notebook of a capture of NumPy: tensors and operations in the order they ran, as real arrays were asked."""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from rooflab.errors import RooflabError
from rooflab.types.work import Op, Role, TensorSpec
from rooflab.work import vocabulary
from rooflab.work.capture.numpy import recipes
from rooflab.work.capture.numpy.asked import (
    arrays_in,
    format_of,
    is_counted,
    name_of,
    several,
    user_line,
)  # fmt: skip
from rooflab.work.capture.numpy.memory import root_of, some_bytes, start_bytes, touched_bytes
from rooflab.work.capture.numpy.noted import Noted, noted, plain
from rooflab.work.capture.numpy.steps import STEPS

MOST_OPERATIONS = 50_000
MOST_ELEMENTS = 100_000  # read or written one by one
_as_array = np.asarray  # NumPy's own, which a capture puts another in place of
_SMALL_BYTES = 512  # what makes so little takes no time beside the call that it is for

_REDUCTIONS = {
    "add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min", "fmax": "max", "fmin": "min",
    "logical_and": "all", "logical_or": "any", "bitwise_and": "all", "bitwise_or": "any", "bitwise_xor": "any",
}  # fmt: skip
_SCANS = {"add": "cumsum", "multiply": "cumprod", "maximum": "cummax", "minimum": "cummin"}


class Storage(NamedTuple):
    """The memory that views share: its number, and what it is to the program."""

    number: int
    role: Role
    name: str | None


class Recorder:
    """What has been written down so far, and the operations on their way into it."""

    def __init__(self) -> None:
        self.tensors: list[TensorSpec] = []
        self.ops: list[Op] = []
        self.unknown: dict[str, None] = {}
        self.elements = 0
        self._entries = vocabulary.load("numpy")
        self._storages: dict[int, Storage] = {}
        self._watched: dict[int, weakref.ref[np.ndarray]] = {}
        self._contents: dict[int, bytes] = {}  # of memory as it was last noted, a few of its bytes
        self._made = 0
        self._muted = 0

    # ── what arrays ask for ──────────────────────────────────────────────────────────────────────────────

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
            self._note(f"numpy.{ufunc.__name__}.at", _Found("scatter", attrs), operands, (inputs[0],))
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
            return self.called(name, args, kwargs, result, result, entry=_Found(None, {}))
        return result

    def _by_steps(self, name: str, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """A function noted by the steps that it takes; one operation without a cost where they do not hold."""
        with self.muted():
            result = func(*plain(tuple(args)), **plain(dict(kwargs)))
        try:
            inspect.signature(STEPS[name]).bind(*args, **kwargs)
        except TypeError:  # an option that the steps do not know
            return self.called(name, args, kwargs, result, result, entry=_Found(None, {}))
        before = len(self.ops)
        found = STEPS[name](
            *(np.asarray(one) if isinstance(one, (list, tuple)) else one for one in args), **kwargs
        )
        if not isinstance(found, np.ndarray) or found.shape != result.shape or found.dtype != result.dtype:
            del self.ops[before:]
            return self.called(name, args, kwargs, result, result, entry=_Found(None, {}))
        plain(found)[...] = result
        self._as_it_is(found)
        return found

    def called(
        self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any], seen: Any, result: Any,
        entry: _Found | None = None,
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
            self._note(name, _Found("layout" if strided else "copy", {}), operands, (one,))
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
            found_by = _Found("gather", attrs)
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
            self._note("numpy.ndarray[indices] =", _Found("scatter", attrs), (array, *indices, *operand), (array,))
            return
        part = array.view(np.ndarray)[key].view(Noted)
        same = isinstance(value, np.ndarray) and value.ndim and np.may_share_memory(value, part)
        if same and value.shape == part.shape and value.strides == part.strides:
            self._as_it_is(array)
            return  # a[i] += b puts back what was computed in place
        name = "numpy.ndarray[…] ="
        if operand:
            kind = "copy" if value.dtype == array.dtype else "cast"
            self._note(name, _Found(kind, {}), operand, (part,))
        else:
            self._note(name, _Found("create", {"function": "full"}), (), (part,))

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
        self._note(f"numpy.{function}", _Found("create", {"function": function}), (), (result,))
        return result

    def drawn(self, function: str, result: Any) -> Any:
        """Random numbers."""
        if not isinstance(result, np.ndarray):
            return result
        result = noted(result)
        self._note(f"numpy.random.{function}", _Found("random", {}), (), (result,))
        return result

    def drawn_into(self, function: str, array: np.ndarray) -> None:
        """An array put into another order in place."""
        self._note(f"numpy.random.{function}", _Found("random", {}), (array,), (array,))

    def converted(self, function: str, source: Any, result: Any) -> Any:
        """What `asarray` and its like made: nothing new, a copy of an array, or an array of what Python holds."""
        if not isinstance(result, np.ndarray):
            return result
        if isinstance(source, np.ndarray):
            if np.may_share_memory(source, result):
                return result if isinstance(result, Noted) else noted(result)
            result = noted(result)
            kind = "copy" if source.dtype == result.dtype else "cast"
            self._note(f"numpy.{function}", _Found(kind, {}), (source,), (result,))
            return result
        result = noted(result)
        if result.size > 1 and not self._is_seen(result):  # seen: `as_strided` makes its view so
            self._note(f"numpy.{function}", _Found("create", {"function": "array"}), (), (result,))
        return result

    @contextmanager
    def muted(self) -> Iterator[None]:
        """Nothing is noted meanwhile: what runs is noted as one operation."""
        self._muted += 1
        try:
            yield
        finally:
            self._muted -= 1

    # ── notes ────────────────────────────────────────────────────────────────────────────────────────────

    def known(self, array: np.ndarray, role: Role, name: str | None) -> None:
        """Say what the memory of `array` is to the program, before it runs."""
        self._storage(array, role, name)
        self._as_it_is(array)

    def _entry(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any], outputs: Sequence[Any]) -> _Found:
        entry = self._entries.get(name)
        if entry is None:
            return _Found(None, {})
        attrs = {key: value for key, value in entry.attrs.items() if key != "takes"}
        found = _Found(entry.kind, attrs, entry.attrs.get("takes"))
        if entry.recipe is None:
            return found
        call = recipes.Call(args, kwargs, tuple(one for one in outputs if isinstance(one, np.ndarray)))
        derived = recipes.RECIPES[entry.recipe](call, entry.kind, attrs)
        return found._replace(kind=derived.kind, attrs=derived.attrs, into=derived.into, swapped=derived.swapped)

    def _note(self, name: str, found: _Found, operands: Sequence[Any], outputs: Sequence[Any]) -> None:
        if self._muted:
            return
        for one in outputs:
            if isinstance(one, np.ndarray):
                self._as_it_is(one)  # before it is looked at as an operand: what changed it in place is this call
        inputs = tuple(self._tensor(one) for one in operands if isinstance(one, np.ndarray))
        # Zero-dimensional results are numbers in Python.
        written = tuple(self._written(one) for one in outputs if isinstance(one, (np.ndarray, np.generic)))
        counted = all(is_counted(one) for one in (*operands, *outputs))
        kind = found.kind if counted else None
        self.ops.append(
            Op(name=name, kind=kind, inputs=inputs, outputs=written, attrs=found.attrs, where=user_line())
        )
        if len(self.ops) > MOST_OPERATIONS:
            raise RooflabError(
                f"more than {MOST_OPERATIONS:,} operations of NumPy, the last at {self.ops[-1].where}: a loop in"
                " Python over arrays; give it less to do, or take the loop apart with rooflab loop"
            )

    def _element(self) -> None:
        self.elements += 1
        if self.elements > MOST_ELEMENTS:
            raise RooflabError(
                f"more than {MOST_ELEMENTS:,} elements are read or written one by one at {user_line()}: a loop in"
                " Python; rooflab loop takes such functions apart"
            )

    def _tensor(self, array: np.ndarray) -> int:
        """The index of `array` as it is now."""
        if isinstance(array, Noted) and array.tensor is not None:
            self._say_unseen(array, None)
            return array.tensor
        self._say_unseen(array, None)
        number = self._new(array)
        if isinstance(array, Noted):
            array.tensor = number
        return number

    def _say_unseen(self, array: np.ndarray, place: str | None) -> None:
        """Note in `unknown` where code that is not seen (a compiled library's) made `array`, or wrote into it."""
        if array.nbytes <= _SMALL_BYTES:
            return
        root = root_of(array)
        before = self._contents.get(id(root))
        if not self._is_seen(array):
            what = "made"
        elif before is not None and before != some_bytes(root):
            what = "wrote"
            self._contents[id(root)] = some_bytes(root)
        else:
            return
        text = f"an array of shape {array.shape} {place or f'at {user_line()}'}: what {what} it is not seen"
        self.unknown[text] = None

    def _as_it_is(self, array: np.ndarray) -> None:
        """Remember what the memory of `array` holds now: a change from here on without a note is not seen."""
        root = root_of(array)
        if root.nbytes > _SMALL_BYTES:
            self._contents[id(root)] = some_bytes(root)

    def _is_seen(self, array: np.ndarray) -> bool:
        """Whether it is known what made the memory of `array`."""
        return id(root_of(array)) in self._storages

    def _written(self, result: np.ndarray | np.generic) -> int:
        """The index of a result, a new tensor even where it lies in known memory."""
        number = self._new(_as_array(result) if isinstance(result, np.generic) else result)
        if isinstance(result, Noted):
            result.tensor = number
        return number

    def _new(self, array: np.ndarray) -> int:
        storage = self._storage(array, "activation", None)
        strides = tuple(step // array.itemsize if array.itemsize else 0 for step in array.strides)
        contiguous = array.flags.c_contiguous
        whole = root_of(array).nbytes <= array.nbytes
        spec = TensorSpec(
            tuple(int(size) for size in array.shape),
            format_of(array.dtype),
            float(touched_bytes(array)),
            storage.number,
            None if contiguous else strides,
            storage.role,
            storage.name if whole else None,
            start_bytes(array),
        )
        self.tensors.append(spec)
        return len(self.tensors) - 1

    def _storage(self, array: np.ndarray, role: Role, name: str | None) -> Storage:
        root = root_of(array)
        key = id(root)
        if key not in self._storages:
            self._storages[key] = Storage(self._made, role, name)
            self._made += 1
            self._watched[key] = weakref.ref(root, lambda _, key=key: self._forget(key))
        return self._storages[key]

    def _forget(self, key: int) -> None:
        # Its number may be another array's from now on.
        self._storages.pop(key, None)
        self._contents.pop(key, None)
        self._watched.pop(key, None)


class _Found(NamedTuple):
    """What the vocabulary says of a call: the formula's name, its attributes, how many operands it takes.

    Attributes:
        into: what it writes, where that is an argument.
        swapped: whether the formula has the first two operands the other way round.
    """

    kind: str | None
    attrs: Mapping[str, Any]
    takes: int | None = None
    into: np.ndarray | None = None
    swapped: bool = False


def _folded(ufunc: np.ufunc, method: str, inputs: Sequence[Any], kwargs: Mapping[str, Any]) -> _Found:
    """A universal function along an axis: reduced, or run on."""
    array = inputs[0]
    if method == "accumulate":
        function = _SCANS.get(ufunc.__name__)
        return _Found("scan", {"function": function} if function else {"vector": 1}, 1)
    function = _REDUCTIONS.get(ufunc.__name__)
    if function is None or not isinstance(array, np.ndarray):
        return _Found(None, {}, 1)
    axis = inputs[1] if len(inputs) > 1 and method == "reduce" else kwargs.get("axis", 0)
    return _Found("reduction", {"function": function, "dims": recipes.axes_of(axis, array.ndim)}, 1)
