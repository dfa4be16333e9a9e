"""Honest timing of a callable: warm-up, run length, interval; caches emptied, late results waited for."""

from rooflab.timing.calls import (
    CALIBRATED_RUN_S,
    Series,
    Timing,
    best_of,
    check_time_limit,
    time_call,
    time_once,
)

__all__ = ["CALIBRATED_RUN_S", "Series", "Timing", "best_of", "check_time_limit", "time_call", "time_once"]
