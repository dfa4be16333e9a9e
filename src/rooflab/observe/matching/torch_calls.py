"""A recorded call of a PyTorch operator as an operation of rooflab's: its kind, tensors and attributes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from rooflab.observe.matching.torch_arguments import Seen, arguments, contiguous
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


def resolve(name: str, signature: Signature, item_bytes: float | None = None) -> Resolved:
    """What the call of `name` ("aten::addmm") with the arguments of `signature` is.

    Args:
        name: as the profiler wrote it.
        signature: its arguments.
        item_bytes: of an element of lists of tensors, whose format is not recorded, where the kernel tells.
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
    _typed(given, item_bytes)
    made = results(own, row.kind, given)
    if made is None:
        return Resolved(own, row.kind, (), (), {}, "the shape of its result is not recorded")
    inputs = tensors(given) if row.inputs is None else tensors({one: given.get(one) for one in row.inputs})
    outputs = made if row.outputs is None else [made[at] for at in row.outputs if at < len(made)]
    attrs = _attributes(row, given, made)
    if isinstance(attrs, str):
        return Resolved(own, row.kind, (), (), {}, attrs)
    kind = attrs.pop("kind", row.kind)
    inputs = list(attrs.pop("inputs", inputs))[: attrs.pop("first_inputs", None)]
    outputs = outputs[: attrs.pop("first_outputs", None)]
    if not all(isinstance(one, Seen) for one in (*inputs, *outputs)):
        return Resolved(own, kind, (), (), {}, "an argument that its count needs was not recorded")
    if any(one.dtype is None for one in (*inputs, *outputs)):
        return Resolved(
            own, kind, tuple(inputs), tuple(outputs), attrs, "its tensors' number formats are not recorded"
        )
    return Resolved(own, kind, tuple(inputs), tuple(outputs), attrs)


_OF_SIZE = {1: "int8", 2: "bf16", 4: "fp32", 8: "fp64"}


def _typed(given: Mapping[str, Any], item_bytes: float | None) -> None:
    """Give tensors of lists a format of the size that the kernel works on: they are moved, not computed with."""
    dtype = _OF_SIZE.get(int(item_bytes)) if item_bytes else None
    for one in tensors(given):
        if one.dtype is None:
            one.dtype = dtype


def _attributes(row: vocabulary.Entry, given: Mapping[str, Any], made: list[Seen]) -> dict[str, Any] | str:
    """The attributes of one call; a sentence where a recipe needs what was not recorded."""
    attrs: dict[str, Any] = {}
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
            attrs.update(
                RECIPES[row.recipe](given.get, made[0] if len(made) == 1 else tuple(made), attrs, row.name)
            )
        except ImportError:
            return "what its count needs is PyTorch's: install rooflab[torch]"
        except (AttributeError, TypeError, ValueError, IndexError, KeyError):
            return "an argument that its count needs was not recorded"
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
