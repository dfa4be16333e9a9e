"""Profiles of Triton's Proton: a tree of scopes and kernels (hatchet's JSON), and the device that they ran on.

Times and launches are measured; FLOP and bytes are those that the program itself stated for a kernel or a scope.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from rooflab.errors import FileError
from rooflab.observe.reading.columns import number, whole
from rooflab.observe.reading.opened import content
from rooflab.observe.reading.tables import plain_text
from rooflab.types.counted import Counted, Counters
from rooflab.types.machine import Engine, Level, Machine, Rate, Source
from rooflab.types.trace import Device, Dropped
from rooflab.types.work import Flop, Traffic

SOURCE = "Triton Proton"

_NODE = re.compile(rb'"frame"\s*:\s*\{\s*"name"')
_MEASURED = re.compile(rb'"(?:[Tt]ime \(ns\)|cycles|num_samples|device_id)"')
# A node without what is within it, for files that are cut or damaged.
_ALONE = re.compile(r'"frame"\s*:\s*(\{[^{}]*\})\s*,\s*"metrics"\s*:\s*(\{[^{}]*\})')
_DEPTH = 200  # of scopes: beyond it a file is no program's
# Proton computes what a kernel will do within this scope: kernels there are its own.
_OWN = "__proton_launch_metadata"
# The program states FLOP by the width of its operands: which format of that width is not recorded.
_FLOP: tuple[tuple[str, Engine, str], ...] = (
    ("flops8", "matrix", "fp8"),
    ("flops16", "matrix", "fp16"),
    ("flops32", "vector", "fp32"),
    ("flops64", "vector", "fp64"),
    ("flops", "vector", "unknown"),
)
_NS = 1e-9
_KHZ = 1e3
_VENDORS = {"CUDA": ("NVIDIA", "SM"), "HIP": ("AMD", "CU")}
_BITS = 8
_DOUBLE = 2  # transfers a memory clock, as Proton's own viewer counts them


class _Node(NamedTuple):
    """A node on its own: what stands within it is visited apart."""

    name: str
    path: tuple[str, ...]
    metrics: dict[str, Any]
    own: bool  # Proton's own work
    number: int
    parent: int


def sniff(head: bytes) -> bool:
    """Whether `head`, the first of a file, is a tree of Proton."""
    return head.lstrip()[:1] == b"[" and _NODE.search(head) is not None and _MEASURED.search(head) is not None


def load(path: Path) -> Counters:
    """The kernels and scopes in the file at `path`.

    Raises:
        FileError: no tree, or no time of a kernel in it.
    """
    text = plain_text(content(path))
    document = _document(text)
    lost = 0
    if document is not None:
        nodes = list(_nodes(document))
        devices = next((one for one in document[1:] if isinstance(one, dict) and "frame" not in one), {})
    else:
        nodes, lost, devices = [*_alone(text)], 1, {}
    rows, dropped, notes = _rows(nodes)
    if not rows:
        raise FileError(
            f"{path}: {_nothing(nodes)}; expected a profile that triton.profiler.finalize() wrote (hatchet)"
        )
    used = _most_used(nodes)
    facts = devices.get(used[0], {}) if isinstance(devices, dict) else {}
    facts = facts.get(used[1], {}) if isinstance(facts, dict) else {}
    facts = facts if isinstance(facts, dict) else {}
    return Counters(
        source=SOURCE,
        rows=tuple(rows),
        device=Device(
            number=whole(used[1]) or 0, compute_units=whole(facts.get("num_sms")), capability=_capability(facts)
        ),
        machine=_machine(used[0], facts),
        dropped=tuple(
            one
            for one in (
                Dropped(dropped, "nodes whose time or count cannot be true"),
                Dropped(lost, "the file is damaged: nodes are read one by one, without the scopes around them"),
            )
            if one.count
        ),
        notes=tuple(notes),
    )


def _document(text: str) -> list[Any] | None:
    """The file's list; None where it is damaged."""
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        try:
            found = json.loads(text)  # NaN and infinities, which other writers leave in
        except (ValueError, RecursionError):
            return None
    return found if isinstance(found, list) else None


