"""What would help: changes worth making, each with the time that was predicted for the changed work."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

Effort = Literal["setting", "line", "rewrite", "hardware"]
Price = Literal["nothing", "numbers", "latency", "hardware"]


class Advice(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One change, and what it would save: found by predicting the changed work again, never by a rule of thumb.

    Attributes:
        rule: which rule gave it, in a word ("fuse", "cuda-graph"): its name in the docs' table of remedies.
        change: what to do, in one sentence.
        evidence: what in the result says so, a sentence each, with its numbers.
        rows: numbers of the result's rows that it concerns; none where it concerns the whole.
        before_s: the predicted time as it is; None where no machine says how fast its parts are.
        after_s: the predicted time with the change, None where `before_s` is.
        gain_low_s: the least that it would save in about four of five cases; below zero where it may lose.
        gain_high_s: the most that it would save in about four of five cases.
        bounds: whether these two are not of four of five cases, but what can be at least and at most, as where
            levels of memory may work side by side or in turn.
        before_bytes: of a simulation, the bytes that the change is about, as they are: counted exactly.
        after_bytes: the same with the change, counted again.
        moved: which bytes these are ("between L2 and memory").
        price: what it asks for beside the effort: "nothing", other "numbers" (results are rounded more), "latency"
            (more work in each call), other "hardware".
        effort: a "setting" or flag, a "line" of code, a "rewrite" of a function, other "hardware".
        code: how it is done, a few lines, where they can be given.
        after: rules of the changes that are taken to be made before this one: `before_s` is with them.
        page: of the docs, with the section ("…/remedies.md#fuse").
        changes: what was predicted again, as the keywords of `analyze` where they say it.
    """

    rule: str
    change: str
    evidence: tuple[str, ...]
    rows: tuple[int, ...] = ()
    before_s: float | None = None
    after_s: float | None = None
    gain_low_s: float | None = None
    gain_high_s: float | None = None
    bounds: bool = False
    before_bytes: float | None = None
    after_bytes: float | None = None
    moved: str = ""
    effort: Effort
    price: Price = "nothing"
    code: str = ""
    after: tuple[str, ...] = ()
    page: str = ""
    changes: dict[str, Any] = {}

    @property
    def gain_s(self) -> float | None:
        """Seconds that it would save: best guess; None where no time is known."""
        return None if self.before_s is None or self.after_s is None else self.before_s - self.after_s

    @property
    def gain_share(self) -> float | None:
        """What it would save, as a share of the time as it is, 0 to 1; None where no time is known."""
        return None if self.gain_s is None else self.gain_s / self.before_s if self.before_s else 0.0

    @property
    def saved_bytes(self) -> float | None:
        """Bytes that would not be moved any more; None where none were counted."""
        if self.before_bytes is None or self.after_bytes is None:
            return None
        return self.before_bytes - self.after_bytes


class Advices(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All that would help one result, most gain first.

    Attributes:
        each: changes after which the same work gives the same results; none where nothing was found that is worth
            its effort.
        trades: changes with a price: other numbers, more latency, other hardware; each by itself, once the changes
            of `each` are made.
        together: rules of `each` that go together.
        together_s: the time predicted with all of `together` at once: gains do not add. None below two of them.
        unasked: rules that could not be asked of this result, and why ("tile size: no loop in it").
    """

    each: tuple[Advice, ...] = ()
    trades: tuple[Advice, ...] = ()
    together: tuple[str, ...] = ()
    together_s: float | None = None
    unasked: tuple[str, ...] = ()
