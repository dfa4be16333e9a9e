"""The notebook of a capture of NumPy: tensors and operations in the order they ran, and what memory holds."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from rooflab.errors import RooflabError
from rooflab.types.work import Op, Role, TensorSpec
from rooflab.work import vocabulary
from rooflab.work.capture.numpy import recipes
from rooflab.work.capture.numpy.asked import format_of, is_counted, user_line
from rooflab.work.capture.numpy.memory import root_of, some_bytes, start_bytes, touched_bytes
from rooflab.work.capture.numpy.noted import Noted

MOST_OPERATIONS = 50_000
MOST_ELEMENTS = 100_000  # read or written one by one
_as_array = np.asarray  # NumPy's own, which a capture puts another in place of
_SMALL_BYTES = 512  # what makes so little takes no time beside the call that it is for


class Storage(NamedTuple):
    """The memory that views share: its number, and what it is to the program."""

    number: int
    role: Role
    name: str | None


class Found(NamedTuple):
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


class Notes:
    """What has been written down so far: of a capture whose arrays say what they are asked."""

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

    @contextmanager
    def muted(self) -> Iterator[None]:
        """Nothing is noted meanwhile: what runs is noted as one operation."""
        self._muted += 1
        try:
            yield
        finally:
            self._muted -= 1

    def known(self, array: np.ndarray, role: Role, name: str | None) -> None:
        """Say what the memory of `array` is to the program, before it runs."""
        self._storage(array, role, name)
        self._as_it_is(array)

    def _entry(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any], outputs: Sequence[Any]) -> Found:
        entry = self._entries.get(name)
        if entry is None:
            return Found(None, {})
        attrs = {key: value for key, value in entry.attrs.items() if key != "takes"}
        found = Found(entry.kind, attrs, entry.attrs.get("takes"))
        if entry.recipe is None:
            return found
        call = recipes.Call(args, kwargs, tuple(one for one in outputs if isinstance(one, np.ndarray)))
        derived = recipes.RECIPES[entry.recipe](call, entry.kind, attrs)
        return found._replace(kind=derived.kind, attrs=derived.attrs, into=derived.into, swapped=derived.swapped)

    def _note(self, name: str, found: Found, operands: Sequence[Any], outputs: Sequence[Any]) -> None:
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
