"""A profile of the code that runs: its optimised IR once more, blocks, branches, loads of stores counted."""

from __future__ import annotations

import ctypes
import warnings
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numba
import numpy as np
from llvmlite import binding

from rooflab.loops.compiled import with_lines
from rooflab.loops.compiled.target import target_machine
from rooflab.loops.compiled.with_lines import Optimised
from rooflab.loops.lowered import (
    afresh,
    arguments,
    control_flow,
    counted_ir,
    lower,
    machine_code,
    noted_events,
    predictor,
    traced_jumps,
)
from rooflab.loops.lowered.counted_ir import Counters
from rooflab.loops.lowered.ir_text import Function, functions
from rooflab.loops.read import decorated
from rooflab.loops.read.arguments import copies_of
from rooflab.machines.bench.experiments import thread_teams

_STARTS = "@numba_parallel_for("  # numba's function that has a team run a loop
SPREAD = "__numba_parfor_gufunc"  # in the names of functions that numba makes of loops over prange


class Profile(NamedTuple):
    """What one run of optimised code did.

    Attributes:
        function: the code, as LLVM left it.
        ir: of its module.
        passes: how often each block ran, by label.
        branches: of each block that ends in one: how often the branch was simulated, taken, mispredicted.
        forwarded: of each load, by result: the text of the store whose value it found, the share of its runs in
            which it did, and how many passes before that was stored, in the mean.
        loops: of the function.
        machine: its machine code; empty where that is not read.
        selects: of each select that is a jump there, by result: the same as of a branch.
        split: accesses that lay across two lines of 64 bytes, by the label of their block and "load", "store",
            "load wide" or "store wide".
        crossed: of each access to vectors, by its result or the text of a store: pieces of 32 bytes that did, in
            the mean.
        dearer: how many times as long mathematical functions take for their arguments as for usual ones, by kind.
        boxed: numbers in lists, sets and tuples that the call returned, each made an object of Python's.
        jumps: the conditional jumps of its machine code, by the block of the IR that they are of; None where they
            were not traced: then `branches` and `selects` stand for them, and `untraced` says why where these are
            fewer.
        code_passes: how often each block of `machine` ran; empty where that is not known.
    """

    function: Function
    ir: str
    passes: Mapping[str, int]
    branches: Mapping[str, tuple[int, int, int]]
    forwarded: Mapping[str, tuple[str, float, float]]
    loops: tuple[control_flow.NaturalLoop, ...]
    machine: tuple[machine_code.Block, ...] = ()
    selects: Mapping[str, tuple[int, int, int]] = {}
    split: Mapping[tuple[str, str], int] = {}
    boxed: int = 0
    crossed: Mapping[str, float] = {}
    dearer: Mapping[str, float] = {}
    jumps: Mapping[str, tuple[traced_jumps.Foretold, ...]] | None = None
    code_passes: tuple[float, ...] = ()
    untraced: str = ""

    def missed_of_switch(self, label: str) -> int:
        """Jumps foretold wrongly of a block that ends in a `switch`; 0 of all others."""
        if self.function.blocks[label].instructions[-1].opcode != "switch":
            return 0
        return sum(each.missed for each in (self.jumps or {}).get(label, ()))


def optimised(fn: Any, types: tuple[Any, ...], spread: bool = False) -> Optimised:
    """The optimised IR of `fn` with lines of the source: that of the code that runs, where that has lines.

    `spread`: with its loops over prange as functions of their own, which a team runs.
    """
    given = decorated.options(fn)
    if spread == bool(given.get("parallel")) and (found := with_lines.optimised(fn, types)) is not None:
        return found
    chosen: dict[str, Any] = dict(given) if given else {"error_model": "numpy"}
    chosen.pop("nopython", None)
    if given.get("parallel"):
        # so does numba with the bodies of its parallel loops, whatever the rest is compiled with
        chosen["error_model"] = "numpy"
    # With the lines of the source and nothing else of debugging.
    chosen |= {"nogil": True, "cache": False, "parallel": spread, "debug": True, "_dbg_optnone": False}
    chosen |= {"_dbg_extend_lifetimes": False, "boundscheck": bool(given.get("boundscheck"))}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        done = lower.compiled_to_ir(afresh.with_helpers(fn), types, chosen, only_lines=True)
    return with_lines.of_result(done)


