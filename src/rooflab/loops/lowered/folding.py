"""Parts of aggregates taken from where they were put in: without that, local variables stay in memory.

numba keeps iterators and arrays in structures. LLVM's pass that would take them apart also merges loads, which
are to be counted: so this is done here, on the text.
"""

from __future__ import annotations

import re

_NAME = r"%(?:[\w.$-]+|\"[^\"]*\")"
_EXTRACT = re.compile(rf"^(?P<indent>\s*)(?P<name>{_NAME}) = extractvalue (?P<rest>.*)$")
_INSERT = re.compile(rf"^\s*(?P<name>{_NAME}) = insertvalue (?P<rest>.*)$")
_AGGREGATE = re.compile(rf"^(?P<type>[{{\[].*[}}\]]) (?P<base>{_NAME}|undef|poison|zeroinitializer), (?P<tail>.*)$")
_DEBUG = re.compile(r", ![\w.]+ !\d+")


def fold(ir: str) -> tuple[str, int]:
    """`ir` with each extractvalue whose part is known replaced by that part, and how many there were."""
    lines = ir.split("\n")
    inserted: dict[str, tuple[str, str, str]] = {}
    changed = 0
    for number, line in enumerate(lines):
        if line.startswith("define "):
            inserted = {}
            for each in _body(lines, number):
                match = _INSERT.match(each)
                parts = _inserted(match["rest"]) if match else None
                if match and parts:
                    inserted[match["name"]] = parts
            continue
        match = _EXTRACT.match(line)
        if match is None or not inserted:
            continue
        whole = _AGGREGATE.match(_DEBUG.sub("", match["rest"]))
        if whole is None:
            continue
        value = _part(whole["base"], whole["tail"], inserted)
        if value is not None:
            kind = value.partition(" ")[0]
            debug = "".join(_DEBUG.findall(line)[:1])
            lines[number] = f"{match['indent']}{match['name']} = bitcast {value} to {kind}{debug}"
            changed += 1
    return "\n".join(lines), changed


def _body(lines: list[str], start: int) -> list[str]:
    end = start
    while lines[end] != "}":
        end += 1
    return lines[start:end]


def _inserted(rest: str) -> tuple[str, str, str] | None:
    """(what it is put into, the type and text of what is put in, where) of an insertvalue."""
    match = _AGGREGATE.match(_DEBUG.sub("", rest))
    if match is None:
        return None
    # the value: one word of type, its text, the indices; aggregates in aggregates are left alone
    tail = re.match(r"^(\w+) (\S+), ([\d, ]+)$", match["tail"])
    return None if tail is None else (match["base"], f"{tail[1]} {tail[2]}", tail[3])


def _part(base: str, where: str, inserted: dict[str, tuple[str, str, str]]) -> str | None:
    while base in inserted:
        base, value, place = inserted[base]
        if place == where:
            return value
        if where.startswith(place + ",") or place.startswith(where + ","):
            return None
    return None
