"""Rules about loops: each looks for its condition, and returns the changes that are worth simulating."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import NamedTuple

from rooflab.loops.change import arrays, branches, order
from rooflab.loops.read.understood import Understood
from rooflab.loops.read.value_types import ValueTypes
from rooflab.loops.static import dependence
from rooflab.model.loop import waiting
from rooflab.remedies.loops.case import Case, Change, State, Unasked
from rooflab.remedies.loops.conditions import (
    FEW,
    busiest,
    conflicting,
    crossing,
    levels_of,
    moved_again,
    nearest,
    not_vectorised,
    stepping_arrays,
    waiting_loop,
    written_once,
)
from rooflab.remedies.loops.nodes import near_memory
from rooflab.types.machine import is_main_memory
from rooflab.units import duration, iec, percent, si

Found = Iterator[Change | Unasked]
_TILES = (32, 128)  # trips of a tile that are tried


def interchange(case: Case) -> Found:
    """Loops in another order, where accesses step over lines, or where each pass waits for the one before."""
    first = levels_of(case.report)[0]
    share = min(1.0, sum(nearest(case.report.strided)) / max(1, first.misses))
    waits = waiting_loop(case)
    if not share and waits is None:
        return
    said = f"{percent(share)} of {first.name}'s misses are of accesses that step over lines in the innermost loop"
    along = "so that the innermost one goes along rows"
    if waits is not None:
        said = f"line {waits.line}: {waits.chain} takes {duration(waits.chain_s)}, its operations {busiest(waits)}"
        along = "so that no pass of the innermost one waits for the one before" if not share else along
    for one in order.exchanged(case.loop):
        yield Change(
            rule="interchange",
            text=f"Exchange the loops, {along}: {one.text}",
            evidence=(said, *not_vectorised(case.report)),
            apply=lambda state, changed=one.loop: _on_top(case, state, changed),
            effort="rewrite",
            code=_code(one.loop),
        )


def tile(case: Case) -> Found:
    """Loops in tiles, where levels serve the same bytes more than once."""
    if not moved_again(case):
        return
    tried = [case.loop, *(one.loop for one in order.exchanged(case.loop)[:1])]
    for loop in tried:
        for size in _TILES:
            one = order.tiled(loop, size)
            if one is None:
                continue
            yield Change(
                rule="tile",
                text=f"Cut the loops into tiles, so that what is used again is still in a cache: {one.text}",
                evidence=moved_again(case),
                apply=lambda state, changed=one.loop: _on_top(case, state, changed),
                effort="rewrite",
                code=_code(one.loop),
            )


def fuse(case: Case) -> Found:
    """Neighbouring loops over the same range as one, where the second reads what the first left too far away."""
    one = order.fused(case.loop)
    if one is None:
        return
    yield Change(
        rule="fuse-loops",
        text=f"Join loops that go over the same range: {one.text}",
        evidence=(f"each goes over its arrays again: {crossing(case)}",),
        apply=lambda state: _on_top(case, state, one.loop),
        effort="rewrite",
        code=_code(one.loop),
    )


def accumulators(case: Case) -> Found:
    """Sums in several parts, where each addition waits for the one before."""
    code, waits = case.report.code, waiting_loop(case)
    if (code is None or code.vectorised or not code.chain) and waits is None:
        return
    said: tuple[str, ...] = ()
    if waits is not None:
        said = (
            f"line {waits.line}: {waits.chain} takes {duration(waits.chain_s)}, its operations {busiest(waits)}",
        )
    elif code is not None:
        mostly = ", which is what takes the time" if case.predicted.core_why == "a chain of additions" else ""
        said = (f"{code.chain:,} additions wait for one another{mostly}",)
    yield Change(
        rule="accumulators",
        text="Let the compiler add up in several sums at once (fastmath), or write four sums by hand",
        evidence=(*said, *not_vectorised(case.report)),
        apply=lambda state: state._replace(fastmath=True),
        price="numbers",
        code="@njit(fastmath=True)   # results differ in the last digits",
    )


def select(case: Case) -> Found:
    """Both ways computed and one chosen, where branches are foretold wrongly."""
    missed = [each for each in case.report.core_loops if each.missed and each.missed_line]
    cost_s = sum(each.missed_s for each in case.predicted.loops)
    if not missed or cost_s < FEW * case.predicted.time_s:
        return
    found = branches.selected(case.loop, frozenset(each.missed_line for each in missed))
    if found is None:
        lines = ", ".join(str(each.missed_line) for each in missed)
        yield Unasked("select", f"the branch of line {lines} does more than to set one value or to add to a sum")
        return
    changed, lines_changed = found
    worst = max(missed, key=lambda each: each.missed)
    yield Change(
        rule="select",
        text=f"Compute both ways and choose one, instead of branching in line {lines_changed[0]}",
        evidence=(
            f"line {worst.missed_line}: {percent(worst.missed_share)} of the branches there are"
            " foretold wrongly, by a predictor simulated on these data:"
            f" {duration(cost_s)}",
        ),
        apply=lambda state: _on_top(case, state, changed),
        code=_code(changed),
    )


def huge_pages(case: Case) -> Found:
    """Larger pages, where accesses wait for translations of addresses that larger pages make fewer."""
    state = case.machine.environment.get("huge_pages")
    waits_s = waiting.walks_s(case.report, case.machine)
    if waits_s < FEW * case.predicted.time_s or state in ("always", "madvise"):
        # NumPy asks for huge pages of what is large by itself, where the system lets it
        return
    small = min(case.machine.tlbs, key=lambda each: each.page_bytes)
    reach = small.entries[-1] * small.page_bytes
    said = f"{duration(waits_s)} of waiting for translations: more pages than those of {iec(reach)} are gone round"
    huge = waiting.with_huge_pages(case.machine)
    if huge is None:
        yield Unasked("huge-pages", f"{said}; what larger pages save was not measured here")
        return
    yield Change(
        rule="huge-pages",
        text="Lay the arrays in huge pages: transparent_hugepage at madvise, for which NumPy asks by itself",
        evidence=(said, f"{duration(waiting.walks_s(case.report, huge))} in pages of 2 MiB, as measured here"),
        apply=lambda state: state._replace(huge_pages=True),
        effort="setting",
        runnable=False,
    )


def padding(case: Case) -> Found:
    """Rows further apart, where lines meet in few sets of a cache."""
    said = conflicting(case)
    if not said or dependence.shared(case.loop.arguments):
        return
    line = case.caches.caches[0].line_bytes
    rows = {
        name: value
        for name, value in case.loop.arguments.arrays().items()
        if value.ndim > 1 and value.flags.c_contiguous and value.strides[-2] % (8 * line) == 0
    }
    if not rows:
        return

    def apply(state: State) -> State | None:
        held = state.loop.arguments.arrays()
        wider = {name: arrays.padded(held[name], line) for name in rows if held[name].flags.c_contiguous}
        return state._replace(loop=arrays.with_arrays(state.loop, wider)) if wider else None

    names = ", ".join(rows)
    name, value = next(iter(rows.items()))
    yield Change(
        rule="pad-rows",
        text=f"Make the rows of {names} one line of {line} bytes longer than they need be",
        evidence=(
            *said,
            f"a row of {name} is {iec(value.strides[-2])}, a multiple of what the sets repeat after",
        ),
        apply=apply,
        code=f"room = np.zeros(({value.shape[0]}, {value.shape[-1]} + {line // value.itemsize}), {name}.dtype)\n"
        f"{name} = room[:, :{value.shape[-1]}]",
    )


def columns(case: Case) -> Found:
    """Columns of an array side by side, where the innermost loop goes down them."""
    for name in stepping_arrays(case, records=False):
        yield Change(
            rule="by-columns",
            text=f"Store {name} by columns, as the innermost loop goes through it",
            evidence=(f"the innermost loop goes through {name} in steps of a row",),
            apply=_by_columns(name),
            effort="rewrite",
            code=f"{name} = np.asfortranarray({name})   # once, where it is made",
        )


def records(case: Case) -> Found:
    """Each field of records in a row of its own, where a loop uses few of them."""
    for name in stepping_arrays(case, records=True):
        fields = case.loop.arguments.arrays()[name].shape[-1]
        yield Change(
            rule="structure-of-arrays",
            text=f"Store each field of {name} in a row of its own (structure of arrays)",
            evidence=(f"each row of {name} holds {fields} fields, and the loop goes through some of them",),
            apply=_by_columns(name),
            effort="rewrite",
            code=f"{name} = np.asfortranarray({name})   # once, where it is made",
        )


def _by_columns(name: str) -> Callable[[State], State | None]:
    def apply(state: State) -> State | None:
        held = state.loop.arguments.arrays()[name]
        if held.flags.f_contiguous:
            return None
        return state._replace(loop=arrays.with_arrays(state.loop, {name: arrays.by_columns(held)}))

    return apply


def half_size(case: Case) -> Found:
    """fp32 in the place of fp64: half the bytes, twice the lanes."""
    if not any(each.dtype == "fp64" for each in case.report.flop_by):
        return

    def apply(state: State) -> State | None:
        changed = arrays.halved(state.loop)
        return None if changed is None else state._replace(loop=changed)

    yield Change(
        rule="fp32",
        text="Compute in fp32, where seven digits suffice",
        evidence=("all its arrays of fp64, and the numbers in its source, at half the size",),
        apply=apply,
        effort="rewrite",
        price="numbers",
        code="a = a.astype(np.float32)   # and np.float32(0.25) for 0.25 in the source",
    )


def threads(case: Case) -> Found:
    """All cores, where the iterations are independent."""
    cores = case.machine.compute_units or 1
    verdict = dependence.parallel(case.loop)
    if verdict.given or cores < 2:
        return
    if verdict.tree is None:
        yield Unasked("threads", f"its iterations may depend on one another: {verdict.reason}")
        return
    if not any(isinstance(node, ast.For) and _over_prange(node) for node in verdict.tree.body):
        yield Unasked(
            "threads", f"only an inner loop may be shared ({verdict.reason}): starting them takes its time"
        )
        return
    yield Change(
        rule="threads",
        text=f"Share the trips among {cores} cores, {verdict.reason}",
        evidence=("no iteration needs another's result; each thread stays on a core of its own",),
        apply=lambda state: (
            None if dependence.parallel(state.loop).tree is None else state._replace(threads=cores)
        ),
        code="@njit(parallel=True)   # and prange in the place of that loop's range\n"
        "# shell: NUMBA_NUM_THREADS=N taskset -c 0-(N-1) python …   pinned, one thread a core",
        runnable=False,
    )


def streaming(case: Case) -> Found:
    """Stores past the caches, where what is written is larger than the last one and nothing reads it."""
    memory = next((level for level in case.machine.levels if is_main_memory(level)), None)
    names = written_once(case.report)
    if memory is None or not names:
        return
    if memory.rate("copy", scope="core", basis="attained", stores="nontemporal") is None:
        yield Unasked("non-temporal", f"{case.machine.name} states no bandwidth of non-temporal stores")
        return
    last = levels_of(case.report)[-1]
    saved = sum(each.read_bytes for each in last.arrays if each.name in names)
    yield Change(
        rule="non-temporal",
        text=f"Write {', '.join(names)} past the caches (non-temporal stores)",
        evidence=(
            f"each line of {', '.join(names)} is read before it is overwritten: {si(saved, 'B')} of "
            f"{si(last.read_bytes + last.write_bytes, 'B')} between {last.name} and memory",
        ),
        apply=lambda state: state._replace(past_caches=names),
        effort="rewrite",
        code="// C: _mm256_stream_pd(&a[i], v);   or clang -mllvm … / icx -qopt-streaming-stores=always\n"
        "// numba has no such stores: write this loop in C, or let NumPy's copyto do plain copies",
        runnable=False,
    )


def _over_prange(node: ast.For) -> bool:
    return isinstance(node.iter, ast.Call) and ast.unparse(node.iter.func).endswith("prange")


def _on_top(case: Case, state: State, changed: Understood) -> State | None:
    """The state with another source: only where its source is still the first one."""
    if state.loop.source is not case.loop.source:
        return None
    arguments = state.loop.arguments
    return state._replace(loop=Understood(changed.source, ValueTypes(changed.source, arguments.types), arguments))


def _code(loop: Understood) -> str:
    return ast.unparse(loop.source.tree)


# 32 runs of changed loops on a busy guest of two cores (benchmarks/loop_advice.py): what goes along
# rows, in one pass or with half the bytes lay within 0.35, padding, layouts and tiles within 1.0, sums in parts
# within 2.0. Threads and stores past the caches were not run: as the second.
_BEYOND, _BEYOND_SIMPLE, _BEYOND_SUMS = 1.0, 0.35, 2.0


class Rule(NamedTuple):
    """A rule.

    Attributes:
        name, regime: as in `Advice.rule`, and what it is a remedy for.
        ask: what asks a loop.
        price: whether it has one.
        run_first: whether it is told only where a run bears it out.
        beyond: how far four of five runs lie at most outside what the mechanism allows, of ln(after ÷ before).
        counted: whether the changed loop is compiled and counted anew, which takes nearly all of the time.
    """

    name: str
    regime: str
    ask: Callable[[Case], Found]
    price: bool = False
    run_first: bool = False
    beyond: float = _BEYOND
    counted: bool = True


# Tried in this order where nothing else decides (`advise`).
RULES: tuple[Rule, ...] = (
    Rule("threads", "any", threads, counted=False),
    Rule("non-temporal", "memory-bound", streaming, counted=False),
    Rule("interchange", "memory-bound, latency", interchange, beyond=_BEYOND_SIMPLE),
    Rule("fuse-loops", "memory-bound", fuse, beyond=_BEYOND_SIMPLE),
    Rule("pad-rows", "memory-bound", padding),
    Rule("by-columns", "memory-bound, latency", columns),
    Rule("structure-of-arrays", "memory-bound", records),
    Rule("select", "compute-bound", select, beyond=_BEYOND_SUMS),
    Rule("huge-pages", "latency", huge_pages, counted=False),
    Rule("near-memory", "memory-bound", near_memory, counted=False),
    Rule("accumulators", "compute-bound", accumulators, price=True, beyond=_BEYOND_SUMS),
    Rule("fp32", "any", half_size, price=True, beyond=_BEYOND_SIMPLE),
    # The entries of short loops cost more than is predicted: of eight such changes five were slower when run.
    Rule("tile", "memory-bound", tile, run_first=True),
)
