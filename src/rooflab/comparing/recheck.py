"""Earlier advice held against what became of it: what was predicted to go, and what went."""

from __future__ import annotations

from typing import Any, Literal

from rooflab.types.advice import Advice, Advices
from rooflab.types.comparison import Amount, Followed

Status = Literal["made", "not made", "unknown"]
# Modes that a program runs in once the change is made; a compiler starts its kernels without the host too.
_MODES = {"cuda-graph": ("graph", "compiled"), "compile": ("compiled",)}
_STILL = 0.5  # of its gain: a change that is advised again with more than that has not been made


def recheck(base: Any, other: Any, time: Amount | None) -> tuple[Followed, ...]:
    """Each advice of `base` beside what `other` shows of it; none where it has none.

    A change counts as made where the other result is not advised to make it any more: its cause is gone.

    Args:
        base, other: results; those without advice say nothing.
        time: of both, divided alike, in which the whole run is: that which the advice was given for.
    """
    before = getattr(base, "advice", None)
    if not isinstance(before, Advices):
        return ()
    # What has no time promised none.
    timed = [one for one in (*before.each, *before.trades) if one.gain_s is not None]
    rows: list[tuple[Advice, Status]] = [(one, _status(one, base, other)) for one in timed]
    saved, made = _saved(time), [one.rule for one, status in rows if status == "made"]
    # What each of several changes saved is not told apart.
    followed = [_followed(one, status, saved if made == [one.rule] else None) for one, status in rows]
    if len(made) > 1 and set(made) == set(before.together) and before.together_s is not None:
        before_s = before.each[0].before_s or 0.0
        followed.append(
            Followed(
                rule=" + ".join(before.together),
                change="all of them",
                status="made",
                before_s=before_s,
                predicted_s=before_s - before.together_s,
                obtained_share=saved,
            )
        )
    return tuple(followed)


def _followed(one: Advice, status: Status, saved: float | None) -> Followed:
    return Followed(
        rule=one.rule,
        change=one.change,
        status=status,
        before_s=one.before_s or 0.0,
        predicted_s=one.gain_s or 0.0,
        low_s=one.gain_low_s,
        high_s=one.gain_high_s,
        obtained_share=saved,
        after=one.after,
    )


def _status(one: Advice, base: Any, other: Any) -> Status:
    """Whether a change was made: by the setting where it is one, else by whether it is advised still."""
    if type(base) is not type(other) or base == other:
        return "not made" if base == other else "unknown"
    wanted, setting = _MODES.get(one.rule), getattr(other, "setting", None)
    if wanted is not None and setting is not None:
        return "made" if setting.mode in wanted else "not made"
    after = other.advice
    if not isinstance(after, Advices) or any(each.startswith((f"{one.rule}:", "all:")) for each in after.unasked):
        return "unknown"
    again = next((each for each in (*after.each, *after.trades) if each.rule == one.rule), None)
    still = 0.0 if again is None else again.gain_share or 0.0
    return "made" if again is None or still < _STILL * (one.gain_share or 0.0) else "not made"


def _saved(time: Amount | None) -> float | None:
    """What the whole saved, as a share of the base's time."""
    share = None if time is None else time.relative
    return None if share is None else -share
