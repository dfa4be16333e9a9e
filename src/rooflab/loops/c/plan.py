"""What to count of a function of C: each load and store with what it must lie in, FLOP, calls not seen."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from rooflab.loops.c import absent, blas
from rooflab.loops.c.debug_info import LinesOf
from rooflab.loops.c.pointers import ALLOCATIONS, CPointers, Known
from rooflab.loops.lowered import instrument
from rooflab.loops.lowered.ir_text import Function, Instruction
from rooflab.loops.lowered.pointers import Root, called

RELEASES = ("free", "_ZdlPv", "_ZdaPv", "_ZdlPvm", "_ZdaPvm", "_ZdlPvSt11align_val_t", "_ZdaPvSt11align_val_t",
            "_ZdlPvmSt11align_val_t", "_ZdaPvmSt11align_val_t")  # fmt: skip
# Functions that end the program, and what is said of them.
ENDS = {
    "exit": "calls exit",
    "_exit": "calls _exit",
    "abort": "calls abort",
    "__assert_fail": "stops, as an assertion fails",
    "__cxa_allocate_exception": "throws an exception",
    "__cxa_throw": "throws an exception",
    "_ZSt9terminatev": "calls std::terminate",
    "llvm.trap": "stops with a trap",
    "llvm.ubsantrap": "stops with a trap",
    "_ZSt20__throw_length_errorPKc": "throws std::length_error",
    "_ZSt24__throw_out_of_range_fmtPKcz": "throws std::out_of_range",
    "_ZSt17__throw_bad_allocv": "throws std::bad_alloc",
    "_ZSt28__throw_bad_array_new_lengthv": "throws std::bad_array_new_length",
}
# That neither read nor write arrays of the program's.
_HARMLESS = ("__cxa_allocate_exception", "__cxa_free_exception", "__cxa_begin_catch", "__cxa_end_catch", "clock",
             "omp_get_wtime", "omp_get_thread_num", "omp_get_num_threads", "omp_get_max_threads",
             "rand", "drand48", "__gxx_personality_v0", "__errno_location", "random", "srand",
             "posix_memalign")  # fmt: skip
_RANDOM = ("rand", "drand48", "random", "clock", "time", "omp_get_wtime", "clock_gettime")
_ACCESSES = ("load", "store", "atomicrmw", "cmpxchg")
_DIVISION = re.compile(r"= [us](?:div|rem) (?:exact )?(?P<kind>i\d+) (?P<value>\S+), (?P<by>[^\s,]+)")
_THROUGH = re.compile(r"call [^@]*?(%(?:[\w.$-]+|\"[^\"]*\"))\(")
_LONG_DOUBLE = re.compile(r"= f(?:add|sub|mul|div|rem|neg|cmp)\b.* (x86_fp80|fp128|ppc_fp128|bfloat)\b")


class CPlanner(instrument.Planner):
    """Gathers what to count of a module of clang's."""

    def __init__(
        self, places: LinesOf, names: instrument.Names, known: Known, text_of: Callable[[int], str]
    ) -> None:
        """`known`: names of variables; `names`: how the source calls things; `text_of`: the text of a line."""
        super().__init__(places, names)
        self.lines, self.text_of, self.foreign = places, text_of, False
        self.known = known
        self.absent: frozenset[str] = frozenset()  # what nobody brings: the run ends where it is called
        self.types: dict[str, int] = {}
        self.computed: dict[str, int] = {}
        self.ends: dict[tuple[str, int], tuple[str, int]] = {}
        self.divisions: dict[tuple[str, int], tuple[int, str, str, str]] = {}
        self.allowed: dict[int, frozenset[Root]] = {}
        self.calls_through: dict[tuple[str, int], tuple[int, str]] = {}
        self._where_hidden: dict[str, list[int]] = {}

    def cold(self, function: Function) -> set[str]:
        """Blocks that end the program."""
        cold = {
            label
            for label, block in function.blocks.items()
            if any(each.opcode in ("unreachable", "resume") for each in block.instructions)
        }
        return instrument.and_before(function, cold)

    def pointers_of(self, function: Function, main: bool) -> CPointers:
        """Where the pointers of a function come from."""
        return CPointers(function, main, self.places, self.known)

    def counts(self, roots: frozenset[Root]) -> bool:
        """Whether accesses through a pointer with those roots are counted: all but of scalars on the stack."""
        return not roots or any(each.kind != "stack" for each in roots)

    def certain(self, roots: frozenset[Root]) -> bool:
        """Whether an access through a pointer with those roots is either counted or ends the run."""
        return not self.lenient(roots)

    def lenient(self, roots: frozenset[Root]) -> bool:
        """Whether a pointer with those roots may lead to memory of a library's."""
        kinds = {each.kind for each in roots}
        return "foreign" in kinds or (self.foreign and bool(kinds & {"unknown", "pointed"}))

    def named(self, line: int, array: str, write: bool, pointer: str) -> str:
        """The access as the source has it, from where the expression of its place begins."""
        at, column = self.lines.place(self.pointers.place_of(pointer))
        return subscript(self.text_of(at), column) or array

    def beyond(self, plan: instrument.Plan) -> list[str]:
        """What is run of which no check says that it leaves the process as it is, in words."""
        through = sorted({line for line, _ in self.calls_through.values()})
        lines = {
            plan.refs[each.ref].line
            for accesses in plan.accesses.values()
            for each in accesses
            if each.checked and self.lenient(self.allowed[each.ref])
        }
        return [
            *plan.unseen,
            *plan.modelled,
            *(f"the call through a pointer in line {line}" for line in through),
            *(f"the access in line {line}, which may be to memory of a library's" for line in sorted(lines)),
        ]

    def unsized(self, element: str, line: int) -> None:
        """Note that an access to `element` is left out."""
        self.types.setdefault(element, line)

    def _instruction(self, each: Instruction, site: instrument.Site) -> None:
        if (division := _DIVISION.search(each.text)) and not division["by"].lstrip("-").isdigit():
            self.divisions[site.key] = site.line, division["kind"], division["value"], division["by"]
        long = _LONG_DOUBLE.search(each.text)
        if long:
            self.computed.setdefault(long[1], site.line)
        if each.opcode in _ACCESSES and not instrument.is_access(each.text):
            self.types.setdefault("a structure as a whole", site.line)
        self._finds_callee = each.opcode == "load" and each.result in self._callees
        super()._instruction(each, site)

    def called(self, text: str, site: instrument.Site) -> None:
        """Gather what the call in `text` does."""
        name, self._call = called(text), text
        self.random |= name in _RANDOM
        own = f" @{name}(" in "".join(self._headers)
        if not name:
            if "asm" in text:
                self._hidden(f"assembly in line {site.line}", site)
            elif through := _THROUGH.search(text):
                self.calls_through[site.key] = site.line, through[1]
        elif name.startswith(("llvm.x86", "llvm.masked")):
            self._hidden(f"{name} (line {site.line})", site)
        elif not (
            own
            or name.startswith("llvm.")
            or name in ALLOCATIONS
            or name in RELEASES
            or self._end(name)
            or name in _HARMLESS
        ):
            self.library(name, site)

    def _end(self, name: str) -> str:
        """What is said of a function that ends the run; "" of any other."""
        return absent.said(name) if name in self.absent else ENDS.get(name, "")

    def library(self, name: str, site: instrument.Site) -> None:
        """Gather what a function of a library does as far as a formula says it, else note that nothing does."""
        made = blas.product(name, self._call)
        if made is not None:
            self._product(name, made, site)
        else:
            super().library(name, site)
            if name in self.unseen:
                self._hidden(name, site)

    def _hidden(self, what: str, site: instrument.Site) -> None:
        self.unseen.add(what)
        self._where_hidden.setdefault(what, []).append(self._counter(site))

    def hidden(self, passes: Sequence[int]) -> tuple[str, ...]:
        """What cannot be seen of that which ran: `passes` of each counter."""
        ran = (what for what, counters in self._where_hidden.items() if any(passes[each] for each in counters))
        return tuple(sorted(ran))

    _call = ""  # the call that is being gathered
    _headers: tuple[str, ...] = ()
    _callees: frozenset[str] = frozenset()  # values of the function that are called through
    _finds_callee = False

    def of(self, functions: tuple[Function, ...], main: str, constructed: bool = False) -> instrument.Plan:
        """What to count of `functions`, of which `main` is the user's own.

        `constructed`: whether constructors have filled variables, so that what these point to is theirs.
        """
        self._headers = tuple(each.header for each in functions)
        self.foreign = constructed or any(
            self._hands_out(each.text) for one in functions for each in one.instructions()
        )
        for function in functions:
            calls = (_THROUGH.search(each.text) for each in function.instructions() if each.opcode == "call")
            self._callees = frozenset(each[1] for each in calls if each)
            for index, each in enumerate(function.instructions()):
                if each.opcode in ("call", "invoke") and (end := self._end(called(each.text))):
                    self.ends[function.name, index] = end, self.places.line(each.debug)
            self.function(function, function.name == main)
        return self.plan()

    def _hands_out(self, text: str) -> bool:
        """Whether an instruction may be where memory of a library's comes from."""
        name = called(text)
        if re.search(r"= (?:\w+ )*call [^@%]*ptr @", text) and not name.startswith("llvm."):
            return name not in ALLOCATIONS and not any(f" @{name}(" in each for each in self._headers)
        return any(each not in self.known.variables for each in re.findall(r"load ptr, ptr (@[\w.$]+)", text))

    def _access(self, site: instrument.Site, reach: instrument.Reach, write: bool) -> None:
        # a vector is accessed as a whole
        reach = reach._replace(nbytes=reach.nbytes * reach.lanes, lanes=1, whole=reach.whole and reach.lanes == 1)
        if self._finds_callee and {each.kind for each in reach.roots} & {"unknown", "pointed"}:
            # a table of functions that the compiler made, as that of a class's virtual ones, is no array
            reach = reach._replace(roots=reach.roots | {Root("foreign", "a table of functions")})
        super()._access(site, reach, write)
        self.allowed[len(self.refs) - 1] = reach.roots


