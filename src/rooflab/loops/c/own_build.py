"""The user's own build of a function of C: run once and compared, timed warm and cold, its loops profiled."""

from __future__ import annotations

import contextlib
import ctypes
import re
from typing import Any, NamedTuple

import msgspec
import numpy as np
from llvmlite import binding

from rooflab.loops import core_profiles
from rooflab.loops.c import arguments, build, constructors, count, lower, rehearsal, steering
from rooflab.loops.c.call import Callee, Signature, called, named, signature, slots, warm
from rooflab.loops.c.debug_info import DebugInfo, LinesOf, Subprogram
from rooflab.loops.c.memory import STACK_BYTES
from rooflab.loops.c.openmp import runtime
from rooflab.loops.c.source import CSource, openmp_loops
from rooflab.loops.compiled import runs as runs_of
from rooflab.loops.compiled import stretches
from rooflab.loops.compiled import time as timing
from rooflab.loops.compiled.target import target_machine
from rooflab.loops.findings import Findings, compare
from rooflab.loops.lowered import core_loops, profile
from rooflab.loops.lowered.ir_text import functions
from rooflab.loops.twin import count as counts
from rooflab.machines.cache_levels import Chosen
from rooflab.types.loop import CoreLoop, Timed
from rooflab.units import iec

_DEEP_BYTES = 4 << 20  # on the stack, beyond which the compiled function is not run: threads here have 8 MiB
_PATIENCE_S = 10.0  # for a run of what was counted in less: checked accesses take several times as long
_TIMED_S = 600.0  # for all timed runs together
_THROUGH = re.compile(r"^\s*(?:%\S+ = )?(?:\w+ )*call [^@\n]*?%[\w.$-]+\(", re.MULTILINE)
_TAKEN = re.compile(r"\bptr @([\w.$]+)")
_SEQUENTIAL = "not tried: C is counted and timed on one core"


class Known(NamedTuple):
    """What is to be known of a function to time it.

    Attributes:
        signature: of it.
        fresh: whether each run needs its inputs anew.
        stack_bytes: that its local arrays take.
    """

    signature: Signature
    fresh: bool
    stack_bytes: int


class Run(NamedTuple):
    """What running the compiled function showed."""

    runs: tuple[Timed, ...] = ()
    loops: tuple[CoreLoop, ...] = ()
    findings: Findings = Findings()
    parallel: str = "not run"


def known(twin: count.Twin) -> Known:
    """What a twin that has run says of its function."""
    own = next(each for each in twin.lowered.functions if each.name == twin.lowered.main)
    fresh = steering.steered(own, twin.planner.pointers_of(own, True))
    return Known(signature(twin.lowered), fresh, _on_the_stack(twin))


def examined(
    built: build.Built,
    twin: count.Twin,
    main: Subprogram,
    bound: arguments.Bound,
    counted: counts.Counted,
    caches: Chosen,
    random: bool,
    read: CSource,
    threads: int | None = None,
) -> Run:
    """All that the compiled function shows.

    Args:
        built, twin, main, bound: the function, compiled and counted, and its arguments.
        counted: by the twin.
        caches: of this machine.
        random: its results may differ from the twin's.
        read: the source.
        threads: the most that OpenMP's teams have; as many as there are by default.
    """
    of = known(twin)
    if of.stack_bytes > _DEEP_BYTES:
        why = (
            f"its local arrays take {iec(of.stack_bytes)} of the stack, more than a thread surely has: not run,"
            " not timed"
        )
        return Run(findings=Findings(warnings=(why,)), parallel=_SEQUENTIAL)
    engine, function = _callable(built, main, of)
    findings = Findings()
    limit_s = max(_PATIENCE_S, counted.outcome.seconds)
    if how := rehearsal.ended(lambda: function(*bound.copied()), limit_s):
        why = (
            f"compiled with its flags it {how}: not run here, not timed; look for vectors in"
            " arrays that are not aligned to them, and for what the language leaves undefined"
        )
        return Run(findings=Findings(warnings=(why,)), parallel=_SEQUENTIAL)
    if not random:
        with _team(built, 1):
            results = timing.run_once(function, bound)
        wanted = counted.outcome.result, counted.outcome.outputs
        findings += _compared(results, wanted)
    timed = _timed(built, function, bound, of, caches, threads, random)
    runs, findings = timed.runs, findings + timed.findings
    loops: tuple[CoreLoop, ...] = ()
    if counted.outcome.seconds <= core_profiles.LONGEST_S:
        try:
            with _team(built, 1):
                loops = _profiled(built, twin, main, bound, read)
        except Exception as error:  # noqa: BLE001
            # IR that was not foreseen: the counts stand without a profile, and the report says that there is none
            findings += Findings(warnings=(core_profiles.failed(error),))
    del engine
    return Run(runs, loops, findings, timed.parallel)


