"""Kernels and primitives of JAX that a user gave a formula for, by the kernel's name in `pallas_call`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rooflab.work import own_formulas
from rooflab.work.capture.jax.record import Recorder


def kernel_name(eqn: Any) -> str | None:
    """The name of a Pallas kernel: that of its function, unless `pallas_call` was given one."""
    if eqn.primitive.name != "pallas_call":
        return None
    body = getattr(eqn.params.get("jaxpr"), "debug_info", None)
    about = getattr(body, "func_src_info", None) or ""  # "name at file:line"
    return eqn.params.get("name") or about.partition(" at ")[0] or None


def row_name(eqn: Any) -> str:
    """What its row is called: the primitive, and of a Pallas kernel its own name too."""
    kernel = kernel_name(eqn)
    return eqn.primitive.name if kernel is None else f"{eqn.primitive.name} {kernel}"


def find(eqn: Any) -> Callable[..., Any] | None:
    """The formula of its kernel, else of its primitive; None without one."""
    kernel = kernel_name(eqn)
    by_kernel = None if kernel is None else own_formulas.find(kernel)
    return by_kernel or own_formulas.find(eqn.primitive.name)


def attributes(
    formula: Callable[..., Any], eqn: Any, rec: Recorder, inputs: Sequence[int], outputs: Sequence[int]
) -> dict[str, Any]:
    """What `formula` says of the equation, on the tensors that it reads and writes."""
    out = tuple(rec.tensors[index] for index in outputs)
    by = f"the formula of {kernel_name(eqn) or eqn.primitive.name}"
    args = tuple(rec.tensors[index] for index in inputs)
    return own_formulas.evaluate(formula, by, args, {}, {"out": out[0] if len(out) == 1 else out})
