"""Lists of objects out of a JSON text that is not whole: cut, changed, or with numbers that JSON does not have."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import msgspec

_TOKENS = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\]]')
_NO_NUMBER = re.compile(rb"(?<=[:\[,\s])([-+]?(?:inf(?:inity)?|nan))(?=[\s,\}\]])", re.IGNORECASE)
_BETWEEN = re.compile(rb"\}\s*,\s*(?=\{)")
_DEEPEST = 64


def objects(text: bytes, key: str, kind: Any, keys: Iterable[str] = ()) -> tuple[list[Any], int]:
    """The objects in all lists that `text` has under `key`, as `kind`; and how many could not be read.

    Args:
        text: that need not be JSON as a whole.
        key: whose value is a list.
        kind: what `msgspec` decodes an object to.
        keys: of the document's other lists: where one of them begins, this list ends, whatever was lost.
    """
    others = b"|".join(re.escape(one.encode()) for one in keys)
    next_list = re.compile(rb'"(?:%s)"\s*:' % others if others else rb"(?!)")
    decoder = msgspec.json.Decoder(kind)
    found: list[Any] = []
    broken = 0
    for begin in re.finditer(rb'"%s"\s*:\s*\[' % re.escape(key.encode()), text):
        at = begin.end()
        beyond = next_list.search(text, at)
        last = beyond.start() if beyond else len(text)
        while (start := _next_object(text, at, last)) is not None:
            end = _end(text, start, last)
            try:
                found.append(decoder.decode(_NO_NUMBER.sub(b"null", text[start:end]) if end else b""))
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                broken += 1
                # Where a brace was lost the object seems to go on: the next one begins after this one's values.
                between = _BETWEEN.search(text, start, last)
                if between is None:
                    break
                end = between.end()
            at = end or last
    return found, broken


def _next_object(text: bytes, at: int, last: int) -> int | None:
    """Where the next object of the list begins; None where the list ends."""
    while at < last and text[at] in b" \t\r\n,":
        at += 1
    return at if at < last and text[at : at + 1] == b"{" else None


def _end(text: bytes, at: int, last: int) -> int | None:
    """Where the object that begins at `at` ends; None where it does not."""
    depth = 0
    for token in _TOKENS.finditer(text, at, last):
        first = token.group()[0]
        if first in b"{[":
            depth += 1
            if depth > _DEEPEST:
                return None
        elif first in b"}]":
            depth -= 1
            if not depth:
                return token.end()
    return None
