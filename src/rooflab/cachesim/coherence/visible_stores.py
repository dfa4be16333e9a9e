"""What a racing load could have seen: the stores that nothing puts after it, and nothing hides from it.

A store is visible to a load unless it comes after it, or another store of the same item comes after it and
before the load (the visible side effects of C11, 5.1.2.4, over all orders that the synchronisation allows). A
core's own accesses stay in their order. The item's value before all stores is visible where no store comes
before the load.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rooflab.cachesim.coherence import layout as at
from rooflab.types.core_simulation import Race, RaceKind

if TYPE_CHECKING:
    from rooflab.cachesim.coherence.simulate import System

KINDS: tuple[RaceKind, ...] = ("write-read", "read-write", "write-write")
INITIAL = "initial"


class Event(NamedTuple):
    """One access of one item: whose, which entry of its stream, the clocks that its core knew."""

    core: int
    entry: int
    stores: bool
    knows: tuple[int, ...]

    def before(self, other: Event) -> bool:
        """Whether this access comes before the other in every order that is allowed."""
        if self.core == other.core:
            return self.entry < other.entry
        return self.knows[self.core] <= other.knows[self.core]


def visible(load: Event | None, stores: Sequence[Event]) -> list[int]:
    """Which of `stores`, by place, the load could see (−1 for the value before all); at the end where None."""
    earlier = [s for s in stores if load is None or s.before(load)]
    places = [] if earlier else [-1]
    for place, store in enumerate(stores):
        late = load is not None and load.before(store)
        if not late and not any(store.before(other) for other in earlier):
            places.append(place)
    return places


def races(system: System, again: System | None) -> tuple[Race, ...]:
    """The races that `system` has met, with what the log of `again` says of each item."""
    met = system.races[: system.words[at.RACES_USED]]
    if again is None:
        return ()
    used = min(int(again.words[at.LOG_USED]), at_most := again.log.shape[0])
    whole = int(again.words[at.LOG_USED]) <= at_most
    events: dict[int, list[Event]] = {}
    for row in again.log[:used]:
        knows = tuple(int(clock) for clock in row[at.LOG_WORDS :])
        event = Event(int(row[2]), int(row[3]), row[1] != at.READS, knows)
        events.setdefault(int(row[0]), []).append(event)
    return tuple(_race(system, row, events.get(int(row[0]), []) if whole else []) for row in met)


def _race(system: System, row: np.ndarray, events: Sequence[Event]) -> Race:
    from rooflab.cachesim.coherence.simulate import array_at

    granule, kind, earlier, later, entry = (int(word) for word in row)
    address = granule * system.granule_bytes
    array = array_at(system.streams.arrays, address)
    identity = {
        "array": array.name if array else "–",
        "index": array.index(address) if array else address,
        "kind": KINDS[kind],
        "earlier": earlier,
        "later": later,
        "entry": entry,
    }
    if not events:
        return Race(**identity)
    load = _racing_load(events, kind, earlier, later, entry)
    stores = [event for event in events if event.stores]
    before = stores if load is None else [e for e in events[: events.index(load)] if e.stores]
    words = [_word(system, place, store) for place, store in enumerate(stores)]
    seen = words[len(before) - 1] if before else INITIAL
    could = tuple(dict.fromkeys(INITIAL if place < 0 else words[place] for place in visible(load, stores)))
    return Race(reader=None if load is None else load.core, seen=seen, could_see=could, **identity)


def _racing_load(events: Sequence[Event], kind: int, earlier: int, later: int, entry: int) -> Event | None:
    place = next(n for n, each in enumerate(events) if (each.core, each.entry) == (later, entry))
    if kind == at.WRITE_READ:
        return events[place]
    if kind == at.READ_WRITE:  # the last load of the other core before the store
        return next(each for each in reversed(events[:place]) if each.core == earlier and not each.stores)
    return None


def _word(system: System, place: int, store: Event) -> str:
    value = system.streams.values.get((store.core, store.entry))
    return f"version {place + 1} (core {store.core})" if value is None else repr(value)
