"""How a predicted program runs: mode, caches, power, host, changes of the machine, constants of the model."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any, Literal, TypedDict, get_args

import msgspec

from rooflab.types.constants import Constants

Mode = Literal["eager", "graph", "compiled"]
CacheState = Literal["warm", "cold"]
Power = Literal["burst", "sustained"]
Library = Literal["numpy", "torch"]
MODES: tuple[Mode, ...] = get_args(Mode)
CACHE_STATES: tuple[CacheState, ...] = get_args(CacheState)
POWERS: tuple[Power, ...] = get_args(Power)
LIBRARIES: tuple[Library, ...] = get_args(Library)


class Setting(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a predicted program runs.

    Attributes:
        mode: "eager" (each operation is dispatched by the host as the program comes to it), "graph" (kernels
            back to back, no host: CUDA graphs, engines) or "compiled" (after fusion, no host).
        cache: "warm" (the program runs again and again and finds in the caches what it left there) or "cold"
            (the caches start empty).
        power: "burst" (clocks as for milliseconds of work) or "sustained" (as power and heat allow).
        dispatch_s: host seconds of one bare element-wise call in eager mode, which the times of all sorts of
            calls scale with; None: the machine's, else its family's.
        what_if: factors on the machine's numbers, by knob of `rooflab.model.device.device.KNOBS`.
        constants: those of the model, where other ones than those of the machine's family are taken.
        threads: how many threads of a CPU work; None: all granted ones.
        library: whose products of matrices an operation by hand stands for on a measured CPU, "numpy" or "torch";
            None: NumPy's. A program's are those of its framework.
    """

    mode: Mode = "graph"
    cache: CacheState = "warm"
    power: Power = "burst"
    dispatch_s: float | None = None
    what_if: dict[str, float] = {}
    constants: Constants | None = None
    threads: int | None = None
    library: Library | None = None


class SettingChanges(TypedDict, total=False):
    """The keywords of everything that predicts: what is left out stays, else is as the framework does by itself.

    Attributes:
        mode, cache, power: see `Setting`. By default mode is "eager" for PyTorch, "compiled" for JAX, "graph" for
            the others; cache "warm", but "cold" for one operation by hand (`op`); power "burst".
        dispatch_s: see `Setting`.
        what_if: changes to the machine or the work: {"bandwidth": 2}, "bandwidth=2x,dtype=fp8", "units=264".
        constants: of the model, instead of those of the machine's family: a `Constants`, such as
            `Calibration.constants`, or the file that `rooflab calibrate` wrote.
        threads, library: see `Setting`.
    """

    mode: Mode | None
    cache: CacheState | None
    power: Power | None
    dispatch_s: float | None
    what_if: Mapping[str, Any] | str | None
    constants: Constants | str | PathLike[str] | None
    threads: int | None
    library: Library | None
