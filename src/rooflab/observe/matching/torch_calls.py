"""A recorded call of a PyTorch operator as an operation of rooflab's: its kind, tensors and attributes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from rooflab.observe.matching import torch_results_algebra, torch_results_rarer  # noqa: F401 they register rules
from rooflab.observe.matching.torch_arguments import Seen, arguments, contiguous, one_argument
from rooflab.observe.matching.torch_results import results, tensors
from rooflab.types.trace import Signature
from rooflab.types.work import Graph, Op, TensorSpec
from rooflab.work import vocabulary
from rooflab.work.capture.torch.recipes import RECIPES


class Resolved(NamedTuple):
    """What a recorded call is; where `why` is given its cost is not known, and that is the reason."""

    name: str
    kind: str | None
    inputs: tuple[Seen, ...]
    outputs: tuple[Seen, ...]
    attrs: Mapping[str, Any]
    why: str | None = None


def entry(name: str) -> vocabulary.Entry | None:
    """The vocabulary's row for `name` ("aten::addmm_"), in place or not; None for an operator it does not know."""
    entries = vocabulary.load("torch")
    plain = name.replace("::", ".")
    found = entries.get(plain) or entries.get(plain.rstrip("_"))
    if found is None and "._foreach_" in plain:
        found = entries.get(plain.replace("._foreach_", ".").rstrip("_"))
    return found


def resolve(
    name: str,
    signature: Signature,
    item_dtype: str | None = None,
    inside: Sequence[tuple[str, Signature]] = (),
) -> Resolved:
    """What the call of `name` ("aten::addmm") with the arguments of `signature` is.

    Args:
        name: as the profiler wrote it.
        signature: its arguments.
        item_dtype: of lists of tensors, whose format is not recorded, where the kernel tells.
        inside: calls directly in it, with their arguments, where its own say too little (`match.inside`).
    """
    row = entry(name)
    own = name.replace("::", ".")
    if row is None:
        return Resolved(own, None, (), (), {}, "not in the vocabulary")
    if not signature.shapes:
        return Resolved(own, row.kind, (), (), {}, "its shapes were not recorded")
    given = arguments(own, signature) or arguments(own.rstrip("_"), signature)
    if given is None:
        return Resolved(own, row.kind, (), (), {}, "its arguments' names are not known")
    if not all(one.dense for one in tensors(given)):
        return Resolved(own, row.kind, (), (), {}, "an operand is sparse: its non-zeros are not recorded")
    if _lists_missing(signature):
        return Resolved(own, row.kind, (), (), {}, _LISTS)
    _typed(given, item_dtype)
    if inside:
        given = {**given, **_told(inside)}
    if row.kind == "pointwise":
        given = _without_numbers(given)
    made = results(own, row.kind, given)
    if made is None:
        return Resolved(own, row.kind, (), (), {}, "the shape of its result is not recorded")
    inputs = tensors(given) if row.inputs is None else tensors({one: given.get(one) for one in row.inputs})
    outputs = made if row.outputs is None else [made[at] for at in row.outputs if at < len(made)]
    attrs = _attributes(own, row, given, made)
    if isinstance(attrs, str):
        return Resolved(own, row.kind, (), (), {}, attrs)
    kind = attrs.pop("kind", row.kind)
    inputs = list(attrs.pop("inputs", inputs))[: attrs.pop("first_inputs", None)]
    outputs = outputs[: attrs.pop("first_outputs", None)]
    if not all(isinstance(one, Seen) for one in (*inputs, *outputs)):
        return Resolved(own, kind, (), (), {}, "an argument that its count needs was not recorded")
    if any(one.dtype is None for one in (*inputs, *outputs)):
        return Resolved(own, kind, tuple(inputs), tuple(outputs), attrs, _FORMATS)
    return Resolved(own, kind, tuple(inputs), tuple(outputs), attrs)


_FORMATS = "its tensors' number formats are not recorded"


_LISTS = "its list of tensors is longer than the profiler records"


def _lists_missing(signature: Signature) -> bool:
    """Whether the first argument is a list of tensors of which nothing is recorded; others may well be empty."""
    return signature.dtypes[:1] == ("TensorList",) and not signature.shapes[0]


