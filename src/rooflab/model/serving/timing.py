"""Seconds of a step's kernels: those of one mechanism in one pass, over all settings."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rooflab.model import collectives, peers
from rooflab.model.collectives import Network
from rooflab.model.device import cache_residency
from rooflab.model.device.device import Device
from rooflab.model.kernels import generic
from rooflab.model.kernels.common import Columns, Mechanism
from rooflab.model.kernels.gpu import attention, blocks, gather, ggml, matmul, normalization, stream
from rooflab.model.serving.kernels import Kernel, Number
from rooflab.model.serving.peaks import peak_s, states_peak

_MECHANISMS: dict[str, Mechanism] = {
    "matmul": matmul.MECHANISM,
    "attention": attention.MECHANISM,
    "stream": stream.MECHANISM,
    "normalization": normalization.MECHANISM,
    "gather": gather.MECHANISM,
    "blocks": blocks.MECHANISM,
    "ggml": ggml.MECHANISM,
}


class KernelSeconds(NamedTuple):
    """All runs of one kernel in a step, arrays over settings; see `KernelTimes`.

    `calls` are the host's, one a run as a rule, which may launch several `kernels`: parts of a product, their sum.
    """

    seconds: np.ndarray
    compute_s: np.ndarray
    memory_s: np.ndarray
    cache_s: np.ndarray
    link_s: np.ndarray
    overhead_s: np.ndarray
    floor_s: np.ndarray
    spread: np.ndarray
    kernels: np.ndarray
    calls: np.ndarray
    flop: np.ndarray
    nbytes: np.ndarray


def timed(
    kernels: list[Kernel], device: Device, network: Network | None, settings: int, layers: int = 1
) -> list[KernelSeconds]:
    """Seconds of each of `kernels`, of a model of so many layers; 0 where a setting gives it nothing to do."""
    moved = sum((np.asarray(k.count * (k.read_bytes + k.write_bytes), float) for k in kernels), np.zeros(settings))
    missing = 1.0 - cache_residency.cached_share(moved / layers, device)
    found: dict[int, KernelSeconds] = {}
    for sort in dict.fromkeys(kernel.sort for kernel in kernels):
        numbers = [number for number, kernel in enumerate(kernels) if kernel.sort == sort]
        ours = [kernels[number] for number in numbers]
        if sort == "collective":
            assert network is not None  # only layouts of several ranks have any
            each = [_collective(kernel, network, settings) for kernel in ours]
        else:
            each = _by_mechanism(_mechanism(sort, device), ours, device, settings, missing)
        found |= dict(zip(numbers, each, strict=True))
    return [found[number] for number in range(len(kernels))]


def _mechanism(sort: str, device: Device) -> Mechanism:
    """What times kernels of that sort: a roofline at usual shares where the machine's family has no constants."""
    ours = _MECHANISMS[sort]
    # A chip whose GPU is of a family of cards (GB10) runs its kernels.
    kind = device.constants.kind if device.machine.kind == "soc" else device.machine.kind
    fits = (not ours.machines or kind in ours.machines) and device.constants.models(ours.name)
    return ours if fits else generic.MECHANISM


