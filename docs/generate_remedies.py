"""Write the table of remedies in docs/remedies.md from the rules: `python docs/generate_remedies.py`."""

from __future__ import annotations

import inspect
from pathlib import Path

from rooflab.remedies import machines as of_machines
from rooflab.remedies import rules
from rooflab.remedies import transfers as of_transfers
from rooflab.remedies.caches import cores as of_cores
from rooflab.remedies.caches import one_core as of_one_core
from rooflab.remedies.caches import pages as of_pages
from rooflab.remedies.loops import rules as of_loops
from rooflab.remedies.profiles import rules as of_profiles

PAGE = Path(__file__).with_name("remedies.md")
END = "<!-- end of table -->\n"
_PRICES = ("none: same work, same results", "yes")
# The rules of each table, by the mark that it begins with, with whether they have a price.
TABLES = {
    "<!-- table -->\n": [(rule, price) for price, kind in enumerate((rules.FREE, rules.TRADES)) for rule in kind],
    "<!-- table of loops -->\n": [(rule, int(rule.price)) for rule in of_loops.RULES],
    "<!-- table of one core -->\n": [(rule, 0) for rule in (*of_one_core.RULES, of_pages.RULE)],
    "<!-- table of cores -->\n": [(rule, price) for rule, price in zip(of_cores.RULES, (0, 0), strict=True)],
    "<!-- table of transfers -->\n": [(rule, int(rule.price)) for rule in of_transfers.RULES],
    "<!-- table of machines -->\n": [(rule, 0) for rule in of_machines.RULES],
    "<!-- table of profiles -->\n": [(rule, int(rule.price)) for rule in of_profiles.RULES],
}


def table(begin: str) -> str:
    """The rules by regime: the first sentence of each, whether it has a price, the section that explains it."""
    lines = ["| regime | remedy | rule | price |", "|---|---|---|---|"]
    for rule, price in TABLES[begin]:
        first = (inspect.getdoc(rule.ask) or "").split("\n")[0]
        lines.append(f"| {rule.regime} | {first} | [{rule.name}](#{rule.name}) | {_PRICES[price]} |")
    return "\n".join(lines) + "\n"


def page(text: str) -> str:
    """`text`, the page, with the tables of today."""
    for begin in TABLES:
        before, _, rest = text.partition(begin)
        _, _, after = rest.partition(END)
        text = f"{before}{begin}{table(begin)}{END}{after}"
    return text


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
