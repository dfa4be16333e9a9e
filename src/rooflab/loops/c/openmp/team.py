"""A team of OpenMP's counted thread by thread: each runs in turn, in a copy of this process, its accesses noted.

The module is that of clang with pragmas followed and nothing optimised. A call before each access notes it, one in
each block what it does; a fork becomes a call of `team.c`, which is linked with it and stands for the runtime.
"""

from __future__ import annotations

import ctypes
import mmap
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from llvmlite import binding

from rooflab.cachesim.coherence.layout import READS, WRITES
from rooflab.loops.c import constructors, count, lower, memory, rehearsal, twin_ir
from rooflab.loops.c.arguments import Bound
from rooflab.loops.c.build import Built
from rooflab.loops.c.call import called as call_lines
from rooflab.loops.c.call import named, signature
from rooflab.loops.c.debug_info import DebugInfo, LinesOf, Subprogram
from rooflab.loops.compiled.target import target_machine
from rooflab.loops.lowered.counted_access import BUMP, END
from rooflab.loops.lowered.ir_text import POINTER, Function

COLUMNS = ENTRIES, TRIPS, CHUNKS, WORK, LONGEST = range(5)  # of what is told of a region
MOST = 64  # threads of a team
_SMALL_BYTES = 1 << 20
_STACK_BYTES, _SWITCHES = 1 << 20, 1 << 20
_TYPE = r"(?P<type>\{.*?\}|<.*?>|\[.*?\]|\S+?)"
_LOAD = re.compile(rf"= load (?:atomic |volatile )*{_TYPE}, {POINTER}")
_STORE = re.compile(rf"^\s*store (?:atomic |volatile )*{_TYPE} .*?, {POINTER}(?:,|$| )")
_ATOMIC = re.compile(rf"= (?:atomicrmw|cmpxchg) (?:weak )?(?:volatile )?(?:\w+ )?{POINTER}, {_TYPE} ")
_MEMORY = re.compile(
    r"@llvm\.(?P<op>memcpy|memmove|memset)\.[\w.]*\(ptr [^%@]*(?P<to>[%@][\w.$-]+), "
    r"(?:ptr [^%@]*(?P<source>[%@][\w.$-]+)|i8 \S+), i64 (?P<bytes>\S+), i1"
)
_FORK = re.compile(
    r"@__kmpc_fork_call\(ptr [^,]+, i32 (?P<count>\d+), ptr (?P<body>@(?:[\w.$-]+|\"[^\"]*\"))(?P<given>.*?)\)"
    r"(?:,| #|$)"
)
_DECLARED_FORK = re.compile(r"^declare [^\n]*@__kmpc_fork_call\(.*\n", re.MULTILINE)
_DECLARED = re.compile(r"^declare .*$", re.MULTILINE)
_CALLED = re.compile(r"@(__kmpc_\w+|__tgt_\w+|omp_\w+|GOMP_\w+)\(")
_BEYOND = {
    "__kmpc_omp_task": "tasks", "__kmpc_task": "tasks", "__tgt": "offload to a device", "__kmpc_push_num_teams":
    "teams", "__kmpc_fork_teams": "teams", "__kmpc_ordered": "ordered", "__kmpc_doacross": "ordered(n) and depend",
    "__kmpc_cancel": "cancel", "__kmpc_threadprivate": "threadprivate", "omp_target": "offload to a device",
}  # fmt: skip
_HELPERS = """
declare void @rl_note(ptr, i64, i64, i64)
declare void @rl_range(ptr, i64, i64, i64)
declare void @rl_do(i64)
declare void @rl_fork(i64, ptr)
declare void @rl_finish()
"""


class Place(NamedTuple):
    """Where a fork stands: first and last line of what its team does."""

    line: int
    last_line: int


