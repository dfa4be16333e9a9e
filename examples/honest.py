"""What each wrong way of timing reports, beside a careful one: `python examples/honest.py`, or `… no-warm-up`."""

from __future__ import annotations

import importlib.util
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

import rooflab
from rooflab.units import duration, si

LIMIT_S = 1.5  # of each careful timing


class Way(NamedTuple):
    """A wrong way of timing.

    Attributes:
        name: of it.
        what: was timed.
        reported_s: what it says one call takes.
        careful_s: what one call takes.
        more: beside the times.
    """

    name: str
    what: str
    reported_s: float
    careful_s: float
    more: str = ""

    def __str__(self) -> str:
        return (
            f"{self.name}: {self.what}\n"
            f"  reports {duration(self.reported_s)}; careful {duration(self.careful_s)}; "
            f"{_times(self.reported_s / self.careful_s)}{self.more}"
        )


def _times(ratio: float) -> str:
    much = ratio if ratio >= 1 else 1 / ratio
    return f"{much:,.{0 if much >= 10 else 1}f} times too {'long' if ratio >= 1 else 'short'}"


def once(call: Callable[[], Any]) -> float:
    """Seconds of one call by the clock: all that the wrong ways know."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def careful(call: Callable[..., Any], *args: Any, cold: bool = False) -> rooflab.TimedCall:
    """The same timed with care."""
    return rooflab.time(call, *args, cold=cold, limit_s=LIMIT_S)


def no_warm_up() -> Way:
    """The first call compiles."""
    from numba import njit

    @njit
    def squares(a: np.ndarray) -> float:
        total = 0.0
        for x in a:
            total += x * x
        return total

    a = np.ones(100_000)
    first_s = once(lambda: squares(a))
    return Way("no warm-up", "the first call of a loop that numba compiles", first_s, careful(squares, a).time_s)


def no_synchronisation() -> Way:
    """The call only queues the work."""
    if importlib.util.find_spec("jax") is None:
        a = np.ones(20_000_000)
        with ThreadPoolExecutor(1) as queue:
            queue.submit(int).result()  # the thread is there
            returned_s = once(lambda: queue.submit(a.sum))
            return Way("no synchronisation", "a sum in another thread", returned_s, careful(a.sum).time_s)
    import jax

    x = jax.numpy.ones((600, 600))
    product = jax.jit(lambda x: x @ x @ x)
    product(x).block_until_ready()
    returned_s = min(once(lambda: product(x)) for _ in range(3))
    return Way("no synchronisation", "two products of matrices in JAX", returned_s, careful(product, x).time_s)


def lazy_evaluation() -> Way:
    """The call only says what is to be computed."""
    data = range(100_000)

    def squares() -> Any:
        return (x * x for x in data)

    squares()
    return Way("lazy evaluation", "a generator of 100,000 squares", once(squares), careful(squares).time_s)


def one_repeat() -> Way:
    """One timing is any of many."""
    a = np.ones(10_000)
    timed = careful(np.exp, a)
    each = sorted(once(lambda: np.exp(a)) for _ in range(2000))
    more = f"\n  2,000 timings of one call lie from {duration(each[0])} to {duration(each[-1])}"
    low, high = timed.warm.low_s or timed.time_s, timed.warm.high_s or timed.time_s
    more += f"; careful medians from {duration(low)} to {duration(high)}"
    return Way(
        "one repeat", "exp of 10,000 numbers, the slowest of 2,000 single timings", each[-1], timed.time_s, more
    )


def cached_data() -> Way:
    """The same small arrays again and again are in a cache."""
    a, b, out = (np.ones(10_000) for _ in range(3))
    timed = careful(np.add, a, b, out, cold=True)
    cold_s = timed.cold.median_s if timed.cold is not None else timed.time_s
    rates = [si(3 * a.nbytes / seconds, "B/s") for seconds in (timed.time_s, cold_s)]
    more = f"\n  {rates[0]} is a cache's bandwidth; with cold caches it is {rates[1]}"
    return Way("cached data", "240 kB added, as if they came from memory", timed.time_s, cold_s, more)


def changed_data() -> Way:
    """Later calls find what the first one left."""
    numbers = np.random.default_rng(1).random(20_000).tolist()
    mine = numbers.copy()
    mine.sort()
    again_s = min(once(mine.sort) for _ in range(20))
    return Way(
        "changed data",
        "sorting in place a list that the last call sorted",
        again_s,
        careful(sorted, numbers).time_s,
    )


def dead_code() -> Way:
    """A compiler leaves out what nobody uses."""
    from numba import njit

    @njit
    def unused(a: np.ndarray) -> float:
        total = 0.0
        for x in a:
            total += x * x
        return 0.0

    @njit
    def used(a: np.ndarray) -> float:
        total = 0.0
        for x in a:
            total += x * x
        return total

    a = np.ones(1_000_000)
    unused(a)
    reported_s = min(once(lambda: unused(a)) for _ in range(20))
    return Way(
        "dead code",
        "a compiled sum of 1,000,000 squares that is not returned",
        reported_s,
        careful(used, a).time_s,
    )


WAYS = (
    no_warm_up,
    no_synchronisation,
    lazy_evaluation,
    one_repeat,
    cached_data,
    changed_data,
    dead_code,
)


def main(names: list[str]) -> int:
    """Print the ways that are named, all without any."""
    known = {way.__name__.replace("_", "-"): way for way in WAYS}
    for name in names:
        if name not in known:
            print(f"unknown way {name!r}; known: {', '.join(known)}", file=sys.stderr)
            return 2
    for name in names or known:
        print(known[name]())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
