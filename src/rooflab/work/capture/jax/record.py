"""The notebook of a capture: tensors, operations and what could not be followed, in the order of the walk."""

from __future__ import annotations

import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from rooflab.types.work import Op, Phase, Role, TensorSpec
from rooflab.work.capture.jax.layouts import UNKNOWN, Layout

# What JAX calls number formats, where rooflab says it otherwise.
_NAMES = {
    "bfloat16": "bf16",
    "uint64": "int64",
    "uint32": "int32",
    "uint16": "int16",
    "uint8": "int8",
    "uint4": "int4",
    "int2": "int4",  # stored in the same nibble
    "uint2": "int4",
    "float0": "bool",  # the gradient of an integer: no bytes, as it has no elements to speak of
}
_LIBRARY = tuple({sysconfig.get_paths()[key] for key in ("stdlib", "platstdlib")})
_OWN = str(Path(__file__).resolve().parents[3])


class Value(NamedTuple):
    """What a variable holds: a tensor by its index, or a number known without running anything."""

    tensor: int | None
    number: float | int | bool | None = None


class Scope(NamedTuple):
    """Where the walk is.

    Attributes:
        module: named scopes around it, outermost first.
        runs: trips of the loops around it.
        axes: size of each named device axis.
        where: source line of the call around it.
    """

    module: tuple[str, ...] = ()
    phase: Phase = "forward"
    runs: int = 1
    branch: str | None = None
    axes: Mapping[str, int] = {}
    where: str | None = None


@dataclass
class Recorder:
    """What has been written down so far.

    Attributes:
        trips: how often loops run, by their name, as the caller gave it.
        names: what the arrays that the function closes over are called, by their identity.
        reordered: tensors whose elements do not lie in memory in their order (transposed, sliced, broadcast).
        loops: names of the while loops met so far, in their order.
    """

    trips: Mapping[str, int]
    tensors: list[TensorSpec] = field(default_factory=list)
    ops: list[Op] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    loops: list[tuple[str, ...]] = field(default_factory=list)
    storages: int = 0
    reordered: set[int] = field(default_factory=set)
    constants: dict[int, int] = field(default_factory=dict)
    constant_role: Role = "constant"
    names: Mapping[int, str] = field(default_factory=dict)
    lines: dict[Any, str | None] = field(default_factory=dict)

    def tensor(
        self,
        aval: Any,
        *,
        nbytes: float | None = None,
        storage: int | None = None,
        role: Role = "activation",
        name: str | None = None,
        layout: Layout = UNKNOWN,
    ) -> int:
        """The index of a new tensor of `aval`'s shape and format; without a `storage` it gets its own."""
        if storage is None:
            storage, self.storages = self.storages, self.storages + 1
            layout = Layout(0)
        spec = TensorSpec(
            tuple(int(size) for size in getattr(aval, "shape", ())),
            dtype_name(aval),
            full_bytes(aval) if nbytes is None else nbytes,
            storage,
            layout.strides,
            role,
            name,
            layout.start_bytes,
        )
        self.tensors.append(spec)
        return len(self.tensors) - 1

    def look(self, aval: Any, source: int, nbytes: float | None = None, layout: Layout = UNKNOWN) -> int:
        """The index of another look at tensor `source`: same storage, no more bytes than it has."""
        spec = self.tensors[source]
        size = min(full_bytes(aval), spec.nbytes) if nbytes is None else nbytes
        return self.tensor(aval, nbytes=size, storage=spec.storage, role=spec.role, name=spec.name, layout=layout)

    def constant(self, aval: Any, data: Any) -> Value:
        """A captured array, each once however often it is met; a single integer is known by its value."""
        number = None
        if not aval.shape and getattr(aval.dtype, "kind", "") in "iub" and hasattr(data, "item"):
            number = data.item()
        if id(data) not in self.constants:
            floats = bool(aval.shape) and dtype_name(aval).startswith(("fp", "bf"))
            role = self.constant_role if floats else "constant"
            self.constants[id(data)] = self.tensor(aval, role=role, name=self.names.get(id(data)))
        return Value(self.constants[id(data)], number)

    def rename(self, index: int, **changes: Any) -> None:
        """Describe tensor `index` anew."""
        self.tensors[index] = msgspec.structs.replace(self.tensors[index], **changes)

    def unrun(self, index: int) -> None:
        """Operation `index` is not to be counted."""
        self.ops[index] = msgspec.structs.replace(self.ops[index], count=0)

    def line(self, eqn: Any) -> str | None:
        """File and line of the user's code that asked for `eqn`; None where only libraries are to be seen."""
        trace = eqn.source_info.traceback
        if trace is None:
            return None
        if trace not in self.lines:
            self.lines[trace] = user_line((frame.file_name, frame.line_num) for frame in trace.frames)
        return self.lines[trace]


def user_line(frames: Any) -> str | None:
    """File and line of the innermost of `frames` (file, line) that is not in a library, else not a part of JAX."""
    fallback = None
    for name, line in frames:
        if name.startswith(("<", _OWN)) or "/jax/_src/" in name or "/jaxlib/" in name:
            continue
        if "site-packages" not in name and "dist-packages" not in name and not name.startswith(_LIBRARY):
            return f"{name}:{line}"
        if fallback is None and "/jax/" not in name:
            fallback = f"{name}:{line}"
    return fallback


def dtype_name(aval: Any) -> str:
    """The name in `rooflab.dtypes` of the number format of `aval`."""
    return _format(getattr(aval, "dtype", None))


@cache
def _format(dtype: Any) -> str:
    name = str(getattr(dtype, "name", dtype))
    if name.startswith("key<") or dtype is None:
        return "int64"  # a random key: two 32-bit words
    if name.startswith("float"):
        digits = name.removeprefix("float")
        return _NAMES.get(name) or ("fp" + digits.partition("_")[0].partition("e")[0])
    return _NAMES.get(name, name)


def full_bytes(aval: Any) -> float:
    """Bytes of all of its elements."""
    shape = getattr(aval, "shape", None)
    if shape is None:
        return 0.0  # a token
    count = 1
    for size in shape:
        count *= int(size)
    if str(aval.dtype) == "float0":
        return 0.0
    packed: dict[str, float] = {"int4": 0.5, "fp4": 0.5, "fp6": 0.75}
    return count * (packed.get(dtype_name(aval)) or aval.dtype.itemsize)
