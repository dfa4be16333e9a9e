"""What a machine says twice must agree: data rate × bus with bandwidth, units × clock × rate with peaks.

A catalogue file that contradicts itself does not load. Checks that compare theory with measurement are
left out for a machine that was itself measured, by rooflab or by another tool: there they are `checks` of the
measurement, with a cause.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from rooflab.types.machine import Level, Link, Machine, Rate, is_main_memory
from rooflab.units import iec, si

TOLERANCE = 0.03  # datasheets round: 900 GB/s for 898, 6.0 TB/s for 6.144
_LINK_TOLERANCE = 0.05  # 64 GB/s is printed for the 63.0 that 128b/130b coding leaves of PCIe 5.0 x16
# Bytes a second, one way, of one lane: transfers × coding / 8 (PCI Express Base Specification 6.0,
# section 1.2; 8b/10b to 2.0, 128b/130b to 5.0, 242 of 256 bytes of a FLIT in 6.0).
_PCIE_LANE_BYTES_PER_S = {
    "1": 0.25e9,
    "2": 0.5e9,
    "3": 8e9 * 128 / 130 / 8,
    "4": 16e9 * 128 / 130 / 8,
    "5": 32e9 * 128 / 130 / 8,
    "6": 64e9 * 242 / 256 / 8,
}
_PCIE = re.compile(r"PCIe (\d)(?:\.\d)? x(\d+)", re.IGNORECASE)
_TF32_OF_BF16 = 0.5
_TF32_TOLERANCE = 0.05


def contradictions(machine: Machine) -> tuple[str, ...]:
    """One sentence for each contradiction in `machine`: field, got, expected; empty where it agrees.

    - a level's theoretical bandwidth is transfers_per_s × bus_bits / 8, within 3 %;
    - a rate is units × per_unit_per_clock × clock_hz, within 3 %;
    - one instance of a level holds no less than one of the level before it (registers aside: those of a
      GPU hold more than its L1), and its theoretical bandwidth, at the same scope, is no higher;
    - nothing attained beats theory;
    - on an NVIDIA part the dense tf32 peak is half the dense bf16 peak: another ratio betrays a sparse one;
    - a PCIe link has the rate that its name says, one way;
    - no level, link or theoretical peak is given twice.
    """
    sentences = [*_products(machine), *_buses(machine.levels), *_repeated(machine), *_links(machine.links)]
    if machine.source.kind not in ("measured", "reported"):
        sentences += [*_order(machine.levels), *_attained(machine), *_sparse(machine)]
    return tuple(sentences)


def rates(machine: Machine) -> Iterator[tuple[str, Rate]]:
    """Every rate of `machine` and its field path."""
    for index, level in enumerate(machine.levels):
        yield from ((f"levels[{index}].rates[{at}]", rate) for at, rate in enumerate(level.rates))
    yield from ((f"peaks[{at}]", rate) for at, rate in enumerate(machine.peaks))
    yield from ((f"clocks[{at}]", rate) for at, rate in enumerate(machine.clocks))


def _products(machine: Machine) -> Iterator[str]:
    for at, rate in rates(machine):
        if rate.units is None or rate.per_unit_per_clock is None or rate.clock_hz is None:
            continue
        expected = rate.units * rate.per_unit_per_clock * rate.clock_hz
        if _differ(rate.value, expected, TOLERANCE):
            formula = f"{rate.units} × {rate.per_unit_per_clock:g} per clock × {si(rate.clock_hz, 'Hz', 4)}"
            yield _sentence(f"{at}.value", _speed(rate.value, rate), f"{_speed(expected, rate)} = {formula}")


def _buses(levels: tuple[Level, ...]) -> Iterator[str]:
    for index, level in enumerate(levels):
        rate = level.rate(basis="theoretical")
        if level.transfers_per_s is None or level.bus_bits is None or rate is None:
            continue
        expected = level.transfers_per_s * level.bus_bits / 8
        if _differ(rate.value, expected, TOLERANCE):
            formula = f"{si(level.transfers_per_s, 'T/s', 4)} × {level.bus_bits} bit / 8"
            at = f"levels[{index}].rates[{level.rates.index(rate)}].value"
            yield _sentence(at, _speed(rate.value, rate), f"{_speed(expected, rate)} = {formula}")


def _order(levels: tuple[Level, ...]) -> Iterator[str]:
    main = next((at for at, level in enumerate(levels) if is_main_memory(level)), len(levels))
    sized = [
        (at, level.name, level.capacity_bytes)
        for at, level in enumerate(levels[: main + 1])  # a disk may well be smaller than main memory
        if level.capacity_bytes is not None and level.name != "registers"
    ]
    for (_, name, near_bytes), (at, _, far_bytes) in pairwise(sized):
        if far_bytes < near_bytes:
            expected = f"no less than the {iec(near_bytes)} of {name}, which is nearer"
            yield _sentence(f"levels[{at}].capacity_bytes", iec(far_bytes), expected)
    timed = [(at, level.name, level.rate(basis="theoretical")) for at, level in enumerate(levels)]
    theoretical = [(at, name, rate) for at, name, rate in timed if rate is not None]
    for (_, name, near), (at, _, far) in pairwise(theoretical):
        if far.value > near.value * (1 + TOLERANCE):
            expected = f"no more than the {_speed(near.value, near)} of {name}, which is nearer"
            yield _sentence(f"levels[{at}].rates", _speed(far.value, far), expected)


def _attained(machine: Machine) -> Iterator[str]:
    for index, level in enumerate(machine.levels):
        for at, rate in enumerate(level.rates):
            attained = rate.basis == "attained" and rate.scope == "all" and rate.per_s == "byte"
            theory = level.rate(rate.what, basis="theoretical") or level.rate("any", basis="theoretical")
            if theory and attained and rate.value > theory.value * (1 + TOLERANCE):
                expected = f"no more than the theoretical {_speed(theory.value, theory)}"
                yield _sentence(f"levels[{index}].rates[{at}].value", _speed(rate.value, rate), expected)
    for at, rate in enumerate(machine.peaks):
        if rate.basis != "attained" or rate.dtype is None:
            continue
        theory = machine.peak(rate.dtype, engine=rate.engine, scope=rate.scope, basis="theoretical")
        if theory and theory.per_s == rate.per_s and rate.value > theory.value * (1 + TOLERANCE):
            expected = f"no more than the theoretical {_speed(theory.value, theory)}"
            yield _sentence(f"peaks[{at}].value", _speed(rate.value, rate), expected)


def _sparse(machine: Machine) -> Iterator[str]:
    """NVIDIA's tensor cores, from A100 to B300, do tf32 at half the bf16 rate (Trainium2 at the same rate)."""
    dense = {
        rate.dtype: (at, rate)
        for at, rate in enumerate(machine.peaks if machine.vendor == "NVIDIA" else ())
        if rate.engine == "matrix" and rate.basis == "theoretical" and rate.accumulate in (None, "fp32")
    }
    if "tf32" in dense and "bf16" in dense:
        at, tf32 = dense["tf32"]
        expected = dense["bf16"][1].value * _TF32_OF_BF16
        if _differ(tf32.value, expected, _TF32_TOLERANCE):
            text = f"{_speed(expected, tf32)}, half of bf16; is one of the two with sparsity?"
            yield _sentence(f"peaks[{at}].value", _speed(tf32.value, tf32), text)


