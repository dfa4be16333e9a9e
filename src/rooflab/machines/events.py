"""Which events of this CPU count FLOP and bytes of memory: rows of data/events.toml, tried by opening them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from rooflab.machines.detect import pmu
from rooflab.machines.detect.counters import DEVICES, Tried, is_core, try_cycles
from rooflab.machines.detect.files import Tree

if TYPE_CHECKING:
    from rooflab.machines.event_rows import Row, Table

_REFUSED = ("EACCES", "EPERM")
# Counted by a counter of its own on most CPUs, in every set: says whether two executions did the same.
INSTRUCTIONS = "instructions"


class Event(NamedTuple):
    """An event that opens here.

    Attributes:
        name: that its count is known by.
        text: as perf takes it: "cpu/event=0xc7,umask=0x1,name=…/u".
        code: as the kernel takes it.
    """

    name: str
    text: str
    code: pmu.Encoded


class Events(NamedTuple):
    """What can be counted here.

    Attributes:
        sets: events of the cores, each set as many as the CPU counts at once.
        memory: events of memory controllers.
        bound: which event of the sets is less than what was read from memory, and bytes for each; None where
            memory itself is counted.
        lacks: what cannot be counted, why, and what to do, in sentences.
        notes: what the counts leave out.
    """

    sets: tuple[tuple[Event, ...], ...] = ()
    memory: tuple[Event, ...] = ()
    bound: tuple[str, int] | None = None
    lacks: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def any(self) -> bool:
        """Whether anything can be counted."""
        return bool(self.sets or self.memory)


class Kernel(NamedTuple):
    """What is asked of the kernel: tests answer in its place."""

    cycles: Callable[[], Tried | None] = try_cycles
    opens: Callable[..., Tried | None] = pmu.opens
    fit_together: Callable[[Sequence[pmu.Encoded]], bool] = pmu.fit_together


HERE = Kernel()


def available(tree: Tree, microarchitecture: Callable[[], str | None], kernel: Kernel = HERE) -> Events:
    """The events that open on the machine of `tree`.

    Args:
        tree: its file system.
        microarchitecture: asked for its name ("Zen 4") where it has counters at all.
        kernel: whom to ask.
    """
    devices = tree.names(DEVICES)
    # A kernel that lists its devices, and none of a core, has nothing to open.
    none = bool(devices) and not any(is_core(one) for one in devices)
    tried = Tried(opened=False, error="ENOENT") if none else kernel.cycles()
    if tried is None or not tried.opened or tried.counted == 0:
        return Events(lacks=(f"FLOP and bytes of memory were not counted: {_why_not(tree, tried)}",))
    name = microarchitecture()
    flop, notes, lacks = _flop(tree, name, kernel)
    memory, why = _memory(tree, name, kernel)
    bound = None
    core = list(flop)
    if not memory:
        bound, event = _bound(tree, name, kernel)
        core += [event] if event else []
        less = "; reads are bounded from below by misses of the last cache" if event else ""
        lacks.append(f"bytes of memory were not counted: {why}{less}")
    return Events(_sets(tree, core, kernel), memory, bound, tuple(lacks), notes)


def _table() -> Table:
    from rooflab.machines.event_rows import table  # only where there are counters: a command waits for this

    return table()


def _why_not(tree: Tree, tried: Tried | None) -> str:
    then = "`rooflab doctor` says more"
    if tried is None:
        return f"this system has no perf events; {then}"
    if tried.opened:
        return f"the CPU's counters open and stay at zero, as a hypervisor keeps them; {then}"
    if tried.error in _REFUSED:
        level = tree.integer("proc/sys/kernel/perf_event_paranoid")
        said = "unknown" if level is None else level
        todo = "sudo sysctl kernel.perf_event_paranoid=1"
        return f"the system refuses the CPU's counters (perf_event_paranoid {said}): {todo}; {then}"
    todo = "take bare metal, or an instance with a virtual PMU"
    return f"this machine shows no counters ({tried.error}), like most virtual ones: {todo}; {then}"


def _flop(tree: Tree, name: str | None, kernel: Kernel) -> tuple[tuple[Event, ...], tuple[str, ...], list[str]]:
    row = next((one for one in _table().flop if name in one.microarchitectures), None)
    if row is None:
        return (), (), [f"FLOP were not counted: no counter of them is known on {name or 'this CPU'}"]
    device = "cpu" if tree.integer(f"{DEVICES}/cpu/type") is not None else _arm_core(tree)
    if device is None:
        return (), (), ["FLOP were not counted: this CPU has several kinds of core, each with counters of its own"]
    found, why = _opening(tree, device, row, kernel, user=True)
    if not found:
        return (), (), [f"FLOP were not counted: {why}"]
    return found, (f"FLOP are those of the cores' counters in user mode, without {row.leaves_out}",), []


def _arm_core(tree: Tree) -> str | None:
    """The one device of cores that are alike; None where there are several kinds, or x86's hybrid ones."""
    cores = [one for one in tree.names(DEVICES) if one.startswith(("armv8", "armv9"))]
    return cores[0] if len(cores) == 1 else None


