"""The progress line: on a terminal, and only there."""

from __future__ import annotations

import io
import time

from rooflab.views.common.progress import progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_pipe_gets_nothing():
    out = io.StringIO()
    with progress(out) as show:
        show("L1", 1, 10)
    assert out.getvalue() == ""


def test_a_terminal_sees_the_stage(monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    out = Terminal()
    with progress(out) as show:
        show("read bandwidth", 3, 10)
    assert "read bandwidth" in out.getvalue()


def test_a_total_that_is_not_known_shows_the_stage(monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    out = Terminal()
    with progress(out) as show:
        show("compiling", 0, 0)
    assert "compiling" in out.getvalue()
    assert "%" not in out.getvalue()


def test_what_ends_soon_is_not_spoken_of(monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    out = Terminal()
    with progress(out, after_s=60) as show:
        show("predicting", 0, 0)
    assert "predicting" not in out.getvalue()


def test_what_takes_longer_is(monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    out = Terminal()
    with progress(out, after_s=0.01) as show:
        show("predicting", 0, 0)
        for _ in range(500):
            if "predicting" in out.getvalue():
                break
            time.sleep(0.01)
    assert "predicting" in out.getvalue()
