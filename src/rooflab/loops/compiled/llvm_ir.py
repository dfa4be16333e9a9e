"""What the compiler left of a loop: its loads, stores and arithmetic by vector width, from optimised LLVM IR."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

_BLOCK = re.compile(r"^(?P<name>[\w.$-]+|\"[^\"]+\"):")
_LABEL = re.compile(r"label %([\w.$-]+|\"[^\"]+\")")
_TYPE = r"(?:<(?P<lanes>\d+) x (?P<vector>[a-z]\w*)>|(?P<scalar>double|float|i8|i16|i32|i64|half))"
_LOAD = re.compile(rf"= load (?:volatile |atomic )?{_TYPE}, ptr")
_STORE = re.compile(rf"^\s*store (?:volatile |atomic )?{_TYPE} ")
_MASKED = re.compile(r"@llvm\.masked\.(?P<what>load|store|gather|scatter)\.v(?P<lanes>\d+)(?P<vector>[fi]\d+)")
_ARITHMETIC = re.compile(
    r"= (?P<op>fadd|fsub|fmul|fdiv|fneg|fcmp)\b(?: (?:fast|reassoc|nnan|ninf|nsz|arcp|contract|afn"
    rf"|o\w\w|u\w\w|ord|uno))* {_TYPE}"
)
_FUSED = re.compile(
    r"@llvm\.(?P<op>fma|fmuladd|sqrt|fabs|maxnum|minnum|floor|ceil)\.(?:v(?P<lanes>\d+))?(?P<vector>f\d+)"
)
# Functions that have no instruction: where no vector library is installed, each element is a call of its own.
_FUNCTION = re.compile(
    r"@llvm\.(?P<name>exp|exp2|log|log2|log10|sin|cos|tan|asin|acos|atan|sinh|cosh|tanh|pow|powi)"
    r"\.(?:v(?P<lanes>\d+))?f\d+"
)
_CALL = re.compile(r"call [^@\n]*@(?P<name>[\w.$]+|\"[^\"]+\")\(")
# Addresses are folded into loads and stores, comparisons into the branch behind them.
_FREE = re.compile(r" = (?:phi|getelementptr|bitcast|icmp|sext|zext|ptrtoint|inttoptr) ")
_BITS = {"double": 64, "float": 32, "half": 16}


class InnerLoop(NamedTuple):
    """One innermost loop of the compiled code; numbers are of one pass, which may be many iterations.

    Attributes:
        lanes: of the widest arithmetic, or of the widest access where there is none.
        load_bytes, store_bytes: by all loads and stores.
        loads, stores: instructions.
        flop: of all lanes.
        gathers: loads and stores of scattered elements.
        calls: functions that are called, such as "exp".
        instructions: of the IR, less those that cost none; `selects` those that choose between two values.
    """

    lanes: int
    load_bytes: int
    store_bytes: int
    loads: int
    stores: int
    flop: int
    gathers: int
    calls: tuple[str, ...]
    instructions: int
    selects: int


def inner_loops(ir: str, name: str) -> tuple[InnerLoop, ...]:
    """The innermost loops of function `name` in the text of a module, in order."""
    blocks = _blocks(_body(ir, name))
    loops = []
    for loop in _innermost({label: _successors(lines) for label, lines in blocks.items()}):
        loops.append(_counted([line for label in loop for line in blocks[label]]))
    return tuple(each for each in loops if each.loads or each.stores or each.flop)


def main_loop(loops: tuple[InnerLoop, ...]) -> InnerLoop | None:
    """Of several versions of one loop (vectorised, remainder, with arrays that overlap) that which runs most."""
    return max(loops, key=lambda each: (each.lanes, each.flop, each.load_bytes + each.store_bytes), default=None)


def _body(ir: str, name: str) -> list[str]:
    """The lines of the largest function whose mangled name holds `name`; the wrappers for Python are small."""
    bodies: list[list[str]] = []
    inside = False
    for line in ir.splitlines():
        if line.startswith("define "):
            inside = name in line
            if inside:
                bodies.append([])
        elif inside and line.startswith("}"):
            inside = False
        elif inside:
            bodies[-1].append(line)
    # The wrappers call it, or hold a copy: the first definition is the function itself.
    return bodies[0] if bodies else []


def _blocks(body: list[str]) -> dict[str, list[str]]:
    blocks: dict[str, list[str]] = {}
    label = ""
    for line in body:
        match = _BLOCK.match(line)
        if match:
            label = match["name"]
            blocks[label] = []
        elif line.strip():
            blocks.setdefault(label, []).append(line)
    return blocks


def _successors(lines: list[str]) -> list[str]:
    ends = [n for n, line in enumerate(lines) if line.strip().startswith(("br ", "switch "))]
    return _LABEL.findall("\n".join(lines[ends[-1] :])) if ends else []


def _innermost(graph: Mapping[str, list[str]]) -> list[list[str]]:
    """Natural loops that hold no other, each as its blocks; a back edge leads to a block that dominates it."""
    order = list(graph)
    dominators = _dominators(graph, order)
    loops: dict[str, set[str]] = {}
    before: dict[str, list[str]] = {label: [] for label in order}
    for label, following in graph.items():
        for each in following:
            before.setdefault(each, []).append(label)
    for label, following in graph.items():
        for head in following:
            if head in dominators.get(label, ()):
                inside, todo = {head, label}, [label]
                while todo:
                    at = todo.pop()
                    if at != head:
                        fresh = [each for each in before[at] if each not in inside]
                        inside.update(fresh)
                        todo += fresh
                loops.setdefault(head, set()).update(inside)
    heads = [head for head in loops if not any(other != head and other in loops[head] for other in loops)]
    return [[label for label in order if label in loops[head]] for head in heads]


def _dominators(graph: Mapping[str, list[str]], order: list[str]) -> dict[str, set[str]]:
    before: dict[str, list[str]] = {label: [] for label in order}
    for label, following in graph.items():
        for each in following:
            before.setdefault(each, []).append(label)
    dominators = {label: set(order) for label in order}
    dominators[order[0]] = {order[0]} if order else set()
    changed = True
    while changed:
        changed = False
        for label in order[1:]:
            parents = [dominators[each] for each in before[label] if each in dominators]
            updated = (set.intersection(*parents) if parents else set()) | {label}
            if updated != dominators[label]:
                dominators[label], changed = updated, True
    return dominators


def _counted(lines: list[str]) -> InnerLoop:
    totals = {"load": [0, 0], "store": [0, 0]}
    lanes, access_lanes, flop, gathers = 1, 1, 0, 0
    calls: list[str] = []
    for line in lines:
        masked = _MASKED.search(line)
        if masked:
            what = {"gather": "load", "scatter": "store"}.get(masked["what"], masked["what"])
            gathers += masked["what"] in ("gather", "scatter")
            width, kind = int(masked["lanes"]), masked["vector"]
            totals[what][0] += 1
            totals[what][1] += width * _bits(kind) // 8
            access_lanes = max(access_lanes, width)
        elif access := _LOAD.search(line) or _STORE.search(line):
            what = "load" if "= load" in line else "store"
            width = int(access["lanes"] or 1)
            totals[what][0] += 1
            totals[what][1] += width * _bits(access["vector"] or access["scalar"]) // 8
            access_lanes = max(access_lanes, width)
        elif access := _ARITHMETIC.search(line):
            width = int(access["lanes"] or 1)
            flop += width
            lanes = max(lanes, width)
        elif access := _FUSED.search(line):
            width = int(access["lanes"] or 1)
            flop += width * (2 if access["op"].startswith("fm") else 1)
            lanes = max(lanes, width)
        elif access := _FUNCTION.search(line):
            calls.append(access["name"])
            flop += int(access["lanes"] or 1)
        elif (access := _CALL.search(line)) and not access["name"].startswith("llvm."):
            calls.append(access["name"].strip('"'))
            flop += 1
    (loads, load_bytes), (stores, store_bytes) = totals["load"], totals["store"]
    wide = lanes if flop else access_lanes
    work = [line for line in lines if not _FREE.search(line)]
    selects = sum(" = select " in line for line in lines)
    called = tuple(dict.fromkeys(calls))
    return InnerLoop(wide, load_bytes, store_bytes, loads, stores, flop, gathers, called, len(work), selects)


def _bits(kind: str) -> int:
    return _BITS.get(kind) or int(kind[1:])