def take(fn: Any, values: tuple[Any, ...], team: int | None = None) -> tuple[Profile, ...]:
    """The profiles of one run of `fn` on `values`, which it may change: of it, and of what it calls.

    `team`: as it is compiled for one of so many threads, of which one runs it all; None: for no team.
    """
    spread, threads = team is not None, team or 1
    ir, main, wrapper, environment = optimised(fn, tuple(numba.typeof(each) for each in values), spread)
    named = {each.name: each for each in functions(ir)}
    chosen = [named[main]]
    chosen += [
        each
        for name, each in named.items()
        if (name.startswith("_ZN") or SPREAD in name) and name not in (main, wrapper)
    ]

    def call(engine: Any, given: tuple[Any, ...] = values) -> None:
        if where := engine.get_global_value_address(environment[0]):
            ctypes.c_void_p.from_address(where).value = id(environment[1])
        prototype = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
        function: Callable[..., Any] = prototype(engine.get_function_address(wrapper))
        # What it returns may lie in memory whose destructor is the engine's.
        result = function(None, given, None)
        boxed.append(_boxed(result))
        del result

    def call_on_copies(engine: Any) -> None:
        call(engine, copies_of(values))

    boxed: list[int] = []
    again = call_on_copies if traced_jumps.repeatable(values) else None
    why = "" if again else "its arguments are not all numbers, arrays and records"
    with thread_teams.at_most(1 if spread else None):
        first, *others = run(chosen, ir, call, jumping=again, untraced=why, threads=threads)
    return first._replace(boxed=boxed[-1]), *others


def _boxed(result: Any) -> int:
    """Numbers in the lists, sets and tuples of a result: objects that were made of them one by one."""
    if not isinstance(result, (list, set, tuple)):
        return 0
    return sum(_boxed(each) if isinstance(each, (list, set, tuple)) else 1 for each in result)


def run(
    chosen: list[Function],
    ir: str,
    call: Callable[[Any], None],
    assembly: str = "",
    jumping: Callable[[Any], None] | None = None,
    untraced: str = "",
    threads: int = 1,
) -> tuple[Profile, ...]:
    """The profiles of the functions `chosen` of the module `ir`, of one run.

    Args:
        chosen: to profile.
        ir: the text of the optimised module.
        call: makes the run, with the engine that holds the module's machine code.
        assembly: what another compiler made of the module; "" for LLVM's own.
        jumping: makes the same run on other copies of its data, for the jumps of LLVM's own assembly of `ir`.
        untraced: why there is no `jumping`.
        threads: of a team that it is the code of, whose cores each learn their own part of the run.
    """
    own = machine_code.written(ir) if jumping is not None or not assembly else ""
    traced = traced_jumps.take(own, jumping) if jumping is not None and own else None
    counted = counted_ir.counters(chosen, assembly or own)
    passes = np.zeros(sum(len(each.function.blocks) for each in counted), np.int64)
    choosing = sum(len(each.selects) for each in counted)
    branches = np.zeros((len(passes) + choosing, predictor.BRANCH_WORDS), np.int64)
    split = np.zeros((1 + sum(len(each.vectors) for each in counted), counted_ir.SPLIT_WORDS), np.int64)
    state = predictor.fresh()
    asked = np.empty(predictor.MOST_AGAIN, np.int64)
    state[predictor.ROOM], state[predictor.NOTED] = len(asked), asked.ctypes.data
    table = np.zeros(predictor.STORE_WORDS, np.int64)
    accesses = [each for one in counted for each in one.accesses]
    notes = np.zeros((max(1, len(accesses)), predictor.LOAD_WORDS), np.int64)
    rings = arguments.rings(one for each in chosen for block in each.blocks.values() for one in block.instructions)
    text = ir
    for each in counted:
        start = text.index(each.function.header)
        end = text.index("\n}", start) + 2
        text = text[:start] + counted_ir.written(each, passes, split, rings) + text[end:]
    # run once, it takes less time as it is than LLVM takes to make it quick; not so what notes each event
    engine = binding.create_mcjit_compiler(
        binding.parse_assembly(text + noted_events.DECLARED), target_machine(speed_level=0)
    )
    engine.add_object_file(binding.ObjectFileRef.from_data(noted_events.machine_code()))
    engine.finalize_object()
    held = (ctypes.c_int64 * 4).from_address(engine.get_global_value_address("rl_held"))
    held[:] = [each.ctypes.data for each in (state, branches, table, notes)]
    call(engine)
    if traced is None:
        _ask_again(engine, state, branches)
    stored = [each.text for each in accesses]
    taken = tuple(_profile(each, ir, passes, branches, notes, stored, split) for each in counted)
    entries = _entries(taken)
    threads = threads if entries else 1
    dearer = arguments.dearer(rings, threads)
    taken = tuple(each._replace(dearer=dearer) for each in taken)
    if traced is None:
        why = untraced or "machine code is read of x86 alone"
        return tuple(each._replace(untraced=why) if _jumps_more(each) else each for each in taken)
    missed = traced_jumps.missed(traced, engine, held, threads, entries)
    code = machine_code.of_assembly(own)
    if not assembly:
        taken = tuple(
            each._replace(
                code_passes=traced_jumps.passes(
                    traced, each.function, each.machine, next(iter(each.passes.values()))
                )
            )
            for each in taken
        )
    jumps = (
        traced_jumps.by_block(traced, missed, each.function, code.get(each.function.name, ())) for each in taken
    )
    return tuple(
        each._replace(jumps=found, untraced="" if found is not None else "its machine code was not found")
        for each, found in zip(taken, jumps, strict=True)
    )


