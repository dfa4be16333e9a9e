"""What a measured machine says can be done on it: each gain follows from two of its own rates or latencies."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from rooflab.remedies import PAGE, WORTH
from rooflab.types.advice import Advice, Advices, Effort
from rooflab.types.machine import Level, Link, Machine, Rate, is_main_memory
from rooflab.types.measured import Tlb
from rooflab.units import GIGA, duration, iec, si


class Unasked(NamedTuple):
    """Why a rule cannot say anything of a machine."""

    rule: str
    reason: str


def threads(machine: Machine) -> Advice | Unasked | None:
    """As many threads as saturate the memory, where one core reads less than all of them."""
    memory = _memory(machine)
    one, several = (_measured(memory, "read", scope) for scope in ("core", "all"))
    if one is None or several is None:
        return None
    count = machine.environment.get("threads_that_saturate_memory")
    enough = count if isinstance(count, int) and count > 1 else several.threads
    return _per_gigabyte(
        "saturating-threads",
        f"Share what streams through memory among {enough or 'several'} threads, each on a core; for a GB",
        (
            f"one core reads {si(one.value, 'B/s')} of {memory.name if memory else 'memory'}, all together "
            f"{si(several.value, 'B/s')}",
        ),
        (one, several),
        code="@njit(parallel=True) and prange; OMP_NUM_THREADS, taskset -c",
    )


def fewer_threads(machine: Machine) -> Advice | Unasked | None:
    """Fewer threads, where more of them read less of the memory together."""
    curve = next((one for one in machine.curves if one.name == "thread scaling"), None)
    if curve is None or len(curve.x) < 2:
        return None
    place = max(range(len(curve.x)), key=lambda n: curve.best[n])
    best, last = curve.best[place], curve.best[-1]
    if last >= (1 - WORTH) * best:
        return None
    fewer = f"{curve.x[place]:.0f} thread{'' if curve.x[place] == 1 else 's'}"
    low_s, high_s = _between(last, curve.median[-1], best, curve.median[place])
    return Advice(
        rule="fewer-threads",
        change=f"Let {fewer} read memory, not {curve.x[-1]:.0f}; for a GB",
        evidence=(
            f"{curve.x[-1]:.0f} together read {si(last, 'B/s')}, {curve.x[place]:.0f} read {si(best, 'B/s')}",
        ),
        before_s=GIGA / last,
        after_s=GIGA / best,
        gain_low_s=low_s,
        gain_high_s=high_s,
        bounds=True,
        effort="setting",
        code=f"OMP_NUM_THREADS={curve.x[place]:.0f} NUMBA_NUM_THREADS={curve.x[place]:.0f}",
        page=PAGE + "fewer-threads",
    )


def non_temporal(machine: Machine) -> Advice | Unasked | None:
    """Stores past the caches, where copies larger than these are measured to be faster so."""
    memory = _memory(machine)
    ordinary, past = (_measured(memory, "copy", "all", stores) for stores in ("ordinary", "nontemporal"))
    if ordinary is None or past is None:
        return None
    return _per_gigabyte(
        "non-temporal",
        "Write what is larger than the caches past them (non-temporal stores); for a GB read and written",
        (f"a copy attains {si(ordinary.value, 'B/s')} with ordinary stores, {si(past.value, 'B/s')} with these",),
        (ordinary, past),
        effort="rewrite",
        code="// C: _mm256_stream_pd(&a[i], v);   memcpy of the C library does so by itself for large blocks",
    )


_AS_LONG = 0.75  # of the wait in small pages: what is left in huge ones, from which on they are no remedy


def huge_pages(machine: Machine) -> Advice | Unasked | None:
    """Larger pages, where loads at random wait for translations of addresses."""
    memory = _memory(machine)
    small = min(machine.tlbs, key=lambda each: each.page_bytes, default=None)
    huge = max(machine.tlbs, key=lambda each: each.page_bytes, default=None)
    if small is None or not small.entries or machine.environment.get("huge_pages") == "always":
        return None
    if huge is None or huge is small:
        return Unasked("huge-pages", "no waits with larger pages were measured here")
    if memory is None or memory.latency_s is None:
        return Unasked("huge-pages", "no latency of the memory was measured")
    held, waits_s = small.entries[-1], small.miss_s[-1]
    still_s = _still_s(machine, small, huge)
    if still_s > _AS_LONG * waits_s:
        return Unasked(
            "huge-pages",
            f"as far apart in {iec(huge.page_bytes)} pages a load still waits {duration(still_s)} of"
            f" {duration(waits_s)} for its translation: the host keeps this guest's memory in small pages",
        )
    waits_s -= still_s
    reach = held * small.page_bytes
    of_huge = huge.entries[-1] if huge.entries else huge.held_pages or 0
    spread = memory.latency_s * (memory.latency_spread or 0.0)
    return Advice(
        rule="huge-pages",
        change=f"Lay what is read at random, beyond {iec(reach)}, in pages of {iec(huge.page_bytes)}; for a load",
        evidence=(
            f"the buffers hold {held:,} pages of {iec(small.page_bytes)}; beyond, a load waits "
            f"{duration(small.miss_s[-1])} for its translation and {duration(memory.latency_s)} for memory",
            f"{of_huge:,} huge pages cost nothing"
            + (f"; spread over them a load still waits {duration(still_s)}" if still_s else ""),
            "of loads that wait for one another; independent ones wait several at once",
        ),
        before_s=memory.latency_s + waits_s,
        after_s=memory.latency_s,
        gain_low_s=max(0.0, waits_s - spread),
        gain_high_s=waits_s + spread,
        bounds=True,
        effort="line",
        code="madvise(p, bytes, MADV_HUGEPAGE);   // NumPy does so by itself for arrays of 4 MiB or more",
        page=PAGE + "huge-pages",
    )


def _still_s(machine: Machine, small: Tlb, huge: Tlb) -> float:
    """What loads as far apart as in small pages wait for translations in huge ones, where that was measured."""
    steps = f"{iec(small.page_bytes)} steps in {iec(huge.page_bytes)} pages"
    curve = machine.curve(f"translation wait, {steps}")
    return curve.best[-1] if curve is not None else 0.0


def near_memory(machine: Machine) -> Advice | Unasked | None:
    """Memory of the node whose cores use it, where another's is measured to be slower."""
    local = _links(machine, "local memory")
    remote = _links(machine, "remote memory")
    if not local or not remote:
        return None
    slowest = min(remote, key=lambda each: each.each_way_bytes_per_s or 0.0)
    fastest = max(local, key=lambda each: each.each_way_bytes_per_s or 0.0)
    before, after = slowest.each_way_bytes_per_s or 0.0, fastest.each_way_bytes_per_s or 0.0
    if before >= (1 - WORTH) * after:
        return None
    waits = (
        (f"a load waits {duration(slowest.latency_s)} instead of {duration(fastest.latency_s)}",)
        if slowest.latency_s and fastest.latency_s
        else ()
    )
    usual = [each * (1 - (link.spread or 0.0)) for each, link in ((before, slowest), (after, fastest))]
    low_s, high_s = _between(before, usual[0], after, usual[1])
    return Advice(
        rule="near-memory",
        change="Keep memory on the node whose cores use it; for a GB that lies on the other now",
        evidence=(
            f"{slowest.name}: a core reads {si(before, 'B/s')}; {fastest.name}: {si(after, 'B/s')}",
            *waits,
        ),
        before_s=GIGA / before,
        after_s=GIGA / after,
        gain_low_s=low_s,
        gain_high_s=high_s,
        bounds=True,
        effort="setting",
        code="numactl --cpunodebind=0 --membind=0 …   # or touch arrays first on the cores that use them",
        page=PAGE + "near-memory",
    )


