"""Reading compiler output: the loop of a kernel, its loads and its stores."""

from __future__ import annotations

import re
from dataclasses import dataclass

_LABEL = re.compile(r"^(\.?LBB\d+_\d+|\.LBB\d+_\d+):")


@dataclass(frozen=True)
class Loop:
    """The instructions of a kernel's innermost measured loop, comments and directives left out."""

    lines: tuple[str, ...]

    def count(self, pattern: str) -> int:
        """How many instructions match, from their first letter on."""
        return sum(re.match(pattern, line) is not None for line in self.lines)

    def find(self, pattern: str) -> list[str]:
        """The instructions in which the pattern occurs."""
        return [line for line in self.lines if re.search(pattern, line)]


def function_body(text: str, symbol: str) -> list[str]:
    """The lines of one function."""
    lines = text.splitlines()
    start = next(k for k, line in enumerate(lines) if line.startswith(f"{symbol}:"))
    end = next(k for k in range(start, len(lines)) if lines[k].strip().startswith(".size"))
    # x86 comments begin with "# ", Arm's with "//"; Arm writes immediates as "#16".
    return [re.split(r"\s*(?:#\s|//)", line)[0].strip() for line in lines[start:end]]


def measured_loop(text: str, symbol: str) -> Loop:
    """The block between the two clock readings that a conditional branch repeats."""
    body = function_body(text, symbol)
    first, last = (k for k, line in enumerate(body) if re.match(r"(callq?|blr?)\b", line))
    inside = body[first + 1 : last]
    labels = {
        match[1]: k for k, line in enumerate(inside) if (match := re.match(r"^(\.LBB\d+_\d+):", line)) is not None
    }
    for end in range(len(inside) - 1, -1, -1):
        branch = re.match(r"^(?:j\w+|b\.\w+|cbn?z\s+\w+,|tbn?z\s+.*,)\s*(\.LBB\d+_\d+)$", inside[end])
        if branch and labels.get(branch[1], end) < end:
            block = inside[labels[branch[1]] + 1 : end + 1]
            return Loop(tuple(line.replace("\t", " ") for line in block if line and not line.startswith(".")))
    raise AssertionError(f"{symbol} has no loop between its clock readings")