def _entries(taken: tuple[Profile, ...]) -> int:
    """How often a loop over prange was entered."""
    return sum(
        each.passes.get(label, 0)
        for each in taken
        for label, block in each.function.blocks.items()
        for one in block.instructions
        if one.opcode == "call" and _STARTS in one.text
    )


def _jumps_more(made: Profile) -> bool:
    """Whether the machine code has jumps that are no branches of the IR, or is not known."""
    branches = sum(counted_ir.CONDITIONAL.match(each.text) is not None for each in made.function.instructions())
    return not made.machine or sum(each.jumps for each in made.machine) > branches


def _ask_again(engine: Any, state: np.ndarray, branches: np.ndarray) -> None:
    """Have `branches` hold what a later run on the same data misses, as far as the whole run was noted."""
    asked = int(state[predictor.ASKED])
    if asked > state[predictor.ROOM]:
        return
    state[predictor.ROOM] = 0
    once_more = ctypes.CFUNCTYPE(None, ctypes.c_int64)(engine.get_function_address("rl_again"))
    predictor.ask_again(lambda: once_more(asked), state, branches)


def _profile(
    each: Counters,
    ir: str,
    passes: np.ndarray,
    branches: np.ndarray,
    notes: np.ndarray,
    stored: list[str],
    split: np.ndarray,
) -> Profile:
    labels = list(each.function.blocks)
    span = slice(each.first_block, each.first_block + len(labels))
    forwarded = {}
    for place, access in enumerate(each.accesses):
        hits, distance, by, looked = (int(n) for n in notes[each.first_access + place])
        if access.opcode == "load" and hits:
            forwarded[access.result] = (stored[by], hits / looked, distance / hits)
    return Profile(
        each.function,
        ir,
        dict(zip(labels, passes[span].tolist(), strict=True)),
        {
            label: (row[0], row[1], row[2])
            for label, row in zip(labels, branches[span].tolist(), strict=True)
            if row[0]
        },
        forwarded,
        each.loops,
        each.machine,
        _selects(each, branches[len(passes) + each.first_select :].tolist()),
        _split(each, split[each.first_vector :, 0].tolist()),
        crossed=_crossed(each, split[each.first_vector :, 1].tolist(), passes[span].tolist()),
    )


def _selects(each: Counters, rows: list[list[int]]) -> dict[str, tuple[int, int, int]]:
    """What was simulated of each select that is a jump; those that share a condition with one count once."""
    found = {}
    for row, results in zip(rows, each.selects.values(), strict=False):
        for place, result in enumerate(results):
            found[result] = (row[0], row[1], row[2]) if place == 0 else (row[0], row[1], 0)
    return found


def _split(each: Counters, counts: list[int]) -> dict[tuple[str, str], int]:
    found: dict[tuple[str, str], int] = {}
    for (label, access, _, piece), count in zip(each.vectors, counts, strict=False):
        what = f"{access.opcode} wide" if piece == counted_ir.LINE_BYTES else access.opcode
        found[label, what] = found.get((label, what), 0) + count
    return found


def _crossed(each: Counters, counts: list[int], passes: list[int]) -> dict[str, float]:
    """Of each access to vectors, how many pieces of 32 bytes of one lay across two lines."""
    ran = dict(zip(each.function.blocks, passes, strict=True))
    return {
        access.result or access.text: count / ran[label]
        for (label, access, *_), count in zip(each.vectors, counts, strict=False)
        if count and ran[label]
    }
