"""Parts of aggregates taken from where they were put in: without that, local variables stay in memory.

numba keeps iterators and arrays in structures. LLVM's pass that would take them apart also merges loads, which
are to be counted: so this is done here, on the text.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_NAME = r"%(?:[\w.$-]+|\"[^\"]*\")"
_EXTRACT = re.compile(rf"^(?P<indent>\s*)(?P<name>{_NAME}) = extractvalue (?P<rest>.*)$")
_INSERT = re.compile(rf"^\s*(?P<name>{_NAME}) = insertvalue (?P<rest>.*)$")
_AGGREGATE = re.compile(
    rf"^(?P<type>[{{\[].*?[}}\]]) (?P<base>{_NAME}|undef|poison|zeroinitializer), (?P<tail>.*)$"
)
_PART = re.compile(r"^(?P<kind>\w+|[{\[].*[}\]]) (?P<value>\S+), (?P<place>[\d, ]+)$")
_DEBUG = re.compile(r", ![\w.]+ !\d+")


class _Inserted(NamedTuple):
    """An insertvalue: a part `value` of type `kind` at `place` in what `base` was."""

    base: str
    kind: str
    value: str
    place: str


class _Extracted(NamedTuple):
    """An extractvalue: what lies at `place` in `base`."""

    base: str
    place: str


_Made = dict[str, _Inserted | _Extracted]


def fold(ir: str) -> tuple[str, int]:
    """`ir` with each extractvalue whose part is known replaced by that part, and how many there were."""
    lines = ir.split("\n")
    made: _Made = {}
    changed = 0
    for number, line in enumerate(lines):
        if line.startswith("define "):
            made = _made_in(lines, number)
            continue
        match = _EXTRACT.match(line)
        each = made.get(match["name"]) if match else None
        if match is None or not isinstance(each, _Extracted):
            continue
        found = _part(each, made)
        if found is not None:
            kind, value = found
            debug = "".join(_DEBUG.findall(line)[:1])
            lines[number] = f"{match['indent']}{match['name']} = bitcast {kind} {value} to {kind}{debug}"
            changed += 1
    return "\n".join(lines), changed


def _made_in(lines: list[str], start: int) -> _Made:
    """The structures of the function whose first line is `start`, by name."""
    made: _Made = {}
    for number in range(start, len(lines)):
        line = lines[number]
        if line == "}":
            break
        if (match := _INSERT.match(line)) and (whole := _AGGREGATE.match(_DEBUG.sub("", match["rest"]))):
            part = _PART.match(whole["tail"])
            if part:
                made[match["name"]] = _Inserted(whole["base"], part["kind"], part["value"], part["place"])
        elif (match := _EXTRACT.match(line)) and (whole := _AGGREGATE.match(_DEBUG.sub("", match["rest"]))):
            made[match["name"]] = _Extracted(whole["base"], whole["tail"])
    return made


def _part(asked: _Extracted, made: _Made) -> tuple[str, str] | None:
    """The type and the name of what `asked` takes out; None where that is not known, or is a structure."""
    base, place = asked
    while (each := made.get(base)) is not None:
        if isinstance(each, _Extracted):
            base, place = each.base, f"{each.place}, {place}"
        elif each.place == place:
            return None if each.kind[0] in "{[" else (each.kind, each.value)
        elif place.startswith(each.place + ", "):
            base, place = each.value, place.removeprefix(each.place + ", ")
        elif each.place.startswith(place + ", "):
            return None
        else:
            base = each.base
    return None