def governor(machine: Machine) -> Advice | Unasked | None:
    """A governor that holds the clock up, where cores compute below the clock that they have."""
    name = machine.environment.get("governor")
    if name is None or name == "performance":
        return None
    clocks = {rate.what: rate.value for rate in machine.clocks}
    measured, highest = clocks.get("measured"), clocks.get("boost")
    if measured is None or highest is None:
        return Unasked(
            "governor", f"it is {name}; no highest clock is stated, so what another would gain is not known"
        )
    if measured >= (1 - WORTH) * highest:
        return None
    return Advice(
        rule="governor",
        change=f"Set the clock's governor to performance (it is {name}); for 10⁹ cycles that compute",
        evidence=(
            f"under load {si(measured, 'Hz')} were measured of {si(highest, 'Hz')}; power or heat may be why too",
        ),
        before_s=GIGA / measured,
        after_s=GIGA / highest,
        gain_low_s=0.0,
        gain_high_s=GIGA / measured - GIGA / highest,
        bounds=True,
        effort="setting",
        code="cpupower frequency-set -g performance   # as root",
        page=PAGE + "governor",
    )


# What a measurement cannot say.
_NOT_MEASURED = (
    Unasked("pinning", "all was measured on pinned threads, so what others lose is not known"),
    Unasked("memory channels", "which are populated only the firmware says (dmidecode -t memory, as root)"),
)


