"""docs/remedies.md: its table is that of the rules, and every rule has its section."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from rooflab.remedies import rules
from rooflab.remedies.explained import explained

DOCS = Path(__file__).resolve().parents[2] / "docs"
_spec = importlib.util.spec_from_file_location("generate_remedies", DOCS / "generate_remedies.py")
generate_remedies = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(generate_remedies)


def test_the_table_is_that_of_the_rules():
    text = (DOCS / "remedies.md").read_text()
    assert generate_remedies.page(text) == text, "run: python docs/generate_remedies.py"


def test_the_package_quotes_the_sections_of_today():
    text = (DOCS / "remedies.md").read_text()
    assert generate_remedies.SECTIONS.read_text() == generate_remedies.sections(text), (
        "run: python docs/generate_remedies.py"
    )
    assert any("**Why.**" in one for one in explained("cuda-graph"))
    for rule in {rule.name for kind in generate_remedies.TABLES.values() for rule, _ in kind}:
        assert explained(rule), rule


def test_every_rule_has_its_section():
    text = (DOCS / "remedies.md").read_text()
    headings = [line.removeprefix("## ") for line in text.splitlines() if line.startswith("## ")]
    assert {rule.name for rule in (*rules.FREE, *rules.TRADES)} <= set(headings)
    smaller = {line.removeprefix("### ") for line in text.splitlines() if line.startswith("### ")}
    assert smaller == {rule.name for kind in generate_remedies.TABLES.values() for rule, _ in kind} - set(headings)
