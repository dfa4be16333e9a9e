"""Write the table of remedies in docs/remedies.md from the rules: `python docs/generate_remedies.py`."""

from __future__ import annotations

import inspect
from pathlib import Path

from rooflab.remedies import rules

PAGE = Path(__file__).with_name("remedies.md")
BEGIN, END = "<!-- table -->\n", "<!-- end of table -->\n"


def table() -> str:
    """The rules by regime: the first sentence of each, whether it has a price, the section that explains it."""
    lines = ["| regime | remedy | rule | price |", "|---|---|---|---|"]
    for kind, price in ((rules.FREE, "none: same work, same results"), (rules.TRADES, "yes")):
        for rule in kind:
            first = (inspect.getdoc(rule.ask) or "").split("\n")[0]
            lines.append(f"| {rule.regime} | {first} | [{rule.name}](#{rule.name}) | {price} |")
    return "\n".join(lines) + "\n"


def page(text: str) -> str:
    """`text`, the page, with the table of today."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{table()}{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
