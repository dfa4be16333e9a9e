"""What would help, in words: each line says what is saved, how surely, and what it asks for."""

from __future__ import annotations

from rooflab.types.advice import Advice, Advices
from rooflab.views.common.advice import lines, saving


def change(rule: str, after_s: float, before_s: float = 1e-3, **more) -> Advice:
    """A change that saves the difference, at least nothing and at most half as much again."""
    given = {"change": f"Do {rule}", "evidence": ("because",), "effort": "line", "gain_low_s": 0.0, **more}
    return Advice(rule=rule, before_s=before_s, after_s=after_s, gain_high_s=(before_s - after_s) * 1.5, **given)


FREE = tuple(change(name, after_s) for name, after_s in (("a", 4e-4), ("b", 5e-4), ("c", 6e-4), ("d", 7e-4)))
COSTLY = change("e", 2e-4, before_s=4e-4, price="numbers", effort="setting", after=("a",))


def test_a_change_says_what_it_saves_its_bar_and_what_it_asks_for():
    # 1 ms becomes 0.4 ms: 60 %; at most 1.5 × 0.6 ms.
    assert lines(Advices(each=FREE[:1])) == ("1. Do a: saves 600 µs, 60 % (0 % to 90 %) (a line of code).",)


def test_the_first_three_of_either_kind_and_how_many_more():
    said = lines(Advices(each=FREE, trades=(COSTLY,), together=("a", "b"), together_s=3e-4))
    assert [line[:5] for line in said[:3]] == ["1. Do", "2. Do", "3. Do"]
    assert said[3] == "Together (a, b): 1.00 ms becomes 300 µs, 70 % less; gains do not add."
    assert (
        said[4]
        == "4. Do e: saves 200 µs, 50 % (0 % to 75 %) once a is done (a setting, results are rounded more)."
    )
    assert said[5] == "1 more: --advice all"
    assert len(lines(Advices(each=FREE), None)) == 4


def test_nothing_is_said_where_nothing_was_asked_and_so_where_nothing_was_found():
    assert lines(None) == ()
    assert lines(Advices(each=FREE), 0) == ()
    found = lines(Advices(unasked=("batch: why",)))
    assert found == ("Nothing was found that would save 2 % or more.", "Not asked: batch: why.")


def test_bytes_are_said_where_no_time_is_known():
    counted = Advice(
        rule="pad", change="Pad", evidence=(), effort="line", before_bytes=128e3, after_bytes=1e3, moved="of lines"
    )
    assert saving(counted) == "127 kB of 128 kB of lines"
    assert saving(Advice(rule="pad", change="Pad", evidence=(), effort="line")) == "–"
