"""Rows of the engines' tables of layers: their card as it ran, the time of the kernels that a layer becomes."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

import rooflab
from rooflab.model.device.constants import load_family, moved, of_libraries, of_mechanisms, with_groups, with_near
from rooflab.model.device.device import Device, device_of
from rooflab.model.serving.kernels import Kernel
from rooflab.model.serving.timing import timed as timed_kernels
from rooflab.types.constants import Constant, Constants

CARDS = {
    "a100_sxm": "a100-sxm-80gb", "h100_sxm": "h100-sxm", "h200_sxm": "h200", "b200_sxm": "b200",
    "b300_sxm": "b300", "gb200": "gb200", "gb300": "gb300", "l40s": "l40s",
    "rtx_pro_6000_server": "rtx-pro-6000-server",
}  # fmt: skip
NODES = {
    "a100_sxm": "dgx-a100", "h100_sxm": "dgx-h100", "h200_sxm": "h200-8", "b200_sxm": "b200-8",
    "b300_sxm": "b200-8", "gb200": "gb200-nvl72", "gb300": "gb200-nvl72",
}  # fmt: skip
Row = dict[str, str]


class Table(NamedTuple):
    """Rows of one file that are timed together."""

    card: str
    engine: str
    rows: list[Row]
    left_out: bool = False

    def column(self, name: str) -> np.ndarray:
        """Of all rows, as numbers; 0 where a row leaves it empty."""
        return np.array([float(row.get(name) or 0) for row in self.rows])

    @property
    def device(self) -> Device:
        """The card as it ran: few replays, too few for power to settle; weights that are alike take less of it."""
        row = self.rows[0]
        alike = row["op_name"] == "gemm" and self.engine == "vllm" and row["gemm_dtype"] in ("bfloat16", "fp8")
        return _device(self.card, self.left_out, ALIKE_ENERGY if alike else 1.0)


# Energy of products with weights that are all alike (vLLM's layers of bf16 as allocated, of fp8 filled with one
# number), of that with random ones: fewer wires change. From L40S, where power limits most.
ALIKE_ENERGY = 0.6


@functools.cache
def _device(card: str, left_out: bool = False, energy: float = 1.0) -> Device:
    device = device_of(rooflab.machine(CARDS[card]), power="burst")
    constants = _of_others(device.constants, card) if left_out else device.constants
    machine = device.machine
    if machine.tdp_w and energy != 1.0:  # less energy: power that lasts for more
        machine = msgspec.structs.replace(machine, tdp_w=machine.tdp_w / energy)
    return dataclasses.replace(device, constants=constants, machine=machine)


# The card of each family whose tables the constants of libraries' kernels are fitted to (`library_kernels.JOBS`).
FITTED_ON = {"ampere": "a100_sxm", "ada": "l40s", "hopper": "h100_sxm", "blackwell": "b200_sxm"}


def _of_others(constants: Constants, card: str) -> Constants:
    """A family's constants without what was fitted to tables of `card`: those of the families it is like or near.

    A card that nothing was fitted to keeps all.
    """
    if FITTED_ON.get(constants.family) != card:
        return constants
    raw = tomllib.loads((FOLDER / f"{constants.family}.toml").read_text(encoding="utf-8"))
    own = {
        f"{topic}.{name}"
        for topic, entries in raw.items()
        if isinstance(entries, dict) and topic != "sources"
        for name, entry in entries.items()
        if entry.get("source") == "library_tables"
    }
    stated = of_libraries(constants.family)
    topics = {name.partition(".")[0] for name in stated}
    kept = {n: each for n, each in constants.values.items() if n not in own and n.partition(".")[0] not in topics}
    like, nearby = raw.get("like"), [*raw.get("near", _NEAREST.get(constants.family, ()))]
    of_like = load_family(like).values if like else {}
    of_like = {n: each for n, each in of_like.items() if n in own and n.partition(".")[0] not in topics}
    of_library: dict[str, Constant] = {}
    while like:  # not by `load_family`: it may be near the family that is left out
        theirs = {name: each for name, each in of_libraries(like).items() if _is_alike(name, constants.family)}
        of_library = moved(theirs, of_mechanisms(like), constants.values) | of_library
        raw = tomllib.loads((FOLDER / f"{like}.toml").read_text(encoding="utf-8"))
        nearby += raw.get("near", ())
        like = raw.get("like")
    known = kept | of_like | {n: each for n, each in of_library.items() if n.partition(".")[0] in topics}
    if constants.family == "hopper":  # XQA's and the masked kernel are compiled from the same source for both
        ours = moved(of_libraries("ampere"), of_mechanisms("ampere"), constants.values)
        known |= {name: each for name, each in ours.items() if name.partition(".")[0] in _AS_AMPERE}
    values = with_near(known, [each for each in nearby if each != constants.family])
    # What the libraries' own code says is no fit.
    values |= {n: e for n, e in stated.items() if n not in own}
    return msgspec.structs.replace(constants, values=with_groups(values))


def _is_alike(name: str, family: str) -> bool:
    """Whether another family's constant is of the same kernel: Blackwell runs no XQA, but what comes before it."""
    return not (family == "blackwell" and name.startswith("attention_trtllm_decode.") and "launch" not in name)


_AS_AMPERE = ("attention_trtllm_decode", "attention_masked_decode")
_NEAREST = {"hopper": ("blackwell", "ampere")}  # what a family that is like no other here would be taken from


FOLDER = Path(rooflab.__file__).parent / "model" / "data"


_RECORDED: list[list[tuple[list[Kernel], Table]]] = []


@contextlib.contextmanager
def recorded() -> Iterator[list[tuple[list[Kernel], Table]]]:
    """While it lasts, layers' kernels are kept and not timed."""
    _RECORDED.append([])
    try:
        yield _RECORDED[-1]
    finally:
        _RECORDED.pop()


def seconds_of(made: list[Kernel], device: Device, rows: int) -> np.ndarray:
    """Seconds of the kernels together, row by row."""
    return sum((each.seconds for each in timed_kernels(made, device, None, rows)), np.zeros(rows))


def timed(made: list[Kernel], table: Table) -> tuple[np.ndarray, np.ndarray]:
    """Seconds of the kernels together, row by row, and the deviation of their logarithm."""
    if _RECORDED:
        _RECORDED[-1].append((made, table))
        return np.ones(len(table.rows)), np.ones(len(table.rows))
    times = timed_kernels(made, table.device, None, len(table.rows))
    seconds = sum((each.seconds for each in times), np.zeros(len(table.rows)))
    spread = sum((each.seconds * each.spread for each in times), np.zeros(len(table.rows)))
    return seconds, spread / seconds


# Host time of an operation that Python launches by itself: between what small eager all-reduces of vLLM on an A100
# (44 us) and on an H100 (24 us), and of SGLang on an H100 (30 us), take. A Triton kernel counts for four: its
# launcher is Python too. Operations of each layer are counted by what the engine's code calls.
CALL_S = 38e-6
TRITON = 4.0


def launched(seconds: np.ndarray, spread: np.ndarray, calls: np.ndarray | float) -> tuple[np.ndarray, np.ndarray]:
    """The later of the device and the host that launches it, call by call, outside a graph."""
    host_s = calls * CALL_S
    return np.maximum(seconds, host_s), np.where(host_s > seconds, 0.3, spread)
