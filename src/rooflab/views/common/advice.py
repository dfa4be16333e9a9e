"""What would help, in words: a line for each change with what it saves, how surely, and what it asks for."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from rooflab.remedies import PAGE
from rooflab.remedies.explained import explained
from rooflab.types.advice import Advice, Advices
from rooflab.units import duration, percent, si
from rooflab.views.common.console import unbroken
from rooflab.views.common.table import UNKNOWN, Table

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
    if free and together(advice):
        said.append(together(advice))
    said += [line(number, one) for number, one in enumerate(trades, len(free) + 1)]
    more = len(advice.each) + len(advice.trades) - len(free) - len(trades)
    if more:
        said.append(f"{more} more: --advice all")
    said += [nothing(advice)] if nothing(advice) else []
    return (*said, *(f"Not asked: {reason}." for reason in advice.unasked))


def line(number: int, one: Advice) -> str:
    """One change, with what it saves, its bar, and what it asks for."""
    after = once(one.after)
    return f"{number}. {one.change}: saves {saving(one)}{after} ({asks(one)})."


def asks(one: Advice) -> str:
    """What a change asks for: the effort, its price where it has one, and whether it may lose."""
    loses = "may lose" if one.gain_low_s is not None and one.gain_low_s < 0 else ""
    return ", ".join(filter(None, (_EFFORTS[one.effort], _PRICES[one.price], loses)))


def saving(one: Advice) -> str:
    """What a change saves: seconds, share, and the share's bar; bytes where a simulation counted them."""
    said = []
    if one.gain_s is not None and one.gain_share is not None:
        said.append(f"{_signed(one.gain_s)}, {percent(one.gain_share)}{_bar(one)}")
    if one.saved_bytes is not None:
        said.append(f"{si(one.saved_bytes, 'B')} of {si(one.before_bytes, 'B')} {one.moved}".rstrip())
    return "; ".join(said) or UNKNOWN


def _bar(one: Advice) -> str:
    if one.gain_low_s is None or one.gain_high_s is None or not one.before_s:
        return ""
    return f" ({percent(one.gain_low_s / one.before_s)} to {percent(one.gain_high_s / one.before_s)})"


def _signed(seconds: float) -> str:
    return duration(seconds) if seconds >= 0 else f"−{duration(-seconds)}"


def together(advice: Advices) -> str:
    """The time with all that go together, in one sentence; nothing where they were not asked together."""
    before_s = advice.each[0].before_s if advice.each else None
    if advice.together_s is None or not before_s:
        return ""
    names, share = ", ".join(advice.together), 1 - advice.together_s / before_s
    times = f"{duration(before_s)} becomes {duration(advice.together_s)}"
    return f"Together ({names}): {times}, {percent(share)} less; gains do not add."


def nothing(advice: Advices) -> str:
    """That nothing was found, where that is so."""
    return "" if advice.each or advice.trades else "Nothing was found that would save 2 % or more."


def said(advice: Advices | None) -> Advices | None:
    """`advice` where it says something, for results of which most need none."""
    return advice if advice is not None and (advice.each or advice.trades or advice.unasked) else None


class Cards(NamedTuple):
    """What `common/advice.html.j2` shows.

    Attributes:
        cards: changes after which the same work gives the same results.
        trades: those with a price.
        notes: sentences under the cards: all together, that nothing was found.
        unasked: what could not be asked, and why.
        where: the machine, where a page is of several.
    """

    cards: list[dict[str, Any]]
    trades: list[dict[str, Any]]
    notes: list[str]
    unasked: tuple[str, ...]
    where: str = ""


def cards(advice: Advices | None, where: str = "") -> Cards | None:
    """The cards of a page; None where nothing was asked."""
    if advice is None:
        return None
    free = [_card(one, _overlaps(one, advice)) for one in advice.each]
    trades = [_card(one) for one in advice.trades]
    notes = [line for line in (together(advice), nothing(advice)) if line]
    return Cards(free, trades, notes, advice.unasked, where)