def timed_again(
    built: build.Built,
    main: Subprogram,
    bound: arguments.Bound,
    caches: Chosen,
    of: Known,
    threads: int | None = None,
) -> Run:
    """Times of a function that was examined before."""
    if of.stack_bytes > _DEEP_BYTES:
        return Run(parallel=_SEQUENTIAL)
    engine, function = _callable(built, main, of)
    run = _timed(built, function, bound, of, caches, threads, False)
    del engine
    return run


def _team(built: build.Built, threads: int) -> contextlib.AbstractContextManager[None]:
    """Within it, OpenMP's teams have so many threads."""
    return contextlib.nullcontext() if built.runtime is None else runtime.team(built.runtime, threads)


def _callable(built: build.Built, main: Subprogram, of: Known) -> tuple[Any, Callee]:
    """The compiled function, and what must live as long."""
    engine, address = _engine(built, main) if not built.address else (None, built.address)
    return engine, Callee(address, of.signature)


def _timed(
    built: build.Built,
    function: Callee,
    bound: arguments.Bound,
    of: Known,
    caches: Chosen,
    threads: int | None,
    random: bool,
) -> Run:
    """Times on one core, and of OpenMP's teams: in a copy of this process, which a later run may end."""

    def on_one_core() -> tuple[tuple[Timed, ...], Any]:
        with _team(built, 1):
            return tuple(runs_of.on_one_core(function, bound, caches, of.fresh, warm)), stretches.seen()

    found, how = rehearsal.brought(on_one_core, _TIMED_S)
    if how:
        why = (
            f"called again and again on what the last call left it {how}, where a first call does not: not timed;"
            " look for what it leaves in its arguments and uses as an index"
        )
        return Run((), (), Findings(warnings=(why,)), _SEQUENTIAL)
    alone, seen = found
    stretches.see(seen)
    several = _on_threads(built, function, bound, of, threads, random)
    return several._replace(runs=(*alone, *several.runs))


def _on_threads(
    built: build.Built, function: Callee, bound: arguments.Bound, of: Known, threads: int | None, random: bool
) -> Run:
    """Warm times of teams of 2, 4, … threads, each on a CPU of its own, whose results are those of one thread."""
    if built.runtime is None:
        why = f"left out: no runtime of OpenMP is here: {runtime.WAYS}" if built.team else _SEQUENTIAL
        return Run(parallel=why)
    teams = built.runtime
    most = min(threads or teams.most, teams.most)
    numbers = runtime.counts(most)
    if not numbers:
        return Run(parallel=f"left out: teams of {teams.name} have one thread here")

    def on_several() -> tuple[tuple[Timed, ...], bool, Any]:
        with runtime.team(teams, 1):
            alone = timing.run_once(function, bound)
        runs, differs = [], False
        for each in reversed(numbers):
            with runtime.team(teams, each):
                if not random:
                    differs |= bool(_compared(timing.run_once(function, bound), alone).warnings)
                runs.append(runs_of.on_a_team(function, bound, each, of.fresh, warm))
        return tuple(runs), differs, stretches.seen()

    found, how = rehearsal.brought(on_several, _TIMED_S)
    if how:
        why = f"run by teams of OpenMP's it {how}, where one thread runs it to its end: threads may race"
        return Run(findings=Findings(warnings=(why,)), parallel="left out: it did not end")
    runs, differs, seen = found
    stretches.see(seen)
    findings = Findings()
    if differs:
        why = (
            "run by several threads its result differs from that of one: what it leaves depends on how many there"
            " are, or threads race"
        )
        findings = Findings(warnings=(why,))
    return Run(runs, (), findings, f"as compiled, by OpenMP teams of {teams.name}")


