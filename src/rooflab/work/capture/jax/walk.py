"""The walk over a jaxpr: every primitive a row, loops times their trips, calls followed, branches stated."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rooflab.types.work import Op
from rooflab.work import vocabulary
from rooflab.work.capture.jax import layouts, own
from rooflab.work.capture.jax.recipes import RECIPES
from rooflab.work.capture.jax.record import Recorder, Scope, Value, dtype_name, full_bytes

# Scopes that JAX adds itself.
_OWN_SCOPES = {"rematted_computation", "checkpoint", "remat"}
# Looks whose elements do not lie in memory in their order.
_REORDER = {"broadcast_in_dim", "broadcast_to", "transpose", "slice", "rev", "split", "unstack"}


@dataclass
class Frame:
    """One jaxpr being walked.

    Attributes:
        values: what its variables hold.
        leaving: variables whose memory must be written: results of the program and of loop bodies.
        placed: storage that a variable's result lies in (the stacked results of a scan).
        dies: last equation that reads a variable.
        owned: variables that nothing outside still needs: what may be updated in place.
        index: equation at hand.
    """

    values: dict[Any, Value]
    scope: Scope
    leaving: Collection[Any]
    placed: Mapping[Any, int]
    dies: Mapping[Any, int]
    owned: set[Any]
    index: int = 0

    def read(self, atom: Any) -> Value:
        """What `atom`, a variable or a literal, holds."""
        if not hasattr(atom, "val"):
            return self.values[atom]
        number = atom.val
        return Value(None, number.item() if hasattr(number, "item") and not atom.aval.shape else number)

    def free(self, atom: Any) -> bool:
        """Whether the memory of `atom` may be overwritten by the equation at hand."""
        return not hasattr(atom, "val") and atom in self.owned and self.dies.get(atom) == self.index


def walk(
    rec: Recorder,
    jaxpr: Any,
    inputs: Sequence[Value],
    scope: Scope,
    *,
    leaving: Collection[Any] = (),
    placed: Mapping[Any, int] | None = None,
    owned: Collection[Any] = (),
) -> list[Value]:
    """What the results of `jaxpr` hold, its operations recorded in `rec`."""
    inner = getattr(jaxpr, "jaxpr", jaxpr)
    values = dict(zip(inner.invars, inputs, strict=True))
    for var, data in zip(inner.constvars, getattr(jaxpr, "consts", ()), strict=False):
        values[var] = rec.constant(var.aval, data)
    dies: dict[Any, int] = {}
    for index, eqn in enumerate(inner.eqns):
        dies.update((atom, index) for atom in eqn.invars if not hasattr(atom, "val"))
    dies.update((atom, len(inner.eqns)) for atom in inner.outvars if not hasattr(atom, "val"))
    frame = Frame(values, scope, leaving, placed or {}, dies, set(owned))
    for frame.index, eqn in enumerate(inner.eqns):
        step(rec, eqn, frame)
    return [frame.read(atom) for atom in inner.outvars]


def step(rec: Recorder, eqn: Any, frame: Frame) -> None:
    """Record one equation."""
    entry = vocabulary.load("jax").get(eqn.primitive.name)
    rule = RULES.get(entry.kind if entry else "")
    if entry is None and called(eqn) is not None:
        rule = RULES["call"]
    if rule is not None:
        results = rule(rec, eqn, frame)
    else:
        results = record(rec, eqn, frame, entry)
    for var, value in zip(eqn.outvars, results, strict=True):
        frame.values[var] = value
    if rule is not look or all(frame.free(atom) for atom in eqn.invars if not hasattr(atom, "val")):
        frame.owned.update(eqn.outvars)


def emit(
    rec: Recorder,
    eqn: Any,
    frame: Frame,
    kind: str | None,
    inputs: Sequence[int],
    outputs: Sequence[int],
    attrs: Mapping[str, Any],
) -> None:
    """Write down one operation."""
    scope = enter(frame.scope, eqn)
    rec.ops.append(
        Op(
            name=own.row_name(eqn),
            kind=kind,
            inputs=tuple(inputs),
            outputs=tuple(outputs),
            attrs=attrs,
            module=".".join(scope.module),
            where=rec.line(eqn) or scope.where,
            phase=scope.phase,
            count=scope.runs,
            branch=scope.branch,
        )
    )


def enter(scope: Scope, eqn: Any) -> Scope:
    """`scope` with the named scopes and transformations of `eqn`."""
    stack = eqn.source_info.name_stack.stack
    if not stack:
        return scope
    module, phase = scope.module, scope.phase
    for part in stack:
        if type(part).__name__ == "Transform":
            phase = "backward" if part.name == "transpose" else phase
        elif part.name not in _OWN_SCOPES and "->" not in part.name:  # einsum names its products so
            module = (*module, *part.name.strip("/").split("/"))
    return scope._replace(module=module, phase=phase)


def made(rec: Recorder, frame: Frame, var: Any) -> int:
    """The index of a new tensor for the result `var`."""
    return rec.tensor(var.aval, storage=frame.placed.get(var))


def record(rec: Recorder, eqn: Any, frame: Frame, entry: vocabulary.Entry | None) -> list[Value]:
    """A row for an equation that one formula counts, or none does."""
    inputs = [value.tensor for value in map(frame.read, eqn.invars) if value.tensor is not None]
    formula = own.find(eqn)
    if formula is not None:
        outputs = [made(rec, frame, var) for var in eqn.outvars]
        attrs = own.attributes(formula, eqn, rec, inputs, outputs)
        emit(rec, eqn, frame, "custom", inputs, outputs, attrs)
        return [Value(index) for index in outputs]
    if entry is None:
        outputs = [made(rec, frame, var) for var in eqn.outvars]
        emit(rec, eqn, frame, None, inputs, outputs, {})
        return [Value(index) for index in outputs]
    attrs = dict(entry.attrs)
    if entry.recipe is not None:
        attrs |= RECIPES[entry.recipe](eqn, enter(frame.scope, eqn))
    if entry.kind == "scatter":
        return scatter(rec, eqn, frame, attrs)
    if entry.kind == "reduction" and _elements(eqn.invars[0]) == _elements(eqn.outvars[0]):
        return look(rec, eqn, frame)  # along dimensions of size 1
    if entry.kind == "cast" and dtype_name(eqn.invars[0].aval) == dtype_name(eqn.outvars[0].aval):
        return look(rec, eqn, frame)
    if entry.kind == "cast" and not inputs:
        return [frame.read(eqn.invars[0])]
    if entry.kind == "create" and eqn.outvars[0] not in frame.leaving:
        # XLA makes constants and counters where they are read
        outputs = [rec.tensor(var.aval, nbytes=0.0) for var in eqn.outvars]
        emit(rec, eqn, frame, "view", inputs, outputs, {})
        return [Value(index) for index in outputs]
    outputs = [made(rec, frame, var) for var in eqn.outvars]
    emit(rec, eqn, frame, entry.kind, inputs, outputs, attrs)
    return [Value(index) for index in outputs]


def _elements(atom: Any) -> int:
    return math.prod(int(size) for size in atom.aval.shape)


def scatter(rec: Recorder, eqn: Any, frame: Frame, attrs: dict[str, Any]) -> list[Value]:
    """A row for an update of some places: in place where nothing else needs the operand."""
    base, *rest = (frame.read(atom) for atom in eqn.invars)
    updates, places = rest[-1:], rest[:-1]
    if eqn.primitive.name == "dynamic_update_slice":
        updates, places = rest[:1], rest[1:]
    inputs = [value.tensor for value in (*places, *updates) if value.tensor is not None]
    (var,) = eqn.outvars
    full = base.tensor is not None and rec.tensors[base.tensor].nbytes == full_bytes(var.aval)
    attrs["base"] = full
    attrs["in_place"] = full and frame.free(eqn.invars[0]) and var not in frame.placed
    if full and base.tensor is not None:
        inputs.insert(0, base.tensor)
    if attrs["in_place"]:
        output = rec.tensor(var.aval, storage=rec.tensors[inputs[0]].storage)
    else:
        output = made(rec, frame, var)
    emit(rec, eqn, frame, "scatter", inputs, (output,), attrs)
    return [Value(output)]


def look(rec: Recorder, eqn: Any, frame: Frame) -> list[Value]:
    """Rows for another look at the same memory; one that leaves the program is written, if it must be.

    It must where its source stays in its own order (an input, or something read again), or is smaller.
    """
    sources = [(atom, frame.read(atom)) for atom in eqn.invars] or [(None, Value(None))]
    one_each = len(sources) == len(eqn.outvars)
    results = []
    for position, var in enumerate(eqn.outvars):
        atom, source = sources[position if one_each else 0]
        attrs: dict[str, Any] = {}
        if source.tensor is None:
            leaves = var in frame.leaving
            output = made(rec, frame, var) if leaves else rec.tensor(var.aval, nbytes=0.0)
            kind, attrs = ("create", {"function": "full"}) if leaves else ("view", attrs)
        else:
            reordered = eqn.primitive.name in _REORDER or source.tensor in rec.reordered
            smaller = rec.tensors[source.tensor].nbytes < full_bytes(var.aval)
            if var in frame.leaving and (smaller or (reordered and not frame.free(atom))):
                output, kind = made(rec, frame, var), "layout"
            else:
                layout = layouts.of_look(eqn, rec.tensors[source.tensor], getattr(var.aval, "shape", ()), position)
                output, kind = rec.look(var.aval, source.tensor, layout=layout), "view"
                if reordered:
                    rec.reordered.add(output)
        emit(rec, eqn, frame, kind, () if source.tensor is None else (source.tensor,), (output,), attrs)
        results.append(Value(output, None if getattr(var.aval, "shape", ()) else source.number))
    return results


def called(eqn: Any) -> Any:
    """The jaxpr that `eqn` calls with its own operands and results; None where there is none."""
    for name in ("jaxpr", "call_jaxpr", "fun_jaxpr", "call"):
        jaxpr = eqn.params.get(name)
        inner = getattr(jaxpr, "jaxpr", jaxpr)
        if (
            hasattr(inner, "eqns")
            and len(inner.invars) == len(eqn.invars)
            and len(inner.outvars) == len(eqn.outvars)
            and all(map(_alike, inner.invars, eqn.invars))
        ):
            return jaxpr
    return None


def _alike(one: Any, other: Any) -> bool:
    """Whether two variables have the same shape: else the function is one of elements (reduce's)."""
    return getattr(one.aval, "shape", None) == getattr(other.aval, "shape", None)


def call(rec: Recorder, eqn: Any, frame: Frame) -> list[Value]:
    """Follow a call: jit, checkpoint, custom derivatives."""
    jaxpr = called(eqn)
    if jaxpr is None:
        rec.unknown.append(f"{eqn.primitive.name} at {at(rec, eqn, frame)}: the function inside is not visible")
        return record(rec, eqn, frame, None)
    return through(rec, eqn, frame, jaxpr, [frame.read(atom) for atom in eqn.invars], eqn.invars)


def through(
    rec: Recorder, eqn: Any, frame: Frame, jaxpr: Any, inputs: Sequence[Value], atoms: Sequence[Any]
) -> list[Value]:
    """Walk `jaxpr`, whose results are those of `eqn`."""
    inner = getattr(jaxpr, "jaxpr", jaxpr)
    pairs = [
        (inside, outside)
        for inside, outside in zip(inner.outvars, eqn.outvars, strict=True)
        if not hasattr(inside, "val")
    ]
    return walk(
        rec,
        jaxpr,
        inputs,
        inside(rec, eqn, frame),
        leaving={inside for inside, outside in pairs if outside in frame.leaving},
        placed={inside: frame.placed[outside] for inside, outside in pairs if outside in frame.placed},
        owned={var for var, atom in zip(inner.invars, atoms, strict=True) if frame.free(atom)},
    )


def inside(rec: Recorder, eqn: Any, frame: Frame, **changes: Any) -> Scope:
    """The scope of what `eqn` calls."""
    scope = enter(frame.scope, eqn)
    return scope._replace(where=rec.line(eqn) or scope.where, **changes)


def at(rec: Recorder, eqn: Any, frame: Frame) -> str:
    """Where `eqn` stands, for a message."""
    return rec.line(eqn) or frame.scope.where or "an unknown line"


def linear_solve(rec: Recorder, eqn: Any, frame: Frame) -> list[Value]:
    """Follow the solver of lax.custom_linear_solve; the products it defines itself by are not run."""
    lengths, solve = eqn.params["const_lengths"], eqn.params["jaxprs"].solve
    before = lengths.matvec + lengths.vecmat
    right = sum(lengths)
    atoms = [*eqn.invars[before : before + lengths.solve], *eqn.invars[right:]]
    return through(rec, eqn, frame, solve, [frame.read(atom) for atom in atoms], atoms)


RULES: dict[str, Callable[[Recorder, Any, Frame], list[Value]]] = {
    "view": look,
    "call": call,
    "linear_solve": linear_solve,
}
