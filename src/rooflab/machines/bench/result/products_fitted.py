"""From timed products to constants: for each routine, format and number of threads the sum of terms that fits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from rooflab.machines import products
from rooflab.machines.bench.experiments.products import DTYPES, TimedLibrary, TimedProduct
from rooflab.machines.products import BATCHED, Shapes
from rooflab.types.measured import Products, Tail
from rooflab.types.source import Source

# Rows and columns of the tiles that the innermost loops of OpenBLAS, MKL and BLIS compute.
_TILE_ROWS, _TILE_COLUMNS = (4, 6, 8, 16), (4, 8, 16, 24, 32)
_TAILS: tuple[Tail, ...] = ("halves", "masked")
_PRODUCTS = (products.PRODUCT, products.BATCHED)
_USUAL_ROWS = 8
# Multiply-adds above which a library may take more than one thread.
_TEAM_FROM = (0.0, *(2.0**power for power in range(12, 23)))
# Fewer shapes than this leave the terms open.
LEAST_SAMPLES = 8
_PASSES, _QUICK_PASSES = 6, 3
# Residuals below this share are noise of the timing: all such rows weigh the same.
_NOISE = 0.03
# Half the width of the interval that holds four of five of a normal distribution, in standard deviations.
_FOUR_OF_FIVE = 1.2816
_LEAST_SPREAD = 0.05
_DRAWN = 0.3
# A term below this share of the time has no likely value.
_SEEN = 0.003


class _Form(NamedTuple):
    """What the terms are made of: see `Products`."""

    tile: tuple[int, int]
    tail: Tail
    cache_bytes: tuple[float, float]


class _Fit(NamedTuple):
    """Constants of the terms, and how far they miss."""

    terms: dict[str, float]
    form: _Form
    loss: float


class _Timed(NamedTuple):
    """Shapes with their seconds."""

    x: Shapes
    seconds: np.ndarray

    def at(self, which: np.ndarray) -> _Timed:
        """Those rows."""
        return _Timed(Shapes(*(column[which] for column in self.x)), self.seconds[which])


def fitted(
    library: TimedLibrary,
    caches: Sequence[tuple[float, float]],
    source: Source,
    most: Mapping[str, float] | None = None,
) -> Iterator[Products]:
    """The constants of everything that was timed often enough.

    Args:
        caches: what a core's own caches and what all caches may hold, in bytes; the pair that fits best is taken.
        most: by term, the seconds that it cannot exceed: where few products tell it from others, noise would.
    """
    limits = dict(most or {})
    groups: dict[tuple[str, str, int], list[TimedProduct]] = {}
    for each in library.timed:
        routine = products.routine_of(library.name, each.batch, each.m, each.n)
        groups.setdefault((routine, each.dtype, each.threads), []).append(each)
    alone: dict[tuple[str, str], _Fit] = {}
    for (routine, dtype, threads), listed in sorted(groups.items(), key=lambda item: item[0][2]):
        if len(listed) < LEAST_SAMPLES:
            continue
        timed = _columns(listed, dtype)
        if threads == 1 or (routine, dtype) not in alone:
            fit = alone[routine, dtype] = _best(routine, timed, caches, limits)
            team_from, error, spread = 0.0, *_judged(routine, timed, fit, None, 0.0, limits)
        else:
            found = _teamed(routine, timed, alone[routine, dtype], threads, limits)
            if found is None:
                continue
            fit, team_from = found
            error, spread = _judged(routine, timed, fit, alone[routine, dtype], team_from, limits)
        multiply_add_s = fit.terms.get("multiply_add_s")
        yield Products(
            library=library.name,
            version=library.version,
            blas=library.blas,
            kernels=library.kernels,
            routine=routine,
            dtype=dtype,
            threads=threads,
            terms=fit.terms,
            tile=fit.form.tile,
            tail=fit.form.tail,
            team_from=team_from,
            cache_bytes=fit.form.cache_bytes,
            flop_per_s=2 / multiply_add_s if multiply_add_s else None,
            error=error,
            spread=spread,
            samples=len(listed),
            environment=library.environment,
            source=source,
        )


def _columns(listed: Sequence[TimedProduct], dtype: str) -> _Timed:
    shapes = [(each.batch, each.m, each.n, each.k) for each in listed]
    seconds = np.array([max(each.seconds, 1e-9) for each in listed])
    return _Timed(products.shapes_of(shapes, DTYPES[dtype]), seconds)


def _best(routine: str, timed: _Timed, caches: Sequence[tuple[float, float]], most: Mapping[str, float]) -> _Fit:
    """The tile, the way its rest is computed and the caches whose terms fit best: one after the other."""

    def best(tiles: Sequence[tuple[int, int]], tail: Tail, pairs: Sequence[tuple[float, float]]) -> _Fit:
        passes = _PASSES if len(tiles) == 1 else _QUICK_PASSES
        return min(
            (_fit(routine, timed, _Form(tile, tail, pair), passes, most) for tile in tiles for pair in pairs),
            key=_loss,
        )

    if routine not in _PRODUCTS:
        return best([(1, 1)], "masked", caches)
    kept: list[_Fit] = []
    for tail in _TAILS:
        wide = best([(_USUAL_ROWS, each) for each in _TILE_COLUMNS], tail, caches[:1])
        kept.append(best([(each, wide.form.tile[1]) for each in _TILE_ROWS], tail, caches[:1]))
    first = min(kept, key=_loss).form
    return best([first.tile], first.tail, caches)


def _loss(fit: _Fit) -> float:
    return fit.loss


def _teamed(
    routine: str, timed: _Timed, alone: _Fit, threads: int, most: Mapping[str, float]
) -> tuple[_Fit, float] | None:
    """Terms of several threads, and the multiply-adds from which on they are taken: what fits best.

    None where too few products are so large.
    """
    work = _work(routine, timed.x)
    single = _predicted(routine, timed.x, alone)
    likely = _shared(alone.terms, threads)
    best: tuple[float, _Fit, float] | None = None
    for limit in _TEAM_FROM:
        above = work > limit
        if above.sum() < LEAST_SAMPLES:
            break
        fit = _fit(routine, timed.at(above), alone.form, _QUICK_PASSES, most, likely)
        whole = np.where(above, _predicted(routine, timed.x, fit), single)
        loss = _mean_loss(whole, timed.seconds)
        if best is None or loss < best[0]:
            best = (loss, fit, limit)
    return None if best is None else best[1:]


def _shared(terms: Mapping[str, float], threads: int) -> dict[str, float]:
    """The terms that several threads would have if they shared the work of one evenly."""
    calls = products.CALLING
    return {name: value if name in calls else value / threads for name, value in terms.items()}


def _work(routine: str, x: Shapes) -> np.ndarray:
    return x.multiply_adds * (x.batch if routine == BATCHED else 1.0)


def _predicted(routine: str, x: Shapes, fit: _Fit) -> np.ndarray:
    columns = products.terms(routine, x, *fit.form)
    return sum((fit.terms.get(name, 0.0) * column for name, column in columns.items()), np.zeros_like(x.m))


def _mean_loss(predicted: np.ndarray, seconds: np.ndarray) -> float:
    """Mean root of the relative error: few large misses count little, as another program causes them."""
    return float(np.mean(np.sqrt(np.abs(predicted / seconds - 1))))


def _fit(
    routine: str,
    timed: _Timed,
    form: _Form,
    passes: int,
    most: Mapping[str, float],
    likely: Mapping[str, float] | None = None,
) -> _Fit:
    """Constants, none negative, by least squares of the relative error, weighted anew so that outliers count less.

    A term whose column is empty (no working set was beyond a cache) is left out: it is not known. Where `likely`
    values are given, a term that the products say little of stays near its own.
    """
    columns = products.terms(routine, timed.x, *form)
    names = [name for name in products.term_names(routine) if columns[name].any()]
    scale = np.array([columns[name].max() for name in names])
    relative = np.stack([columns[name] for name in names], 1) / scale / timed.seconds[:, None]
    limits = np.array([most.get(name, np.inf) for name in names]) * scale
    near = np.array([(likely or {}).get(name, 0.0) for name in names]) * scale
    drawn = _drawn(np.where(near * relative.mean(0) > _SEEN, near, 0.0))
    weights = np.ones_like(timed.seconds)
    found = np.zeros(len(names))
    for _ in range(passes):
        rows = np.vstack([relative * weights[:, None], drawn])
        wanted = np.concatenate([weights, np.full(len(drawn), _DRAWN)])
        found = _limited(rows, wanted, limits)
        weights = 1 / np.sqrt(np.maximum(np.abs(relative @ found - 1), _NOISE))
    loss = _mean_loss(relative @ found, np.ones_like(weights))
    terms = {name: float(value) for name, value in zip(names, found / scale, strict=True)}
    return _Fit(terms, form, loss)


def _drawn(likely: np.ndarray) -> np.ndarray:
    """Rows that draw each term to its likely value: twice that is as wrong as a product missed by `_DRAWN`."""
    return _DRAWN * np.diag(1 / np.where(likely > 0, likely, 1.0))[likely > 0]


def _limited(columns: np.ndarray, wanted: np.ndarray, limits: np.ndarray) -> np.ndarray:
    """`nonnegative` with no value above its limit: those beyond are set to it, and the others found again."""
    held = np.zeros(len(limits), bool)
    while True:
        rest = wanted - columns[:, held] @ limits[held]
        x = np.where(held, limits, 0.0)
        x[~held] = nonnegative(columns[:, ~held], rest)
        over = (x > limits) & ~held
        if not over.any():
            return x
        held |= over


def nonnegative(columns: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """The x ≥ 0 with the least |columns · x − wanted|² (Lawson and Hanson, Solving Least Squares Problems)."""
    count = columns.shape[1]
    lengths = np.maximum(np.linalg.norm(columns, axis=0), 1e-300)
    columns = columns / lengths
    gram, target = columns.T @ columns, columns.T @ wanted
    free, x = np.zeros(count, bool), np.zeros(count)
    for _ in range(3 * count):
        gain = np.where(free, -np.inf, target - gram @ x)
        if gain.max() <= 1e-9 * max(1.0, float(np.abs(target).max())):
            break
        free[int(gain.argmax())] = True
        while True:
            step = np.zeros(count)
            step[free] = np.linalg.lstsq(gram[np.ix_(free, free)], target[free], rcond=None)[0]
            if (step[free] > 0).all():
                x = step
                break
            low = free & (step <= 0)
            reach = np.min(x[low] / np.maximum(x[low] - step[low], 1e-300))
            x = x + reach * (step - x)
            free &= x > 1e-14
            x[~free] = 0.0
            if not free.any():
                break
    return x / lengths


def _judged(
    routine: str, timed: _Timed, fit: _Fit, alone: _Fit | None, team_from: float, most: Mapping[str, float]
) -> tuple[float, float]:
    """Error and spread on products that the terms had not seen: each half predicted by a fit to the other."""
    above = _work(routine, timed.x) > team_from if alone is not None else np.ones(len(timed.seconds), bool)
    ratios = []
    for odd in (0, 1):
        held = np.arange(len(timed.seconds)) % 2 == odd
        learned = timed.at(above & ~held)
        half = fit
        if len(learned.seconds) >= LEAST_SAMPLES // 2:
            half = _fit(routine, learned, fit.form, _QUICK_PASSES, most, fit.terms if alone else None)
        seen = timed.at(held)
        predicted = _predicted(routine, seen.x, half)
        if alone is not None:
            predicted = np.where(above[held], predicted, _predicted(routine, seen.x, alone))
        ratios.append(np.maximum(predicted, 1e-12) / seen.seconds)
    ratio = np.concatenate(ratios)
    error = float(np.median(np.abs(ratio - 1)))
    # A fit to half of the products knows less than that to all, which in turn is too sure of those that it saw.
    whole = np.where(above, _predicted(routine, timed.x, fit), _predicted(routine, timed.x, alone or fit))
    missed = [float(np.quantile(np.abs(np.log(each)), 0.8)) for each in (ratio, whole / timed.seconds)]
    spread = (missed[0] * missed[1]) ** 0.5 / _FOUR_OF_FIVE
    return error, max(spread, _LEAST_SPREAD)