def _memory(tree: Tree, name: str | None, kernel: Kernel) -> tuple[tuple[Event, ...], str]:
    """Events of every memory controller, by the first row that fits; without any, why not."""
    devices = tree.names(DEVICES)
    why, refused = "the kernel lists no counters of memory controllers", False
    for row in _table().memory:
        if row.microarchitectures and name not in row.microarchitectures:
            continue
        mine = [one for one in devices if _is_unit(one, row.devices)]
        found: list[Event] = []
        for device in mine:
            events, why_not = _opening(tree, device, row, kernel, user=False)
            if not events:
                # Why a device refuses says more than that another sort of machine has other events.
                why, found = (why if refused else why_not), []
                refused |= " has no event " not in why_not
                break
            found += events
        if found:
            return tuple(found), ""
    return (), why


def _is_unit(device: str, start: str) -> bool:
    """Whether `device` is that of `start`, or one of several that are numbered: "uncore_imc", "uncore_imc_0"."""
    rest = device.removeprefix(start)
    return device.startswith(start) and (not rest or rest.removeprefix("_").isdigit())


def _bound(tree: Tree, name: str | None, kernel: Kernel) -> tuple[tuple[str, int] | None, Event | None]:
    row = next((one for one in _table().bound if name in one.microarchitectures), None)
    if row is None or tree.integer(f"{DEVICES}/cpu/type") is None:
        return None, None
    found, _ = _opening(tree, "cpu", row, kernel, user=True)
    return ((found[0].name, row.each), found[0]) if found else (None, None)


def leaves_out(name: str) -> str:
    """What the bound called `name` does not hold."""
    return next(row.leaves_out for row in _table().bound if any(one["name"] == name for one in row.events))


def _opening(tree: Tree, device: str, row: Row, kernel: Kernel, *, user: bool) -> tuple[tuple[Event, ...], str]:
    """All events of `row` on `device`; none where one of them does not open, and why."""
    cpus = None if user else tree.cpu_list(f"{DEVICES}/{device}/cpumask")
    if not user and not cpus:
        return (), f"the kernel names no CPU for {device}"
    found: list[Event] = []
    for name, text, code in _coded(tree, device, row, user):
        if code is None:
            return (), f"the kernel's device {device} has no event {name}"
        tried = kernel.opens(code) if cpus is None else kernel.opens(code, cpu=cpus[0])
        if tried is None or not tried.opened:
            error = "not tried" if tried is None else tried.error
            todo = " (sudo sysctl kernel.perf_event_paranoid=0)" if error in _REFUSED else ""
            return (), f"{device}/{name}/ does not open: {error}{todo}"
        found.append(Event(name, text, code))
    return tuple(found), ""


def _coded(tree: Tree, device: str, row: Row, user: bool) -> Iterator[tuple[str, str, pmu.Encoded | None]]:
    """Name, perf's text and the kernel's code of each event of `row` on `device`."""
    mode = "u" if user else ""
    for name in row.kernel_events:
        yield name, f"{device}/{name}/{mode}", pmu.named(tree, device, name)
    for event in row.events:
        terms: dict[str, Any] = {key: value for key, value in event.items() if key != "name"}
        words = ",".join(f"{key}={value:#x}" for key, value in terms.items())
        yield (
            str(event["name"]),
            f"{device}/{words},name={event['name']}/{mode}",
            pmu.encoded(tree, device, terms),
        )


def _sets(tree: Tree, events: Sequence[Event], kernel: Kernel) -> tuple[tuple[Event, ...], ...]:
    """`events` in as few sets as the CPU counts at once, in their order, instructions first in each."""
    if not events:
        return ()
    first = Event(INSTRUCTIONS, f"{INSTRUCTIONS}:u", pmu.Encoded(0, 1))  # PERF_COUNT_HW_INSTRUCTIONS
    start = [first] if (tried := kernel.opens(first.code)) is not None and tried.opened else []
    sets: list[list[Event]] = [list(start)]
    for event in events:
        grown = [*sets[-1], event]
        if len(sets[-1]) > len(start) and not kernel.fit_together([one.code for one in grown]):
            sets.append([*start, event])
        else:
            sets[-1] = grown
    return tuple(tuple(one) for one in sets if one)
