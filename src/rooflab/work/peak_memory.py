"""How much memory a program must hold at once: parameters, gradients, optimizer state, activations, KV cache."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Literal, NamedTuple, get_args

from rooflab.errors import RooflabError
from rooflab.types.machine import Machine, program_memory_bytes
from rooflab.types.report import PeakMemory
from rooflab.types.work import Graph, TensorSpec
from rooflab.units import percent, si
from rooflab.work.formulas.attention import unfused_score_bytes

# Names that frameworks give to keys and values kept between calls.
_CACHE = re.compile(r"cache|past_key|(^|[._])(past|present)[._]")
Part = Literal["parameters", "buffers", "gradients", "optimizer_state", "activations", "kv_cache", "inputs"]
_PARTS: tuple[Part, ...] = get_args(Part)
# The first role that one of a storage's tensors has decides.
_FIXED: tuple[tuple[str, Part], ...] = (
    ("parameter", "parameters"),
    ("buffer", "buffers"),
    ("constant", "buffers"),
    ("state", "optimizer_state"),
    ("input", "inputs"),
)


class _Life(NamedTuple):
    """One storage: its size, what it is, the operations that it must be held from and to, both included."""

    part: Part
    nbytes: float
    first: int
    last: int


def peak_memory(graph: Graph) -> PeakMemory:
    """Bytes held at once when `graph` runs in its order and everything is freed after its last use.

    Parameters, buffers, inputs, optimizer state and caches are held throughout; the gradient of a
    parameter from where it is made to the end; a result nobody reads to the end, unless the operation
    has another result that is read (indices, saved statistics): then only while it runs. Views and
    in-place results are the storage they look at. An allocator adds its rounding and its cache.
    """
    changes: dict[int, list[tuple[Part, float]]] = {}
    scratch = (_Life("activations", nbytes, at, at) for at, nbytes in _scores(graph))
    for life in itertools.chain(_lives(graph), scratch):
        changes.setdefault(life.first, []).append((life.part, life.nbytes))
        changes.setdefault(life.last + 1, []).append((life.part, -life.nbytes))
    most: dict[Part, float] = dict.fromkeys(_PARTS, 0.0)
    held: dict[Part, float] = dict.fromkeys(_PARTS, 0.0)
    peak, at = 0.0, None
    for moment in sorted(changes):
        for part, nbytes in changes[moment]:
            held[part] += nbytes
            most[part] = max(most[part], held[part])
        total = sum(held.values())
        # Half a byte: sums of fractional sizes (int4) need not come back to the same float.
        if total > peak + 0.5:
            peak, at = total, moment
    op_number = at if at is not None and at < len(graph.ops) else None
    return PeakMemory(
        parameters_bytes=most["parameters"],
        buffers_bytes=most["buffers"],
        gradients_bytes=most["gradients"],
        optimizer_state_bytes=most["optimizer_state"],
        activations_bytes=most["activations"],
        kv_cache_bytes=most["kv_cache"],
        inputs_bytes=most["inputs"],
        most_bytes=peak,
        at=op_number,
    )


def fits(memory: PeakMemory, machine: Machine) -> bool | None:
    """Whether the most held at once fits the main memory of `machine`; None where its capacity is unknown."""
    capacity = program_memory_bytes(machine)
    return None if capacity is None else memory.most_bytes <= capacity


def fits_sentence(memory: PeakMemory, machine: Machine) -> str:
    """`fits` in words, with the share of the capacity."""
    capacity, need = program_memory_bytes(machine), si(memory.most_bytes, "B")
    if capacity is None:
        return f"Needs {need}; the memory capacity of {machine.name} is not stated"
    share = memory.most_bytes / capacity
    if share > 1:
        return f"Does not fit: {need} is {share:.3g} × the {si(capacity, 'B')} of {machine.name}"
    part = percent(share, 1) if share >= 0.001 else "under 0.1 %"
    return f"Fits: {need} is {part} of the {si(capacity, 'B')} of {machine.name}"


def _lives(graph: Graph) -> Iterator[_Life]:
    # A storage below zero is not known to be shared: such a tensor is its own.
    of = [spec.storage if spec.storage >= 0 else -1 - i for i, spec in enumerate(graph.tensors)]
    members: dict[int, list[TensorSpec]] = {}
    for storage, spec in zip(of, graph.tensors, strict=True):
        members.setdefault(storage, []).append(spec)
    first_written: dict[int, int] = {}
    read: dict[int, int] = {}
    last: dict[int, int] = {}
    updated_from: set[int] = set()
    for number, op in enumerate(graph.ops):
        # A view reads nothing: what looks through it later does.
        reads = op.kind != "view"
        for storage in (of[i] for i in op.inputs):
            last[storage] = number
            if reads:
                read[storage] = number
            if op.phase == "optimizer":
                updated_from.add(storage)
        for storage in (of[i] for i in op.outputs):
            first_written.setdefault(storage, number)
            last[storage] = number
    attends = any(op.kind == "attention" for op in graph.ops)
    end = max(len(graph.ops) - 1, 0)
    for storage, specs in members.items():
        nbytes = max(spec.nbytes for spec in specs)
        part = _held_throughout(specs, attends and storage in first_written)
        if part is not None:
            yield _Life(part, nbytes, 0, end)
        elif storage not in last:
            continue
        elif any(spec.role == "gradient" for spec in specs) and (storage in updated_from or storage not in read):
            yield _Life("gradients", nbytes, first_written.get(storage, 0), end)
        else:
            made = first_written.get(storage)  # None for what is only looked through
            kept = made is not None and storage not in read and not _beside_one_that_is_read(graph, of, made, read)
            yield _Life("activations", nbytes, made or 0, end if kept else last[storage])


def _scores(graph: Graph) -> Iterator[tuple[int, float]]:
    """Unfused attention in one operation: its position, and the bytes that it holds beside operands and results.

    Scores and their softmax while that runs, S each; then the softmax and the results R: max(2·S, S + R) in all.
    """
    for number, op in enumerate(graph.ops):
        if op.kind == "attention" and op.attrs.get("fused") is False:
            inputs, outputs = ([graph.tensors[index] for index in some] for some in (op.inputs, op.outputs))
            try:
                scores = unfused_score_bytes(tuple(inputs), op.attrs)
            except (RooflabError, ValueError, IndexError):  # has no cost either, and coverage names it
                continue
            yield number, max(scores, 2 * scores - sum(spec.nbytes for spec in outputs))


def _held_throughout(specs: list[TensorSpec], written_beside_attention: bool) -> Part | None:
    """The part that a storage belongs to from beginning to end; None for what comes and goes."""
    roles = {spec.role for spec in specs}
    if roles & {"buffer", "input"} and "parameter" not in roles:
        named = any(_CACHE.search(spec.name.lower()) for spec in specs if spec.name)
        if named or written_beside_attention:
            return "kv_cache"
    return next((part for role, part in _FIXED if role in roles), None)


def _beside_one_that_is_read(graph: Graph, of: list[int], number: int, read: dict[int, int]) -> bool:
    return any(of[i] in read for i in graph.ops[number].outputs)