def _compared(results: tuple[Any, tuple], wanted: tuple[Any, tuple]) -> Findings:
    """How results compare, with the rows of each argument one by one."""
    flat = [tuple(part for value in each[1] for part in _parts(value)) for each in (results, wanted)]
    return compare("the compiled function", (results[0], flat[0]), (wanted[0], flat[1]))


def _parts(value: Any) -> tuple[Any, ...]:
    if isinstance(value, tuple):
        return tuple(part for each in value for part in _parts(each))
    if isinstance(value, np.ndarray) and value.dtype.names:
        return tuple(value[name] for name in value.dtype.names)
    return (value,)


def _on_the_stack(twin: count.Twin) -> int:
    fixed = sum(twin.layout.objects[name].nbytes for name in twin.lowered.arrays)
    begun = int(twin.stack[1]) - STACK_BYTES
    return fixed + max(0, int(twin.stack[2]) - begun)


def _engine(built: build.Built, main: Subprogram) -> tuple[Any, int]:
    """Machine code of optimised IR, and the address of the function there."""
    module = binding.parse_assembly(constructors.harmless(lower.without_exceptions(built.optimised)))
    module.get_function(main.linkage).linkage = "external"
    count.check_symbols(module, main, built.library, ran=True)
    engine = binding.create_mcjit_compiler(module, target_machine())
    engine.finalize_object()
    engine.run_static_constructors()
    return engine, engine.get_function_address(main.linkage)


def _profiled(
    built: build.Built, twin: count.Twin, main: Subprogram, bound: arguments.Bound, read: CSource
) -> tuple[CoreLoop, ...]:
    """The loops of the optimised code as a core sees them, of one run."""
    of = signature(twin.lowered)
    plain = re.sub(
        r"^define .*$",
        lambda each: lower.bare(each[0]),
        constructors.harmless(lower.without_exceptions(lower.for_here(lower.as_instructions(built.optimised)))),
        flags=re.M,
    )
    lines = ["define void @rl_call(ptr %slots, ptr %result) {", *called(named(main.linkage), of)]
    ir = "\n".join([plain, *lines, "  ret void", "}", ""])
    count.check_symbols(binding.parse_assembly(ir), main, built.library, ran=True)
    defined = {each.name: each for each in functions(ir)}
    chosen, todo = [], [main.linkage]
    if _THROUGH.search(plain):
        # what a pointer may lead to: all whose address is taken, as tables of virtual functions take it
        todo += _TAKEN.findall(plain)
    while todo:
        each = defined.pop(todo.pop(), None)
        if each is not None:
            chosen.append(each)
            todo += re.findall(
                r"@([\w.$]+)", " ".join(one.text for one in each.instructions() if one.opcode == "call")
            )
    result = np.zeros(4, np.int64)

    def call(engine: Any) -> None:
        copies = bound.copied()
        given, tables = slots(copies, of.header)
        engine.run_static_constructors()
        function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(engine.get_function_address("rl_call"))
        function(given.ctypes.data, result.ctypes.data)
        del copies, tables

    # of assembly nobody runs what is constructed before its functions are called
    constructed = "constructors of C++ run before it" if "@llvm.global_ctors" in ir else ""
    jumping = None if constructed else call
    taken = profile.run(chosen, ir, call, built.assembly, jumping, constructed)
    places = LinesOf(DebugInfo(ir), main.file)
    loops = openmp_loops(read.lines)
    return tuple(
        msgspec.structs.replace(each, line=loops.get(each.line, each.line))
        for each in core_loops.of_profiles(taken, places)
    )
