"""The tensors of a capture: each distinct look at a storage once, numbered in the order they appear."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch._subclasses.functional_tensor import FunctionalTensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import is_traceable_wrapper_subclass_type

from rooflab.errors import RooflabError
from rooflab.types.work import Role, TensorSpec

DTYPES: dict[torch.dtype, str] = {
    torch.float64: "fp64",
    torch.float32: "fp32",
    torch.float16: "fp16",
    torch.bfloat16: "bf16",
    torch.complex128: "complex128",
    torch.complex64: "complex64",
    torch.bool: "bool",
    torch.int64: "int64",
    torch.int32: "int32",
    torch.int16: "int16",
    torch.int8: "int8",
    torch.uint64: "int64",
    torch.uint32: "int32",
    torch.uint16: "int16",
    torch.uint8: "int8",
    torch.qint8: "int8",
    torch.quint8: "int8",
    torch.qint32: "int32",
    torch.complex32: "complex64",  # no name of its own; its bytes are its own
}
# Devices whose tensors are computed when somebody looks: to ask for their memory ends the process.
_PROMISED = frozenset(["lazy", "xla"])
DTYPES |= {
    getattr(torch, name): "fp8"
    for name in dir(torch)
    if name.startswith("float8_") and isinstance(getattr(torch, name), torch.dtype)
}
_FP4 = getattr(torch, "float4_e2m1fn_x2", None)  # two in each byte
if _FP4 is not None:
    DTYPES[_FP4] = "fp4"


class TensorTable:
    """The tensors met so far. Filled during a run, turned into `TensorSpec`s after it.

    A storage is known by its address; a weak reference to each keeps an address from being given twice.

    Attributes:
        hidden: whether a tensor was met whose parts cannot be seen.
        dtypes: PyTorch's number format of each tensor, by its number.
    """

    def __init__(self) -> None:
        self.hidden = False
        self.dtypes: list[torch.dtype] = []
        self._indices: dict[tuple, int] = {}  # in the order of their numbers
        self._storages: dict[Any, int] = {}
        self._alive: list[StorageWeakRef] = []
        self._role: dict[Any, tuple[Role, str | None]] = {}
        self._stand_for: dict[Any, Any] = {}

    def index(self, tensor: torch.Tensor) -> int:
        """The number of a dense tensor, new or known.

        Raises:
            RooflabError: it is on a device whose tensors are not there yet (lazy, XLA).
        """
        if not tensor.is_meta and tensor.device.type in _PROMISED:
            raise RooflabError(
                f"a tensor on the device {tensor.device.type!r}, which only promises its data and has no memory "
                "to count; expected tensors on meta, cpu or a GPU: make the program and its inputs there"
            )
        storage = tensor.untyped_storage()
        address = storage._cdata
        key = (address, tensor.shape, tensor.stride(), tensor.dtype, tensor.storage_offset())
        number = self._indices.get(key)
        if number is None:
            if address not in self._storages:
                self._storages[address] = len(self._storages)
                self._alive.append(StorageWeakRef(storage))
                if isinstance(tensor, torch.nn.Parameter):  # of a module that nobody named
                    self._role.setdefault(address, ("parameter", None))
            number = self._indices[key] = len(self._indices)
            self.dtypes.append(tensor.dtype)
        return number

    def take(self, value: Any, into: list[int]) -> None:
        """Append the numbers of the tensors in `value` (a tensor, or lists of them) to `into`."""
        if isinstance(value, torch.Tensor):
            if value.layout is torch.strided and not value.is_nested:
                into.append(self.index(value))
            else:
                parts = dense_parts(value)
                self.hidden = self.hidden or not parts
                into.extend(self.index(part) for part in parts)
        elif isinstance(value, (list, tuple)):
            for one in value:
                self.take(one, into)

    def say(self, tensor: torch.Tensor, role: Role, name: str | None) -> None:
        """Note what a tensor is to the program; the first word on a storage stands."""
        if wrapped(type(tensor)):
            for part, one in wrapped_parts(tensor).items():
                self.say(one, role, None if name is None else f"{name}.{part}")
            return
        if tensor.layout is not torch.strided or tensor.is_nested:
            for part in dense_parts(tensor):
                self.say(part, role, name)
            return
        self.index(tensor)
        address = tensor.untyped_storage()._cdata
        if self._role.get(address) == ("parameter", None):
            self._role[address] = ("parameter", name)
        self._role.setdefault(address, (role, name))

    def name(self, tensor: torch.Tensor) -> str | None:
        """What the program calls the storage of `tensor`; None where it has no name for it."""
        return self._role.get(tensor.untyped_storage()._cdata, ("activation", None))[1]

    def same(self, stand_in: torch.Tensor, original: torch.Tensor) -> None:
        """Count `stand_in` as the storage of `original`."""
        self.index(original)
        self.index(stand_in)
        self._stand_for[stand_in.untyped_storage()._cdata] = original.untyped_storage()._cdata

    def specs(self) -> tuple[TensorSpec, ...]:
        """All tensors, in the order of their numbers."""
        layouts: dict[tuple, tuple[str, float, tuple[int, ...] | None, tuple[int, ...]]] = {}
        specs = []
        for address, shape, strides, dtype, offset in self._indices:
            about = (shape, strides, dtype)
            if about not in layouts:
                wide, apart = _unpacked(shape, strides) if dtype is _FP4 else (shape, strides)
                layouts[about] = (
                    *(dtype_name(dtype), _touched(shape, strides, dtype)),
                    *(_unusual(wide, apart), tuple(wide)),
                )
            name, nbytes, shown, shape = layouts[about]
            address = self._stand_for.get(address, address)
            role, title = self._role.get(address, ("activation", None))
            start = offset * dtype.itemsize
            specs.append(TensorSpec(shape, name, nbytes, self._storages[address], shown, role, title, start))
        return tuple(specs)


@functools.cache
def wrapped(kind: type) -> bool:
    """Whether tensors of `kind` are made of others and have rules of their own (quantised weights, DTensors)."""
    if issubclass(kind, (FakeTensor, FunctionalTensor)):
        return False
    own, plain = (getattr(one, "__torch_dispatch__", None) for one in (kind, torch.Tensor))
    return is_traceable_wrapper_subclass_type(kind) or own != plain


def wrapped_parts(tensor: torch.Tensor) -> dict[str, torch.Tensor]:
    """The tensors that a wrapping one is made of, by the names of its attributes."""
    flatten = getattr(tensor, "__tensor_flatten__", None)
    names = flatten()[0] if flatten is not None else vars(tensor)
    parts = {name: getattr(tensor, name) for name in names}
    return {name: one for name, one in parts.items() if isinstance(one, torch.Tensor)}


def logical_shape(tensor: torch.Tensor) -> tuple[int, ...]:
    """The elements of each dimension: of fp4, two lie in each byte along the dimension that is contiguous."""
    if tensor.dtype is not _FP4:
        return tuple(tensor.shape)
    return _unpacked(tuple(tensor.shape), tensor.stride())[0]


def _unpacked(shape: tuple[int, ...], strides: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    along = next((dim for dim in reversed(range(len(shape))) if strides[dim] == 1 and shape[dim] != 1), None)
    if along is None:
        along = len(shape) - 1
    wide = tuple(2 * size if dim == along else size for dim, size in enumerate(shape))
    return wide, tuple(stride if dim == along else 2 * stride for dim, stride in enumerate(strides))


def dense_parts(tensor: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The values and the indices that a sparse tensor is made of."""
    if tensor.layout is torch.sparse_coo:
        return tensor._values(), tensor._indices()
    if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        return tensor.values(), tensor.crow_indices(), tensor.col_indices()
    if tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
        return tensor.values(), tensor.ccol_indices(), tensor.row_indices()
    return ()