class Ran(NamedTuple):
    """What a run of a team did.

    Attributes:
        threads: of it.
        regions: a row for each place: entries, trips of its loops, work of all threads, of the longest.
        records: of accesses in regions in the order of the run (see `cachesim.coherence.stream`), addresses from
            the beginning of the memory; `refs` says for each which of `Team.lines` it stands in.
        switches: rows: before which record who goes on: a thread, −1 all after a barrier, −2 the first one alone.
        recorded: the share of the accesses that was recorded.
        outputs: the arrays that it was given, as it left them, where they are small.
    """

    threads: int
    regions: np.ndarray
    records: np.ndarray
    refs: np.ndarray
    switches: np.ndarray
    recorded: float
    outputs: tuple[Any, ...]


class Team(NamedTuple):
    """A function whose teams can be run.

    Attributes:
        places: of its forks.
        lines: of the source, by the number that a record has.
        layout: of its memory.
        names: of what lies in it, as the source has them.
        engine, main, prepare: machine code, its function, what sets its memory back.
    """

    places: tuple[Place, ...]
    lines: tuple[int, ...]
    layout: memory.Layout
    names: Mapping[str, str]
    engine: Any
    main: Callable[..., int]
    prepare: Callable[[], None]


def beyond(ir: str) -> str:
    """What of OpenMP a module does that is not followed thread by thread; "" where all of it is."""
    names = set(_CALLED.findall(ir))
    found = {word for name in names for start, word in _BEYOND.items() if name.startswith(start)}
    return ", ".join(sorted(found))


def line_of(ir: str, callee: str, file: str) -> int:
    """The first line in which a module calls a function whose name so begins; 0 where none does."""
    places = LinesOf(DebugInfo(ir), file)
    found = re.findall(rf"@{re.escape(callee)}\w*\(.*?!dbg !(\d+)", ir)
    return min((line for each in found if (line := places.line(int(each)))), default=0)


def make(built: Built, lowered: lower.Lowered, main: Subprogram, bound: Bound) -> Team:
    """The function, `lowered` with its pragmas followed, ready to be run by teams.

    Raises:
        RooflabError: a function that it needs and that is nowhere.
    """
    places = LinesOf(DebugInfo(lowered.ir), main.file)
    kinds = {each.name: each.kind for each in lowered.variables} | dict(lowered.arrays)
    layout_of_data = lower.data_layout(lowered.ir)
    sizes = lower.sizes(lowered.types, list(dict.fromkeys(kinds.values())), layout_of_data)
    layout = memory.lay_out(
        bound.values,
        dict(zip(bound.values, lowered.header, strict=True)),
        {name: sizes[kind] for name, kind in kinds.items()},
    )
    writer = _Writer(lowered, layout, places)
    text = writer.module()
    chosen = constructors.set_before(built.team, lowered.variables)
    module = binding.parse_assembly(count.without_debug(text))
    module.verify()
    in_turn = binding.parse_bitcode(built.in_turn)
    in_turn.triple, in_turn.data_layout = module.triple, module.data_layout
    module.link_in(in_turn)
    for name in ("rl_note", "rl_do"):
        module.get_function(name).add_function_attribute("alwaysinline")
    machine = target_machine()
    tuning = binding.create_pipeline_tuning_options(speed_level=2)
    tuning.loop_vectorization = tuning.slp_vectorization = tuning.loop_unrolling = False
    builder = binding.create_pass_builder(machine, tuning)
    builder.getModulePassManager().run(module, builder)
    count.check_symbols(module, main, built.library, ran=True)
    engine = binding.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    function = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)(
        engine.get_function_address("rl_main")
    )
    first = count.first_values(lowered, layout, count.constructed(built.team, chosen, layout, main, built.library))
    said = {each.name: each.said for each in lowered.variables} | count.local_names(lowered)
    return Team(tuple(writer.places), tuple(writer.lines), layout, said, engine, function, first)


