"""A measured time as suspects see it: what was timed, as it was predicted, and how to predict it again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgspec

from rooflab.errors import RooflabError
from rooflab.model.program import forecast
from rooflab.types.machine import Machine
from rooflab.types.own_time import Suspect
from rooflab.types.prediction import Prediction
from rooflab.types.report import Report
from rooflab.types.setting import Setting
from rooflab.types.work import Graph
from rooflab.work import counting


class Case(NamedTuple):
    """Operations that were timed together.

    Attributes:
        report: of these operations alone, predicted.
        graph: the same as captured, before a compiler fused them.
        machine, setting: that they were predicted on.
        time_s: measured.
        prediction: as it is said to run.
    """

    report: Report
    graph: Graph
    machine: Machine
    setting: Setting
    time_s: float
    prediction: Prediction

    def again(
        self, *, graph: Graph | None = None, machine: Machine | None = None, **setting: Any
    ) -> Prediction | None:
        """The prediction with another graph, machine or setting; None where a part cannot be predicted so."""
        report = self.report
        if graph is not None:
            report = counting.report(graph, report.name, report.environment)
        changed = msgspec.structs.replace(self.setting, **setting)
        try:
            return forecast.predict_on(report, machine or self.machine, changed).prediction
        except RooflabError:
            return None  # the machine lacks a number that this needs

    def suspect(
        self, rule: str, says: str, hint: str, predicted: Prediction | None, more_s: tuple[float, float] = (0, 0)
    ) -> Iterator[Suspect]:
        """What the measured time is to that prediction, with `more_s` (least, most) beside it."""
        if predicted is not None:
            low_s, high_s = predicted.low_s + more_s[0], predicted.high_s + more_s[1]
            time_s = predicted.time_s + (more_s[0] * more_s[1]) ** 0.5
            yield self.bar(rule, says, hint, time_s, low_s, high_s)

    def bar(self, rule: str, says: str, hint: str, time_s: float, low_s: float, high_s: float) -> Suspect:
        """The suspect whose time lies between `low_s` and `high_s`."""
        holds = low_s <= self.time_s <= high_s
        return Suspect(rule=rule, says=says, hint=hint, time_s=time_s, low_s=low_s, high_s=high_s, holds=holds)


class Rule(NamedTuple):
    """What may be otherwise than was said: its name, the side on which it lies, and the function that looks.

    Attributes:
        side: where the measured time lies: "slower" or "faster" than predicted, or "both".
        of_program: whether it is of how the program ran; else of how it was timed or described, which only a
            number that somebody brings can have wrong.
    """

    name: str
    side: str
    look: Callable[[Case], Iterator[Suspect]]
    of_program: bool = False