def _nodes(document: list[Any]) -> Iterator[_Node]:
    """Every node of the trees, those around it first."""
    waiting: list[tuple[Any, tuple[str, ...], bool, int]] = [(one, (), False, -1) for one in reversed(document)]
    count = 0
    while waiting:
        given, path, own, parent = waiting.pop()
        if not isinstance(given, dict) or "frame" not in given or len(path) > _DEPTH:
            continue
        frame, metrics = given["frame"], given.get("metrics")
        name = str(frame.get("name", "?")) if isinstance(frame, dict) else "?"
        own = own or name.startswith(_OWN)
        yield _Node(name, path, metrics if isinstance(metrics, dict) else {}, own, count, parent)
        below = path if name == "ROOT" and not path else (*path, name)
        within = given.get("children")
        for child in reversed(within if isinstance(within, list) else []):
            waiting.append((child, below, own, count))
        count += 1


def _alone(text: str) -> Iterator[_Node]:
    """The nodes of a damaged file whose own texts are whole."""
    for count, found in enumerate(_ALONE.finditer(text)):
        try:
            frame, metrics = json.loads(found[1]), json.loads(found[2])
        except ValueError:
            continue
        yield _Node(str(frame.get("name", "?")), (), metrics, False, count, -1)


def _nothing(nodes: list[_Node]) -> str:
    if any("cycles" in node.metrics for node in nodes):
        return "Proton counted cycles within kernels (instrumentation), and no time of a kernel"
    return f"Proton's profile has no kernel with its time ({len(nodes)} scopes)"


def _value(node: _Node, *names: str) -> float | None:
    """The first of the metrics that is a number; older versions begin names with a capital."""
    for name in names:
        found = number(node.metrics.get(name, node.metrics.get(name.capitalize())))
        if found is not None:
            return found
    return None


def _rows(nodes: list[_Node]) -> tuple[list[Counted], int, list[str]]:
    """The rows, how many nodes cannot be true, and what is to be said of them."""
    timed: dict[int, tuple[float, int]] = {}
    wrong = 0
    for node in nodes:
        time, count = _value(node, "time (ns)"), _value(node, "count")
        if time is None or (time == 0 and not count):
            wrong += _spoilt(node)
            continue
        if time <= 0 or count is None or count < 1 or count != int(count) or count > 2**53:
            wrong += 1
            continue
        timed[node.number] = time * _NS, int(count)
    holders = _stated_for(nodes, timed)
    held = set(holders.values())
    rows, covered_own, ignored = [], 0.0, 0
    for node in nodes:
        if node.number not in timed:
            ignored += _states(node) and node.number not in held
            continue
        if node.own:
            covered_own += timed[node.number][0]
        elif node.number not in holders:
            rows.append(_counted(node, *timed[node.number]))
    rows += _scopes(nodes, timed, holders)
    notes = ["FLOP and bytes are what the program stated; bytes stand as read, of each execution the mean"]
    if any(one.flop for one in rows):
        notes.append(
            "a width of operands stands for a format: 8 bits fp8, 16 bits fp16, on matrix units; 32 and 64 bits "
            "on vector units"
        )
    if holders:
        notes.append("a scope that states FLOP or bytes is one row with the kernels within it")
    if covered_own:
        notes.append(f"{covered_own * 1e6:.4g} us of Proton's own kernels ({_OWN}) are left out")
    if ignored:
        notes.append(f"{ignored} scopes state FLOP or bytes but no kernel without its own ran within: left out")
    return rows, wrong, notes


def _spoilt(node: _Node) -> bool:
    """Whether a node has a time that is no number."""
    return any(name in node.metrics and number(node.metrics[name]) is None for name in ("time (ns)", "Time (ns)"))


def _states(node: _Node) -> bool:
    """Whether the program stated what a node does."""
    return any(_value(node, name) for name, _, _ in _FLOP) or bool(_value(node, "bytes"))


