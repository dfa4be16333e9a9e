"""Loops, branches and device meshes in the walk over a jaxpr."""

from __future__ import annotations

import importlib
import math
from collections.abc import Sequence
from typing import Any

from rooflab.work.capture.jax.record import Recorder, Scope, Value, full_bytes
from rooflab.work.capture.jax.walk import RULES, Frame, at, inside, walk
from rooflab.work.formulas import cost


def loop(rec: Recorder, eqn: Any, frame: Frame) -> list[Value]:
    """Follow lax.scan: its body so often as it is long, slices of the stacked operands in each trip.

    A result carried from trip to trip is the body's; stacked results are slices of one tensor.
    """
    params = eqn.params
    length, constants, carried = int(params["length"]), params["num_consts"], params["num_carry"]
    body = params["jaxpr"].jaxpr
    values = [frame.read(atom) for atom in eqn.invars]
    inputs = list(values[:constants])
    for var, value in zip(body.invars[constants:], values[constants:], strict=False):
        if len(inputs) < constants + carried:
            inputs.append(carry(rec, var, value))
        else:
            inputs.append(slice_of(rec, var, value, length))
    stacks = [rec.tensor(var.aval, storage=frame.placed.get(var)) for var in eqn.outvars[carried:]]
    placed = {
        var: rec.tensors[stack].storage
        for var, stack in zip(body.outvars[carried:], stacks, strict=True)
        if not hasattr(var, "val")
    }
    scope = inside(rec, eqn, frame)
    results = walk(
        rec,
        params["jaxpr"],
        inputs,
        scope._replace(runs=scope.runs * length),
        leaving={var for var in body.outvars if not hasattr(var, "val")},
        placed=placed,
        owned=body.invars[constants : constants + carried],
    )
    ends = [settled(rec, var, value) for var, value in zip(eqn.outvars, results[:carried], strict=False)]
    return [*ends, *(Value(stack) for stack in stacks)]


def carry(rec: Recorder, var: Any, value: Value) -> Value:
    """What a carried variable holds: the memory of its first value, if that is all there."""
    if value.tensor is not None and rec.tensors[value.tensor].nbytes >= full_bytes(var.aval):
        return Value(value.tensor)
    return Value(rec.tensor(var.aval))


def slice_of(rec: Recorder, var: Any, value: Value, length: int) -> Value:
    """What a scanned variable holds: one slice of the stacked operand."""
    if value.tensor is None:
        return Value(rec.tensor(var.aval, nbytes=0.0))
    return Value(rec.look(var.aval, value.tensor, min(full_bytes(var.aval), rec.tensors[value.tensor].nbytes)))


def settled(rec: Recorder, var: Any, value: Value) -> Value:
    """What a loop leaves in a variable: no number, as it changes from trip to trip."""
    return Value(value.tensor if value.tensor is not None else rec.tensor(var.aval))


def while_loop(rec: Recorder, eqn: Any, frame: Frame) -> list[Value]:
    """Follow lax.while_loop: so often as its counter says, else as the caller says, else once and said so."""
    params = eqn.params
    tested, constants = params["cond_nconsts"], params["body_nconsts"]
    body = params["body_jaxpr"].jaxpr
    values = [frame.read(atom) for atom in eqn.invars]
    carried = [
        carry(rec, var, value)
        for var, value in zip(body.invars[constants:], values[tested + constants :], strict=True)
    ]
    scope = inside(rec, eqn, frame)
    trips = trips_of(rec, eqn, frame, scope)
    walk(
        rec,
        params["cond_jaxpr"],
        [*values[:tested], *carried],
        scope._replace(runs=scope.runs * (1 if trips is None else trips + 1)),
    )
    results = walk(
        rec,
        params["body_jaxpr"],
        [*values[tested : tested + constants], *carried],
        scope._replace(runs=scope.runs * (1 if trips is None else trips)),
        leaving={var for var in body.outvars if not hasattr(var, "val")},
        owned=body.invars[constants:],
    )
    return [settled(rec, var, value) for var, value in zip(eqn.outvars, results, strict=True)]


def trips_of(rec: Recorder, eqn: Any, frame: Frame, scope: Scope) -> int | None:
    """How often a while loop runs: as the caller says by its name, else as its counter says, else None.

    Its names: "while 2" (its place among the while loops), the named scope around it, "file.py:12".
    """
    where = at(rec, eqn, frame)
    file = where.replace("\\", "/").rpartition("/")[2]
    names = (f"while {len(rec.loops) + 1}", ".".join(scope.module), where, file)
    rec.loops.append(names)
    for name in (*names, str(len(rec.loops))):
        if name and name in rec.trips:
            return rec.trips[name]
    counted = counter(eqn, [frame.read(atom).number for atom in eqn.invars])
    if counted is None:
        rec.unknown.append(
            f"while at {where}: trip count not given, counted once; give it as trips={{{names[0]!r}: N}}"
        )
    return counted