def _by_mechanism(
    mechanism: Mechanism, kernels: list[Kernel], device: Device, settings: int, missing: np.ndarray
) -> list[KernelSeconds]:
    shape = (len(kernels), settings)

    def flat(values: list[Number]) -> np.ndarray:
        rows = np.empty(shape)
        for number, each in enumerate(values):
            rows[number] = each
        return rows.reshape(-1, 1)

    read, write = flat([k.read_bytes for k in kernels]), flat([k.write_bytes for k in kernels])
    works = (read + write > 0) & (flat([_work(k) for k in kernels]) > 0)
    flop = flat([k.flop for k in kernels])
    least_s = flat([peak_s(k.flop, k.dtype, device)[0] for k in kernels])
    warm, again = flat([k.warm_bytes for k in kernels]), flat([k.again_bytes for k in kernels])
    columns = Columns(
        read_bytes=read,
        write_bytes=write,
        # What the kernel before has just written lies in the last cache, if that holds it.
        hot_read_bytes=np.minimum(warm * cache_residency.cached_share(warm + write, device) + again, read),
        hot_write_bytes=write * cache_residency.cached_share(2.0 * (read + write), device),
        footprint_bytes=read + write,
        flop_floor_s=least_s,
        matrix_flop=flop,
        vector_flop=0.0 * flop,
        special_flop=0.0 * flop,
        extra={name: flat([k.columns[name] for k in kernels]) for name in mechanism.columns},
    )
    keep = works[:, 0]
    times = mechanism.time(columns.rows(keep), device)
    # Every kernel follows another program: its instructions come from the last cache, or, where a layer's traffic
    # has pushed them out of it, from memory.
    far = np.broadcast_to(missing, shape).reshape(-1, 1)[keep]
    start = device.constants("residency.switch_s") + far * device.constants("residency.cold_start_s")
    start = start * times.kernels * device.factor["overhead"]
    if mechanism is ggml.MECHANISM:  # its starts have all of it
        start = 0.0 * start
    weights = flat([k.weight_bytes for k in kernels])
    # Weights pass once a step. Everything else may be found in a cache, of which a floor allows for any use.
    stated = flat([float(states_peak(k.dtype, device)) for k in kernels])
    floor = np.maximum(least_s * stated, weights / device.memory_bytes_per_s)[keep]
    spread = np.asarray(times.spread) + 0.0 * times.time_s
    found = _spread_out(
        keep,
        shape,
        {
            "seconds": np.maximum(times.time_s + start, floor),
            "compute_s": times.compute_s,
            "memory_s": times.memory_s,
            "cache_s": times.cache_s,
            "overhead_s": times.overhead_s + start,
            "floor_s": floor,
            "spread": spread,
            "kernels": times.kernels,
            "calls": flat([k.calls for k in kernels])[keep],
            "flop": flop[keep],
            "nbytes": (read + write - again)[keep],
        },
    )
    made = []
    for number, kernel in enumerate(kernels):
        count = np.broadcast_to(np.asarray(kernel.count, float), (settings,))
        of = {name: values[number] * (1.0 if name == "spread" else count) for name, values in found.items()}
        made.append(KernelSeconds(link_s=np.zeros(settings), **of))
    return made


def _work(kernel: Kernel) -> Number:
    """Above 0 where there is anything to do: rows, sequences, elements."""
    if kernel.sort in ("matmul", "attention"):
        return kernel.write_bytes
    return kernel.read_bytes + kernel.write_bytes


def _spread_out(keep: np.ndarray, shape: tuple[int, int], values: dict[str, Number]) -> dict[str, np.ndarray]:
    found = {}
    for name, each in values.items():
        whole = np.zeros(keep.shape[0])
        whole[keep] = np.broadcast_to(each, (int(keep.sum()), 1))[:, 0]
        found[name] = whole.reshape(shape)
    return found


def _collective(kernel: Kernel, network: Network, settings: int) -> KernelSeconds:
    x = kernel.columns
    message = np.broadcast_to(np.asarray(x["message_bytes"], float), (settings,))
    function = collectives.FUNCTIONS[int(np.max(x["function"]))]
    if np.any(x["peers"]):
        sums = peers.PeerSums(*(x[name] for name in peers.PeerSums._fields))
        times = peers.peer_all_reduce(message, x["ranks"], network, sums)
    else:
        times = collectives.times(function, message, x["ranks"], network)
    some = (message > 0) * np.asarray(kernel.count, float)
    zero = np.zeros(settings)
    return KernelSeconds(
        seconds=some * times.time_s,
        compute_s=zero,
        memory_s=some * times.copy_s,
        cache_s=zero,
        link_s=some * times.link_s,
        overhead_s=some * times.overhead_s,
        floor_s=some * times.floor_s,
        spread=zero + 0.15,
        kernels=some * 1.0,
        calls=some * 1.0,
        flop=zero,
        nbytes=some * message,
    )
