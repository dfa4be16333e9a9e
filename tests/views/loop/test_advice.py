"""What would help a loop, on its page and in its terminal: every word escaped, nothing where nothing was asked."""

from __future__ import annotations

import io
import json

import msgspec
import pytest

from rooflab.types.advice import Advice, Advices
from rooflab.types.loop import LoopReport
from rooflab.views.loop import page, terminal


@pytest.fixture(scope="module")
def bare(root):
    return LoopReport.from_dict(
        json.loads((root / "tests" / "samples" / "loop" / "stencil.json").read_text("utf-8"))
    )


@pytest.fixture(scope="module")
def advised(bare):
    one = Advice(
        rule="tile",
        change="Cut <b>it</b>",
        evidence=("L3 serves 570 MB</script>",),
        before_s=10e-3,
        after_s=4e-3,
        gain_low_s=-1e-3,
        gain_high_s=8e-3,
        effort="rewrite",
        code="for ii in range(0, n, 32): # <i>",
    )
    return msgspec.structs.replace(bare, advice=Advices(each=(one,), unasked=("threads: one core",)))


def test_the_page_has_a_card_for_each_change(advised):
    text = page.html(advised).partition("<script>")[0].replace("\N{NO-BREAK SPACE}", " ")
    assert "<h3>Cut &lt;b&gt;it&lt;/b&gt;</h3>" in text
    assert "L3 serves 570 MB&lt;/script&gt;" in text
    assert "saves 6.00 ms, 60 % (−10 % to 80 %)" in text
    assert "10.0 ms becomes 4.00 ms: it saves −1.00 ms to 8.00 ms in about four of five cases." in text
    assert "Effort: a rewrite" in text
    assert "# &lt;i&gt;</code></pre>" in text
    assert "Not asked: threads: one core." in text


def test_nothing_is_said_where_nothing_was_asked(bare):
    assert "What would help" not in page.html(bare)
    nothing = msgspec.structs.replace(bare, advice=Advices())
    assert "Nothing was found that would save 2 % or more." in page.html(nothing)


def test_the_terminal_says_as_many_as_are_asked_for(advised):
    out = io.StringIO()
    terminal.show(advised, out)
    assert "1. Cut <b>it</b>: saves 6.00 ms, 60 % (−10 % to 80 %) (a rewrite, may lose)." in " ".join(
        out.getvalue().split()
    )
    out = io.StringIO()
    terminal.show(advised, out, advice=0)
    assert "What would help" not in out.getvalue()
