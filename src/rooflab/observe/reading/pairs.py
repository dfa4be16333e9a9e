"""Events of a Chrome trace that are told by their beginning and their end, each an event of its own."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from rooflab.observe.reading.columns import number


class _Begins(Protocol):
    """What of an event says when and where it is."""

    @property
    def ph(self) -> Any: ...
    @property
    def pid(self) -> Any: ...
    @property
    def tid(self) -> Any: ...
    @property
    def ts(self) -> Any: ...


_E = TypeVar("_E", bound=_Begins)


class Pairs(Generic[_E]):
    """Pairs of beginnings and ends: on each thread an end is of the last beginning that has none yet."""

    def __init__(self) -> None:
        """None yet."""
        self._open: dict[tuple[Any, Any], list[_E]] = defaultdict(list)
        self._ends_alone = 0

    def whole(self, event: _E) -> _E | None:
        """The event that `event`, of phase E, ends, lasting from one to the other; None where it ends none.

        A beginning, of phase B, is kept until then. A pair without times that are numbers has no duration.
        """
        before = self._open[event.pid, event.tid]
        if event.ph == "B":
            before.append(event)
            return None
        if not before:
            self._ends_alone += 1
            return None
        begun = before.pop()
        start, end = _number(begun.ts), _number(event.ts)
        lasts = None if start is None or end is None else end - start
        return msgspec.structs.replace(begun, ph="X", dur=lasts)  # pyright: ignore[reportArgumentType]

    @property
    def alone(self) -> int:
        """Beginnings that did not end, and ends of nothing, so far."""
        return self._ends_alone + sum(map(len, self._open.values()))


def _number(value: Any) -> int | float | None:
    """As `number`, whole ones as they are: nanoseconds since 1970 are beyond what a float tells apart."""
    return value if type(value) is int else number(value)