def _stated_for(nodes: list[_Node], timed: dict[int, tuple[float, int]]) -> dict[int, int]:
    """Kernels that state nothing of their own → the nearest scope around them that does."""
    by_number = {node.number: node for node in nodes}
    holders: dict[int, int] = {}
    for node in nodes:
        if node.number not in timed or node.own or _states(node):
            continue
        around = node.parent
        while around >= 0 and not _states(by_number[around]):
            around = by_number[around].parent
        if around >= 0 and around not in timed:
            holders[node.number] = around
    return holders


def _scopes(nodes: list[_Node], timed: dict[int, tuple[float, int]], holders: dict[int, int]) -> list[Counted]:
    """A row for each scope that states what the kernels within it do."""
    rows = []
    kernels: dict[int, list[int]] = {}
    for kernel, holder in holders.items():
        kernels.setdefault(holder, []).append(kernel)
    for node in nodes:
        within = kernels.get(node.number)
        if within:
            counts = {timed[one][1] for one in within}
            runs = counts.pop() if len(counts) == 1 else 1
            rows.append(_counted(node, sum(timed[one][0] for one in within), runs))
    return rows


def _counted(node: _Node, time_s: float, runs: int) -> Counted:
    """What one execution of a kernel or scope took and does."""
    flop = []
    for name, engine, dtype in _FLOP:
        stated = _value(node, name)
        if stated is not None and stated > 0:
            flop.append(Flop(engine, dtype, stated / runs))
    moved = _value(node, "bytes")
    if moved is not None and moved < 0:
        moved = None  # a sum that no longer fitted its format
    known = any(_value(node, name) is not None for name, _, _ in _FLOP)
    metrics = {name: value for name, given in node.metrics.items() if (value := number(given)) is not None}
    return Counted(
        name=node.name,
        module=".".join(node.path),
        time_s=time_s / runs,
        runs=runs,
        flop=tuple(flop) if known else None,
        traffic=() if moved is None else (Traffic("DRAM", moved / runs, 0.0, "compulsory"),),
        metrics=metrics,
    )


def _most_used(nodes: list[_Node]) -> tuple[str, str]:
    """Type and number of the device with the most time."""
    seconds: dict[tuple[str, str], float] = {}
    for node in nodes:
        key = str(node.metrics.get("device_type", "")), str(node.metrics.get("device_id", ""))
        seconds[key] = seconds.get(key, 0.0) + (_value(node, "time (ns)") or 0.0)
    return max(seconds, key=seconds.__getitem__)


def _capability(facts: dict[str, Any]) -> str | None:
    """The architecture: 9.0 of CUDA's "90", "gfx942" as it is."""
    arch = str(facts.get("arch") or "")
    return f"{arch[:-1]}.{arch[-1]}" if arch.isdigit() and len(arch) > 1 else arch or None


def _machine(kind: str, facts: dict[str, Any]) -> Machine | None:
    """The roof of the device's memory, from the width of its bus and its clock; None where they are not known."""
    bits, memory_khz, khz = (number(facts.get(one)) for one in ("bus_width", "memory_clock_rate", "clock_rate"))
    if not bits or not memory_khz or bits < 0 or memory_khz < 0:
        return None
    vendor, unit = _VENDORS.get(kind, (None, None))
    source = Source("derived", "Triton Proton: 2 x bus_width x memory_clock_rate of the device / 8")
    transfers = _DOUBLE * memory_khz * _KHZ
    rate = Rate(value=transfers * bits / _BITS, per_s="byte", what="any", basis="theoretical", source=source)
    clocks = []
    if khz and khz > 0:
        clocks.append(Rate(value=khz * _KHZ, per_s="cycle", what="boost", basis="theoretical", source=source))
    return Machine(
        name=f"{kind or 'GPU'} device of architecture {_capability(facts) or 'unknown'}",
        kind="gpu",
        vendor=vendor,
        compute_unit=unit,
        compute_units=whole(facts.get("num_sms")),
        source=source,
        levels=(Level(name="DRAM", source=source, transfers_per_s=transfers, bus_bits=int(bits), rates=(rate,)),),
        clocks=tuple(clocks),
        note="derived from Proton's facts of the device: memory alone, no peaks of arithmetic; name the card with "
        "--machine to have all",
    )