class Rule(NamedTuple):
    """A rule: its name (`Advice.rule`), the regime that it is a remedy for, what asks."""

    name: str
    regime: str
    ask: Callable[[Machine], Advice | Unasked | None]
    price: bool = False


RULES: tuple[Rule, ...] = (
    Rule("saturating-threads", "memory-bound", threads),
    Rule("fewer-threads", "memory-bound", fewer_threads),
    Rule("non-temporal", "memory-bound", non_temporal),
    Rule("huge-pages", "latency", huge_pages),
    Rule("near-memory", "memory-bound", near_memory),
    Rule("governor", "compute-bound", governor),
)


def advise(machine: Machine) -> Advices:
    """What can be done on `machine`, by its own measured rates; nothing where it is no CPU that was measured."""
    memory = _memory(machine)
    if machine.kind != "cpu" or _measured(memory, "read", "all") is None:
        return Advices()
    found: list[Advice] = []
    unasked: list[Unasked] = []
    for rule in RULES:
        one = rule.ask(machine)
        if isinstance(one, Advice):
            found.append(one)
        elif one is not None:
            unasked.append(one)
    if {"saturating-threads", "fewer-threads"} <= {one.rule for one in found} and _one_is_fastest(machine):
        found = [one for one in found if one.rule not in ("saturating-threads", "fewer-threads")]
        unasked.append(
            Unasked("threads", "of two sweeps one read most with 1 thread, one with all; measure again")
        )
    found.sort(key=lambda one: -(one.gain_share or 0.0))
    not_known = tuple(f"{one.rule}: {one.reason}" for one in (*unasked, *_NOT_MEASURED))
    return Advices(each=tuple(found), unasked=not_known)


def _one_is_fastest(machine: Machine) -> bool:
    """Whether one thread read most of the memory in the sweep over threads."""
    curve = next(one for one in machine.curves if one.name == "thread scaling")
    return curve.x[max(range(len(curve.x)), key=lambda n: curve.best[n])] == 1


def _memory(machine: Machine) -> Level | None:
    return next((level for level in machine.levels if is_main_memory(level)), None)


def _measured(level: Level | None, what: str, scope: str, stores: str | None = None) -> Rate | None:
    return None if level is None else level.rate(what, scope=scope, basis="attained", stores=stores)  # type: ignore[arg-type]


def _links(machine: Machine, to: str) -> list[Link]:
    return [link for link in machine.links if link.to == to and link.each_way_bytes_per_s]


def _between(before: float, usual_before: float, after: float, usual_after: float) -> tuple[float, float]:
    """What a GB saves at least and at most, of its seconds at the best rate `before`.

    A usual run, the median, may be slower than the best of either. What is saved is a share of the time: at most
    all of it.
    """
    shares = [1 - before / after, 1 - before / usual_after, 1 - usual_before / after]
    return GIGA / before * min(shares), GIGA / before * max(shares)


def _per_gigabyte(
    rule: str,
    change: str,
    evidence: tuple[str, ...],
    rates: tuple[Rate, Rate],
    effort: Effort = "line",
    code: str = "",
) -> Advice | None:
    """A GB at the second of `rates` instead of the first, between best and median; None where hardly faster."""
    before, after = rates
    if after.value <= (1 + WORTH) * before.value:
        return None
    usual = [(rate.median or rate.value) for rate in rates]
    low_s, high_s = _between(before.value, usual[0], after.value, usual[1])
    return Advice(
        rule=rule,
        change=change,
        evidence=evidence,
        before_s=GIGA / before.value,
        after_s=GIGA / after.value,
        gain_low_s=low_s,
        gain_high_s=high_s,
        bounds=True,
        effort=effort,
        code=code,
        page=PAGE + rule,
    )
