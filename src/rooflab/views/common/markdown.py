"""Results as GitHub's Markdown, for a pull request: short, all names escaped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rooflab.views.common.table import Table

ROWS = 12  # lines of a table; files of numbers hold all
_SPECIAL = "\\`*_{}[]<>|#~&!$@"


def escaped(text: str) -> str:
    """`text` as Markdown shows it letter by letter."""
    plain = "".join(char if char.isprintable() else " " for char in text)
    return "".join(f"\\{char}" if char in _SPECIAL else char for char in plain).replace("\\<", "&lt;")


def table(table: Table, most: int | None = None) -> list[str]:
    """The lines of `table`, at most so many of its rows; none without a row."""
    if not table.rows:
        return []
    rule = ["---" if number < table.words else "---:" for number in range(len(table.columns))]
    title = ["", f"**{escaped(table.title)}**"] if table.title else []
    lines = [*title, "", f"| {' | '.join(map(escaped, table.columns))} |"]
    lines.append(f"| {' | '.join(rule)} |")
    lines += [f"| {' | '.join(escaped(cell).strip() for cell in row)} |" for row in table.rows[:most]]
    left = 0 if most is None else len(table.rows) - most
    if left > 0:
        lines += ["", f"{left:,} more lines are left out."]
    return [*lines, "", escaped(table.note)] if table.note else lines


def document(
    name: str,
    sentences: Iterable[str] = (),
    tables: Sequence[Table] = (),
    *,
    warnings: Iterable[str] = (),
    notes: Iterable[str] = (),
    folded: Sequence[Table] = (),
    listed: Mapping[str, Sequence[str]] | None = None,
) -> str:
    """A result: its name, warnings and sentences, tables, those that are folded away, conventions.

    Args:
        name: the heading.
        sentences: under it.
        tables: at once, at most `ROWS` lines of each.
        warnings: what a reader must know first.
        notes: conventions and assumptions.
        folded: tables behind a click.
        listed: sentences under a title, before the tables.
    """
    lines = [f"### {escaped(name)}", ""]
    lines += [f"> **{escaped(warning)}**  " for warning in warnings]
    lines += [escaped(sentence) + "  " for sentence in sentences]
    for title, said in (listed or {}).items():
        lines += ["", f"**{escaped(title)}**", "", *(f"- {escaped(each)}" for each in said)]
    for one in tables:
        lines += table(one, ROWS)
    for one in folded:
        if one.rows:
            lines += ["", f"<details><summary>{_summary(one.title)}</summary>"]
            lines += [*table(one._replace(title=""), ROWS), "", "</details>"]
    lines += ["", *(f"- {escaped(note)}" for note in notes)]
    return "\n".join(lines).rstrip() + "\n"


def _summary(title: str) -> str:
    return escaped(title).replace("\\", "")
