"""What would help, as cards: the change, what it would save, why, and how it is done."""

from __future__ import annotations

import json
from typing import Any

from rooflab.types.advice import Advice
from rooflab.types.report import Report
from rooflab.units import duration
from rooflab.views.common.advice import asks


def cards(report: Report) -> dict[str, Any] | None:
    """The cards of `report.advice`, those that go together, what was not asked; None without advice."""
    advice = report.advice
    if advice is None:
        return None
    together = ""
    if advice.together and advice.together_s is not None and report.time_s:
        names = ", ".join(advice.together)
        saved = report.time_s - advice.together_s
        together = (
            f"Together ({names}): {duration(report.time_s)} becomes {duration(advice.together_s)}, "
            f"{saved / report.time_s * 100:.0f} % less; gains do not add."
        )
    return {
        "cards": [_card(one) for one in advice.each],
        "trades": [_card(one) for one in advice.trades],
        "together": together,
        "unasked": advice.unasked,
    }


def _card(one: Advice) -> dict[str, Any]:
    return {
        "change": one.change,
        "gain": f"saves {_signed(one.gain_s)} ({one.gain_share * 100:.0f} %)",
        "becomes": (
            f"{duration(one.before_s)} becomes {duration(one.after_s)}: it saves {_signed(one.gain_low_s)} to "
            f"{_signed(one.gain_high_s)} in about four of five cases."
        ),
        "evidence": one.evidence,
        "code": one.code,
        "effort": asks(one),
        "after": f"once done: {', '.join(one.after)}" if one.after else "",
        "page": one.page,
        "rows": json.dumps(one.rows) if one.rows else "",
    }


def _signed(seconds: float) -> str:
    return duration(seconds) if seconds >= 0 else f"−{duration(-seconds)}"
