"""How long is data on its way, which stage binds, and how long does a device wait for it?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rooflab.errors import RooflabError
from rooflab.story.machines import as_machine

if TYPE_CHECKING:
    from os import PathLike

    from rooflab.model.transfer import HostMemory
    from rooflab.types.machine import Machine
    from rooflab.types.transfer import Stage, Transfer


def transfer(
    nbytes: float | str,
    stages: Sequence[str] | str,
    *,
    machine: Machine | str | PathLike[str] | None = None,
    host: Machine | str | PathLike[str] | None = None,
    rates: Mapping[str, str | float] | None = None,
    latencies: Mapping[str, str | float] | None = None,
    expands: Mapping[str, float] | None = None,
    threads: int | Mapping[str, int] = 1,
    chunk: float | str = "8 MB",
    overlap: bool = True,
    sample: float | str | None = None,
    device_samples_per_s: float | None = None,
    host_memory: HostMemory | None = None,
    advice: bool = True,
) -> Transfer:
    """How long data is on its way from stage to stage, which stage binds, and how long a device waits for it.

    Args:
        nbytes: to move, or text with a unit ("150 GB").
        stages: one, or several in order: "network", "disk", "DRAM", "PCIe", "HBM", "internet", a level or link of
            the machine or host, or any name with a rate of its own ("decompress").
        machine: the device at the end: a `Machine`, or a name or file of one.
        host: the computer it sits in, such as one that `rooflab measure` saved.
        rates: bytes/s, or text ("10 Gbit/s"), by stage.
        latencies: seconds, or text ("1 ms"), of a request, by stage.
        expands: bytes that leave a stage per byte that enters it: {"decompress": 3}.
        threads: requests at once, of every stage or by stage.
        chunk: bytes of one request at the start of the way.
        overlap: whether the stages work side by side, or one after the other.
        sample: bytes of one training sample at the start of the way.
        device_samples_per_s: how many the device could compute; the result's `feed` says how long it waits.
        host_memory: "pinned" or "pageable": what a link to the host attains from such memory.
        advice: also say what would help, each change computed again.

    Raises:
        UnknownNameError: an unknown stage or machine, with near matches.
        RooflabError: no bytes, no known rate, a sample without the device's pace.

    >>> transfer("90 GB", ["network", "PCIe"], rates={"network": "10 Gbit/s", "PCIe": "63 GB/s"}).binds
    'network'
    """
    import msgspec

    from rooflab import units
    from rooflab.model import transfer as model

    def bytes_of(amount: float | str) -> float:
        return units.parse(amount, "byte") if isinstance(amount, str) else amount

    named = [stages] if isinstance(stages, str) else stages

    def stages_from(memory: HostMemory | None) -> tuple[Stage, ...]:
        return model.stages(
            named,
            machine=as_machine(machine),
            host=as_machine(host),
            rates=rates,
            latencies=latencies,
            expands=expands,
            threads=threads,
            host_memory=memory,
        )

    resolved = stages_from(host_memory)
    way = model.through(bytes_of(nbytes), resolved, chunk_bytes=bytes_of(chunk), overlap=overlap)
    arriving = way.nbytes * math.prod(stage.expands for stage in resolved)
    way = msgspec.structs.replace(
        way, homes=model.homes(way.nbytes, arriving, as_machine(machine), as_machine(host))
    )
    if (sample is None) != (device_samples_per_s is None):
        raise RooflabError("a feed needs both: sample, such as '150 kB', and device_samples_per_s, such as 2500")
    of_sample = None if sample is None else bytes_of(sample)
    if of_sample is not None and device_samples_per_s is not None:
        way = msgspec.structs.replace(way, feed=model.feed(way, of_sample, device_samples_per_s))
    if not advice:
        return way
    from rooflab.remedies import transfers

    pinned = None if host_memory != "pageable" else stages_from("pinned")
    unsaid = host_memory is None and model.crosses_link(stages, as_machine(machine), as_machine(host), rates)
    asked = transfers.Way(way.nbytes, resolved, bytes_of(chunk), overlap, pinned, unsaid)
    return msgspec.structs.replace(way, advice=transfers.advise(way, asked, of_sample, device_samples_per_s))
