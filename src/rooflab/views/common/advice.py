"""What would help, in words: a line for each change with what it saves, how surely, and what it asks for."""

from __future__ import annotations

from rooflab.types.advice import Advice, Advices
from rooflab.units import duration
from rooflab.views.common.table import Table

TOP = 3  # changes in the terminal, where no number is asked for
_EFFORTS = {"setting": "a setting", "line": "a line of code", "rewrite": "a rewrite", "hardware": "other hardware"}
_PRICES = {
    "nothing": "",
    "numbers": "results are rounded more",
    "latency": "each call takes longer",
    "hardware": "",
}


def lines(advice: Advices | None, top: int | None = TOP) -> tuple[str, ...]:
    """The `top` changes of either kind, all together, and what could not be asked; none where nothing was asked.

    Args:
        advice: of a result.
        top: changes without a price, and as many with one; None for all, 0 for none.
    """
    if advice is None or top == 0:
        return ()
    free, trades = advice.each[:top], advice.trades[:top]
    said = [line(number, one) for number, one in enumerate(free, 1)]
    if advice.together_s is not None and free:
        said.append(together(advice))
    said += [line(number, one) for number, one in enumerate(trades, len(free) + 1)]
    more = len(advice.each) + len(advice.trades) - len(free) - len(trades)
    if more:
        said.append(f"{more} more: --advice all")
    if not advice.each and not advice.trades:
        said.append("Nothing was found that would save 2 % or more.")
    return (*said, *(f"Not asked: {reason}." for reason in advice.unasked))


def line(number: int, one: Advice) -> str:
    """One change, with what it saves, its bar, and what it asks for."""
    after = f" once {' and '.join(one.after)} is done" if one.after else ""
    return f"{number}. {one.change}: saves {saving(one)}{after} ({asks(one)})."


def asks(one: Advice) -> str:
    """What a change asks for: the effort, and its price where it has one."""
    return ", ".join(filter(None, (_EFFORTS[one.effort], _PRICES[one.price])))


def saving(one: Advice) -> str:
    """What a change saves: seconds, share, and the share's bar."""
    low, high = (each / one.before_s if one.before_s else 0.0 for each in (one.gain_low_s, one.gain_high_s))
    return f"{duration(one.gain_s)}, {one.gain_share:.0%} ({low:.0%} to {high:.0%})"


def together(advice: Advices) -> str:
    """The time with all that go together, in one sentence."""
    before_s = advice.each[0].before_s
    assert advice.together_s is not None
    share = 1 - advice.together_s / before_s if before_s else 0.0
    return f"Together ({', '.join(advice.together)}): {duration(advice.together_s)}, {share:.0%} less."


def cards(advice: Advices | None) -> list[dict[str, object]]:
    """What the cards of `common/advice.html.j2` say, those without a price first; none where nothing was asked."""
    if advice is None:
        return []
    return [
        {
            "change": one.change,
            "gain": f"saves {saving(one)}",
            "becomes": f"{duration(one.before_s)} becomes {duration(one.after_s)}",
            "evidence": one.evidence,
            "asks": asks(one),
            "code": one.code,
        }
        for one in (*advice.each, *advice.trades)
    ]


def beside(advice: Advices | None) -> tuple[str, ...]:
    """What stands under the cards: all together, that nothing was found, what was not asked."""
    if advice is None:
        return ()
    said = [together(advice)] if advice.together_s is not None and advice.each else []
    if not advice.each and not advice.trades:
        said.append("Nothing was found that would save 2 % or more.")
    return (*said, *(f"Not asked: {reason}." for reason in advice.unasked))


def short(advice: Advices | None) -> Table:
    """All changes in two columns, which fit a terminal too; no row where nothing was found."""
    changes = () if advice is None else (*advice.each, *advice.trades)
    rows = tuple((saving(one), f"{one.change} ({asks(one)}): {'; '.join(one.evidence)}") for one in changes)
    note = "Saves: of the whole run, with what holds in about four of five cases."
    if advice is not None and advice.together_s is not None and advice.each:
        note = f"{note} {together(advice)}"
    return Table("What would help", ("saves", "change: why"), rows, words=2, note=note)
