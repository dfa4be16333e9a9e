"""The rule about machines: which of the catalogue would help, and why a bigger peak alone would not."""

from __future__ import annotations

import msgspec

from rooflab.errors import RooflabError
from rooflab.machines import catalog
from rooflab.model.roofline.per_operation import memory_bandwidth, peak_of
from rooflab.remedies.case import Case, Change, Unasked, memory_capacity
from rooflab.types.machine import Machine
from rooflab.types.setting import Setting
from rooflab.units import percent, si

_ASKED = 3  # machines that are predicted: those with the most of what binds
_LITTLE = 0.05  # of the time: what takes less off is said not to help
_KNOBS = (("bandwidth", "twice the memory bandwidth"), ("compute", "twice the arithmetic peaks"))


def machine(case: Case) -> Change | Unasked | None:
    """The machine of the catalogue on which this program is predicted to be fastest, and what it has more of."""
    if case.machine.kind not in ("gpu", "cpu") or not case.time_s:
        return None
    if case.graph.framework == "hand":
        return Unasked("machine", "one operation alone chooses none (several: --machine a,b)")
    needed = case.report.memory.most_bytes
    candidates = [each for each in _alike(case.machine) if needed <= memory_capacity(each)]
    best: tuple[float, Machine] | None = None
    for each in _by_what_binds(case, candidates)[:_ASKED]:
        try:
            time_s = case.timed(case.report, each, setting_of_another(case.setting)).time_s
        except RooflabError:
            continue  # it lacks a number that predictions need: no candidate
        if time_s is not None and (best is None or time_s < best[0]):
            best = time_s, each
    if best is None or best[0] >= case.time_s:
        return None
    chosen = best[1]
    return Change(
        rule="machine",
        text=f"Run it on {chosen.name}",
        evidence=(*_sensitivity(case), *_differences(case.machine, chosen)),
        effort="hardware",
        price="hardware",
        machine=chosen,
        forecast=case.forecast(case.report, chosen, setting_of_another(case.setting)),
        keywords={"machine": chosen.name},
    )


def setting_of_another(setting: Setting) -> Setting:
    """`setting` on another machine: a host's own time, what-ifs and constants of a family do not go with it."""
    return msgspec.structs.replace(setting, dispatch_s=None, what_if={}, constants=None)


def _alike(own: Machine) -> list[Machine]:
    """The machines of the catalogue of that sort, but itself."""
    stems = [entry.stem for entry in catalog.entries() if entry.kind == own.kind and entry.name != own.name]
    return [catalog.named(stem) for stem in stems]


def _by_what_binds(case: Case, machines: list[Machine]) -> list[Machine]:
    """`machines` with the most of what the program spends its time on first."""
    whole = case.report.prediction or case.report.predicted_part
    if whole is None:
        return []
    computes = whole.compute_s / ((whole.compute_s + max(whole.memory_s.values(), default=0.0)) or 1.0)
    own = _numbers(case, case.machine)
    ranked = []
    for each in machines:
        other = _numbers(case, each)
        if None in (*own, *other):
            continue
        slower = computes * own[1] / other[1] + (1 - computes) * own[0] / other[0]  # type: ignore[operator]
        ranked.append((slower, each.name, each))
    return [each for _, _, each in sorted(ranked, key=lambda item: item[:2])]


def _numbers(case: Case, of: Machine) -> tuple[float | None, float | None]:
    """Bandwidth of the memory, and the peak for most of the program's FLOP."""
    memory, main = memory_bandwidth(of), next(iter(case.report.flop_by), None)
    peak = None if main is None else peak_of(of, main.engine, main.dtype)[0]
    return (None if memory is None else memory[1].value), (None if peak is None else peak.value)


def _sensitivity(case: Case) -> tuple[str, ...]:
    """What twice the bandwidth and twice the peaks would gain, each alone."""
    said, off = [], []
    for knob, text in _KNOBS:
        factors = {**case.setting.what_if, knob: 2.0 * case.setting.what_if.get(knob, 1.0)}
        other = case.timed(case.report, case.machine, msgspec.structs.replace(case.setting, what_if=factors))
        time_s = other.time_at_least_s
        if time_s:
            off.append(1 - time_s / case.time_s)
            said.append(f"{text} would take {percent(off[-1])} off")
    if len(off) == len(_KNOBS) and off[1] < _LITTLE <= off[0]:
        said.append("so a bigger peak alone would not help")
    if len(off) == len(_KNOBS) and max(off) < _LITTLE:
        said.append("so neither alone would help: starting kernels and waiting takes the time")
    return (", ".join(said),) if said else ()


def _differences(own: Machine, other: Machine) -> tuple[str, ...]:
    parts = []
    for each in (own, other):
        memory = memory_bandwidth(each)
        if memory is not None:
            parts.append(f"{each.name}: {memory[0]} {si(memory[1].value, 'B/s')}")
    return ("; ".join(parts),) if len(parts) == 2 else ()
