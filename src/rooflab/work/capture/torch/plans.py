"""From an operator of PyTorch to how it is recorded: its entry in the vocabulary, read against its schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch

from rooflab.work import vocabulary
from rooflab.work.capture.torch.own import Own, own
from rooflab.work.capture.torch.recipes import RECIPES
from rooflab.work.capture.torch.results import repeatable
from rooflab.work.capture.torch.tensors import logical_shape

Call = Callable[[str], Any]


class Plan(NamedTuple):
    """How one operator is recorded.

    Attributes:
        name: "aten.addmm".
        kind: of its formula; None where the vocabulary does not know it.
        inputs: (position, name, default) of the arguments that are inputs; None for all tensors of the call.
        outputs: positions of the results that count; None for all.
        written: (position, name) of arguments written to without being returned.
        skip: names of arguments only written to (out=).
        fixed: attributes that every call shares.
        derived: attributes read from the call.
        recipe: the rest.
        places: argument name → position and default.
        whole: False for a composite operator that is followed inward instead of recorded.
        repeatable: whether equal calls give equal results, all of them new tensors.
        own: a formula that somebody gave, from a call to its attributes; the kind is "custom" then.
    """

    name: str
    kind: str | None
    inputs: tuple[tuple[int, str, Any], ...] | None
    outputs: tuple[int, ...] | None
    written: tuple[tuple[int, str], ...]
    skip: frozenset[str]
    fixed: Mapping[str, Any]
    derived: tuple[tuple[str, Any], ...]
    recipe: Callable[..., dict[str, Any]] | None
    places: Mapping[str, tuple[int, Any]]
    whole: bool
    repeatable: bool = False
    own: Own | None = None


def plan(func: Any) -> Plan:
    """How calls of `func`, an overload of an operator, are recorded."""
    if not hasattr(func, "_schema"):  # an operator that takes functions, with no rule in `regions`
        name = func.name()
        formula = own(func, name, known=False)
        kind = None if formula is None else "custom"
        return Plan(name, kind, None, None, (), frozenset(), {}, (), None, {}, True, own=formula)
    namespace, _, packet = func._schema.name.partition("::")
    name = f"{namespace}.{packet}"
    entry, foreach = _entry(name)
    places = {
        one.name: (position, one.default_value if one.has_default_value() else None)
        for position, one in enumerate(func._schema.arguments)
    }
    kind = entry.kind if entry else "view" if func.is_view else None
    # prim operators (the device of a fake tensor) are not in the dispatcher's table
    composite = namespace != "prim" and torch._C._dispatch_has_kernel_for_dispatch_key(
        func.name(), "CompositeImplicitAutograd"
    )
    fixed, derived = {}, []
    for attr, value in (entry.attrs if entry else {}).items():
        if isinstance(value, (vocabulary.Argument, vocabulary.Given, vocabulary.Size)):
            if value.name in places:
                derived.append((attr, value))
        else:
            fixed[attr] = value
    if foreach and kind == "pointwise":
        fixed["foreach"] = True
    inputs = None
    if entry and entry.inputs is not None:
        inputs = tuple((*places[one], one) for one in entry.inputs if one in places)
        inputs = tuple((position, one, default) for position, default, one in inputs)
    written, skip = _written(func, places)
    formula = own(func, name, known=kind is not None)
    if formula is not None:
        return Plan(name, "custom", None, None, written, skip, {}, (), None, places, True, own=formula)
    return Plan(
        name,
        kind,
        inputs,
        entry.outputs if entry else None,
        written,
        skip,
        fixed,
        tuple(derived),
        RECIPES[entry.recipe] if entry and entry.recipe else None,
        places,
        bool(entry) or not composite,
        repeatable(func),
    )


def _entry(name: str) -> tuple[vocabulary.Entry | None, bool]:
    """The entry for `name` or for the op it is a form of (in place, of a list), and whether it is of a list."""
    entries = vocabulary.load("torch")
    plain = name.rstrip("_") if not name.endswith("__") else name
    for form in (name, plain):
        if form in entries:
            return entries[form], "._foreach_" in form
    if "._foreach_" in plain:
        single = plain.replace("._foreach_", ".")
        return entries.get(single), True
    return None, False


def _written(func: Any, places: Mapping[str, Any]) -> tuple[tuple[tuple[int, str], ...], frozenset[str]]:
    """Arguments written to that no result stands for, and those that are only written to."""
    returned: set[str] = set()
    for one in func._schema.returns:
        if one.alias_info is not None and one.alias_info.is_write:
            returned |= set(one.alias_info.before_set)
    written, skip = [], set()
    for position, one in enumerate(func._schema.arguments):
        if one.alias_info is None or not one.alias_info.is_write:
            continue
        if one.is_out:
            skip.add(one.name)
        # Gradients are written by the fused optimizers only to unscale them.
        if not returned & set(one.alias_info.before_set) and one.name != "grads":
            written.append((position, one.name))
    return tuple(written), frozenset(skip)


def attributes(plan: Plan, args: tuple, kwargs: Mapping[str, Any], out: Any) -> dict[str, Any]:
    """The attributes of one call."""

    def call(name: str) -> Any:
        place = plan.places.get(name)
        if place is None:
            return None
        position, default = place
        return args[position] if position < len(args) else kwargs.get(name, default)

    attrs = dict(plan.fixed)
    for attr, value in plan.derived:
        argument = call(value.name)
        if isinstance(value, vocabulary.Size):
            attrs[attr] = int(logical_shape(argument)[value.dim])
        elif isinstance(value, vocabulary.Given):
            attrs[attr] = argument is not None and (isinstance(argument, torch.Tensor) or bool(argument))
        else:
            attrs[attr] = tuple(argument) if isinstance(argument, list) else argument
    if plan.recipe is not None:
        attrs.update(plan.recipe(call, out, attrs, plan.name))
    return attrs
