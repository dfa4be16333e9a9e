"""The terms that every formula is put together from: bytes of tensors, FLOP by engine, the cost itself.

Conventions, the same in all formulas:

- A multiply-add is 2 FLOP. A sum begins at 0 and a maximum at −∞, so that a reduction of n elements is n
  operations, as n multiply-adds are in a dot product of length n.
- exp, log, sin, tanh, erf, sqrt, rsqrt and a division are one operation each of the "special" engine;
  additions, multiplications and comparisons run on "vector"; products of matrices on "matrix".
- Integers and booleans outside matrix products are not floating-point: bytes, no FLOP. Integer matrix
  products (int8, int4) count as operations of their format.
- Complex numbers are counted in real operations of their half: complex64 in fp32.
- Compulsory bytes: each input crosses memory once, each output once. The same tensor given twice, and what two
  views of one storage share, is read once; a tensor updated in place is an input and an output, so both.
- Accessed bytes: every load and store of a plain kernel with one thread per output element, which keeps
  its accumulator in a register and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from rooflab.dtypes import DType, dtype
from rooflab.types.machine import Engine
from rooflab.types.work import Access, Cost, Flop, TensorSpec, Traffic
from rooflab.work.shared_bytes import touched_together

_REAL: dict[str, str] = {"complex64": "fp32", "complex128": "fp64"}
_FLOATS = {"fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "fp6", "fp4"}
# What matrix units and the libraries above them sum in.
_SUM_IN_FP32 = ("fp16", "bf16", "tf32", "fp8", "fp6", "fp4")
_ACCUMULATE: dict[str, str] = {**dict.fromkeys(_SUM_IN_FP32, "fp32"), "int8": "int32", "int4": "int32"}


@cache
def number_format(name: str) -> DType:
    """The number format called `name`."""
    return dtype(name)


def item_bytes(spec: TensorSpec) -> float:
    """Bytes of one element."""
    return number_format(spec.dtype).nbytes


def is_complex(spec: TensorSpec) -> bool:
    """Whether its elements are complex."""
    return number_format(spec.dtype).name in _REAL


def is_floating(spec: TensorSpec) -> bool:
    """Whether its elements are real floating-point numbers or complex ones."""
    name = number_format(spec.dtype).name
    return name in _FLOATS or name in _REAL


def real_name(name: str) -> str:
    """The number format that arithmetic in `name` runs in: itself, the half of a complex one."""
    name = number_format(name).name
    return _REAL.get(name, name)


def compute_dtype(inputs: Iterable[TensorSpec], outputs: Iterable[TensorSpec] = ()) -> str | None:
    """The format that an element-wise kernel computes in: the widest floating one of its operands.

    Tensors of no dimensions (scalars) decide only where all are. None where nothing is floating-point.
    """
    for group in (tuple(inputs), tuple(outputs)):
        floating = [spec for spec in group if is_floating(spec)]
        wide = [spec for spec in floating if spec.shape] or floating
        if wide:
            return real_name(max(wide, key=lambda spec: number_format(real_name(spec.dtype)).bits).dtype)
    return None


def matrix(fma: float, name: str) -> tuple[Flop, ...]:
    """FLOP of `fma` multiply-adds of a matrix product in the number format `name`."""
    if not fma:
        return ()
    real = real_name(name)
    count = fma * number_format(name).flop_per_fma
    return (Flop(engine="matrix", dtype=real, count=count, accumulate=_ACCUMULATE.get(real)),)


def scalar_flop(name: str | None, vector: float = 0, special: float = 0) -> tuple[Flop, ...]:
    """FLOP of the vector and special engines in `name`; none where `name` is None (integers)."""
    if name is None or number_format(name).name not in _FLOATS:
        return ()
    counts: tuple[tuple[Engine, float], ...] = (("vector", vector), ("special", special))
    return tuple(Flop(engine=engine, dtype=name, count=count) for engine, count in counts if count)


def total_bytes(specs: Iterable[TensorSpec]) -> float:
    """Bytes of the tensors; what two looks at one storage share is counted once where their places are known.

    Two views of one storage (the q and k of a fused projection) are two tensors: their parts differ. So are two
    whose places nobody knows.
    """
    return touched_together(specs)


def load_bytes(spec: TensorSpec, loads: float) -> float:
    """Bytes of `loads` loads of one element of it."""
    return loads * item_bytes(spec)


def cost_of(
    flop: tuple[Flop, ...] = (),
    *,
    read: float,
    write: float,
    loaded: float | None,
    stored: float | None = None,
    access: Access = "stream",
    wire_bytes: float = 0.0,
    note: str | None = None,
) -> Cost:
    """A cost from its bytes: compulsory `read` and `write`, accessed `loaded` and `stored` (default: `write`).

    `loaded` is None where the loads of a plain kernel are not known.
    """
    accessed = None
    if loaded is not None:
        accessed = Traffic("memory", loaded, write if stored is None else stored, "accessed")
    return Cost(
        flop=flop,
        compulsory=Traffic("memory", read, write, "compulsory"),
        accessed=accessed,
        access=access,
        wire_bytes=wire_bytes,
        note=note,
    )
