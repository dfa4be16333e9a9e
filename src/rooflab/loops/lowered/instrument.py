"""A lowered function with a call before each of its loads and stores, and a counter of each block that computes.

First `plan` says what is to be counted; when the simulator knows how many references that makes, `write` writes
the text. Blocks that always run together share one counter; what only an exception leads to is not counted.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

from rooflab.loops.lowered import blas, bounds, control_flow, source_loops
from rooflab.loops.lowered.bounds import Raised
from rooflab.loops.lowered.flop import computed, function_flop, power
from rooflab.loops.lowered.ir_text import POINTER, Function, Instruction, Places
from rooflab.loops.lowered.lower import APART
from rooflab.loops.lowered.patterns import decided, pattern_of
from rooflab.loops.lowered.planned import Access, Names, Plan
from rooflab.loops.lowered.pointers import Pointers, Root, called
from rooflab.loops.read.twin_text import Loop, Ref
from rooflab.loops.read.value_types import Flop

_TYPE = r"(?:<(?P<lanes>\d+) x (?P<vector>\w+)>|\{ (?P<complex>double|float), (?:double|float) \}|(?P<scalar>\w+))"
_LOAD = re.compile(rf"= load (?:atomic |volatile )*{_TYPE}, {POINTER}")
_STORE = re.compile(rf"^\s*store (?:atomic |volatile )*{_TYPE} (?:<.*?>|\S+), {POINTER}")
_ATOMIC = re.compile(rf"= (?:atomicrmw|cmpxchg) (?:volatile )?(?:\w+ )?{POINTER}, {_TYPE} ")
# numba reads the two halves of a complex number one by one: they are one access.
_HALF = re.compile(
    r"getelementptr (?:inbounds )?(?:nuw )?\{ (?P<type>double|float), (?P=type) \}, ptr (?P<base>%\S+),"
    r" i32 0, i32 (?P<part>[01])"
)
_MEMORY = re.compile(r"@llvm\.(?P<op>memcpy|memmove|memset)\.[\w.]*\((?P<arguments>.*)\)")
_SIZES = {
    "double": 8, "float": 4, "half": 2, "i64": 8, "i32": 4, "i16": 2, "i8": 1, "i1": 1, "ptr": 8, "i128": 16,
    "x86_fp80": 16, "fp128": 16, "bfloat": 2,
}  # fmt: skip
_PASSED_ON = re.compile(r"^\s*store ptr \S+, ptr %excinfo\b")  # an exception that what is called has set
_ALIGNED = re.compile(r", align (\d+)")
WORDS = "words of 8 bytes"  # the first factor, where the other is a number of bytes


class Site(NamedTuple):
    """Where an instruction stands.

    Attributes:
        function: the function that it is of.
        number: which of its instructions it is.
        block: label of the block whose counter counts it.
        loop: number of the innermost loop around it; None outside of all.
        body: labels of that loop's blocks.
        line: of the source.
    """

    function: Function
    number: int
    block: str
    loop: int | None
    body: frozenset[str]
    line: int

    @property
    def key(self) -> tuple[str, int]:
        """The function's name and the number of the instruction."""
        return self.function.name, self.number


class Reach(NamedTuple):
    """What memory an instruction reads or writes.

    Attributes:
        pointer: the text of the pointer; `roots` says what it may point into.
        nbytes: of one element; `lanes` are accessed one after the other.
        elements: of a whole range: factors of how many there are, as text; none of a single access.
        whole: whether it is known to lie on a multiple of its size.
    """

    pointer: str
    roots: frozenset[Root]
    nbytes: int
    lanes: int = 1
    elements: tuple[str, ...] = ()
    whole: bool = False


def plan(functions: tuple[Function, ...], main: str, places: Places, names: Names) -> Plan:
    """What to count of `functions`, of which `main` is the user's own."""
    made = Planner(places, names)
    for function in functions:
        if APART not in function.name:
            made.function(function, function.name == main)
    return made.plan()


