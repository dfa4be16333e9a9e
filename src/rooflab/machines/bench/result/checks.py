"""A measurement's checks of itself: what failed is a printed sentence with the likely cause."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from rooflab.machines.bench.findings import Findings
from rooflab.machines.bench.plan import BEYOND_CACHE
from rooflab.machines.bench.result.capacity_checks import capacities
from rooflab.machines.bench.result.latency_checks import ORDER_TOLERANCE, latency_order, latency_spread
from rooflab.machines.bench.result.library_checks import library_checks
from rooflab.machines.bench.run.trials import spread_bound
from rooflab.types.machine import Check, Level, Machine, Rate, is_main_memory
from rooflab.units import percent, si

_THEORY_TOLERANCE = 0.02
_CLOCK_DRIFT = 0.05
_OTHERS_SHARE, _STOLEN_SHARE = 0.05, 0.02
_SCALING_TOLERANCE = 0.10
_PRIVATE = ("L1", "L2")
# On a guest, whose host takes cores and caches away for moments, runs differ more on a quiet machine too (Zen 4
# under KVM: medians 5 to 10 % under the best at L1): bounds are as many times as wide, and a few may lie outside.
_ON_A_GUEST, _FEW = 3, 0.25


def checks(machine: Machine, findings: Findings) -> tuple[Check, ...]:
    """Every check that applies to what was measured, in the order a reader asks."""
    return (
        *_background(findings),
        *_spreads(machine),
        *_clock(findings),
        *_bandwidth_order(machine),
        *latency_order(machine),
        *latency_spread(machine),
        *_below_theory(machine),
        *capacities(machine, findings.host.hypervisor),
        *_scaling(machine, findings),
        *_known_kernels(machine),
        *_beyond(findings),
        *_pages(findings),
        *library_checks(machine, findings),
    )


def _background(findings: Findings) -> Iterator[Check]:
    """Whether the CPUs were this run's own."""
    if findings.background_load is None:
        return
    others, stolen = findings.background_load.others, findings.background_load.stolen
    busy, robbed = others > _OTHERS_SHARE, stolen > _STOLEN_SHARE
    message = (
        f"other processes used {percent(others, 1)} of the measured CPUs' time, the hypervisor took "
        f"{percent(stolen, 1)}"
    )
    if busy:
        message += "; the figures may be low: stop other work and measure again"
    elif robbed:
        message += "; a noisy neighbour shares these cores: the figures may be low, measure again at another time"
    yield Check(name="background load", ok=not (busy or robbed), message=f"{_capital(message)}.")


def _spreads(machine: Machine) -> Iterator[Check]:
    """Whether the runs agreed."""
    noisy = []
    compared = 0
    guest = machine.environment.get("hypervisor") is not None
    for label, rate in _judged(machine):
        compared += 1
        bound = spread_bound(label) * (_ON_A_GUEST if guest else 1)
        if (rate.spread or 0.0) > bound:
            noisy.append(f"{_label(label, rate)} {percent(rate.spread)} (bound {percent(bound)})")
    if not compared:
        return
    few = guest and len(noisy) <= _FEW * compared
    if noisy and few:
        message = (
            f"The runs of {compared - len(noisy)} of {compared} rates agree within the bounds of a guest; the "
            f"median fell below the best by {', '.join(noisy[:6])}. The best run is given."
        )
    elif noisy:
        more = f" and {len(noisy) - 6} more" if len(noisy) > 6 else ""
        message = (
            f"Noisy: the median run fell below the best by {', '.join(noisy[:6])}{more}; likely a noisy "
            "neighbour, a busy SMT sibling or a changing clock. The best run is given; measure again on a "
            "quieter machine."
        )
    else:
        message = f"The runs of all {compared} rates agree within their bounds."
    yield Check(name="spread", ok=few or not noisy, message=message)


def _judged(machine: Machine) -> Iterator[tuple[str, Rate]]:
    """Rates whose runs must agree: all bandwidths of memory levels, and the FMA peaks."""
    for level in machine.levels:
        for rate in level.rates:
            if rate.basis == "attained" and rate.stores != "nontemporal" and level.name[0] in "LD":
                yield level.name, rate
    for rate in machine.peaks:
        if rate.basis == "attained" and rate.what == "fma" and rate.engine == "vector":
            yield "fma", rate