def counter(eqn: Any, values: Sequence[Any]) -> int | None:
    """Trips of a loop whose test compares a counter of known start and step with a known bound; else None."""
    tested, constants = eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
    test, body = eqn.params["cond_jaxpr"].jaxpr, eqn.params["body_jaxpr"].jaxpr
    starts = values[tested + constants :]
    if len(test.eqns) != 1 or test.eqns[0].primitive.name not in _COMPARED:
        return None
    variables = {var: index for index, var in enumerate(test.invars)}

    def role(atom: Any) -> tuple[str, Any]:
        """("is", a number) or ("moves", start and step) or ("?", None)."""
        if hasattr(atom, "val"):
            return "is", atom.val
        index = variables.get(atom)
        if index is None:
            return "?", None
        if index < tested:
            return ("is", values[index]) if values[index] is not None else ("?", None)
        place = index - tested
        if starts[place] is None:
            return "?", None
        if body.outvars[place] is body.invars[constants + place]:
            return "is", starts[place]
        step = _step(body, body.invars[constants + place], body.outvars[place])
        return ("moves", (starts[place], step)) if step else ("?", None)

    (left, a), (right, b) = (role(atom) for atom in test.eqns[0].invars)
    name = test.eqns[0].primitive.name
    if (left, right) == ("is", "moves"):
        name, (left, a), (right, b) = _COMPARED[name], (right, b), (left, a)
    if (left, right) != ("moves", "is"):
        return None
    start, step = a
    distance = (int(b) - int(start)) / step
    if name in ("lt", "gt"):
        ok, trips = (step > 0) == (name == "lt"), math.ceil(distance)
    elif name in ("le", "ge"):
        ok, trips = (step > 0) == (name == "le"), math.floor(distance) + 1
    else:
        ok, trips = distance >= 0 and distance == int(distance), int(distance)
    return max(0, trips) if ok else None


# What a comparison says with its sides exchanged.
_COMPARED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le", "ne": "ne"}


def _step(body: Any, var: Any, result: Any) -> int | None:
    """What `body` adds to the counter `var` to make `result`; None where that is not a literal."""
    for eqn in body.eqns:
        if result in eqn.outvars and eqn.primitive.name in ("add", "sub"):
            first, second = eqn.invars
            if first is var and hasattr(second, "val"):
                return int(second.val) * (1 if eqn.primitive.name == "add" else -1)
            if second is var and hasattr(first, "val") and eqn.primitive.name == "add":
                return int(first.val)
    return None


def cond(rec: Recorder, eqn: Any, frame: Frame) -> list[Value]:
    """Follow every branch of lax.cond or lax.switch; the costliest counts, the others have a count of 0.

    Costliest: most FLOP, then most bytes. A branch whose number is known is the only one that counts: of
    lax.platform_dependent, that of the platform JAX runs on here.
    """
    branches = eqn.params["branches"]
    chosen = frame.read(eqn.invars[0]).number
    if chosen is None:
        chosen = _of_platform(eqn.params.get("branches_platforms"))
    atoms = eqn.invars[1:]
    values = [frame.read(atom) for atom in atoms]
    outputs = [rec.tensor(var.aval, storage=frame.placed.get(var)) for var in eqn.outvars]
    base = inside(rec, eqn, frame)
    spans = []
    for number, branch in enumerate(branches, 1):
        label = f"cond {number} of {len(branches)}"
        first = len(rec.ops)
        scope = base._replace(branch=f"{base.branch}, {label}" if base.branch else label)
        inner = branch.jaxpr
        results = [var for var in inner.outvars if not hasattr(var, "val")]
        walk(
            rec,
            branch,
            values,
            scope,
            leaving=results,
            placed={
                var: rec.tensors[output].storage
                for var, output in zip(inner.outvars, outputs, strict=True)
                if not hasattr(var, "val")
            },
            owned={var for var, atom in zip(inner.invars, atoms, strict=True) if frame.free(atom)},
        )
        spans.append(range(first, len(rec.ops)))
    if chosen is not None:
        best = min(max(int(chosen), 0), len(branches) - 1)
    else:
        best = max(range(len(branches)), key=lambda number: weight(rec, spans[number]))
    for number, span in enumerate(spans):
        if number != best:
            for index in span:
                rec.unrun(index)
    return [Value(output) for output in outputs]


def _of_platform(platforms: Sequence[Sequence[str] | None] | None) -> int | None:
    """The branch for the platform that JAX runs on here, else the default one; None where no platform chooses."""
    if not platforms:
        return None
    here = importlib.import_module("jax").default_backend()
    names = {here, *(("cuda", "rocm") if here == "gpu" else ())}
    ours = [number for number, of in enumerate(platforms) if of is not None and names & set(of)]
    return next(iter([*ours, *(number for number, of in enumerate(platforms) if of is None)]), None)


def weight(rec: Recorder, span: range) -> tuple[float, float]:
    """FLOP and bytes of the operations numbered `span`, as far as they are known."""
    flop = nbytes = 0.0
    for op in (rec.ops[index] for index in span):
        if op.kind is None or op.kind == "opaque":
            continue
        one = cost(
            op.kind,
            tuple(rec.tensors[index] for index in op.inputs),
            tuple(rec.tensors[index] for index in op.outputs),
            op.attrs,
        )
        flop += op.count * one.total_flop
        nbytes += op.count * one.compulsory.nbytes
    return flop, nbytes


def shards(rec: Recorder, eqn: Any, frame: Frame) -> list[Value]:
    """Follow shard_map: what one device does, on its part of each operand."""
    mesh, body = eqn.params["mesh"], eqn.params["jaxpr"]
    scope = inside(rec, eqn, frame)
    parts = []
    for var, value in zip(getattr(body, "jaxpr", body).invars, map(frame.read, eqn.invars), strict=True):
        part = Value(None, value.number) if value.tensor is None else Value(rec.look(var.aval, value.tensor))
        parts.append(part)
    results = walk(
        rec,
        body,
        parts,
        scope._replace(axes={**scope.axes, **{name: int(size) for name, size in mesh.shape.items()}}),
        leaving=set(getattr(body, "jaxpr", body).outvars),
    )
    return [
        Value(
            rec.tensor(var.aval)
            if value.tensor is None
            else rec.look(var.aval, value.tensor, full_bytes(var.aval))
        )
        for var, value in zip(eqn.outvars, results, strict=True)
    ]


RULES.update({"loop": loop, "while": while_loop, "cond": cond, "shards": shards})
