"""The public functions, each short enough to read aloud. Heavy imports happen inside them."""

from rooflab.story.advice import advise
from rooflab.story.comparing import compare
from rooflab.story.environment import doctor
from rooflab.story.files import load
from rooflab.story.loops import loop, miss_curve, simulate, simulate_cores, sweep_tiles
from rooflab.story.machines import machine, measure
from rooflab.story.own_times import with_times as with_times
from rooflab.story.programs import analyze, calibrate, op, predict, transfer, variants
from rooflab.story.running import run

__all__ = [
    "advise",
    "analyze",
    "calibrate",
    "compare",
    "doctor",
    "load",
    "loop",
    "machine",
    "measure",
    "miss_curve",
    "op",
    "predict",
    "run",
    "simulate",
    "simulate_cores",
    "sweep_tiles",
    "transfer",
    "variants",
]