def dtype_name(dtype: torch.dtype) -> str:
    """Rooflab's name of a PyTorch number format; PyTorch's own where it has none."""
    return DTYPES.get(dtype) or str(dtype).removeprefix("torch.")


def _touched(shape: tuple[int, ...], strides: tuple[int, ...], dtype: torch.dtype) -> float:
    """Bytes that a reader of all of it touches: dimensions of stride 0 count once, overlaps once."""
    count, span = 1, 1
    for size, stride in zip(shape, strides, strict=True):
        if stride:
            count *= size
            span += (size - 1) * stride
        elif not size:
            count = 0
    return float(min(count, max(span, 0)) * dtype.itemsize)


def _unusual(shape: tuple[int, ...], strides: tuple[int, ...]) -> tuple[int, ...] | None:
    """The strides, or None where they are those of a contiguous tensor."""
    expected = 1
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size != 1 and stride != expected:
            return tuple(strides)
        expected *= size
    return None


def _holds(value: Any) -> bool:
    """Whether it is an object that keeps what it knows as attributes, and is no code."""
    return hasattr(value, "__dict__") and not callable(value) and not isinstance(value, ModuleType)


def names_of(tensors: Mapping[str, Any], *, objects: bool = False) -> dict[str, torch.Tensor]:
    """The tensors in nested lists, dictionaries and dataclasses, by their path ("batch.ids.0").

    Args:
        tensors: where to begin, by name.
        objects: look into other objects too, modules left out: caches keep keys and values as attributes.
    """
    by_path: dict[str, torch.Tensor] = {}
    seen: set[int] = set()

    def walk(path: str, value: Any) -> None:
        if isinstance(value, torch.Tensor):
            by_path[path] = value
        elif isinstance(value, Mapping):
            for key, one in value.items():
                walk(f"{path}.{key}", one)
        elif isinstance(value, (list, tuple)):
            for number, one in enumerate(value):
                walk(f"{path}.{number}", one)
        elif dataclasses.is_dataclass(value) and not isinstance(value, type):
            for field in dataclasses.fields(value):
                walk(f"{path}.{field.name}", getattr(value, field.name, None))
        elif objects and _holds(value) and id(value) not in seen:
            seen.add(id(value))
            for name, one in vars(value).items():
                walk(f"{path}.{name}", one)

    for name, value in tensors.items():
        walk(name, value)
    return by_path
