"""What every kernel model takes and gives."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from rooflab.model.device.constants import APART
from rooflab.model.device.device import Device
from rooflab.types.work import Cost, Op, TensorSpec

Specs = tuple[TensorSpec, ...]
Features = tuple[float, ...]


@dataclass(slots=True)
class Columns:
    """Rows of one mechanism: each array has shape (rows, 1), those that depend on caches (rows, settings).

    Attributes:
        read_bytes, write_bytes: compulsory bytes.
        hot_read_bytes: of the reads, those that lie in the last cache when the operation starts.
        hot_write_bytes: of the writes, those to lines that lie in it and are overwritten again before they
            leave it: they cost memory nothing.
        footprint_bytes: distinct bytes that the operation touches.
        flop_floor_s: what its arithmetic takes at theoretical peaks (rows, settings).
        matrix_flop, vector_flop, special_flop: by engine.
        extra: the mechanism's own columns by name: see `Mechanism.columns`.
    """

    read_bytes: np.ndarray
    write_bytes: np.ndarray
    hot_read_bytes: np.ndarray
    hot_write_bytes: np.ndarray
    footprint_bytes: np.ndarray
    flop_floor_s: np.ndarray
    matrix_flop: np.ndarray
    vector_flop: np.ndarray
    special_flop: np.ndarray
    extra: dict[str, np.ndarray] = field(default_factory=dict)

    def __getitem__(self, name: str) -> np.ndarray:
        return self.extra[name]

    def rows(self, keep: np.ndarray) -> Columns:
        """Some of the rows: those whose place in `keep` (rows,) is true."""
        whole = keep.shape[0]
        fields = {
            each.name: getattr(self, each.name)[keep]
            if getattr(self, each.name).shape[0] == whole
            else getattr(self, each.name)
            for each in dataclasses.fields(self)
            if each.name != "extra"
        }
        return Columns(**fields, extra={name: values[keep] for name, values in self.extra.items()})


NOTHING_S = np.zeros((1, 1))


class KernelTimes(NamedTuple):
    """What one execution of each row takes, in seconds; every array broadcasts to (rows, settings).

    Attributes:
        time_s: from the start of the first kernel to where the next operation could start, with the gap
            between two kernels of a replayed graph: what a row adds to the time of a graph.
        compute_s: what the busiest engine needs at the rate that this kernel attains on it.
        cache_s, memory_s: what the last cache and the main memory need for its traffic at attained rates;
            `near_s` the caches next to the units.
        overhead_s: starting, filling, draining, synchronising; what no wider pipe would help. Where all terms
            together are less than the time, `op_times` adds the rest to it.
        spread: standard deviation of ln(measured / time_s) that is expected.
        kernels: how many the device starts.
        link_s: what the link to other devices needs, where the kernel sends something over it.
        floor_s: what the link needs at its theoretical rate.
    """

    time_s: np.ndarray
    compute_s: np.ndarray
    near_s: np.ndarray
    cache_s: np.ndarray
    memory_s: np.ndarray
    overhead_s: np.ndarray
    spread: np.ndarray
    kernels: np.ndarray
    link_s: np.ndarray = NOTHING_S
    floor_s: np.ndarray = NOTHING_S


def by_library(
    x: Columns,
    device: Device,
    topic: str,
    names: tuple[str, ...],
    time: Callable[[Columns, Device], KernelTimes],
    like: Mapping[str, tuple[str, ...]] | None = None,
) -> KernelTimes:
    """`time` of the rows of each library, whose place in `names` is the column `kernel`, with its constants.

    A library's are those of the topic `topic_NAME`, where a family states any, else those of the first that it is
    `like` by its design and of which the family states some, else those of `topic`. Bars are wider (`APART`) where
    none of them says how sure it is.
    """
    found: dict[str, np.ndarray] = {}
    codes = np.unique(x["kernel"])
    if not len(codes):
        return time(x, device)
    for code in codes:
        name = names[int(code)]
        ours = device.constants
        for each in (name, *(like or {}).get(name, ())) if name else ():
            ours = device.constants.specialised(topic, each)
            if ours is not device.constants:
                break
        as_library = device if ours is device.constants else dataclasses.replace(device, constants=ours)
        rows = (x["kernel"] == code)[:, 0]
        part = time(x if len(codes) == 1 else x.rows(rows), as_library)
        own, general = (each.values.get(f"{topic}.spread") for each in (ours, device.constants))
        if name and own is general and topic in APART:
            part = part._replace(spread=np.hypot(part.spread, APART[topic]))
        if len(codes) == 1:
            return part
        for field_name, each in part._asdict().items():
            values = np.broadcast_to(each, part.time_s.shape)
            if field_name not in found:
                found[field_name] = np.empty((len(rows), values.shape[1]))
            found[field_name][rows] = values
    return KernelTimes(**found)


class Mechanism(NamedTuple):
    """How one sort of kernel behaves on one sort of machine.

    Attributes:
        name: also the topic of its constants.
        machines: kinds of `Machine` that it models ("gpu", "cpu", …); empty for any.
        kinds: kinds of `Op` that it models; empty for any.
        columns: names of what `features` returns.
        features: the numbers of one operation; None where this mechanism does not model it after all.
        time: seconds on a device, for all rows at once.
    """

    name: str
    machines: tuple[str, ...]
    kinds: tuple[str, ...]
    columns: tuple[str, ...]
    features: Callable[[Op, Specs, Specs, Cost], Features | None]
    time: Callable[[Columns, Device], KernelTimes]
