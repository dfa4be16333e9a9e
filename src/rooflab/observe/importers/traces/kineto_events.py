"""What is kept of an event of PyTorch's profiler, as it stands in the file."""

from __future__ import annotations

import math
from typing import Any

import msgspec

from rooflab.types.trace import NONE

Number = int | float | str | None
_NO_RAW = msgspec.Raw(b"")


class Args(msgspec.Struct, frozen=True, gc=False):
    """What is used of an event's arguments; long ones stay text until they are asked for.

    What is not recorded has the value that columns have for it: lists of numbers alone become columns at once.
    """

    external: Any = msgspec.field(name="External id", default=NONE)
    older_external: Any = msgspec.field(name="external id", default=NONE)
    correlation: Any = NONE
    device: Any = NONE
    stream: Any = NONE
    nbytes: Any = msgspec.field(name="bytes", default=math.nan)
    grid: msgspec.Raw = _NO_RAW
    block: msgspec.Raw = _NO_RAW
    registers: Number = msgspec.field(name="registers per thread", default=None)
    shared: Number = msgspec.field(name="shared memory", default=None)
    sequence: Any = msgspec.field(name="Sequence number", default=NONE)
    dims: msgspec.Raw = msgspec.field(name="Input Dims", default=_NO_RAW)
    older_dims: msgspec.Raw = msgspec.field(name="Input dims", default=_NO_RAW)  # PyTorch 1.8
    types: msgspec.Raw = msgspec.field(name="Input type", default=_NO_RAW)
    strides: msgspec.Raw = msgspec.field(name="Input Strides", default=_NO_RAW)
    values: msgspec.Raw = msgspec.field(name="Concrete Inputs", default=_NO_RAW)


class MoreArgs(Args, frozen=True, gc=False):
    """What else is used, of exchanges between ranks and of memory."""

    collective: Any = msgspec.field(name="Collective name", default=None)
    dtype: Any = None
    elements: Any = msgspec.field(name="In msg nelems", default=None)
    group: Any = msgspec.field(name="Process Group Name", default=None)
    members: Any = msgspec.field(name="Process Group Ranks", default=None)
    size: Any = msgspec.field(name="Group size", default=None)
    in_group: Any = msgspec.field(name="Seq", default=None)
    taken: Any = msgspec.field(name="Bytes", default=None)
    allocated: Any = msgspec.field(name="Total Allocated", default=None)
    reserved: Any = msgspec.field(name="Total Reserved", default=None)
    address: Any = msgspec.field(name="Addr", default=None)
    device_kind: Any = msgspec.field(name="Device Type", default=None)
    device_number: Any = msgspec.field(name="Device Id", default=None)


_NOTHING = Args()
_MORE_NOTHING = MoreArgs()


class Event(msgspec.Struct, frozen=True, gc=False):
    """An event as it stands in the file; what kind of thing a value is, is checked later."""

    ph: str | None = None
    cat: str | None = None
    name: str | None = None
    pid: Number = None
    tid: Number = None
    ts: Number = None
    dur: Number = None
    args: Args = _NOTHING


class MoreEvent(Event, frozen=True, gc=False):
    """An event with `MoreArgs`."""

    args: MoreArgs = _MORE_NOTHING
