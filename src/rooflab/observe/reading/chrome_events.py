"""Events of a Chrome trace, decoded piece by piece: memory holds one piece of text and what the caller keeps."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from types import GenericAlias
from typing import Any

import msgspec

# Between two events of the list; every writer puts a known key first.
_BETWEEN = re.compile(rb"\}\s*,\s*(?=\{)")
_BEGIN = re.compile(rb'"traceEvents"\s*:\s*\[')
_CLOSE = re.compile(rb"\}\s*\]")
_NO_NUMBER = re.compile(rb"(?<=[:\[,\s])([-+]?(?:inf(?:inity)?|nan))(?=[\s,\}\]])", re.IGNORECASE)
_HEAD_BYTES = 256 * 2**20  # of what stands before the events
_TAIL_BYTES = 64 * 2**20  # of one event, or of what follows the list


# What tools other than PyTorch's profiler write at the start of a file of the same form.
_OTHERS = (
    re.compile(rb'"cat"\s*:\s*"(Session|Node)"'),  # onnxruntime
    re.compile(rb'"highres-ticks"|"name"\s*:\s*"/(host|device):[A-Z]'),  # XLA: its header, its processes
)


def of_another(head: bytes) -> bool:
    """Whether `head`, the first of a file, is an event file of a tool whose marks are known: not PyTorch's."""
    return any(mark.search(head) for mark in _OTHERS)


class Events:
    """The events of a trace, in lists as they are decoded; and what else the file says, once they are through.

    Attributes:
        others: the document without its events; complete after the last list.
        broken: how many events could not be read.
        cut: whether the file ends within the list.
    """

    def __init__(
        self,
        pieces: Iterable[bytes],
        event: type[msgspec.Struct],
        rare: tuple[tuple[bytes, ...], type[msgspec.Struct]] = ((), msgspec.Struct),
    ) -> None:
        """Events of the type `event` in `pieces`.

        Args:
            pieces: of the file.
            event: what is kept of one.
            rare: texts, and the type of events in pieces that hold one of them: more fields make all slower.
        """
        self._pieces = iter(pieces)
        self._many = msgspec.json.Decoder(GenericAlias(list, (event,)))
        self._marks, self._rare = rare[0], msgspec.json.Decoder(GenericAlias(list, (rare[1],)))
        self._one = msgspec.json.Decoder(rare[1] if rare[0] else event)
        self.others: dict[str, Any] = {}
        self.broken = 0
        self.cut = False
        self.found = False  # a list of events

    def __iter__(self) -> Iterator[list[Any]]:
        head, text = self._begin()
        if not self.found:
            return
        ended = False
        for piece in self._pieces:
            text += piece
            if len(text) > _TAIL_BYTES:
                self.cut = True
                break
            split = _last_between(text)
            if split is None:
                continue
            whole, rest = text[:split], text[split:].lstrip(b" \r\n\t,")
            decoded = self._decoded(whole)
            if decoded is None:
                events, after = self._slowly(whole)
                if events:
                    yield events
                if after is not None:
                    text, ended = after + b"," + rest, True
                    break
                text = rest
                continue
            yield decoded
            text = rest
        if not ended:
            events, after = self._last(text)
            if events:
                yield events
            self.cut = self.cut or after is None
            text = after or b"]"
        else:
            for piece in self._pieces:
                text += piece
                if len(text) > _TAIL_BYTES:
                    break
        self.others = _others(head, text)

    def _begin(self) -> tuple[bytes, bytes]:
        """What stands before the list of events, and the first of the list."""
        text = b""
        for piece in self._pieces:
            text += piece
            if text.lstrip()[:1] == b"[":
                self.found = True
                return b"", text.lstrip()[1:]
            begin = _BEGIN.search(text)
            if begin:
                self.found = True
                return text[: begin.start()], text[begin.end() :]
            if len(text) > _HEAD_BYTES:
                break
        return text, b""

    def _decoded(self, text: bytes) -> list[Any] | None:
        decoder = self._rare if any(mark in text for mark in self._marks) else self._many
        try:
            return decoder.decode(b"[" + text + b"]")
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None

    def _last(self, text: bytes) -> tuple[list[Any], bytes | None]:
        """The events in `text`, the last of the file, and what follows the end of their list."""
        end = _CLOSE.search(text)
        if end is not None:
            decoded = self._decoded(text[: end.start() + 1])
            if decoded is not None:
                return decoded, text[end.end() - 1 :]
        return self._slowly(text)

    def _slowly(self, text: bytes) -> tuple[list[Any], bytes | None]:
        """The events in `text` one by one, and what follows the end of their list; None where it does not end."""
        events: list[Any] = []
        at = 0
        while True:
            at = _past(text, at, b" \r\n\t,")
            if at >= len(text):
                return events, None
            if text[at : at + 1] == b"]":
                return events, text[at:]
            end = self._end(text, at)
            if end is None:  # from here to the next beginning nothing can be made out
                self.broken += 1
                between = _BETWEEN.search(text, at + 1)
                if between is None:
                    return events, None
                at = between.end()
                continue
            event = self._event(text[at:end])
            if event is not None:
                events.append(event)
            else:
                self.broken += 1
            at = end

    def _end(self, text: bytes, at: int) -> int | None:
        """Where the object that begins at `at` ends; None for no object."""
        if text[at : at + 1] != b"{":
            return None
        depth = 0
        for token in _TOKENS.finditer(text, at):
            first = token.group()[0]
            if first == 0x7B:
                depth += 1
            elif first == 0x7D:
                depth -= 1
                if not depth:
                    return token.end()
        return None

    def _event(self, text: bytes) -> Any | None:
        try:
            return self._one.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError):
            pass
        try:
            return self._one.decode(_NO_NUMBER.sub(b"null", text))
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None


_TOKENS = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}]')


def _last_between(text: bytes) -> int | None:
    """Where the last event that is surely whole ends; None where no two events meet."""
    at = len(text)
    while True:
        at = text.rfind(b"{", 0, at)
        if at <= 0:
            return None
        before = at - 1
        while before >= 0 and text[before] in b" \r\n\t":
            before -= 1
        if before > 0 and text[before] == 0x2C:
            before -= 1
            while before >= 0 and text[before] in b" \r\n\t":
                before -= 1
            if before >= 0 and text[before] == 0x7D:
                return before + 1


def _past(text: bytes, at: int, these: bytes) -> int:
    while at < len(text) and text[at] in these:
        at += 1
    return at


def _others(head: bytes, tail: bytes) -> dict[str, Any]:
    """The document without its events; without what follows them where only that is broken."""
    head = head.rstrip().removeprefix(b"\xef\xbb\xbf")  # a mark of UTF-8, which JSON has none of
    for text in (head + b'"traceEvents": [' + tail, head + b'"traceEvents": []}'):
        try:
            found = json.loads(text.decode("utf-8", "replace"))
        except (json.JSONDecodeError, RecursionError):
            continue
        if isinstance(found, dict):
            found.pop("traceEvents", None)
            return found
    return {}
