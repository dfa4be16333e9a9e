"""A machine as the kernel models see it: its numbers as arrays over settings, with its family's constants.

Every number is a float or an array of shape (settings,): a sweep over a thousand bandwidths is one
evaluation. Rows of work are a column of shape (rows, 1), so that results are (rows, settings).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from rooflab.errors import RooflabError, UnknownNameError
from rooflab.model.device.constants import constants_of
from rooflab.model.device.cores import Cores, cores_of
from rooflab.model.roofline.per_operation import peak_of
from rooflab.types.constants import Constants
from rooflab.types.machine import (
    Engine,
    Level,
    Machine,
    Rate,
    is_cache,
    is_main_memory,
    program_memory_bytes,
    whole_capacity_bytes,
)
from rooflab.types.setting import CacheState, Power

Number = float | np.ndarray

ASSUMED_CACHE = "assumed cache"  # of a machine that states none

# What a what-if can change, as a factor on the machine's own number.
KNOBS: dict[str, str] = {
    "bandwidth": "bandwidth of the main memory",
    "compute": "arithmetic peaks of every engine and number format",
    "clock": "clock of the compute units: peaks and caches follow",
    "units": "number of compute units: peaks and L1 follow",
    "cache_capacity": "capacity of the last cache before memory",
    "cache_bandwidth": "bandwidth of the caches",
    "overhead": "time to start a kernel",
    "dispatch": "host time to dispatch an operation",
    "link": "bandwidth of the links",
    "capacity": "capacity of the main memory",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """The numbers of one machine, or of one machine under several settings.

    Attributes:
        units: SMs, CUs or cores; `clock_hz` their highest clock.
        memory_bytes_per_s: of the main memory, theoretical where stated (`memory_basis`), else attained.
        memory_bytes: its capacity; None where not stated.
        cache_bytes, cache_bytes_per_s: of the last cache that all units share (NVIDIA's L2).
        kept_bytes: the most that all caches together keep from one kernel to the next, which a floor allows for.
        cache_latency_s: load to use from that last cache.
        near_bytes_per_s: of the caches nearest to the units (L1 and shared memory), all together.
        memory_name, cache_name, near_name: of these levels, as the machine calls them.
        warm: whether an operation that runs again finds in the caches what it left there.
        sustained: whether power and heat limit the clock, as after seconds of work.
        factor: factors of the what-ifs by knob, 1 where not given.
        cores: of a CPU, all its levels of memory and what one core attains; None elsewhere.
    """

    machine: Machine
    constants: Constants
    units: Number
    clock_hz: Number
    memory_bytes_per_s: Number
    memory_basis: str
    memory_bytes: Number | None
    cache_bytes: Number
    cache_bytes_per_s: Number
    kept_bytes: Number
    cache_latency_s: Number
    near_bytes_per_s: Number
    memory_name: str
    cache_name: str
    near_name: str
    warm: bool
    sustained: bool
    factor: Mapping[str, Number]
    cores: Cores | None = None

    def peak(self, engine: Engine, dtype: str) -> tuple[Number | None, str]:
        """FLOP/s (or op/s) of the unit that does work of `engine` in `dtype`, in theory, and that unit's name.

        None where the machine states none: the name then says what was asked for.
        """
        rate, name = peak_of(self.machine, engine, dtype)
        return (None if rate is None else rate.value * self.faster), name

    @property
    def faster(self) -> Number:
        """Factor on every arithmetic peak."""
        return self.factor["compute"] * self.factor["clock"] * self.factor["units"]


def device_of(
    machine: Machine,
    *,
    cache: CacheState = "warm",
    power: Power = "burst",
    knobs: Mapping[str, Number] | None = None,
    constants: Constants | None = None,
    threads: int | None = None,
    library: str | None = None,
) -> Device:
    """`machine` as kernel models see it, with each of `knobs` multiplying its own number.

    Args:
        threads, library: of a program on a CPU: see `cores_of`.

    Raises:
        RooflabError: a number that predictions need is not stated, or a factor that is not above zero.
        UnknownNameError: an unknown knob, with near matches.
    """
    factor = _factors(knobs or {})
    constants = constants or constants_of(machine)
    memory, rate = _main_memory(machine)
    units = float(machine.compute_units or constants("device.units"))
    if machine.kind == "gpu" and units <= 1:  # neither it nor its family states them
        raise RooflabError(
            f"{machine.name} states no compute_units (SMs or CUs), which predictions of a GPU's kernels need: add "
            "them to its file (see docs/machine-file.md)"
        )
    clock = _clock_hz(machine, constants)
    caches = [level for level in machine.levels if is_cache(level)]
    near, last = (caches[0], caches[-1]) if caches else (None, None)
    cores = cores_of(machine, factor, constants, clock, threads, library)
    # Units and clock of a TPU, an ASIC or a system, often unstated, say little about its caches.
    least = (
        0.0
        if machine.kind in ("gpu", "cpu")
        else constants("device.cache_over_memory") * rate.value * factor["bandwidth"]
    )
    return Device(
        machine=machine,
        constants=constants,
        units=units * factor["units"],
        clock_hz=clock * factor["clock"],
        memory_bytes_per_s=rate.value * factor["bandwidth"],
        memory_basis=rate.basis,
        memory_bytes=_memory_bytes(machine, factor["capacity"]),
        cache_bytes=cores.cache_bytes if cores else _capacity(last, machine, constants) * factor["cache_capacity"],
        cache_bytes_per_s=_speed(last, "device.cache_bytes_per_unit_clock", units, clock, constants, least)
        * factor["cache_bandwidth"]
        * factor["clock"],
        kept_bytes=_kept_bytes(caches, machine, constants) * factor["cache_capacity"],
        cache_latency_s=_latency_s(last, constants) / factor["clock"],
        near_bytes_per_s=_speed(near, "device.near_bytes_per_unit_clock", units, clock, constants, least)
        * factor["cache_bandwidth"]
        * factor["clock"]
        * factor["units"],
        memory_name=memory.name,
        cache_name=last.name if last else ASSUMED_CACHE,
        near_name=cores.near_name if cores else near.name if near else "L1",
        warm=cache == "warm",
        sustained=power == "sustained",
        factor=factor,
        cores=cores,
    )


def _factors(knobs: Mapping[str, Number]) -> dict[str, Number]:
    for name, value in knobs.items():
        if name not in KNOBS:
            raise UnknownNameError("what-if", name, sorted(KNOBS))
        if not isinstance(value, (int, float, np.ndarray)):
            continue  # a knob whose value is not known yet (`program.traced`)
        if not np.all(np.isfinite(value)) or not np.all(np.asarray(value) > 0):
            raise RooflabError(f"what-if {name}={value}: expected a positive factor, such as {name}=2x")
    return {name: knobs.get(name, 1.0) for name in KNOBS}


def _main_memory(machine: Machine) -> tuple[Level, Rate]:
    """The main memory and its bandwidth: theoretical where stated, else attained."""
    memory = next((level for level in machine.levels if is_main_memory(level)), None)
    rate = None if memory is None else memory.rate(basis="theoretical") or memory.rate()
    if memory is None or rate is None:
        raise RooflabError(
            f"{machine.name} states no memory bandwidth, which every prediction needs: add a rate to its "
            "main memory in its file (see docs/machine-file.md)"
        )
    return memory, rate


def _clock_hz(machine: Machine, constants: Constants) -> float:
    """The highest clock that is stated, for a unit's cycles; else its family's."""
    clocks = [rate.value for rate in machine.clocks if rate.what in ("boost", "matrix", "base", "measured")]
    clocks = clocks or [rate.value for rate in machine.clocks]
    clocks = clocks or [rate.clock_hz for rate in machine.peaks if rate.clock_hz]
    return max(clocks, default=constants("device.clock_hz"))


def _capacity(level: Level | None, machine: Machine, constants: Constants) -> float:
    whole = None if level is None else whole_capacity_bytes(level, machine)
    return whole if whole is not None else constants("device.cache_bytes")


# What a machine that states no caches may have: Trainium 2 has 192 MiB of buffers, M2 Ultra 168 MiB of caches.
_MOST_UNSTATED_BYTES = 256 * 2**20


def _kept_bytes(caches: list[Level], machine: Machine, constants: Constants) -> float:
    """The most that the caches hold from kernel to kernel: exclusive levels add, a GPU's own L1 starts empty."""
    if not caches:
        return _MOST_UNSTATED_BYTES * max(len(machine.parts), sum(part.count for part in machine.parts), 1)
    kept = caches if machine.kind == "cpu" or len(caches) == 1 else caches[1:]
    return sum(_capacity(level, machine, constants) for level in kept)


def _memory_bytes(machine: Machine, factor: Number) -> Number | None:
    held = program_memory_bytes(machine)
    return None if held is None else held * factor


def _latency_s(level: Level | None, constants: Constants) -> float:
    stated = None if level is None else level.latency_s
    return constants("device.cache_latency_s") if stated is None else stated


def _speed(
    level: Level | None, name: str, units: float, clock_hz: float, constants: Constants, least: Number
) -> Number:
    """Bytes/s of a cache: stated, or its family's bytes per unit and clock, `least` at least."""
    rate: Rate | None = None
    if level is not None:
        rate = level.rate() or level.rate(basis="theoretical")
    return rate.value if rate is not None else np.maximum(constants(name) * units * clock_hz, least)
