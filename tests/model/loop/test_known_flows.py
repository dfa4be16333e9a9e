"""Passes that were run on a core before are found by the next process, if what they follow from is as it was."""

from __future__ import annotations

import pytest

from rooflab.loops import kept
from rooflab.model.loop import known_flows


@pytest.fixture(autouse=True)
def store(tmp_path, monkeypatch):
    """A store of its own, switched on, and a process that knows nothing."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(kept.SWITCH, raising=False)
    monkeypatch.setattr(known_flows, "_KNOWN", {})
    known_flows._text.cache_clear()


def asked(what, made):
    """What is known of `what`, and how often it was made."""

    def simulated():
        made.append(what)
        return (float(len(made)), 0.5)

    return known_flows.known(what, simulated)


def test_the_next_process_finds_what_was_found(monkeypatch):
    made = []
    with known_flows.of_loop("file.py:3"):
        first = asked(("steps", 1.0), made), asked(("steps", 2.0), made)
    monkeypatch.setattr(known_flows, "_KNOWN", {})
    with known_flows.of_loop("file.py:3"):
        again = asked(("steps", 1.0), made), asked(("steps", 2.0), made)
    assert again == first == ((1.0, 0.5), (2.0, 0.5))
    assert len(made) == 2


def test_another_question_is_not_answered_from_before(monkeypatch):
    made = []
    with known_flows.of_loop("file.py:3"):
        asked(("steps", 1.0), made)
    monkeypatch.setattr(known_flows, "_KNOWN", {})
    with known_flows.of_loop("file.py:3"):
        asked(("steps", 1.0 + 1e-15), made)
        asked(("steps", 1.0, 0), made)
    assert len(made) == 3


def test_another_text_of_what_simulates_finds_nothing(monkeypatch):
    made = []
    with known_flows.of_loop("file.py:3"):
        asked(("steps",), made)
    monkeypatch.setattr(known_flows, "_KNOWN", {})
    monkeypatch.setattr(known_flows, "_text", lambda: "changed")
    with known_flows.of_loop("file.py:3"):
        asked(("steps",), made)
    assert len(made) == 2


def test_what_a_loop_needs_is_added_and_the_latest_stay(monkeypatch):
    monkeypatch.setattr(known_flows, "_MOST", 3)
    made = []
    for n in range(5):
        monkeypatch.setattr(known_flows, "_KNOWN", {})
        with known_flows.of_loop("file.py:3"):
            asked(("steps", n), made)
    monkeypatch.setattr(known_flows, "_KNOWN", {})
    with known_flows.of_loop("file.py:3"):
        for n in (4, 3, 2):
            asked(("steps", n), made)
        assert len(made) == 5
        asked(("steps", 0), made)
    assert len(made) == 6


def test_nothing_is_kept_where_the_switch_is_off(monkeypatch):
    monkeypatch.setenv(kept.SWITCH, "0")
    with known_flows.of_loop("file.py:3"):
        asked(("steps",), [])
    assert not list(kept.folder().iterdir())