def _plan(made: Planner) -> Plan:
    flop = {
        key: tuple(Flop(engine, dtype, n) for (engine, dtype), n in held.items())
        for key, held in made.flop.items()
    }
    for key, ((engine, dtype), each) in made.library_flop.items():
        flop[key] = (Flop(engine, dtype, *each.as_integer_ratio()),)
    texts = made.names.texts(made.refs)
    return Plan(
        made.accesses,
        made.counters,
        tuple(ref._replace(text=texts.get(ref.number, ref.text)) for ref in made.refs),
        tuple(made.loops),
        flop,
        tuple(made.owners),
        made.heads,
        made.products,
        tuple(sorted(made.unseen)),
        tuple(sorted(made.modelled)),
        made.random,
        made.raises,
        made.variables,
    )


def cold_blocks(function: Function) -> set[str]:
    """Blocks that only an exception leads to: they set one, or all that follows them returns one."""
    cold = {
        label
        for label, block in function.blocks.items()
        if any(
            "!numba_exception_output" in each.text
            or each.opcode == "unreachable"
            or re.match(r"\s*ret i32 [1-9]", each.text)
            for each in block.instructions
        )
    }
    return and_before(function, cold)


def and_before(function: Function, cold: set[str]) -> set[str]:
    """The blocks `cold`, and those that only lead to some of them."""
    fresh = cold
    while fresh:
        fresh = {
            label
            for label, block in function.blocks.items()
            if label not in cold and block.following and all(each in cold for each in block.following)
        }
        cold = cold | fresh
    return cold


