"""Helpers that loops of other modules call: compiled by their author, and plain."""

from __future__ import annotations

import numba
from numba.experimental import jitclass


@numba.njit
def squared(x):
    """3 FLOP as it is written; one less where it is optimised."""
    return (x + 1.0) * (x + 1.0)


@numba.njit(cache=True)
def kept(x):
    """Its author keeps it on disk."""
    return x * 3.0


@numba.vectorize
def each(x):
    return squared(x) if x > 0.5 else 0.0


def plain(x):
    return squared(x) - 1.0


@jitclass([("at", numba.float64)])
class Walker:
    def __init__(self, at):
        self.at = at

    def step(self, by):
        self.at += by * 0.5
