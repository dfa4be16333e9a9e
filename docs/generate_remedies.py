"""Write the table of remedies in docs/remedies.md from the rules, and its sections into the package.

Pages quote them where no network is. Run: python docs/generate_remedies.py
"""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path

from rooflab.remedies import machines as of_machines
from rooflab.remedies import rules
from rooflab.remedies import transfers as of_transfers
from rooflab.remedies.caches import cores as of_cores
from rooflab.remedies.caches import one_core as of_one_core
from rooflab.remedies.caches import pages as of_pages
from rooflab.remedies.loops import of_c
from rooflab.remedies.loops import rules as of_loops
from rooflab.remedies.profiles import rules as of_profiles

PAGE = Path(__file__).with_name("remedies.md")
SECTIONS = Path(__file__).parents[1] / "src" / "rooflab" / "remedies" / "explained.toml"
END = "<!-- end of table -->\n"
_PRICES = ("none: same work, same results", "yes")
# The rules of each table, by the mark that it begins with, with whether they have a price.
TABLES = {
    "<!-- table -->\n": [(rule, price) for price, kind in enumerate((rules.FREE, rules.TRADES)) for rule in kind],
    "<!-- table of loops -->\n": [(rule, int(rule.price)) for rule in of_loops.RULES],
    "<!-- table of loops of C -->\n": [(rule, int(rule.price)) for rule in of_c.RULES],
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


def sections(text: str) -> str:
    """The sections of `text`, the page, that explain a rule, as TOML: each line of it a paragraph of one."""
    names = {rule.name for kind in TABLES.values() for rule, _ in kind}
    found: dict[str, list[str]] = {}
    for part in re.split(r"^#{2,3} ", text, flags=re.MULTILINE)[1:]:
        name, _, rest = part.partition("\n")
        if name.strip() in names:
            paragraphs = [" ".join(one.split()) for one in rest.split("\n\n") if one.strip()]
            found[name.strip()] = [one for one in paragraphs if not one.startswith(("<", "|", "```", ">>>"))]
    lines = ["# What explains each rule of advice: written by docs/generate_remedies.py from docs/remedies.md."]
    for name, paragraphs in found.items():
        lines += [
            "",
            f"[{name}]",
            "text = [",
            *(f"    {json.dumps(one, ensure_ascii=False)}," for one in paragraphs),
            "]",
        ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
    SECTIONS.write_text(sections(PAGE.read_text()))