def _overlaps(one: Advice, advice: Advices) -> str:
    """That a card's gain is not added to another's, and what both bring; empty where it stands alone."""
    by_rule = {each.rule: (number, each) for number, each in enumerate(advice.each, 1)}
    timed = [each for each in advice.each if each.after_s is not None]
    if len(timed) < 2 or one.after_s is None or len(by_rule) < len(advice.each):
        return ""
    other = by_rule.get({"compile": "cuda-graph", "cuda-graph": "compile"}.get(one.rule, ""))
    if other is not None:
        # A compiled program is predicted without calls of the host, as "reduce-overhead" runs it.
        number, _ = other
        both = by_rule["compile"][1].after_s
        return f"Overlaps with {number}: compiling so records the graph too. Both together: {duration(both)}."
    if one.rule in advice.together and advice.together_s is not None:
        numbers = ", ".join(str(by_rule[rule][0]) for rule in advice.together if rule in by_rule)
        return f"Gains do not add: {numbers} together make it {duration(advice.together_s)}."
    return "By itself: its gain is not added to those of the other cards."


def _card(one: Advice, overlaps: str = "") -> dict[str, Any]:
    times = ""
    if one.before_s is not None and one.after_s is not None:
        times = f"{duration(one.before_s)} becomes {duration(one.after_s)}"
    if times and one.gain_low_s is not None and one.gain_high_s is not None:
        low, high = _signed(one.gain_low_s), _signed(one.gain_high_s)
        how = "at least and at most" if one.bounds else "in about four of five cases"
        times = f"{times}: it saves {low} to {high} {how}."
    return {
        "change": one.change,
        "gain": unbroken(f"saves {saving(one)}"),
        "becomes": unbroken(times),
        "overlaps": unbroken(overlaps),
        "evidence": [unbroken(line) for line in one.evidence],
        "asks": asks(one),
        "code": one.code,
        "after": f"once done: {', '.join(one.after)}" if one.after else "",
        "page": PAGE + one.page.partition("#")[2] if one.page else "",
        "explained": [_paragraph(text) for text in explained(one.rule)],
        "rows": json.dumps(one.rows) if one.rows else "",
    }


def _paragraph(text: str) -> Any:
    """A paragraph of the docs as a page has it: of a link its words stay, as the docs are elsewhere."""
    import markupsafe

    plain = _LINKED.sub(r"\1", str(markupsafe.escape(text)))  # escaped before
    return markupsafe.Markup(_STRONG.sub(r"<strong>\1</strong>", _CODE.sub(r"<code>\1</code>", plain)))


_LINKED = re.compile(r"\[([^\[\]]+)\]\([^()\s]+\)")
_CODE = re.compile(r"`([^`]+)`")
_STRONG = re.compile(r"\*\*([^*]+)\*\*")


def short(advice: Advices | None, top: int | None = None) -> Table:
    """Changes in two columns, which fit a terminal too; no row where nothing was found.

    Args:
        advice: of a result.
        top: changes without a price, and as many with one; None for all, 0 for none.
    """
    each, trades = ((), ()) if advice is None else (advice.each, advice.trades)
    changes = (*each[:top], *trades[:top])
    rows = tuple((saving(one), f"{one.change} ({asks(one)}): {'; '.join(one.evidence)}") for one in changes)
    timed = any(one.gain_low_s is not None for one in changes)
    note = "Saves: of the whole run, with what holds in about four of five cases." if timed else ""
    if advice is not None:
        note = f"{note} {together(advice)}".strip()
    more = len(each) + len(trades) - len(changes)
    if more and changes:
        note = f"{note} {more} more: --advice all".strip()
    return Table("What would help", ("saves", "change: why"), rows, words=2, note=note)


def once(after: tuple[str, ...]) -> str:
    """Which changes are taken to be made before, as it follows a share of the time that they leave."""
    return f" once {' and '.join(after)} {'is' if len(after) == 1 else 'are'} done" if after else ""
