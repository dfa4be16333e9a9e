"""The suspects in the order in which they are asked, and what a measured time makes of them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from rooflab.model.program import forecast
from rooflab.model.roofline.timed import attained
from rooflab.model.suspects import faster, slower
from rooflab.model.suspects.case import Case, Rule
from rooflab.types.own_time import OwnTime, Suspect, Verdict
from rooflab.types.prediction import Prediction
from rooflab.types.report import Report
from rooflab.work import counting

RULES = (
    Rule("cold caches", "slower", slower.cold_caches, of_program=True),
    Rule("wider format", "slower", slower.wider_format),
    Rule("no tensor cores", "slower", slower.no_matrix_engine),
    Rule("one thread", "slower", slower.one_thread, of_program=True),
    Rule("dispatch", "slower", slower.dispatch, of_program=True),
    Rule("host copies", "slower", slower.host_copies),
    Rule("other layout", "slower", slower.strided),
    Rule("clock", "slower", slower.lower_clock, of_program=True),
    Rule("remote memory", "slower", slower.remote_memory, of_program=True),
    Rule("no synchronisation", "faster", faster.no_synchronisation),
    Rule("data in a cache", "faster", faster.warm_caches, of_program=True),
    Rule("narrower format", "faster", faster.narrower_format),
    Rule("causal mask", "faster", faster.causal),
    Rule("no dispatch", "faster", faster.no_dispatch),
    Rule("calls together", "slower", faster.calls_together),
    Rule("other unit", "both", faster.wrong_unit),
)
# Asked where none of those explains the time: with enough of them some fit by chance.
LAST = (
    Rule("two at once", "slower", slower.together, of_program=True),
    Rule("first call", "slower", slower.first_call),
    Rule("other machine", "both", faster.other_machine),
)
_FAR = 30.0  # a suspect that is as many times off as this says nothing
_DOUBT = 1.02  # clocks agree to that: a time so little under the floor is at it


def own_time(
    report: Report, name: str, rows: Sequence[int], time_s: float, explain: bool = True, here: bool = False
) -> OwnTime:
    """`time_s`, measured of those rows of `report` together, held against its prediction.

    Args:
        report: predicted on a machine.
        name: of what was timed.
        rows: their numbers; all of them for the program.
        time_s: seconds.
        explain: whether a time outside its bar is asked what would explain it.
        here: whether it was taken here by rooflab: then only what may be otherwise in the program is asked.
    """
    whole = len(rows) == len(report.rows)
    part = report if whole else _part(report, rows)
    prediction = report.prediction if whole else _prediction(report, part, rows)
    roofs = attained(msgspec.structs.replace(part, measured_s=time_s))
    nearest = max(roofs, key=lambda one: one.share, default=None)
    told = OwnTime(
        name=name,
        rows=tuple(rows),
        time_s=time_s,
        roof=None if nearest is None else nearest.roof,
        of_roof=None if nearest is None else nearest.share,
    )
    if prediction is None or report.machine is None or report.setting is None:
        return told
    told = msgspec.structs.replace(
        told,
        predicted_s=prediction.time_s,
        low_s=prediction.low_s,
        high_s=prediction.high_s,
        floor_s=prediction.floor_s,
        verdict=verdict(time_s, prediction),
    )
    if told.verdict == "inside" or not explain:
        return told
    graph = part.graph if part.captured is None or not whole else part.captured
    case = Case(part, graph, report.machine, report.setting, time_s, prediction)
    return msgspec.structs.replace(told, suspects=suspects(case, here))


def verdict(time_s: float, prediction: Prediction) -> Verdict:
    """Where `time_s` lies beside what was predicted."""
    if time_s * _DOUBT < prediction.floor_s:
        return "below floor"
    if time_s < prediction.low_s:
        return "faster"
    return "slower" if time_s > prediction.high_s else "inside"


def suspects(case: Case, here: bool = False) -> tuple[Suspect, ...]:
    """What the rules of its side say: what would explain it in their order, then the others, nearest first."""
    side = "slower" if case.time_s > case.prediction.high_s else "faster"
    found: list[Suspect] = []
    for rules in (RULES, LAST):
        asked = [rule for rule in rules if rule.side in (side, "both") and (rule.of_program or not here)]
        if not any(one.holds for one in found):
            found += [one for rule in asked for one in rule.look(case)]
    # What changes nothing here is no suspect.
    worth = [one for one in found if one.holds or _moves(one, case)]
    return tuple(sorted(worth, key=lambda one: (not one.holds, 0.0 if one.holds else _off(one, case))))


def _moves(one: Suspect, case: Case) -> bool:
    change = one.time_s / case.prediction.time_s
    towards = change > 1.01 if case.time_s > case.prediction.time_s else change < 0.99
    return towards and _off(one, case) < math.log(_FAR)


def _off(one: Suspect, case: Case) -> float:
    return abs(math.log(one.time_s / case.time_s)) if one.time_s > 0 else math.inf


def _part(report: Report, rows: Sequence[int]) -> Report:
    """The report of those rows alone, predicted nowhere."""
    ops = [report.rows[number].op for number in rows]
    used = dict.fromkeys(number for op in ops for number in (*op.inputs, *op.outputs))
    place = {number: new for new, number in enumerate(used)}
    renamed = tuple(
        msgspec.structs.replace(
            op,
            inputs=tuple(place[number] for number in op.inputs),
            outputs=tuple(place[number] for number in op.outputs),
        )
        for op in ops
    )
    tensors = tuple(report.graph.tensors[number] for number in used)
    graph = msgspec.structs.replace(report.graph, ops=renamed, tensors=tensors, unknown=())
    part = counting.report(graph, report.name, report.environment)
    # Kernels of a compiler stay as it left them.
    captured = graph if report.captured is not None else None
    return msgspec.structs.replace(part, machine=report.machine, setting=report.setting, captured=captured)


def _prediction(report: Report, part: Report, rows: Sequence[int]) -> Prediction | None:
    """Of one row, its own; of several, of these alone."""
    if len(rows) == 1:
        return report.rows[rows[0]].prediction
    if report.machine is None or report.setting is None:
        return None
    return forecast.predict_on(part, report.machine, report.setting).prediction
