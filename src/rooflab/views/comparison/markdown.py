"""A comparison as Markdown, for a pull request: the answer, conditions, totals, causes, operations folded away."""

from __future__ import annotations

from rooflab.types.comparison import Comparison
from rooflab.views.common.markdown import escaped, table
from rooflab.views.comparison import sheet


def markdown(comparison: Comparison) -> str:
    """`comparison` in GitHub's Markdown. Names are escaped: they can hold anything."""
    mark = "" if not comparison.gates else "✅ " if comparison.ok else "❌ "
    lines = [f"### {mark}{escaped(comparison.name)}", ""]
    lines += [escaped(sentence) + "  " for sentence in sheet.sentences(comparison)]
    lines += table(sheet.gates(comparison))
    for one in comparison.differences:
        of = comparison.sides[one.other].name if len(comparison.differences) > 1 else ""
        lines += table(sheet.totals(comparison, one, of))
        lines += table(sheet.causes(one, of))
        operations = table(sheet.operations(one, of))
        if operations:
            lines += ["", "<details><summary>Operations</summary>", *operations, "", "</details>"]
    notes = dict.fromkeys(note for one in comparison.differences for note in one.notes)
    lines += ["", *(f"- {escaped(note)}" for note in notes)] if notes else []
    return "\n".join(lines) + "\n"
