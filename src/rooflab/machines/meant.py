"""Whether what a machine file says can be meant: names of number formats and streams, magnitudes, statistics.

A rate under a name that nothing asks for would be left out silently, a slip of a prefix predicted with.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rooflab import dtypes
from rooflab.errors import UnknownNameError, near_matches
from rooflab.machines.consistency import rates
from rooflab.types.machine import Machine, Rate, is_main_memory
from rooflab.units import duration, iec, si

# What a level's bandwidth may be of: the words that `Level.rate` and the measurement ask for.
STREAMS = (
    *("read", "write", "copy", "triad", "any"),
    *("random read 4 KiB", "random write 4 KiB", "sequential read", "sequential write"),
)
INSTRUCTIONS = ("fma", "fma+add", "add", "mul", "dot", "any")
_UNITS = {"byte": "B/s", "flop": "FLOP/s", "op": "OP/s", "cycle": "Hz"}
# Beyond any machine: the registers of a rack of 72 GPUs move some 10 PB/s, its dense fp4 peak is 1.1 EFLOP/s.
_MOST_PER_S = {"byte": 1e18, "flop": 1e20, "op": 1e20, "cycle": 1e11}
_MOST_BYTES = 1e18
_ROUNDED = 0.02  # of a spread that was written with few digits
_LEAST_LATENCY_S = 1e-11  # light crosses 3 mm


def doubtful(machine: Machine) -> tuple[str, ...]:
    """One sentence for each word or number of `machine` that cannot be meant: field, got, expected.

    - a number format is one of `rooflab.dtypes`, under its short name, by which peaks are found;
    - a level's rate is of a known stream, an arithmetic peak of a known instruction: unless another tool's;
    - no speed, size or latency is beyond any machine's;
    - a cache holds no more than main memory;
    - the median of runs is above zero and no more than their best, and a spread is what both say.
    """
    return (*_words(machine), *_magnitudes(machine), *_statistics(machine))


def _words(machine: Machine) -> Iterator[str]:
    for at, rate in rates(machine):
        for field, name in (("dtype", rate.dtype), ("accumulate", rate.accumulate)):
            if name is not None and name != (known := _format(name)):
                yield _sentence(f"{at}.{field}", repr(name), known)
        known_words = STREAMS if rate.per_s == "byte" else INSTRUCTIONS
        if rate.source.kind == "reported":
            continue  # another tool's own name of what it ran
        if rate.per_s in ("byte", "flop", "op") and rate.what not in known_words:
            near = near_matches(rate.what, known_words, 1)
            expected = repr(near[0]) if near else f"one of {', '.join(known_words)}"
            yield _sentence(f"{at}.what", repr(rate.what), expected)


def _format(name: str) -> str:
    """The short name of the number format `name`, or what is expected in its place."""
    try:
        return dtypes.dtype(name).name
    except UnknownNameError as error:
        near = f" ({', '.join(error.near)})" if error.near else ""
        return f"a number format: {', '.join(one.name for one in dtypes.DTYPES)}{near}"


def _magnitudes(machine: Machine) -> Iterator[str]:
    for at, rate in rates(machine):
        most = _MOST_PER_S.get(rate.per_s)
        if most is not None and rate.value > most:
            yield _sentence(f"{at}.value", _speed(rate.value, rate), f"at most {_speed(most, rate)}")
        if rate.clock_hz is not None and not 0 < rate.clock_hz <= _MOST_PER_S["cycle"]:
            yield _sentence(f"{at}.clock_hz", si(rate.clock_hz, "Hz"), f"at most {si(_MOST_PER_S['cycle'], 'Hz')}")
    for index, level in enumerate(machine.levels):
        for field in ("capacity_bytes", "reported_capacity_bytes"):
            value = getattr(level, field)
            if value is not None and not 1 <= value <= _MOST_BYTES:
                yield _sentence(f"levels[{index}].{field}", f"{value:g} B", f"1 B to {iec(_MOST_BYTES)}")
        for field in ("latency_s", "loaded_latency_s"):
            value = getattr(level, field)
            if value is not None and value < _LEAST_LATENCY_S:
                yield _sentence(
                    f"levels[{index}].{field}", f"{value:g} s", f"at least {duration(_LEAST_LATENCY_S)}"
                )

    yield from _caches(machine)


def _caches(machine: Machine) -> Iterator[str]:
    main = next((level for level in machine.levels if is_main_memory(level)), None)
    if main is None or main.capacity_bytes is None:
        return
    for index, level in enumerate(machine.levels[: machine.levels.index(main)]):
        if level.capacity_bytes is not None and level.capacity_bytes > main.capacity_bytes:
            expected = f"at most the {iec(main.capacity_bytes)} of {main.name}"
            yield _sentence(f"levels[{index}].capacity_bytes", iec(level.capacity_bytes), expected)


def _statistics(machine: Machine) -> Iterator[str]:
    for at, rate in rates(machine):
        if rate.median is not None and not 0 < rate.median <= rate.value * (1 + 1e-9):
            expected = f"above zero and at most the best, {_speed(rate.value, rate)}"
            yield _sentence(f"{at}.median", _speed(rate.median, rate), expected)
        elif rate.median is not None and rate.spread is not None:
            expected = (rate.value - rate.median) / rate.value
            if abs(rate.spread - expected) > _ROUNDED:
                yield _sentence(f"{at}.spread", f"{rate.spread:g}", f"{expected:.3g}, (best − median) / best")
    spreads = [(at, rate.spread) for at, rate in rates(machine)]
    spreads += [(f"links[{at}]", link.spread) for at, link in enumerate(machine.links)]
    spreads += [(f"runtimes[{at}]", runtime.spread) for at, runtime in enumerate(machine.runtimes)]
    for at, spread in spreads:
        if spread is not None and not 0 <= spread <= 1:
            yield _sentence(f"{at}.spread", f"{spread:g}", "a share of the best or the median, from 0 to 1")


def _speed(value: float, rate: Rate) -> str:
    return si(value, _UNITS.get(rate.per_s, f"{rate.per_s}/s"), 4)


def _sentence(at: str, got: str, expected: str) -> str:
    return f"{at}: got {got}, expected {expected}"


def first_of(sentences: Iterable[str]) -> str | None:
    """The first of `sentences`, and how many more there are; None without any."""
    first, *more = [*sentences] or [None]
    return f"{first} (and {len(more)} more)" if first and more else first
