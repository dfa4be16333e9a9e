"""Host and device as two queues: an eager program is bound by whichever is longer, operation by operation."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class QueueTimes(NamedTuple):
    """When the device finishes each operation, and how long it waited for the host before.

    Attributes:
        finish_s: (operations, settings), from the host's first call.
        wait_s: (operations, settings); their sum and the device's own times make the total.
    """

    finish_s: np.ndarray
    wait_s: np.ndarray


def queue_times(host_s: np.ndarray, device_s: np.ndarray) -> QueueTimes:
    """The device runs operation i when it has done i − 1 and the host has dispatched i.

    finish_i = max(finish_{i−1}, Σ_{j≤i} host_j) + device_i.

    Args:
        host_s: host time of each operation, (operations,) or (operations, settings).
        device_s: device time of each, (operations, settings); 0 for one that launches nothing.
    """
    host_s = host_s if host_s.ndim > 1 else host_s[:, None]
    issued = np.cumsum(host_s, axis=0) * np.ones_like(device_s)
    done = np.cumsum(device_s, axis=0)
    # finish_i = done_i + max over j ≤ i of (issued_j − done_{j−1}), the j after which it never waited.
    # An operation that launches nothing makes the device wait for nothing.
    slack = np.where(device_s > 0, issued - (done - device_s), 0.0)
    latest = np.maximum.accumulate(slack, axis=0)
    wait = np.diff(latest, axis=0, prepend=0.0)
    return QueueTimes(done + latest, wait)
