"""Settings and what-ifs as users write them: "bandwidth=2x,dtype=fp8,mode=compiled"."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from rooflab.dtypes import dtype as number_format
from rooflab.errors import RooflabError, UnknownNameError, near_matches, squash
from rooflab.model.device import constants_file
from rooflab.model.device.device import KNOBS
from rooflab.types.constants import Constants
from rooflab.types.machine import Machine, is_main_memory
from rooflab.types.report import Report
from rooflab.types.setting import (
    CACHE_STATES,
    LIBRARIES,
    MODES,
    POWERS,
    CacheState,
    Mode,
    Power,
    Setting,
    SettingChanges,
)
from rooflab.units import parse_any

# How the programs of each front end run by themselves.
_MODES: dict[str, Mode] = {"torch": "eager", "jax": "compiled"}
# One operation by hand stands for a part of something: what ran before it has the caches.
_CACHES: dict[str, CacheState] = {"hand": "cold"}
# What a what-if can say beside the knobs: how it runs, and what makes the work another.
_WORDS: dict[str, tuple[str, ...]] = {
    "mode": MODES,
    "cache": CACHE_STATES,
    "power": POWERS,
    "fusion": ("on", "off"),
}
_WORK = ("dtype", "batch")
# What else people call a knob, without punctuation.
_MEANT: dict[str, tuple[str, ...]] = {
    "compute": ("peak", "peaks", "flops", "flop", "tflops", "matrix", "tensorcores", "engine", "engines"),
    "bandwidth": ("bw", "memory", "mem", "hbm", "dram", "ram", "membw", "memorybandwidth"),
    "clock": ("frequency", "freq", "hz", "ghz", "boost"),
    "units": ("sms", "sm", "cores", "cus", "cu", "computeunits"),
    "cache_capacity": ("l2", "l3", "llc", "cache", "cachesize"),
    "cache_bandwidth": ("l2bandwidth", "l3bandwidth", "cachebw"),
    "overhead": ("launch", "latency", "launchoverhead"),
    "dispatch": ("host", "cpu", "python"),
    "link": ("nvlink", "pcie", "network", "interconnect"),
    "capacity": ("memorysize", "memorycapacity", "vram"),
    "dtype": ("precision", "format"),
}
_LONGEST_DISPATCH_S = 10
_CHOICES = {"mode": MODES, "cache": CACHE_STATES, "power": POWERS, "library": LIBRARIES}


class WhatIf(NamedTuple):
    """What a what-if changes.

    Attributes:
        factors: on the machine's numbers, by knob; `values` what a number becomes, in base units.
        mode, cache, power: how it runs, where that changes.
        dtype: number format, `batch` size of the batch: these change the work, not the machine.
    """

    factors: dict[str, float]
    values: dict[str, float]
    mode: Mode | None = None
    cache: CacheState | None = None
    power: Power | None = None
    dtype: str | None = None
    batch: int | None = None


def check(changes: Mapping[str, Any]) -> SettingChanges:
    """`changes` with what-ifs and constants read, so that what is wrong in them is said before any work.

    Raises:
        UnknownNameError: no setting, mode, cache state, power or what-if of that name, with near matches.
        FileError: a file of constants that cannot be read.
        RooflabError: a negative dispatch time, a what-if that cannot be read.
    """
    for name in changes:
        if name not in SettingChanges.__annotations__:
            raise UnknownNameError("setting", name, SettingChanges.__annotations__)
    for name, choices in _CHOICES.items():
        value = changes.get(name)
        if value is not None and value not in choices:
            raise UnknownNameError(name, str(value), choices)
    dispatch_s = changes.get("dispatch_s")
    if dispatch_s is not None and not 0 <= dispatch_s < _LONGEST_DISPATCH_S:
        raise RooflabError(f"dispatch_s={dispatch_s}: expected host seconds per operation, such as 12e-6")
    threads = changes.get("threads")
    if threads is not None and (not isinstance(threads, int) or threads < 1):
        raise RooflabError(f"threads={threads}: expected how many threads work, a whole number from 1 on")
    if changes.get("what_if") is not None:
        what_if(changes["what_if"])
    constants = changes.get("constants")
    if isinstance(constants, (str, os.PathLike)):
        constants = constants_file.read(os.fspath(constants))
    return SettingChanges(**{**changes, "constants": constants})


def setting(report: Report, machine: Machine, changes: Mapping[str, Any], change: WhatIf | None) -> Setting:
    """The setting that is asked for; what is not is as in `report`, else the default of its framework.

    Args:
        report: to predict.
        machine: to predict it on.
        changes: checked (see `check`).
        change: the what-if among them, which has the last word.

    Raises:
        RooflabError: constants of another kind of machine, a new value for a number that `machine` does not state.
    """
    framework = report.graph.framework
    before = report.setting or Setting(mode=_MODES.get(framework, "graph"), cache=_CACHES.get(framework, "warm"))
    what_if = change or WhatIf({}, {})
    dispatch_s = changes.get("dispatch_s")
    return Setting(
        mode=what_if.mode or changes.get("mode") or before.mode,
        cache=what_if.cache or changes.get("cache") or before.cache,
        power=what_if.power or changes.get("power") or before.power,
        dispatch_s=before.dispatch_s if dispatch_s is None else dispatch_s,
        what_if=dict(before.what_if) if change is None else factors_on(machine, change),
        constants=_constants(changes.get("constants"), before.constants, machine),
        threads=changes.get("threads") or before.threads,
        library=changes.get("library") or before.library,
    )


def _constants(asked: Constants | None, before: Constants | None, machine: Machine) -> Constants | None:
    if asked is not None:
        return constants_file.checked_for(asked, machine)
    # What an earlier prediction took goes on where it can: a GPU's constants say nothing of a CPU.
    return before if before is not None and constants_file.apply_to(before, machine) else None


def what_if(changes: Mapping[str, Any] | str) -> WhatIf:
    """What "bandwidth=2x,dtype=fp8" or {"bandwidth": 2, "dtype": "fp8"} changes.

    A machine's number takes a factor ("2x", 0.5) or, with its unit, a new value ("6 TB/s").

    Raises:
        UnknownNameError: an unknown name or word, with near matches.
        RooflabError: a pair that is not NAME=VALUE, a value that is not above zero.
    """
    change = WhatIf({}, {})
    for name, value in _pairs(changes):
        if name in KNOBS:
            _number(name, value, change)
        elif name == "dtype":
            change = change._replace(dtype=number_format(str(value)).name)
        elif name == "batch":
            change = change._replace(batch=_count(value))
        elif name == "fusion":
            change = change._replace(mode="compiled" if _word(name, value) == "on" else "graph")
        elif name in _WORDS:
            change = change._replace(**{name: _word(name, value)})
        else:
            raise unknown_what_if(name)
    return change


def unknown_what_if(name: str) -> RooflabError:
    """The refusal of a what-if that there is none of: the nearest by spelling or by meaning, and all of them."""
    known = (*KNOBS, *_WORDS, *_WORK)
    meant = [knob for knob, words in _MEANT.items() if squash(name) in words]
    near = [*meant, *(one for one in near_matches(name, known) if one not in meant)]
    hint = f"did you mean {', '.join(near)}? " if near else ""
    return RooflabError(f"unknown what-if {name!r}; {hint}known: {', '.join(known)}")


def factors_on(machine: Machine, change: WhatIf) -> dict[str, float]:
    """The factors of `change` on the numbers of `machine`.

    Raises:
        RooflabError: a new value for a number that `machine` does not state.
    """
    factors = dict(change.factors)
    for name, value in change.values.items():
        own = _stated(machine, name)
        if own is None:
            raise RooflabError(f"what-if {name}: {machine.name} states none; give a factor such as {name}=2x")
        factors[name] = value / own
    return factors


def without_batch(changes: Mapping[str, Any] | str) -> dict[str, Any] | None:
    """The what-if without its batch, which is met by analyzing again; None where nothing is left."""
    return {name: value for name, value in _pairs(changes) if name != "batch"} or None


def _pairs(changes: Mapping[str, Any] | str) -> list[tuple[str, Any]]:
    if not isinstance(changes, str):
        return list(changes.items())
    pairs = []
    for pair in filter(str.strip, changes.split(",")):
        name, equals, value = pair.partition("=")
        if not equals or not value.strip():
            raise RooflabError(f"what-if {pair.strip()!r}: expected NAME=VALUE, such as bandwidth=2x")
        pairs.append((name.strip(), value.strip()))
    return pairs


def _number(name: str, value: Any, change: WhatIf) -> None:
    text = str(value).strip()
    try:
        number, where = float(text.removesuffix("x")), change.factors
    except ValueError:
        try:
            number, where = parse_any(text)[0], change.values
        except RooflabError:
            raise RooflabError(
                f"what-if {name}={value}: expected a factor such as {name}=2x, or a value with its unit"
            ) from None
    if not 0 < number < float("inf"):
        raise RooflabError(f"what-if {name}={value}: expected a positive number, such as {name}=2x")
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
