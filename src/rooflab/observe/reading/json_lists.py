"""Lists of objects out of a JSON text that is not whole: cut, changed, or with numbers that JSON does not have."""

from __future__ import annotations

import re
from typing import Any

import msgspec

_TOKENS = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\]]')
_NO_NUMBER = re.compile(rb"(?<=[:\[,\s])([-+]?(?:inf(?:inity)?|nan))(?=[\s,\}\]])", re.IGNORECASE)
_DEEPEST = 64


def objects(text: bytes, key: str, kind: Any) -> tuple[list[Any], int]:
    """The objects in all lists that `text` has under `key`, as `kind`; and how many could not be read.

    Args:
        text: that need not be JSON as a whole.
        key: whose value is a list.
        kind: what `msgspec` decodes an object to.
    """
    decoder = msgspec.json.Decoder(kind)
    found: list[Any] = []
    broken = 0
    for begin in re.finditer(rb'"%s"\s*:\s*\[' % re.escape(key.encode()), text):
        at = begin.end()
        while (start := _next_object(text, at)) is not None:
            end = _end(text, start)
            if end is None:
                broken += 1
                break
            try:
                found.append(decoder.decode(_NO_NUMBER.sub(b"null", text[start:end])))
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                broken += 1
            at = end
    return found, broken


def _next_object(text: bytes, at: int) -> int | None:
    """Where the next object of the list begins; None where the list ends."""
    while at < len(text) and text[at] in b" \t\r\n,":
        at += 1
    return at if text[at : at + 1] == b"{" else None


def _end(text: bytes, at: int) -> int | None:
    """Where the object that begins at `at` ends; None where it does not."""
    depth = 0
    for token in _TOKENS.finditer(text, at):
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
