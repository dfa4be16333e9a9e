"""A comparison as Markdown, for a pull request: the answer, conditions, totals, causes, operations folded away."""

from __future__ import annotations

from rooflab.types.comparison import Comparison
from rooflab.views.common.table import Table
from rooflab.views.comparison import sheet

_SPECIAL = "\\`*_{}[]<>|#~&!$@"


def markdown(comparison: Comparison) -> str:
    """`comparison` in GitHub's Markdown. Names are escaped: they can hold anything."""
    mark = "" if not comparison.gates else "✅ " if comparison.ok else "❌ "
    lines = [f"### {mark}{escaped(comparison.name)}", ""]
    lines += [escaped(sentence) + "  " for sentence in sheet.sentences(comparison)]
    lines += _table(sheet.gates(comparison))
    for one in comparison.differences:
        of = comparison.sides[one.other].name if len(comparison.differences) > 1 else ""
        lines += _table(sheet.totals(comparison, one, of))
        lines += _table(sheet.causes(one, of))
        operations = _table(sheet.operations(one, of))
        if operations:
            lines += ["", "<details><summary>Operations</summary>", *operations, "", "</details>"]
    notes = dict.fromkeys(note for one in comparison.differences for note in one.notes)
    lines += ["", *(f"- {escaped(note)}" for note in notes)] if notes else []
    return "\n".join(lines) + "\n"


def escaped(text: str) -> str:
    """`text` as Markdown shows it letter by letter."""
    plain = "".join(char if char.isprintable() else " " for char in text)
    return "".join(f"\\{char}" if char in _SPECIAL else char for char in plain).replace("\\<", "&lt;")


def _table(table: Table) -> list[str]:
    if not table.rows:
        return []
    rule = ["---" if number < table.words else "---:" for number in range(len(table.columns))]
    lines = ["", f"**{escaped(table.title)}**", "", f"| {' | '.join(map(escaped, table.columns))} |"]
    lines.append(f"| {' | '.join(rule)} |")
    lines += [f"| {' | '.join(map(escaped, row))} |" for row in table.rows]
    return [*lines, "", escaped(table.note)] if table.note else lines
