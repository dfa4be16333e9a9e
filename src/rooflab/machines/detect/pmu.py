"""Events of one device of counters: encoded as the kernel says, and tried, each alone or several at once.

/sys/bus/event_source/devices/DEVICE holds the type of its events, and in format/ the bits of each term:
"config:0-7" or "config1:0-31,48-63" (Linux Documentation/ABI/testing/sysfs-bus-event_source-devices-format).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rooflab.machines.detect.counters import DEVICES, Tried, open_event
from rooflab.machines.detect.files import Tree

_EXCLUDE_KERNEL_AND_HYPERVISOR = 1 << 5 | 1 << 6
_FIELDS = ("config", "config1", "config2")


class Encoded(NamedTuple):
    """An event as the kernel takes it: the device's number, and three words that say what is counted."""

    kind: int
    config: int
    config1: int = 0
    config2: int = 0


def named(tree: Tree, device: str, event: str) -> Encoded | None:
    """The event that the kernel itself calls `event`; None where it has none of that name."""
    text = tree.text(f"{DEVICES}/{device}/events/{event}")
    if not text:
        return None
    terms: dict[str, int] = {}
    for part in text.split(","):
        key, _, value = part.strip().partition("=")
        try:
            terms[key] = int(value, 0) if value else 1
        except ValueError:
            return None
    return encoded(tree, device, terms)


def encoded(tree: Tree, device: str, terms: Mapping[str, int]) -> Encoded | None:
    """The event of `device` with these `terms`; None where the device is missing, or does not know one of them."""
    kind = tree.integer(f"{DEVICES}/{device}/type")
    if kind is None:
        return None
    words = dict.fromkeys(_FIELDS, 0)
    for term, value in terms.items():
        if term in _FIELDS:
            words[term] |= value
            continue
        field, _, ranges = (tree.text(f"{DEVICES}/{device}/format/{term}") or "").partition(":")
        bits = _bits(ranges)
        if field not in words or not bits or value >> len(bits):
            return None
        for number, bit in enumerate(bits):
            words[field] |= (value >> number & 1) << bit
    return Encoded(kind, words["config"], words["config1"], words["config2"])


def _bits(ranges: str) -> list[int]:
    """The bits of "0-7,32-35", lowest first."""
    found: list[int] = []
    for part in ranges.split(","):
        first, _, last = part.strip().partition("-")
        if not first.isdigit() or (last and not last.isdigit()):
            return []
        found += range(int(first), int(last or first) + 1)
    return found


def opens(event: Encoded, *, cpu: int | None = None) -> Tried | None:
    """Whether `event` opens on this process in user mode, or on all of `cpu` where one is given."""
    fresh = _open(event, -1, cpu)
    if fresh is None or isinstance(fresh, Tried):
        return fresh
    os.close(fresh)
    return Tried(opened=True)


def fit_together(events: Sequence[Encoded]) -> bool:
    """Whether the core counts all of `events` at once: the kernel refuses a group that it cannot.

    It does not know of a counter that its own watchdog holds: perf's share of the time tells.
    """
    held: list[int] = []
    try:
        for event in events:
            fresh = _open(event, held[0] if held else -1, None)
            if fresh is None or isinstance(fresh, Tried):
                return False
            held.append(fresh)
        return True
    finally:
        for one in held:
            os.close(one)


def _open(event: Encoded, group: int, cpu: int | None) -> int | Tried | None:
    if cpu is not None:
        return open_event(event.kind, event.config, 0, pid=-1, cpu=cpu, group=group, more=event[2:])
    flags = _EXCLUDE_KERNEL_AND_HYPERVISOR
    return open_event(event.kind, event.config, flags, pid=0, cpu=-1, group=group, more=event[2:])
