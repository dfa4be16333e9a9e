"""A function of C taken apart: compiled, counted from its LLVM IR, its own build checked and timed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from llvmlite import binding

from rooflab.errors import FileError, RooflabError, UnknownNameError
from rooflab.loops import conflicts, kept, understanding
from rooflab.loops.c import arguments, build, count, flags, lower, own_build, rehearsal, source
from rooflab.loops.c.debug_info import DebugInfo, Subprogram
from rooflab.loops.c.openmp import followed
from rooflab.loops.compiled.target import target_machine
from rooflab.loops.lowered import core_loops
from rooflab.loops.lowered import count as counting
from rooflab.loops.lowered.examine import described
from rooflab.loops.lowered.ir_text import functions
from rooflab.loops.lowered.memory import arrays_in
from rooflab.loops.twin import count as counts
from rooflab.machines.cache_levels import Chosen
from rooflab.types.loop import LoopReport, Static

_CONVENTIONS = (
    "counted from the LLVM IR of clang before it is optimised: every load and store of arrays and structures in"
    " the source's order; local variables, and local arrays of which only fixed places are used, are registers",
    "FLOP: as that IR has them; a multiply-add is 2, a comparison, negation or minimum 1, exp and the like 1"
    " (special); whole numbers and indices none",
    "each access was checked against the bounds of what it leads to, before it was made",
    "bytes of a level: those that cross between it and the nearer one, in whole lines",
    "simulated, not counted by hardware: arguments lie one behind the other, each on pages of its own; variables"
    " of the file and local arrays behind them, then what malloc hands out, on lines of its own",
)


class Target(NamedTuple):
    """A function in a file: of C, C++ or LLVM IR."""

    path: Path
    name: str


def target(text: str, cflags: str | None = None) -> Target:
    """The function that "FILE:NAME" names.

    Raises:
        RooflabError: no name; a file of another kind.
        FileError: no such file.
        UnknownNameError: no such function, with near matches.
    """
    place, name = flags.named(str(text))
    if not place or not name:
        raise RooflabError(f"{text}: expected FILE:NAME, a file of C and a function in it: kernel.c:triad")
    if not flags.is_ours(place):
        kinds = ", ".join((*flags.C, *flags.CXX, *flags.IR))
        raise RooflabError(
            f"{place}: expected a file of C, C++ or LLVM IR by its name ({kinds}), or a Python function"
        )
    if not Path(place).is_file():
        raise FileError(f"{place}: no such file")
    path = Path(place)
    plain = name.rpartition("::")[2]
    if path.suffix not in flags.IR and not re.search(
        rf"\b{re.escape(plain)}\b", path.read_text("utf-8", "replace")
    ):
        # it may still come from a file that this one includes
        known = build.names(path, flags.of(path, cflags))
        if plain not in known:
            raise UnknownNameError("function", name, known, f"(functions of {path})")
    return Target(path, name)


def report(
    function: Target,
    args: Sequence[Any],
    caches: Chosen,
    *,
    cflags: str | None = None,
    more: tuple[str, ...] = (),
    time_limit_s: float | None = understanding.TIME_LIMIT_S,
    time: bool = True,
    classify: bool = False,
    threads: int | None = None,
) -> LoopReport:
    """Everything about the function that needs no machine.

    Args:
        function: which.
        args: its arguments in order: arrays, numbers, tuples of arrays for a pointer to pointers.
        caches: to simulate.
        cflags: flags of the compiler; None: those of a compile_commands.json beside or above the file, else
            `flags.DEFAULT`.
        more: flags behind those.
        time_limit_s: bound on the counting; after it, counts are partial.
        time: run the compiled function itself too.
        classify: tell compulsory, capacity and conflict misses apart.
        threads: the most that OpenMP's teams have.

    Raises:
        RooflabError: no compiler; what does not compile; arguments that do not fit the signature; an access out of
            bounds.
    """
    path, name = function
    given = flags.of(path, cflags).with_more(more)
    if threads is not None and not given.openmp:
        raise RooflabError(
            f"{path}: {name}: threads are of loops over prange and of OpenMP: expected -fopenmp among the flags"
            f" ({given.said})"
        )
    built = _from_ir(path) if path.suffix in flags.IR else build.build(path, name, given)
    main = subprogram(path, name, built.plain, len(args))
    bound = arguments.bind(main, args)
    nbytes = sum(array.nbytes for each, value in bound.values.items() for _, array in arrays_in(each, value))
    understanding.check_memory(name, nbytes)
    read = source.read(name, main.file, main.line)
    key = _key(built, main, read, bound, caches, time, classify, threads)
    again = None if key is None else kept.find(key)
    if again is not None:
        known = msgspec.msgpack.decode(again["known"], type=own_build.Known)
        found = LoopReport.from_dict(msgspec.msgpack.decode(again["report"]))
        if not time:
            return found
        done = own_build.timed_again(built, main, bound, caches, known, threads)
        warnings = (*found.warnings, *done.findings.warnings)
        return msgspec.structs.replace(found, runs=done.runs, parallel=done.parallel, warnings=warnings)
    units = 2 * (nbytes // caches.caches[0].unit_bytes + len(bound.values)) + (1 << 16) if classify else None
    fresh = _examined(path, built, main, read, bound, caches, given, units, time_limit_s, time, threads)
    if key is not None and fresh.lasting:
        report = msgspec.structs.replace(fresh.report, runs=())
        known = own_build.known(fresh.twin)
        kept.keep(
            key, {"known": msgspec.msgpack.encode(known), "report": msgspec.msgpack.encode(report.to_dict())}
        )
    return fresh.report


class _Examined(NamedTuple):
    """A report, the twin that it comes from, and whether another run would come to the same but for its times."""

    report: LoopReport
    twin: count.Twin
    lasting: bool


def _key(
    built: build.Built,
    main: Subprogram,
    read: source.CSource,
    bound: arguments.Bound,
    caches: Chosen,
    time: bool,
    classify: bool,
    threads: int | None,
) -> str | None:
    """A digest of all that a report but for its times follows from; None where that is not known."""
    values = kept.of_values(bound.values) if built.key and kept.is_on() else None
    if values is None:
        return None
    return kept.key("report of C", built.key, main.linkage, read, values, caches, time, classify, threads)


def _examined(
    path: Path,
    built: build.Built,
    main: Subprogram,
    read: source.CSource,
    bound: arguments.Bound,
    caches: Chosen,
    given: flags.Flags,
    units: int | None,
    time_limit_s: float | None,
    time: bool,
    threads: int | None,
) -> _Examined:
    try:
        twin = count.make(built.plain, main, read, bound, caches, units, built.library)
    except RuntimeError as error:
        # IR that was not foreseen: what LLVM says of the text that was made of it
        why = str(error).replace("LLVM IR parsing error", "").strip().partition(chr(10))[0]
        raise RooflabError(
            f"{path}: {read.name}: LLVM does not take what was made of it to be counted: {why}"
        ) from error
    _rehearse(path, twin, read, time_limit_s)
    counted, plan, outside = counting.run_twin(twin.twin, read, bound.values, caches, time_limit_s)
    outcome = counted.outcome
    # what is called where nothing came by, such as products of complex numbers that are no numbers, hides nothing
    plan = plan._replace(unseen=twin.planner.hidden(outcome.passes.tolist()))
    if outcome.error is not None:
        raise RooflabError(outcome.error)
    shown = source.cut(read, [*(ref.line for ref in plan.refs), *(loop.line for loop in plan.loops)])
    said = _warnings(twin, plan, counted, outside, time_limit_s)
    said += [*bound.warnings, *followed.left_out(given, shown)]
    done, shared = own_build.Run(), followed.Shared()
    if outcome.stopped:
        done = done._replace(parallel="not run: the count did not end")
    elif time:
        done = own_build.examined(built, twin, main, bound, counted, caches, bool(plan.random), read, threads)
    if built.team and not outcome.stopped:
        shared = followed.by_teams(built, main, bound, read, threads, outcome.seconds, caches.caches[0].line_bytes)
        said += shared.said
    said += core_loops.said(done.loops)
    simulation = counted.simulation
    made = LoopReport(
        name=main.name,
        where=f"{read.path}:{main.line}" if main.line else read.path,
        arguments={each: described(value) for each, value in bound.values.items()},
        flop_by=counts.flop(counted),
        accesses=simulation.accesses,
        accessed_bytes=simulation.accessed_bytes or 0,
        stored_bytes=counts.stored_bytes(counted),
        simulation=simulation,
        warm=counted.warm,
        lines=counts.lines(counted, read),
        loops=counts.loops(counted),
        source=tuple(shown.lines.items()),
        strided=counts.irregular(counted, "stride"),
        gathered=counts.irregular(counted, "gather"),
        chased=counts.irregular(counted, "chase"),
        jumps=counts.jumps(counted),
        walks=counts.walks(counted),
        scattered_bytes=_scattered_bytes(twin, counted),
        footprint_bytes=counted.footprint_bytes,
        side_by_side=counted.side_by_side,
        core_loops=done.loops,
        runs=done.runs,
        regions=shared.regions,
        shared_lines=shared.lines,
        parallel=done.parallel,
        static=Static(reason="counted from its LLVM IR"),
        checks=done.findings.checks,
        complete=not outcome.stopped,
        unseen=plan.unseen,
        stopped_at=outcome.where if outcome.stopped else "",
        caches=caches.text,
        warnings=(*said, *done.findings.warnings, *conflicts.classified(simulation)),
        conventions=(f"compiled by {built.said}", *_CONVENTIONS, *simulation.assumptions),
    )
    hidden = bool(plan.random or plan.unseen or outside or twin.planner.calls_through)
    whole = not outcome.stopped and counted.warm is not None and (bool(done.loops) or not time)
    return _Examined(made, twin, whole and not hidden)


def _rehearse(path: Path, twin: count.Twin, read: source.CSource, time_limit_s: float | None) -> None:
    """See that a run whose every step cannot be checked leaves this process as it is.

    Raises:
        RooflabError: it does not: how it ends, and what may be why.
    """
    beyond = twin.planner.beyond(twin.twin.plan)
    if not beyond:
        return

    def run() -> None:
        twin.twin.prepare()
        twin.twin.call()

    if how := rehearsal.ended(run, time_limit_s):
        raise RooflabError(
            f"{path}: {read.name} {how} when it is run: no check before it knows what all of this does:"
            f" {', '.join(beyond)}"
        )


def _from_ir(path: Path) -> build.Built:
    """What is made of a file of LLVM IR: its module as it is, and optimised for this processor."""
    ir = build.read_ir(path)
    module = binding.parse_assembly(lower.for_here(ir))
    machine = target_machine()
    tuning = binding.create_pipeline_tuning_options(speed_level=3)
    tuning.loop_vectorization = tuning.slp_vectorization = tuning.loop_unrolling = True
    builder = binding.create_pass_builder(machine, tuning)
    builder.getModulePassManager().run(module, builder)
    optimised = str(module)
    version = ".".join(map(str, binding.llvm_version_info))
    producer = DebugInfo(ir).producer()
    said = f"LLVM {version} of llvmlite at O3 for this processor, from {path.name}"
    return build.Built(
        ir, optimised, 0, said + (f" ({producer})" if producer else ""), None, "", kept.key("ir", ir)
    )


def subprogram(path: Path, name: str, ir: str, arguments_given: int) -> Subprogram:
    """The function `name` of a module, by its own name, with the spaces that it lies in, or by that in the IR.

    Raises:
        UnknownNameError: there is none, with near matches.
        RooflabError: several of that name, none of which takes so many arguments alone.
    """
    known = list(DebugInfo(ir).subprograms())
    *spaces, plain = name.split("::")
    mangled = "".join(f"{len(each)}{each}" for each in (*spaces, plain)) if spaces else ""
    found = [each for each in known if plain in (each.name, each.linkage) and mangled in each.linkage]
    own = [each for each in found if each.file == str(path.resolve())]
    found = own or found
    if len(found) > 1:
        fitting = [each for each in found if len(each.parameters) == arguments_given]
        if len(fitting) != 1:
            listed = "; ".join(f"{each.signature} ({each.linkage})" for each in found)
            raise RooflabError(
                f"{path}: {name} is the name of several functions: name one as the IR does: {listed}"
            )
        found = fitting
    if found:
        return found[0]
    defined = functions(ir)
    plain = next((each for each in defined if each.name == name), None)
    if plain is None:
        names = [each.name for each in known] or [each.name for each in defined]
        raise UnknownNameError("function", name, names, f"(functions of {path})")
    if re.search(r"\b(?:byval|sret)\(", plain.header):
        raise RooflabError(f"{path}: {name} takes or returns a structure by value: expected numbers and pointers")
    return arguments.from_ir(name, str(path), tuple(plain.parameters.values()))


def _scattered_bytes(twin: count.Twin, counted: counts.Counted) -> int:
    """Bytes of the arrays whose elements are picked by data."""
    names = {ref.array for ref in counted.twin.text.refs if ref.pattern in ("gather", "chase")}
    said = {each.name: each.said for each in twin.lowered.variables}
    return sum(each.nbytes for each in twin.layout.objects.values() if said.get(each.name, each.name) in names)


def _warnings(
    twin: count.Twin, plan: Any, counted: counts.Counted, outside: Mapping[int, int], time_limit_s: float | None
) -> list[str]:
    said = []
    if counted.outcome.stopped:
        said.append(
            f"the count was stopped after {time_limit_s:g} s, at {counted.outcome.where or 'its start'}: all"
            " counts are of what ran until then; give smaller arguments, or a longer limit"
        )
    for line, number in sorted(outside.items()):
        said.append(
            f"line {line}: {number:,} accesses to memory of a library's or a constructor's are not counted"
        )
    if plan.modelled:
        said.append(
            f"{', '.join(plan.modelled)} cannot be seen: its operands are taken as read, its result as written,"
            " once, in order and without gaps; its FLOP follow from its formula"
        )
    if plan.unseen:
        said.append(f"what {', '.join(plan.unseen)} accesses and computes cannot be seen and is not counted")
    for line in sorted({line for line, _ in twin.planner.calls_through.values()}):
        said.append(
            f"line {line}: a call through a pointer, as one of a virtual function is: what it does is counted only"
            " where it is of the same file, and predicted as if a core always foretold where it leads"
        )
    for kind, line in sorted(twin.planner.types.items()):
        said.append(f"line {line}: accesses to {kind} are not counted")
    for kind, line in sorted(twin.planner.computed.items()):
        name = "long double" if kind == "x86_fp80" else kind
        said.append(f"line {line}: what is computed in {name} is not counted as FLOP")
    return said
