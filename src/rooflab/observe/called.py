"""A call made here again and again: warm, with cold caches, until it returns, and what else the machine did."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from rooflab.errors import RooflabError
from rooflab.timing import arguments, careful, device_events
from rooflab.timing.elsewhere import PAUSE_S, Elsewhere
from rooflab.timing.finish import Finish, leaves
from rooflab.timing.finish import finish as finish_of
from rooflab.types.timed_call import Surroundings
from rooflab.units import si

if TYPE_CHECKING:
    from rooflab.machines.bench.run.background_load import BackgroundLoad
    from rooflab.machines.detect import Host
    from rooflab.timing.careful import Blocks, WarmUp

FIRST = "calling it for the first time"  # what is told before that call, and before no other
COLD_S = 2.0  # of calls with cold caches
_RETURNS = 7  # calls whose return is timed apart from their end
_CACHE_BYTES = 32 * 2**20  # of the last cache, where the system does not say
_MOST_MEMORY = 0.5  # of what is free, to empty the caches with

Progress = Callable[[str, float, float], None]


class Taken(NamedTuple):
    """What was measured of a call.

    Attributes:
        first_s: of the very first one.
        warm_up, warm, cold: of the calls; `cold` None where there was none, `no_cold` then says why.
        moved: how many of the last warm blocks had their results elsewhere in memory.
        finish: what waits for its work; None where the call does it all.
        returns_s: until it returns, where that is before its end.
        empty_s: calling a function that does nothing; None where a device is the clock.
        first: arguments that the first call changed, `each` those that later calls change too.
        late: the framework whose arrays it was given, where it returned none that could be waited for; else "".
        surroundings: of it all.
        device: for people.
    """

    first_s: float
    warm_up: WarmUp
    warm: Blocks
    moved: int
    cold: Blocks | None
    no_cold: str
    finish: Finish | None
    returns_s: float | None
    empty_s: float | None
    first: tuple[str, ...]
    each: tuple[str, ...]
    late: str
    surroundings: Surroundings
    device: str


class _Call(NamedTuple):
    """What is called again and again, and on which device its work is done (None: the CPU)."""

    fn: Callable[..., Any]
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    device: Any

    def __call__(self) -> Any:
        return self.fn(*self.args, **self.kwargs)


class _Warm(NamedTuple):
    """How warm calls are timed: by which sampler, so many at a time, and what moves them between blocks."""

    sample: careful.Sample
    per_sample: int
    elsewhere: Elsewhere | None
    tell: Progress
    clock: Callable[[], float]

    def blocks(self, count: int, limit_s: float, begins: float, *, moved: bool = False) -> Blocks:
        """So many blocks at most, within the limit; `begins` is the share of all that is done."""
        return careful.blocks(
            self.sample,
            self.per_sample,
            count=count,
            limit_s=limit_s,
            move=self.elsewhere if moved else None,
            tell=lambda done: self.tell("timing warm calls", begins + 0.35 * done, 1.0),
            clock=self.clock,
        )


class _Limit:
    """What is left of the time that all of it may take."""

    def __init__(self, limit_s: float, clock: Callable[[], float]) -> None:
        self._end, self._clock = clock() + limit_s, clock

    @property
    def rest_s(self) -> float:
        return max(0.0, self._end - self._clock())


def taken(
    fn: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    *,
    name: str,
    host: Host,
    device: Any = None,
    cold: bool = True,
    limit_s: float = 60.0,
    tell: Progress = lambda what, done, total: None,
    clock: Callable[[], float] = time.perf_counter,
) -> Taken:
    """`fn(*args, **kwargs)` timed with warm caches, then with cold ones.

    Args:
        fn, args, kwargs: what is called; `arguments.check` has passed them.
        name: of it, for errors.
        host: what `detect` returned.
        device: of PyTorch, where a GPU does the work.
        cold: whether it is timed with cold caches too.
        limit_s: of all of it.
        tell: called with what is done, how far, and the total.
        clock: returns seconds.

    Raises:
        RooflabError: a call of more than half of `limit_s`, a result of which nothing was computed.
    """
    from rooflab.machines.bench.run import background_load
    from rooflab.machines.bench.run.core_clock import core_clock

    call = _Call(fn, args, kwargs, device)
    cpus = host.allowed_cpus
    with core_clock(cpus[0]) as clock_hz:
        clocks_hz, load, limit = [clock_hz()], background_load.cpu_time(cpus), _Limit(limit_s, clock)
        tell(FIRST, 0.0, 1.0)
        first = _first(call, name, limit_s, clock)
        tell("warming up", 0.0, 1.0)
        if first.seconds > limit_s / 2:
            raise RooflabError(
                f"{name}: one call took {first.seconds:.3g} s, too long for the limit of {limit_s:g} "
                f"s: give it less to do, or a limit of {2 * careful.FEWEST * first.seconds:.0f} s"
            )
        wait = None if first.finish is None or device is not None else first.finish.wait
        if device is None:
            sample = careful.sampler(fn, args, kwargs, wait, clock)
        else:
            sample = device_events.event_sampler(call, device)
        sample(1)
        each = arguments.changed(first.left, arguments.contents(args, kwargs))
        warm_up = careful.warm_up(sample, most_s=min(careful.WARM_S, limit.rest_s / 4), clock=clock)
        elsewhere = None
        if device is None and warm_up.last_s[-1] < careful.BLOCK_S:
            elsewhere = Elsewhere(call, warm_up.last_s[-1], keeps=wait is None and not each)
        timing = _Warm(sample, warm_up.per_sample, elsewhere, tell, clock)
        # Those with results elsewhere after the cold ones: the longer the time that all are spread over, the more
        # is seen of what changes from run to run.
        as_is = careful.BLOCKS - (careful.MOVED if cold or elsewhere is not None else 0)
        moved = 0
        warm = timing.blocks(as_is, limit.rest_s / (2 if cold else 1), 0.05)
        returns_s = _returns_s(call, first.finish, warm.median_s, clock)
        found, no_cold = None, ""
        if cold:
            tell("timing calls with cold caches", 0.4, 1.0)
            found, no_cold = _cold(call, wait, host, warm.median_s, limit, clock)
        if len(warm.blocks) == as_is < careful.BLOCKS and limit.rest_s > 2 * careful.MOVED * (
            careful.BLOCK_S + PAUSE_S
        ):
            if found is not None:
                careful.block(sample, warm_up.per_sample, careful.BLOCK_S / 2, clock)  # warm again
            later = timing.blocks(careful.MOVED, limit.rest_s, 0.65, moved=True)
            warm = careful.Blocks((*warm.blocks, *later.blocks))
            moved = 0 if elsewhere is None else len(later.blocks)
        clocks_hz.append(clock_hz())
    load = background_load.background_load(load, background_load.cpu_time(cpus), len(cpus))
    nothing = _nothing_named if kwargs else _nothing
    empty = careful.block(careful.sampler(nothing, args, kwargs, None, clock), 2000, 0.01, clock)
    return Taken(
        first_s=first.seconds,
        warm_up=warm_up,
        warm=warm,
        moved=moved,
        cold=found,
        no_cold=no_cold,
        finish=first.finish,
        returns_s=returns_s,
        empty_s=empty.median_s if device is None else None,
        first=first.changed,
        each=each,
        late=first.late,
        surroundings=_surroundings(len(cpus), clocks_hz, load),
        device="CPU" if device is None else _name_of(device),
    )


class _First(NamedTuple):
    """The first call: its seconds, what its result needs, the arguments that it changed and how it left them."""

    seconds: float
    finish: Finish | None
    changed: tuple[str, ...]
    left: dict[str, object]
    late: str


def _first(call: _Call, name: str, limit_s: float, clock: Callable[[], float]) -> _First:
    before = arguments.contents(call.args, call.kwargs)
    start = clock()
    out = call()
    finish = finish_of(out, name, limit_s)
    if call.device is not None:
        device_events.wait(call.device)
    seconds = clock() - start
    late = _late(call, out) if finish is None and call.device is None else ""
    left = arguments.contents(call.args, call.kwargs)
    return _First(seconds, finish, arguments.changed(before, left), left, late)


def _late(call: _Call, out: Any) -> str:
    """The framework whose work may go on after the call: it got arrays of it, and returned nothing to wait for."""
    given = {type(leaf).__module__.partition(".")[0] for leaf in leaves((call.args, dict(call.kwargs)), 4)}
    for library, says in (("jaxlib", "JAX"), ("jax", "JAX"), ("tinygrad", "tinygrad")):
        if library in given:
            return says
    return ""


def _returns_s(call: _Call, finish: Finish | None, median_s: float, clock: Callable[[], float]) -> float | None:
    """Until the call returns, where its work is done later; None where it is done then."""
    if finish is None:
        return None
    each = []
    for _ in range(_RETURNS if median_s < 1 else 1):
        start = clock()
        out = call()
        each.append(clock() - start)
        finish.wait(out)
    return statistics.median(each)


def _cold(
    call: _Call,
    wait: Callable[[Any], object] | None,
    host: Host,
    median_s: float,
    limit: _Limit,
    clock: Callable[[], float],
) -> tuple[Blocks | None, str]:
    """Calls with cold caches; or None, and why there are none."""
    if limit.rest_s < 2 * median_s:
        return None, "cold caches: not timed, the limit is reached"
    if call.device is not None:
        return device_events.cold_blocks(call, call.device, span_s=COLD_S, limit_s=limit.rest_s, clock=clock), ""
    from rooflab.timing.flush import Flusher, cold_blocks

    flusher = Flusher(cache_bytes(host), host.allowed_cpus)
    free = host.memory_available_bytes
    if free is not None and flusher.nbytes > _MOST_MEMORY * free:
        return None, (
            f"cold caches: not timed, emptying them takes {si(flusher.nbytes, 'B')}, more than half of the memory "
            "that is free"
        )
    with flusher as flush:

        def finished() -> None:
            out = call()
            if wait is not None:
                wait(out)

        return cold_blocks(finished, flush, span_s=COLD_S, limit_s=limit.rest_s, clock=clock), ""


def cache_bytes(host: Host) -> float:
    """Of the last cache as the system reports it; 32 MiB where it does not."""
    from rooflab.machines.detect.caches import reported_cache

    found = [reported_cache(host, level) for level in (1, 2, 3, 4)]
    sizes = [one.capacity_bytes * one.instances for one in found if one is not None and one.capacity_bytes]
    return float(max(sizes, default=0) or _CACHE_BYTES)


def _surroundings(cpus: int, clocks_hz: list[float], load: BackgroundLoad | None) -> Surroundings:
    torch = sys.modules.get("torch")
    threads = {} if torch is None else {"torch": int(torch.get_num_threads())}
    if "threadpoolctl" in sys.modules or "numpy" in sys.modules:
        from threadpoolctl import threadpool_info

        for pool in threadpool_info():
            if pool.get("user_api") == "blas":
                threads.setdefault(str(pool.get("internal_api")), int(pool["num_threads"]))
    return Surroundings(
        cpus=cpus,
        clock_before_hz=clocks_hz[0],
        clock_after_hz=clocks_hz[1],
        others_share=None if load is None else load.others,
        stolen_share=None if load is None else load.stolen,
        threads=threads,
    )


def _name_of(device: Any) -> str:
    torch: Any = sys.modules["torch"]
    return f"{device} ({torch.cuda.get_device_name(device)})"


def _nothing(*_: Any) -> None:
    """What a call costs that does nothing."""


def _nothing_named(*_: Any, **__: Any) -> None:
    """The same with keywords."""
