"""What attention on a GPU takes beside the walk of its tiles: starting, copies, joining parts, the last tiles."""

from __future__ import annotations

import numpy as np

from rooflab.model.device.device import Device, Number
from rooflab.model.kernels.common import Columns


def tail_s(
    waves: np.ndarray, fixed_s: Number, shortest: np.ndarray, longest: np.ndarray, block_s: np.ndarray
) -> np.ndarray:
    """Seconds from when all work would be done, if it were shared evenly, to the end of the last tile.

    Tiles that are alike run in whole waves. Of unlike ones, handed out in no order of their length, the last to
    start may be the longest, while what the other slots hold is a tile's mean residual life from its end:
    longest - E[d²] / 2 E[d] with lengths d spread evenly between shortest and longest.
    """
    least, most = fixed_s + shortest * block_s, fixed_s + longest * block_s
    residual = (least**2 + least * most + most**2) / (3.0 * (least + most))
    unlike = (most - least) / most
    return (1.0 - unlike) * (np.ceil(waves) - waves) * most + unlike * (most - residual)


def around_backward_s(x: Columns, device: Device) -> np.ndarray:
    """Seconds of what runs before and after the backward kernel.

    Σ dO·O of each row is taken first (reads both); dq is summed in fp32 and converted last (reads twice
    q's bytes, writes them once).
    """
    query_bytes = x["sequences"] * x["heads"] * x["group"] * x["queries"] * x["size"] * x["item_bytes"]
    share = device.constants("attention.around_share")
    return np.where(x["backward"] > 0, 5 * query_bytes / (device.memory_bytes_per_s * share), 0.0)


def turn_s(x: Columns, device: Device) -> np.ndarray:
    """Seconds of a kernel that turns q, or the result: it reads and writes all of it."""
    c = device.constants
    nbytes = 2.0 * x["sequences"] * x["heads"] * x["group"] * x["queries"] * x["size"] * 2.0
    start_s = c("attention.launch_s") + c("attention.turn_clocks") / device.clock_hz
    return start_s * device.factor["overhead"] + nbytes / _copy_rate(nbytes, device)


def _copy_rate(nbytes: np.ndarray, device: Device) -> np.ndarray:
    """Bytes a second of what one small kernel writes and the next reads: the last cache's where it holds them."""
    c = device.constants
    return np.where(
        2.0 * nbytes < device.cache_bytes,
        device.cache_bytes_per_s * c("attention.cache_share"),
        device.memory_bytes_per_s * c("attention.paged_share"),
    )


def merge_s(x: Columns, splits: np.ndarray, device: Device) -> np.ndarray:
    """Seconds of writing the parts' results in fp32 and reading them again, where there are several."""
    nbytes = 2.0 * splits * x["sequences"] * x["heads"] * x["group"] * x["queries"] * x["values"] * 4.0
    return np.where(splits > 1, nbytes / _copy_rate(nbytes, device), 0.0)


def kernel_count(x: Columns, splits: np.ndarray) -> np.ndarray:
    """How many kernels run."""
    serving = 1 + 1.0 + (splits > 1)  # storing keys and values, and joining
    return np.where(x["backward"] > 0, 3.0, np.where(x["serving"] > 0, serving, 1.0))


def overhead_s_of(x: Columns, splits: np.ndarray, device: Device) -> np.ndarray:
    """Seconds of starting the kernels that search for tiles' sequences, walk, and join `splits` parts."""
    c = device.constants
    searching = c("attention.serving_s") + c("attention.sequence_s") * x["sequences"]
    serving = np.where(x["planned"] > 0, c("attention.launch_s"), searching)
    launch = np.where(x["serving"] > 0, serving, c("attention.launch_s"))
    launch = np.where(x["backward"] > 0, 3 * c("attention.launch_s"), launch)
    launch = launch + c("attention.launch_clocks") / device.clock_hz
    join_clocks = c("attention.join_clocks") + c("attention.part_clocks") * splits
    join_s = c("attention.join_s") + join_clocks / device.clock_hz
    return (launch + np.where(splits > 1, join_s, 0.0)) * device.factor["overhead"]
