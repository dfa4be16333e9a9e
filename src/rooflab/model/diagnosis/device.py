"""Is it the machine that it is held against, at the clock of its roofs, with peaks of dense work?"""

from __future__ import annotations

from collections.abc import Iterator

from rooflab.errors import UnknownNameError
from rooflab.machines import catalog
from rooflab.types.finding import Finding
from rooflab.types.kernel_names import short_name
from rooflab.types.machine import Machine, is_main_memory
from rooflab.types.profile import Profile, ProfileRow
from rooflab.types.trace import Device
from rooflab.units import percent, si

_DRAM_PER_CLOCK, _DRAM_CLOCK = "dram__bytes.sum.peak_sustained", "dram__cycles_elapsed.avg.per_second"
_SAME = 0.05  # two figures of one memory differ by less
_MEMORY = 0.2  # what the driver keeps, and GB for GiB
_SLOW = 0.93  # of the roofs' clock
_FEWER = 0.75  # of the units: a slice of a card (MIG), not another


def over_all(profile: Profile) -> Iterator[Finding]:
    """Hit rates and utilisations over 100 %, as the tool printed them."""
    for row in profile.rows:
        counted = row.counted
        if counted is None or counted.access is None:
            continue
        shares = {f"hit rate of {level}": share for level, share in counted.access.hit_rates.items()}
        shares |= {f"pipe {name}": share for name, share in counted.access.pipes.items()}
        over = {name: share for name, share in shares.items() if share > 1}
        if over:
            name, share = max(over.items(), key=lambda item: item[1])
            yield Finding(
                rule="over 100 %",
                kind="doubt",
                says=f"{short_name(row.name)}: {name} is {percent(share, 2)}: counted in several passes of the "
                "kernel",
                hint="a little over 100 % is harmless; more says that the passes did not run alike",
                evidence=dict(over),
                rows=(row.name,),
                time_s=row.time_s,
            )


def other_card(profile: Profile) -> Iterator[Finding]:
    """A machine that is not what the file describes, by name, units, memory or bus."""
    machine = profile.machine
    if machine is None:
        return
    device = profile.device or Device(number=0)
    named = _named(device.name)
    if named is not None and named.name != machine.name:
        yield _wrong(profile, f"the file says {device.name}, it is held against {machine.name}", {})
        return
    units, own = device.compute_units, machine.compute_units
    if units is not None and own is not None and units != own:
        what = "a slice of it (MIG)?" if units < _FEWER * own else "another card, or a part of it is switched off"
        says = f"the device has {units} {machine.compute_unit or 'unit'}s, {machine.name} has {own}: {what}"
        yield _wrong(profile, says, {"units": units, "units_of_machine": own})
    memory = next((level for level in machine.levels if is_main_memory(level)), None)
    if memory is None:
        return
    capacity = memory.capacity_bytes
    if device.memory_bytes and capacity and abs(device.memory_bytes / capacity - 1) > _MEMORY:
        says = f"the device has {si(device.memory_bytes, 'B')} of memory, {machine.name} has {si(capacity, 'B')}"
        yield _wrong(profile, says, {"memory_bytes": device.memory_bytes, "memory_bytes_of_machine": capacity})
    stated = memory.rate(basis="theoretical")
    bus = next(filter(None, map(_bus_bytes_per_s, profile.rows)), None)
    if bus and stated is not None and abs(bus / stated.value - 1) > _SAME:
        says = (
            f"by bus and clock its memory moves {si(bus, 'B/s')}, that of {machine.name} {si(stated.value, 'B/s')}"
        )
        yield _wrong(profile, says, {"bytes_per_s": bus, "bytes_per_s_of_machine": stated.value})


def _wrong(profile: Profile, says: str, evidence: dict[str, float | str]) -> Finding:
    return Finding(
        rule="wrong card",
        kind="doubt",
        says=says[0].upper() + says[1:],
        hint="give the machine that it ran on with --machine, or measure one",
        evidence=evidence,
        time_s=profile.time_s,
    )


def _named(name: str | None) -> Machine | None:
    if not name:
        return None
    try:
        return catalog.find(name)
    except UnknownNameError:
        return None  # said where the machine is looked for


def _bus_bytes_per_s(row: ProfileRow) -> float | None:
    metrics = {} if row.counted is None else row.counted.metrics
    per_clock, clock_hz = metrics.get(_DRAM_PER_CLOCK), metrics.get(_DRAM_CLOCK)
    return per_clock * clock_hz if per_clock and clock_hz else None


def sparse_peak(profile: Profile) -> Iterator[Finding]:
    """A machine's matrix peak that is twice what the device's own counters call their dense peak."""
    machine = profile.machine
    clock_hz = None if machine is None else max((rate.value for rate in machine.clocks), default=None)
    if machine is None or not machine.compute_units or clock_hz is None:
        return
    for dtype in ("bf16", "fp16"):
        stated = machine.peak(dtype, engine="matrix", basis="theoretical")
        found = _dense_per_clock(profile, dtype)
        if found is None or stated is None:
            continue
        name, per_clock = found
        own = per_clock * clock_hz
        if stated.value > 1.5 * own:
            yield Finding(
                rule="sparse peak",
                kind="doubt",
                says=(
                    f"{machine.name} states {si(stated.value, 'FLOP/s')} for {dtype}; the device's counters "
                    f"say {si(own, 'FLOP/s')} for dense operands at {si(clock_hz, 'Hz')}"
                ),
                hint="take the dense peak: vendors print the one with 2:4 sparsity, which is twice as high",
                evidence={"stated_per_s": stated.value, "dense_per_s": own},
                rows=(name,),
                time_s=profile.time_s,
            )
            return


def _dense_per_clock(profile: Profile, dtype: str) -> tuple[str, float] | None:
    """The first kernel whose counters name the device's dense peak of `dtype`, and that peak: one for all."""
    ending = f"src_{dtype}_dst_fp32_sparsity_off.sum.peak_sustained"
    for row in profile.rows:
        metrics = {} if row.counted is None else row.counted.metrics
        dense = [value for name, value in metrics.items() if name.endswith(ending)]
        if dense:
            return row.name, max(dense)
    return None


def clock(profile: Profile) -> Iterator[Finding]:
    """Kernels that ran slower than the clock of the roofs: profilers lock it, power limits lower it."""
    machine = profile.machine
    clocks = () if machine is None else machine.clocks
    highest = max((rate.value for rate in clocks if rate.per_s == "cycle"), default=0.0)
    slow = [
        (row, row.counted.access.clock_hz)
        for row in profile.rows
        if row.counted is not None
        and row.counted.access is not None
        and row.counted.access.clock_hz
        and row.counted.access.clock_hz < _SLOW * highest
    ]
    if not slow or machine is None:
        return
    row, hertz = min(slow, key=lambda one: one[1])
    yield Finding(
        rule="clock",
        kind="cause",
        says=(
            f"{short_name(row.name)} ran at {si(hertz, 'Hz')}, the roofs of {machine.name} are at "
            f"{si(highest, 'Hz')}: at its own clock it used {highest / hertz:.2f} times the "
            "share of the engines that is shown"
        ),
        hint="profilers lock the clock (Nsight Compute: --clock-control none); matrix kernels lower it by power",
        evidence={"clock_hz": hertz, "roof_clock_hz": highest},
        rows=tuple(dict.fromkeys(one.name for one, _ in slow)),
        time_s=sum(one.time_s for one, _ in slow),
    )
