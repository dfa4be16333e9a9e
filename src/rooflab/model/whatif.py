"""Settings and what-ifs as users write them: "bandwidth=2x,dtype=fp8,mode=compiled"."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, get_args

from rooflab.dtypes import dtype as number_format
from rooflab.errors import RooflabError, UnknownNameError
from rooflab.model.device import KNOBS
from rooflab.types.machine import Machine, is_main_memory
from rooflab.types.prediction import Cache, Mode, Power, Setting
from rooflab.types.report import Report
from rooflab.units import parse_any

# How the programs of each front end run by themselves.
_MODES: dict[str, Mode] = {"torch": "eager", "jax": "compiled"}
# What a what-if can say beside the knobs: how it runs, and what makes the work another.
_WORDS: dict[str, tuple[str, ...]] = {
    "mode": get_args(Mode),
    "cache": ("warm", "cold"),
    "power": get_args(Power),
    "fusion": ("on", "off"),
}
_WORK = ("dtype", "batch")


class Change(NamedTuple):
    """What a what-if changes.

    Attributes:
        factors: on the machine's numbers, by knob; `values` what a number becomes, in base units.
        mode, cache, power: how it runs, where that changes.
        dtype: number format, `batch` size of the batch: these change the work, not the machine.
    """

    factors: dict[str, float]
    values: dict[str, float]
    mode: Mode | None = None
    cache: Cache | None = None
    power: Power | None = None
    dtype: str | None = None
    batch: int | None = None


def setting(
    report: Report,
    *,
    mode: Mode | None = None,
    cache: Cache | None = None,
    power: Power | None = None,
    dispatch_s: float | None = None,
    factors: Mapping[str, float] | None = None,
) -> Setting:
    """The setting that is asked for; what is None is as in `report`, else the default of its framework.

    Raises:
        UnknownNameError: a mode, cache or power of another name.
        RooflabError: a negative dispatch time.
    """
    for name, value in (("mode", mode), ("cache", cache), ("power", power)):
        if value is not None and value not in _WORDS[name]:
            raise UnknownNameError(name, str(value), _WORDS[name])
    if dispatch_s is not None and not 0 <= dispatch_s < 10:
        raise RooflabError(f"dispatch_s={dispatch_s}: expected host seconds per operation, such as 12e-6")
    before = report.setting or Setting(mode=_MODES.get(report.graph.framework, "graph"))
    return Setting(
        mode=mode or before.mode,
        cache=cache or before.cache,
        power=power or before.power,
        dispatch_s=before.dispatch_s if dispatch_s is None else dispatch_s,
        what_if=dict(before.what_if if factors is None else factors),
    )


def change(given: Mapping[str, Any] | str) -> Change:
    """What "bandwidth=2x,dtype=fp8" or {"bandwidth": 2, "dtype": "fp8"} changes.

    A machine's number takes a factor ("2x", 0.5) or, with its unit, a new value ("6 TB/s").

    Raises:
        UnknownNameError: an unknown name or word, with near matches.
        RooflabError: a pair that is not NAME=VALUE, a value that is not above zero.
    """
    made = Change({}, {})
    for name, value in _pairs(given):
        if name in KNOBS:
            _number(name, value, made)
        elif name == "dtype":
            made = made._replace(dtype=number_format(str(value)).name)
        elif name == "batch":
            made = made._replace(batch=_count(value))
        elif name == "fusion":
            made = made._replace(mode="compiled" if _word(name, value) == "on" else "graph")
        elif name in _WORDS:
            made = made._replace(**{name: _word(name, value)})
        else:
            raise UnknownNameError("what-if", name, (*KNOBS, *_WORDS, *_WORK))
    return made


def factors_on(machine: Machine, found: Change) -> dict[str, float]:
    """The factors of `found` on the numbers of `machine`.

    Raises:
        RooflabError: a new value for a number that `machine` does not state.
    """
    made = dict(found.factors)
    for name, value in found.values.items():
        own = _stated(machine, name)
        if own is None:
            raise RooflabError(f"what-if {name}: {machine.name} states none; give a factor such as {name}=2x")
        made[name] = value / own
    return made


def _pairs(given: Mapping[str, Any] | str) -> list[tuple[str, Any]]:
    if not isinstance(given, str):
        return list(given.items())
    made = []
    for pair in filter(str.strip, given.split(",")):
        name, equals, value = pair.partition("=")
        if not equals or not value.strip():
            raise RooflabError(f"what-if {pair.strip()!r}: expected NAME=VALUE, such as bandwidth=2x")
        made.append((name.strip(), value.strip()))
    return made


def _number(name: str, value: Any, made: Change) -> None:
    text = str(value).strip()
    try:
        number, where = float(text.removesuffix("x")), made.factors
    except ValueError:
        try:
            number, where = parse_any(text)[0], made.values
        except RooflabError:
            raise RooflabError(
                f"what-if {name}={value}: expected a factor such as {name}=2x, or a value with its unit"
            ) from None
    if not 0 < number < float("inf"):
        raise RooflabError(f"what-if {name}={value}: expected a number above zero, such as {name}=2x")
    where[name] = number


def _count(value: Any) -> int:
    text = str(value)
    if not text.isdecimal() or int(text) < 1:
        raise RooflabError(f"what-if batch={value}: expected a whole number of at least 1, such as batch=64")
    return int(text)


def _word(name: str, value: Any) -> Any:
    if str(value) not in _WORDS[name]:
        raise UnknownNameError(f"what-if {name}", str(value), _WORDS[name])
    return str(value)


def _stated(machine: Machine, name: str) -> float | None:
    """The number of `machine` that a knob multiplies, where it is one number."""
    memory = next((level for level in machine.levels if is_main_memory(level)), None)
    if name == "bandwidth" and memory is not None:
        rate = memory.rate(basis="theoretical") or memory.rate()
        return None if rate is None else rate.value
    if name == "capacity" and memory is not None:
        return memory.capacity_bytes
    if name == "units":
        return None if machine.compute_units is None else float(machine.compute_units)
    if name == "clock":
        return max((rate.value for rate in machine.clocks if rate.what == "boost"), default=None)
    return None