def _links(links: tuple[Link, ...]) -> Iterator[str]:
    for at, link in enumerate(links):
        named = _PCIE.search(link.name)
        if named is None or link.each_way_bytes_per_s is None or named[1] not in _PCIE_LANE_BYTES_PER_S:
            continue
        expected = _PCIE_LANE_BYTES_PER_S[named[1]] * int(named[2])
        if _differ(link.each_way_bytes_per_s, expected, _LINK_TOLERANCE):
            text = f"{si(expected, 'B/s', 4)} one way, as PCIe {named[1]} with {named[2]} lanes has"
            yield _sentence(f"links[{at}].each_way_bytes_per_s", si(link.each_way_bytes_per_s, "B/s", 4), text)


def _repeated(machine: Machine) -> Iterator[str]:
    for field, names in (
        ("levels", [level.name for level in machine.levels]),
        ("links", [f"{link.name} to {link.to}" for link in machine.links]),
        ("peaks", [_peak_name(rate) for rate in machine.peaks if rate.basis == "theoretical"]),
    ):
        for name in dict.fromkeys(name for name in names if names.count(name) > 1):
            yield _sentence(field, f"{name} {names.count(name)} times", "each once")
    memories = [level.name for level in machine.levels if is_main_memory(level)]
    if len(memories) > 1:
        yield _sentence("levels", f"the main memories {', '.join(memories)}", "one")


def _peak_name(rate: Rate) -> str:
    parts = (rate.engine, rate.dtype, rate.what, rate.accumulate and f"accumulated in {rate.accumulate}")
    return " ".join(part for part in (*parts, f"scope {rate.scope}") if part)


def _differ(got: float, expected: float, tolerance: float) -> bool:
    return abs(got - expected) > tolerance * expected


def _speed(value: float, rate: Rate) -> str:
    unit = {"byte": "B/s", "flop": "FLOP/s", "op": "OP/s", "cycle": "Hz"}.get(rate.per_s, f"{rate.per_s}/s")
    return si(value, unit, 4)


def _sentence(at: str, got: str, expected: str) -> str:
    return f"{at}: got {got}, expected {expected}"