class Planner:
    """Gathers what to count, function by function; methods without an underscore are what compilers differ in."""

    def __init__(self, places: Places, names: Names) -> None:
        self.places, self.names = places, names
        self.accesses: dict[tuple[str, int], list[Access]] = {}
        self.counters: dict[tuple[str, str], int] = {}
        self.refs: list[Ref] = []
        self.loops: list[Loop] = []
        self.flop: dict[tuple[int, int], Counter[tuple[str, str]]] = {}
        self.library_flop: dict[tuple[int, int], tuple[tuple[str, str], Fraction]] = {}
        self.owners: list[int | None] = []
        self.heads: dict[tuple[str, str], int] = {}
        self.products: dict[tuple[str, int], list[tuple[int, tuple[str, ...]]]] = {}
        self.unseen: set[str] = set()
        self.random = False
        self.raises: dict[tuple[str, int], Raised] = {}
        self.variables: dict[int, str] = {}
        self.pointers: Pointers
        self.whole: frozenset[str] = frozenset()
        self.modelled: set[str] = set()

    def plan(self) -> Plan:
        """What was gathered."""
        return _plan(self)

    def cold(self, function: Function) -> set[str]:
        """Labels of blocks that are not counted."""
        return cold_blocks(function)

    def pointers_of(self, function: Function, main: bool) -> Pointers:
        """Where the pointers of a function come from; `main`: it is the user's own."""
        return Pointers(function, main, self.places)

    def counts(self, roots: frozenset[Root]) -> bool:
        """Whether accesses through a pointer with those roots are counted."""
        return _counts(roots)

    def certain(self, roots: frozenset[Root]) -> bool:
        """Whether a pointer with those roots lies in the arrays for certain."""
        return {each.kind for each in roots} <= {"argument", "allocation"}

    def named(self, line: int, array: str, write: bool, pointer: str) -> str:
        """An access through `pointer` to `array` in `line`, as the source has it."""
        return self.names.text(line, array, write)

    def unsized(self, element: str, line: int) -> None:
        """Note that an access to `element`, a type of no known size, is left out."""

    def function(self, function: Function, main: bool) -> None:
        """Gather what to count of `function`."""
        graph = {label: block.following for label, block in function.blocks.items()}
        entry = next(iter(graph))
        cold = self.cold(function)
        warm = {
            label: [each for each in following if each not in cold]
            for label, following in graph.items()
            if label not in cold
        }
        if entry in cold:
            return
        found = source_loops.find(function, warm, self.places, self.names.loops if main else ())
        # outer ones come first
        inside = {label: number for number, loop in enumerate(found) for label in loop.blocks}
        together = control_flow.run_together(graph, entry, cold)
        self.pointers = self.pointers_of(function, main)
        halves = (_HALF.search(each.text) for each in function.instructions() if each.opcode == "getelementptr")
        self.whole = frozenset(each["base"] for each in halves if each and each["part"] == "0")
        first = len(self.loops)
        self._count_trips(function, found, first)
        before = {each: label for label, block in function.blocks.items() for each in block.following}
        index = 0
        line = 0
        waiting: list[tuple[str, int]] = []
        for label, block in function.blocks.items():
            owner = first + inside[label] if label in inside else None
            bodies = found[inside[label]].blocks if label in inside else frozenset()
            for each in block.instructions:
                if "!numba_exception_output" in each.text or _PASSED_ON.search(each.text):
                    around = inside.get(before.get(label, label))
                    self._raised(function, label, (function.name, index), each, found, first, around)
                    waiting.append((function.name, index))
                if label in together:
                    line = self.places.line(each.debug) or line
                    counted = len(self.refs)
                    self._instruction(each, Site(function, index, together[label], owner, bodies, line))
                    if len(self.refs) > counted:
                        for one in waiting:
                            self.raises[one] = self.raises[one]._replace(access=counted)
                        waiting = []
                index += 1

    def _raised(
        self,
        function: Function,
        label: str,
        key: tuple[str, int],
        each: Instruction,
        found: Sequence[source_loops.SourceLoop],
        first: int,
        around: int | None,
    ) -> None:
        """Note what is to be said where an exception is set, in block `label`, behind loop `around`."""
        line = self.places.line(each.debug)
        statement = None if around is None else found[around].statement
        asks = statement is not None and statement.variable is None and line in statement.tested
        tests = first + around if asks and around is not None else None
        loops = []
        while around is not None:
            loops.append((first + around, self.variables.get(first + around, "")))
            around = found[around].parent
        self.raises[key] = Raised(
            line,
            *bounds.index_of(function, label),
            tuple(loops),
            None,
            tests,
            _PASSED_ON.search(each.text) is not None,
        )

    def _count_trips(self, function: Function, found: Sequence[source_loops.SourceLoop], first: int) -> None:
        for place, loop in enumerate(found):
            number = first + place
            counter = self._own_counter(function.name, loop.trips, number)
            self.heads[function.name, loop.trips] = number
            parent = None if loop.parent is None else first + loop.parent
            variable = loop.variable or self.names.variable(loop.line)
            self.loops.append(Loop(number, variable, loop.line, counter, parent))
            known = function.blocks[loop.trips].variables
            value = next(
                (known[each] for each in self.places.variables.get(loop.variable, ()) if each in known), ""
            )
            if value := bounds.before(function, loop.trips, value):
                self.variables[number] = value

    def _counter(self, site: Site) -> int:
        return self._own_counter(site.function.name, site.block, site.loop)

    def _own_counter(self, function: str, label: str, owner: int | None) -> int:
        if (function, label) not in self.counters:
            self.counters[function, label] = len(self.owners)
            self.owners.append(owner)
        return self.counters[function, label]

    def _instruction(self, each: Instruction, site: Site) -> None:
        text = each.text
        match = _LOAD.search(text) or _STORE.search(text) or _ATOMIC.search(text)
        if match:
            self._accessed(each, match, site)
        elif (moved := _MEMORY.search(text)) is not None:
            self._moved(moved, site)
        elif counted := computed(text):
            self._computed(counted, site)
        elif each.opcode == "call":
            self.called(text, site)

    def _computed(self, counted: Mapping[tuple[str, str], int], site: Site) -> None:
        self.flop.setdefault((self._counter(site), site.line), Counter()).update(counted)

    def _accessed(self, each: Instruction, match: re.Match[str], site: Site) -> None:
        """Gather a load, a store, or both where it is atomic."""
        element = match["vector"] or match["complex"] or match["scalar"]
        roots = self.pointers.roots(match["pointer"])
        size = _SIZES.get(element or "")
        half = _HALF.search(self.pointers.text(match["pointer"]))
        if half and half["part"] == "1" and half["base"] in self.whole:
            return
        # a second half whose first is reached otherwise is an access of its own
        if size is not None and (match["complex"] or (half and half["part"] == "0")):
            size *= 2
        if not self.counts(roots):
            return
        if size is None:
            self.unsized(element or "", site.line)
            return
        aligned = _ALIGNED.search(each.text)
        whole = aligned is not None and int(aligned[1]) >= size
        reach = Reach(match["pointer"], roots, size, int(match["lanes"] or 1), whole=whole)
        for write in (False, True) if each.opcode in ("atomicrmw", "cmpxchg") else (each.opcode != "load",):
            self._access(site, reach, write)

    def called(self, text: str, site: Site) -> None:
        """Gather what the call in `text` does."""
        name = called(text)
        self.random |= "random_state" in name
        if APART in name:
            self._computed(power(text), site)
        elif name and (made := blas.product(name, text)) is not None:
            self._product(name, made, site)
        elif name and blas.is_unknown(name):
            self.unseen.add(name)
        elif name and name.startswith("numba_"):
            # of mathematics (gamma, ldexp), or numba's own housekeeping
            self._computed(function_flop(name.removeprefix("numba_")), site)
        elif name and not name.startswith(("llvm.", "_ZN", "NRT_", "nrt_", "Py", "_Py")):
            self.library(name, site)

    def library(self, name: str, site: Site) -> None:
        """Gather the FLOP of a function of a library, or note that what it does cannot be seen."""
        counted = function_flop(name)
        if counted:
            self._computed(counted, site)
        else:
            self.unseen.add(name)

    def _access(self, site: Site, reach: Reach, write: bool) -> None:
        named = frozenset(each for each in reach.roots if each.kind not in ("stack", "meminfo"))
        array = self.names.array(site.line, named)
        constant = next((each.name for each in named if each.kind == "global"), "") if len(named) == 1 else ""
        known = (self.certain(reach.roots) or bool(constant)) and reach.lanes == 1
        power_of_two = reach.nbytes & (reach.nbytes - 1) == 0
        whole = power_of_two and (reach.whole or (known and self.names.whole(named, reach.nbytes)))
        counter = self._counter(site) if known and not reach.elements else self._range_counter(site.loop)
        pattern, waits = "stream", False
        if not reach.elements:
            is_data = lambda value: self.counts(self.pointers.roots(value))  # noqa: E731
            pattern = pattern_of(site.function, site.body, reach.pointer, is_data)
            waits = decided(site.function, site.body, reach.pointer, is_data)
        text = self.named(site.line, array, write, reach.pointer)
        number = len(self.refs)
        self.refs.append(Ref(number, array, site.line, text, write, reach.nbytes, counter, pattern, decided=waits))
        access = Access(
            number, reach.pointer, reach.nbytes, reach.lanes, write, constant, not known, whole, reach.elements
        )
        self.accesses.setdefault(site.key, []).append(access)

    def _range_counter(self, owner: int | None) -> int:
        """A counter of its own: of what is only known at run time."""
        self.owners.append(owner)
        return len(self.owners) - 1

    def _moved(self, match: re.Match[str], site: Site) -> None:
        """Bytes that are copied or set as a whole, counted as elements of 8."""
        target, source, extent = [each.split()[-1] for each in match["arguments"].split(", ")][:3]
        if match["op"] != "memset":
            self._range(site, source, 8, False, (WORDS, extent))
        self._range(site, target, 8, True, (WORDS, extent))

    def _range(self, site: Site, pointer: str, nbytes: int, write: bool, elements: tuple[str, ...]) -> None:
        if self.counts(roots := self.pointers.roots(pointer)):
            self._access(site, Reach(pointer, roots, nbytes, elements=elements), write)

    def _product(self, name: str, made: blas.Product, site: Site) -> None:
        """A call of BLAS or LAPACK, which cannot be seen: its operands are read, its result written, once."""
        for pointer, write, elements in made.moved:
            self._range(site, pointer, made.nbytes, write, elements)
        for factors, kind, flop in made.work:
            counter = self._range_counter(site.loop)
            self.products.setdefault(site.key, []).append((counter, factors))
            self.library_flop[counter, site.line] = kind, flop
        self.modelled.add(name.removeprefix("numba_").removeprefix("ez_").lstrip("x"))


def _counts(roots: frozenset[Root]) -> bool:
    """Whether what a pointer with those roots points to may be part of an array."""
    kinds = {each.kind for each in roots}
    if kinds <= {"stack", "meminfo"}:
        return False
    if kinds <= {"stack", "meminfo", "global"}:
        return any(".const.array" in each.name for each in roots)
    return True


def is_access(text: str) -> bool:
    """Whether an instruction is read as a load or a store."""
    return any(each.search(text) for each in (_LOAD, _STORE, _ATOMIC))