def _clock(findings: Findings) -> Iterator[Check]:
    """Whether the clock held still."""
    readings = sorted(findings.clocks_hz)
    if len(readings) < 10:
        return
    low, high = readings[len(readings) // 10], readings[-1]
    steady = (high - low) / high <= _CLOCK_DRIFT
    message = f"The clock under load lay between {si(low, 'Hz')} and {si(high, 'Hz')} (nine readings of ten)"
    message += "." if steady else "; turbo, a power limit or preemption moved it, and every figure with it."
    yield Check(name="clock", ok=steady, message=message)


def _bandwidth_order(machine: Machine) -> Iterator[Check]:
    """Whether a nearer level is at least as fast as the one behind it, like compared with like."""
    levels = [level for level in machine.levels if level.rates and level.name[0] in "LD"]
    wrong, private, compared = [], True, 0
    for near, far in itertools.pairwise(levels):
        for rate in near.rates:
            behind = _same_kind(far, rate)
            # Non-temporal stores go past the caches wherever their target lies: no order to expect.
            if behind is None or rate.basis != "attained" or rate.stores == "nontemporal":
                continue
            compared += 1
            slack = max(ORDER_TOLERANCE, rate.spread or 0.0, behind.spread or 0.0)
            if rate.value < behind.value * (1 - slack):
                slow, fast = si(rate.value, "B/s"), si(behind.value, "B/s")
                wrong.append(f"{_label(near.name, rate)} {slow} is under {far.name}'s {fast}")
                private = private and near.name in _PRIVATE
    if not compared:
        return
    message = f"Nearer levels are no slower than further ones ({compared} pairs)."
    if wrong:
        shared = "" if private else "a shared L3 that other guests fill, or "
        message = f"{'; '.join(wrong[:4])}: likely {shared}other work on these cores during one of the two."
    yield Check(name="bandwidth order", ok=not wrong, message=message)


def _below_theory(machine: Machine) -> Iterator[Check]:
    """Whether nothing beats theory at the measured clock."""
    pairs = [(rate, _theory(machine.peaks, rate)) for rate in machine.peaks if rate.basis == "attained"]
    for level in machine.levels:
        pairs += [(rate, _theory(level.rates, rate)) for rate in level.rates if rate.basis == "attained"]
    judged = [(rate, theory) for rate, theory in pairs if theory is not None]
    over = [
        f"{_label('', rate)} {percent(rate.value / theory.value, 1)}"
        for rate, theory in judged
        if rate.value > theory.value * (1 + _THEORY_TOLERANCE)
    ]
    if not judged:
        return
    message = f"Nothing is above theory at the measured clock ({len(judged)} rates)."
    if over:
        message = (
            f"Above theory at the measured clock: {', '.join(over)}; likely a clock boost between the "
            "readings, or a wrong row in the table of microarchitectures."
        )
    yield Check(name="below theory", ok=not over, message=message)


def _theory(rates: tuple[Rate, ...], attained: Rate) -> Rate | None:
    keys = ("what", "dtype", "scope", "engine", "stores", "per_s")
    wanted = [getattr(attained, key) for key in keys]
    return next(
        (one for one in rates if one.basis == "theoretical" and [getattr(one, key) for key in keys] == wanted),
        None,
    )


def _scaling(machine: Machine, findings: Findings) -> Iterator[Check]:
    """Whether all cores reach what their number suggests, and not more."""
    cores = len(findings.cpus)
    if cores < 2:
        return
    wrong, compared = [], 0
    pairs = [
        ("fma", rate, machine.peaks) for rate in machine.peaks if rate.what == "fma" and rate.engine == "vector"
    ]
    for level in machine.levels:
        if level.name in _PRIVATE:
            pairs += [(level.name, rate, level.rates) for rate in level.rates if rate.stores != "nontemporal"]
    for label, rate, rates in pairs:
        if rate.basis != "attained" or rate.scope != "core":
            continue
        whole = next(
            (
                one
                for one in rates
                if one.scope == "all"
                and (one.what, one.dtype, one.stores, one.basis)
                == (rate.what, rate.dtype, rate.stores, rate.basis)
            ),
            None,
        )
        if whole is None:
            continue
        compared += 1
        factor = whole.value / rate.value
        if not cores * (1 - 2 * _SCALING_TOLERANCE) <= factor <= cores * (1 + _SCALING_TOLERANCE):
            wrong.append(f"{_label(label, rate)} × {factor:.2f}")
    if not compared:
        return
    message = f"Private resources scale with the {cores} cores ({compared} rates)."
    if wrong:
        message = (
            f"On {cores} cores, {', '.join(wrong[:5])}: likely SMT siblings on one core, a clock that falls with "
            "more cores, a cgroup quota, or a noisy neighbour (of the one core, where a factor is too high)."
        )
    yield Check(name="thread scaling", ok=not wrong, message=message)


def _known_kernels(machine: Machine) -> Iterator[Check]:
    """Whether the known kernels stay under the roofs: a point above one is a roof measured too low."""
    memory = next((level for level in machine.levels if is_main_memory(level)), None)
    moved = [rate.value for rate in memory.rates if rate.per_s == "byte" and rate.scope == "all"] if memory else []
    summed = [
        rate.value
        for rate in machine.peaks
        if (rate.dtype, rate.scope, rate.per_s, rate.basis) == ("fp64", "all", "flop", "attained")
    ]
    if not machine.points or not moved or not summed:
        return
    over = []
    for point in machine.points:
        if point.threads != machine.compute_units:
            continue  # NumPy's BLAS takes all granted CPUs, whatever number was measured
        slack = 1 + max(ORDER_TOLERANCE, point.spread or 0.0)
        moves = point.bytes / point.time_s
        if moves > max(moved) * slack:
            over.append(f"{point.name} moves {si(moves, 'B/s')}, DRAM's best is {si(max(moved), 'B/s')}")
        if point.flop_per_s > max(summed) * slack:
            over.append(
                f"{point.name} computes {si(point.flop_per_s, 'FLOP/s')}, the peak is {si(max(summed), 'FLOP/s')}"
            )
    message = f"The {len(machine.points)} known kernels lie under the roofs."
    if over:
        cause = "the roof was probably measured under background load; measure again on a quieter machine"
        message = f"{_capital('; '.join(over))}: {cause}."
    yield Check(name="known kernels", ok=not over, message=message)


def _beyond(findings: Findings) -> Iterator[Check]:
    """Whether main memory's working set was large enough not to be a cache's."""
    if findings.sizes.beyond is None:
        return
    ok = findings.sizes.beyond >= BEYOND_CACHE
    message = f"Main memory was measured on {findings.sizes.beyond:.1f} × the last caches' capacity"
    message += (
        "."
        if ok
        else f", expected {BEYOND_CACHE} ×: a run without --quick, or more memory granted, comes nearer; its "
        "figures may be a cache's."
    )
    yield Check(name="working set", ok=ok, message=message)


def _pages(findings: Findings) -> Iterator[Check]:
    """Whether the system gave the huge pages that were asked for."""
    if findings.huge_share is None:
        return
    ok = findings.huge_share > 0.9
    message = f"{percent(findings.huge_share)} of the memory lies in huge pages"
    message += "." if ok else "; with small ones bandwidth is up to 30 % lower near the L3's size (TLB misses)."
    yield Check(name="huge pages", ok=ok, message=_capital(message))


def _same_kind(level: Level, rate: Rate) -> Rate | None:
    return next(
        (
            one
            for one in level.rates
            if (one.what, one.scope, one.stores, one.basis) == (rate.what, rate.scope, rate.stores, rate.basis)
        ),
        None,
    )


def _label(level: str, rate: Rate) -> str:
    """A rate in words: "L1 read (all)", "fma fp64 (core)"."""
    name = " ".join(part for part in (level if level != "fma" else "", rate.what, rate.dtype or "") if part)
    return f"{name} ({rate.scope})"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