def run(team: Team, threads: int, room: int, limit_s: float) -> Ran | str:
    """A run of so many threads in a copy of this process, or why it has no end.

    Args:
        team: that is run.
        threads: of each team.
        room: how many accesses are recorded: of each thread as many, the first in regions.
        limit_s: of the run.
    """
    columns = len(COLUMNS)
    regions = _shared(len(team.places) * columns)
    out = _shared(3)
    records, switches = _shared(room), _shared(2 * _SWITCHES if room else 0)
    refs = _shared((room + 1) // 2)
    stacks = mmap.mmap(-1, threads * _STACK_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    heap = team.layout.memory
    words = {
        "rl_threads": threads,
        "rl_low": heap.low,
        "rl_size": heap.end - heap.low,
        "rl_records": records.ctypes.data,
        "rl_room": room,
        "rl_switches": switches.ctypes.data,
        "rl_switch_room": _SWITCHES if room else 0,
        "rl_regions": regions.ctypes.data,
        "rl_out": out.ctypes.data,
        "rl_refs": refs.ctypes.data,
        "rl_stacks": np.frombuffer(stacks, np.uint8).ctypes.data,
        "rl_heap": int(heap.allocator[BUMP]),
        "rl_heap_end": int(heap.allocator[END]),
        "rl_stack_bytes": _STACK_BYTES,
    }
    result = np.zeros(4, np.int64)

    def play() -> tuple[Any, ...]:
        for name, value in words.items():
            ctypes.c_int64.from_address(team.engine.get_global_value_address(name)).value = value
        team.prepare()
        team.main(team.layout.slots.ctypes.data, result.ctypes.data)
        arrays = [each for each in team.layout.memory.values if isinstance(each, np.ndarray)]
        return tuple(arrays) if sum(each.nbytes for each in arrays) <= _SMALL_BYTES else ()

    outputs, how = rehearsal.brought(play, limit_s)
    if how:
        return how
    used, turns, accesses = out[:3].tolist()
    # the last switch that was noted says how far threads are known
    known = used if turns <= _SWITCHES or not room else int(switches[2 * _SWITCHES - 2])
    return Ran(
        threads,
        regions[: len(team.places) * columns].reshape(-1, columns).copy(),
        records[:known],
        refs.view(np.int32)[:known],
        switches[: 2 * min(turns, _SWITCHES)].reshape(-1, 2) if room else np.zeros((0, 2), np.int64),
        known / accesses if accesses else 1.0,
        outputs,
    )


def _shared(words: int) -> np.ndarray:
    """Memory that a copy of this process shares, not touched before it is used."""
    held = mmap.mmap(-1, max(4096, 8 * words), flags=mmap.MAP_SHARED | mmap.MAP_ANONYMOUS)
    return np.frombuffer(held, np.int64)


class _Writer:
    """Writes the module of a team."""

    def __init__(self, lowered: lower.Lowered, layout: memory.Layout, places: LinesOf) -> None:
        self._lowered, self._layout, self._at = lowered, layout, places
        self.places: list[Place] = []
        self.lines: list[int] = []
        self._numbers: dict[int, int] = {}
        self._trampolines: list[str] = []
        self._types: dict[str, int] = {}
        self._bodies = {each.name: each for each in lowered.functions}

    def module(self) -> str:
        """Its text."""
        lowered, text = self._lowered, self._lowered.ir
        wanted = {
            match["type"]
            for function in lowered.functions
            for each in function.instructions()
            if (match := _LOAD.search(each.text) or _STORE.search(each.text) or _ATOMIC.search(each.text))
        }
        self._types = lower.sizes(lowered.types, sorted(wanted), lower.data_layout(text))
        parts: list[str] = []
        for function in lowered.functions:
            start = text.index(function.header)
            end = text.index("\n}", start) + 2
            parts += [text[:start], self._function(function)]
            text = text[end:]
        placed = {
            each.name: self._layout.memory.low + self._layout.objects[each.name].low for each in lowered.variables
        }
        whole = "".join([*parts, text])
        for each in lowered.variables:
            whole = re.sub(rf"^{re.escape(each.name)} = .*\n", "", whole, flags=re.MULTILINE)
        whole = _DECLARED_FORK.sub("", whole)
        # of those with another name here, what they are declared as
        whole += "".join(
            f"{twin_ir.on_our_heap(line)}\n" for line in _DECLARED.findall(whole) if twin_ir.is_heap(line)
        )
        return twin_ir.located(whole, placed) + _HELPERS + "\n".join(self._trampolines) + self._main()

    def _function(self, function: Function) -> str:
        lines = [lower.bare(function.header)]
        main = function.name == self._lowered.main
        for number, (label, block) in enumerate(function.blocks.items()):
            if number or label != "%0":
                lines.append(f"{label[1:]}:")
            phis = sum(each.opcode == "phi" for each in block.instructions)
            for position, each in enumerate(block.instructions):
                if position == phis:
                    lines.append(f"  call void @rl_do(i64 {len(block.instructions)})")
                lines += self._noted(each.text, each.debug)
                lines += self._instruction(each.text, each.debug, main)
        return "\n".join([*lines, "}"])

    def _noted(self, text: str, debug: int) -> list[str]:
        if (match := _MEMORY.search(text)) is not None:
            ref = self._ref(debug)
            to = [(match["to"], WRITES)]
            if match["source"]:
                to.insert(0, (match["source"], READS))
            return [
                f"  call void @rl_range(ptr {pointer}, i64 {match['bytes']}, i64 {operation}, i64 {ref})"
                for pointer, operation in to
            ]
        for pattern, operation in ((_LOAD, READS), (_STORE, WRITES), (_ATOMIC, WRITES)):
            match = pattern.search(text)
            if match is not None:
                size, ref = self._types.get(match["type"], 8), self._ref(debug)
                return [f"  call void @rl_note(ptr {match['pointer']}, i64 {size}, i64 {operation}, i64 {ref})"]
        return []

    def _ref(self, debug: int) -> int:
        line = self._at.line(debug)
        if line not in self._numbers:
            self._numbers[line] = len(self.lines)
            self.lines.append(line)
        return self._numbers[line]

    def _instruction(self, text: str, debug: int, main: bool) -> list[str]:
        if (fork := _FORK.search(text)) is not None:
            return self._fork(fork, debug)
        made = lower.ALLOCA.match(text)
        if made is not None and main and made["name"] in self._lowered.arrays:
            at = self._layout.memory.low + self._layout.objects[made["name"]].low
            return [f"  {made['name']} = bitcast ptr inttoptr (i64 {at} to ptr) to ptr"]
        return [] if "@llvm.lifetime." in text else [twin_ir.on_our_heap(text)]

    def _fork(self, fork: re.Match[str], debug: int) -> list[str]:
        number = len(self.places)
        body = self._bodies[fork["body"][1:].strip('"')]
        inside = [line for each in body.instructions() if (line := self._at.line(each.debug))]
        line = self._at.line(debug)
        self.places.append(Place(line, max([line, *inside])))
        given = [each.split() for each in fork["given"].split(",") if each.strip()]
        kinds, values = [each[0] for each in given], [each[-1] for each in given]
        room = f"@rl.given.{number}"
        at = [f"getelementptr (i64, ptr {room}, i64 {n})" for n in range(len(given))]
        stores = [
            f"  store {kind} {value}, ptr {where}" for kind, value, where in zip(kinds, values, at, strict=True)
        ]
        self._trampolines += [
            f"{room} = internal global [{max(1, len(given))} x i64] zeroinitializer",
            f"define internal void @rl.go.{number}(ptr %g, ptr %b) {{",
            *(f"  %v{n} = load {kind}, ptr {at[n]}" for n, kind in enumerate(kinds)),
            f"  call void {fork['body']}("
            + ", ".join(["ptr %g", "ptr %b", *(f"{kind} %v{n}" for n, kind in enumerate(kinds))])
            + ")",
            "  ret void\n}",
        ]
        return [*stores, f"  call void @rl_fork(i64 {number}, ptr @rl.go.{number})"]

    def _main(self) -> str:
        lowered = self._lowered
        return "\n".join(
            [
                "\ndefine i32 @rl_main(ptr %slots, ptr %result) noinline {",
                *call_lines(named(lowered.main), signature(lowered)),
                "  call void @rl_finish()",
                "  ret i32 0",
                "}",
                "",
            ]
        )