def enough_recorded(name: str, signature: Signature) -> bool:
    """Whether the call of `name` can be counted, if need be with the help of its kernels' names."""
    return resolve(name, signature).why in (None, _FORMATS)


def _without_numbers(given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of an element-wise call without Python's numbers, which are recorded as tensors of 64 bits.

    A kernel has them among its parameters: they are not read from memory, and widen nothing.
    """
    numbers = {name for name, one in given.items() if _is_number(one)}
    others = [one for name, one in given.items() if isinstance(one, Seen) and name not in numbers]
    return dict(given) if not others else {name: one for name, one in given.items() if name not in numbers}


def _is_number(one: Any) -> bool:
    return isinstance(one, Seen) and not one.shape and one.dtype in ("fp64", "int64")


def _typed(given: Mapping[str, Any], item_dtype: str | None) -> None:
    """Give tensors of lists the format that the kernel works on."""
    for one in tensors(given):
        if one.dtype is None:
            one.dtype = item_dtype


def _told(inside: Sequence[tuple[str, Signature]]) -> dict[str, Any]:
    """What the calls within one that indexes tell of it: its indices, and the shape of what they reach."""
    indices: list[Seen] = []
    reached = None
    for name, signature in inside:
        first = one_argument(signature, 0) if signature.shapes else None
        if name == "aten::reshape" and isinstance(first, Seen) and first.dtype in ("int64", "int32"):
            indices.append(first)
        elif name == "aten::as_strided" and reached is None and len(signature.shapes) > 1:
            size = one_argument(signature, 1)
            reached = size if isinstance(size, tuple) else None
    return {"indices": indices, "reached": reached} if indices and reached is not None else {}


def _attributes(
    own: str, row: vocabulary.Entry, given: Mapping[str, Any], made: list[Seen]
) -> dict[str, Any] | str:
    """The attributes of one call; a sentence where a recipe needs what was not recorded."""
    attrs: dict[str, Any] = {"foreach": True} if "._foreach_" in own and row.kind == "pointwise" else {}
    for attr, value in row.attrs.items():
        if isinstance(value, vocabulary.Size):
            tensor = given.get(value.name)
            if not isinstance(tensor, Seen) or not -len(tensor.shape) <= value.dim < len(tensor.shape):
                return f"its argument {value.name} was not recorded"
            attrs[attr] = tensor.shape[value.dim]
        elif isinstance(value, vocabulary.Given):
            one = given.get(value.name)
            attrs[attr] = isinstance(one, Seen) or bool(one)
        elif isinstance(value, vocabulary.Argument):
            attrs[attr] = given.get(value.name)
        else:
            attrs[attr] = value
    if row.recipe is not None:
        try:
            attrs.update(RECIPES[row.recipe](given.get, made[0] if len(made) == 1 else tuple(made), attrs, own))
        except ImportError:
            return "what its count needs is PyTorch's: install rooflab[torch]"
        except (AttributeError, TypeError, ValueError, IndexError, KeyError):
            return "an argument that its count needs was not recorded"
    if given.get("reached") is not None and row.kind == "scatter":
        attrs["elements"] = math.prod(given["reached"])
    return attrs


def graph(calls: Iterable[Resolved]) -> Graph:
    """`calls` as a graph: a tensor for each operand, none shared."""
    specs: list[TensorSpec] = []
    ops = []

    def take(several: tuple[Seen, ...]) -> tuple[int, ...]:
        numbers = []
        for one in several:
            strides = one.strides if one.strides != contiguous(one.shape) else None
            nbytes = one.nbytes
            specs.append(TensorSpec(one.shape, one.dtype or "", nbytes or 0.0, -1, strides))
            numbers.append(len(specs) - 1)
        return tuple(numbers)

    for one in calls:
        known = one.why is None
        kind = one.kind if known else None
        ops.append(
            Op(
                name=one.name,
                kind=kind,
                inputs=take(one.inputs) if known else (),
                outputs=take(one.outputs) if known else (),
                attrs=one.attrs if known else {},
            )
        )
    return Graph(framework="torch", tensors=tuple(specs), ops=tuple(ops))