def subscript(text: str, column: int) -> str:
    """The expression of a place that begins in that column: "a[i][j]", "m->val[k]", "*p"; "" where none does."""
    if column < 1 or column > len(text):
        return ""
    start = _beginning(text, column - 1)
    rest = text[start:]
    match = re.match(r"\*?\s*[A-Za-z_]\w*", rest)
    if match is None:
        return ""
    end = match.end()
    while end < len(rest):
        if rest[end] == "[":
            close = _closing(rest, end)
            if close < 0:
                break
            end = close + 1
        elif more := re.match(r"(?:->|\.)\s*[A-Za-z_]\w*", rest[end:]):
            end += more.end()
        else:
            break
    found = rest[:end]
    return found if any(each in found for each in ("[", "->", ".", "*")) else ""


def _beginning(text: str, at: int) -> int:
    """Where the expression begins whose member is named at `at`: of "p[i].y" at the y, the p."""
    while match := re.search(r"(?:->|\.)\s*$", text[:at]):
        at = match.start()
        while at and text[at - 1] == "]":
            at = _opening(text, at - 1)
        name = re.search(r"[A-Za-z_]\w*$", text[:at])
        if name is None:
            return at
        at = name.start()
    return at


def _opening(text: str, end: int) -> int:
    depth = 0
    for n in range(end, -1, -1):
        depth += (text[n] == "]") - (text[n] == "[")
        if depth == 0:
            return n
    return 0


def _closing(text: str, start: int) -> int:
    depth = 0
    for n in range(start, len(text)):
        depth += (text[n] == "[") - (text[n] == "]")
        if depth == 0:
            return n
    return -1
