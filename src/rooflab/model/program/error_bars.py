"""Error bars of rows and programs: what a slower host or slower kernels would do to the time, through the queue.

Host and kernels are off by factors of their own, each with a lognormal spread. Which of the two binds decides
what such a factor costs: a faster host gains nothing where the kernels are the longer queue, a slower one may bind
there. So each is moved alone, the program is queued again, and what the two do adds as independent errors do.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rooflab.model.program import launch_queue

# Four of five measured times shall lie within the bars: 1.28 standard deviations each way of ln(time).
BAR_SIGMAS = 1.28


class Parts(NamedTuple):
    """What a program's time is made of, row by row.

    Attributes:
        host_s: of each row's calls.
        device_s: of each row's kernels.
        host_spread: standard deviation of ln(true / predicted) of host times: one, as all are slow together.
        device_spreads: the same of the kernels of each row.
        overlaps: whether the host runs ahead of the device; else it works itself, after each call.
    """

    host_s: np.ndarray
    device_s: np.ndarray
    host_spread: float
    device_spreads: np.ndarray
    overlaps: bool


class Bars(NamedTuple):
    """Seconds that hold the true time in about four of five cases, of each row or of a program."""

    low_s: np.ndarray
    high_s: np.ndarray


def bars_of_rows(parts: Parts) -> Bars:
    """Of each row by itself, its wait for the host included."""
    times_s = _moved(parts, np.exp(BAR_SIGMAS * parts.device_spreads))
    return _bars(times_s)


def bars_of_program(parts: Parts) -> Bars:
    """Of all rows one after the other.

    Rows of one program run a few sorts of kernels: what is wrong for one of a sort is for all, so errors add.
    """
    total_s = parts.device_s.sum()
    spread = np.where(
        total_s > 0, parts.device_spreads @ parts.device_s / np.where(total_s > 0, total_s, 1.0), 0.0
    )
    times_s = _moved(parts, np.ones_like(parts.device_s) * np.exp(BAR_SIGMAS * spread))
    return _bars(times_s.sum(axis=0, keepdims=True))


def _moved(parts: Parts, device_factors: np.ndarray) -> np.ndarray:
    """Rows' times as predicted, with a faster and a slower host, with faster and slower kernels: (rows, 5)."""
    slower = float(np.exp(BAR_SIGMAS * parts.host_spread))
    host_s = parts.host_s[:, None] * np.array([1.0, 1 / slower, slower, 1.0, 1.0])
    ones = np.ones_like(device_factors)
    device_s = parts.device_s[:, None] * np.stack([ones, ones, ones, 1 / device_factors, device_factors], axis=1)
    if not parts.overlaps:
        return host_s + device_s
    return device_s + launch_queue.queue_times(host_s, device_s).wait_s


def _bars(times_s: np.ndarray) -> Bars:
    """Bars from the times as predicted and moved, (n, 5)."""
    best_s = times_s[:, 0]
    # What takes no time has no bars. A row's wait may pass to another row: either move can be the longer.
    ratio = np.log(np.maximum(times_s, 1e-30) / np.maximum(best_s, 1e-30)[:, None])
    _, host, slower_host, device, slower_device = (ratio[:, place] for place in range(5))
    down = np.hypot(
        np.minimum(np.minimum(host, slower_host), 0.0), np.minimum(np.minimum(device, slower_device), 0.0)
    )
    up = np.hypot(
        np.maximum(np.maximum(host, slower_host), 0.0), np.maximum(np.maximum(device, slower_device), 0.0)
    )
    return Bars(best_s * np.exp(-down), best_s * np.exp(up))
